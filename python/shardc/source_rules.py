"""The rule sets of a Python file, as a rules file has them.

A rule set is a list of pairs (pattern, PartitionSpec), a dict whose keys are complete
names, or a tree of specs, whose paths are the names. A PartitionAxis becomes the axis
rules, and PartitionAxis.register the registered logical axes. Comments above a rule and
at the end of its line stay with it.
"""

from __future__ import annotations

import ast
import bisect
import dataclasses
import functools
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from shardc import patterns
from shardc.files import printable
from shardc.logical_axes import (
    AXIS_RULES,
    GENERATION,
    OF_ACTIVATIONS,
    axes_of_rule,
    bundle_of,
    decode_twin,
    mode_of,
    rule_of,
    token_of,
)
from shardc.source_calls import SPECS
from shardc.source_reader import Definitions, Named, Reader
from shardc.source_state import Refused
from shardc.source_values import (
    Axes,
    Class,
    Function,
    Object,
    Resolved,
    Spec,
    Symbol,
    Unknown,
)

_DEEP = 64
_REGISTERING = ("register", "unregister", "clear_registered_axes")
_RESOLVING = ("resolve", "resolve_spec", "resolve_axis")
_CONVERTING = ("from_dict", "from_json", "from_state_dict")
# Functions whose results have the elements of their arguments.
_KEEPING = frozenset(
    """OrderedDict append chain copy deepcopy dict extend filter from_iterable insert items
    list map reversed setdefault sorted sum tuple update values zip""".split()
)


NOT_GIVEN = object()


class ImportError_(Exception):
    """Why a file cannot be imported, where, and what to do."""

    def __init__(
        self, message: str, node: Any = None, help: str = "", code: str = ""
    ) -> None:
        super().__init__(message)
        self.message, self.node, self.help = message, node, help
        self.code = code or "inexpressible"


@dataclasses.dataclass(frozen=True)
class Name:
    """A name of a spec: a mesh axis, or a logical axis or an axis rule."""

    text: str
    is_axis: bool = False

    def data(self) -> Any:
        """As a rules file has it."""
        forced = self.is_axis and (token_of(self.text) or rule_of(self.text))
        return {"axis": self.text} if forced else self.text


# The dimensions of a spec, each the names that split it; or the name of a bundle.
Entries = list[tuple[Name, ...]]


@dataclasses.dataclass
class Rule:
    match: str
    spec: Entries | str
    modes: dict[str, Entries]
    comments: list[str]
    node: Any
    nodes: list[Any]  # of the names of the spec


@dataclasses.dataclass
class Registration:
    name: str
    rule: Any  # None, a Name, or a list of them
    generation: Any = NOT_GIVEN
    override: bool = False

    def data(self) -> dict[str, Any]:
        out = {"rule": _registered(self.rule)}
        if self.generation is not NOT_GIVEN:
            out["generation"] = _registered(self.generation)
        return {**out, "override": True} if self.override else out


@dataclasses.dataclass
class RulesFile:
    comments: list[str] = dataclasses.field(default_factory=list)
    separator: str = ""
    axes: dict[str, list[str] | None] = dataclasses.field(default_factory=dict)
    register: list[Registration] = dataclasses.field(default_factory=list)
    rules: list[Rule] = dataclasses.field(default_factory=list)
    warnings: list[ImportError_] = dataclasses.field(default_factory=list)


def _registered(rule: Any) -> Any:
    if isinstance(rule, list):
        return [_registered(one) for one in rule]
    return (
        {"axis": rule.text}
        if isinstance(rule, Name) and rule.is_axis
        else rule and rule.text
    )


# -- Rule sets among the values ----------------------------------------------------------


def is_bundle(value: Any) -> bool:
    """A class of the file that has axes and a mode, or an object of one."""
    of = value.of if isinstance(value, Object) else value
    return isinstance(of, Class) and all(
        any(isinstance(one, Class) and name in one.names for one in of.order)
        for name in ("axes", "mode")
    )


def is_spec(value: Any) -> bool:
    if isinstance(value, Symbol):
        return bundle_of(value.name) is not None
    return isinstance(value, (Spec, Resolved)) or is_bundle(value)


def is_pattern(value: Any) -> bool:
    if isinstance(value, (list, tuple)) and not isinstance(value, Spec):
        return bool(value) and all(isinstance(one, str) for one in value)
    return isinstance(value, str)


