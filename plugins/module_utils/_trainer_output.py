# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the trainer's own output says: world size, progress, checkpoint, error. Never fails, whatever the text is."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

_PREFIX = re.compile(r"^(?:\[(?:default|rank)\d+\]:\s?)+")
_RANK_LINE = re.compile(r"\brank: -?\d+, local_rank: -?\d+, world_size: (\d{1,6}), local_world_size: \d+")
_OUTPUT_DIR = re.compile(r"\[INFO:swift\] (?:args\.)?output_dir: `?([^`\s].*?)`?$")
_CHECKPOINT = re.compile(
    r"\[INFO:swift\] (?:Saving model checkpoint to|last_model_checkpoint:"
    r"|Successfully saved (?:Megatron|`safetensors`) model weights in) `?(/.*?)`?\.?$"
)
_TOKENS = re.compile(r"Dataset Token Length: (\d+(?:\.\d+)?)")
_GLOBAL_BATCH = re.compile(r"\bargs: Megatron\w+\(.*?\bglobal_batch_size=(\d{1,9}),")
_BATCH_PART = re.compile(r"^(per_device_train_batch_size|gradient_accumulation_steps)=(\d{1,9}),$")
_BAR = re.compile(r"Train:\s+\d+%\|[^|]*\|\s*(\d{1,12})/(\d{1,12}) \[")
_METRICS = re.compile(r"\{['\"](?:[^{}]*['\"](?:global_step/max_steps|iteration)['\"]:[^{}]*)\}")
_PAIR = re.compile(r"['\"]([^'\"]+)['\"]: *(?:'([^']*)'|\"([^\"]*)\"|([^,'\"}\s]+))")
_STEP = re.compile(r"(\d{1,12})/(\d{1,12})$")
_MEGATRON_3 = re.compile(r"\biteration\s+(\d{1,12})/\s*(\d{1,12}) \|(.*)")
_END = "End time of running main"
_EXCEPTION = re.compile(
    r"^((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Timeout|Exhausted|Exit|Failure)(?:: .*)?)$"
)
_USAGE = re.compile(r"^([\w.-]+: error: .+)$")
_TORCHRUN = re.compile(r"torch\.distributed\.elastic\.|^subprocess\.CalledProcessError|^SystemExit")
_FOLLOWS = re.compile(
    r"Connection closed by peer|Connection reset by peer|Broken pipe"
    r"|DistBackendError|DistNetworkError|NCCL (?:error|communicator)",
    re.IGNORECASE,
)
_EXIT_CODE = re.compile(r"failed \(exitcode: (-?\d{1,6})\) local_rank: (\d{1,6})")
_BLOCK = re.compile(r"^\s*(rank|exitcode|host)\s+: (\S+)(?: \(local_rank: (\d{1,6})\))?")
_GOT_SIGNAL = re.compile(r"SignalException: Process \d+ got signal: (\d{1,3})")
_SIGNAL_NAMES = {1: "SIGHUP", 2: "SIGINT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL"}
_SIGNAL_NAMES.update({11: "SIGSEGV", 13: "SIGPIPE", 15: "SIGTERM"})
_LINE_LIMIT = 65536


@dataclass(frozen=True)
class TrainerOutput:
    """What is known from the output read so far; unknown is null."""

    world_size: int | None = None
    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    diverged: bool = False
    s_per_it: float | None = None
    elapsed: str | None = None
    remaining: str | None = None
    memory_gib: float | None = None
    samples_per_s: float | None = None
    global_batch: int | None = None
    mean_tokens: float | None = None
    checkpoint: str | None = None
    error: str | None = None
    signal: int | None = None
    ended: bool = False
    output_dir: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data for a module's result."""
        return asdict(self)


def parse(text: str, framework: str = "swift") -> TrainerOutput:
    """Read the output of one node (all of it, or its beginning and its end)."""
    reader = _Reader()
    for line in re.split(r"[\r\n]+", text):
        reader.read(line)
    return reader.result()


