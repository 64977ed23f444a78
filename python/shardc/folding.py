"""Folds the specs of parameters into the fewest rules that give them back.

Names that differ only in numbers share a template. Where all parameters of a
template have one spec, its numbers become `[0-9]+`; a number that decides the spec
is kept. Templates with one spec that differ in one part become alternatives:

    layers/0/mlp/up/kernel    (fsdp, tp)
    layers/1/mlp/up/kernel    (fsdp, tp)    ^layers/[0-9]+/mlp/(?:gate|up)/kernel$
    layers/0/mlp/gate/kernel  (fsdp, tp)        [fsdp, tp]
    layers/1/mlp/gate/kernel  (fsdp, tp)

Where a few layers have a spec of their own, their rules come first and name them.
Patterns of different templates match no common name, because they are anchored
and the text around the numbers is literal.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping

# A part of a name that is a number, such as the 3 of `layers_3`, and not of `w3`.
_NUMBER = re.compile(r"(?<![A-Za-z0-9])[0-9]+(?![A-Za-z0-9])")
_ANY = "[0-9]+"
# Up to this many values of a number that decides the spec are all named.
_NAMED = 4

# The alternatives for each part of a name, as regular expressions.
_Parts = tuple[frozenset[str], ...]


@dataclasses.dataclass(frozen=True)
class Folded:
    """A pattern, the value of all that it matches, and their names."""

    pattern: str
    value: Hashable
    names: tuple[str, ...]


def folded(values: Mapping[str, Hashable], separator: str) -> list[Folded]:
    """Ordered patterns: the first that matches a name gives its value."""
    groups: dict[tuple[str, ...], dict[tuple[str, ...], Hashable]] = {}
    for name, value in values.items():
        template = tuple(_NUMBER.split(name))
        groups.setdefault(template, {})[tuple(_NUMBER.findall(name))] = value
    # Whether a pattern also matches names of other values, which come first.
    found: dict[tuple[bool, Hashable], set[_Parts]] = {}
    for template, rows in groups.items():
        for numbers, value, is_rest in _patterns(rows):
            text = template[0] + "".join(
                f"\0{n}\0{t}" for n, t in zip(numbers, template[1:])
            )
            parts = tuple(frozenset([_escaped(part)]) for part in text.split(separator))
            found.setdefault((is_rest, value), set()).add(parts)
    out = []
    for (is_rest, value), patterns in found.items():
        for parts in _merged(patterns):
            out.append((is_rest, _text(parts, separator), len(parts), value))
    return _ordered(out, values, separator)


def _patterns(
    rows: Mapping[tuple[str, ...], Hashable],
) -> Iterable[tuple[tuple[str, ...], Hashable, bool]]:
    """The numbers, or `[0-9]+`, of each pattern of one template."""
    count = len(next(iter(rows)))
    kept = _deciding(rows, count)
    by_kept = {tuple(row[i] for i in kept): value for row, value in rows.items()}
    common: Hashable = None
    if len(by_kept) > _NAMED:
        common = Counter(by_kept.values()).most_common(1)[0][0]
        yield (_ANY,) * count, common, True
    for numbers, value in by_kept.items():
        if len(by_kept) <= _NAMED or value != common:
            at = dict(zip(kept, numbers))
            yield tuple(at.get(i, _ANY) for i in range(count)), value, False


def _deciding(rows: Mapping[tuple[str, ...], Hashable], count: int) -> tuple[int, ...]:
    """The fewest positions whose numbers decide the value; the last ones first."""
    for size in range(min(count, 3)):
        for kept in itertools.combinations(reversed(range(count)), size):
            seen: dict[tuple[str, ...], Hashable] = {}
            if all(
                seen.setdefault(tuple(row[i] for i in kept), value) == value
                for row, value in rows.items()
            ):
                return tuple(sorted(kept))
    return tuple(range(count))


def _escaped(part: str) -> str:
    """A part of a name as a regular expression; numbers are between NULs."""
    pieces = part.split("\0")
    return "".join(
        piece if at % 2 else re.sub(r"([][\\.^$|?*+(){}])", r"\\\1", piece)
        for at, piece in enumerate(pieces)
    )


def _merged(patterns: set[_Parts]) -> set[_Parts]:
    """Unites patterns that differ in one part, until none do."""
    changed = True
    while changed:
        changed = False
        longest = max(map(len, patterns))
        # From the back, so that the projections of one block are united first.
        for back in range(1, longest + 1):
            groups: dict[tuple[_Parts, _Parts], set[str]] = {}
            rest = set()
            for parts in patterns:
                if len(parts) < back:
                    rest.add(parts)
                    continue
                at = len(parts) - back
                key = (parts[:at], parts[at + 1 :])
                groups.setdefault(key, set()).update(parts[at])
            united = {
                (*head, frozenset(texts), *tail)
                for (head, tail), texts in groups.items()
            } | rest
            changed = changed or len(united) < len(patterns)
            patterns = united
    return patterns


def _text(parts: _Parts, separator: str) -> str:
    def one(texts: frozenset[str]) -> str:
        ordered = sorted(
            texts, key=lambda t: (not t.isdigit(), len(t) * t.isdigit(), t)
        )
        return ordered[0] if len(ordered) == 1 else f"(?:{'|'.join(ordered)})"

    joined = re.escape(separator) if separator == "." else separator
    return "^" + joined.join(map(one, parts)) + "$"


def _ordered(
    patterns: list[tuple[bool, str, int, Hashable]],
    values: Mapping[str, Hashable],
    separator: str,
) -> list[Folded]:
    """With the names that each pattern decides: those of few layers first, and
    then in the order of the model."""
    # Patterns of other values, or of another number of parts, match no name of
    # these, or come later.
    usable: dict[tuple[int, Hashable], list[int]] = {}
    for at, (_, _, length, value) in enumerate(patterns):
        usable.setdefault((length, value), []).append(at)
    compiled = [re.compile(one[1]) for one in patterns]
    names: list[list[str]] = [[] for _ in patterns]
    for name, value in values.items():
        near = usable[name.count(separator) + 1, value]
        names[next(i for i in near if compiled[i].search(name))].append(name)
    place = {name: at for at, name in enumerate(values)}
    rules = [
        (is_rest, place[found[0]], Folded(pattern, value, tuple(found)))
        for (is_rest, pattern, _, value), found in zip(patterns, names)
    ]
    rules.sort(key=lambda one: one[:2])
    return [rule for _, _, rule in rules]
