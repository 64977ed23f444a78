"""The equations of a jaxpr as operations of shardc.program/v1.

JAX has some 300 primitives, and a program 29 classes of operations. A table gives
each known primitive a function that writes the operation; calls are inlined, and
primitives that change no element give their operand's value. All others become
`opaque` and are counted. For instance

    c:f32[8,4] = dot_general[dimension_numbers=(([1], [0]), ([], []))] a b

is written as

    {"op": "dot", "in": [0, 1], "out": [2], "lhs_contract": [1], "rhs_contract": [0],
     "lhs_batch": [], "rhs_batch": []}

Bodies of loops are closed: what they read is among their own inputs, and constants
are repeated. Nothing is executed: only shapes and types are used.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable

import numpy as np

from shardc.program_places import Places, passes_of
from shardc.tree import dtype_text

# The most elements that a program states of a constant.
ELEMENTS = 64
# The most numbers of rows that are written, and the most runs that they are in.
MOST_ROWS = 65536
RUNS = 16
# Constants of more bytes are reported, because they may be parameters.
LARGE = 1 << 20

Op = dict[str, Any]
Path = tuple[int, ...]
# Writes an equation: (recorder, body, equation's parameters, operands, types of
# the results) -> values of the results.
Writer = Callable[["Recorder", "Body", dict[str, Any], list[int], list[Any]], list[int]]


class Body:
    """The operations of the program, or of the body of a loop."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.constants: dict[Any, int] = {}
        # The place and the passes of the equation that is written.
        self.at: list[int] | None = None
        self.passes: frozenset[str] = frozenset()
        # The module that runs, as an index into those of the program.
        self.module: int | None = None


def _are_rows(data: np.ndarray[Any, Any]) -> bool:
    """Whether these are the numbers of some rows in order, which are in a few runs,
    such as the rows of query and value in one matrix: 0 to 4095 and 5120 to 6143. The
    numbers from 0 on are those of positions, which no operation picks rows by."""
    if data.size > MOST_ROWS or data.dtype.kind == "b":
        return False
    steps = np.diff(data.ravel().astype(np.int64))
    gaps = int((steps > 1).sum())
    return bool((steps >= 1).all()) and gaps < RUNS and (gaps > 0 or data.flat[0] > 0)


