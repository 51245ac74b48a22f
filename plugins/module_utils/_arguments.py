# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The trainer's arguments: from a mapping to the words of a command line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
#: A word that begins with a dash and is no flag.
NUMBER = re.compile(r"-(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")
_GLOB_CHARACTERS = frozenset("*?[")
_PATH_STARTS = ("/", "./", "../")


def render(arguments: Mapping[str, Any]) -> list[str]:
    """Words for the trainer. A list becomes one flag followed by its values, since a repeated flag would overwrite."""
    words: list[str] = []
    for name, value in arguments.items():
        words.extend(_flag_words(str(name), _value_words(value)))
    return words


def canonical(arguments: Mapping[str, Any]) -> dict[str, list[str]]:
    """The words of each flag by its name, nulls left out: equal for arguments that mean the same."""
    words = ((flag_name(str(name)), _value_words(value)) for name, value in arguments.items())
    return {name: values for name, values in words if values}


def flag_name(name: str) -> str:
    """One spelling of a flag: the trainer takes hyphens for underscores."""
    return name.replace("-", "_")


def text(value: Any) -> str:
    """One value as a word: C(true) and C(false) for booleans, JSON for mappings and lists."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (Mapping, list, tuple)):
        return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False)
    return str(value)


def globs(arguments: Mapping[str, Any]) -> list[str]:
    """Path patterns among the values, each once, in order of appearance."""
    patterns: list[str] = []
    for name, value in arguments.items():
        for word in _value_words(value):
            pattern = _pattern(str(name), word)
            if pattern is not None and pattern not in patterns:
                patterns.append(pattern)
    return patterns


def expand(arguments: Mapping[str, Any], resolved: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The arguments with each pattern replaced by the paths it stands for; unresolved patterns stay."""
    return {str(name): _expanded(str(name), value, resolved) for name, value in arguments.items()}


def problems(arguments: Any) -> list[str]:
    """What cannot be turned into flags, one sentence each."""
    if not isinstance(arguments, Mapping):
        return [f"arguments must be a mapping of flag names to values, not {_kind(arguments)}."]
    found: list[str] = []
    for name, value in arguments.items():
        found.extend(_name_problems(name))
        found.extend(_value_problems(name, value))
    return [*found, *_twice(arguments)]


def _twice(arguments: Mapping[str, Any]) -> list[str]:
    """Flags that are given under two spellings, of which the trainer would use the last."""
    spellings: dict[str, list[str]] = {}
    for name, value in arguments.items():
        if isinstance(name, str) and value is not None:
            spellings.setdefault(flag_name(name), []).append(name)
    return [
        f"The arguments {' and '.join(repr(name) for name in names)} are one and the same flag. Keep one of them."
        for names in spellings.values()
        if len(names) > 1
    ]


def _flag_words(name: str, values: list[str]) -> list[str]:
    if not values:
        return []
    if len(values) == 1 and _like_flag(values[0]):
        return [f"--{name}={values[0]}"]  # the trainer would take a word with a leading dash for the next flag
    return [f"--{name}", *values]


def _like_flag(word: str) -> bool:
    return word.startswith("-") and not NUMBER.match(word)


def _value_words(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return [text(item) for item in value if item is not None]
    return [text(value)]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _split_sample(word: str) -> tuple[str, str]:
    """Take a trailing C(#1000), by which the trainer samples a dataset, off a path."""
    match = re.match(r"(.*?)(#\d+)?\Z", word, re.DOTALL)
    return (match.group(1), match.group(2) or "") if match else (word, "")


def _pattern(name: str, word: str) -> str | None:
    """The pattern in a word, if it is a path with wildcards (and not a regular expression by its flag's name)."""
    path, _sample = _split_sample(word)
    if name.endswith("regex") or not path.startswith(_PATH_STARTS):
        return None
    return path if _GLOB_CHARACTERS.intersection(path) else None


def _expanded(name: str, value: Any, resolved: Mapping[str, Sequence[str]]) -> Any:
    if not any(_pattern(name, word) in resolved for word in _value_words(value)):
        return value
    paths: list[str] = []
    for word in _value_words(value):
        pattern = _pattern(name, word)
        if pattern is not None and pattern in resolved:
            paths.extend(path + _split_sample(word)[1] for path in resolved[pattern])
        else:
            paths.append(word)
    return paths


def _name_problems(name: Any) -> list[str]:
    if isinstance(name, str) and name.startswith("-"):
        alone = name.lstrip("-")
        return [f"The argument {name!r} starts with dashes. Write the name alone, {alone!r}: the dashes are added."]
    if not isinstance(name, str) or not _NAME.match(name):
        return [f"The argument name {name!r} is not a flag name. Use letters, digits, '_' and '-', a letter first."]
    return []


def _value_problems(name: Any, value: Any) -> list[str]:
    if isinstance(value, (list, tuple)):
        nested = [item for item in value if isinstance(item, (list, tuple, Mapping))]
        if nested:
            return [f"The argument {name!r} has a {_kind(nested[0])} inside its list. Give a flat list of values."]
        dashed = [item for item in value if len(value) > 1 and _like_flag(text(item))]
        if dashed:
            return [f"The argument {name!r} has {dashed[0]!r} in its list, which the trainer would take for a flag."]
        return []
    found: list[str] = []
    if value is not None and not isinstance(value, (str, bool, int, float, Mapping)):
        kind = _kind(value)
        found.append(f"The argument {name!r} is of the type {kind}. Give text, a number, true or false, or a list.")
    if isinstance(value, str) and "\x00" in value:
        found.append(f"The argument {name!r} has a NUL character in its value. Remove it.")
    if isinstance(value, str) and value.startswith("~/"):
        found.append(f"The argument {name!r} is {value!r}, but no shell is there to replace '~'. Write the full path.")
    return found


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "mapping"
    if isinstance(value, (list, tuple)):
        return "list"
    return "text" if isinstance(value, str) else type(value).__name__
