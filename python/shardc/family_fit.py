"""Fits the tree of a family to the trees that a class made of many configs.

The sizes are expressions that were traced. What remains is which of them holds where,
and where a parameter is: a decision between conditions, which are the comparisons that
the class made itself. Rows of a table are the places where a node of the tree may be,
one for each config and number of a counter; a condition is a set of rows.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Optional

from shardc.family_expressions import (
    Expression, at_level, compiled, cost, has_counter, mapped, names_in, parts, placed,
    value_of, without_indices)
from shardc.family_subject import Built
from shardc.family_trace import Tensor

Row = tuple[int, tuple[int, ...]]  # the config, and the numbers of the counters


class NotFitted(Exception):
    """No expression or condition of the language agrees with all trees."""


@dataclasses.dataclass
class Node:
    """A part of the names of parameters."""

    name: str
    rows: list[Row]  # where it is
    counted: bool = False  # whether it is the number of a repetition
    count: Expression = None
    condition: Expression = None  # None where it is always there
    children: dict[str, "Node"] = dataclasses.field(default_factory=dict)
    tensors: dict[Row, Tensor] = dataclasses.field(default_factory=dict)
    sizes: tuple[Expression, ...] = ()
    in_float32: bool = False


class Table:
    """The conditions of a class, and the rows in which each holds."""

    def __init__(self, built: Sequence[Built]) -> None:
        self.built = built
        self.values = [x.values for x in built]
        self.used: Counter[Expression] = Counter()  # those in use are tried first
        self.sizes: Counter[Expression] = Counter()
        self.open = self._conditions([x.conditions for x in built]
                                     + [x.set_up for x in built])
        self.flags = self._flags()
        self.names = sorted({
            name for values in self.values for name, x in values.items()
            if isinstance(x, int) and not isinstance(x, bool)})
        self.loops = list(dict.fromkeys(
            without_indices(x) for one in built for x in one.loops
            if isinstance(x, tuple)))

    def _nullable(self, name: str) -> bool:
        return any(x.get(name) is None for x in self.values)

    def _conditions(self, groups: Iterable[list[Expression]]) -> list[Expression]:
        found: dict[Expression, None] = {}
        for condition in itertools.chain.from_iterable(groups):
            plain = without_indices(condition)
            names = names_in(plain)
            ends = [x for x in plain[1:] if x == ("counter", -1)]
            if (not names and not has_counter(plain)) or len(ends) == 2:
                continue
            neutral: Any = "" if any(isinstance(x, str) for x in plain[1:]) else 0

            def soft(x: Expression, neutral: Any = neutral) -> Optional[Expression]:
                if isinstance(x, tuple) and x[0] in ("item", "len", "count", "is_list"):
                    return x
                if isinstance(x, tuple) and x[0] == "name" and self._nullable(x[1]):
                    return ("default", x, neutral)
                return None

            if plain[0] not in ("in", "is_list"):
                plain = mapped(plain, soft)
            found[plain] = None
        return list(found)

    def _flags(self) -> list[Expression]:
        names: dict[Expression, None] = {}
        for values in self.values:
            for name, x in values.items():
                if isinstance(x, bool):
                    names[("default", ("name", name), False)
                          if self._nullable(name) else ("name", name)] = None
        for name in dict.fromkeys(n for values in self.values for n in values):
            kinds = {x.get(name) is None for x in self.values}
            if len(kinds) == 2:
                names[("has", name)] = None
        return list(names)

    def conditions(self, level: int, more: Iterable[Expression] = ()) -> list[Expression]:
        """What a condition below this many counters can be made of."""
        found: dict[Expression, None] = dict.fromkeys(
            x for x, _ in self.used.most_common()
            if all(p[1] < level for p in parts(x)
                   if isinstance(p, tuple) and p[0] == "counter"))
        for condition in itertools.chain(self.open, self.flags, more):
            if not has_counter(condition):
                found[condition] = None
            for at in range(level):
                found[at_level(condition, at)] = None
        return list(found)

    def guesses(self, level: int) -> list[Expression]:
        """Conditions that the class's code has not shown."""
        found: list[Expression] = []
        for at in range(level):
            counter = ("counter", at)
            found.append(("==", counter, 0))
            for name in self.names:
                found += [("<", counter, ("name", name)),
                          ("==", counter, ("-", ("name", name), 1))]
        found += [(">", ("name", name), low) for name in self.names for low in (0, 1)]
        return found

    def mask(self, x: Expression, rows: Sequence[Row]) -> int:
        """The rows in which a condition holds, as bits."""
        holds = compiled(x)
        bits = ["1" if holds(self.values[at], counters) else "0" for at, counters in rows]
        return int("".join(reversed(bits)) or "0", 2)

    def decide(self, on: int, off: int, rows: Sequence[Row],
               more: Iterable[Expression] = ()) -> Expression:
        """A condition that holds in the rows `on` and not in `off`."""
        level = max((len(counters) for _, counters in rows), default=0)
        vocabulary = self.conditions(level, more)
        for words in (vocabulary, vocabulary + self.guesses(level)):
            found = _decided(on, off, self._masks(words, rows))
            if found is not None:
                self.used[found] += 1
                return found
        raise NotFitted

    def _masks(self, words: list[Expression], rows: Sequence[Row]) -> dict[Expression, int]:
        """Each condition and its opposite; of those that agree the first."""
        full = (1 << len(rows)) - 1
        seen: dict[int, Expression] = {}
        for word in words:
            mask = self.mask(word, rows)
            seen.setdefault(mask, word)
            seen.setdefault(full & ~mask, _opposite(word))
        return {word: mask for mask, word in seen.items()}

    def choose(self, wanted: Sequence[Any], rows: Sequence[Row],
               own: Iterable[Expression], pool: Iterable[Expression] = (),
               more: Iterable[Expression] = ()) -> Expression:
        """An expression with the wanted value in each row: one of `own`, else of the
        pool, else a decision between some of them."""
        full = (1 << len(rows)) - 1
        best: dict[Expression, int] = {}
        counted = Counter(own)
        for group in (sorted(counted, key=lambda x: (-counted[x], cost(x))),
                      dict.fromkeys(pool)):
            for x in group:
                if x in best:
                    continue
                mask = self._agrees(x, wanted, rows)
                if mask == full:
                    return x
                if mask:
                    best[x] = mask
            if best and self._covers(best, full):
                ordered = sorted(best, key=lambda x: (-bin(best[x]).count("1"), cost(x)))
                tries = [x for x in ordered[:24]]
                if (found := self._split(full, tries, best, rows, more, 4)) is not None:
                    return found[0]
        raise NotFitted

    @staticmethod
    def _covers(masks: dict[Expression, int], full: int) -> bool:
        together = 0
        for mask in masks.values():
            together |= mask
        return together == full

    def _agrees(self, x: Expression, wanted: Sequence[Any], rows: Sequence[Row]) -> int:
        mask = 0
        function = compiled(x)
        for bit, (at, counters) in enumerate(rows):
            value = function(self.values[at], counters)
            if value == wanted[bit] and type(value) is type(wanted[bit]):
                mask |= 1 << bit
            elif bit > 40 and not mask:
                return 0  # it will not agree by chance
        return mask

    def _split(self, left: int, options: list[Expression], masks: dict[Expression, int],
               rows: Sequence[Row], more: Iterable[Expression],
               depth: int) -> Optional[tuple[Expression, int]]:
        """`a if condition else b` for the rows that are left."""
        for x in options:
            if left & ~masks[x] == 0:
                return x, cost(x)
        if depth == 0:
            return None
        more = list(more)
        for x in options:
            good = masks[x] & left
            if not good:
                continue
            others = 0
            for y in options:
                if y != x:
                    others |= masks[y]
            must = good & ~others
            if not must:
                continue
            try:
                condition = self.decide(must, left & ~good, rows, more)
            except NotFitted:
                continue
            there = self.mask(condition, rows)
            rest = self._split(left & ~there, [y for y in options if y != x], masks,
                               rows, more, depth - 1)
            if rest is not None:
                return (("if", x, condition, rest[0]),
                        cost(x) + cost(condition) + rest[1])
        return None


