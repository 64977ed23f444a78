"""Collectives of a module that XLA's partitioner has just made: who takes
part, by axes of the mesh, and what the busiest device sends.

  %all-reduce.3 = f32[8,64] all-reduce(%dot.1), replica_groups={{0,1},{2,3}},
      metadata={op_name="jit(step)/jvp(layer0)/o/dot_general"}
  ->  all_reduce over tp, 2048 bytes held, for "layer0/o", forward
"""

import dataclasses
import functools
import itertools
import math
import re

import numpy as np

KINDS = {"all-reduce": "all_reduce", "all-gather": "all_gather",
         "reduce-scatter": "reduce_scatter", "all-to-all": "all_to_all",
         "collective-permute": "ppermute"}
WIDTHS = {"pred": 1, "s8": 1, "u8": 1, "s32": 4, "u32": 4, "f32": 4,
          "s64": 8, "u64": 8, "f64": 8, "bf16": 2, "f16": 2}
# What only shows the same numbers in another order or shape.
VIEWS = {"reshape", "transpose", "copy", "bitcast"}
REDUCTION = re.compile(
    r"^%?([\w.-]+) \([^\n]*\{\n(?:[^\n}]*parameter[^\n]*\n)*"
    r"  ROOT %?[\w.-]+ = \S+ ([\w-]+)\(", re.M)
IOTA = r"\[([\d,]+)\](?:T\(([\d,]+)\))?"
GROUPS = re.compile(
    r"replica_groups=(\{\{.*?\}\}|\[[\d,]+\]<=" + IOTA +
    r"|mesh\[.*?\](?:, device_ids=\(.*?\))? \{.*?\})")
LINE = re.compile(r"^\s*(ROOT )?%?([\w.-]+) = (\(.*?\)|\S+) ([\w-]+)\((.*)$")


@dataclasses.dataclass
class Instruction:
    name: str
    shape: str
    opcode: str
    operands: list
    rest: str
    is_root: bool

    def groups(self):
        return GROUPS.search(self.rest).group(1)

    def scope(self):
        found = re.search(r'op_name="([^"]*)"', self.rest)
        return found.group(1) if found else ""


@dataclasses.dataclass
class Sent:
    """A collective as written, or after the rules."""
    kind: str
    axes: tuple
    held: int   # bytes of a device's own operand
    sent: int   # bytes that the busiest device sends
    scope: str
    phase: str
    rules: tuple = ()


def sides(shape):
    """Element type and sides of an array's shape."""
    found = re.match(r"(\w+)\[([\d,]*)\]", shape)
    return found.group(1), [int(n) for n in found.group(2).split(",") if n]


def size(shape):
    """Bytes, of a tuple all of its parts'."""
    if shape.startswith("("):
        return sum(size(part) for part in re.findall(r"\w+\[[\d,]*\]", shape))
    kind, dims = sides(shape)
    return WIDTHS[kind] * math.prod(dims)


def split_operands(text):
    """Names between the brackets, and what stands behind them."""
    depth, at = 1, 0
    while depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return text[:at - 1], text[at:]


def entry(module):
    """The instructions of the entry computation by name, in their order."""
    out, inside = {}, False
    for line in module.splitlines():
        if line.startswith("ENTRY"):
            inside = True
        elif inside and line.startswith("}"):
            break
        elif inside:
            found = LINE.match(line)
            if not found:
                continue
            root, name, shape, opcode, rest = found.groups()
            operands, rest = split_operands(rest)
            names = re.findall(r"%([\w.-]+)", operands)
            if opcode in ("constant", "parameter"):
                names, rest = [], operands + rest
            out[name] = Instruction(name, shape, opcode, names, rest,
                                    bool(root))
    return out


def numbers(text):
    return [int(n) for n in text.split(",")]


def iota(dims, order):
    """Devices in the order of `[2,4]T(1,0)`."""
    devices = np.arange(math.prod(numbers(dims))).reshape(numbers(dims))
    return (devices.transpose(numbers(order)) if order else devices).flatten()


