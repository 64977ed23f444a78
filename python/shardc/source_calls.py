"""Calls in Python source: of specs and their like, of Python's own functions and
methods, and of the functions and classes of the file.

A function of another file does not change its arguments, but may call those that are
functions, any number of times. What such a call returns may be any of its arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any, Callable

from shardc.source_expressions import Expressions, Undecidable, is_safe_format
from shardc.source_state import Refused
from shardc.source_values import (
    Axes,
    Builtin,
    Class,
    Function,
    Lazy,
    Method,
    Object,
    Resolved,
    Scope,
    Spec,
    Super,
    Symbol,
    Unknown,
    View,
)

SPECS = {"P", "PS", "PartitionSpec", "Ps", "PSpec"}
_RESOLVING = {"resolve", "resolve_spec", "DynamicShardingAxes"}
_COPIES = {"freeze", "OrderedDict", "FrozenDict", "unfreeze"}
# What runs code in a text, or changes names that no statement binds.
_HIDDEN = {
    "eval",
    "exec",
    "globals",
    "locals",
    "vars",
    "setattr",
    "delattr",
    "__import__",
    "compile",
}
# Functions of other files that change their arguments.
_CHANGING = {"operator", "bisect", "heapq", "random", "ctypes", "gc", "types"}
# Methods of lists, dicts and sets that change them; all others do not.
MUTATORS = frozenset(
    """append extend insert pop remove clear reverse sort update setdefault popitem add
    discard difference_update intersection_update symmetric_difference_update
    __setitem__ __delitem__ __iadd__ __ior__ __imul__ move_to_end appendleft""".split()
)
_OF_TEXT = frozenset(
    """join replace lower upper strip lstrip rstrip split rsplit startswith endswith
    removeprefix removesuffix title capitalize find rfind index count splitlines isdigit
    format partition rpartition""".split()
)
# Special methods that leave alone how objects are made, read and compared.
_USUAL = frozenset(
    """__init__ __repr__ __str__ __doc__ __slots__ __module__ __annotations__
    __qualname__ __match_args__ __post_init__""".split()
)
_DEEP = 20  # calls inside of each other


class Returned(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class Raised(Exception):
    """A `raise` that is reached."""


class Frame:
    def __init__(self, function: Function, region: int) -> None:
        self.function, self.region = function, region
        self.returned: list[Any] = []  # by branches that are not decided


class Calls(Expressions):
    frames: list[Frame]
    defaults: list[str] | None  # flags whose defaults are used, if they are listed
    is_listed = False  # whether the next function is called for its value alone

    def run(self, body: Iterable[ast.stmt], scope: Scope) -> None:
        raise NotImplementedError

    def value_of_Call(self, node: Any, scope: Scope) -> Any:
        function = self.value(node.func, scope)
        if isinstance(function, Builtin) and function.name == "super" and not node.args:
            frame = self.frames[-1].function if self.frames else None
            within = frame.within if frame else None
            owner = frame.owner if frame else None
            return Super(within, owner) if within and owner else self.unknown(node)
        given: list[Any] = []
        named: dict[str, Any] = {}
        bad: list[Any] = []
        for one in node.args:
            if isinstance(one, ast.Starred):
                made = self.items(self.value(one.value, scope), one.value)
                if isinstance(made, Unknown):
                    text = f"what `{self.text(one)}` stands for"
                    bad.append(Unknown(text, one, made.flag, made.roots))
                else:
                    given += made
            else:
                given.append(self.value(one, scope))
        for one in node.keywords:
            made = self.value(one.value, scope)
            if one.arg is not None:
                named[one.arg] = made
                continue
            known = self.seen(made)
            if isinstance(known, dict) and all(isinstance(key, str) for key in known):
                named.update(known)
            else:
                bad.append(self.unknown(one.value, known))
        if bad:
            name = function.name if isinstance(function, Symbol) else ""
            if name in SPECS:
                return self.keep(Spec([*given, *bad]), node)
            self.outside_call(function, [*given, *named.values(), *bad], node)
            return self.unknown(node, *bad, *given, *named.values())
        return self.call(function, given, named, node)

    def call(
        self, function: Any, given: list[Any], named: dict[str, Any], node: Any
    ) -> Any:
        self.step(node)
        if isinstance(function, Function):
            return self.entered(function, given, named, node)
        if isinstance(function, Class):
            return self.constructed(function, given, named, node)
        if isinstance(function, Method):
            return self.method(function, given, named, node)
        if isinstance(function, Builtin):
            return self.builtin(function.name, given, named, node)
        name = function.flag if type(function) is Unknown else ""
        if isinstance(function, Symbol):
            name = function.name
            if name in SPECS:
                made = Spec(given)
                made.fields = named
                return self.keep(made, node)
            if name == "PartitionAxis":
                return self.keep(Axes(named, given), node)
            if name == "NamedSharding" and len(given) == 2:
                return given[1]
            if name == "compile" and len(given) == 1 and not named:
                return given[0]
            if name in _COPIES and len(given) < 2 and not named:
                of = self.seen(given[0]) if given else {}
                return (
                    self.python(node, lambda: dict(of))
                    if isinstance(of, dict)
                    else self.unknown(node, of)
                )
        if name in _RESOLVING:
            return self.keep(_resolved(given, named), node)
        return self.outside_call(function, [*given, *named.values()], node)

    # -- Functions of other files ------------------------------------------------------

    def outside_call(self, function: Any, values: list[Any], node: Any) -> Unknown:
        """What a call returns that cannot be followed."""
        called = node.func if isinstance(node, ast.Call) else node
        text = self.text(called)
        why = Unknown(f"what `{text}` returns", node)
        symbol = function if isinstance(function, Symbol) else None
        if symbol and (
            symbol.module in _CHANGING
            or symbol.name in MUTATORS - {"update", "add", "pop", "sort", "append"}
        ):
            self.lose_all(values, node, self.text(node), *values)
        roots = self.reach([function, *values])
        results: list[Any] = []
        for one in self.reach([function]):
            # What it may be: one of these is called with the arguments.
            if isinstance(one, (Function, Method, Class)):
                results.append(self.may_call(one, values, why))
        for one in _functions_in(values):
            results.append(
                self.may_call(one, [Unknown(why.why, node, "", roots)], why, True)
            )
        return Unknown(why.why, node, "", self.reach([*roots, *results]))

    def may_call(
        self, of: Any, given: list[Any], why: Unknown, rest: bool = False
    ) -> Any:
        """The results of a call that may happen any number of times. With `rest`, the
        one argument stands for all that the call may give."""
        results: list[Any] = []

        def once() -> None:
            if isinstance(of, Function):
                results.append(
                    self.entered(
                        of,
                        [] if rest else given,
                        {},
                        why.node,
                        given[0] if given else why,
                    )
                )
            elif isinstance(of, Class):
                results.append(self.constructed(of, given, {}, why.node))
            elif of.name in MUTATORS:
                self.lose_all([of.holder], why.node, self.text(why.node), *given)
                results.append(self.unknown(why.node, of.holder, *given))

        self.repeat(why, once)
        return Unknown(why.why, why.node, "", self.reach(results))

    def forsake(self, values: list[Any], node: Any) -> Unknown:
        """Loses all that the values can reach, by any function: for what recurs or
        hides what it does."""
        found = self.reach(values, closures=True)
        why = Unknown(f"what `{self.text(node)}` returns", node)
        self.lose_all(found, node, self.text(node), *values)
        for one in found:
            if isinstance(one, Function):
                for inside in ast.walk(one.node):
                    if isinstance(inside, (ast.Global, ast.Nonlocal)):
                        for name in inside.names:
                            scope: Any = one.scope
                            while scope.above and name not in scope.names:
                                scope = scope.above
                            self.blur(scope, name, values, why)
        return Unknown(why.why, node, "", found)

    # -- Functions and classes of the file -----------------------------------------------

    def entered(
        self,
        of: Function,
        given: list[Any],
        named: dict[str, Any],
        node: Any,
        rest: Any = None,
    ) -> Any:
        """What a function returns. `rest`, if it is given, is what every argument that
        is not may be, apart from its default."""
        values = [*given, *named.values(), *([] if rest is None else [rest])]
        if of.kind == "cached":
            self.stored.add(id(of.node))
            self.is_dirty = True
        again = any(frame.function.node is of.node for frame in self.frames)
        if len(self.frames) >= _DEEP or (again and self.since > 0):
            why = self.forsake([of, *values], node)
            return Unknown(
                "what functions that call each other return", why.node, "", why.roots
            )
        if of.kind in ("wrapped", "cached") and rest is None:
            why = Unknown(f"what `{self.text(node)}` returns", node)
            return self.may_call(_unwrapped(of), values, why)
        scope = Scope(of.scope, "function", self.born())
        if not self.arguments(of, given, named, node, rest, scope):
            return self.unknown(node, *values)
        if isinstance(of.node, ast.Lambda):
            with self.region() as region:
                self.frames.append(Frame(of, region))
                try:
                    return self.value(of.node.body, scope)
                finally:
                    self.frames.pop()
        if _is_generator(of.node):
            return self.generated(of, scope, node)
        return self.body(of, scope)

    def body(self, of: Function, scope: Scope) -> Any:
        for one in _own(of.node):
            if isinstance(one, (ast.Global, ast.Nonlocal)):
                for name in one.names:
                    above: Any = of.scope
                    while above.above and (
                        isinstance(one, ast.Global) or name not in above.names
                    ):
                        above = above.above
                    scope.declared[name] = above
        with self.region() as region:
            frame = Frame(of, region)
            self.frames.append(frame)
            made: Any = None
            try:
                self.run(of.node.body, scope)
            except Returned as end:
                made = end.value
            except Raised:
                made = Unknown(f"what `{of.node.name}` returns", of.node)
            finally:
                self.frames.pop()
            if not frame.returned:
                return made
            why: Unknown = self.marks[region][1] or frame.returned[0][1]
            values = [value for value, _ in frame.returned]
            return Unknown(why.why, why.node, why.flag, self.reach([*values, made]))

    def generated(self, of: Function, scope: Scope, node: Any) -> Unknown:
        """A generator or coroutine: it may run, and what it yields is not followed."""
        why = Unknown(f"what `{self.text(node)}` returns", node)
        made: list[Any] = []
        self.repeat(why, lambda: made.append(self.body(of, scope)))
        return Unknown(why.why, node, "", self.reach([*made, *scope.names.values()]))

    def arguments(
        self,
        of: Function,
        given: list[Any],
        named: dict[str, Any],
        node: Any,
        rest: Any,
        scope: Scope,
    ) -> bool:
        """Binds the parameters; false where Python would refuse the call."""
        args = of.node.args
        every = [one.arg for one in (*args.posonlyargs, *args.args)]
        names = scope.names
        listed, self.is_listed = self.is_listed, False
        if of.owner is not None and of.kind != "static":
            given = [of.owner, *given]
        if len(given) > len(every) and not args.vararg and rest is None:
            return False
        names.update(zip(every, given))
        more: dict[str, Any] = {}
        keywords = {
            *every[len(args.posonlyargs) :],
            *(one.arg for one in args.kwonlyargs),
        }
        for name, value in named.items():
            if name in keywords and name not in names:
                names[name] = value
            elif args.kwarg and name not in keywords:
                more[name] = value
            else:
                return False
        for name in [*every, *(one.arg for one in args.kwonlyargs)]:
            if name in names:
                continue
            if rest is not None:
                roots = self.reach([rest, of.defaults.get(name)])
                names[name] = Unknown(f"the argument `{name}`", of.node, "", roots)
            elif name in self.settings:
                names[name] = self.settings[name]
            elif name in of.defaults:
                names[name] = of.defaults[name]
                if self.defaults is not None and isinstance(names[name], bool):
                    self.defaults.append(f"{name}={names[name]}")
            elif listed:
                names[name] = Unknown(f"the argument `{name}`", of.node, name)
            else:
                return False
        if args.vararg:
            some = self.keep(tuple(given[len(every) :]), node)
            names[args.vararg.arg] = some if rest is None else rest
        if args.kwarg:
            names[args.kwarg.arg] = self.keep(more, node) if rest is None else rest
        return True

    def constructed(
        self, of: Class, given: list[Any], named: dict[str, Any], node: Any
    ) -> Any:
        values = [*given, *named.values()]
        if is_special(of):
            return self.forsake([of, *values], node)
        made = Object(of, self.born())
        self.keep_alive(made)
        for one in of.order:
            if isinstance(one, Unknown):
                break
            begin = one.names.get("__init__")
            if begin is not None:
                if not isinstance(begin, Function):
                    return self.forsake([of, begin, *values], node)
                self.call(self.bound(node, begin, made), given, named, node)
                return made
        fields = _fields(of)
        if values and (of.is_record or self.outside(of)) and set(named) <= set(fields):
            known = dict(zip(fields, given)) if len(given) <= len(fields) else {}
            made.names.update({**known, **named})
            if of.is_record:
                return made
        if self.outside(of) and values:
            self.may_hold(made, values)
        return made

    # -- Python's own functions ----------------------------------------------------------

    def builtin(
        self, name: str, given: list[Any], named: dict[str, Any], node: Any
    ) -> Any:
        if name in _HIDDEN:
            raise Refused(Unknown(f"what `{name}` does", node))
        make = getattr(self, "builtin_" + name, None)
        if make is not None:
            return make(given, named, node)
        plain = (*given, *named.values())
        if name in (
            "list",
            "tuple",
            "set",
            "frozenset",
            "sum",
            "any",
            "all",
            "sorted",
            "min",
            "max",
        ):
            if not given:
                return self.python(
                    node, {"list": list, "tuple": tuple, "set": set}.get(name, tuple)
                )
            if name in ("min", "max") and len(given) > 1:
                items = list(given)
            else:
                items = self.items(given[0], node)
            if isinstance(items, Unknown):
                return self.outside_call(items, list(plain), node)
            if name in ("list", "tuple"):
                return self.keep(items if name == "list" else tuple(items), node)
            return self.collected(
                name, items, given[1:] if items is not given else [], named, node
            )
        doubt = self.doubt(node, *plain)
        symbol = next((one for one in plain if isinstance(one, Symbol)), None)
        if doubt and name == "range" and symbol:
            doubt.flag = symbol.name
        if doubt or name not in _PURE:
            return (
                doubt
                if doubt and name in _PURE
                else self.outside_call(
                    Unknown(f"what `{name}` returns", node), list(plain), node
                )
            )
        if name == "range":
            return self.python(node, lambda: range(*given), *given)
        return self.python(node, lambda: _PURE[name](*given, **named), *plain)

    def collected(
        self,
        name: str,
        items: list[Any],
        more: list[Any],
        named: dict[str, Any],
        node: Any,
    ) -> Any:
        key = named.pop("key", None)
        keys = (
            items if key is None else [self.call(key, [one], {}, node) for one in items]
        )
        if name in ("any", "all"):
            wanted = name == "any"
            for one in items:
                truth = self.truth(one)
                if truth is None:
                    return self.unknown(node, self.branch(node, one))
                if truth == wanted:
                    return wanted
            return not wanted
        doubt = self.doubt(node, keys, named)
        if doubt:
            return self.unknown(node, doubt, *items)
        if name == "sum":
            return self.python(node, lambda: sum(items, *more), *items)
        if name in ("set", "frozenset"):
            return self.python(
                node, lambda: (set if name == "set" else frozenset)(items), *items
            )
        order = range(len(items))
        every: dict[str, Any] = {"sorted": sorted, "min": min, "max": max}
        of = every[name]
        if not items:
            return (
                self.keep([], node)
                if name == "sorted"
                else named.get("default", self.unknown(node))
            )
        named.pop("default", None)
        found = self.python(
            node, lambda: of(order, key=keys.__getitem__, **named), *items
        )
        if isinstance(found, Unknown):
            return found
        return (
            self.keep([items[i] for i in found], node)
            if name == "sorted"
            else items[found]
        )

    def builtin_dict(self, given: list[Any], named: dict[str, Any], node: Any) -> Any:
        made: dict[Any, Any] = {}
        if given:
            of = self.seen(given[0])
            if isinstance(of, dict):
                made.update(of)
                self.keys[id(made)] = dict(self.keys.get(id(of), {}))
            elif isinstance(of, (Unknown, str)):
                return self.unknown(node, of)
            else:
                pairs = self.items(given[0], node)
                for pair in [pairs] if isinstance(pairs, Unknown) else pairs:
                    parts = self.items(pair, node)
                    bad = isinstance(parts, Unknown) or len(parts) != 2
                    if bad or self.doubt(node, parts[0]):
                        return self.unknown(node, pairs, *given)
                    made[parts[0]] = parts[1]
        made.update(named)
        self.grow(node, len(made))
        return self.keep(made, node)

    def builtin_len(self, given: list[Any], named: dict[str, Any], node: Any) -> Any:
        of = self.seen(given[0]) if len(given) == 1 else None
        of = self.seen(of.holder) if isinstance(of, View) else of
        if isinstance(of, (str, list, tuple, dict, set, frozenset, range)):
            return len(of)
        return self.unknown(node, of)

    def builtin_bool(self, given: list[Any], named: dict[str, Any], node: Any) -> Any:
        truth = self.truth(given[0]) if given else False
        return self.unknown(node, *given) if truth is None else truth

    def builtin_print(self, given: list[Any], named: dict[str, Any], node: Any) -> Any:
        return None

    def builtin_isinstance(
        self, given: list[Any], named: dict[str, Any], node: Any
    ) -> Any:
        of, kinds = (*given, None, None)[:2]
        every = kinds if isinstance(kinds, tuple) else (kinds,)
        plain = {
            "str": str,
            "int": int,
            "float": float,
            "list": list,
            "tuple": tuple,
            "dict": dict,
            "bool": bool,
            "set": set,
        }
        if isinstance(of, (Unknown, Spec)) or not all(
            isinstance(k, Builtin) and k.name in plain for k in every
        ):
            return self.unknown(node, *given)
        return isinstance(of, tuple(plain[k.name] for k in every))

    def builtin_getattr(
        self, given: list[Any], named: dict[str, Any], node: Any
    ) -> Any:
        if len(given) == 2 and isinstance(given[1], str):
            return self.attribute(node, given[0], str(given[1]))
        if (
            len(given) == 3
            and isinstance(given[1], str)
            and isinstance(given[0], (Object, Class))
        ):
            found = self.member(node, given[0], str(given[1]))
            if type(found) is not Unknown:
                return found
        self.lose_all(given, node, self.text(node))
        return self.unknown(node, *given)

    def lazy(
        self,
        make: Callable[[list[Any]], Any],
        of: list[Any],
        node: Any,
        sources: list[Any],
        rest: Any = tuple,
    ) -> Any:
        return self.keep(
            Lazy(iter(make([self.iterate(one, node) for one in of])), sources, rest),
            node,
        )

    def builtin_zip(self, given: list[Any], named: dict[str, Any], node: Any) -> Any:
        def make(parts: list[Any]) -> Any:
            for pair in zip(*parts):
                yield self.keep(pair, node)

        return (
            self.unknown(node, *given) if named else self.lazy(make, given, node, given)
        )

    def builtin_enumerate(
        self, given: list[Any], named: dict[str, Any], node: Any
    ) -> Any:
        start = given[1] if len(given) > 1 else named.get("start", 0)
        if not isinstance(start, int) or not given:
            return self.unknown(node, *given)

        def make(parts: list[Any]) -> Any:
            for pair in enumerate(parts[0], start):
                yield self.keep(pair, node)

        return self.lazy(make, given[:1], node, given[:1])

    def builtin_iter(self, given: list[Any], named: dict[str, Any], node: Any) -> Any:
        if len(given) != 1 or isinstance(given[0], Unknown):
            return self.outside_call(Unknown("", node), given, node)
        return (
            given[0]
            if isinstance(given[0], Lazy)
            else self.lazy(lambda p: p[0], given, node, given)
        )

    def builtin_reversed(
        self, given: list[Any], named: dict[str, Any], node: Any
    ) -> Any:
        of = self.seen(given[0]) if len(given) == 1 else None
        if not isinstance(of, (list, tuple, str, range)) or isinstance(of, Spec):
            return self.unknown(node, *given)
        at = len(of)

        def make(parts: list[Any]) -> Any:
            for i in range(at - 1, -1, -1):
                known = self.seen(of)
                if isinstance(known, Unknown) or i >= len(of):
                    raise Undecidable(self.unknown(node, known))
                yield of[i]

        return self.lazy(make, [], node, given)

    def builtin_map(self, given: list[Any], named: dict[str, Any], node: Any) -> Any:
        function, of = given[0] if given else None, given[1:]

        def make(parts: list[Any]) -> Any:
            return map(lambda *each: self.call(function, list(each), {}, node), *parts)

        def rest() -> list[Any]:
            any_of = Unknown("what is not decided here", node, "", self.reach(of))
            return [self.may_call_any(function, [any_of] * len(of), node)]

        return (
            self.lazy(make, of, node, given, rest) if of else self.unknown(node, *given)
        )

    def builtin_filter(self, given: list[Any], named: dict[str, Any], node: Any) -> Any:
        if len(given) != 2:
            return self.unknown(node, *given)
        function, of = given

        def make(parts: list[Any]) -> Any:
            for one in parts[0]:
                made = one if function is None else self.call(function, [one], {}, node)
                truth = self.truth(made)
                if truth is None:
                    raise Undecidable(self.branch(node, made))
                if truth:
                    yield one

        def rest() -> list[Any]:
            any_of = Unknown("what is not decided here", node, "", self.reach([of]))
            return (
                [any_of]
                if function is None
                else [self.may_call_any(function, [any_of], node)]
            )

        return self.lazy(make, [of], node, given, rest)

    def may_call_any(self, of: Any, given: list[Any], node: Any) -> Any:
        why = Unknown(f"what `{self.text(node)}` returns", node)
        if isinstance(of, (Function, Method, Class)):
            return self.may_call(of, given, why)
        return self.outside_call(of, given, node)

    def builtin_next(self, given: list[Any], named: dict[str, Any], node: Any) -> Any:
        of = given[0] if given else None
        if not isinstance(of, Lazy):
            return self.unknown(node, *given)
        try:
            for item in self.iterate(of, node):
                return item
        except Undecidable as end:
            return Unknown(
                end.unknown.why,
                end.unknown.node,
                end.unknown.flag,
                self.reach([*given, *of.rest()]),
            )
        return given[1] if len(given) > 1 else self.unknown(node)

    # -- Methods of Python's own types -----------------------------------------------------

    def method(
        self, of: Method, given: list[Any], named: dict[str, Any], node: Any
    ) -> Any:
        holder, name = of.holder, of.name
        if isinstance(holder, Builtin):
            if name == "fromkeys" and holder.name == "dict" and 0 < len(given) < 3:
                keys = self.items(given[0], node)
                value = given[1] if len(given) > 1 else None
                if isinstance(keys, Unknown) or self.doubt(node, keys):
                    return self.unknown(node, *given)
                return self.python(node, lambda: dict.fromkeys(keys, value), *given)
            if name in MUTATORS:
                self.lose_all(given[:1], node, self.text(node), *given)
            return self.outside_call(
                of.holder and Unknown("", node), [*given, *named.values()], node
            )
        if isinstance(holder, str):
            return self.text_method(holder, name, given, named, node)
        if name in MUTATORS:
            return self.changed(holder, name, given, named, node)
        known = self.seen(holder)
        if isinstance(known, Unknown):
            return self.unknown(node, known, *given)
        if (
            isinstance(known, dict)
            and name in ("items", "keys", "values")
            and not given
        ):
            return View(known, name)
        if (
            isinstance(known, dict)
            and name == "get"
            and 0 < len(given) < 3
            and not named
        ):
            if doubt := self.doubt(node, given[0]):
                return self.unknown(node, doubt, known, *given)
            return self.python_get(known, given, node)
        if isinstance(known, (list, dict, set)) and name == "copy" and not given:
            made = self.python(node, known.copy)
            self.keys[id(made)] = dict(self.keys.get(id(known), {}))
            return made
        doubt = self.doubt(node, known, *given, *named.values())
        if doubt or name not in (
            "index",
            "count",
            "union",
            "intersection",
            "difference",
        ):
            return doubt or self.outside_call(Unknown("", node), [holder, *given], node)
        return self.python(
            node, lambda: getattr(known, name)(*given, **named), known, *given
        )

    def python_get(self, known: dict[Any, Any], given: list[Any], node: Any) -> Any:
        try:
            return known.get(*given)
        except TypeError:
            return self.unknown(node)

    def text_method(
        self, text: str, name: str, given: list[Any], named: dict[str, Any], node: Any
    ) -> Any:
        values = list(given)
        if name == "join" and len(given) == 1:
            made = self.items(given[0], node)
            if isinstance(made, Unknown):
                return made
            values = [made]
        doubt = self.doubt(node, *values, *named.values())
        if (
            doubt
            or name not in _OF_TEXT
            or (name == "format" and not is_safe_format(text))
        ):
            return doubt or self.unknown(node, *given)
        if name == "replace" and all(isinstance(one, str) for one in values):
            self.grow(node, len(text) * max([1, *map(len, values)]) // 100)
        if name == "join":
            self.grow(node, (len(text) + 1) * len(values[0]) // 100)
        return self.python(
            node, lambda: getattr(str(text), name)(*values, **named), *given
        )

    def changed(
        self, holder: Any, name: str, given: list[Any], named: dict[str, Any], node: Any
    ) -> Any:
        """Follows a method that changes a list, a dict or a set."""
        values = [*given, *named.values()]
        if (
            name in ("extend", "update")
            and given
            and not isinstance(self.seen(given[0]), dict)
        ):
            made = (
                self.items(given[0], node)
                if len(given) == 1
                else self.unknown(node, *given)
            )
            if isinstance(made, Unknown):
                self.lose(holder, made, *values, *made.roots)
                return None
            given = [made]
        if not self.may_change(holder, node, *values):
            return self.unknown(node, self.seen(holder), *values)
        why = self.unsure(holder, name, given, named, node)
        if why is not None:
            self.lose(holder, why, *values)
            return self.unknown(node, why, holder, *values)
        self.grow(node, len(given[0]) if name in ("extend", "update") and given else 1)
        if isinstance(holder, dict):
            places = self.keys.setdefault(id(holder), {})
            if name == "update":
                places.update(self.keys.get(id(given[0]), {}) if given else {})
            elif name == "setdefault":
                places.setdefault(given[0], node)
        if name == "sort":
            made = self.collected("sorted", list(holder), [], dict(named), node)
            if isinstance(made, Unknown):
                self.lose(holder, made, *values)
            elif id(holder) not in self.lost:
                holder[:] = made
            return None
        try:
            return getattr(holder, name)(*given, **named)
        except Exception:  # the program ends here
            return self.unknown(node)

    def unsure(
        self, holder: Any, name: str, given: list[Any], named: dict[str, Any], node: Any
    ) -> Unknown | None:
        """Why a change is not what Python would make of the same call."""
        if isinstance(holder, list):
            followed = {"append", "extend", "insert", "pop", "clear", "reverse", "sort"}
            plain = given[:1] if name in ("insert", "pop") else []
        elif isinstance(holder, dict):
            followed = {"update", "pop", "setdefault", "clear", "popitem"}
            plain = [list(given[0])] if name == "update" and given else given[:1]
            if name == "update" and given and not isinstance(given[0], dict):
                return self.unknown(node, *given)
        else:
            followed = {"add", "discard", "clear"}
            plain = given
        if name not in followed or (named and name not in ("sort", "update")):
            return self.unknown(node, *given)
        return self.doubt(node, *plain)


_PURE: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "float": float,
    "int": int,
    "repr": repr,
    "str": str,
    "range": range,
}


def _resolved(given: list[Any], named: dict[str, Any]) -> Resolved:
    """As PartitionManager.resolve(axes, mode, dynamic_axes, shape) of eformer."""
    all_of = {**dict(zip(("axes", "mode", "dynamic_axes", "shape"), given)), **named}
    absent = [
        k for k, v in all_of.items() if isinstance(v, Symbol) and v.name == "NOT_GIVEN"
    ]
    for name in absent:
        del all_of[name]
    axes = all_of.get("axes")
    is_list = "axes" in all_of and not isinstance(
        axes, (Symbol, Resolved, Class, Object)
    )
    dynamic = "dynamic_axes" in all_of and (
        "axes" not in all_of or (is_list and "mode" not in all_of)
    )
    chosen = "dynamic_axes" if dynamic else "axes"
    has_mode = not dynamic and "mode" in all_of
    return Resolved(
        all_of.get(chosen),
        all_of.get("mode"),
        chosen in all_of,
        has_mode,
        "shape" in all_of,
    )


def _functions_in(values: Iterable[Any]) -> list[Any]:
    """The functions that values are or hold, but not those of their classes."""
    out: dict[int, Any] = {}
    stack, seen = list(values), set()
    while stack:
        one = stack.pop()
        if id(one) in seen or isinstance(one, (str, int, Symbol)):
            continue
        seen.add(id(one))
        if isinstance(one, (Function, Method)):
            out[id(one)] = one
        elif isinstance(one, (list, tuple, set, frozenset)):
            stack += one
        elif isinstance(one, dict):
            stack += one.values()
        elif isinstance(one, Lazy):
            stack += one.sources
        elif isinstance(one, Unknown):
            stack += [
                root for root in one.roots if isinstance(root, (Function, Method))
            ]
    return list(out.values())


def _own(node: Any) -> Iterable[ast.AST]:
    """The nodes of a function without those of functions and classes inside of it."""
    stack = list(node.body) if isinstance(node.body, list) else [node.body]
    while stack:
        one = stack.pop()
        yield one
        if not isinstance(
            one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
        ):
            stack += ast.iter_child_nodes(one)


def _is_generator(node: Any) -> bool:
    return isinstance(node, ast.AsyncFunctionDef) or any(
        isinstance(one, (ast.Yield, ast.YieldFrom)) for one in _own(node)
    )


def _unwrapped(of: Function) -> Function:
    made = Function(of.node, of.scope, of.defaults, "plain", of.within, of.owner)
    return made


def is_special(of: Class) -> bool:
    """Whether the class defines how its objects are made, read or compared."""
    for one in of.order:
        if isinstance(one, Class):
            if any(
                n.startswith("__") and n.endswith("__") and n not in _USUAL
                for n in one.names
            ):
                return True
            if one.node.keywords:
                return True
    return False


def _fields(of: Class) -> list[str]:
    """The fields that the class annotates, those of its bases first."""
    out: dict[str, None] = {}
    for one in reversed(of.order):
        if isinstance(one, Class):
            for inside in one.node.body:
                if isinstance(inside, ast.AnnAssign) and isinstance(
                    inside.target, ast.Name
                ):
                    out[inside.target.id] = None
    return list(out)