def _opposite(x: Expression) -> Expression:
    other = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
    if isinstance(x, tuple) and x[0] in other:
        return (other[x[0]], *x[1:])
    if isinstance(x, tuple) and x[0] == "not":
        return x[1]
    return ("not", x)


def _decided(on: int, off: int, masks: dict[Expression, int]) -> Expression:
    """The shortest condition found: one, two with `and` or `or`, or more of these."""
    ordered = list(masks.items())
    for x, mask in ordered:
        if on & ~mask == 0 and mask & off == 0:
            return x
    for sign in ("and", "or"):
        # For `and` each one holds wherever it must; for `or` nowhere that it must not.
        if sign == "and":
            useful = [(x, off & ~m) for x, m in ordered if on & ~m == 0 and off & ~m]
            needed = off
        else:
            useful = [(x, on & m) for x, m in ordered if off & m == 0 and on & m]
            needed = on
        found = _cover(needed, useful)
        if found is not None and len(found) <= 4:
            made = found[0]
            for x in found[1:]:
                made = (sign, made, x)
            return made
    # One of both kinds: (a and b) or c, (a or b) and c.
    for x, mask in ordered:
        if mask & off == 0 and on & mask:
            rest = on & ~mask
            useful = [(y, off & ~m) for y, m in ordered if rest & ~m == 0 and off & ~m]
            found = _cover(off, useful)
            if found is not None and len(found) <= 3:
                made = found[0]
                for y in found[1:]:
                    made = ("and", made, y)
                return ("or", x, made)
    for x, mask in ordered:
        if on & ~mask == 0 and off & ~mask:
            rest = off & mask
            useful = [(y, on & m) for y, m in ordered if rest & m == 0 and on & m]
            found = _cover(on, useful)
            if found is not None and len(found) <= 3:
                made = found[0]
                for y in found[1:]:
                    made = ("or", made, y)
                return ("and", x, made)
    # A decision on one condition, and another on each side.
    for x, mask in ordered[:60]:
        sides = []
        for side in (mask, ~mask):
            found = _simple(on & side, off & side, ordered)
            if found is None:
                break
            sides.append(found)
        if len(sides) == 2:
            return ("if", sides[0], x, sides[1])
    return None


