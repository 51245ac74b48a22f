# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rank supervisor: owns the training processes of one node for one attempt of one job.

This file is copied into the job's directory and run there as C(python3 supervisor.py DIRECTORY), in the container
or on the host. It must therefore work alone: standard library only, Python 3.8 or newer.

    supervisor ── holds the lock, writes status.json, takes SIGTERM as "stop"
      └─ guard ── adopts every orphan of the trainer; ends them all when the supervisor is gone
           └─ trainer ── in a session of its own, output straight to output.log
"""

from __future__ import annotations

import ctypes
import datetime
import errno
import fcntl
import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

SCHEMA = 1

#: Seconds between SIGTERM and SIGKILL for what is left of a tree whose owner is gone.
ORPHAN_GRACE = 2.0
#: Seconds that processes which the trainer left behind get after SIGTERM.
LEFTOVER_GRACE = 5.0
#: Seconds of repeated SIGKILL before a process counts as impossible to end.
KILL_SECONDS = 20.0
#: Somebody who asks whether the lock is held may hold it for an instant.
LOCK_SECONDS = 3.0
LOCKED_OUT = 75
#: Seconds for which the final status is tried again where it cannot be written (a full disk), and the pause between.
WRITE_SECONDS = 30.0
WRITE_PAUSE = 1.0
#: Open files that a trainer may have. Where the kernel has no limit, programs that go through all numbers would hang.
OPEN_FILES = 1048576

_POLL = 0.05
_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD})
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(arguments: Sequence[str]) -> int:
    """Run as a program: C([--detach] DIRECTORY)."""
    directory = arguments[-1]
    if arguments[0] == "--detach" and os.fork():
        return 0
    _redirect(os.path.join(directory, "supervisor.log"))
    try:
        return supervise(directory)
    except Exception:
        log(traceback.format_exc())
        return 1


def supervise(directory: str) -> int:
    """Own one attempt from its start to its final status. Returns the exit code of the supervisor itself."""
    lock = take_lock(os.path.join(directory, "lock"))
    if lock is None:
        log("another supervisor of this job holds the lock: nothing was started")
        return LOCKED_OUT
    spec = read_json(os.path.join(directory, "spec.json"))
    _set_signals()
    status: dict[str, Any] = {
        "schema": SCHEMA,
        "state": "starting",
        "attempt": spec["attempt"],
        "pid": os.getpid(),
        "trainer_pid": None,
        "started_at": now(),
        "ended_at": None,
        "returncode": None,
        "signal": None,
        "reason": "",
    }
    try:
        _write_status(directory, status)
        status.update(_attempt(directory, spec, lock, status))
    finally:
        _remove(os.path.join(directory, "secrets.json"))
    status["ended_at"] = status["ended_at"] or now()
    _write_final_status(directory, status)
    log(f"attempt {spec['attempt']} ended: {status['state']} ({status['reason']})")
    return 0


def _attempt(directory: str, spec: Mapping[str, Any], lock: int, status: dict[str, Any]) -> dict[str, Any]:
    """Start guard and trainer, wait for their end, and say how it was."""
    environment = trainer_environment(spec, os.environ, _secrets(directory, spec))
    log(f"attempt {spec['attempt']}: {' '.join(spec['argv'])}")
    reports, guard_end = os.pipe()
    supervisor_pid = os.getpid()
    guard_pid = os.fork()
    if guard_pid == 0:
        os.close(lock)  # a lock belongs to the open file: the guard must not keep it alive
        os.close(reports)
        os._exit(_guard_main(directory, spec, environment, guard_end, supervisor_pid))
    os.close(guard_end)
    with os.fdopen(reports, encoding="utf-8") as lines:
        first = _report(lines.readline())
        written = True
        if "trainer_pid" in first:
            status.update(state="running", trainer_pid=first["trainer_pid"])
            written = _status_written(directory, status)
        guard_end_status = _await_guard(
            guard_pid, directory, spec, lambda: written or _status_written(directory, status)
        )
        last = _report(lines.read()) or first
    left = end_tree(lambda: ORPHAN_GRACE)
    return outcome(last, guard_end_status, left)


def _await_guard(guard_pid: int, directory: str, spec: Mapping[str, Any], written: Callable[[], bool]) -> int:
    """Wait until the guard has ended, passing a request to stop on to it. Returns its wait status.

    C(written) is asked until it says yes: a status that had no room on the disk is tried again.
    """
    deadline: float | None = None
    settled = written()
    while True:
        ended = _reaped(guard_pid)
        if ended is not None:
            return ended
        if not settled and deadline is None:
            caught = _wait_signal(WRITE_PAUSE)
            if caught is None:
                settled = written()
                continue
        else:
            caught = _wait_signal(None if deadline is None else max(0.0, deadline - time.monotonic()))
        if caught == signal.SIGTERM and deadline is None:
            deadline = time.monotonic() + stop_grace(directory, spec) + KILL_SECONDS + 5
            log("asked to stop")
            os.kill(guard_pid, signal.SIGTERM)
        elif caught is None:
            log("the guard does not end: killing it")
            os.kill(guard_pid, signal.SIGKILL)
            deadline = time.monotonic() + KILL_SECONDS


def outcome(report: Mapping[str, Any], guard_status: int, left: Sequence[int]) -> dict[str, Any]:
    """The final part of the status, from what the guard reported and how it ended."""
    result: dict[str, Any] = {"returncode": None, "signal": None, "ended_at": report.get("ended_at")}
    if "error" in report:
        result.update(state="failed", reason=report["error"])
    elif "exit" in report:
        result.update(_ended(report["exit"], bool(report["stopped"])))
    else:
        ended = _how_it_ended(guard_status)
        result.update(state="failed", reason=f"the guard process {ended}; the training processes below it were ended")
    unkillable = [*report.get("left", ()), *left]
    if unkillable:
        result["reason"] += f"; still there after SIGKILL: {', '.join(str(pid) for pid in unkillable)}"
    return result


def _ended(wait_status: int, stopped: bool) -> dict[str, Any]:
    number = os.WTERMSIG(wait_status) if os.WIFSIGNALED(wait_status) else None
    code = None if number is not None else os.WEXITSTATUS(wait_status)
    how = f"the trainer {_how_it_ended(wait_status)}"
    if stopped:
        return {"state": "stopped", "returncode": code, "signal": number, "reason": f"stopped on request; {how}"}
    return {"state": "finished" if code == 0 else "failed", "returncode": code, "signal": number, "reason": how}


def _how_it_ended(wait_status: int) -> str:
    if os.WIFSIGNALED(wait_status):
        number = os.WTERMSIG(wait_status)
        return f"was killed by signal {number} ({signal_name(number)})"
    return f"ended with exit code {os.WEXITSTATUS(wait_status)}"


def signal_name(number: int) -> str:
    """C(SIGKILL) for 9; the number itself where there is no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


