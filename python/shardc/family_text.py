"""Writes a fitted tree as a description, in the language of families/README.md."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Optional, Union

from shardc.family_expressions import (
    COUNTERS, Expression, mapped, names_in, parts, shown)
from shardc.family_fit import Fitter, Let, Node, NotFitted, Table, expressions_of, fit_let

_LONG = 4  # lines from which what is repeated becomes a block


@dataclasses.dataclass
class Entry:
    """A key of a tree, and its module or its entries."""

    key: str
    condition: str
    content: Union[str, list["Entry"]]

    def line(self) -> str:
        return f"{self.key} if {self.condition}" if self.condition else self.key


class Writer:
    """The text of a description."""

    def __init__(self, table: Table, model_type: str, classes: str,
                 aliases: dict[str, list[str]]) -> None:
        self.table = table
        self.model_type = model_type
        self.classes = classes
        self.aliases = aliases
        self.lets: dict[str, Optional[Let]] = {}
        self.extra: dict[str, Expression] = {}  # counts that are decisions
        self.failed: list[str] = []
        self.factors: dict[str, str] = {}  # what names count
        self.values: dict[str, Expression] = {}  # of factors that are no keys
        # Sizes that have a name of their own, and their layouts.
        self.sizes: dict[str, tuple[Expression, str]] = {}

    def text(self, live: Node, files: Optional[Node], comment: str,
             never: Sequence[tuple[str, bool]] = ()) -> str:
        """The description. It refuses configs in which a flag has a value with which no
        model was built, given in `never`."""
        own = {**self.values, **{name: x for name, (x, _) in self.sizes.items()}}
        self.lets.update(dict.fromkeys(own))
        for x in own.values():
            self._need(x)
        for tree in (live, files):
            for x in expressions_of(tree) if tree else ():
                self._need(x)
        entries = self._entries(live, 0)
        if files is not None:
            entries = _merged(entries, self._entries(files, 0))
        if never:
            entries[0] = _only(entries[0], _guard(never))
        blocks = _blocks(entries)
        lines = [f"# {line}" for line in comment.splitlines()]
        lines += ["version: 1", f"models: {self.classes}"]
        lets = [(self._name(name) + ("_at" if let.at else ""), self._shown(let.value, name))
                for name, let in sorted(self.lets.items()) if let is not None]
        lets += [(name, self._shown(x)) for name, x in {**self.extra, **own}.items()]
        if lets:
            lines.append("let:")
            lines += [f"  {name}: {_scalar(text)}" for name, text in lets]
        factors = {**self.factors, **{name: x for name, (_, x) in self.sizes.items()}}
        if factors:
            lines.append("factors:")
            lines += [f"  {name}: {x}" for name, x in factors.items()]
        if blocks:
            lines.append("blocks:")
            for name, content in blocks.items():
                lines.append(f"  {name}:")
                lines += _lines(content, 2)
        lines.append("tree:")
        lines += _lines(entries, 1)
        return "\n".join(lines) + "\n"

    def shown_with(self, x: Expression) -> str:
        """An expression of names that this description defines itself."""
        return shown(x, lambda key: key)

    def _need(self, x: Expression) -> None:
        """Fits the values of `let` that an expression refers to."""
        for name in sorted(names_in(x)):
            if name in self.lets:
                continue
            self.lets[name] = None
            try:
                self.lets[name] = fit_let(self.table, name, self.aliases.get(name, ()),
                                          members=self._is_asked(x, name))
            except NotFitted:
                self.failed.append(name)
            let = self.lets[name]
            if let is not None:
                self._need(let.value)

    @staticmethod
    def _is_asked(x: Expression, name: str) -> bool:
        return ("in", ("counter", 0), ("name", name)) in list(parts(x))

    def _name(self, name: str) -> str:
        """How an expression refers to a value: by its `let`, else by its key."""
        if self.lets.get(name) is None or "." not in name:
            return name
        return name.replace("_config.", "_").replace(".", "_")

    def _shown(self, x: Expression, inside: str = "") -> str:
        def change(part: Expression) -> Optional[Expression]:
            if not isinstance(part, tuple) or part[0] not in ("item", "in"):
                return None
            whole, index = part[1:] if part[0] == "item" else part[:0:-1]
            if whole[0] == "name" and index == ("counter", 0):
                let = self.lets.get(whole[1])
                if let is not None and let.at and whole[1] != inside:
                    return ("name", whole[1] + "@")
            return None

        def name(key: str) -> str:
            if key.endswith("@"):
                return self._name(key[:-1]) + "_at"
            let = self.lets.get(key)
            if let is not None and let.at and key != inside:
                self.failed.append(key)
            return key if key == inside else self._name(key)

        return shown(mapped(x, change), name)

    def _entries(self, node: Node, level: int) -> list[Entry]:
        made: list[Entry] = []
        for child in node.children.values():
            made += self._entry(child, level)
        return made

    def _entry(self, node: Node, level: int) -> list[Entry]:
        condition = "" if node.condition is None else self._shown(node.condition)
        if node.counted:  # below `_`, where there are other entries next to it
            return [self._repeated("_", node, level, "")]
        module = self._module(node)
        if module is not None:
            return [Entry(node.name, condition, module)]
        counted = [x for x in node.children.values() if x.counted]
        others = [x for x in node.children.values() if not x.counted]
        made = []
        for child in counted:
            made.append(self._repeated(node.name, child, level, condition))
        if others:
            made.append(Entry(node.name, condition,
                              [e for x in others for e in self._entry(x, level)]))
        return made

    def _repeated(self, name: str, child: Node, level: int, condition: str) -> Entry:
        count = child.count
        if isinstance(count, tuple) and count[0] == "if":
            word = f"{name}_count" if name != "_" else f"count_{len(self.extra)}"
            self.extra[word] = count
            text = word
        else:
            text = self._shown(count)
        if child.condition is not None:
            own = self._shown(child.condition)
            condition = f"({condition}) and ({own})" if condition else own
        module = self._module(child)
        content = self._entries(child, level + 1) if module is None else module
        counter = COUNTERS[level]
        if self._uses(child, level):
            text = f"{counter} < {text}"
        return Entry(f"{name}[{text}]", condition, content)

    def _uses(self, node: Node, level: int) -> bool:
        for child in node.children.values():
            for x in expressions_of(child):
                if ("counter", level) in list(parts(x)):
                    return True
        return any(("counter", level) in list(parts(x)) for x in node.sizes)

    def _module(self, node: Node) -> Optional[str]:
        """The call that gives all parameters below a node."""
        if node.tensors and not node.children:
            first = next(iter(node.tensors.values()))
            kind = "buffer" if first.module == "buffer" else "tensor"
            return self._call(kind, node.sizes, "", node.in_float32)
        children = sorted(node.children.values(), key=lambda x: x.name == "bias")
        names = [x.name for x in children]
        if names not in (["weight"], ["weight", "bias"]):
            return None
        weight, bias = children[0], children[1] if len(children) > 1 else None
        if weight.condition is not None or not weight.tensors or weight.children:
            return None
        tensor = next(iter(weight.tensors.values()))
        if any(x.module == "buffer" for x in weight.tensors.values()):
            return None
        flag = ""
        if bias is not None:
            if (not bias.tensors or bias.children or bias.sizes != weight.sizes[:1]
                    or bias.in_float32 != weight.in_float32
                    or any(x.module == "buffer" for x in bias.tensors.values())):
                return None
            flag = "true" if bias.condition is None else self._shown(bias.condition)
        sizes, low = weight.sizes, weight.in_float32
        if len(sizes) == 1:
            if bias is not None and bias.condition is None:
                return self._call("layernorm", sizes, "", low)
            return self._call("norm", sizes, flag, low)
        if len(sizes) == 2:
            if tensor.module == "embedding" and bias is None:
                return self._call("embedding", sizes, "", low)
            return self._call("linear", sizes[::-1], flag, low)
        if len(sizes) > 2 and flag in ("", "true"):
            return self._call("conv" if flag else "plainconv", sizes, "", low)
        return None

    def _call(self, kind: str, sizes: Sequence[Expression], flag: str, low: bool) -> str:
        given = ", ".join([*(self._shown(x) for x in sizes), *([flag] if flag else [])])
        return f"float32({kind}({given}))" if low else f"{kind}({given})"


def _merged(live: list[Entry], files: list[Entry]) -> list[Entry]:
    """The trees of both namings as one."""
    made: list[Entry] = []
    rest = {x.line(): x for x in files}
    for x in live:
        other = rest.get(x.line())
        if other is None:
            made.append(_only(x, "naming != 'hf-files'"))
        elif x.content == other.content:
            made.append(x)
            rest.pop(x.line())
        elif isinstance(x.content, list) and isinstance(other.content, list):
            made.append(Entry(x.key, x.condition, _merged(x.content, other.content)))
            rest.pop(x.line())
        else:
            made.append(_only(x, "naming != 'hf-files'"))
    return made + [_only(x, "naming == 'hf-files'") for x in files if x.line() in rest]


def _only(x: Entry, condition: str) -> Entry:
    own = x.condition
    if " or " in own or " if " in own:
        own = f"({own})"
    return Entry(x.key, f"{condition} and {own}" if own else condition, x.content)


def _guard(never: Sequence[tuple[str, bool]]) -> str:
    """A condition that holds, or refuses the config."""
    flags = " and ".join(
        f"not ({name} ?? false)" if value else f"({name} ?? true)" for name, value in never)
    words = " or ".join(f"{'with' if value else 'without'} {name}" for name, value in never)
    return f"({flags} or refuse('what a model {words} has was not seen'))"


def _lines(entries: list[Entry], depth: int) -> list[str]:
    made = []
    for x in entries:
        start = "  " * depth + _key(x.line()) + ":"
        if isinstance(x.content, str):
            made.append(f"{start} {x.content}")
        else:
            made.append(start)
            made += _lines(x.content, depth + 1)
    return made


def _key(text: str) -> str:
    """A key of YAML; digits alone would be a number."""
    return f'"{text}"' if text.isdigit() else text


def _scalar(text: str) -> str:
    return f"({text})" if text[:1] in "'[" else text


def _blocks(entries: list[Entry]) -> dict[str, list[Entry]]:
    """Makes blocks of what is there more than once, and returns them."""
    seen: Counter[str] = Counter()

    def count(items: list[Entry]) -> None:
        for x in items:
            if isinstance(x.content, list):
                seen["\n".join(_lines(x.content, 0))] += 1
                count(x.content)

    count(entries)
    blocks: dict[str, list[Entry]] = {}
    calls: dict[str, str] = {}

    def replace(items: list[Entry]) -> None:
        for x in items:
            if not isinstance(x.content, list):
                continue
            text = "\n".join(_lines(x.content, 0))
            if seen[text] > 1 and text.count("\n") + 1 >= _LONG:
                if text not in calls:
                    word = "".join(c if c.isalnum() else "_" for c in
                                   x.key.partition("[")[0]).strip("_") or "part"
                    word = f"part_{word}" if word[0].isdigit() else word
                    while word in {name.partition("(")[0] for name in blocks}:
                        word += "_"
                    calls[text] = f"{word}()"
                    blocks[calls[text]] = x.content
                    replace(x.content)
                x.content = calls[text]
            else:
                replace(x.content)

    replace(entries)
    return blocks


def fitted(table: Table, fitter: Fitter, live: Node, files: Optional[Node]) -> list[str]:
    """Fits both trees, and returns what could not be fitted."""
    fitter.fit(live)
    if files is not None:
        fitter.fit(files)
    return fitter.failed
