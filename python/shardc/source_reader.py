"""Reads a Python file: follows its statements, and lists the values that it defines.

Nothing of the file is run. What a statement does is followed as Python would do it
where all that it depends on is known; elsewhere what it may change is not known
afterwards (shardc.source_state), or the file is refused at the statement.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from shardc.source_calls import MUTATORS, SPECS, Calls, Raised, Returned, is_special
from shardc.source_expressions import BUILTINS, HARMLESS_BASES, Undecidable
from shardc.source_state import MOST_STEPS, Refused, absent, lookup
from shardc.source_values import (
    Builtin,
    Class,
    Function,
    Lazy,
    Object,
    Scope,
    Symbol,
    Unknown,
)

MOST_BYTES = 4 << 20
# Words, signs and ends of lines, of which each takes up to 900 bytes in Python's tree.
MOST_PARTS = 300_000
PART = re.compile(r"\w+|[^\w \t\f\r]")
# Decorators of other files that keep what a function returns.
_KEEPING = frozenset(
    """staticmethod classmethod property abstractmethod override final wraps jit compact
    overload no_type_check typechecked deprecated checkpoint nowrap""".split()
)
_SAFE_IN_TRY = (
    ast.Assign, ast.AnnAssign, ast.Name, ast.Constant, ast.Tuple, ast.List, ast.Dict,
    ast.Import, ast.ImportFrom, ast.alias, ast.Pass, ast.Expr, ast.expr_context, ast.keyword,
    ast.ClassDef, ast.Return,
)  # fmt: skip


class Broken(Exception):
    pass


class Continued(Exception):
    pass


class SourceError(Exception):
    """The file is no Python that this interpreter can read."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


@dataclasses.dataclass
class Named:
    """A value that the file defines: a constant, an attribute of a class, or what a
    function returns when it is called without arguments."""

    name: str
    value: Any
    reader: Reader  # which has read it
    is_function: bool = False
    is_second: bool = False  # inherited, or another name of the same assignment
    defaults: list[str] = dataclasses.field(default_factory=list)  # flags, as full=True