class Recorder:
    """The values and operations of one program."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.values: list[dict[str, Any]] = []
        # Elements of constants, whatever their size.
        self.constants: dict[int, np.ndarray[Any, Any]] = {}
        # Elements of integers that are known: at most ELEMENTS each, or of rows.
        self.known: dict[int, np.ndarray[Any, Any]] = {}
        # The real and the imaginary part of complex values (program_complex.py).
        self.parts: dict[int, tuple[int, int]] = {}
        self.unknown: collections.Counter[str] = collections.Counter()
        self.first: dict[str, list[int] | None] = {}
        self.assumptions: list[str] = []
        self.modules: list[str] = []
        # Dimensions of values whose sizes the code gives as numbers.
        self.literals: list[dict[str, Any]] = []
        # The values of the results of equations, by the equation's path: its number
        # in a jaxpr, and before it those of the calls and loops around it, each with
        # the identity of the jaxpr.
        self.equations: dict[Path, list[int]] = {}
        self.path: Path = ()

    # ---- Values

    def value(self, shape: Sequence[int], dtype: str) -> int:
        self.values.append({"shape": [int(n) for n in shape], "dtype": dtype})
        return len(self.values) - 1

    def of_type(self, aval: Any) -> int:
        return self.value(aval.shape, _dtype(aval.dtype))

    def shape(self, value: int) -> list[int]:
        return list(self.values[value]["shape"])

    def dtype(self, value: int) -> str:
        return str(self.values[value]["dtype"])

    def constant(self, body: Body, array: Any) -> int:
        """The value of a constant, once in each body."""
        if _dtype(array.dtype) == "KEY":
            return self.opaque(
                body, "constant", "a key of random numbers is closed over", [], [array]
            )[0]
        data = np.asarray(array)
        small = data.size <= ELEMENTS
        key = (str(data.dtype), data.shape, data.tobytes()) if small else id(array)
        if key in body.constants:
            return body.constants[key]
        out = self.value(data.shape, dtype_text(data.dtype))
        body.constants[key] = out
        self.constants[out] = data
        if data.dtype.kind in "biu" and (small or _are_rows(data)):
            self._know(out, data)
        elif small and data.dtype.kind != "c":
            self.values[out]["floats"] = [
                _number(x) for x in data.astype(np.float64).ravel()
            ]
        if data.nbytes > LARGE:
            self.assumptions.append(
                f"A constant {self.dtype(out)}{self.shape(out)} of {data.nbytes} bytes is"
                f" part of the function{self.places.text(body.at)}. If it is trained or"
                " loaded, pass it as an argument: it is no parameter of this program."
            )
        self.write(body, "const", [], [out])
        return out

    def _know(self, value: int, data: np.ndarray[Any, Any]) -> None:
        if data.dtype.kind in "biu" and (data.size <= ELEMENTS or _are_rows(data)):
            self.known[value] = data
            self.values[value]["integers"] = [int(x) for x in data.ravel()]

    # ---- Operations

    def write(
        self,
        body: Body,
        op: str,
        ins: list[int],
        outs: list[int],
        /,
        **attributes: Any,
    ) -> list[int]:
        one: Op = {"op": op, "in": list(ins), "out": list(outs)}
        if body.at is not None:
            one["at"] = body.at
        if body.module is not None:
            one["module"] = body.module
        one["passes"] = body.passes
        one.update({k: v for k, v in attributes.items() if v is not None})
        body.ops.append(one)
        return outs

    def derive(
        self,
        body: Body,
        op: str,
        ins: list[int],
        shape: Sequence[int],
        dtype: str | None = None,
        /,
        **attributes: Any,
    ) -> int:
        """An operation with one result, of the first operand's dtype by default.
        Elements of small integers are computed here, so that a slice at an index
        that follows from constants is a slice with constant bounds."""
        out = self.value(shape, dtype or self.dtype(ins[0]))
        self.write(body, op, ins, [out], **attributes)
        most = max([ELEMENTS, *(self.known[one].size for one in ins if one in self.known)])
        if all(one in self.known for one in ins) and math.prod(shape) <= most:
            operands = [self.known[one] for one in ins]
            data = _evaluated(op, operands, self.shape(out), attributes)
            if data is not None and self.dtype(out) in _INTEGERS:
                self._know(out, np.asarray(data).astype(_INTEGERS[self.dtype(out)]))
        return out

    def opaque(
        self,
        body: Body,
        primitive: str,
        reason: str,
        ins: list[int],
        avals: Iterable[Any],
    ) -> list[int]:
        if not self.unknown[primitive]:
            self.first[primitive] = body.at
        self.unknown[primitive] += 1
        outs = [self.of_type(aval) for aval in avals]
        return self.write(body, "opaque", ins, outs, primitive=primitive, reason=reason)

    # ---- Jaxprs

    def inline(
        self,
        body: Body,
        jaxpr: Any,
        ins: list[int],
        consts: Sequence[Any] = (),
    ) -> list[int]:
        """Writes the equations of a jaxpr, closed or not; returns the values of
        its results. Equations of the jaxpr are in the passes of the call, and have
        its place unless they come from a function of the user's own."""
        if hasattr(jaxpr, "consts"):
            jaxpr, consts = jaxpr.jaxpr, jaxpr.consts
        call, path = (body.at, body.passes), (*self.path, id(jaxpr))
        values: dict[Any, int] = dict(zip(jaxpr.invars, ins))
        # Written where they are read first, whose place they get.
        constants = dict(zip(jaxpr.constvars, consts))

        def read(atom: Any) -> int:
            if hasattr(atom, "val"):
                data = np.asarray(atom.val, dtype=atom.aval.dtype)
                return self.constant(body, data.reshape(atom.aval.shape))
            if atom in constants and atom not in values:
                values[atom] = self.constant(body, constants[atom])
            return values[atom]

        inner = self.places.of_function(jaxpr)
        for number, equation in enumerate(jaxpr.eqns):
            self.path = (*path, number)
            source = equation.source_info
            body.at = self.places.find(source.traceback, inner) or call[0]
            body.passes = call[1] | passes_of(source.name_stack)
            operands = [read(atom) for atom in equation.invars]
            avals = [variable.aval for variable in equation.outvars]
            name = equation.primitive.name.replace("-", "_")
            writer = WRITERS.get(name)
            outs = None
            if writer is not None:
                outs = writer(self, body, equation.params, operands, avals)
            if outs is None:
                reason = "no class of operations describes it"
                outs = self.opaque(body, _shown(equation), reason, operands, avals)
            values.update(zip(equation.outvars, outs))
            self.equations[*path, number] = outs
        (body.at, body.passes), self.path = call, path[:-1]
        return [read(atom) for atom in jaxpr.outvars]

    @staticmethod
    def inside(outer: Body) -> Body:
        """An empty body at the same place of the user's source."""
        inner = Body()
        inner.at, inner.passes = outer.at, outer.passes
        return inner

    def inputs_of(self, jaxpr: Any) -> list[int]:
        opened = getattr(jaxpr, "jaxpr", jaxpr)
        return [self.of_type(variable.aval) for variable in opened.invars]

    def body(self, outer: Body, jaxpr: Any) -> Op:
        """The body of a loop, a branch or a device."""
        inner, ins = self.inside(outer), self.inputs_of(jaxpr)
        outs = self.inline(inner, jaxpr, ins)
        return {"in": ins, "ops": inner.ops, "out": outs}