# --- guard ----------------------------------------------------------------------------------------------------------


def _guard_main(directory: str, spec: Mapping[str, Any], environment: dict[str, str], reports: int, parent: int) -> int:
    try:
        return guard(directory, spec, environment, reports, parent)
    except Exception:
        log(traceback.format_exc())
        return 1


def guard(directory: str, spec: Mapping[str, Any], environment: dict[str, str], reports: int, parent: int) -> int:
    """Start the trainer, wait for its end or a request to stop, and leave no descendant behind."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    _raise_open_files()
    try:
        trainer = spawn(directory, spec, environment)
    except (OSError, ValueError) as exc:
        tell(reports, {"error": f"the trainer could not be started: {not_started(exc, spec)}", "ended_at": now()})
        return 0
    tell(reports, {"trainer_pid": trainer})
    stopped = False
    status: int | None = None
    while status is None and not stopped:
        stopped = _wait_signal(None if os.getppid() == parent else 0.0) in (signal.SIGTERM, None)
        status = _reaped(trainer)
    if status is not None:
        stopped = False
    orphaned = os.getppid() != parent

    def grace() -> float:
        if status is not None:
            return LEFTOVER_GRACE
        return ORPHAN_GRACE if orphaned else stop_grace(directory, spec)

    statuses: dict[int, int] = {} if status is None else {trainer: status}
    ended_at = now()
    left = end_tree(grace, hurry=lambda: os.getppid() != parent, statuses=statuses)
    tell(
        reports, {"exit": statuses.get(trainer, signal.SIGKILL), "stopped": stopped, "left": left, "ended_at": ended_at}
    )
    return 0


def not_started(exc: OSError | ValueError, spec: Mapping[str, Any]) -> str:
    """Why the trainer could not be started: a path that is in the way, or a word that no process can be given."""
    if isinstance(exc, OSError):
        return f"{exc.strerror}: {exc.filename or spec['argv'][0]}"
    return f"an argument or an environment variable cannot be passed on ({exc})"


def spawn(directory: str, spec: Mapping[str, Any], environment: dict[str, str]) -> int:
    """Start the trainer in a session of its own with its output appended to output.log. Returns its pid."""
    program = shutil.which(spec["argv"][0], path=environment.get("PATH", os.defpath))
    if program is None:
        raise FileNotFoundError(errno.ENOENT, "not found or not executable")
    if spec.get("cwd"):
        os.chdir(spec["cwd"])
    output = os.path.join(directory, "output.log")
    return os.posix_spawn(
        program,
        list(spec["argv"]),
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, *_SIGNALS],
    )


def stop_grace(directory: str, spec: Mapping[str, Any]) -> float:
    """Seconds between SIGTERM and SIGKILL: what the one who stops the job left in stop.json, else the job's own."""
    try:
        return float(read_json(os.path.join(directory, "stop.json"))["grace"])
    except (OSError, ValueError, KeyError, TypeError):
        return float(spec.get("stop_grace", 30))


