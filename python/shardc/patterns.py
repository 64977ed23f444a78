"""Patterns of rules, for RE2: of names, globs, regular expressions of Python, and
lists of names that differ only in numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
# A class of characters of Python's patterns, and of a glob.
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.S)
_GLOB_CLASS = re.compile(r"\[(!?\]?[^\]]*)\]", re.S)
_REPETITION = re.compile(r"\{([0-9]*)(?:(,)([0-9]*))?\}")
_EDGE = re.compile(r"\^|\$|\\A|\\z")
T = TypeVar("T")


def literal(text: str) -> str:
    """A pattern of a text, such as `a\\.b`."""
    return _SPECIAL.sub(lambda found: "\\" + found.group(), text)


def entire_name(name: str) -> str:
    return f"^{literal(name)}$"


def from_glob(glob: str) -> str:
    """The pattern of a glob, such as `*.q_proj.*`, which matches entire names."""
    out, at = "^", 0
    while at < len(glob):
        found = _GLOB_CLASS.match(glob, at)
        if glob[at] in "*?":
            out += ".*" if glob[at] == "*" else "."
        elif found:
            inside = found.group(1)
            negated = inside.startswith("!")
            inside = re.sub(r"[\\\[\]^]", lambda c: "\\" + c.group(), inside[negated:])
            out += f"[{'^' if negated else ''}{inside}]"
            at = found.end()
            continue
        else:
            out += literal(glob[at])
        at += 1
    return out + "$"


def from_python(pattern: str) -> str:
    """A pattern of Python's `re` for RE2: `\\Z` is `\\z`, `{,3}` is `{0,3}`, and in a
    class `[:` begins no name of a class."""
    out, at, in_class = "", 0, False
    while at < len(pattern):
        c, more = pattern[at], pattern[at + 1 : at + 2]
        if c == "\\" and more:
            out += c + ("z" if more == "Z" else more)
            at += 1
        elif in_class:
            out += "\\[" if c == "[" and more == ":" else c
            in_class = c != "]"
        elif c == "[":
            in_class = True
            out += c
            for first in "^]":
                if pattern[at + 1 : at + 2] == first:
                    out += first
                    at += 1
        elif c == "{" and (found := _REPETITION.match(pattern, at)):
            least, comma, most = found.group(1), found.group(2) or "", found.group(3)
            if least or comma:
                out += f"{{{int(least or 0)}{comma}{int(most) if most else ''}}}"
                at = found.end() - 1
            else:
                out += c
        else:
            out += c
        at += 1
    return out


def from_parts(parts: Sequence[str], separator: str) -> str:
    """The pattern of consecutive parts of a name, each matched in full."""
    between = "\\." if separator == "." else separator
    inside = between.join(f"(?:{_within_part(from_python(p), between)})" for p in parts)
    return f"(?:^|{between}){inside}(?:{between}|$)"


def _within_part(pattern: str, between: str) -> str:
    """The pattern where it matches within one part only. Its `^` and `$` at an end
    were those of the part."""
    out, at = "", 0
    while at < len(pattern):
        edge = _EDGE.match(pattern, at)
        two = pattern[at : at + 2]
        if edge and _is_at_end(pattern, at, edge.end()):
            at = edge.end()
        elif pattern[at] == "\\" and len(two) == 2:
            out += f"[^{between}\\{two[1].lower()}]" if two[1] in "SDW" else two
            at += 2
        elif pattern[at] == "[":
            found = _CLASS.match(pattern, at)
            if not found:
                return pattern
            text = found.group()
            text = "[^\\]" + text[3:] if text.startswith("[^]") else text
            out += f"[^{between}" + text[2:] if text.startswith("[^") else text
            at = found.end()
        else:
            out += f"[^{between}]" if pattern[at] == "." else pattern[at]
            at += 1
    return out


def _is_at_end(pattern: str, at: int, end: int) -> bool:
    if pattern[end - 1] in "$z":
        return end == len(pattern) or pattern[end] in ")|"
    before = pattern[:at]
    group = before.endswith(("(", "|")) and not before.endswith(("\\(", "\\|"))
    return not before or before.endswith("(?:") or group


# -- Names that differ only in numbers ---------------------------------------------------


def separator_of(names: Iterable[str]) -> str:
    dots = sum(("." in name) - ("/" in name) for name in names)
    return "." if dots > 0 else "/"


def _template(name: str, separator: str, suffixes: bool) -> str:
    """A pattern of the name with any numbers in place of its numbers, which are parts
    and, with `suffixes`, the ends of words such as `layers_12`."""
    number = re.compile(r"(^|.*_)[0-9]+" if suffixes else r"()[0-9]+", re.S)
    parts = []
    for part in name.split(separator):
        found = number.fullmatch(part)
        if found and found.group(1)[-1:].isdigit():
            found = None
        parts.append(literal(found.group(1)) + "[0-9]+" if found else literal(part))
    return "^" + literal(separator).join(parts) + "$"


def folded(
    named: Sequence[tuple[str, T]], separator: str, key: Callable[[T], Any]
) -> list[tuple[str, T]]:
    """(pattern, value) of (name, value). Names that differ only in numbers share a
    pattern where all of their values have an equal key."""
    groups: dict[str, list[Any]] = {}
    for name, value in named:
        groups.setdefault(_template(name, separator, True), []).append(key(value))
    out, done = [], set()
    for name, value in named:
        pattern = _template(name, separator, True)
        keys = groups[pattern]
        if any(one != keys[0] for one in keys):
            out.append((entire_name(name), value))
        elif pattern not in done:
            done.add(pattern)
            out.append((pattern if len(keys) > 1 else _template(name, separator, False), value))
    return out
