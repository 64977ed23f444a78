"""What the names of a file hold while it is read, and what may have changed.

Where a branch or a loop depends on something unknown, its statements are followed as
if each may run or not: `undecided` is such a part. In it, a name that is older than
the part becomes unknown when it is bound, and an older list or dict is lost when it is
changed: whoever reads it gets an Unknown. Younger ones are followed as everywhere.

    rules = [a]                 rules is [a]
    if flag:                    the part begins
        more = [b]              more is [b]: younger than the part
        more.append(c)          more is [b, c]
        rules.append(b)         rules is lost
"""

from __future__ import annotations

import ast
import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from shardc.source_values import (
    Axes,
    Class,
    Function,
    Lazy,
    Method,
    Object,
    Resolved,
    Scope,
    Super,
    Symbol,
    Unknown,
    View,
)

MOST_STEPS = 200_000
MOST_SIZE = 1_000_000  # items of a value, characters of a text

_ABSENT = object()
_CONTAINERS = (list, dict, set, Lazy)
_HOLDERS = (*_CONTAINERS, Object, Class, Function, Method)


class Refused(Exception):
    """The file cannot be followed; `unknown` states why and where."""

    def __init__(self, unknown: Unknown) -> None:
        super().__init__(unknown.why)
        self.unknown = unknown


class State:
    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines
        self.steps = 0
        self.size = 0  # items of all values
        self.now = 1  # the age of what is made next
        self.made: dict[int, tuple[Any, Any, int]] = {}  # object, place, age
        self.lost: dict[int, Unknown] = {}
        self.given: dict[int, dict[int, Any]] = {}  # what a lost object may hold
        self.marks: list[tuple[int, Any]] = [(0, None)]  # undecided parts: age, reason
        self.changes = 0  # of what is older than an undecided part
        self.base = 0
        self.is_dirty = False  # whether something older than `base` was changed
        self.stored: set[int] = set()  # cached functions that may have been called

    # -- Limits ------------------------------------------------------------------

    def step(self, node: Any, count: int = 1) -> None:
        self.steps += count
        if self.steps > MOST_STEPS:
            raise Refused(Unknown("this value, which takes too many steps,", node))

    def grow(self, node: Any, count: int) -> None:
        """Counts items of a value that is about to be made."""
        self.size += count
        if count > MOST_SIZE or self.size > 4 * MOST_SIZE:
            raise Refused(Unknown("a value of more than a million parts", node))

    def text(self, node: Any) -> str:
        """The first line of a node's source, up to 60 characters."""
        if getattr(node, "lineno", None) is None:
            return ""
        line = self.lines[node.lineno - 1]
        end: int = node.end_col_offset if node.end_lineno == node.lineno else len(line)
        text: str = line[node.col_offset : end].decode("utf-8", "replace")
        return text.rstrip()[:60]

    # -- Age ---------------------------------------------------------------------

    def keep(self, made: Any, node: Any) -> Any:
        """Records the place and the age of a new object. It is kept, so that no other
        object gets its id."""
        self.now += 1
        self.made[id(made)] = (made, node, self.now)
        return made

    def born(self) -> int:
        self.now += 1
        return self.now

    def age(self, value: Any) -> int:
        if isinstance(value, (Object, Class, Scope)):
            return value.born
        return self.made[id(value)][2] if id(value) in self.made else 0

    def place(self, value: Any, otherwise: Any) -> Any:
        """The node that made a value."""
        if isinstance(value, (Class, Function)):
            return value.node
        node = getattr(value, "node", None)
        if node is None and id(value) in self.made:
            node = self.made[id(value)][1]
        return otherwise if node is None else node

    # -- Undecided parts -----------------------------------------------------------

    @property
    def since(self) -> int:
        return (
            max(self.marks)[0] if len(self.marks) < 2 else max(m[0] for m in self.marks)
        )

    def reason(self) -> Unknown:
        found: Unknown = max(self.marks, key=lambda mark: mark[0])[1]
        return found

    @contextlib.contextmanager
    def undecided(self, reason: Unknown) -> Iterator[None]:
        self.marks.append((self.born(), reason))
        try:
            yield
        finally:
            self.marks.pop()

    @contextlib.contextmanager
    def region(self) -> Iterator[int]:
        """A function or loop, whose rest `leave` makes undecided."""
        self.marks.append((0, None))
        try:
            yield len(self.marks) - 1
        finally:
            self.marks.pop()

    def leave(self, region: int, reason: Unknown) -> None:
        if self.marks[region][0] == 0:
            self.marks[region] = (self.born(), reason)

    # -- Changes -------------------------------------------------------------------

    def bind(self, holder: Any, name: str, value: Any) -> None:
        """Binds a name of a scope, a class or an object."""
        if isinstance(holder, Scope):
            holder = holder.declared.get(name, holder)
        if holder.born < self.base:
            self.is_dirty = True
        since = self.since
        old = holder.names.get(name, _ABSENT)
        if holder.born >= since or (old is _ABSENT and isinstance(value, Symbol)):
            holder.names[name] = value
        elif not _same(old, value):
            self.blur(holder, name, [value], self.reason())

    def blur(self, holder: Any, name: str, values: Iterable[Any], why: Unknown) -> None:
        """Makes a name unknown: it may be what it was, or one of the values."""
        old = holder.names.get(name, _ABSENT)
        roots = self.reach([*values, *(() if old is _ABSENT else (old,))])
        known = {id(one) for one in old.roots} if type(old) is Unknown else set()
        more = [one for one in roots if id(one) not in known]
        if type(old) is Unknown and not more:
            return
        if type(old) is not Unknown or any(self.age(o) < self.since for o in more):
            self.changes += 1
        if holder.born < self.base:
            self.is_dirty = True
        holder.names[name] = Unknown(why.why, why.node, why.flag, roots)

    def may_change(self, value: Any, node: Any, *more: Any) -> bool:
        """Whether a change of a value can be followed. If not, the value is lost, and
        may hold `more`."""
        if self.age(value) < self.base:
            self.is_dirty = True
        if id(value) not in self.lost and self.age(value) >= self.since:
            return True
        self.lose(value, self.reason() or self.lost[id(value)], *more)
        return False

    def lose(self, value: Any, why: Unknown, *more: Any) -> None:
        self.keep_alive(value)
        if self.age(value) < self.base:
            self.is_dirty = True
        self.may_hold(value, more)
        if isinstance(value, (Object, Class)):
            for name in list(value.names):
                self.blur(value, name, more, why)
        elif isinstance(value, _CONTAINERS) and id(value) not in self.lost:
            self.lost[id(value)] = why
            self.changes += 1

    def may_hold(self, holder: Any, values: Iterable[Any]) -> None:
        held = self.given.setdefault(id(holder), {})
        held.update((id(one), one) for one in values)

    def keep_alive(self, value: Any) -> None:
        if id(value) not in self.made:
            self.made[id(value)] = (value, None, 0)

    def lose_all(self, values: Iterable[Any], node: Any, text: str, *more: Any) -> None:
        """Loses all that the values may be or hold."""
        why = Unknown(f"a value that `{text}` may change", node)
        for one in self.reach(values):
            if isinstance(one, (*_CONTAINERS, Object, Class)):
                self.lose(one, why, *more)

    def reach(self, values: Iterable[Any], *, closures: bool = False) -> list[Any]:
        """The objects that can change, and the functions, which values are or hold."""
        seen: dict[int, Any] = {}
        stack = list(values)
        while stack:
            one = stack.pop()
            if id(one) in seen:
                continue
            parts = _parts_of(type(one))
            if parts is None:
                continue
            seen[id(one)] = one
            self.step(getattr(one, "node", None))
            stack += parts(one)
            if closures and isinstance(one, Function):
                found = (lookup(one.scope, name) for name in names_in(one.node))
                stack += [each for each in found if each is not _ABSENT]
            if id(one) in self.given:
                stack += self.given[id(one)].values()
        return [one for one in seen.values() if isinstance(one, _HOLDERS)]


