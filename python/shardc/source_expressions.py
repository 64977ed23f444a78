"""The values of Python expressions, without running them.

Operators and methods of known texts, numbers, lists, dicts and tuples are those of
Python. An expression whose operands are not known is an Unknown.
"""

from __future__ import annotations

import ast
import functools
import operator
import re
import string
from collections.abc import Iterator
from typing import Any, Callable

from shardc.source_state import MOST_SIZE, Refused, State, absent, lookup
from shardc.source_values import (
    Builtin,
    Class,
    Function,
    Lazy,
    Method,
    Object,
    Scope,
    Spec,
    Super,
    Symbol,
    Text,
    Unknown,
    View,
)

BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
}
_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
BUILTINS = frozenset(
    """abs all any bool dict enumerate filter float frozenset getattr hasattr int
    isinstance issubclass iter len list map max min next object print range repr
    reversed set setattr sorted str sum super tuple zip
    eval exec compile globals locals vars delattr __import__""".split()
)
_PLAIN = (str, int, float, bytes, type(None))
# Bases of a class that add no names that a rule set needs.
HARMLESS_BASES = {"object", "ABC", "Protocol", "NamedTuple", "Generic", "TypedDict"}
DYNAMIC = {"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"}
# A width in a format, such as the 9 of `{:9}`: a wide one makes a long text.
_WIDE = re.compile(r"[0-9]{4}|\*")


class Undecidable(Exception):
    """An iterator whose items are not known any further."""

    def __init__(self, unknown: Unknown) -> None:
        super().__init__(unknown.why)
        self.unknown = unknown