class _Reader:
    """Collects facts line by line; later lines win."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.batch: dict[str, int] = {}
        self.progress_bar: tuple[int, int] | None = None
        self.exceptions: list[str] = []
        self.exit_code: int | None = None
        self.local_rank: str | None = None
        self.root: dict[str, str] | None = None
        self.stopped_by: int | None = None
        self.usage: str | None = None
        self._matchers: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], None]], ...] = (
            (_RANK_LINE, lambda m: self._set("world_size", int(m.group(1)))),
            (_OUTPUT_DIR, lambda m: self._set("output_dir", m.group(1))),
            (_CHECKPOINT, lambda m: self._set("checkpoint", m.group(1))),
            (_TOKENS, lambda m: self._set("mean_tokens", float(m.group(1)))),
            (_GLOBAL_BATCH, lambda m: self._set("global_batch", int(m.group(1)))),
            (_BATCH_PART, lambda m: self.batch.update({m.group(1): int(m.group(2))})),
            (_BAR, self._read_bar),
            (_METRICS, self._read_metrics),
            (_MEGATRON_3, self._read_megatron_3),
            (_EXIT_CODE, self._read_exit_code),
            (_BLOCK, self._read_block),
            (_GOT_SIGNAL, self._read_got_signal),
        )

    def read(self, line: str) -> None:
        line = _PREFIX.sub("", line[:_LINE_LIMIT]).rstrip()
        if not line:
            return
        for pattern, take in self._matchers:
            match = pattern.search(line)
            if match:
                take(match)
        if _END in line:
            self.facts["ended"] = True
        if "Root Cause (first observed failure)" in line:
            self.root = {}
        self._read_exception(line)

    def result(self) -> TrainerOutput:
        facts = dict(self.facts)
        if len(self.batch) == 2 and "world_size" in facts:
            facts.setdefault("global_batch", math.prod(self.batch.values()) * facts["world_size"])
        if self.progress_bar is not None and self.progress_bar[0] > (facts.get("step") or -1):
            facts["step"], facts["steps"] = self.progress_bar
        if facts.get("ended") and self.exit_code is None:
            return TrainerOutput(**facts)
        return TrainerOutput(**facts, error=self._error(), signal=self._signal())

    def _set(self, key: str, value: Any) -> None:
        self.facts[key] = value

    def _read_bar(self, match: re.Match[str]) -> None:
        self.progress_bar = (int(match.group(1)), int(match.group(2)))

    def _read_metrics(self, match: re.Match[str]) -> None:
        values = {m.group(1): m.group(2) or m.group(3) or m.group(4) or "" for m in _PAIR.finditer(match.group(0))}
        step = _STEP.match(values.get("global_step/max_steps") or values.get("iteration") or "")
        if step is None:
            return
        self._set("step", int(step.group(1)))
        self._set("steps", int(step.group(2)))
        self._keep("memory_gib", values.get("memory(GiB)"))
        self._keep("samples_per_s", values.get("train_samples_per_second"))
        self._take_speed(values.get("train_speed(s/it)"), values.get("train_speed(iter/s)"))
        self._take_loss(values.get("loss"))
        for key, name in (("elapsed", "elapsed_time"), ("remaining", "remaining_time")):
            if name in values:
                self._set(key, values[name])

    def _read_megatron_3(self, match: re.Match[str]) -> None:
        self._set("step", int(match.group(1)))
        self._set("steps", int(match.group(2)))
        parts = [part.rpartition(": ") for part in match.group(3).split("|")]
        values = {name.strip(): value.strip() for name, _colon, value in parts}
        self._keep("memory_gib", values.get("memory(GiB)"))
        self._take_loss(values.get("loss", values.get("lm loss")))
        batch = _number(values.get("global batch size"))
        if batch is not None:
            self._set("global_batch", int(batch))
        milliseconds = _number(values.get("elapsed time per iteration (ms)"))
        if milliseconds is not None:
            self._set("s_per_it", milliseconds / 1000)
        for key, name in (("elapsed", "elapsed time"), ("remaining", "remaining time")):
            if values.get(name):
                self._set(key, values[name])

    def _keep(self, key: str, value: str | None) -> None:
        number = _number(value)
        if number is not None:
            self._set(key, number)

    def _take_speed(self, s_per_it: str | None, it_per_s: str | None) -> None:
        """Seconds a step; ms-swift 3.x gives steps a second."""
        self._keep("s_per_it", s_per_it)
        rate = _number(it_per_s)
        if rate:
            self._set("s_per_it", round(1 / rate, 6))

    def _take_loss(self, value: str | None) -> None:
        if value is None:
            return
        self._set("loss", _number(value))
        self._set("diverged", value.lower().lstrip("+-") in ("nan", "inf", "infinity"))

    def _read_exit_code(self, match: re.Match[str]) -> None:
        if self.exit_code is None:
            self.exit_code, self.local_rank = int(match.group(1)), match.group(2)

    def _read_block(self, match: re.Match[str]) -> None:
        if self.root is not None:
            self.root.setdefault(match.group(1), match.group(2))

    def _read_got_signal(self, match: re.Match[str]) -> None:
        self.stopped_by = int(match.group(1))

    def _read_exception(self, line: str) -> None:
        exception = _EXCEPTION.match(line)
        if exception and not _TORCHRUN.search(line):
            self.exceptions.append(exception.group(1))
        usage = _USAGE.match(line)
        if usage:
            self.usage = usage.group(1)

    def _signal(self) -> int | None:
        code = self.exit_code if self.exit_code is not None else _integer((self.root or {}).get("exitcode"))
        if code is not None and code < 0:
            return -code
        return self.stopped_by if code is None else None

    def _error(self) -> str | None:
        """The trainer's own words; a peer's death, which only follows from another failure, counts last."""
        causes = [words for words in self.exceptions if not _FOLLOWS.search(words)]
        if causes or self.usage:
            return causes[-1] if causes else self.usage
        signal = self._signal()
        if self.exit_code is not None or self.root:
            return self._rank_failure(signal)
        if self.exceptions:
            return self.exceptions[-1]
        return f"The trainer was stopped by signal {_signal_text(signal)}." if signal else None

    def _rank_failure(self, signal: int | None) -> str:
        root = self.root or {}
        who = f"rank {root['rank']}" if "rank" in root else f"local rank {self.local_rank}"
        if signal:
            how = f"was ended by signal {_signal_text(signal)}"
        else:
            how = f"ended with exit code {self.exit_code if self.exit_code is not None else root.get('exitcode', '?')}"
        after = f": {self.exceptions[-1]}" if self.exceptions else ""
        return f"The training process of {who} {how}{after}"


def _signal_text(number: int | None) -> str:
    name = _SIGNAL_NAMES.get(number or 0)
    return f"{number} ({name})" if name else str(number)


def _number(value: str | None) -> float | None:
    """A finite number, or nothing."""
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _integer(value: str | None) -> int | None:
    return int(value) if value is not None and re.fullmatch(r"-?\d{1,6}", value) else None