def _simple(on: int, off: int, ordered: list[tuple[Expression, int]]) -> Expression:
    if not on:
        return False
    if not off:
        return True
    for x, mask in ordered:
        if on & ~mask == 0 and mask & off == 0:
            return x
    for sign in ("and", "or"):
        useful = ([(x, off & ~m) for x, m in ordered if on & ~m == 0 and off & ~m]
                  if sign == "and" else
                  [(x, on & m) for x, m in ordered if off & m == 0 and on & m])
        found = _cover(off if sign == "and" else on, useful)
        if found is not None and len(found) <= 3:
            made = found[0]
            for x in found[1:]:
                made = (sign, made, x)
            return made
    return None


def _cover(needed: int, useful: list[tuple[Expression, int]]) -> Optional[list[Expression]]:
    """A few of the sets that together have all that is needed."""
    for (x, a), (y, b) in itertools.combinations(useful[:80], 2):
        if needed & ~(a | b) == 0:
            return [x, y]
    chosen: list[Expression] = []
    while needed:
        best, most = None, 0
        for x, a in useful:
            size = bin(needed & a).count("1")
            if size > most:
                best, most = (x, a), size
        if best is None:
            return None
        chosen.append(best[0])
        needed &= ~best[1]
    return chosen


# The tree


def grown(trees: Sequence[list[Tensor]]) -> Node:
    """The tree of names of all configs."""
    root = Node("", [(at, ()) for at in range(len(trees))])
    _grow(root, {(at, ()): [(tuple(x.name.split(".")), x) for x in tensors]
                 for at, tensors in enumerate(trees)})
    return root