def _dtype(dtype: Any) -> str:
    return "KEY" if str(dtype).startswith("key<") else dtype_text(dtype)


def _number(x: float) -> Any:
    return float(x) if math.isfinite(x) else str(float(x))


def _shown(equation: Any) -> str:
    """The primitive's name, with that of a kernel or a custom call."""
    name = str(equation.primitive.name)
    for key in ("name", "call_target_name", "target_name"):
        if isinstance(equation.params.get(key), str):
            return f"{name} {equation.params[key]}"
    return name


# ---- Elements of small integers

_INTEGERS = {
    "BOOL": np.bool_,
    "I8": np.int8,
    "I16": np.int16,
    "I32": np.int32,
    "I64": np.int64,
    "U8": np.uint8,
    "U16": np.uint16,
    "U32": np.uint32,
    "U64": np.uint64,
}

_KNOWN_MAPS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "neg": np.negative,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "convert": lambda x: x,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "select": lambda which, *cases: np.choose(
        which.astype(np.int64), np.broadcast_arrays(*cases)
    ),
}


def _evaluated(
    op: str,
    ins: list[np.ndarray[Any, Any]],
    shape: list[int],
    attributes: Mapping[str, Any],
) -> Any:
    """The elements of a result, or None where the operation is not evaluated."""
    if op == "iota":
        sizes = [n if d == attributes["dim"] else 1 for d, n in enumerate(shape)]
        return np.broadcast_to(np.arange(math.prod(sizes)).reshape(sizes), shape)
    if op == "map" and attributes["fn"] in _KNOWN_MAPS:
        with np.errstate(over="ignore"):
            out = _KNOWN_MAPS[attributes["fn"]](*ins)
        return np.broadcast_to(out, shape)
    if op == "broadcast":
        sizes = [1] * len(shape)
        for size, d in zip(ins[0].shape, attributes["dims"]):
            sizes[d] = size
        return np.broadcast_to(ins[0].reshape(sizes), shape)
    if op == "reshape":
        return ins[0].reshape(shape)
    if op == "transpose":
        return ins[0].transpose(attributes["perm"])
    if op == "concat":
        return np.concatenate(ins, attributes["dim"])
    if op == "slice":
        steps = attributes.get("stride") or [1] * len(shape)
        return ins[0][
            tuple(map(slice, attributes["start"], attributes["limit"], steps))
        ]
    return None


# ---- The classes

WRITERS: dict[str, Writer] = {}


def _writes(*names: str) -> Callable[[Writer], Writer]:
    def add(writer: Writer) -> Writer:
        WRITERS.update(dict.fromkeys(names, writer))
        return writer

    return add


def _ints(values: Iterable[Any]) -> list[int]:
    return [int(x) for x in values]


# Functions of single elements whose names are those of JAX.
_SAME = """abs acos acosh add and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt
    ceil clamp clz complex conj cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1
    eq_to floor ge gt igamma igammac imag is_finite le le_to lgamma log log1p logistic lt lt_to max
    min mul ne neg nextafter not or population_count pow real rem rsqrt shift_left
    shift_right_arithmetic shift_right_logical sign sin sinh sqrt square sub tan tanh xor
    """.split()

MAPS = {name: name for name in _SAME} | {
    "add_any": "add",
    "convert_element_type": "convert",
    "select_n": "select",
    "integer_pow": "integer_pow",
    "round": "round",
    "reduce_precision": "reduce_precision",
    "bitcast_convert_type": "bitcast",
}