class Found:
    """A named value, and what it may be as a rule set."""

    def __init__(self, named: Named) -> None:
        self.named, self.reader = named, named.reader
        self.value = self.reader.seen(named.value)

    def items(self, value: Any) -> list[Any]:
        """The pairs (key, part) of a dict, a list, a tuple or an object."""
        value = self.reader.seen(value)
        if isinstance(value, dict):
            return list(value.items())
        if isinstance(value, Object):
            return list(value.names.items())
        if isinstance(value, (list, tuple)) and not isinstance(value, Spec):
            return list(enumerate(value))
        return []

    @property
    def is_dict(self) -> bool:
        return isinstance(self.value, dict)

    def has_rules(self) -> bool:
        if self.is_dict:
            return any(is_pattern(k) and is_spec(v) for k, v in self.value.items())
        return any(
            isinstance(one, (list, tuple)) and len(one) == 2
            and is_pattern(self.reader.seen(one[0])) and is_spec(one[1])
            for _, one in self.items(self.value)
        )  # fmt: skip

    def holds_specs(self, value: Any, depth: int = 0) -> bool:
        self.reader.step(None)
        if is_spec(value):
            return True
        return depth < _DEEP and any(
            self.holds_specs(part, depth + 1) for _, part in self.items(value)
        )

    def is_tree(self) -> bool:
        if isinstance(self.value, Object):
            return self.holds_specs(self.value)
        return self.is_dict and any(
            not is_spec(part) and self.holds_specs(part) for part in self.value.values()
        )

    def hangs_on_flag(self, value: Any, depth: int = 0) -> bool:
        value = self.reader.seen(value)
        if type(value) is Unknown:
            return bool(value.flag)
        return depth < _DEEP and any(
            self.hangs_on_flag(part, depth + 1) for _, part in self.items(value)
        )

    def suggests_rules(self) -> bool:
        name = self.named.name.lower()
        return "rule" in name or "partition_spec" in name

    def unknown_part(self, named: bool) -> Unknown | None:
        """What is not known of a value that may be a rule set."""
        if type(self.value) is Unknown:
            return self.value
        for _, one in self.items(self.value) if not self.is_dict else ():
            one = self.reader.seen(one)
            if not isinstance(one, (list, tuple)) or len(one) != 2:
                continue
            pattern, spec = map(self.reader.seen, one)
            if type(pattern) is Unknown and is_spec(spec):
                return pattern
            if named and is_pattern(pattern) and type(spec) is Unknown:
                return spec
        return None

    def unknown_rules(self, module: Definitions) -> Unknown | None:
        if self.named.is_function or self.named.is_second:
            return None
        named = self.suggests_rules()
        if named and isinstance(self.value, Function):
            return Unknown(f"what `{self.named.name}` returns", self.value.node)
        found = self.unknown_part(named)
        if named or found is not self.value or module_mentions(module, self.named.name):
            return found
        return None

    def may_have_tree(self) -> bool:
        name = self.named.name.lower()
        return (
            self.named.is_function
            and self.hangs_on_flag(self.value)
            and ("spec" in name or "sharding" in name)
        )

    def may_have_rules(self) -> bool:
        return (
            self.named.is_function
            and self.suggests_rules()
            and self.unknown_part(True) is not None
        )

    def spec_nodes(self, value: Any, depth: int = 0) -> set[int]:
        """Where the specs of a tree are made."""
        if is_spec(value):
            return {id(self.reader.place(value, None))}
        if depth >= _DEEP:
            return set()
        return {
            n for _, part in self.items(value) for n in self.spec_nodes(part, depth + 1)
        }


def module_mentions(module: Definitions, name: str) -> bool:
    """Whether a statement that binds or changes a constant has a spec in it."""
    path, _, last = name.rpartition(".")
    if path not in module.mentions:
        names, body = module.module.top.names, module.tree.body
        for part in path.split(".") if path else ():
            names, body = names[part].names, names[part].node.body
        module.mentions[path] = set(_mentioned(body, names, module.module.top.names))
    return last in module.mentions[path]


def _mentioned(body: Iterable[Any], names: Any, above: Any) -> Iterator[str]:
    """The names that statements with specs bind or change."""

    def has_specs(node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            found = names.get(node.id, above.get(node.id))
            return any(is_spec(one) for one in _inside(found, 3))
        if isinstance(node, ast.Lambda):
            return False
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in SPECS:
                return True
            if called not in _KEEPING:
                return False
        return any(map(has_specs, ast.iter_child_nodes(node)))

    for one in body:
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for block in ("body", "orelse", "finalbody", "handlers"):
            yield from _mentioned(getattr(one, block, ()), names, above)
        if (
            isinstance(one, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr))
            and one.value
        ):
            target = getattr(one, "target", getattr(one.value, "func", one.value))
            if has_specs(one.value):
                for changed in getattr(one, "targets", [target]):
                    yield from (
                        n.id for n in ast.walk(changed) if isinstance(n, ast.Name)
                    )


def _inside(value: Any, depth: int) -> Iterator[Any]:
    yield value
    if depth and isinstance(value, (list, tuple)):
        for one in value:
            yield from _inside(one, depth - 1)


# -- The rules of a file -----------------------------------------------------------------