def mesh_groups(text):
    """Of mesh['a'=4,'b'=2], device_ids=([2,2,2]T(1,0,2)) {'a'}."""
    sizes = re.findall(r"'([\w.]+)'=(\d+)", text)
    shape = [int(n) for _, n in sizes]
    ids = re.search(r"device_ids=\(" + IOTA, text)
    devices = iota(*ids.groups()) if ids else np.arange(math.prod(shape))
    wanted = re.search(r" \{(.*)\}$", text).group(1)
    assert ":" not in wanted, "a part of an axis: " + text
    names = [name for name, _ in sizes]
    along = [names.index(name) for name in re.findall(r"'([\w.]+)'", wanted)]
    order = [i for i in range(len(names)) if i not in along] + along
    n = math.prod(shape[i] for i in along)
    return devices.reshape(shape).transpose(order).reshape(-1, n).tolist()


def reductions(module):
    """What computations that are one op do, by name."""
    return dict(REDUCTION.findall(module))


def groups_of(text):
    """Lists of devices, from any of the three forms."""
    if text.startswith("{"):
        return [numbers(part) for part in re.findall(r"\{([\d,]+)\}", text)]
    if text.startswith("mesh"):
        return mesh_groups(text)
    shape, order = text.split("<=")
    found = re.match(IOTA, order)
    return iota(*found.groups()).reshape(numbers(shape[1:-1])).tolist()


