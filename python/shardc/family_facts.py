"""What the dimensions of a class's parameters count, fitted from its programs.

The class is run on small random configs, and the program of each run shows the factors of
each parameter (`shardc explain --program`). A factor of which each program shows the same
place becomes a name with an expression of the config's values, and a dimension a product
or a sum of such names: the key `factors` of families/README.md.

    q_proj of three programs   kv_heads 2 x group 3 x head_dim 8, 3 x 2 x 16, ...
      ->  num_key_value_heads * group * head_dim, with group = heads // KV heads
"""

from __future__ import annotations

import collections
import itertools
import json
import math
import os
import subprocess
import tempfile
from collections.abc import Container, Iterable, Sequence
from typing import Any, Optional

from shardc.command import find_program
from shardc.family_expressions import Expression, names_in, value_of
from shardc.family_fit import Node, Row, Table
from shardc.family_subject import Built, Subject
from shardc.family_text import Writer

Product = list[dict[str, Any]]
Dims = dict[str, list[Optional[Product]]]

# Factors that no axis shards on their own, or that are one in the entire model.
INSIDE = {"head_dim", "position", "window"}
OF_MODEL = INSIDE | {"stream", "vocab", "out", "in", "parts"}
# What a description can say of a factor.
_STATED = {"stream", "vocab", "position", "heads", "kv_heads", "state_groups", "group",
           "head_dim", "inner", "latent", "experts", "channels", "window"}
_ROWS, _LENGTH = 2, 7
_MOST_ALLOCATED = 1 << 27  # elements


def leaf(role: str, size: int, number: int) -> dict[str, Any]:
    return {"role": role, "size": size, "factor": number}


def normal(product: Product) -> Product:
    """The product without factors of size 1, and with each sum as its last item: what
    follows a sum is a factor of each of its parts. Factors inside of a head are one."""
    out: Product = []
    for item in product:
        if "parts" in item:
            item = _normal_sum([normal(part) for part in item["parts"]])
        if item.get("size") == 1:
            continue
        last = out[-1] if out else {}
        if last.get("role") in INSIDE and item.get("role") in {last["role"], "parts", "out"}:
            out[-1] = leaf(last["role"], last["size"] * item["size"], -1)
        elif last.get("role") == "parts" and item.get("role") in INSIDE:
            out[-1] = leaf(item["role"], last["size"] * item["size"], -1)
        else:
            out.append(item)
    for at, item in enumerate(out[:-1]):
        if "parts" in item or item["role"] == "parts":
            rest = out[at + 1:]
            parts = item.get("parts") or [[]] * item["size"]
            return normal([*out[:at], {"parts": [part + rest for part in parts]}])
    return out


def _normal_sum(parts: list[Product]) -> dict[str, Any]:
    """The sum of parts. One of sums has their parts, a number of elements is a factor, and
    so are parts inside of a head."""
    out: list[Product] = []
    for part in parts:
        lone = len(part) == 1 and "parts" in part[0]
        out += part[0]["parts"] if lone else [part]
    if not any(out):
        return leaf("parts", len(out), -1)
    inside = {part[0].get("role") for part in out if len(part) == 1}
    if len(inside) == 1 and inside <= INSIDE and all(len(part) < 2 for part in out):
        return leaf(str(inside.pop()), sum(part[0]["size"] if part else 1 for part in out), -1)
    return {"parts": out}


def facts_of(shown: dict[str, Any]) -> Dims:
    """The dimensions of each parameter in what `explain` prints, or None for those that
    are not known."""
    def product(numbers: list[int]) -> Product:
        out: Product = []
        for number in numbers:
            factor = shown["factors"][str(number)]
            parts = [product(part) for part in factor["parts"]]
            out.append({"parts": parts} if parts else
                       leaf(factor["role"], factor["size"], number))
        return out
    return {one["param"]: [None if dim["factors"] is None else normal(product(dim["factors"]))
                           for dim in one["dims"]] for one in shown["params"]}


def text(product: Optional[Product]) -> str:
    if product is None:
        return "not known"
    return " x ".join(
        "(" + " | ".join(map(text, item["parts"])) + ")" if "parts" in item else
        f"{item['role']} {item['size']}" for item in product) or "1"