class RulesReader:
    def __init__(
        self,
        source: bytes,
        settings: Mapping[str, Any],
        matching: str = "",
        symbol: str = "",
    ) -> None:
        self.source, self.matching = source, matching
        self.module = Definitions(source, settings, symbol)
        self.found = [Found(one) for one in self.module.all]
        self.out = RulesFile()
        self.lines = [0]
        for line in re.finditer(rb"\r\n|\r|\n", source):
            self.lines.append(line.end())
        self.reported = 0
        self.remarks = list(self.read_remarks())
        self.starts = [at for at, _, _ in self.remarks]
        self.node: Any = None

    def read(self, symbol: str) -> RulesFile:
        self.register = Registrations(self)
        self.out.register = self.register.read()
        trouble = None
        try:
            self.read_axes()
        except ImportError_ as error:
            trouble = error
            self.out.axes = {}
        any_axes = bool(self.out.axes or self.out.register or trouble)
        chosen = self.choose(symbol, any_axes)
        if chosen is not None:
            self.read_rules(chosen)
        if trouble and (chosen is None or self.names_axis_rules()):
            raise trouble
        return self.out

    def refuse(self, message: str, node: Any, help: str = "") -> ImportError_:
        return ImportError_(message, node, help)

    # -- Which rule set ---------------------------------------------------------------

    def with_rules(self) -> list[Found]:
        found, trees, lists = [], [], False
        for one in self.found:
            if one.named.is_second:
                continue
            if one.has_rules() or one.may_have_rules():
                lists = lists or not one.is_dict
                found.append(one)
                trees += [one] if one.is_dict else []
            elif isinstance(one.value, (dict, Object)) and one.holds_specs(one.value):
                trees.append(one)
            elif one.may_have_tree():
                trees.append(one)
        if lists or not any(
            one.is_tree() or one.holds_specs(one.value) for one in trees
        ):
            return found
        return self.without_parts(trees)

    def without_parts(self, trees: list[Found]) -> list[Found]:
        """The trees that are no part of another one."""
        if len(trees) > 50:
            return trees
        nodes = [one.spec_nodes(one.value) for one in trees]
        return [
            one for i, one in enumerate(trees)
            if not any(
                nodes[i] and nodes[i] <= other and (len(other) > len(nodes[i]) or j > i)
                for j, other in enumerate(nodes) if i != j
            )
        ]  # fmt: skip

    def named(self, symbol: str) -> list[Found]:
        own: list[Found] = []
        inherited: list[Found] = []
        for one in self.found:
            name = one.named.name
            if name == symbol or name.endswith("." + symbol):
                second = one.named.is_second and name != symbol
                (inherited if second else own).append(one)
        # A whole name is chosen before the names that end in it.
        return [one for one in own if one.named.name == symbol] or own or inherited

    def choose(self, symbol: str, any_axes: bool) -> Found | None:
        found = self.named(symbol) if symbol else self.with_rules()
        if not found and not symbol and not any_axes:
            found = [one for one in self.found if one.unknown_rules(self.module)]
        if len(found) == 1:
            if not symbol:
                self.warn_of_others(found[0])
            return found[0]
        if not found:
            if not symbol and any_axes:
                return None
            raise ImportError_(
                f"this file holds nothing named {quoted(symbol)}" if symbol
                else "this file holds no list of (pattern, PartitionSpec)",
                None, "rules are a constant, a class attribute or what a function returns",
            )  # fmt: skip
        names, count = "", f"{len(found)} rule sets"
        for one in found:
            if len(names) > 600:
                names += ", ..."
                break
            names += (", " if names else "") + f"`{one.named.name}`"
        raise ImportError_(
            f"{quoted(symbol)} names {count}" if symbol else f"this file holds {count}", None,
            f"name one with `--symbol`, such as `--symbol {found[0].named.name}`: {names}",
            "usage",
        )  # fmt: skip

    def warn_of_others(self, chosen: Found) -> None:
        for one in self.found:
            unknown = None if one is chosen else one.unknown_rules(self.module)
            if unknown is not None:
                self.out.warnings.append(ImportError_(
                    f"{quoted(one.named.name)} may hold rules too, but {unknown.why} cannot be"
                    " determined from this file", unknown.node,
                    f"only `{chosen.named.name}` is imported; name it with `--symbol` if it is"
                    " the rule set that counts",
                ))  # fmt: skip

    # -- Rules ----------------------------------------------------------------------------

    def read_rules(self, found: Found) -> None:
        self.reader = found.reader
        value, name = found.value, found.named.name
        self.out.comments.append(f"From `{name}`.")
        self.out.comments += [
            f"With {one}, its default." for one in found.named.defaults
        ]
        if type(value) is Unknown:
            raise not_known(value)
        self.out.separator = "/"
        if found.is_tree():
            self.read_tree(found)
        elif isinstance(value, dict):
            self.out.separator = patterns.separator_of(
                k for k in value if isinstance(k, str)
            )
            places = self.reader.keys.get(id(value), {})
            for key, spec in value.items():
                node = places.get(key) or self.place(spec, None)
                self.add(key, spec, (node, self.place(spec, node)), node, "name")
        elif isinstance(value, (list, tuple)) and not isinstance(value, Spec):
            for i, one in enumerate(value):
                self.read_pair(self.reader.seen(one), self.part_place(value, i))
        else:
            raise self.refuse(f"`{name}` is no list of rules", self.place(value, None))

    def place(self, value: Any, otherwise: Any) -> Any:
        return self.reader.place(value, otherwise)

    def part_place(self, of: Any, index: int) -> Any:
        """The place of an element, where the list is written in full."""
        node = self.place(of, None)
        parts = getattr(node, "elts", getattr(node, "args", None))
        if not isinstance(parts, list) or len(parts) != len(of):
            return self.place(of[index], node)
        bad = any(isinstance(part, ast.Starred) for part in parts)
        return self.place(of[index], node if bad else parts[index])

    def read_pair(self, pair: Any, node: Any) -> None:
        if type(pair) is Unknown:
            raise not_known(pair)
        if (
            not isinstance(pair, (list, tuple))
            or isinstance(pair, Spec)
            or len(pair) != 2
        ):
            raise self.refuse("this is no pair of a pattern and a spec", node)
        self.node = self.part_place(pair, 1)
        self.add(pair[0], pair[1], (node, node), self.part_place(pair, 0), "search")

    def read_tree(self, found: Found) -> None:
        leaves: list[tuple[str, Any, Any]] = []
        self.add_leaves(found, found.value, "", 0, leaves, None)
        self.out.separator = patterns.separator_of(name for name, _, _ in leaves)
        seen: set[str] = set()
        named = []
        for name, spec, node in leaves:
            rule = self.rule(spec, (node, node), node)
            if name in seen:
                raise ImportError_(
                    f"{quoted(name)} is given twice", node, code="duplicate-key"
                )
            seen.add(name)
            named.append((name, rule))
        key = lambda rule: (rule.spec, rule.modes)  # noqa: E731
        for pattern, rule in patterns.folded(named, self.out.separator, key):
            self.out.rules.append(dataclasses.replace(rule, match=pattern))

    def add_leaves(
        self, found: Found, value: Any, path: str, depth: int, out: list[Any], node: Any
    ) -> None:
        value = self.reader.seen(value)
        node = self.place(value, node)
        if value is None:
            return
        parts = isinstance(value, (dict, list, tuple, Object)) and not is_spec(value)
        if not parts or (
            isinstance(value, (list, tuple)) and not found.holds_specs(value, depth)
        ):
            out.append((path, value, node))
            return
        if depth >= _DEEP:
            raise self.refuse("this tree is nested more than 64 deep", node)
        places = self.reader.keys.get(id(value), {})
        for key, part in found.items(value):
            if not isinstance(key, str) and (
                not isinstance(key, int) or key < 0 or isinstance(key, bool)
            ):
                raise self.refuse(
                    "this key of a tree is no name", places.get(key, node)
                )
            inner = f"{path}/{key}" if path else str(key)
            self.add_leaves(found, part, inner, depth + 1, out, places.get(key, node))

    def add(
        self, pattern: Any, spec: Any, whole: Any, node: Any, by_default: str
    ) -> None:
        pattern = self.reader.seen(pattern)
        if type(pattern) is Unknown:
            raise not_known(pattern)
        if not is_pattern(pattern):
            raise self.refuse("this is not a pattern", node)
        rule = self.rule(spec, whole, self.node or whole[1])
        self.node = None
        rule.match, rule.node = self.pattern(pattern, by_default), node
        self.out.rules.append(rule)

    def pattern(self, pattern: Any, by_default: str) -> str:
        if not isinstance(pattern, str):
            return patterns.from_parts(pattern, "/")
        how = self.matching or by_default
        if how == "name":
            return patterns.entire_name(pattern)
        if how == "glob":
            return patterns.from_glob(pattern)
        text = patterns.from_python(pattern)
        return {"whole": f"^(?:{text})$", "start": f"^(?:{text})"}.get(how, text)

    # -- Specs ------------------------------------------------------------------------------

    def rule(self, value: Any, whole: Any, node: Any) -> Rule:
        self.nodes: list[Any] = []
        spec = self.spec(value, node)
        modes: dict[str, Entries] = {}
        if not isinstance(spec, str):
            spec, modes = self.in_mode(spec, value, node)
        return Rule("", spec, modes, self.comments(*whole), node, self.nodes)

    def resolved(self, value: Any) -> Any:
        """A class of the file that is a bundle, as what resolving it returns."""
        of = value.of if isinstance(value, Object) else value
        if not is_bundle(value):
            order = of.order if isinstance(of, Class) else []
            bundle = next((one for one in order if is_spec(one)), None)
            if bundle and any(
                {"axes", "mode"} & one.names.keys() for one in order if isinstance(one, Class)
            ):
                raise self.refuse(
                    f"`{of.name}` has the axes or the mode of `{bundle.name}`, and not both",
                    of.node, "give the class its axes and its mode",
                )  # fmt: skip
            return bundle or value
        return Resolved(*(
            next(one.names[name] for one in of.order if name in getattr(one, "names", ()))
            for name in ("axes", "mode")
        ))  # fmt: skip

    def spec(self, value: Any, node: Any) -> Entries | str:
        value = self.reader.seen(self.resolved(value))
        node = self.place(value, node)
        if isinstance(value, Resolved):
            if not value.has_axes:
                raise self.refuse("this resolves nothing", node)
            what = self.reader.seen(self.resolved(value.axes))
            if isinstance(what, Symbol) and value.has_shape and bundle_of(
                what.name
            ) in OF_ACTIVATIONS:
                raise self.refuse(
                    f"`{what.name}` has the mode of a dimension of this shape; in a rule it"
                    " has the mode of the plan", node,
                    "resolve its axes in a mode, such as `MODE_TRAIN`",
                )  # fmt: skip
            if isinstance(what, (Symbol, Resolved)):
                return self.spec(what, node)
            if isinstance(what, (list, tuple)) and not isinstance(what, Spec):
                return self.entries(what, self.place(what, node), True)
            raise (
                not_known(what)
                if type(what) is Unknown
                else self.refuse("this names no axes to resolve", node)
            )
        if isinstance(value, Symbol):
            bundle = bundle_of(value.name)
            if bundle is None:
                raise self.refuse(
                    f"there is no built-in bundle `{value.name}`", node,
                    "write its axes in its place",
                )  # fmt: skip
            return bundle
        entries = self.entries(value, node, False)
        for name, at in zip((n for entry in entries for n in entry), self.nodes):
            if self.register.find(name.text):
                raise self.refuse(
                    f"the mesh axis {quoted(name.text)} has the name of a registered logical"
                    " axis", at, "rename one of them",
                )  # fmt: skip
        return entries

    def entries(self, value: Any, node: Any, resolving: bool) -> Entries:
        if value is None:
            return []
        if type(value) is Unknown:
            raise not_known(value)
        if not isinstance(value, (list, tuple)):
            raise self.refuse("this is not a PartitionSpec", node)
        for keyword, field in getattr(value, "fields", {}).items():
            raise self.refuse(
                f"a plan holds the shardings of parameters, and has no `{keyword}`",
                self.place(field, node),
            )
        return [
            self.entry(one, self.part_place(value, i), resolving)
            for i, one in enumerate(value)
        ]

    def entry(self, value: Any, node: Any, resolving: bool) -> tuple[Name, ...]:
        value = self.reader.seen(value)
        if not isinstance(value, (list, tuple)) or isinstance(value, Spec):
            return self.names(value, node, resolving, False)
        out: list[Name] = []
        for i, one in enumerate(value):
            at = self.part_place(value, i)
            if isinstance(one, (list, tuple)):
                raise self.refuse(
                    "a group of axes holds another one, which JAX refuses", at,
                    "write its axes in the outer group",
                )  # fmt: skip
            out += self.names(self.reader.seen(one), at, resolving, True)
        return tuple(out)

    def names(
        self, value: Any, node: Any, resolving: bool, in_group: bool
    ) -> tuple[Name, ...]:
        if value is None or value == "" and isinstance(value, str) and not resolving:
            return ()
        node = self.place(value, node)
        made: Name | None = None
        if isinstance(value, str):
            made = (
                self.resolved_name(str(value), node, in_group)
                if resolving
                else Name(str(value), True)
            )
        elif isinstance(value, Symbol):
            if value.name == "UNCONSTRAINED":
                raise self.refuse(
                    "an unconstrained dimension leaves the choice to the compiler, and a plan"
                    " has none to leave", node,
                )  # fmt: skip
            token = constant(value.name)
            if token is None and value.name not in ("_", "EMPTY"):
                raise self.refuse(
                    f"`{value.name}` is not written in this file", node,
                    "write its value in its place",
                )  # fmt: skip
            made = Name(token.short) if token and token.rule else None
        elif type(value) is Unknown:
            raise not_known(value)
        else:
            raise self.refuse("this is not the name of an axis", node)
        self.nodes += [node] if made else []
        return (made,) if made else ()

    def resolved_name(self, text: str, node: Any, in_group: bool) -> Name | None:
        """A text of a list that is resolved: a logical axis, and in a group also a
        field of PartitionAxis or a mesh axis."""
        token = token_of(text)
        if token and token.long == text:
            return Name(text) if token.rule else None
        found = self.register.find(text)
        if found and found.name == text:
            return Name(text)
        if not in_group:
            raise self.refuse(
                f"`{text}` is no logical axis that eformer or this file registers", node,
                "register it, or write it in a tuple",
            )  # fmt: skip
        rule = rule_of(text) if text.endswith("_axis") else None
        return Name(rule) if rule else Name(text, True) if text else None

    # -- Modes --------------------------------------------------------------------------------

    def in_mode(
        self, spec: Entries, value: Any, node: Any
    ) -> tuple[Entries, dict[str, Entries]]:
        """A spec that Python resolves in one mode has the axes of this mode in every
        mode: (spec, what decode and insert have)."""
        value = self.resolved(value)
        while isinstance(value, Resolved) and isinstance(
            self.resolved(value.axes), Resolved
        ):
            value = self.resolved(value.axes)
        if not isinstance(value, Resolved) or not value.has_mode:
            return spec, {}
        given = self.reader.seen(value.mode)
        mode = mode_of(given) if isinstance(given, str) else None
        if isinstance(given, Symbol) and given.name.startswith("MODE_"):
            mode = mode_of(given.name[len("MODE_") :].lower())
        if mode is None:
            if type(given) is Unknown:
                raise not_known(given)
            raise self.refuse(
                "the mode depends on a dimension of a shape, which is known only when the"
                " program runs" if isinstance(given, int) else "this is not a mode",
                self.argument_place(value, node),
                "the modes are `MODE_TRAIN`, `MODE_PREFILL`, `MODE_DECODE` and `MODE_INSERT`",
            )  # fmt: skip
        generation = mode in GENERATION
        fixed = [
            tuple(
                n for name in entry for n in self.fixed(name, generation, value, node)
            )
            for entry in spec
        ]
        if fixed == spec or generation:
            return fixed, {}
        return spec, dict.fromkeys(GENERATION, fixed)

    def argument_place(self, value: Resolved, node: Any) -> Any:
        at = self.place(value, node)
        for keyword in getattr(at, "keywords", ()):
            if keyword.arg == "mode":
                return keyword.value
        args: Any = getattr(at, "args", ())
        if isinstance(at, ast.Call) and len(args) > 1:
            return args[1]
        for one in self.module.tree.body:  # the attribute of a class
            for inside in ast.walk(one):
                if (
                    isinstance(inside, (ast.Assign, ast.AnnAssign))
                    and isinstance(inside.value, ast.Constant)
                    and inside.value.value is value.mode
                ):
                    return inside.value
        return at

    def fixed(
        self, name: Name, generation: bool, value: Any, node: Any
    ) -> tuple[Name, ...]:
        """The names that have, in every mode, the axes of one: of generation, or not."""
        if name.is_axis:
            return (name,)
        registered = self.register.find(name.text)
        if registered:
            now = self.register.axes(registered, generation, 0)
            other = self.register.axes(registered, not generation, 0)
            if now is NOT_GIVEN or other is NOT_GIVEN:
                raise self.refuse(
                    f"the registration of {quoted(name.text)} refers to itself",
                    self.place(value, node),
                )
        else:
            token = token_of(name.text)
            rule = token.rule if token else rule_of(name.text)
            twin = decode_twin(rule) if rule else None
            if twin is None or axes_of_rule(twin, self.out.axes) is None:
                return (name,)
            if generation:
                return (Name(twin),)
            now = axes_of_rule(rule, self.out.axes)  # type: ignore[arg-type]
            other = axes_of_rule(twin, self.out.axes)
        if (now or []) == (other or []):
            return (name,)
        return tuple(Name(axis, True) for axis in now or ())

    def names_axis_rules(self) -> bool:
        """Whether a spec is a bundle, or names something else than mesh axes."""
        return any(
            isinstance(rule.spec, str)
            or any(not name.is_axis for entry in rule.spec for name in entry)
            for rule in self.out.rules
        )

    # -- PartitionAxis --------------------------------------------------------------------------

    def value_of(self, node: ast.AST) -> Any:
        """The value of an expression of the module, whose names are bound once."""
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and self.bound[one.id] > 1:
                return Unknown(f"`{one.id}`, which is bound more than once,", one)
        try:
            return self.free.value(node, self.free.top)
        except Refused as end:
            return end.unknown

    @functools.cached_property
    def bound(self) -> Any:
        return _bindings_of(self.module.tree)

    @functools.cached_property
    def free(self) -> Reader:
        return self.module.reader()

    def read_axes(self) -> None:
        at = _unreadable(self.module.tree)
        if at is not None:
            raise self.refuse(
                "the axis rules of this PartitionAxis cannot be read", at,
                "write one call of `PartitionAxis` with all its fields",
            )  # fmt: skip
        read: dict[str, Any] | None = None
        for node in _in_order(self.module.tree):
            if not isinstance(node, ast.Call) or _called(node) != "PartitionAxis":
                continue
            self.reader = self.free
            value = self.value_of(node)
            if not isinstance(value, Axes):
                raise (
                    not_known(value)
                    if type(value) is Unknown
                    else self.refuse(
                        "the axis rules of this PartitionAxis cannot be read", node
                    )
                )
            axes = self.axes_of(value, node)
            if read is not None and axes != read:
                raise self.refuse(
                    "this PartitionAxis differs from one above it", node,
                    "leave the one that counts in the file",
                )  # fmt: skip
            read = self.out.axes = axes

    def axes_of(self, value: Axes, node: Any) -> dict[str, list[str] | None]:
        out: dict[str, list[str] | None] = {}
        self.nodes = []
        places = {one.arg: one.value for one in getattr(node, "keywords", ())}
        for i, one in enumerate(value.rest):
            at = self.place(one, node.args[min(i, len(node.args) - 1)])
            raise not_known(one) if type(one) is Unknown else self.refuse(
                "this value names no field of PartitionAxis", at,
                "write its field, such as `head_axis=`",
            )  # fmt: skip
        for name, field in value.fields.items():
            at = self.place(field, places.get(name, node))
            rule = rule_of(name) if name.endswith("_axis") else None
            if rule is None:
                raise (
                    not_known(field)
                    if type(field) is Unknown
                    else self.refuse(f"PartitionAxis has no field `{name}`", at)
                )
            entry = None if field is None else self.entry(field, at, False)
            out[rule] = entry if entry is None else [one.text for one in entry]
        return {rule: out[rule] for rule in AXIS_RULES if rule in out}

    # -- Comments -------------------------------------------------------------------------------

    def offset(self, line: int, column: int) -> int:
        return self.lines[line - 1] + column

    def read_remarks(self) -> Iterator[tuple[int, str, bool]]:
        """(offset, text, whether it is alone on its line) of the comments."""
        try:
            for token in tokenize.tokenize(io.BytesIO(self.source).readline):
                if token.type == tokenize.COMMENT:
                    before = token.line[: token.start[1]]
                    at = self.offset(token.start[0], len(before.encode()))
                    text = token.string[1:]
                    text = text[1:] if text.startswith(" ") else text
                    yield at, text.rstrip(), not before.strip()
        except (tokenize.TokenError, SyntaxError, IndexError):
            return

    def comments(self, first: Any, last: Any) -> list[str]:
        """The comments of a rule: directly above it, inside it, and at its line's end."""
        if first is None or getattr(first, "lineno", None) is None:
            return []
        begin = self.offset(first.lineno, first.col_offset)
        if getattr(last, "end_lineno", None) is None:
            last = first
        end = self.offset(last.end_lineno, last.end_col_offset)
        found = re.compile(rb"[\r\n]").search(self.source, end)
        line_end = found.start() if found else len(self.source)
        low = bisect.bisect_left(self.starts, self.reported)
        low = max(low, bisect.bisect_left(self.starts, begin) - 40)
        out = []
        for at, text, alone in self.remarks[low:]:
            if at > line_end:
                break
            if at > begin or (alone and self.adjoins(at, begin)):
                out.append(text)
        self.reported = max(self.reported, line_end)
        return out

    def adjoins(self, at: int, begin: int) -> bool:
        """Whether only comments, blanks and brackets are between two offsets."""
        between = re.sub(rb"#[^\r\n]*", b"", self.source[at:begin])
        return not between.strip(b" \t\r\n\f(")