class Module:
    def __init__(self, text, mesh):
        self.mesh = mesh
        self.all = entry(text)
        self.reductions = reductions(text)
        self.devices = math.prod(mesh.values())
        self.live = self.reachable()
        self.users = {name: [] for name in self.all}
        for one in self.live:
            for operand in self.all[one].operands:
                self.users[operand].append(one)

    def reachable(self):
        todo = [one.name for one in self.all.values() if one.is_root]
        seen = set(todo)
        while todo:
            for operand in self.all[todo.pop()].operands:
                if operand not in seen:
                    seen.add(operand)
                    todo.append(operand)
        return [name for name in self.all if name in seen]

    def grid(self, axes):
        """Groups of devices that differ along the axes only."""
        names = list(self.mesh)
        devices = np.arange(self.devices).reshape(list(self.mesh.values()))
        order = [names.index(a) for a in names if a not in axes]
        order += [names.index(a) for a in axes]
        n = math.prod(self.mesh[a] for a in axes)
        return devices.transpose(order).reshape(-1, n).tolist()

    @functools.cache
    def axes_of(self, text):
        """The axes along which devices of a group differ, in their order in
        the mesh; None where groups are no axes."""
        groups = {frozenset(group) for group in groups_of(text)}
        wide = [a for a, n in self.mesh.items() if n > 1]
        for count in range(len(wide) + 1):
            for axes in itertools.combinations(wide, count):
                if {frozenset(g) for g in self.grid(axes)} == groups:
                    return axes
        return None

    @functools.cache
    def number(self, name, device):
        """A whole number that a device computes from which one it is."""
        one = self.all[name]
        values = [self.number(o, device) for o in one.operands]
        if any(v is None for v in values):
            return None
        if one.opcode == "partition-id":
            return device
        if one.opcode == "constant":
            found = [int(n) for n in re.findall(r"-?\d+",
                                                one.rest.split(")")[0])]
            return found if sides(one.shape)[1] else found[0]
        if one.opcode == "dynamic-slice" and len(values) == 2:
            return [values[0][values[1]]]
        if one.opcode in ("reshape", "convert", "copy", "bitcast"):
            value = values[0]
            return value[0] if isinstance(value, list) and \
                not sides(one.shape)[1] else value
        if one.opcode in ("add", "multiply", "subtract", "divide"):
            a, b = values
            return {"add": a + b, "multiply": a * b, "subtract": a - b,
                    "divide": b and a // b}[one.opcode]
        return None

    def slices_by(self, name):
        """The axes on which a dynamic-slice's place depends; None where that
        is not known."""
        one = self.all[name]
        places = [[self.number(o, device) for o in one.operands[1:]]
                  for device in range(self.devices)]
        if any(None in place for place in places):
            return None
        devices = np.arange(self.devices).reshape(list(self.mesh.values()))
        out = []
        for at, axis in enumerate(self.mesh):
            if self.mesh[axis] > 1:
                along = np.moveaxis(devices, at, 0)
                if any(places[a] != places[b] for a, b in
                       zip(along[0].flat, along[1].flat)):
                    out.append(axis)
        return tuple(out)

    def only_user(self, name):
        users = self.users[name]
        return self.all[users[0]] if len(set(users)) == 1 else None

    def only_sliced(self, name):
        """The axes by which all that use a value slice it, looking through
        views; None where somebody needs more."""
        found = set()
        for user in self.users[name]:
            one = self.all[user]
            if one.opcode in VIEWS:
                axes = self.only_sliced(user)
            elif one.opcode == "dynamic-slice" and one.operands[0] == name:
                axes = self.slices_by(user)
            else:
                return None
            if axes is None:
                return None
            found.add(axes)
        return found.pop() if len(found) == 1 else None

    def source(self, name):
        """What a value shows."""
        while self.all[name].opcode in VIEWS:
            name = self.all[name].operands[0]
        return name

    def adds(self, one):
        """Whether a reduction's computation is an addition."""
        called = re.search(r"to_apply=%?([\w.-]+)", one.rest).group(1)
        return self.reductions.get(called) == "add"

    def is_for_choice(self, name):
        """Whether a value is only sorted."""
        users = self.users[name]
        return bool(users) and all(
            self.all[user].opcode in ("sort", "topk") or
            "TopK" in self.all[user].rest or
            self.all[user].opcode in VIEWS and self.is_for_choice(user)
            for user in users)


def sent_bytes(kind, n, held, width):
    """By the busiest of n devices, of `held` bytes."""
    if kind == "ppermute":
        return held
    if kind == "all_gather":
        return held * (n - 1)
    if kind == "all_to_all":
        return held // n * (n - 1)
    chunks = [held // width // n + (i < held // width % n) for i in range(n)]
    turns = [chunks] if kind == "reduce_scatter" else \
        [[chunks[i] + chunks[i - 1] for i in range(n)]]
    times = 1 if kind == "reduce_scatter" else 2
    return (times * held // width - min(turns[0])) * width


def phase_of(scope):
    if "gradient_norm" in scope:
        return "optimizer"
    return "backward" if "transpose(" in scope else "forward"


def part_of(scope):
    """layer0/q of jit(step)/jvp(layer0)/q/dot_general."""
    words = re.split(r"[/()]", scope)
    skip = {"", "jit", "step", "jvp", "transpose", "vmap"}
    named = [word for word in words[:-1] if word not in skip]
    return "/".join(named[:2] if named and named[0].startswith("layer")
                    else named[:1])


@dataclasses.dataclass
class Pending:
    """A sum that has still to be reduced."""
    first: Instruction
    axes: tuple
    rules: frozenset = frozenset()
    cut: tuple = ()   # axes by which each device took its slice already
    sums_slice: bool = False   # an all_reduce over other axes follows it

    def by(self, *rules):
        return dataclasses.replace(self, rules=self.rules | set(rules))

    def lies_as(self, other):
        return (self.axes, self.cut) == (other.axes, other.cut)


class Reader:
    """Reads the collectives of a module as written, and rewrites them by
    rules:

    joined    all_reduces one after the other over several axes are one, also
              where each device took its slice between them;
    deferred  a partial value is reduced after the ops that are linear in it:
              views, sums, and the addition of other partial values, so that
              the all_reduces of several dots become one;
    sliced    an all_reduce of which each device takes its slice only is a
              reduce_scatter;
    again     a value that is gathered twice is gathered once;
    top_k     what is gathered only for top_k, which the partitioner never
              splits, is left out.
    """

    def __init__(self, text, mesh):
        self.module = Module(text, mesh)
        self.mesh = mesh
        self.gathered = set()

    def parts(self, axes):
        return math.prod(self.mesh[a] for a in axes)

    def make(self, one, kind, axes, held, rules=()):
        width = min(held, WIDTHS[sides(one.shape.strip("("))[0]])
        scope = one.scope()
        return Sent(kind, axes, held,
                    sent_bytes(kind, self.parts(axes), held, width),
                    part_of(scope), phase_of(scope), tuple(sorted(rules)))

    def held(self, one):
        return sum(size(self.module.all[o].shape) for o in one.operands)

    def axes(self, one):
        if one.opcode == "collective-permute":
            return ()
        axes = self.module.axes_of(one.groups())
        assert axes is not None, one.groups()
        return axes

    def in_order(self, axes):
        return tuple(a for a in self.mesh if a in axes)

    def raw(self):
        for name in self.module.live:
            one = self.module.all[name]
            if one.opcode in KINDS:
                yield self.make(one, KINDS[one.opcode], self.axes(one),
                                self.held(one))

    def rewritten(self):
        pending = {}
        for name in self.module.live:
            one = self.module.all[name]
            kind = KINDS.get(one.opcode)
            if kind == "all_reduce" and self.module.adds(one):
                pending[name] = Pending(one, self.axes(one))
            elif kind == "all_gather":
                yield from self.gather(one)
            elif kind:
                yield self.make(one, kind, self.axes(one), self.held(one))
        yield from self.reduced(pending)

    def gather(self, one):
        if self.module.is_for_choice(one.name):
            return
        key = (self.module.source(one.operands[0]), self.axes(one))
        if key not in self.gathered:
            self.gathered.add(key)
            yield self.make(one, "all_gather", self.axes(one), self.held(one))

    def reduced(self, pending):
        """Where each partial value is finally reduced; the first in the text is
        moved as far as it can be, then the next."""
        place = {name: i for i, name in enumerate(self.module.live)}
        while True:
            step = next(filter(None, (
                self.passed(name, pending) for name in sorted(
                    pending, key=lambda one: place[pending[one].first.name]))),
                None)
            if step is None:
                break
            gone, name, value = step
            for one in gone:
                del pending[one]
            pending[name] = value
        for name, sum_of in pending.items():
            yield from self.at_last(name, sum_of)

    def passed(self, name, pending):
        """(the value that is no longer partial, the value in its place)"""
        sum_of = pending[name]
        user = self.module.only_user(name)
        if user is None or "sharding_constraint" in user.scope():
            return None
        if user.opcode in ("reshape", "transpose", "bitcast"):
            return [name], user.name, sum_of
        if user.opcode == "reduce" and self.module.adds(user) and \
                user.operands[0] == name:
            return [name], user.name, sum_of.by("deferred")
        if user.opcode == "add":
            others = {o for o in user.operands if o != name}
            if all(o in pending and pending[o].lies_as(sum_of) and
                   self.module.only_user(o) is user for o in others):
                return [name, *others], user.name, sum_of.by("deferred")
        if user.opcode == "dynamic-slice" and user.operands[0] == name:
            cut = self.module.slices_by(user.name)
            if not sum_of.cut and cut and set(cut) <= set(sum_of.axes):
                return [name], user.name, dataclasses.replace(
                    sum_of.by("sliced"), cut=cut)
        if user.name in pending and user.opcode == "all-reduce" and \
                not set(sum_of.axes) & set(pending[user.name].axes):
            both = self.in_order(sum_of.axes + pending[user.name].axes)
            joined = [] if sum_of.cut else ["joined"]
            return [name], user.name, dataclasses.replace(
                sum_of.by(*joined, *pending[user.name].rules), axes=both,
                sums_slice=sum_of.sums_slice or bool(sum_of.cut))
        return None

    def at_last(self, name, sum_of):
        """The collectives of a sum that stands in `name`."""
        held, cut = size(self.module.all[name].shape), sum_of.cut
        if cut:
            held *= self.parts(cut)
        else:
            cut = self.in_order(set(self.module.only_sliced(name) or ()) &
                                set(sum_of.axes))
        if not cut:
            yield self.make(sum_of.first, "all_reduce", sum_of.axes, held,
                            sum_of.rules)
            return
        rules = sum_of.by("sliced").rules
        yield self.make(sum_of.first, "reduce_scatter", cut, held, rules)
        rest = tuple(a for a in sum_of.axes if a not in cut)
        if rest:
            if sum_of.sums_slice:
                rules = rules - {"sliced"}
            yield self.make(sum_of.first, "all_reduce", rest,
                            held // self.parts(cut), rules)


def collectives(text, mesh):
    """Of a partitioned module: as written, and after the rules."""
    return list(Reader(text, mesh).raw()), list(Reader(text, mesh).rewritten())