@functools.cache
def _parts_of(kind: type) -> Callable[[Any], Iterable[Any]] | None:
    """What the objects of a class hold; None if they hold nothing and cannot change."""
    if issubclass(kind, (str, int, float, type(None), Symbol)):
        return None
    for kinds, parts in _HELD:
        if issubclass(kind, kinds):
            return parts
    return lambda _: ()


_HELD: tuple[tuple[Any, Callable[[Any], Iterable[Any]]], ...] = (
    (Unknown, lambda one: one.roots),
    ((list, tuple, set, frozenset), lambda one: one),
    (dict, lambda one: [*one, *one.values()]),
    (Object, lambda one: [*one.names.values(), one.of]),
    (Class, lambda one: [*one.names.values(), *one.bases]),
    ((Method, View), lambda one: (one.holder,)),
    (Lazy, lambda one: one.sources),
    (Super, lambda one: (one.owner,)),
    (Resolved, lambda one: (one.axes, one.mode)),
    (Axes, lambda one: [*one.fields.values(), *one.rest]),
    (Function, lambda one: [*one.defaults.values(), one.owner]),
)


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, Symbol) and isinstance(b, Symbol):
        return (a.name, a.module) == (b.name, b.module)
    plain = isinstance(a, (str, int, float, type(None)))
    return (
        plain
        and isinstance(b, str) == isinstance(a, str)
        and (isinstance(a, str) or type(a) is type(b))
        and bool(a == b)
    )


def lookup(scope: Any, name: str) -> Any:
    """The value of a name; absent() if no scope has it."""
    while scope is not None:
        if name in scope.declared:
            return scope.declared[name].names.get(name, _ABSENT)
        if name in scope.names:
            return scope.names[name]
        scope = scope.above
    return _ABSENT


def absent() -> Any:
    return _ABSENT


def names_in(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