class Reader(Calls):
    def __init__(
        self, source: bytes, tree: ast.Module, settings: Mapping[str, Any]
    ) -> None:
        super().__init__(re.split(rb"\r\n|\r|\n", source))
        self.tree, self.settings = tree, dict(settings)
        self.keys, self.frames = {}, []
        self.loops: list[int] = []  # regions
        self.defaults: list[str] | None = None
        self.escaped: list[Any] = []  # what was stored in objects of other files
        self.stored: set[str] = set()  # the attributes that it was stored in
        self.top = Scope(None, "module", self.born())
        self.run(tree.body, self.top)

    # -- Statements ----------------------------------------------------------------------

    def run(self, body: Iterable[ast.stmt], scope: Scope) -> None:
        for one in body:
            self.step(one)
            getattr(self, "run_" + type(one).__name__, self.run_other)(one, scope)

    def run_other(self, node: Any, scope: Scope) -> None:
        raise Refused(Unknown("this statement, which is not known here,", node))

    def run_Pass(self, node: Any, scope: Scope) -> None:
        pass

    run_Global = run_Nonlocal = run_TypeAlias = run_Pass

    def run_Expr(self, node: Any, scope: Scope) -> None:
        self.value(node.value, scope)

    def run_Assert(self, node: Any, scope: Scope) -> None:
        self.value(node.test, scope)

    def run_Return(self, node: Any, scope: Scope) -> None:
        raise Returned(self.value(node.value, scope) if node.value else None)

    def run_Raise(self, node: Any, scope: Scope) -> None:
        for one in (node.exc, node.cause):
            if one is not None:
                self.value(one, scope)
        if self.frames or len(self.marks) > 1:
            raise Raised

    def run_Break(self, node: Any, scope: Scope) -> None:
        raise Broken

    def run_Continue(self, node: Any, scope: Scope) -> None:
        raise Continued

    def run_Import(self, node: Any, scope: Scope) -> None:
        for one in node.names:
            name = one.name if one.asname else one.name.split(".")[0]
            symbol = Symbol(name.split(".")[-1], node, one.name.split(".")[0])
            self.bind(scope, one.asname or name, symbol)

    def run_ImportFrom(self, node: Any, scope: Scope) -> None:
        for one in node.names:
            if one.name != "*":
                module = (node.module or "").split(".")[0]
                self.bind(scope, one.asname or one.name, Symbol(one.name, node, module))

    # -- Assignments -----------------------------------------------------------------------

    def run_Assign(self, node: Any, scope: Scope) -> None:
        value = self.value(node.value, scope)
        for target in node.targets:
            self.put(target, value, scope)

    def run_AnnAssign(self, node: Any, scope: Scope) -> None:
        if node.value:
            self.put(node.target, self.value(node.value, scope), scope)

    def put(self, target: Any, value: Any, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            self.bind(scope, target.id, value)
        elif isinstance(target, ast.Starred):
            self.put(target.value, value, scope)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.split(target, value, scope)
        elif isinstance(target, ast.Attribute):
            self.put_attribute(target, self.value(target.value, scope), value)
        else:
            of = self.value(target.value, scope)
            self.put_part(target, of, self.value(target.slice, scope), value)

    def split(self, target: Any, value: Any, scope: Scope) -> None:
        items = self.items(value, target)
        count, starred = len(target.elts), -1
        for i, one in enumerate(target.elts):
            if isinstance(one, ast.Starred):
                starred = i
        bad = isinstance(items, Unknown)
        if (
            bad
            or len(items) < count - (starred >= 0)
            or (starred < 0 and len(items) > count)
        ):
            part = items if bad else self.unknown(target, value, *items)
            items = [part] * count
        elif starred >= 0:
            after = count - starred - 1
            end = len(items) - after
            rest = self.keep(items[starred:end], target)
            items = [*items[:starred], rest, *items[end:]]
        for one, item in zip(target.elts, items):
            self.put(one, item, scope)

    def put_attribute(self, target: Any, holder: Any, value: Any) -> None:
        if isinstance(holder, (Object, Class)):
            self.bind(holder, target.attr, value)
        elif isinstance(holder, Unknown):
            why = Unknown(f"a value that `{self.text(target)}` may change", target)
            for one in self.reach([holder]):
                if isinstance(one, (Object, Class)):
                    self.blur(one, target.attr, [value], why)
            self.escaped.append(value)
            self.stored.add(target.attr)
        else:
            self.keep_alive(holder)
            self.may_hold(holder, [value])
            self.lose_all([value], target, self.text(target))

    def put_part(self, target: Any, of: Any, index: Any, value: Any) -> None:
        if isinstance(of, Unknown):
            self.through(of, target, value)
            self.escaped.append(value)
        elif not isinstance(of, (list, dict)):
            self.lose_all([of], target, self.text(target), value)
        elif self.may_change(of, target, value):
            doubt = self.doubt(target, index)
            if doubt is None and isinstance(index, slice):
                value = self.items(value, target)
                doubt = value if isinstance(value, Unknown) else None
            if doubt is not None:
                self.lose(of, doubt, value)
                return
            self.grow(target, 1)
            try:
                of[index] = value
            except (TypeError, LookupError, ValueError):
                return  # the program ends here
            if isinstance(of, dict):
                self.keys.setdefault(id(of), {})[index] = target.slice

    def through(self, of: Unknown, node: Any, *values: Any) -> None:
        """A change of what an unknown value may be."""
        self.lose_all([of], node, self.text(node), *values)
        if not isinstance(of, Symbol) or of.name in self.stored:
            self.lose_all(self.escaped, node, self.text(node), *values)

    def outside_call(self, function: Any, values: list[Any], node: Any) -> Unknown:
        called = node.func if isinstance(node, ast.Call) else None
        name = called.attr if isinstance(called, ast.Attribute) else ""
        if (
            type(function) is Unknown
            and function.flag in MUTATORS
            and name not in MUTATORS
        ):
            self.through(function, node, *values)  # `getattr(x, "append")(y)`
        elif isinstance(function, Symbol) and function.name in MUTATORS and self.stored:
            self.lose_all(self.escaped, node, self.text(node), *values)
        if isinstance(called, ast.Attribute) and called.attr in MUTATORS:
            if isinstance(function, Unknown) and (function.roots or self.escaped):
                # The function is the method of an unknown object.
                owner: Unknown = function
                if isinstance(function, Symbol) and isinstance(
                    called.value, (ast.Name, ast.Attribute)
                ):
                    name = getattr(
                        called.value, "id", getattr(called.value, "attr", "")
                    )
                    owner = Symbol(name, called.value)
                self.through(owner, node, *values)
        return super().outside_call(function, values, node)

    def run_AugAssign(self, node: Any, scope: Scope) -> None:
        target = node.target
        if isinstance(target, ast.Name):
            old = self.value_of_Name(target, scope)
            new = self.augmented(node, old, self.value(node.value, scope))
            self.bind(scope, target.id, new)
        elif isinstance(target, ast.Attribute):
            holder = self.value(target.value, scope)
            old = self.attribute(target, holder, target.attr)
            new = self.augmented(node, old, self.value(node.value, scope))
            self.put_attribute(target, holder, new)
        else:
            of, index = self.value(target.value, scope), self.value(target.slice, scope)
            old = self.part(target, of, index)
            new = self.augmented(node, old, self.value(node.value, scope))
            self.put_part(target, of, index, new)

    def augmented(self, node: Any, old: Any, more: Any) -> Any:
        if isinstance(old, Unknown):
            self.through(old, node, more)
            return self.unknown(node, old, more)
        if isinstance(old, list) and isinstance(node.op, ast.Add):
            self.changed(old, "extend", [more], {}, node)
            return old
        if isinstance(old, dict) and isinstance(node.op, ast.BitOr):
            self.changed(old, "update", [more], {}, node)
            return old
        if isinstance(old, (list, dict, set, Object, Class, Function, Lazy)):
            self.lose_all([old], node, self.text(node), more)
            return self.unknown(node, old, more)
        return self.binary(node, type(node.op), old, more)

    def run_Delete(self, node: Any, scope: Scope) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.bind(
                    scope,
                    target.id,
                    Unknown(f"`{target.id}`, which is deleted,", target),
                )
            elif isinstance(target, ast.Attribute):
                self.put_attribute(
                    target, self.value(target.value, scope), self.unknown(target)
                )
            elif isinstance(target, ast.Subscript):
                of, index = (
                    self.value(target.value, scope),
                    self.value(target.slice, scope),
                )
                if isinstance(of, Unknown):
                    self.through(of, target)
                elif not isinstance(of, (list, dict)):
                    self.lose_all([of], target, self.text(target))
                elif self.may_change(of, target):
                    if doubt := self.doubt(target, index):
                        self.lose(of, doubt)
                    else:
                        self.python(target, functools.partial(of.__delitem__, index))

    # -- Definitions -----------------------------------------------------------------------

    def run_FunctionDef(self, node: Any, scope: Scope) -> None:
        marks = [self.value(one, scope) for one in node.decorator_list]
        made: Any = self.function(node, scope)
        for mark, at in zip(reversed(marks), reversed(node.decorator_list)):
            made = self.decorated(made, mark, at)
        self.bind(scope, node.name, made)

    run_AsyncFunctionDef = run_FunctionDef

    def decorated(self, made: Any, mark: Any, at: Any) -> Any:
        called = at.func if isinstance(at, ast.Call) else at
        name = getattr(called, "attr", getattr(called, "id", ""))
        known = (
            isinstance(mark, (Builtin, Symbol))
            or type(mark) is Unknown
            and not mark.roots
        )
        if not known or not isinstance(made, Function):
            return self.call(mark, [made], {}, at)
        kinds = {
            "staticmethod": "static",
            "classmethod": "class",
            "property": "property",
        }
        if name in kinds:
            made.kind = kinds[name]
        elif name in ("cached_property", "cache", "lru_cache"):
            made.kind = "cached"
        elif name not in _KEEPING:
            made.kind = "wrapped"
            made.why = Unknown(
                f"what the decorator `{self.text(at)}` makes of a function", at
            )
        return made

    def run_ClassDef(self, node: Any, scope: Scope) -> None:
        marks = [self.value(one, scope) for one in node.decorator_list]
        bases: list[Any] = []
        is_record = False
        for one in node.bases:
            base = self.value(
                one.value if isinstance(one, ast.Subscript) else one, scope
            )
            if isinstance(base, Builtin):
                base = Symbol(base.name, one)
            name = base.name if isinstance(base, Symbol) else ""
            is_record = (
                is_record or name == "NamedTuple" or getattr(base, "is_record", False)
            )
            if name not in HARMLESS_BASES:
                bases.append(
                    base
                    if isinstance(base, (Class, Unknown))
                    else self.unknown(one, base)
                )
        for keyword in node.keywords:
            self.value(keyword.value, scope)
        above: Any = scope
        while above.kind == "class":
            above = above.above
        inner = Scope(above, "class", self.born())
        self.run(node.body, inner)
        made: Any = Class(node.name, node, bases, inner.names, self.born(), is_record)
        self.keep_alive(made)
        made.order = _order(made, node)
        for value in inner.names.values():
            if isinstance(value, Function) and value.within is None:
                value.within = made
        if any(isinstance(b, Class) and is_special(b) for b in made.order[1:]):
            self.forsake([made], node)
        for mark, at in zip(reversed(marks), reversed(node.decorator_list)):
            called = at.func if isinstance(at, ast.Call) else at
            if getattr(called, "attr", getattr(called, "id", "")) == "dataclass":
                made.is_record = True
            elif not isinstance(mark, Unknown) or mark.roots:
                made = self.call(mark, [made], {}, at)
        self.bind(scope, node.name, made)

    # -- Branches and loops ------------------------------------------------------------------

    def may_run(self, why: Unknown, body: Iterable[ast.stmt], scope: Scope) -> None:
        with self.undecided(why):
            self.guarded(why, body, scope)

    def guarded(self, why: Unknown, body: Iterable[ast.stmt], scope: Scope) -> None:
        """Follows statements of an undecided part; where they leave a loop or a
        function, its rest is undecided too."""
        try:
            self.run(body, scope)
        except Returned as end:
            frame = self.frames[-1]
            frame.returned.append((end.value, why))
            self.leave(frame.region, why)
        except (Broken, Continued):
            self.leave(self.loops[-1], why)
        except Raised:
            pass  # the program ends, or a `try` around it is undecided

    def run_If(self, node: Any, scope: Scope) -> None:
        test = self.value(node.test, scope)
        truth = self.truth(test)
        if truth is not None:
            self.run(node.body if truth else node.orelse, scope)
            return
        why = self.branch(node.test, test)
        self.may_run(why, node.body, scope)
        self.may_run(why, node.orelse, scope)

    def run_For(self, node: Any, scope: Scope) -> None:
        over = self.value(node.iter, scope)
        items = self.iterate(over, node.iter)
        before = self.since
        with self.region() as region:
            self.loops.append(region)
            try:
                while True:
                    try:
                        item = next(items)
                    except StopIteration:
                        break
                    except Undecidable as end:
                        self.any_times(node, scope, end.unknown, over)
                        break
                    self.put(node.target, item, scope)
                    try:
                        self.run(node.body, scope)
                    except Continued:
                        pass
                    except Broken:
                        return
                    if self.since > before:
                        self.any_times(node, scope, self.reason(), over)
                        break
                if self.since > before:
                    self.may_run(self.reason(), node.orelse, scope)
                    return
            finally:
                self.loops.pop()
        self.run(node.orelse, scope)

    def any_times(self, node: Any, scope: Scope, why: Unknown, over: Any) -> None:
        self.leave(self.loops[-1], why)
        rest = over.rest() if isinstance(over, Lazy) else ()
        roots = self.reach([over, why, *rest])

        def once() -> None:
            if isinstance(node, ast.While):
                self.value(node.test, scope)
            else:
                self.put(
                    node.target, Unknown(why.why, why.node, why.flag, roots), scope
                )
            self.guarded(why, node.body, scope)

        self.repeat(why, once)

    def run_While(self, node: Any, scope: Scope) -> None:
        before = self.since
        with self.region() as region:
            self.loops.append(region)
            try:
                while True:
                    test = self.value(node.test, scope)
                    truth = self.truth(test)
                    if truth is None or self.since > before:
                        why = (
                            self.branch(node.test, test)
                            if truth is None
                            else self.reason()
                        )
                        self.any_times(node, scope, why, None)
                        self.may_run(why, node.orelse, scope)
                        return
                    if not truth:
                        break
                    try:
                        self.run(node.body, scope)
                    except Continued:
                        pass
                    except Broken:
                        return
            finally:
                self.loops.pop()
        self.run(node.orelse, scope)

    def run_AsyncFor(self, node: Any, scope: Scope) -> None:
        over = self.value(node.iter, scope)
        with self.region() as region:
            self.loops.append(region)
            self.any_times(node, scope, self.unknown(node.iter, over), over)
            self.may_run(self.reason(), node.orelse, scope)
            self.loops.pop()

    def run_Try(self, node: Any, scope: Scope) -> None:
        stored = {one for inside in node.body for one in _stored(inside)}
        read = {one.id for inside in node.body for one in ast.walk(inside)
                if isinstance(one, ast.Name)}  # fmt: skip
        unbound = [one for one in read - stored - SPECS - BUILTINS
                   if lookup(scope, one) is absent()]  # fmt: skip
        if not node.handlers or not unbound and all(map(_is_safe, node.body)):
            try:
                self.run(node.body, scope)
                self.run(node.orelse, scope)
            except (Returned, Broken, Continued, Raised):
                self.run(node.finalbody, scope)
                raise
            self.run(node.finalbody, scope)
            return
        why = Unknown("what this `try` runs", node)
        self.may_run(why, node.body, scope)
        for handler in node.handlers:
            if handler.type is not None:
                self.value(handler.type, scope)
            if handler.name:
                with self.undecided(why):
                    self.bind(scope, handler.name, self.unknown(handler))
            self.may_run(why, handler.body, scope)
        self.may_run(why, node.orelse, scope)
        self.run(node.finalbody, scope)

    run_TryStar = run_Try

    def run_With(self, node: Any, scope: Scope) -> None:
        swallows = False
        for item in node.items:
            entered = self.value(item.context_expr, scope)
            roots = self.reach([entered])
            # One of the file, or `suppress`, may leave out a part of the body.
            swallows = swallows or "suppress" in self.text(item.context_expr)
            swallows = swallows or any(
                isinstance(r, (Function, Class, Object)) for r in roots
            )
            if item.optional_vars:
                text = f"what `{self.text(item.context_expr)}` enters"
                self.put(
                    item.optional_vars,
                    Unknown(text, item.context_expr, "", roots),
                    scope,
                )
        if swallows:
            self.may_run(Unknown("what this `with` runs", node), node.body, scope)
        else:
            self.run(node.body, scope)

    run_AsyncWith = run_With

    def run_Match(self, node: Any, scope: Scope) -> None:
        subject = self.value(node.subject, scope)
        why = Unknown("which `case` is taken", node)
        for case in node.cases:
            with self.undecided(why):
                for one in ast.walk(case.pattern):
                    for name in (
                        getattr(one, "name", None),
                        getattr(one, "rest", None),
                    ):
                        if name:
                            self.bind(scope, name, self.unknown(case.pattern, subject))
                if case.guard is not None:
                    self.value(case.guard, scope)
                self.guarded(why, case.body, scope)

    def result(self, of: Function, owner: Class | None, defaults: list[str]) -> Any:
        """What a function returns that is called without arguments, on any object.
        Afterwards `is_dirty` states whether it has changed what the module holds."""
        if of.kind == "wrapped":
            return of.why
        if id(of.node) in self.stored:
            # Whoever has the stored value may have changed it.
            return Unknown(f"what `{of.node.name}` has stored", of.node)
        self.steps = 0
        self.base, self.is_dirty = self.born(), False
        self.defaults, self.is_listed = defaults, True
        bound = Function(of.node, of.scope, of.defaults, "plain", of.within, of.owner)
        if owner is not None and of.kind != "static":
            sample = Object(owner, self.born(), True)
            self.keep_alive(sample)
            bound.owner = owner if of.kind == "class" else sample
        try:
            made = self.call(bound, [], {}, of.node)
            # A later call may change what the module has and this one returns.
            held = [
                one for one in self.reach([made]) if isinstance(one, (list, dict, set))
            ]
            self.is_dirty = self.is_dirty or any(
                self.age(one) < self.base for one in held
            )
            return made
        except Refused as end:
            self.is_dirty = True
            return end.unknown


class Definitions:
    """The values that a file defines, in its order. With a `symbol`, of what functions
    return only that of the functions with this name."""

    def __init__(
        self, source: bytes, settings: Mapping[str, Any], symbol: str = ""
    ) -> None:
        self.source, self.settings, self.symbol = source, settings, symbol
        self.tree = parsed(source)
        self.module = self.reader()  # what it holds when Python has loaded it
        self.calls: Reader | None = None  # another one, in which functions are called
        self.steps = 3 * MOST_STEPS  # of all of them
        self.mentions: dict[str, set[str]] = {}  # by class: see shardc.source_rules
        self.all: list[Named] = []
        self.list_names(self.tree.body, (), self.module.top.names)

    def reader(self) -> Reader:
        return Reader(self.source, self.tree, self.settings)

    def list_names(
        self, body: Iterable[Any], path: tuple[str, ...], names: Mapping[str, Any]
    ) -> None:
        seen: set[str] = set()
        for node, name, is_second in _bindings(body):
            value = names.get(name)
            if isinstance(value, (Function, Class)) and value.node is node:
                if isinstance(value, Function):
                    seen.add(name)
                    self.add_function(path, name, False)
                else:
                    self.list_names(node.body, (*path, name), value.names)
                    self.list_inherited((*path, name), value)
            elif name in names and name not in seen:
                if isinstance(
                    node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
                ):
                    continue
                seen.add(name)
                full = ".".join((*path, name))
                self.all.append(Named(full, value, self.module, False, is_second))

    def list_inherited(self, path: tuple[str, ...], of: Class) -> None:
        seen = set(of.names)
        for base in of.order[1:]:
            if isinstance(base, Unknown):
                break
            for name in sorted(base.names):
                if name not in seen and isinstance(base.names[name], Function):
                    self.add_function(path, name, True)
                seen.add(name)

    def add_function(self, path: tuple[str, ...], name: str, inherited: bool) -> None:
        full = ".".join((*path, name))
        if self.symbol and not f".{full}".endswith(f".{self.symbol}"):
            return  # What it returns is not asked for.
        if self.calls is None or (self.calls.is_dirty and self.steps > 0):
            self.calls = self.reader()
            self.steps -= self.calls.steps
        reader = self.calls
        owner: Any = None
        names = reader.top.names
        for part in path:
            owner = names[part]
            names = owner.names
        found: Any = names.get(name)
        for base in owner.order[1:] if inherited else ():
            if name in base.names:
                found = base.names[name]
                break
        named = Named(full, None, reader, True, inherited)
        if self.steps > 0:
            named.value = reader.result(found, owner, named.defaults)
            self.steps -= reader.steps + 100
        else:
            named.value = Unknown("what so many functions return", found.node)
        self.all.append(named)


def parsed(source: bytes) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source.decode("utf-8-sig"))
            _check_jumps(tree)
            return tree
    except SyntaxError as error:
        raise SourceError(error.msg, error.lineno or 1, error.offset or 1) from None
    except MemoryError:
        raise SourceError(
            "this file needs too much memory, or is nested too deeply", 1, 1
        ) from None
    except RecursionError:
        raise SourceError("this file is nested too deeply", 1, 1) from None
    except ValueError as error:
        raise SourceError(str(error), 1, 1) from None


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def _check_jumps(tree: ast.Module) -> None:
    """Refuses what only the compiler of Python refuses: `return` and `nonlocal` outside
    of a function, and `break` and `continue` outside of a loop."""
    waiting: list[tuple[Any, bool, bool]] = [(tree, False, False)]
    while waiting:
        node, in_function, in_loop = waiting.pop()
        word = ""
        if isinstance(node, (ast.Return, ast.Nonlocal)) and not in_function:
            word = f"'{type(node).__name__.lower()}' outside function"
        elif isinstance(node, (ast.Break, ast.Continue)) and not in_loop:
            word = f"'{type(node).__name__.lower()}' outside loop"
        if word:
            raise SourceError(word, node.lineno, node.col_offset + 1)
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            in_function, in_loop = isinstance(node, _FUNCTIONS), False
        for field in ("body", "handlers", "cases", "finalbody", "orelse"):
            inside = in_loop or (field == "body" and isinstance(node, _LOOPS))
            # The body of a lambda or of a choice is no list.
            found = getattr(node, field, None)
            if isinstance(found, list):
                waiting += [(one, in_function, inside) for one in reversed(found)]