class Expressions(State):
    """Evaluates expressions. Calls are evaluated by a subclass."""

    # The values of `--set`, by parameter or attribute.
    settings: dict[str, Any]
    keys: dict[int, dict[Any, Any]]  # places of the keys of dicts

    def call(self, function: Any, given: list[Any], named: dict[str, Any], node: Any) -> Any:
        raise NotImplementedError

    def value(self, node: Any, scope: Scope) -> Any:
        self.step(node)
        found = getattr(self, "value_of_" + type(node).__name__, None)
        return self.unknown(node) if found is None else found(node, scope)

    def unknown(self, node: Any, *operands: Any, why: str = "") -> Unknown:
        """What is not known of an expression: the reason of an operand, or its own."""
        for one in operands:
            if isinstance(one, Unknown) and not isinstance(one, Symbol):
                return Unknown(one.why, one.node, one.flag, self.reach(operands))
        why = why or f"the value of `{self.text(node)}`"
        return Unknown(why, node, "", self.reach(operands))

    def branch(self, node: Any, condition: Any) -> Unknown:
        """The reason of a branch that is not decided."""
        flag = condition.flag if isinstance(condition, Unknown) else ""
        return Unknown(f"the branch on `{self.text(node)}`", node, flag)

    # -- What is known of values ---------------------------------------------------

    def seen(self, value: Any) -> Any:
        """The value, or an Unknown where its content is not known."""
        if id(value) in self.lost:
            why = self.lost[id(value)]
            return Unknown(why.why, why.node, why.flag, [value])
        if isinstance(value, View):
            return self.seen(value.holder) if id(value.holder) in self.lost else value
        return value

    def doubt(self, node: Any, *values: Any) -> Unknown | None:
        """Why Python could not compute with the values: one of them, or an item of
        one, is not a plain value. None where it can."""
        stack = list(values)
        while stack:
            one = self.seen(stack.pop())
            self.step(node)
            if isinstance(one, Unknown):
                return self.unknown(node, one, *values)
            if isinstance(one, (list, tuple, set, frozenset)) and not isinstance(one, Spec):
                stack += one
            elif isinstance(one, dict):
                stack += one
                stack += one.values()
            elif not isinstance(one, (*_PLAIN, range, slice)):
                return self.unknown(node, *values)
        return None

    def truth(self, value: Any) -> bool | None:
        value = self.seen(value)
        if isinstance(value, (*_PLAIN, list, dict, tuple, set, frozenset, range)):
            return bool(value)
        if isinstance(value, Object):
            return None if self.outside(value.of) else True
        if isinstance(value, View):
            return bool(value.holder)
        return True if isinstance(value, (Function, Class, Method, Builtin)) else None

    def outside(self, of: Class) -> bool:
        """Whether a base of the class is not in the file."""
        return any(isinstance(one, Unknown) for one in of.order)

    def iterate(self, value: Any, node: Any) -> Iterator[Any]:
        """The items of a value, as they are when they are reached."""
        if isinstance(value, Lazy):
            if not self.may_change(value, node):
                raise Undecidable(self.unknown(node, self.seen(value)))
            for item in value.items:
                self.step(node)
                yield item
            return
        at: Any = value
        if isinstance(value, View):
            at = getattr(value.holder, value.name)()
        elif isinstance(value, (set, frozenset)) and len(value) > 1:
            raise Undecidable(self.unknown(node, value, why="the order of a set"))
        elif isinstance(value, Spec) and not _is_normal(value):
            raise Undecidable(self.unknown(node))
        elif not isinstance(value, (list, tuple, dict, str, range, set, frozenset)):
            raise Undecidable(self.unknown(node, value))
        items = iter(at)
        while True:
            known = self.seen(value)
            if isinstance(known, Unknown):
                raise Undecidable(known)
            self.step(node)
            try:
                item = next(items)
            except StopIteration:
                return
            except RecursionError:
                raise
            except RuntimeError:  # a dict that changes while it is read
                raise Undecidable(self.unknown(node, value)) from None
            yield item

    def items(self, value: Any, node: Any) -> Any:
        """A list of the items, or an Unknown."""
        out: list[Any] = []
        try:
            for item in self.iterate(value, node):
                out.append(item)
                if not len(out) % 1000:
                    self.grow(node, 1000)
        except Undecidable as end:
            rest = value.rest() if isinstance(value, Lazy) else ()
            why = end.unknown
            return Unknown(why.why, why.node, why.flag, self.reach([why, value, *out, *rest]))
        self.grow(node, len(out) % 1000)
        return out

    def python(self, node: Any, make: Callable[[], Any], *operands: Any) -> Any:
        """What Python makes. Where it raises, the program ends, and the value is of
        no use."""
        try:
            made = make()
        except Refused:
            raise
        except Exception:
            return self.unknown(node, *operands)
        if isinstance(made, (list, dict, set, tuple)):
            self.grow(node, len(made))
            return self.keep(made, node)
        if isinstance(made, str):
            self.grow(node, len(made) // 100)
        return made

    # -- Names and literals ----------------------------------------------------------

    def value_of_Constant(self, node: Any, scope: Scope) -> Any:
        return Text(node.value, node) if isinstance(node.value, str) else node.value

    def value_of_Name(self, node: Any, scope: Scope) -> Any:
        found = lookup(scope, node.id)
        if found is absent():
            return Builtin(node.id) if node.id in BUILTINS else Symbol(node.id, node)
        if isinstance(found, Symbol):
            return Symbol(found.name, node, found.module)
        return found

    def value_of_NamedExpr(self, node: Any, scope: Scope) -> Any:
        made = self.value(node.value, scope)
        while scope.kind == "comprehension" and scope.above:
            scope = scope.above
        self.bind(scope, node.target.id, made)
        return made

    def value_of_Tuple(self, node: Any, scope: Scope) -> Any:
        made = self.spread(node.elts, scope)
        return made if isinstance(made, Unknown) else self.keep(tuple(made), node)

    def value_of_List(self, node: Any, scope: Scope) -> Any:
        made = self.spread(node.elts, scope)
        return made if isinstance(made, Unknown) else self.keep(made, node)

    def value_of_Set(self, node: Any, scope: Scope) -> Any:
        made = self.spread(node.elts, scope)
        if isinstance(made, Unknown):
            return made
        return self.doubt(node, *made) or self.python(node, lambda: set(made), *made)

    def spread(self, nodes: list[Any], scope: Scope) -> Any:
        """A list of the values, in which `*x` stands for the items of x."""
        out: list[Any] = []
        bad: list[Any] = []
        for one in nodes:
            if isinstance(one, ast.Starred):
                of = self.value(one.value, scope)
                made = self.items(of, one.value)
                if isinstance(made, Unknown):
                    bad.append(made)
                else:
                    out += made
            else:
                out.append(self.value(one, scope))
        self.grow(nodes[0] if nodes else None, len(out))
        return self.unknown(nodes[0], *bad, *out) if bad else out

    def value_of_Dict(self, node: Any, scope: Scope) -> Any:
        out: dict[Any, Any] = {}
        bad: list[Any] = []
        places = {}
        for key_node, value_node in zip(node.keys, node.values):
            key = None if key_node is None else self.value(key_node, scope)
            made = self.value(value_node, scope)
            if key_node is None:
                known = self.seen(made)
                if isinstance(known, dict):
                    out.update(known)
                    places.update(self.keys.get(id(known), {}))
                else:
                    bad.append(known if isinstance(known, Unknown) else self.unknown(value_node, made))
            elif doubt := self.doubt(key_node, key):
                bad += [doubt, made]
            else:
                try:
                    out[key] = made
                    places[key] = key_node
                except TypeError:
                    bad.append(self.unknown(key_node))
        if bad:
            return self.unknown(node, *bad, *out.values())
        self.grow(node, len(out))
        self.keys[id(out)] = places
        return self.keep(out, node)

    def value_of_JoinedStr(self, node: Any, scope: Scope) -> Any:
        parts = [self.value(one, scope) for one in node.values]
        bad = next((p for p in parts if not isinstance(p, str)), None)
        if bad is not None:
            return self.unknown(node, bad)
        return self.python(node, lambda: "".join(parts))

    def value_of_FormattedValue(self, node: Any, scope: Scope) -> Any:
        value = self.value(node.value, scope)
        form = self.value(node.format_spec, scope) if node.format_spec else ""
        if isinstance(value, Unknown) and not isinstance(value, Symbol):
            return value
        if not isinstance(value, _PLAIN) or not isinstance(form, str) or _WIDE.search(form):
            return self.unknown(node, form)
        convert: Any = {114: repr, 115: str, 97: ascii}.get(node.conversion)
        shown = str(value) if isinstance(value, str) else value
        return self.python(node, lambda: format(convert(shown) if convert else shown, form))

    def value_of_Lambda(self, node: Any, scope: Scope) -> Any:
        return self.function(node, scope)

    def value_of_Starred(self, node: Any, scope: Scope) -> Any:
        return self.unknown(node, self.value(node.value, scope))

    def value_of_Await(self, node: Any, scope: Scope) -> Any:
        return self.unknown(node, self.value(node.value, scope))

    value_of_YieldFrom = value_of_Await

    def value_of_Yield(self, node: Any, scope: Scope) -> Any:
        made = self.value(node.value, scope) if node.value else None
        return self.unknown(node, made)

    def function(self, node: Any, scope: Scope) -> Function:
        """A new function, whose defaults are evaluated once, as in Python."""
        args = node.args
        every = [*args.posonlyargs, *args.args]
        defaults = {}
        if args.defaults:
            for one, default in zip(every[-len(args.defaults) :], args.defaults):
                defaults[one.arg] = self.value(default, scope)
        for one, default in zip(args.kwonlyargs, args.kw_defaults):
            if default is not None:
                defaults[one.arg] = self.value(default, scope)
        while scope.kind == "class" and scope.above:
            scope = scope.above
        made = Function(node, scope, defaults)
        self.keep(made, node)
        return made

    # -- Operators ---------------------------------------------------------------------

    def value_of_BinOp(self, node: Any, scope: Scope) -> Any:
        left = self.value(node.left, scope)
        return self.binary(node, type(node.op), left, self.value(node.right, scope))

    def binary(self, node: Any, op: type, left: Any, right: Any) -> Any:
        a, b = self.seen(left), self.seen(right)
        for one in (a, b):
            if isinstance(one, Unknown):
                return self.unknown(node, one, left, right)
        listed = type(a) is type(b) and type(a) in (list, tuple)
        plain = isinstance(a, (str, int, float)) and isinstance(b, (str, int, float))
        of = BINARY.get(op)
        if of is None or not (listed and op is ast.Add or plain or self.doubt(node, a, b) is None):
            return self.unknown(node, left, right)
        if op is ast.Mult:
            for many, count in ((a, b), (b, a)):
                if hasattr(many, "__len__") and isinstance(count, int):
                    self.grow(node, len(many) * max(count, 0))
        elif op is ast.Mod and isinstance(a, str) and _WIDE.search(a):
            return self.unknown(node, left, right)
        elif op in (ast.Pow, ast.LShift):
            small = isinstance(a, (int, float)) and isinstance(b, int) and 0 <= b < 1000
            if not small or abs(a) >= 1 << 64:
                return self.unknown(node, left, right)
        if isinstance(a, int) and isinstance(b, int) and max(abs(a), abs(b)) >> 4096:
            return self.unknown(node, left, right)
        return self.python(node, lambda: of(a, b), left, right)

    def value_of_UnaryOp(self, node: Any, scope: Scope) -> Any:
        value = self.value(node.operand, scope)
        if isinstance(node.op, ast.Not):
            truth = self.truth(value)
            if truth is None:
                return value if type(value) is Unknown else self.branch(node.operand, value)
            return not truth
        if isinstance(value, (int, float)):
            return self.python(node, lambda: _UNARY[type(node.op)](value))
        return self.unknown(node, value)

    def value_of_BoolOp(self, node: Any, scope: Scope) -> Any:
        wanted = isinstance(node.op, ast.Or)
        for i, one in enumerate(node.values):
            made = self.value(one, scope)
            truth = self.truth(made)
            if truth is None:
                why = made if type(made) is Unknown else self.branch(one, made)
                with self.undecided(why):
                    others = [self.value(other, scope) for other in node.values[i + 1 :]]
                return Unknown(why.why, why.node, why.flag, self.reach([made, *others]))
            if truth == wanted:
                break
        return made

    def value_of_IfExp(self, node: Any, scope: Scope) -> Any:
        test = self.value(node.test, scope)
        truth = self.truth(test)
        if truth is not None:
            return self.value(node.body if truth else node.orelse, scope)
        why = self.branch(node.test, test)
        with self.undecided(why):
            both = [self.value(node.body, scope), self.value(node.orelse, scope)]
        return Unknown(why.why, why.node, why.flag, self.reach(both))

    def value_of_Compare(self, node: Any, scope: Scope) -> Any:
        left = self.value(node.left, scope)
        made: Any = True
        for i, (op, right_node) in enumerate(zip(node.ops, node.comparators)):
            right = self.value(right_node, scope)
            made = self.compared(node, op, left, right)
            if isinstance(made, Unknown):
                with self.undecided(made):
                    for other in node.comparators[i + 1 :]:
                        self.value(other, scope)
                return made
            if not made:
                return made
            left = right
        return made

    def compared(self, node: Any, op: ast.cmpop, left: Any, right: Any) -> Any:
        if isinstance(op, (ast.Is, ast.IsNot)):
            for a, b in ((left, right), (right, left)):
                if (a is None or a is True or a is False) and not isinstance(b, Unknown):
                    return (a is b) == isinstance(op, ast.Is)
            return self.unknown(node, left, right)
        if isinstance(op, (ast.In, ast.NotIn)):
            of = self.seen(right.holder if isinstance(right, View) and right.name == "keys" else right)
            whole = not isinstance(of, dict)
            doubt = self.doubt(node, left, *([of] if whole else []))
            if isinstance(of, Unknown) or doubt:
                return doubt or self.unknown(node, of)
            inside = self.python(node, lambda: left in of)
            return inside if isinstance(inside, Unknown) else inside == isinstance(op, ast.In)
        for one in (left, right):  # a symbol's own name is the reason
            if isinstance(one, Symbol):
                return Unknown(one.why, one.node)
        compare = _COMPARE[type(op)]
        doubt = self.doubt(node, left, right)
        return doubt or self.python(node, lambda: compare(left, right), left, right)

    # -- Parts ---------------------------------------------------------------------------

    def value_of_Slice(self, node: Any, scope: Scope) -> Any:
        parts = [one and self.value(one, scope) for one in (node.lower, node.upper, node.step)]
        return self.doubt(node, *parts) or slice(*parts)

    def value_of_Subscript(self, node: Any, scope: Scope) -> Any:
        of = self.value(node.value, scope)
        return self.part(node, of, self.value(node.slice, scope))

    def part(self, node: Any, of: Any, index: Any) -> Any:
        known = self.seen(of)
        if isinstance(known, Unknown) or isinstance(index, Unknown):
            return self.unknown(node, known, index)
        normal = isinstance(known, (str, list, tuple, dict, range))
        if not normal or (isinstance(known, Spec) and not _is_normal(known)):
            return self.unknown(node, of, index)
        if doubt := self.doubt(node, index):
            return doubt
        if isinstance(known, Spec) and isinstance(index, slice):
            return self.unknown(node, of)
        try:
            made = known[index]
        except (TypeError, LookupError, ValueError):
            return self.unknown(node, of, index)
        if isinstance(index, slice) and isinstance(made, (list, tuple)):
            self.grow(node, len(made))
            return self.keep(made, node)
        return made

    def value_of_Attribute(self, node: Any, scope: Scope) -> Any:
        return self.attribute(node, self.value(node.value, scope), node.attr)

    def attribute(self, node: Any, holder: Any, name: str) -> Any:
        if isinstance(holder, Symbol) and holder.name != "self":
            return Symbol(name, node, holder.module or holder.name)
        if name in self.settings and isinstance(holder, (Object, Unknown)):
            if isinstance(holder, Unknown) or holder.is_sample:
                return self.settings[name]
        why = f"the value of `{self.text(node)}`"
        if isinstance(holder, Unknown):
            return Unknown(why, node, name, holder.roots)
        if name.startswith("__"):
            return Unknown(why, node, name, self.reach([holder]))
        if isinstance(holder, (Object, Class, Super)):
            return self.member(node, holder, name)
        if isinstance(holder, (str, list, dict, set, tuple, frozenset, Builtin)):
            return Method(holder, name)
        return Unknown(why, node, name, self.reach([holder]))

    def member(self, node: Any, holder: Any, name: str) -> Any:
        """An attribute of an object or class of the file."""
        unknown = Unknown(f"the value of `{self.text(node)}`", node, name, [holder])
        if isinstance(holder, Object) and name in holder.names:
            return holder.names[name]
        owner = holder.owner if isinstance(holder, Super) else holder
        order = owner.of.order if isinstance(owner, Object) else owner.order
        if any(isinstance(one, Symbol) and one.name in DYNAMIC for one in order):
            return unknown
        if isinstance(holder, Super):
            order = order[order.index(holder.of) + 1 :] if holder.of in order else []
        if isinstance(holder, Object) and holder.is_sample and self.assigns(holder.of, name):
            return self.sample_member(holder, name) or unknown
        for one in order:
            if isinstance(one, Unknown):
                break
            if name not in one.names:
                continue
            found = one.names[name]
            if isinstance(found, Function):
                return self.bound(node, found, owner)
            return found
        if isinstance(holder, Object) and holder.is_sample:
            return self.sample_member(holder, name) or unknown
        return unknown

    def bound(self, node: Any, found: Function, owner: Any) -> Any:
        if found.kind == "static" or found.owner is not None:
            return found
        if isinstance(owner, Class) and found.kind != "class":
            return found
        if found.kind == "class" and isinstance(owner, Object):
            owner = owner.of
        made = Function(
            found.node, found.scope, found.defaults, found.kind, found.within, owner, found.why
        )
        self.keep(made, found.node)
        return self.call(made, [], {}, node) if found.kind == "property" else made

    def assigns(self, of: Class, name: str) -> bool:
        """Whether a method of the class may assign an attribute of its object."""
        return any(
            isinstance(one, Class) and name in _assigned(one.node) for one in of.order
        )

    def sample_member(self, holder: Object, name: str) -> Any:
        """The object that `__init__` makes for an attribute, where all that it calls
        for it is one class of the file, or `sub_configs` names the class."""
        found = None
        for one in holder.of.order:
            if isinstance(one, Unknown):
                break
            parts = one.names.get("sub_configs")
            if isinstance(parts, dict) and isinstance(parts.get(name), Class):
                found = {parts[name]}
                break
            begin = one.names.get("__init__")
            if isinstance(begin, Function):
                found = {
                    self.value(inside.value.func, begin.scope)
                    for inside in ast.walk(begin.node)
                    if isinstance(inside, ast.Assign) and isinstance(inside.value, ast.Call)
                    for target in inside.targets
                    if name in (getattr(target, "attr", ""), getattr(target, "id", ""))
                }
                break
        made = next(iter(found)) if found and len(found) == 1 else None
        return Object(made, self.born(), True) if isinstance(made, Class) else None

    # -- Comprehensions ----------------------------------------------------------------

    def value_of_ListComp(self, node: Any, scope: Scope) -> Any:
        lazy = self.comprehended(node, scope, lambda s: self.value(node.elt, s))
        made = self.items(lazy, node)
        return made if isinstance(made, Unknown) else self.keep(made, node)

    def value_of_SetComp(self, node: Any, scope: Scope) -> Any:
        made = self.value_of_ListComp(node, scope)
        if isinstance(made, Unknown):
            return made
        return self.doubt(node, made) or self.python(node, lambda: set(made), made)

    def value_of_DictComp(self, node: Any, scope: Scope) -> Any:
        def pair(inner: Scope) -> Any:
            return (self.value(node.key, inner), self.value(node.value, inner))

        made = self.items(self.comprehended(node, scope, pair), node)
        if isinstance(made, Unknown):
            return made
        doubt = self.doubt(node.key, *(key for key, _ in made))
        if doubt:
            return self.unknown(node, doubt, *(value for _, value in made))
        out = self.python(node, lambda: dict(made), made)
        self.keys[id(out)] = dict.fromkeys(out, node.key) if isinstance(out, dict) else {}
        return out

    def value_of_GeneratorExp(self, node: Any, scope: Scope) -> Any:
        return self.comprehended(node, scope, lambda s: self.value(node.elt, s))

    def comprehended(self, node: Any, scope: Scope, make: Callable[[Scope], Any]) -> Lazy:
        loops = node.generators
        first = self.value(loops[0].iter, scope)
        inner = Scope(scope, "comprehension", self.born())
        while inner.above and inner.above.kind == "class":
            inner.above = inner.above.above

        def level(i: int) -> Iterator[Any]:
            if i == len(loops):
                yield make(inner)
                return
            over = self.value(loops[i].iter, inner) if i else first
            for item in self.iterate(over, loops[i].iter):
                self.put(loops[i].target, item, inner)
                for test_node in loops[i].ifs:
                    test = self.value(test_node, inner)
                    truth = self.truth(test)
                    if truth is None:
                        raise Undecidable(self.branch(test_node, test))
                    if not truth:
                        break
                else:
                    yield from level(i + 1)

        def rest() -> list[Any]:
            out: list[Any] = []

            def once() -> None:
                for i, loop in enumerate(loops):
                    over = self.value(loop.iter, inner) if i else first
                    self.put(loop.target, self.unknown(loop.iter, over), inner)
                    for test_node in loop.ifs:
                        self.value(test_node, inner)
                out.append(make(inner))

            self.repeat(Unknown("what is not decided here", node), once)
            return out

        lazy = Lazy(level(0), [first], rest)
        self.keep(lazy, node)
        return lazy

    def repeat(self, why: Unknown, once: Callable[[], None]) -> None:
        """Follows what may run any number of times, until it changes nothing more."""
        with self.undecided(why):
            for turn in range(20):
                before = self.changes
                once()
                if turn and self.changes == before:
                    return
        raise Refused(Unknown("this part, which changes too many names,", why.node))

    def put(self, target: Any, value: Any, scope: Scope) -> None:
        raise NotImplementedError


@functools.lru_cache(maxsize=1000)
def _assigned(node: ast.AST) -> frozenset[str]:
    """The attributes that the statements of a class assign."""
    return frozenset(
        one.attr for one in ast.walk(node)
        if isinstance(one, ast.Attribute) and not isinstance(one.ctx, ast.Load)
    )  # fmt: skip


def _is_normal(spec: Spec) -> bool:
    """Whether every version of JAX keeps the entries of a spec as they are given."""
    return all(
        one is None or isinstance(one, str)
        or (type(one) is tuple and len(one) > 1 and all(isinstance(o, str) for o in one))
        for one in spec
    )


def is_safe_format(text: str) -> bool:
    """Whether a text of `str.format` reads no attributes and makes no wide fields."""
    if _WIDE.search(text):
        return False
    try:
        names = [name for _, name, form, _ in string.Formatter().parse(text) if name is not None]
    except ValueError:
        return False
    return all(not name or name.isdigit() or name.isidentifier() for name in names)