# --- processes ------------------------------------------------------------------------------------------------------


def end_tree(
    grace: Callable[[], float],
    hurry: Callable[[], bool] = lambda: False,
    statuses: dict[int, int] | None = None,
) -> list[int]:
    """End all descendants of this process: SIGTERM, after the grace SIGKILL, until /proc shows none.

    The grace is asked for again and again: somebody may be in more of a hurry than the one who stopped the job first.
    Returns the pids that outlived SIGKILL (a process stuck in the kernel cannot be ended by anybody).
    """
    collected: dict[int, int] = {} if statuses is None else statuses
    began = time.monotonic()
    kill_at = began + grace()
    asked: set[int] = set()
    while True:
        _reap_all(collected)
        alive = descendants(os.getpid())
        instant = time.monotonic()
        kill_at = min(kill_at, max(instant, began + grace()))
        if not alive or instant > kill_at + KILL_SECONDS:
            return alive
        if hurry():
            kill_at = min(kill_at, instant + ORPHAN_GRACE)
            hurry = _never
        if instant >= kill_at:
            _signal_all(alive, signal.SIGKILL)
        else:
            fresh = [pid for pid in alive if pid not in asked]
            _signal_all(fresh, signal.SIGTERM)
            _signal_all(fresh, signal.SIGCONT)
            asked.update(fresh)
        time.sleep(_POLL)


def descendants(root: int) -> list[int]:
    """All living processes below this one, whatever their session or group."""
    children: dict[int, list[int]] = {}
    living: set[int] = set()
    for pid, parent, alive in processes():
        children.setdefault(parent, []).append(pid)
        if alive:
            living.add(pid)
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        queue.extend(below)
        found.extend(pid for pid in below if pid in living)
    return found


def processes() -> list[tuple[int, int, bool]]:
    """(pid, parent, whether it still runs) of every process in sight."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stream:
                parsed = parse_stat(stream.read())
        except OSError:
            continue
        if parsed is not None:
            found.append((int(name), *parsed))
    return found


def parse_stat(text: str) -> tuple[int, bool] | None:
    """(parent, whether it still runs) from the text of /proc/PID/stat; a name may hold blanks and parentheses."""
    fields = text.rpartition(")")[2].split()
    if len(fields) < 18:
        return None
    # A main thread that has ended is shown as a zombie while other threads of the process still run.
    return int(fields[1]), fields[0] not in "ZX" or int(fields[17]) > 1


def _signal_all(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        except PermissionError:
            log(f"not allowed to signal process {pid}")


def _reap_all(statuses: dict[int, int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        statuses[pid] = status


def _reaped(wanted: int) -> int | None:
    """The wait status of this child if it has ended; other children that have ended are cleared away."""
    statuses: dict[int, int] = {}
    _reap_all(statuses)
    return statuses.get(wanted)


def _never() -> bool:
    return False


# --- signals, limits, files -----------------------------------------------------------------------------------------


def _set_signals() -> None:
    """Signals are waited for, never handled; and every orphan below comes to us."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _wait_signal(seconds: float | None) -> int | None:
    """The next of our signals, or nothing after so many seconds. Hang-ups and interrupts are ignored."""
    wanted = {signal.SIGTERM, signal.SIGCHLD}
    if seconds is None:
        return signal.sigwaitinfo(wanted).si_signo
    info = signal.sigtimedwait(wanted, seconds)
    return None if info is None else info.si_signo