def _paired(stated: Product, found: Product, pairs: set[tuple[int, int]]) -> bool:
    """Whether two products are the same; adds the factors that must be the same."""
    if len(stated) != len(found):
        return False
    for one, other in zip(stated, found):
        if ("parts" in one) != ("parts" in other):
            return False
        if "parts" in one:
            parts = _grouped(one["parts"], other["parts"])
            if len(one["parts"]) != len(parts) or not all(
                    _paired(a, b, pairs) for a, b in zip(one["parts"], parts)):
                return False
        elif one["size"] != other["size"]:
            return False
        elif one["role"] not in OF_MODEL and other["role"] not in OF_MODEL:
            pairs.add((one["factor"], other["factor"]))
        elif "stream" in (one["role"], other["role"]) and one["role"] != other["role"]:
            return False
    return True


def _inside(product: Product) -> int:
    """The size of a factor inside of a head; 0 of other products."""
    alone = len(product) == 1 and product[0].get("role") in INSIDE
    return int(product[0]["size"]) if alone else 0


def _grouped(stated: list[Product], found: list[Product]) -> list[Product]:
    """The parts of a program, in which those inside of the only KV head are one if the
    description has them as one."""
    out: list[Product] = []
    for part in found:
        at = len(out) - 1
        whole = _inside(stated[at]) if 0 <= at < len(stated) else 0
        before = _inside(out[-1]) if out else 0
        if 0 < before < whole and _inside(part) > 0:
            out[-1] = [leaf(stated[at][0]["role"], before + _inside(part), -1)]
        else:
            out.append(part)
    return out


# A dimension of a parameter, and what is wrong with what is stated of it.
Wrong = tuple[str, int, str]


def compared(stated: Dims, found: Dims) -> tuple[collections.Counter[str], list[str]]:
    """Counts of right, unknown and wrong dimensions, and texts of the wrong ones."""
    counts, wrong = differences(stated, found)
    return counts, [f"{param} {d}: {why}" for param, d, why in wrong]


def differences(stated: Dims, found: Dims) -> tuple[collections.Counter[str], list[Wrong]]:
    """Counts of right, unknown and wrong dimensions, and the wrong ones."""
    counts: collections.Counter[str] = collections.Counter()
    wrong: list[Wrong] = []
    all_pairs = []
    for param, dims in found.items():
        own = stated.get(param)
        if all(dim is None or all(x.get("role") == "unknown" for x in dim) for dim in dims):
            counts["unread"] += len(dims)  # the program took another branch
            continue
        if own is None or len(own) != len(dims):
            counts["unknown"] += len(dims)
            continue
        for d, (one, other) in enumerate(zip(own, dims)):
            pairs: set[tuple[int, int]] = set()
            if one is None or other is None:
                counts["unknown"] += 1
            elif _paired(one, other, pairs):
                all_pairs.append((param, d, pairs))
            else:
                counts["wrong"] += 1
                wrong.append((param, d, f"{text(one)}, and {text(other)} in the program"))
    ties = collections.defaultdict(set)
    for _, _, pairs in all_pairs:
        for a, b in pairs:
            ties["stated", a].add(b)
            ties["found", b].add(a)
    for param, d, pairs in all_pairs:
        good = all(len(ties["stated", a]) == len(ties["found", b]) == 1 for a, b in pairs)
        counts["right" if good else "wrong"] += 1
        if not good:
            wrong.append((param, d, "its factor is tied to others than in the program"))
    return counts, wrong


def shown_facts(*arguments: str) -> Optional[Dims]:
    ran = subprocess.run([find_program(), "explain", "--no-project", *arguments, "--format",
                          "json"], capture_output=True, text=True, check=False)
    return facts_of(json.loads(ran.stdout)) if ran.returncode == 0 else None


def _traced(subject: Subject, given: dict[str, Any], device: str, most: float) -> Any:
    """The program of a config's model with at most this many elements; None if it has
    more. Raises what the class raises."""
    import torch

    from shardc import program

    config = subject.config(given)
    # What other kernels compute in one operation is not seen.
    for name, value in (("_attn_implementation", "eager"),
                        ("_experts_implementation", "batched_mm"), ("use_cache", False)):
        if subject.is_transformers:
            setattr(config, name, value)
    with torch.device("meta"):
        model = subject.kind(config)
    if sum(x.numel() for x in model.parameters()) > most:
        return None
    if device != "meta":
        model = subject.kind(config)
    tokens = torch.randint(0, min(getattr(config, "vocab_size", 0) or 2, 1 << 20),
                           (_ROWS, _LENGTH), device=device)
    more = {"attention_mask": torch.ones_like(tokens), "use_cache": False
            } if subject.is_transformers else {}
    with torch.no_grad():
        return program.of_torch(model.eval(), (tokens,), more, "the class").program