class Registrations:
    """The calls of PartitionAxis.register. Only a statement of the module, with
    arguments that are known and before specs are resolved, can be read."""

    def __init__(self, reader: RulesReader) -> None:
        self.of = reader
        self.all: list[Registration] = []
        self.functions: dict[str, list[Any]] = {}
        for node in ast.walk(reader.module.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.ClassDef):
                methods = [n for n in node.body if isinstance(n, ast.FunctionDef)]
                self.functions.setdefault(node.name, []).extend(methods)

    def read(self) -> list[Registration]:
        tree = self.of.module.tree
        if not any(_is_method(one, _REGISTERING) for one in ast.walk(tree)):
            return self.all
        self.of.reader = self.of.free
        resolved, read = False, set()
        for one in tree.body:
            call: Any = one.value if isinstance(one, ast.Expr) else None
            if not isinstance(call, ast.Call) or not self.is_register(call.func):
                resolved = resolved or self.resolves(one, set())
                continue
            if resolved:
                raise ImportError_(
                    "logical axes are resolved before this `register`, so their specs do not"
                    " have it", call,
                    "register every logical axis before the first call of `resolve`",
                )  # fmt: skip
            read.add(id(call.func))
            self.add(call)
        self.refuse_others(tree, read)
        return self.all

    def is_register(self, node: Any) -> bool:
        if not isinstance(node, ast.Attribute) or node.attr != "register":
            return False
        if (
            _called(node.value) == "PartitionAxis"
            or getattr(node.value, "id", "") == "PartitionAxis"
        ):
            return True
        value = self.of.value_of(node.value)
        return isinstance(value, Axes) or getattr(value, "name", "") == "PartitionAxis"

    def resolves(self, node: ast.AST, seen: set[str]) -> bool:
        """Whether a statement may resolve logical axes while the file is loaded."""
        parts: list[Any] = [node]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parts = [*node.args.defaults, *node.args.kw_defaults, *node.decorator_list]
        for part in parts:
            if part is None:
                continue
            if _is_method(part, _RESOLVING):
                return True
            name = _called(part) if isinstance(part, ast.Call) else ""
            if name in self.functions and name not in seen:
                seen.add(name)
                for function in self.functions[name]:
                    if any(self.resolves(one, seen) for one in function.body):
                        return True
            if part is not node or not isinstance(
                node, (ast.FunctionDef, ast.AsyncFunctionDef)
            ):
                if any(self.resolves(one, seen) for one in ast.iter_child_nodes(part)):
                    return True
        return False

    def add(self, call: ast.Call) -> None:
        given: dict[str, tuple[Any, Any]] = {}
        for name, one in zip(("semantic_axis", "axis_rule"), call.args):
            given[name] = (self.of.value_of(one), one)
        for i, one in enumerate(call.args[2:]):
            given[f"argument {i + 3}"] = (self.of.value_of(one), one)
        for keyword in call.keywords:
            given[keyword.arg or ""] = (self.of.value_of(keyword.value), keyword.value)
        made = Registration("", None)
        for name, (value, node) in sorted(given.items()):
            if name == "semantic_axis":
                made.name = self.name(value, node)
            elif name == "axis_rule":
                made.rule = self.rule(value, node)
            elif name == "generation_axis_rule":
                if not (isinstance(value, Symbol) and value.name == "NOT_GIVEN"):
                    made.generation = self.rule(value, node)
            elif name == "override" and isinstance(value, bool):
                made.override = value
            else:
                raise self.refuse(
                    value, "this argument of `register` cannot be read", node
                )
        if not {"semantic_axis", "axis_rule"} <= set(given):
            raise ImportError_("`register` needs a name and an axis rule", call)
        built_in, earlier = token_of(made.name), self.find(made.name)
        if (built_in or earlier) and not made.override:
            raise ImportError_(
                f"the logical axis {quoted(made.name)} exists, and is not overridden", call,
                "in a rules file, `X` and `__X__` are the same logical axis; rename it or"
                " pass `override=True`",
            )  # fmt: skip
        self.all = [one for one in self.all if one is not earlier]
        made.override = built_in is not None
        self.all.append(made)

    def refuse(
        self, value: Any, message: str, node: Any, help: str = ""
    ) -> ImportError_:
        return (
            not_known(value)
            if type(value) is Unknown
            else ImportError_(message, node, help)
        )

    def name(self, value: Any, node: Any) -> str:
        token = constant(value.name) if isinstance(value, Symbol) else None
        if token is None and not isinstance(value, str):
            raise self.refuse(value, "this is not the name of a logical axis", node)
        name = token.long if token else str(value).strip(" \t\n\r\f\v")
        known = token_of(name)
        word = (
            re.fullmatch(r"[A-Za-z0-9_]+", name) and name != "_" and not rule_of(name)
        )
        if not word or (known and known.long != name):
            raise ImportError_(
                f"a rules file cannot register the name {quoted(name)}", node,
                "rename the logical axis",
            )  # fmt: skip
        return name

    def rule(self, value: Any, node: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, (list, tuple)) and not isinstance(value, Spec):
            if not value:
                raise ImportError_("this rule names no axis", node)
            return [self.rule_name(one, node) for one in value]
        return self.rule_name(value, node)

    def rule_name(self, value: Any, node: Any) -> Name:
        """A name of a rule: a field of PartitionAxis, a logical axis or a mesh axis."""
        token = constant(value.name) if isinstance(value, Symbol) else None
        if token:
            return Name(token.short)
        if not isinstance(value, str) or not value:
            raise self.refuse(value, "this is not the name of an axis", node)
        text = str(value)
        token, rule = token_of(text), rule_of(text)
        if rule and text.endswith("_axis"):
            return Name(rule)
        if token and token.long == text:
            return Name(token.short)
        return Name(text, bool(token or rule))

    def refuse_others(self, tree: ast.Module, read: set[int]) -> None:
        """Refuses what may change the registered axes and has not been read."""
        if not any(getattr(one, "id", getattr(one, "name", getattr(one, "attr", ""))) == "PartitionAxis"
                   for one in ast.walk(tree)):  # fmt: skip
            return
        derived = {n.name for n in tree.body if isinstance(n, ast.ClassDef) and n.bases}
        for one in _in_order(tree):
            if not _is_method(one, _REGISTERING) or id(one) in read:
                continue
            of: Any = one.value
            name = getattr(of, "attr", getattr(of, "id", None))
            value = (
                self.of.value_of(
                    ast.Name(
                        name,
                        ast.Load(),
                        lineno=one.lineno,
                        col_offset=0,
                        end_lineno=one.lineno,
                        end_col_offset=0,
                    )
                )
                if name
                else None
            )
            harmless = (
                name and isinstance(value, Symbol) and value.name != "PartitionAxis"
            )
            if (
                harmless
                and getattr(value, "name", "") not in derived
                and not isinstance(of, ast.Call)
            ):
                continue
            at = ast.Name(
                one.attr,
                ast.Load(),
                lineno=one.end_lineno,
                end_lineno=one.end_lineno,
                col_offset=one.end_col_offset - len(one.attr),
                end_col_offset=one.end_col_offset,
            )
            raise ImportError_(
                f"`{one.attr}` changes the registered logical axes here, in a way that cannot be"
                " read", at,
                "register them in statements of the module, such as"
                ' `PartitionAxis.register("X", "head_axis")`',
            )  # fmt: skip

    def find(self, name: str) -> Registration | None:
        """The registration of a logical axis; `X` and `__X__` are the same one."""
        return next(
            (one for one in self.all[::-1] if _short(one.name) == _short(name)), None
        )

    def axes(self, of: Registration, generation: bool, depth: int) -> Any:
        """The mesh axes of a registered axis; MISSING where it refers to itself."""
        if depth > len(self.all):
            return NOT_GIVEN
        own = generation and of.generation is not NOT_GIVEN
        rule = of.generation if own else of.rule
        names = rule if isinstance(rule, list) else [] if rule is None else [rule]
        if generation and not own and isinstance(rule, Name) and not rule.is_axis:
            twin = decode_twin(rule_of(rule.text) or "")
            if twin:
                return axes_of_rule(twin, self.of.out.axes)
        out: list[str] = []
        for name in names:
            other = None if name.is_axis else self.find(name.text)
            token = None if name.is_axis else token_of(name.text)
            field = None if name.is_axis else rule_of(name.text)
            if not field and other is None and token:
                field = token.rule
            if field:
                out += axes_of_rule(field, self.of.out.axes) or []
            elif other is not None:
                found = self.axes(other, False, depth + 1)
                if found is NOT_GIVEN:
                    return found
                out += found or []
            elif token is None:
                out.append(name.text)
        return None if rule is None else out


