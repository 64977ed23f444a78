"""Values of Python source that is read and not run.

Texts, numbers, lists, dicts, tuples and sets of the source are those of Python, so
that two names of one list share its changes. Everything else has a class here. An
Unknown stands for a value that the file does not determine: it has the reason, and
the objects that it may be or hold, since a change of it may be a change of these.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Callable


class Text(str):
    """A text that the source has as a literal, with its place."""

    node: ast.AST

    def __new__(cls, text: str, node: ast.AST) -> Text:
        made = super().__new__(cls, text)
        made.node = node
        return made


class Spec(tuple):  # type: ignore[type-arg]
    """A PartitionSpec. `fields` are its keywords."""

    fields: dict[str, Any] = {}


class Unknown:
    """A value that the file does not determine. `flag` is the parameter or attribute
    on which it depends, to which `--set` may give a value."""

    __slots__ = ("flag", "node", "roots", "why")

    def __init__(
        self, why: str, node: Any, flag: str = "", roots: Sequence[Any] = ()
    ) -> None:
        self.why, self.node, self.flag, self.roots = why, node, flag, tuple(roots)


class Symbol(Unknown):
    """A name that the file does not define, such as HEAD; `module` is the module that
    it comes from."""

    __slots__ = ("module", "name")

    def __init__(self, name: str, node: Any, module: str = "") -> None:
        super().__init__(f"the value of `{name}`", node)
        self.name, self.module = name, module


class Builtin:
    """A function or type of Python itself."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Scope:
    """The names of a module, a function, a class or a comprehension."""

    __slots__ = ("above", "born", "declared", "kind", "names")

    def __init__(self, above: Scope | None, kind: str, born: int) -> None:
        self.names: dict[str, Any] = {}
        self.declared: dict[str, Scope] = {}  # by `global` and `nonlocal`
        self.above, self.kind, self.born = above, kind, born


@dataclasses.dataclass(eq=False)
class Function:
    """A function or lambda. `owner` is the object or class it is bound to, `within`
    the class that defines it; `kind` is plain, static, class, property or wrapped,
    which is a function that a decorator of another file may have replaced."""

    node: Any
    scope: Scope
    defaults: dict[str, Any]
    kind: str = "plain"
    within: Class | None = None
    owner: Any = None
    why: Any = None


@dataclasses.dataclass(eq=False)
class Class:
    name: str
    node: ast.ClassDef
    bases: list[Any]
    names: dict[str, Any]
    born: int
    is_record: bool = False  # whether it is a dataclass or a NamedTuple
    order: list[Any] = dataclasses.field(default_factory=list)  # it, then its bases


@dataclasses.dataclass(eq=False)
class Object:
    """An object of a class of the file. Of a sample, which stands for any object of
    its class, what its methods assign is not known."""

    of: Class
    born: int
    is_sample: bool = False
    names: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(eq=False)
class Super:
    of: Class
    owner: Any


@dataclasses.dataclass(eq=False)
class Method:
    """A method of a value of Python, such as `rules.append`."""

    holder: Any
    name: str


@dataclasses.dataclass(eq=False)
class View:
    """What `items`, `keys` or `values` of a dict returns."""

    holder: Any
    name: str


@dataclasses.dataclass(eq=False)
class Lazy:
    """An iterator, which runs when it is read: a generator, or what map returns.
    `rest` runs it for a number of items that is not known."""

    items: Iterator[Any]
    sources: Sequence[Any]
    rest: Callable[[], Sequence[Any]] = tuple


@dataclasses.dataclass(eq=False)
class Resolved:
    """What PartitionManager.resolve returns: the spec of logical axes in a mode, or
    without one in that of the program."""

    axes: Any
    mode: Any = None
    has_axes: bool = True
    has_mode: bool = True
    has_shape: bool = False


@dataclasses.dataclass(eq=False)
class Axes:
    """A PartitionAxis: its fields, and the values that name none."""

    fields: dict[str, Any]
    rest: list[Any]