def programmed(subject: Subject, given: dict[str, Any]) -> Optional[Dims]:
    """What the program of a config's model shows; None if it does not run on tokens.
    Elements are allocated only for a small model whose forward pass reads some."""
    from shardc import program

    made = None
    for device, most in (("meta", math.inf), ("cpu", _MOST_ALLOCATED)):
        try:
            made = made or _traced(subject, given, device, most)
        except Exception:  # whatever the class raises for this config
            pass
    if made is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.json.gz")
        program.write(made, path)
        return shown_facts("--program", path)


class Place:
    """A factor in a dimension of a parameter, in each program."""

    def __init__(self, role: str, sizes: dict[Row, int]) -> None:
        self.role = role
        self.sizes = sizes
        self.numbers: dict[tuple[int, str], int] = {}  # by the config and the layer
        self.value: Expression = None


class Finder:
    """Finds the factors of a tree that was fitted, and states them in its description."""

    def __init__(self, table: Table, writer: Writer, found: dict[int, Dims]) -> None:
        self.table = table
        self.writer = writer
        self.found = found
        self.names: dict[str, list[tuple[str, list[Place]]]] = {}
        self.places: list[Place] = []  # those whose values are known

    def state(self, tree: Node, left_open: Container[tuple[str, int]] = ()) -> None:
        """Gives factors and the sizes made of them names. Dimensions that are left open,
        each as a parameter and a number, get names that are no factors."""
        dims = [(node, d) for node in _leaves(tree) for d in range(len(node.sizes))]
        opened = [(node, d) for node, d in dims if any(
            (tensor.name, d) in left_open for tensor in node.tensors.values())]
        names: dict[str, str] = {}
        for node, d in opened:
            key = repr(node.sizes[d])
            if key not in names:
                names[key] = self._fresh("unknown")
                self.writer.values[names[key]] = node.sizes[d]
                self.writer.factors[names[key]] = "unknown"
            node.sizes = (*node.sizes[:d], ("name", names[key]), *node.sizes[d + 1:])
        stated = [(node, d, product) for node, d in dims if (node, d) not in opened
                  and (product := self._product(node, d))]
        # What is seen in most programs decides first: a bias of a few configs, which
        # have as many KV heads as heads, is laid out as the weight.
        stated.sort(key=lambda x: -len(x[0].tensors))
        known: dict[str, list[tuple[list[str], Expression]]] = collections.defaultdict(list)
        for node, d, product in stated:
            size, roles = node.sizes[d], _roles(product)
            for others, other in known[repr(size)]:
                rest = iter(others)
                if all(role in rest for role in roles):
                    node.sizes = (*node.sizes[:d], other, *node.sizes[d + 1:])
                    break
            else:
                self._state(node, d, product)
                known[repr(size)].append((roles, node.sizes[d]))

    def _state(self, node: Node, d: int, product: list[Any]) -> None:
        """Names the factors of a dimension, and its size unless that is written in terms
        of them."""
        layout = self._layout(product)
        size, text_ = node.sizes[d], self.writer.shown_with(layout)
        products: dict[str, str] = {}
        if self._is_written(size, product, products):
            self.writer.factors.update(products)
            return
        if len(product) == 1 and isinstance(product[0], Place):
            # A factor by itself has no size of another name, and parts alone have none.
            value = product[0].value
            if product[0].role != "parts" and all(
                    value_of(value, self.table.values[at], counters) ==
                    value_of(size, self.table.values[at], counters)
                    for at, counters in node.tensors):
                own = self._name(product[0])
                node.sizes = (*node.sizes[:d], ("name", own), *node.sizes[d + 1:])
            return
        name = next((x for x, (a, b) in self.writer.sizes.items()
                     if a == size and b == text_), None)
        if name is None:
            name = self._fresh("size")
            self.writer.sizes[name] = (size, text_)
        node.sizes = (*node.sizes[:d], ("name", name), *node.sizes[d + 1:])

    def _is_written(self, size: Expression, product: list[Any],
                    products: dict[str, str]) -> bool:
        """Whether an expression has the order of the elements. Adds names that stand for
        products of several factors."""
        terms = _operands("*", size)
        if len(product) == 1 and not isinstance(product[0], Place):
            parts = [part for x in _operands("+", size) for part in
                     ([x[2]] * x[1] if isinstance(x, tuple) and x[0] == "*"
                      and isinstance(x[1], int) else [x])]
            return len(parts) == len(product[0]) and all(
                self._is_written(x, part, products) for x, part in zip(parts, product[0]))
        at = 0
        for term in terms:
            if at == len(product) or not isinstance(product[at], Place):
                return False
            if not (isinstance(term, tuple) and term[0] == "name" and "." not in term[1]):
                return False
            rows = product[at].sizes
            wanted = {row: value_of(term, self.table.values[row[0]], row[1]) for row in rows}
            begin, size_of = at, dict.fromkeys(rows, 1)
            while at < len(product) and size_of != wanted and isinstance(product[at], Place):
                size_of = {row: x * product[at].sizes[row] for row, x in size_of.items()}
                at += 1
            names = [self._name(x) for x in product[begin:at] if x.role != "parts"]
            if size_of != wanted or len(names) < at - begin:
                return False
            if names != [term[1]]:
                text_ = " * ".join(names)
                if term[1] in names or self.writer.factors.get(term[1], text_) != text_:
                    return False
                products[term[1]] = text_
        return at == len(product)

    def _product(self, node: Node, d: int) -> Optional[list[Any]]:
        """The dimension as places, of all programs that have it with the same factors."""
        rows: dict[Row, Product] = {}
        for row, tensor in node.tensors.items():
            dims = self.found.get(row[0], {}).get(tensor.name)
            product = dims[d] if dims is not None else None
            if product is not None:
                rows[row] = product
        if not rows:
            return None
        shapes = collections.Counter(repr(_shape(x)) for x in rows.values())
        # With a factor of size 1, a product has fewer.
        wanted = max(shapes, key=lambda x: (len(x), shapes[x]))
        some = {row: x for row, x in rows.items() if repr(_shape(x)) == wanted}
        return self._places(some, {row: x.name for row, x in node.tensors.items()})

    def _places(self, rows: dict[Row, Product], names: dict[Row, str]) -> Optional[list[Any]]:
        out: list[Any] = []
        for at, first in enumerate(next(iter(rows.values()))):
            if "parts" in first:
                parts = [self._places({row: x[at]["parts"][n] for row, x in rows.items()},
                                      names) for n in range(len(first["parts"]))]
                if any(part is None for part in parts):
                    return None
                out.append(parts)
                continue
            roles = collections.Counter(x[at]["role"] for x in rows.values())
            role = next((one for one in _SHARED if one in roles),
                        roles.most_common(1)[0][0])
            place = Place(role, {row: x[at]["size"] for row, x in rows.items()})
            if at > 0 and role == "out" and len(set(place.sizes.values())) == 1:
                place.role = "parts"  # elements that alternate, such as gate and up
            if place.role == "parts":
                if len(set(place.sizes.values())) > 1:
                    return None
                place.value = first["size"]
            elif place.role in _STATED:
                place.value = self._value(place)
            if place.value is None:
                return None
            for row, x in rows.items():
                place.numbers[row[0], _layer(names[row])] = x[at]["factor"]
            out.append(place)
        return out

    def _value(self, place: Place) -> Expression:
        if len(set(place.sizes.values())) < 2:
            return None  # nothing shows which value it is
        used = [x.value for x in self.places if x.role == place.role]
        known = [x for x, _ in self.table.sizes.most_common()]
        # The number of layers is the value of no factor, and those of sizes are tried first.
        in_sizes = {name for x in known for name in names_in(x)}
        counts = {name for x in self.table.loops for name in names_in(x)} - in_sizes
        names: list[Expression] = [
            ("name", x) for x in sorted(self.table.names, key=lambda x: x not in in_sizes)
            if x not in counts]
        # A key with the same value in all programs, such as the number of a token, is not
        # what divides another by two.
        changing = [x for x in names if len(
            {str(value_of(x, self.table.values[at], counters))
             for at, counters in place.sizes}) > 1]
        pool: Iterable[Expression] = itertools.chain(
            used, names, known, (("//", a, 2) for a in names),
            (("//", a, b) for a in names + known for b in changing if a != b),
            (("*", a, b) for a, b in itertools.combinations(changing, 2)))
        for x in pool:
            if all(value_of(x, self.table.values[at], counters) == size
                   for (at, counters), size in place.sizes.items()):
                self.places.append(place)
                return x
        return None

    def _layout(self, product: list[Any]) -> Expression:
        """The expression of a dimension, in the order of its elements."""
        whole: Expression = None
        for item in product:
            if isinstance(item, Place):
                inner = item.value if item.role == "parts" else ("name", self._name(item))
            else:
                parts = [self._layout(part) if part else 1 for part in item]
                inner = parts[0]
                for part in parts[1:]:
                    inner = ("+", inner, part)
            whole = inner if whole is None else ("*", whole, inner)
        return whole

    def _name(self, place: Place) -> str:
        """The name of a factor: of one with the same value that is the same factor in each
        layer where both are."""
        key = repr((place.role, place.value))
        for name, others in self.names.setdefault(key, []):
            if place.role in OF_MODEL or all(
                    other.numbers.get(at, number) == number
                    for other in others for at, number in place.numbers.items()):
                others.append(place)
                self._count(name, place.role, others)
                return name
        value = place.value
        plain = isinstance(value, tuple) and value[0] == "name" and "." not in value[1]
        name = value[1] if plain and value[1] not in self.writer.factors else self._fresh(
            place.role)
        self.names[key].append((name, [place]))
        if not (plain and name == value[1]):
            self.writer.values[name] = value
        self._count(name, place.role, [place])
        return name

    def _count(self, name: str, role: str, places: list[Place]) -> None:
        """States a role: that of one factor in all layers is shared."""
        numbers: dict[int, set[tuple[str, int]]] = collections.defaultdict(set)
        for place in places:
            for (config, layer), number in place.numbers.items():
                numbers[config].add((layer, number))
        shared = role not in OF_MODEL and any(len(x) > 1 for x in numbers.values()) and all(
            len({number for _, number in x}) == 1 for x in numbers.values())
        self.writer.factors[name] = f"shared({role})" if shared else role

    def _fresh(self, word: str) -> str:
        used = {*self.writer.factors, *self.writer.values, *self.writer.sizes,
                *self.table.names}
        return next(x for x in itertools.chain([word], (f"{word}_{n}" for n in
                                                        itertools.count(2))) if x not in used)


