# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pasted command line such as C(NCCL_DEBUG=INFO swift pt --model ...), read without any shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.trainyard.swift.plugins.module_utils import _arguments
from ansible_collections.trainyard.swift.plugins.module_utils._errors import SwiftError
from ansible_collections.trainyard.swift.plugins.module_utils._job import COMMANDS, FRAMEWORKS

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)\Z", re.DOTALL)
_FLAG = re.compile(r"--([A-Za-z_][A-Za-z0-9_-]*)(?:=(.*))?\Z", re.DOTALL)
_CONTINUATION = re.compile(r"\\[ \t]*(?:\r?\n|\Z)")
_SHELL = {
    ";": "a second command",
    "|": "a pipe",
    "&": "a background or a second command",
    "<": "a redirection",
    ">": "a redirection",
    "(": "a subshell",
    ")": "a subshell",
    "`": "a command substitution",
}
_TYPOGRAPHIC = {
    "\u201c": '"',
    "\u201d": '"',
    "\u2018": "'",
    "\u2019": "'",
    "\u2013": "--",
    "\u2014": "--",
    "\u00a0": "a plain blank",
    "\u3000": "a plain blank",
}
_DETACHED = "The job is detached from your terminal anyway: remove it."
_TORCHRUN = "swift starts torchrun by itself: begin with 'swift' or 'megatron'."
_NO_SHELL = "No shell runs this: begin with 'swift' or 'megatron'."
_WRAPPERS = {
    "sudo": "Training runs as the user of the container or of the supervisor: remove it.",
    "export": "Write NAME=VALUE in front of the command, without 'export'.",
    "env": "Write NAME=VALUE in front of the command, without 'env'.",
    "nohup": _DETACHED,
    "setsid": _DETACHED,
    "screen": _DETACHED,
    "tmux": _DETACHED,
    "python": _TORCHRUN,
    "python3": _TORCHRUN,
    "torchrun": _TORCHRUN,
    "accelerate": _TORCHRUN,
    "deepspeed": _TORCHRUN,
    "docker": "The container is started by the collection: begin with 'swift' or 'megatron'.",
    "bash": _NO_SHELL,
    "sh": _NO_SHELL,
    "cd": "Write full paths in the arguments instead.",
    "time": "Times are in the job's status: remove it.",
    "exec": "Remove it.",
}


class CommandLineError(SwiftError):
    """The text is not one plain command line of the trainer."""


@dataclass(frozen=True)
class ParsedCommand:
    """The parts of a command line; every value is text, or a list where a flag has several values."""

    environment: dict[str, str] = field(default_factory=dict)
    framework: str = "swift"
    command: str = "pt"
    arguments: dict[str, Any] = field(default_factory=dict)


def parse(text: str) -> ParsedCommand:
    """Split a pasted command line into environment, framework, command and arguments."""
    words = shlex.split(_plain_line(text))
    environment, rest = _take_environment(words)
    framework, rest = _take_framework(rest)
    command, rest = _take_command(framework, rest)
    return ParsedCommand(environment, framework, command, _take_arguments(rest))


def join(environment: Mapping[str, str], words: Sequence[str]) -> str:
    """One line for people to read or paste, quoted where a shell would need it."""
    prefix = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
    return " ".join([*prefix, *(shlex.quote(word) for word in words)])


def _plain_line(text: str) -> str:
    return _Scanner(text).scan()