def _grow(node: Node, content: dict[Row, list[tuple[tuple[str, ...], Tensor]]]) -> None:
    numbers = [tuple(dict.fromkeys(int(path[0]) for path, _ in items if path[0].isdigit()))
               for items in content.values()]
    counted = _is_counted(numbers)
    groups: dict[str, dict[Row, list[tuple[tuple[str, ...], Tensor]]]] = {}
    order: list[str] = []
    for row, items in content.items():
        before = -1
        last = max([int(path[0]) for path, _ in items if path[0].isdigit()], default=0)
        for path, tensor in items:
            part = path[0]
            here = row
            if counted and part.isdigit():
                if not _is_kept(int(part), last + 1):
                    continue
                here = (row[0], row[1] + (int(part),))
                part = "#"
            elif len(path) == 1:
                part += "!"  # a tensor, which a module of this name is not
            if part not in groups:
                groups[part] = {}
                order.insert(before + 1, part)
            before = order.index(part)
            groups[part].setdefault(here, []).append((path[1:], tensor))
    for part in order:
        child = Node(part.rstrip("!"), list(groups[part]), counted=part == "#")
        node.children[part] = child
        inner = {row: [(path, x) for path, x in items if path]
                 for row, items in groups[part].items()}
        child.tensors = {row: x for row, items in groups[part].items()
                         for path, x in items if not path}
        if any(inner.values()):
            _grow(child, inner)


def _is_kept(number: int, count: int) -> bool:
    """Whether one of many repetitions is looked at: the first and the last ones are."""
    return number < 16 or number >= count - 3


def _is_counted(numbers: list[tuple[int, ...]]) -> bool:
    """Whether numbers in names count a repetition whose length varies."""
    there = [set(x) for x in numbers if x]
    if not there or all(x == there[0] for x in there):
        return False
    return any(x == set(range(len(x))) for x in there)