def _order(of: Class, node: Any) -> list[Any]:
    """The classes in which Python looks for an attribute (C3); an Unknown where it
    looks in a class of another file."""
    parts = [[*b.order] if isinstance(b, Class) else [b] for b in of.bases]
    parts.append(list(of.bases))
    out: list[Any] = [of]
    while parts := [part for part in parts if part]:
        for part in parts:
            first = part[0]
            if not any(first is other for rest in parts for other in rest[1:]):
                break
        else:
            return [*out, Unknown("these bases", node)]
        if isinstance(first, Unknown) or len(out) > 50:
            return [
                *out,
                first if isinstance(first, Unknown) else Unknown("these bases", node),
            ]
        out.append(first)
        parts = [[one for one in part if one is not first] for part in parts]
    return out


def _bindings(body: Iterable[Any]) -> Iterable[tuple[Any, str, bool]]:
    """(statement, name, whether another name of it comes first) of all that bind."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node, node.name, False
            continue
        targets = [
            *getattr(node, "targets", ()),
            *([node.target] if hasattr(node, "target") else ()),
        ]
        for i, target in enumerate(targets):
            for one in ast.walk(target):
                if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                    yield node, one.id, i > 0
        for field in ("body", "orelse", "handlers", "finalbody", "cases"):
            inside = getattr(node, field, ())
            if isinstance(inside, list):
                yield from _bindings(inside)


def _stored(node: ast.AST) -> Iterable[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load):
            yield one.id
        elif isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield one.name
            yield from (arg.arg for arg in ast.walk(one) if isinstance(arg, ast.arg))
        elif isinstance(one, ast.alias):
            yield (one.asname or one.name).split(".")[0]


def _is_safe(node: ast.AST) -> bool:
    """Whether a statement of a `try` raises nothing."""
    if isinstance(node, ast.FunctionDef):
        args = node.args
        defaults = [*args.defaults, *(d for d in args.kw_defaults if d)]
        return not node.decorator_list and all(map(_is_safe, defaults))
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        return name in SPECS and all(map(_is_safe, (*node.args, *node.keywords)))
    return isinstance(node, _SAFE_IN_TRY) and all(
        map(_is_safe, ast.iter_child_nodes(node))
    )