class _Scanner:
    """Joins continued lines and stops at the first thing that only a shell could do."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.out: list[str] = []
        self.quote = ""
        self.quote_at = 0

    def scan(self) -> str:
        while self.at < len(self.text):
            char = self.text[self.at]
            if self.quote == "'":
                self._in_single(char)
            elif self.quote == '"':
                self._in_double(char)
            else:
                self._bare(char)
        if self.quote:
            self.at = self.quote_at
            self._fail(f"the quote {self.quote} that opens here is never closed", "Close it.")
        return "".join(self.out)

    def _keep(self, count: int = 1) -> None:
        self.out.append(self.text[self.at : self.at + count])
        self.at += count

    def _in_single(self, char: str) -> None:
        self._keep()
        if char == "'":
            self.quote = ""

    def _in_double(self, char: str) -> None:
        if char == "\\":
            self._keep(2)
            return
        self._no_substitution(char, r"\$[\w({@*#?!-]")
        self._keep()
        if char == '"':
            self.quote = ""

    def _bare(self, char: str) -> None:
        if char == "\\":
            self._backslash()
        elif char in "'\"":
            self.quote, self.quote_at = char, self.at
            self._keep()
        elif char == "\n":
            self._line_end()
        else:
            self._no_substitution(char, r"\$[\w({'\"@*#?!-]")
            self._no_syntax(char)
            self._keep()

    def _backslash(self) -> None:
        continued = _CONTINUATION.match(self.text, self.at)
        if continued:
            self.out.append(" ")
            self.at = continued.end()
        else:
            self._keep(2)

    def _line_end(self) -> None:
        following = self.text[self.at :].lstrip()
        if following and not following.startswith("-") and not self._only_environment():
            self._fail(
                "the line ends without a backslash and the next one does not start with a flag",
                "Give one command; end each of its lines except the last with a backslash.",
            )
        self.out.append(" ")
        self.at += 1

    def _only_environment(self) -> bool:
        return all(_ASSIGNMENT.match(word) for word in shlex.split("".join(self.out)))

    def _no_substitution(self, char: str, dollar: str) -> None:
        if char == "`" or (char == "$" and re.match(dollar, self.text[self.at : self.at + 2])):
            self._fail(
                f"{char!r} asks a shell to put something in",
                "Write the value itself, or use a variable of the inventory.",
            )

    def _no_syntax(self, char: str) -> None:
        starts_word = not self.out or self.out[-1][-1:].isspace()
        if char in _SHELL:
            self._fail(
                f"{char!r} is {_SHELL[char]}, which needs a shell", "Give one plain command, or quote the value."
            )
        if char in _TYPOGRAPHIC:
            self._fail(
                f"{char!r} is a typographic character, as web pages make it", f"Type {_TYPOGRAPHIC[char]} instead."
            )
        if char == "{":
            self._fail(
                "'{' is not in quotes", "Put JSON in single quotes; write out a list of names, separated by blanks."
            )
        if char == "#" and starts_word:
            self._fail("'#' starts a comment", "Remove the comment.")
        if char == "~" and starts_word:
            self._fail("'~' is replaced by a shell only", "Write the full path.")

    def _fail(self, what: str, remedy: str) -> None:
        line = self.text.count("\n", 0, self.at) + 1
        column = self.at - (self.text.rfind("\n", 0, self.at) + 1) + 1
        raise CommandLineError(f"The command line cannot be read: line {line}, column {column}: {what}. {remedy}")


def _take_environment(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    environment: dict[str, str] = {}
    for index, word in enumerate(words):
        match = _ASSIGNMENT.match(word)
        if match is None:
            return environment, list(words[index:])
        environment[match.group(1)] = match.group(2)
    raise CommandLineError(
        "The command line cannot be read: it has no command. "
        "Write it as on one node, for example 'swift pt --model /data/models/m'."
    )


def _take_framework(words: Sequence[str]) -> tuple[str, list[str]]:
    first = words[0]
    if first in FRAMEWORKS:
        return first, list(words[1:])
    base = first.rpartition("/")[2]
    if base in _WRAPPERS:
        remedy = _WRAPPERS[base]
    elif base in FRAMEWORKS:
        remedy = f"Write {base!r} and give the folder with train_bin_dir."
    else:
        remedy = f"Begin with one of: {', '.join(FRAMEWORKS)}."
    raise CommandLineError(f"The command line cannot start with {first!r}. {remedy}")


def _take_command(framework: str, words: Sequence[str]) -> tuple[str, list[str]]:
    if words and words[0] in COMMANDS:
        return words[0], list(words[1:])
    found = f"{words[0]!r}" if words else "nothing"
    raise CommandLineError(
        f"The command line has {found} after {framework!r}, where the command should be. "
        f"Choose one of: {', '.join(COMMANDS)}."
    )


def _take_arguments(words: Sequence[str]) -> dict[str, Any]:
    given: dict[str, list[str]] = {}
    current: list[str] | None = None
    for word in words:
        if word.startswith("-") and not _arguments.NUMBER.match(word):
            name, value = _flag(word)
            if _arguments.flag_name(name) in map(_arguments.flag_name, given):
                raise CommandLineError(
                    f"The command line gives --{name} twice, and the trainer would use the last one only. "
                    "Give it once, with all its values after it."
                )
            current = given[name] = [] if value is None else [value]
        elif current is None:
            raise CommandLineError(
                f"The command line has {word!r} before the first flag. "
                "Every argument needs its flag, such as '--model PATH'; settings files are not read."
            )
        else:
            current.append(word)
    return {name: _value(values) for name, values in given.items()}


def _flag(word: str) -> tuple[str, str | None]:
    match = _FLAG.match(word)
    if match is None:
        raise CommandLineError(f"The command line has {word!r}, which is not a flag: flags are written '--name'.")
    return match.group(1), match.group(2)


def _value(values: list[str]) -> Any:
    if not values:
        return True
    return values[0] if len(values) == 1 else values