class Fitter:
    """Finds counts, conditions and sizes of a tree."""

    def __init__(self, table: Table, dtypes: Sequence[str]) -> None:
        self.table = table
        self.dtypes = dtypes  # of each config
        self.failed: list[str] = []

    def fit(self, node: Node, path: str = "", pool: Sequence[Expression] = ()) -> None:
        for child in node.children.values():
            here = f"{path}.{child.name}" if path else child.name
            try:
                if child.counted:
                    self._fit_count(node, child)
                else:
                    self._fit_condition(node.rows, child)
                if child.tensors:
                    self._fit_sizes(child, pool)
            except NotFitted:
                self.failed.append(here)
            self.fit(child, here, pool)

    def _fit_condition(self, rows: list[Row], child: Node) -> None:
        there = set(child.rows)
        bits = ["1" if row in there else "0" for row in rows]
        on = int("".join(reversed(bits)) or "0", 2)
        full = (1 << len(rows)) - 1
        if on != full:
            child.condition = self.table.decide(on, full & ~on, rows)

    def _fit_count(self, parent: Node, child: Node) -> None:
        most: dict[Row, int] = {row: 0 for row in parent.rows}
        for at, counters in child.rows:
            row = (at, counters[:-1])
            most[row] = max(most[row], counters[-1] + 1)
        rows = list(most)
        level = len(rows[0][1]) if rows else 0
        loops = [at_level(x, n) for x in self.table.loops for n in range(max(level, 1))]
        options = sorted(loops, key=cost) + [("name", x) for x in self.table.names]
        options = [x for x in options if not _is_long(x)] + [
            x for x in options if _is_long(x)]
        options += [("-", ("name", x), 1) for x in self.table.names]
        options += list(self.table.sizes)
        some = [row for row in rows if most[row]]
        for domain in (rows, some):
            for x in options:
                if all(value_of(x, self.table.values[row[0]], row[1]) == most[row]
                       for row in domain):
                    child.count = x
                    if domain is some and len(some) < len(rows):
                        on = sum(1 << bit for bit, row in enumerate(rows) if most[row])
                        child.condition = self.table.decide(
                            on, ((1 << len(rows)) - 1) & ~on, rows)
                    break
            if child.count is not None:
                break
        else:
            self._fit_holes(rows, most, loops, child)
        there = set(child.rows)
        inner = [(at, counters + (n,)) for at, counters in rows
                 for n in range(value_of(child.count, self.table.values[at], counters) or 0)
                 if most[(at, counters)] and _is_kept(n, most[(at, counters)])]
        if len(inner) != len(there):
            hole = Node("_", child.rows, children=child.children)
            self._fit_condition(inner, hole)
            child.children = {"_": hole}
            child.rows = inner

    def _fit_holes(self, rows: list[Row], most: dict[Row, int],
                   loops: list[Expression], child: Node) -> None:
        """A count that is never too small, where the last ones may be absent."""
        fitting = []
        for x in loops:
            values = [value_of(x, self.table.values[row[0]], row[1]) for row in rows]
            if all(isinstance(v, int) and v >= most[row] for v, row in zip(values, rows)):
                fitting.append((sum(values), cost(x), x))
        if not fitting:
            raise NotFitted
        child.count = min(fitting, key=lambda x: x[:2])[2]

    def _fit_sizes(self, child: Node, pool: Sequence[Expression]) -> None:
        rows = list(child.tensors)
        tensors = [child.tensors[row] for row in rows]
        if len({len(x.shape) for x in tensors}) != 1:
            raise NotFitted
        sizes = []
        for dim in range(len(tensors[0].shape)):
            wanted = [x.shape[dim] for x in tensors]
            own: list[Expression] = []
            for row, x in zip(rows, tensors):
                if x.sizes[dim] is not None:
                    own += placed(x.sizes[dim], row[1])
            found = self.table.choose(wanted, rows, own, self._pool(pool, rows))
            self.table.sizes[found] += 1
            sizes.append(found)
        child.sizes = tuple(sizes)
        self._fit_dtype(child, rows, tensors)

    def _fit_dtype(self, child: Node, rows: list[Row], tensors: list[Tensor]) -> None:
        low = {x.dtype for row, x in zip(rows, tensors) if self.dtypes[row[0]] != "F32"}
        others = {x.dtype for row, x in zip(rows, tensors) if self.dtypes[row[0]] == "F32"}
        if low == {"F32"}:
            child.in_float32 = True
        elif len(low) > 1 or others - {"F32"}:
            raise NotFitted

    def _pool(self, pool: Sequence[Expression], rows: list[Row]) -> Iterable[Expression]:
        """Expressions of other sizes, then simple ones of all values."""
        yield from pool
        known = [x for x, _ in self.table.sizes.most_common()]
        yield from known
        inner = dict.fromkeys(
            p for x in known for p in parts(x)
            if isinstance(p, tuple) and p[0] in ("+", "-", "*", "//", "name", "item", "if"))
        yield from inner
        yield from range(1, 5)
        names = [("name", x) for x in self.table.names]
        yield from names
        for x in list(inner):
            for n in (2, 3, 4):
                yield ("*", n, x)
                yield ("//", x, n)
        small = list(inner)[:40]
        for a, b in itertools.combinations(small, 2):
            yield ("*", a, b)
            yield ("+", a, b)
            yield ("-", a, b)
            yield ("-", b, a)


def _is_long(x: Expression) -> bool:
    """Whether it requires the length of a list, which a config may omit."""
    return any(isinstance(p, tuple) and p[0] == "len" for p in parts(x))


def expressions_of(node: Node) -> Iterable[Expression]:
    """Every expression of a fitted tree."""
    for x in (node.count, node.condition, *node.sizes):
        if x is not None:
            yield x
    for child in node.children.values():
        yield from expressions_of(child)


# Values of `let`


@dataclasses.dataclass
class Let:
    """How a value follows from a config.json; `at` where it is that of one layer."""

    name: str
    value: Expression
    at: bool = False