# -- The syntax of a file ----------------------------------------------------------------


def constant(name: str) -> Any:
    """The logical axis of a constant of eformer's common_types."""
    return token_of(name) or token_of(f"__{name}__")


def quoted(text: str) -> str:
    return f"`{printable(text[:60])}{'...' if len(text) > 60 else ''}`"


def not_known(value: Unknown) -> ImportError_:
    help = "write the value in its place; nothing is run"
    if value.flag:
        help = f"give its value: `--set {value.flag}=true`, `--set {value.flag}=false` or a number"
    return ImportError_(
        f"{value.why} cannot be determined from this file", value.node, help
    )


def _short(name: str) -> str:
    long = len(name) > 4 and name.startswith("__") and name.endswith("__")
    return name[2:-2] if long else name


def _called(node: Any) -> str:
    function = getattr(node, "func", None)
    return getattr(function, "attr", getattr(function, "id", ""))


def _is_method(node: Any, names: Iterable[str]) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in names


def _in_order(node: ast.AST) -> Iterator[Any]:
    """The nodes under one, in the order of the text."""
    yield node
    for one in ast.iter_child_nodes(node):
        yield from _in_order(one)


def _unreadable(tree: ast.Module) -> Any:
    """A subclass of PartitionAxis, a `replace` of a field of it, or a conversion."""
    for node in _in_order(tree):
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                if any(
                    "PartitionAxis" in (getattr(n, "id", ""), getattr(n, "attr", ""))
                    for n in ast.walk(base)
                ):
                    return node
        if isinstance(node, ast.Call) and _called(node) == "replace":
            if any(
                k.arg and k.arg.endswith("_axis") and rule_of(k.arg)
                for k in node.keywords
            ):
                function: Any = node.func
                return (
                    ast.copy_location(ast.Name("replace", ast.Load()), node)
                    if isinstance(function, ast.Name)
                    else _last_part(function)
                )
        if _is_method(node, _CONVERTING):
            of = getattr(node.value, "attr", getattr(node.value, "id", ""))
            if of in ("PartitionAxis", "PartitionManager"):
                return node
    return None


def _last_part(node: Any) -> ast.Name:
    begin = node.end_col_offset - len(node.attr)
    return ast.Name(node.attr, ast.Load(), lineno=node.end_lineno, col_offset=begin,
                    end_lineno=node.end_lineno, end_col_offset=node.end_col_offset)  # fmt: skip


class _bindings_of(dict):  # type: ignore[type-arg]
    """How often each name of a module is bound."""

    def __init__(self, tree: ast.Module) -> None:
        super().__init__()
        for one in ast.walk(tree):
            names = []
            if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load):
                names = [one.id]
            elif isinstance(one, ast.arg):
                names = [one.arg]
            elif isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                names = [one.name]
            elif isinstance(one, ast.alias):
                names = [(one.asname or one.name).split(".")[0]]
            for name in names:
                self[name] = self[name] + 1

    def __missing__(self, name: str) -> int:
        return 0