def _leaves(node: Node) -> Iterable[Node]:
    if node.tensors:
        yield node
    for child in node.children.values():
        yield from _leaves(child)


def _operands(sign: str, x: Expression) -> list[Expression]:
    if isinstance(x, tuple) and x[0] == sign:
        return [*_operands(sign, x[1]), *_operands(sign, x[2])]
    return [x]


# Whether heads are shared, and whether an inner width is a narrow one, may differ between
# configs.
_SHARED = ("kv_heads", "state_groups")
_SAME = {**dict.fromkeys(_SHARED, "heads"), "latent": "inner"}


def _roles(product: list[Any]) -> list[str]:
    """The roles of places, with brackets around parts."""
    out: list[str] = []
    for item in product:
        if isinstance(item, Place):
            out.append(_SAME.get(item.role, item.role))
        else:
            out += ["(", *(role for part in item for role in [*_roles(part), "|"]), ")"]
    return out


def _shape(product: Product) -> list[Any]:
    """The places of factors."""
    return [[_shape(part) for part in x["parts"]] if "parts" in x else
            _SAME.get(x["role"], x["role"]) for x in product]


def _layer(name: str) -> str:
    """A name up to its last number."""
    parts = name.split(".")
    last = max((n for n, part in enumerate(parts) if part.isdigit()), default=-1)
    return ".".join(parts[:last + 1])


def programs_of(subject: Subject, built: Sequence[Built], most: int,
                known: dict[int, Dims]) -> dict[int, Dims]:
    """The facts of the first configs whose models run, by the index of the config;
    `known` has those of the first of them."""
    out = dict(known)
    for at in range(max(known, default=-1) + 1, len(built)):
        if len(out) == most:
            break
        found = programmed(subject, built[at].given)
        if found is not None:
            out[at] = found
    return out