def fit_let(table: Table, name: str, alias: Sequence[str] = (),
            members: bool = False) -> Optional[Let]:
    """How the class makes a value of what a config.json states; None where it is the
    value of the key itself. With `members`, of a list of which the members are tested."""
    built = table.built
    rows: list[Row] = []
    wanted: list[Any] = []
    own: list[Expression] = []
    itself = ("name", name)
    same = True
    for at, one in enumerate(built):
        if name not in one.values:
            continue
        stated, value = one.stated.get(name), one.values[name]
        if stated == value and type(stated) is type(value):
            continue
        same = same and stated is None
        rows.append((at, ()))
        wanted.append(value)
        origin = one.origin.get(name)
        if isinstance(origin, tuple) and origin[:1] == ("whole",):
            origin = origin[1]
        if origin is not None and itself not in list(parts(origin)):
            own.append(origin)
    if not rows:
        return None
    if any(isinstance(x, list) for x in wanted):
        return _fit_list(table, name, rows, wanted, members)
    given = [] if "." in name else [("given", name)]
    scope = _Stated(table, name)
    counted = Counter(x for x in wanted if not isinstance(x, (list, dict)))
    pool: list[Expression] = [x for x, _ in counted.most_common(6)]
    more = [("name", x) for x in table.names if x != name]
    if same:
        found = scope.choose(wanted, rows, own, [*pool, *more], given)
        chain = itself
        for other in alias:
            chain = ("default", chain, ("name", other))
        return Let(name, ("default", chain, found))
    # Some values are replaced: the decision is between the stated one and others.
    rows = [(at, ()) for at, one in enumerate(built) if name in one.values]
    wanted = [built[at].values[name] for at, _ in rows]
    return Let(name, scope.choose(
        wanted, rows, [itself, *[("default", itself, x) for x in pool], *own],
        [*pool, *more], [*given, ("has", name)]))


class _Stated(Table):
    """The same table where the name stands for what the config.json states."""

    def __init__(self, table: Table, name: str) -> None:
        self.__dict__.update(table.__dict__)
        self.used = Counter()
        self.values = []
        for one in table.built:
            values = {key: x for key, x in one.values.items()}
            values.pop(name, None)
            if name in one.stated:
                values[name] = one.stated[name]
            self.values.append(values)
        self.open = self._conditions([x.set_up for x in table.built])
        self.flags = self._flags()


def _fit_list(table: Table, name: str, rows: list[Row], wanted: list[Any],
              members: bool) -> Let:
    """How a list is made: a constant, or a rule for the entry of each layer, or, with
    `members`, for whether a layer's number is in it."""
    built = table.built
    itself = ("name", name)
    # The number of layers varies, so what stays the same is no list for each layer.
    if all(x == wanted[0] for x in wanted) and (len(wanted) > 2 or not wanted[0]):
        return Let(name, ("default", itself, ("list", *(wanted[0] or ()))))
    scope = _Stated(table, name)
    entry: Expression = ("item", itself, ("counter", 0))
    if members:
        entry = ("in", ("counter", 0), itself)

    def cells(places: Iterable[int]) -> tuple[list[Row], list[Any], list[Expression]]:
        inner: list[Row] = []
        values: list[Any] = []
        own: list[Expression] = []
        for at in places:
            one = built[at]
            value = one.values[name] or []
            origin = one.origin.get(name)
            for n in range(max([len(value), *(x + 1 for x in value)]) if members
                           else len(value)):
                inner.append((at, (n,)))
                values.append(n in value if members else value[n])
                if isinstance(origin, tuple) and origin[0] == "whole" and n < len(origin[2]):
                    if isinstance(origin[2][n], tuple) and not members:
                        own += placed(origin[2][n], (n,))
        return inner, values, own

    def rule(places: list[int], own: list[Expression]) -> Expression:
        inner, values, found = cells(places)
        pool: list[Expression] = [x for x, _ in Counter(values).most_common(8)]
        return scope.choose(values, inner, [*own, *([] if own else found)], pool)

    absent = [at for at, _ in rows if built[at].stated.get(name) is None]
    replaced = [at for at, _ in rows if built[at].stated.get(name) is not None]
    made = entry
    if absent and any(built[at].values[name] for at in absent):
        made = ("if", entry, ("has", name), rule(absent, []))
    elif absent:
        made = ("if", entry, ("has", name), False)
    if replaced:
        everywhere = [at for at, one in enumerate(built) if one.values.get(name) is not None]
        made = rule(everywhere, [made])
    return Let(name, made, at=True)