def prctl(option: int, value: int) -> None:
    """The Linux call of this name."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")


def _raise_open_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    soft = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def take_lock(path: str) -> int | None:
    """An exclusive lock that the kernel ends with this process, or nothing if another has it. The file stays."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    give_up_at = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() > give_up_at:
                os.close(lock)
                return None
            time.sleep(_POLL)


def trainer_environment(
    spec: Mapping[str, Any], inherited: Mapping[str, str], secrets: Mapping[str, str]
) -> dict[str, str]:
    """What the trainer gets: the runtime's environment without what would mislead it, the job's, and the secrets.

    The facts about ranks are always those of the specification.
    """
    kept = {
        name: value for name, value in inherited.items() if not any(matches(name, pattern) for pattern in spec["drop"])
    }
    own = spec["environment"]
    facts = {name: own[name] for name in spec.get("facts", ()) if name in own}
    values = {**kept, **own, **secrets, **facts, **spec["marker"]}
    if spec.get("bin_dir"):
        values["PATH"] = f"{spec['bin_dir']}:{values.get('PATH', os.defpath)}"
    return values


def matches(name: str, pattern: str) -> bool:
    """Whether a variable's name is meant by a pattern: C(NAME), C(BEGINNING*) or C(*END)."""
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return name.endswith(pattern[1:]) if pattern.startswith("*") else name == pattern


def _secrets(directory: str, spec: Mapping[str, Any]) -> dict[str, str]:
    """The secrets' values. Where they are gone, whoever asked for this start has given it up."""
    if not spec.get("secret_names"):
        return {}
    values = read_json(os.path.join(directory, "secrets.json"))
    return {str(name): str(value) for name, value in values.items()}


def _redirect(path: str) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)


def log(text: str) -> None:
    """A line in supervisor.log. Training must not end because there is no room for it."""
    try:
        os.write(2, f"{now()} [{os.getpid()}] {text.rstrip()}\n".encode(errors="backslashreplace"))
    except OSError:
        return


def now() -> str:
    """This instant in UTC with its offset."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


def tell(reports: int, report: Mapping[str, Any]) -> None:
    """One line for the supervisor; nobody may be left to read it."""
    try:
        os.write(reports, (json.dumps(report) + "\n").encode())
    except BrokenPipeError:
        log("the supervisor is gone")


def _report(text: str) -> dict[str, Any]:
    lines = text.strip().splitlines()
    return dict(json.loads(lines[-1])) if lines else {}


def read_json(path: str) -> dict[str, Any]:
    """The mapping in a JSON file."""
    with open(path, encoding="utf-8") as stream:
        return dict(json.load(stream))


def _write_status(directory: str, status: Mapping[str, Any]) -> None:
    write_atomically(os.path.join(directory, "status.json"), json.dumps(status, indent=1) + "\n")


def _status_written(directory: str, status: Mapping[str, Any]) -> bool:
    """Write the status if there is room for it. A healthy trainer does not end because there is none."""
    try:
        _write_status(directory, status)
    except OSError as exc:
        log(f"the status {status['state']!r} could not be written: {exc}")
        return False
    return True


def _write_final_status(directory: str, status: Mapping[str, Any]) -> None:
    """Write the status that stays. Without it a job that has finished would count as lost."""
    give_up_at = time.monotonic() + WRITE_SECONDS
    while not _status_written(directory, status):
        if time.monotonic() > give_up_at:
            log(f"given up after {WRITE_SECONDS:g} s; the status would be: {json.dumps(status)}")
            return
        time.sleep(WRITE_PAUSE)


def write_atomically(path: str, text: str) -> None:
    """Replace a file so that readers see the old or the new text, never a part, even after a power loss."""
    temporary = f"{path}.{os.getpid()}.new"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        _remove(temporary)  # it takes up room, and may hold secrets
        raise
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