def _map(fn: str) -> Writer:
    def write(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
        (aval,) = avals
        if fn == "bitcast" and r.shape(ins[0]) != list(aval.shape):
            return None  # The widths differ: elements are joined or divided.
        attributes: dict[str, Any] = {}
        if fn == "integer_pow":
            attributes["exponent"] = int(p["y"])
        elif fn == "round":
            attributes["method"] = int(p["rounding_method"])
        elif fn == "reduce_precision":
            attributes["bits"] = _ints((p["exponent_bits"], p["mantissa_bits"]))
        dtype = _dtype(aval.dtype)
        if fn == "convert" and dtype == r.dtype(ins[0]):
            return ins  # Only the framework's weak type changes.
        return [r.derive(b, "map", ins, aval.shape, dtype, fn=fn, **attributes)]

    return write


WRITERS.update({name: _map(fn) for name, fn in MAPS.items()})


# Functions that are written as several maps.


@_writes("log2")
def _log2(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    (aval,) = avals
    dtype = _dtype(aval.dtype)
    log = r.derive(b, "map", ins, aval.shape, dtype, fn="log")
    scale = r.constant(b, np.asarray(1 / math.log(2), aval.dtype))
    return [r.derive(b, "map", [log, scale], aval.shape, dtype, fn="mul")]


@_writes("one_minus_square")
def _one_minus_square(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    (aval,) = avals
    dtype = _dtype(aval.dtype)
    square = r.derive(b, "map", ins, aval.shape, dtype, fn="square")
    one = r.constant(b, np.asarray(1, aval.dtype))
    return [r.derive(b, "map", [one, square], aval.shape, dtype, fn="sub")]


@_writes("polynomial")
def _polynomial(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    """Horner's rule, for coefficients from the lowest degree."""
    (aval,) = avals
    dtype = _dtype(aval.dtype)
    x, *coefficients = ins
    out = coefficients.pop()
    while coefficients:
        product = r.derive(b, "map", [out, x], aval.shape, dtype, fn="mul")
        terms = [product, coefficients.pop()]
        out = r.derive(b, "map", terms, aval.shape, dtype, fn="add")
    return [out]


@_writes(
    *("copy", "copy_p", "stop_gradient", "optimization_barrier", "name"),
    *("pvary", "pcast", "pbroadcast", "reduced_vary_cast_p", "vary_unreduced_cast_p"),
    *("reduced_vary_cast", "vary_unreduced_cast", "with_memory_space_constraint"),
    *("layout_constraint", "random_clone", "pin", "unpin", "relayout"),
)
def _identity(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    return ins


@_writes("iota")
def _iota(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    (aval,) = avals
    dim = int(p["dimension"])
    return [r.derive(b, "iota", [], aval.shape, _dtype(aval.dtype), dim=dim)]


def _random(fn: str) -> Writer:
    def write(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
        return r.write(b, "random", ins, [r.of_type(x) for x in avals], fn=fn)

    return write


_RANDOM = """random_bits random_seed random_split random_fold_in random_wrap random_gamma
    random_unwrap rng_bit_generator rng_uniform threefry2x32 threefry4x32 philox2x32
    philox4x32 iota_2x32_shape""".split()
WRITERS.update({name: _random(name) for name in _RANDOM})


@_writes("broadcast_in_dim")
def _broadcast(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    (aval,) = avals
    if len(ins) != 1:
        return None  # Sizes that are known only when the program runs.
    dims = _ints(p["broadcast_dimensions"])
    if list(aval.shape) == r.shape(ins[0]):
        return ins
    return [r.derive(b, "broadcast", ins, aval.shape, dims=dims)]


@_writes("reshape", "squeeze", "expand_dims")
def _reshape(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    (aval,) = avals
    if p.get("dimensions") is not None and "new_sizes" in p:
        order = _ints(p["dimensions"])
        shape = [r.shape(ins[0])[d] for d in order]
        ins = [r.derive(b, "transpose", ins, shape, perm=order)]
    if list(aval.shape) == r.shape(ins[0]):
        return ins
    return [r.derive(b, "reshape", ins, aval.shape)]


@_writes("transpose")
def _transpose(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    (aval,) = avals
    perm = _ints(p["permutation"])
    return [r.derive(b, "transpose", ins, aval.shape, perm=perm)]


@_writes("tile")
def _tile(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    (aval,) = avals
    repeats, shape = _ints(p["reps"]), r.shape(ins[0])
    shape = [1] * (len(repeats) - len(shape)) + shape
    repeats = [1] * (len(shape) - len(repeats)) + repeats
    full = [n for pair in zip(repeats, shape) for n in pair]
    dims = [2 * d + 1 for d in range(len(shape))][-len(r.shape(ins[0])) or len(full) :]
    wide = r.derive(b, "broadcast", ins, full, dims=dims)
    return [r.derive(b, "reshape", [wide], aval.shape)]


def _part(
    r: Recorder,
    b: Body,
    value: int,
    start: list[int],
    limit: list[int],
    stride: list[int] | None = None,
) -> int:
    # JAX's parameters may be numbers of NumPy.
    start, limit = _ints(start), _ints(limit)
    steps = stride or [1] * len(start)
    shape = [-(-(e - s) // n) for s, e, n in zip(start, limit, steps)]
    if shape == r.shape(value):
        return value
    given = None if set(steps) <= {1} else steps
    return r.derive(b, "slice", [value], shape, start=start, limit=limit, stride=given)


@_writes("slice")
def _slice(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    stride = None if p["strides"] is None else _ints(p["strides"])
    start, limit = _ints(p["start_indices"]), _ints(p["limit_indices"])
    return [_part(r, b, ins[0], start, limit, stride)]


def _parts(r: Recorder, b: Body, value: int, dim: int, sizes: list[int]) -> list[int]:
    out, at = [], 0
    for size in sizes:
        start, limit = [0] * len(r.shape(value)), r.shape(value)
        start[dim], limit[dim] = at, at + size
        out.append(_part(r, b, value, start, limit))
        at += size
    return out


@_writes("split")
def _split(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    return _parts(r, b, ins[0], int(p["axis"]), _ints(p["sizes"]))


@_writes("unstack")
def _unstack(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    parts = _parts(r, b, ins[0], int(p["axis"]), [1] * len(avals))
    return [
        r.derive(b, "reshape", [part], aval.shape) for part, aval in zip(parts, avals)
    ]


@_writes("stack")
def _stack(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    (aval,) = avals
    dim = int(p["axis"])
    shape = r.shape(ins[0])
    shape = [*shape[:dim], 1, *shape[dim:]]
    ins = [r.derive(b, "reshape", [one], shape) for one in ins]
    return [r.derive(b, "concat", ins, aval.shape, dim=dim)]


@_writes("concatenate")
def _concat(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    (aval,) = avals
    if len(ins) == 1:
        return ins
    return [r.derive(b, "concat", ins, aval.shape, dim=int(p["dimension"]))]


@_writes("pad")
def _pad(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    (aval,) = avals
    low, high, interior = (
        map(list, zip(*p["padding_config"])) if aval.shape else ([],) * 3
    )
    attributes = {"low": _ints(low), "high": _ints(high), "interior": _ints(interior)}
    return [r.derive(b, "pad", ins, aval.shape, **attributes)]


@_writes("rev")
def _rev(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    (aval,) = avals
    return [r.derive(b, "rev", ins, aval.shape, dims=_ints(p["dimensions"]))]


def _reduce(fn: str) -> Writer:
    def write(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
        (aval,) = avals
        axes = _ints(p["axes"])
        dtype = _dtype(aval.dtype)
        return [r.derive(b, "reduce", ins, aval.shape, dtype, fn=fn, axes=axes)]

    return write


WRITERS.update(
    {f"reduce_{fn}": _reduce(fn) for fn in "sum prod max min and or xor".split()}
    | {fn: _reduce(fn) for fn in ("argmax", "argmin")}
)


def _contraction(numbers: Any) -> dict[str, Any]:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    return {
        "lhs_contract": _ints(lhs_contract),
        "rhs_contract": _ints(rhs_contract),
        "lhs_batch": _ints(lhs_batch),
        "rhs_batch": _ints(rhs_batch),
    }


@_writes("dot_general")
def _dot(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    (aval,) = avals
    numbers = _contraction(p["dimension_numbers"])
    return [r.derive(b, "dot", ins, aval.shape, _dtype(aval.dtype), **numbers)]


@_writes("ragged_dot_general")
def _ragged_dot(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    (aval,) = avals
    numbers = p["ragged_dot_dimension_numbers"]
    if p.get("group_offset") is not None:
        return None
    attributes = _contraction(numbers.dot_dimension_numbers)
    attributes["lhs_ragged"] = _ints(numbers.lhs_ragged_dimensions)
    attributes["rhs_group"] = _ints(numbers.rhs_group_dimensions)
    dtype = _dtype(aval.dtype)
    return [r.derive(b, "ragged_dot", ins, aval.shape, dtype, **attributes)]


@_writes("conv_general_dilated")
def _conv(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    (aval,) = avals
    numbers = p["dimension_numbers"]

    def unless_one(sizes: Iterable[Any]) -> list[int] | None:
        out = _ints(sizes)
        return None if set(out) <= {1} else out

    batch_groups = int(p["batch_group_count"])
    attributes = {
        "lhs": _ints(numbers.lhs_spec),
        "rhs": _ints(numbers.rhs_spec),
        "result": _ints(numbers.out_spec),
        "strides": _ints(p["window_strides"]),
        "padding": [_ints(pair) for pair in p["padding"]],
        "lhs_dilation": unless_one(p["lhs_dilation"]),
        "rhs_dilation": unless_one(p["rhs_dilation"]),
        "groups": int(p["feature_group_count"]),
        "batch_groups": batch_groups if batch_groups != 1 else None,
    }
    return [r.derive(b, "conv", ins, aval.shape, _dtype(aval.dtype), **attributes)]


def _cumulative(fn: str) -> Writer:
    def write(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
        (aval,) = avals
        dim, reverse = int(p["axis"]), bool(p["reverse"]) or None
        return [
            r.derive(b, "cumulative", ins, aval.shape, fn=fn, dim=dim, reverse=reverse)
        ]

    return write


WRITERS.update(
    {f"cum{fn}": _cumulative(fn) for fn in ("sum", "prod", "max", "min", "logsumexp")}
)


@_writes("sort")
def _sort(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    outs = [r.of_type(aval) for aval in avals]
    return r.write(
        b, "sort", ins, outs, dim=int(p["dimension"]), keys=int(p["num_keys"])
    )


@_writes("top_k")
def _top_k(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    dim = int(p.get("axis", -1)) % len(avals[0].shape)
    outs = [r.of_type(aval) for aval in avals]
    return r.write(b, "top_k", ins, outs, dim=dim, k=int(p["k"]))


def _mode(mode: Any) -> str:
    name = getattr(mode, "name", str(mode)).lower()
    return {"fill_or_drop": "fill", "one_hot": "fill"}.get(name, name)


def _looked_up(
    shape: list[int],
    absent: list[int],
    window: list[int],
    by: list[int],
    sizes: list[int],
) -> tuple[list[int], list[int], list[int]]:
    """Slices of one element along a dimension that indices count are a look-up of it,
    as are those that lack the dimension: vmap of x[i] makes the former. Returns the
    dimensions of the operand that slices lack then, those of a slice that are left,
    and those that are dropped, by their numbers before."""
    kept = [d for d in range(len(shape)) if d not in absent]
    single = [sizes[d] == 1 != shape[d] and d in by for d in kept]
    dropped = [at for at, one in zip(window, single) if one]
    left = [
        at - sum(other < at for other in dropped)
        for at, one in zip(window, single)
        if not one
    ]
    return [d for d, one in zip(kept, single) if one], left, dropped


@_writes("gather")
def _gather(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    (aval,) = avals
    n = p["dimension_numbers"]
    collapsed, by = _ints(n.collapsed_slice_dims), _ints(n.start_index_map)
    single, offset, dropped = _looked_up(
        r.shape(ins[0]),
        [*collapsed, *_ints(n.operand_batching_dims)],
        _ints(n.offset_dims),
        by,
        _ints(p["slice_sizes"]),
    )
    attributes = {
        "offset_dims": offset,
        "collapsed_dims": sorted([*collapsed, *single]),
        "operand_batch_dims": _ints(n.operand_batching_dims),
        "indices_batch_dims": _ints(n.start_indices_batching_dims),
        "start_index_map": by,
        "slice_sizes": _ints(p["slice_sizes"]),
        "mode": _mode(p["mode"]),
    }
    if attributes["mode"] == "fill" and p.get("fill_value") is not None:
        attributes["fill"] = _number(float(p["fill_value"]))
    shape = [size for d, size in enumerate(aval.shape) if d not in dropped]
    out = r.derive(b, "gather", ins, shape, **attributes)
    return [r.derive(b, "reshape", [out], aval.shape) if dropped else out]


def _scatter(fn: str) -> Writer:
    def write(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
        (aval,) = avals
        n = p["dimension_numbers"]
        inserted, window = _ints(n.inserted_window_dims), _ints(n.update_window_dims)
        absent = [*inserted, *_ints(n.operand_batching_dims)]
        kept = [d for d in range(len(aval.shape)) if d not in absent]
        sizes = [1] * len(aval.shape)
        for d, at in zip(kept, window):
            sizes[d] = r.shape(ins[2])[at]
        by = _ints(n.scatter_dims_to_operand_dims)
        single, window, dropped = _looked_up(
            list(aval.shape), absent, window, by, sizes
        )
        if dropped:
            shape = [n for d, n in enumerate(r.shape(ins[2])) if d not in dropped]
            ins = [*ins[:2], r.derive(b, "reshape", [ins[2]], shape)]
        attributes = {
            "update_window_dims": window,
            "inserted_window_dims": sorted([*inserted, *single]),
            "operand_batch_dims": _ints(n.operand_batching_dims),
            "indices_batch_dims": _ints(n.scatter_indices_batching_dims),
            "operand_dims": by,
            "mode": _mode(p["mode"]),
        }
        return [r.derive(b, "scatter", ins, aval.shape, fn=fn, **attributes)]

    return write


WRITERS["scatter"] = _scatter("set")
WRITERS.update(
    {f"scatter_{fn}": _scatter(fn) for fn in ("add", "sub", "mul", "min", "max")}
)


@_writes("dynamic_slice")
def _dynamic_slice(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    (aval,) = avals
    operand, *starts = ins
    sizes = _ints(p["slice_sizes"])
    # Where a dimension is complete, every index is moved to 0.
    full = [n == m for n, m in zip(sizes, r.shape(operand))]
    if all(one in r.known or same for one, same in zip(starts, full)):
        begin = [
            0 if same else max(0, min(int(r.known[one]), n - size))
            for one, same, n, size in zip(starts, full, r.shape(operand), sizes)
        ]
        return [_part(r, b, operand, begin, [x + n for x, n in zip(begin, sizes)])]
    return [r.derive(b, "dynamic_slice", ins, aval.shape, sizes=sizes)]


@_writes("dynamic_update_slice")
def _dynamic_update(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    return [r.derive(b, "dynamic_update_slice", ins, avals[0].shape)]


@_writes("triangular_solve")
def _solve(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    (aval,) = avals
    if p["conjugate_a"]:
        return None
    attributes = {
        "left_side": bool(p["left_side"]),
        "lower": bool(p["lower"]),
        "transpose": bool(p["transpose_a"]),
        "unit_diagonal": bool(p["unit_diagonal"]),
    }
    return [r.derive(b, "solve", ins, aval.shape, **attributes)]


# ---- Calls and loops

# The parameter that holds the jaxpr of a call that is inlined.
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "call": "call_jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "eval_jaxpr": "call_jaxpr",
    "composite": "jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "custom_vmap_call": "call",
}


def _call(parameter: str) -> Writer:
    def write(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
        if parameter not in p:
            return None
        for index, sharding in enumerate(p.get("in_shardings", ())):
            ins = [
                *ins[:index],
                _constrained(r, b, ins[index], sharding),
                *ins[index + 1 :],
            ]
        outs = r.inline(b, p[parameter], ins)
        shardings = p.get("out_shardings") or [None] * len(outs)
        return [_constrained(r, b, one, to) for one, to in zip(outs, shardings)]

    return write


WRITERS.update({name: _call(parameter) for name, parameter in CALLS.items()})


@_writes("call_hi_primitive")
def _expanded(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    """A primitive that JAX itself expands into others when it compiles."""
    import jax

    made = p["_prim"]

    def run(*flat: Any) -> Any:
        out = made.expand(*made.in_tree.unflatten(flat))
        return made.out_tree.flatten_up_to(out)

    types = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in made.in_avals_flat]
    try:
        jaxpr = jax.make_jaxpr(run)(*types)
    except Exception:  # as on the axes of a manual region; it stays opaque
        return None
    return r.inline(b, jaxpr, ins)


@_writes("scan")
def _scan(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    outs = [r.of_type(aval) for aval in avals]
    # Since 0.11, JAX has the operands as a tree of constants, carry and slices.
    if "ft_in" in p:
        consts, carry, _ = (len(one) for one in p["ft_in"].unpack())
    else:
        consts, carry = int(p["num_consts"]), int(p["num_carry"])
    return r.write(
        b,
        "scan",
        ins,
        outs,
        consts=consts,
        carry=carry,
        length=int(p["length"]),
        reverse=bool(p["reverse"]) or None,
        body=r.body(b, p["jaxpr"]),
    )


@_writes("while")
def _while(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    outs = [r.of_type(aval) for aval in avals]
    of_condition, of_body = int(p["cond_nconsts"]), int(p["body_nconsts"])
    condition = r.body(b, p["cond_jaxpr"])
    axes = list(range(len(r.shape(condition["out"][0]))))
    if axes:
        inner = r.inside(b)
        inner.ops = condition["ops"]
        some = r.derive(inner, "reduce", condition["out"], [], fn="or", axes=axes)
        condition["out"] = [some]
        body = _masked_body(r, b, p, of_condition)
        ins, of_body = [*ins[:of_condition], *ins], of_condition + of_body
    else:
        body = r.body(b, p["body_jaxpr"])
    return r.write(
        b,
        "while",
        ins,
        outs,
        condition_consts=of_condition,
        body_consts=of_body,
        condition=condition,
        body=body,
    )


def _masked_body(r: Recorder, b: Body, p: Any, of_condition: int) -> Op:
    """The body of a loop with a condition for each example, as vmap makes one: the
    loop runs while one of them is true, and an example whose own is false keeps what
    it carries. The constants of the condition are the first inputs."""
    inner = r.inside(b)
    consts = r.inputs_of(p["cond_jaxpr"])[:of_condition]
    of_body = r.inputs_of(p["body_jaxpr"])
    carry = of_body[int(p["body_nconsts"]) :]
    (runs,) = r.inline(inner, p["cond_jaxpr"], [*consts, *carry])
    outs = []
    for old, new in zip(carry, r.inline(inner, p["body_jaxpr"], of_body)):
        shape = r.shape(old)
        dims = list(range(len(r.shape(runs))))
        mask = r.derive(inner, "broadcast", [runs], shape, dims=dims)
        chosen = [mask, old, new]
        outs.append(r.derive(inner, "map", chosen, shape, r.dtype(old), fn="select"))
    return {"in": [*consts, *of_body], "ops": inner.ops, "out": outs}


@_writes("cond")
def _cond(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    outs = [r.of_type(aval) for aval in avals]
    branches = [r.body(b, branch) for branch in p["branches"]]
    return r.write(b, "cond", ins, outs, branches=branches)


# ---- Shardings and collectives


def _spec(spec: Any) -> list[list[str] | None] | None:
    """A PartitionSpec: for each dimension its axes, None where the compiler may
    choose them."""
    out: list[list[str] | None] = []
    for one in spec:
        if one is None:
            out.append([])
        elif isinstance(one, str):
            out.append([one])
        elif isinstance(one, (tuple, list)):
            out.append([str(axis) for axis in one])
        else:
            out.append(None)
    return out


def _mesh(mesh: Any) -> dict[str, int]:
    return {str(axis): int(size) for axis, size in dict(mesh.shape).items()}


def _constrained(r: Recorder, b: Body, value: int, sharding: Any) -> int:
    """The value with a constraint, if this is a sharding over a mesh."""
    spec, mesh = getattr(sharding, "spec", None), getattr(sharding, "mesh", None)
    if spec is None or not getattr(mesh, "shape", None):
        return value
    shape = r.shape(value)
    return r.derive(b, "constraint", [value], shape, spec=_spec(spec), mesh=_mesh(mesh))


@_writes("sharding_constraint", "reshard", "mesh_cast")
def _constraint(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    sharding = p.get("sharding", p.get("dst_sharding"))
    if getattr(sharding, "spec", None) is None:
        out = r.value(r.shape(ins[0]), r.dtype(ins[0]))
        r.write(b, "constraint", ins, [out])
        b.ops[-1]["spec"] = None
        return [out]
    return [_constrained(r, b, ins[0], sharding)]


@_writes("device_put")
def _device_put(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    devices = p.get("devices") or [None] * len(ins)
    return [_constrained(r, b, one, to) for one, to in zip(ins, devices)]


@_writes("shard_map")
def _manual(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    mesh = _mesh(p["mesh"])
    given = p.get("newly_manual_axes") or p.get("manual_axes") or mesh
    axes = [axis for axis in mesh if axis in given]
    return r.write(
        b,
        "manual",
        ins,
        [r.of_type(aval) for aval in avals],
        mesh=mesh,
        manual_axes=axes if axes != list(mesh) else None,
        in_specs=[_spec(one) for one in p["in_specs"]],
        out_specs=[_spec(one) for one in p["out_specs"]],
        body=r.body(b, p["jaxpr"]),
    )


def _axes(p: Any) -> list[str]:
    axes = p.get("axes", p.get("axis_name"))
    return [str(x) for x in (axes if isinstance(axes, (tuple, list)) else [axes])]


def _collective(kind: str) -> Writer:
    def write(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
        if p.get("axis_index_groups") is not None:
            return None
        attributes: dict[str, Any] = {"kind": kind, "axes": _axes(p)}
        if kind == "all_gather":
            attributes["dim"] = int(p["all_gather_dimension"])
        elif kind == "reduce_scatter":
            attributes["dim"] = int(p["scatter_dimension"])
        elif kind == "all_to_all":
            attributes["split_dim"] = int(p["split_axis"])
            attributes["concat_dim"] = int(p["concat_axis"])
        elif kind == "ppermute":
            attributes["perm"] = [_ints(pair) for pair in p["perm"]]
        if "tiled" in p:
            attributes["tiled"] = bool(p["tiled"])
        outs = [r.of_type(aval) for aval in avals]
        # One operation for each operand.
        for index, out in enumerate(outs):
            r.write(b, "collective", ins[index : index + 1], [out], **attributes)
        return outs

    return write


WRITERS.update(
    {
        name: _collective(kind)
        for name, kind in {
            "psum": "psum",
            "psum_invariant": "psum",
            "psum2": "psum",
            "pmax": "pmax",
            "pmin": "pmin",
            "ppermute": "ppermute",
            "all_gather": "all_gather",
            "all_gather_invariant": "all_gather",
            "all_to_all": "all_to_all",
            "reduce_scatter": "reduce_scatter",
            "axis_index": "axis_index",
        }.items()
    }
)
