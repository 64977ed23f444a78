"""The operations of PyTorch (`aten`) as operations of shardc.program/v1.

A table gives each operation a function that writes it with shardc.torch_values. An
operation without a row is written by PyTorch's own decomposition into simpler ones, if
there is one, and is opaque otherwise. Operations in place have the row of the same
operation without the underscore: the tracer sees to what they change.

Rows return the value of the result, the values of several results, or None where they
do not describe the call, as for a transposed convolution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Callable

import torch

from shardc.torch_values import Values, is_float
from shardc.tree import dtype_text

Written = Any
Row = Callable[..., Written]
ROWS: dict[str, Row] = {}


class Call:
    """One call of an operation: its results have been computed without elements."""

    def __init__(
        self, values: Values, result: Any, value_of: Callable[[Any], int]
    ) -> None:
        self.values = values
        self.result = result
        self._value_of = value_of

    def v(self, x: Any, dtype: str | None = None) -> int:
        """The value of a tensor or of a number, as a dtype."""
        if isinstance(x, torch.Tensor):
            value = self._value_of(x)
            return value if dtype is None else self.values.convert(value, dtype)
        return self.values.number(x, dtype or self.dtype)

    @property
    def first(self) -> Any:
        one = self.result
        return one[0] if isinstance(one, (tuple, list)) else one

    @property
    def dtype(self) -> str:
        return dtype_text(self.first.dtype)

    @property
    def shape(self) -> list[int]:
        return list(self.first.shape)

    def drawn(self, fn: str) -> int:
        return self.values.write("random", [], self.shape, self.dtype, fn=fn)


def row(*names: str) -> Callable[[Row], Row]:
    def add(row: Row) -> Row:
        ROWS.update(dict.fromkeys(names, row))
        return row

    return add


def dim_of(dim: int, rank: int) -> int:
    return dim % rank if rank else 0


def dims_of(dims: Any, rank: int) -> list[int]:
    """All dimensions where none are given."""
    if dims is None or (isinstance(dims, (tuple, list)) and not dims):
        return list(range(rank))
    given = dims if isinstance(dims, (tuple, list)) else [dims]
    return [dim_of(d, rank) for d in given] if rank else []


def of_each(given: Any, rank: int) -> list[int]:
    """One number for each dimension, of which a single one stands for all."""
    numbers = list(given) if isinstance(given, (tuple, list)) else [given]
    return [int(n) for n in (numbers * rank if len(numbers) == 1 else numbers)]


# ---- Single elements

_UNARY = {
    name: name
    for name in """abs acos acosh asin asinh atan atanh ceil cos cosh digamma erf erfc
    exp exp2 expm1 floor lgamma log log1p neg rsqrt sign sin sinh sqrt tan tanh
    """.split()
} | {"sigmoid": "logistic", "erfinv": "erf_inv"}


def _unary(fn: str) -> Row:
    def write(c: Call, x: Any) -> Written:
        return c.values.map(fn, [c.v(x, c.dtype)])

    return write


ROWS.update({name: _unary(fn) for name, fn in _UNARY.items()})


def _binary(fn: str) -> Row:
    def write(c: Call, a: Any, b: Any) -> Written:
        return c.values.map(fn, [c.v(a, c.dtype), c.v(b, c.dtype)])

    return write


ROWS.update(
    {
        name: _binary(fn)
        for name, fn in {
            "mul": "mul",
            "maximum": "max",
            "minimum": "min",
            "atan2": "atan2",
            "fmod": "rem",
            "bitwise_and": "and",
            "bitwise_or": "or",
            "bitwise_xor": "xor",
            "__and__": "and",
            "__or__": "or",
            "__xor__": "xor",
            "logical_and": "and",
            "logical_or": "or",
            "logical_xor": "xor",
            "bitwise_left_shift": "shift_left",
            "__lshift__": "shift_left",
        }.items()
    }
)


@row("bitwise_right_shift", "__rshift__")
def _right_shift(c: Call, x: Any, by: Any) -> Written:
    kind = "logical" if c.dtype.startswith("U") else "arithmetic"
    fn = f"shift_right_{kind}"
    return c.values.map(fn, [c.v(x, c.dtype), c.v(by, c.dtype)])


def _compared(fn: str) -> Row:
    def write(c: Call, a: Any, b: Any) -> Written:
        dtype = dtype_text(torch.result_type(a, b))
        return c.values.map(fn, [c.v(a, dtype), c.v(b, dtype)], "BOOL")

    return write


ROWS.update({fn: _compared(fn) for fn in ("eq", "ne", "lt", "le", "gt", "ge")})


def scaled(c: Call, x: Any, alpha: Any) -> int:
    value = c.v(x, c.dtype)
    return value if alpha == 1 else c.values.map("mul", [value, c.v(alpha, c.dtype)])


@row("add")
def _add(c: Call, a: Any, b: Any, *, alpha: Any = 1) -> Written:
    fn = "or" if c.dtype == "BOOL" else "add"
    return c.values.map(fn, [c.v(a, c.dtype), scaled(c, b, alpha)])


@row("sub")
def _sub(c: Call, a: Any, b: Any, *, alpha: Any = 1) -> Written:
    return c.values.map("sub", [c.v(a, c.dtype), scaled(c, b, alpha)])


@row("rsub")
def _rsub(c: Call, a: Any, b: Any, alpha: Any = 1) -> Written:
    return c.values.map("sub", [c.v(b, c.dtype), scaled(c, a, alpha)])


@row("div", "true_divide")
def _div(c: Call, a: Any, b: Any, *, rounding_mode: str | None = None) -> Written:
    v = c.values
    left, right = c.v(a, c.dtype), c.v(b, c.dtype)
    if rounding_mode is None:
        return v.map("div", [left, right])
    if is_float(c.dtype):
        out = v.map("div", [left, right])
        if rounding_mode == "floor":
            return v.map("floor", [out])
        positive = v.map("ge", [out, v.number(0, c.dtype)], "BOOL")
        return v.map(
            "select", [positive, v.map("ceil", [out]), v.map("floor", [out])], c.dtype
        )
    if rounding_mode == "trunc":
        return v.map("div", [left, right])
    return v.map("div", [v.map("sub", [left, _modulo(c, left, right)]), right])


def _modulo(c: Call, a: int, b: int) -> int:
    """The remainder with the sign of the divisor."""
    v, dtype = c.values, c.values.dtype(a)
    rest = v.map("rem", [a, b])
    zero = v.number(0, dtype)
    signs = [v.map("lt", [x, zero], "BOOL") for x in (rest, b)]
    wrong = v.map(
        "and", [v.map("ne", signs, "BOOL"), v.map("ne", [rest, zero], "BOOL")]
    )
    return v.map("select", [wrong, rest, v.map("add", [rest, b])], dtype)


@row("floor_divide")
def _floor_divide(c: Call, a: Any, b: Any) -> Written:
    return _div(c, a, b, rounding_mode="floor")


@row("remainder")
def _remainder(c: Call, a: Any, b: Any) -> Written:
    return _modulo(c, c.v(a, c.dtype), c.v(b, c.dtype))


@row("pow")
def _pow(c: Call, a: Any, b: Any) -> Written:
    value = c.v(a, c.dtype)
    if isinstance(b, (int, float)) and not isinstance(b, bool):
        if b == 1:
            return value
        if b == 0.5:
            return c.values.map("sqrt", [value])
        if b == -0.5:
            return c.values.map("rsqrt", [value])
        if float(b).is_integer() and abs(b) < 64:
            return c.values.map("integer_pow", [value], exponent=int(b))
    return c.values.map("pow", [value, c.v(b, c.dtype)])


@row("square")
def _square(c: Call, x: Any) -> Written:
    return c.values.map("square", [c.v(x)])


@row("reciprocal")
def _reciprocal(c: Call, x: Any) -> Written:
    return c.values.map("div", [c.v(1), c.v(x, c.dtype)])


@row("log2")
def _log2(c: Call, x: Any) -> Written:
    return c.values.map(
        "mul", [c.values.map("log", [c.v(x, c.dtype)]), c.v(1 / math.log(2))]
    )


@row("round")
def _round(c: Call, x: Any, *, decimals: int = 0) -> Written:
    if decimals:
        return None
    return c.values.map("round", [c.v(x)], method=1)


@row("trunc")
def _trunc(c: Call, x: Any) -> Written:
    v, value = c.values, c.v(x)
    negative = v.map("lt", [value, v.number(0, c.dtype)], "BOOL")
    return v.map(
        "select", [negative, v.map("floor", [value]), v.map("ceil", [value])], c.dtype
    )


@row("relu")
def _relu(c: Call, x: Any) -> Written:
    return c.values.map("max", [c.v(x), c.v(0)])


@row("silu")
def _silu(c: Call, x: Any) -> Written:
    value = c.v(x)
    return c.values.map("mul", [value, c.values.map("logistic", [value])])


@row("logical_not")
def _logical_not(c: Call, x: Any) -> Written:
    return c.values.map("not", [c.v(x, "BOOL")])


@row("bitwise_not")
def _bitwise_not(c: Call, x: Any) -> Written:
    return c.values.map("not", [c.v(x)])


@row("isnan")
def _isnan(c: Call, x: Any) -> Written:
    return c.values.map("ne", [c.v(x), c.v(x)], "BOOL")


@row("isfinite")
def _isfinite(c: Call, x: Any) -> Written:
    return c.values.map("is_finite", [c.v(x)], "BOOL")


@row("isinf")
def _isinf(c: Call, x: Any) -> Written:
    v, value = c.values, c.v(x)
    return v.map(
        "eq", [v.map("abs", [value]), v.number(math.inf, v.dtype(value))], "BOOL"
    )


@row("where")
def _where(c: Call, condition: Any, a: Any = None, b: Any = None) -> Written:
    if a is None:
        return None
    return selected(c, c.v(condition, "BOOL"), c.v(b, c.dtype), c.v(a, c.dtype))


def selected(c: Call, which: int, otherwise: int, value: int) -> int:
    out = c.values.map("select", [which, otherwise, value], c.dtype)
    return c.values.expand(out, c.shape)


@row("masked_fill")
def _masked_fill(c: Call, x: Any, mask: Any, value: Any) -> Written:
    return selected(c, c.v(mask, "BOOL"), c.v(x), c.v(value, c.dtype))


@row("masked_scatter")
def _masked_scatter(c: Call, x: Any, mask: Any, source: Any) -> Written:
    return None


@row("clamp")
def _clamp(c: Call, x: Any, min: Any = None, max: Any = None) -> Written:
    value = c.v(x, c.dtype)
    if min is not None:
        value = c.values.map("max", [value, c.v(min, c.dtype)])
    if max is not None:
        value = c.values.map("min", [value, c.v(max, c.dtype)])
    return value


@row("clamp_min")
def _clamp_min(c: Call, x: Any, min: Any) -> Written:
    return _clamp(c, x, min=min)


@row("clamp_max")
def _clamp_max(c: Call, x: Any, max: Any) -> Written:
    return _clamp(c, x, max=max)


@row("_to_copy", "to", "convert_element_type", "_autocast_to_full_precision")
def _to_copy(c: Call, x: Any, *_: Any, **__: Any) -> Written:
    return c.v(x, c.dtype)


@row(
    *("clone", "contiguous", "lift_fresh", "lift", "lift_fresh_copy", "detach_copy"),
    *("alias_copy", "resolve_conj", "resolve_neg", "device_put", "positive"),
)
def _identity(c: Call, x: Any, *_: Any, **__: Any) -> Written:
    return c.v(x)


@row("conj_physical", "_conj_physical", "_conj", "_conj_copy")
def _conjugate(c: Call, x: Any) -> Written:
    return c.values.conjugate(c.v(x))


@row("copy")
def _copy(c: Call, x: Any, source: Any, *_: Any) -> Written:
    return c.values.expand(c.v(source, c.dtype), c.shape)


# ---- New tensors


def filled(c: Call, x: Any) -> int:
    return c.values.full(c.shape, x, c.dtype)


@row(
    *("zeros", "zeros_like", "new_zeros", "zero"),
    # What is not initialised may have any elements.
    *("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"),
    *("empty_permuted", "_efficientzerotensor"),
)
def _zeros(c: Call, *_: Any, **__: Any) -> Written:
    return filled(c, 0)


@row("ones", "ones_like", "new_ones")
def _ones(c: Call, *_: Any, **__: Any) -> Written:
    return filled(c, 1)


@row("full", "full_like", "new_full", "fill")
def _full(c: Call, _: Any, *given: Any, **named: Any) -> Written:
    x = named["fill_value"] if "fill_value" in named else given[-1]
    if isinstance(x, torch.Tensor):
        return c.values.expand(c.v(x, c.dtype), c.shape)
    return filled(c, x)


@row("scalar_tensor")
def _scalar_tensor(c: Call, x: Any, **_: Any) -> Written:
    return c.v(x, c.dtype)


@row("arange", "iota")
def _arange(c: Call, *given: Any, **named: Any) -> Written:
    start, step = 0, 1
    if len(given) >= 2:
        start = given[0]
        step = given[2] if len(given) > 2 else 1
    start, step = named.get("start", start), named.get("step", step)
    v = c.values
    out = v.iota(c.shape, 0, c.dtype if not is_float(c.dtype) else "I64")
    out = v.convert(out, c.dtype)
    if step != 1:
        out = v.map("mul", [out, c.v(step)])
    return out if start == 0 else v.map("add", [out, c.v(start)])


@row("eye")
def _eye(c: Call, *_: Any, **__: Any) -> Written:
    ends = [c.values.iota(c.shape, d) for d in (0, 1)]
    return c.values.convert(c.values.map("eq", ends, "BOOL"), c.dtype)


def _triangle(fn: str) -> Row:
    def write(c: Call, x: Any, diagonal: int = 0) -> Written:
        v, rank = c.values, len(c.shape)
        sizes = [1] * (rank - 2) + c.shape[-2:]
        row, column = v.iota(sizes, rank - 2), v.iota(sizes, rank - 1)
        if diagonal:
            row = v.map("add", [row, v.number(diagonal, "I64")])
        kept = v.map(fn, [row, column], "BOOL")
        return v.map("select", [kept, c.v(0), c.v(x)], c.dtype)

    return write


ROWS["tril"], ROWS["triu"] = _triangle("ge"), _triangle("le")


def _random(fn: str) -> Row:
    def write(c: Call, *_: Any, **__: Any) -> Written:
        return c.drawn(fn)

    return write


ROWS.update(
    {
        name: _random(name)
        for name in """rand rand_like randn randn_like randint randint_like randperm
        bernoulli normal uniform multinomial exponential normal_functional""".split()
    }
)


# ---- Dimensions


@row(
    *("view", "_unsafe_view", "reshape", "_reshape_copy", "view_copy", "flatten"),
    *("unsqueeze", "squeeze", "unsqueeze_copy", "squeeze_copy", "unflatten"),
    *("_reshape_alias", "view_of"),
)
def _reshape(c: Call, x: Any, *_: Any, **__: Any) -> Written:
    if x.dtype != c.first.dtype:
        return None  # Elements are joined or divided.
    return c.values.reshape(c.v(x), c.shape)


@row("permute", "permute_copy")
def _permute(c: Call, x: Any, dims: Sequence[int]) -> Written:
    return c.values.transpose(c.v(x), [dim_of(d, x.dim()) for d in dims])


@row("transpose", "transpose_copy", "swapaxes")
def _transpose(c: Call, x: Any, a: int, b: int) -> Written:
    perm = list(range(x.dim()))
    if perm:
        a, b = dim_of(a, x.dim()), dim_of(b, x.dim())
        perm[a], perm[b] = perm[b], perm[a]
    return c.values.transpose(c.v(x), perm)


@row("t", "t_copy", "numpy_T", "mT")
def _t(c: Call, x: Any) -> Written:
    return c.values.transpose(c.v(x), [1, 0] if x.dim() == 2 else list(range(x.dim())))


@row("expand", "expand_copy", "broadcast_to")
def _expand(c: Call, x: Any, *_: Any, **__: Any) -> Written:
    return c.values.expand(c.v(x), c.shape)


def bounds(size: int, start: Any, end: Any) -> tuple[int, int]:
    """The range of a slice, as Python has it."""
    low, high, _ = slice(start, end).indices(size)
    return low, max(low, high)


@row("slice", "slice_copy", "narrow", "narrow_copy")
def _slice(
    c: Call, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Written:
    dim = dim_of(dim, x.dim())
    low, high = bounds(x.shape[dim], start, end)
    return c.values.slice(c.v(x), dim, low, high, step)


@row("select", "select_copy")
def _select_index(c: Call, x: Any, dim: int, index: int) -> Written:
    dim = dim_of(dim, x.dim())
    index %= x.shape[dim]
    return c.values.reshape(c.values.slice(c.v(x), dim, index, index + 1), c.shape)


@row(
    *("split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes", "chunk"),
    *("split_with_sizes_copy", "split_copy", "unsafe_chunk", "tensor_split"),
)
def _split(c: Call, x: Any, sizes: Any, dim: int = 0) -> Written:
    dim = dim_of(dim, x.dim())
    out, at = [], 0
    for one in c.result:
        out.append(c.values.slice(c.v(x), dim, at, at + one.shape[dim]))
        at += one.shape[dim]
    return out


@row("unbind", "unbind_copy")
def _unbind(c: Call, x: Any, dim: int = 0) -> Written:
    dim, v = dim_of(dim, x.dim()), c.values
    return [
        v.reshape(v.slice(c.v(x), dim, i, i + 1), list(one.shape))
        for i, one in enumerate(c.result)
    ]


@row("cat", "concat")
def _cat(c: Call, tensors: Sequence[Any], dim: int = 0) -> Written:
    # An empty tensor of one dimension is left out, whatever the others are.
    kept = [one for one in tensors if list(one.shape) != [0]]
    if not kept:
        return filled(c, 0)
    dim = dim_of(dim, kept[0].dim())
    kept = [one for one in kept if one.shape[dim]] or kept[:1]
    return c.values.concat([c.v(one, c.dtype) for one in kept], dim)


@row("stack")
def _stack(c: Call, tensors: Sequence[Any], dim: int = 0) -> Written:
    dim = dim_of(dim, len(c.shape))
    shape = [*c.shape[:dim], 1, *c.shape[dim + 1 :]]
    parts = [c.values.reshape(c.v(one, c.dtype), shape) for one in tensors]
    return c.values.concat(parts, dim)


@row("as_strided")
def _as_strided(
    c: Call, x: Any, size: Sequence[int], stride: Sequence[int], offset: Any = None
) -> Written:
    """With other strides for dimensions of size 1, as pooling to one element has."""
    same = list(x.shape) == list(size) and offset in (None, x.storage_offset())
    if not same or any(
        n > 1 and step != own for n, step, own in zip(size, stride, x.stride())
    ):
        return None
    return c.v(x)


@row("flip")
def _flip(c: Call, x: Any, dims: Sequence[int]) -> Written:
    return c.values.write("rev", [c.v(x)], c.shape, dims=dims_of(list(dims), x.dim()))


@row("repeat", "tile")
def _repeat(c: Call, x: Any, times: Sequence[int]) -> Written:
    v, rank = c.values, len(c.shape)
    own = [1] * (rank - x.dim()) + list(x.shape)
    times = [1] * (rank - len(times)) + list(times)
    value = v.reshape(c.v(x), [n for size in own for n in (1, size)])
    full = [n for size, count in zip(own, times) for n in (count, size)]
    return v.reshape(v.expand(value, full), c.shape)


@row("roll")
def _roll(c: Call, x: Any, shifts: Any, dims: Any = ()) -> Written:
    v, value = c.values, c.v(x)
    shifts = list(shifts) if isinstance(shifts, (tuple, list)) else [shifts]
    dims = list(dims) if isinstance(dims, (tuple, list)) else [dims]
    if not dims:
        return None
    for shift, dim in zip(shifts, dims_of(dims, x.dim())):
        size = x.shape[dim]
        at = -shift % size if size else 0
        if at:
            parts = [v.slice(value, dim, at, size), v.slice(value, dim, 0, at)]
            value = v.concat(parts, dim)
    return value


@row("constant_pad_nd", "pad")
def _pad(c: Call, x: Any, pad: Sequence[int], value: Any = 0, *_: Any) -> Written:
    if isinstance(value, str):
        return None
    rank = x.dim()
    low, high = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        low[rank - 1 - i], high[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return c.values.pad(c.v(x), low, high, c.v(value or 0, c.dtype))


@row("slice_backward")
def _slice_backward(
    c: Call, grad: Any, sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Written:
    rank = grad.dim()
    dim = dim_of(dim, rank)
    at, _ = bounds(sizes[dim], start, end)
    low, high, inner = [0] * rank, [0] * rank, [0] * rank
    count = grad.shape[dim]
    low[dim], inner[dim] = at, step - 1
    high[dim] = sizes[dim] - at - ((count - 1) * step + 1 if count else 0)
    return c.values.pad(c.v(grad), low, high, c.v(0), inner)


@row("select_backward")
def _select_backward(
    c: Call, grad: Any, sizes: Sequence[int], dim: int, index: int
) -> Written:
    dim = dim_of(dim, len(sizes))
    at = index % sizes[dim]
    shape = [1 if d == dim else n for d, n in enumerate(sizes)]
    low, high = [0] * len(sizes), [0] * len(sizes)
    low[dim], high[dim] = at, sizes[dim] - at - 1
    return c.values.pad(c.values.reshape(c.v(grad), shape), low, high, c.v(0))


@row("diagonal", "diagonal_copy")
def _diagonal(
    c: Call, x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Written:
    return None


@row("unfold", "unfold_copy")
def _unfold(c: Call, x: Any, dim: int, size: int, step: int) -> Written:
    v, dim = c.values, dim_of(dim, x.dim())
    count = c.shape[dim]
    parts = []
    for offset in range(size):
        stop = offset + (count - 1) * step + 1
        part = v.slice(c.v(x), dim, offset, stop, step)
        parts.append(v.reshape(part, [*c.shape[:-1], 1]))
    return v.concat(parts, len(c.shape) - 1)


# ---- Complex numbers

# The rows that describe complex operands too.
COMPLEX = frozenset(
    """add sub mul view_as_real view_as_real_copy view_as_complex complex polar clone
    contiguous lift_fresh detach_copy alias_copy resolve_conj resolve_neg conj_physical
    _conj_physical _conj _conj_copy view _unsafe_view reshape unsqueeze squeeze permute
    transpose t expand slice select split split_with_sizes unbind cat stack copy zeros
    zeros_like new_zeros empty empty_like new_empty empty_strided new_empty_strided sum
    prims.clone gather index index_select embedding ones ones_like new_ones full
    full_like new_full""".split()
)


@row("view_as_complex")
def _as_complex(c: Call, x: Any) -> Written:
    v, last = c.values, x.dim() - 1
    parts = [v.reshape(v.slice(c.v(x), last, i, i + 1), c.shape) for i in (0, 1)]
    return v.complex(*parts)


@row("complex")
def _complex(c: Call, real: Any, imaginary: Any) -> Written:
    return c.values.complex(c.v(real), c.v(imaginary))


@row("polar")
def _polar(c: Call, length: Any, angle: Any) -> Written:
    v = c.values
    return v.complex(
        *(v.map("mul", [c.v(length), v.map(fn, [c.v(angle)])]) for fn in ("cos", "sin"))
    )


@row("view_as_real", "view_as_real_copy")
def _as_real(c: Call, x: Any) -> Written:
    v, last = c.values, x.dim()
    shape = [*x.shape, 1]
    return v.concat([v.reshape(one, shape) for one in v.parts(c.v(x))], last)


# ---- What decompositions are written in (`prims`)

_PRIMS = """abs acos acosh asin asinh atan atanh cos cosh digamma erf erfc exp exp2 expm1
    floor ceil lgamma log log1p neg sign sin sinh sqrt tan tanh rsqrt mul div maximum
    minimum atan2 fmod remainder bitwise_and bitwise_or bitwise_xor bitwise_not eq ne lt
    le gt ge add sub pow reciprocal round trunc where clone device_put isfinite
    convert_element_type""".split()
ROWS.update({f"prims.{name}": ROWS[name] for name in _PRIMS})
ROWS.update({f"prims.{name}": _reshape for name in ("reshape", "view_of", "squeeze")})
ROWS["prims.transpose"] = _permute
ROWS["prims.empty_strided"] = ROWS["prims.empty_permuted"] = _zeros
ROWS["prims.scalar_tensor"] = _scalar_tensor


@row("prims.full")
def _prims_full(c: Call, _: Any, x: Any, **__: Any) -> Written:
    return filled(c, x)


@row("prims.iota")
def _prims_iota(c: Call, _: Any, *, start: int, step: int, **__: Any) -> Written:
    return _arange(c, start, None, step)


@row("prims.broadcast_in_dim")
def _prims_broadcast(
    c: Call, x: Any, shape: Sequence[int], dims: Sequence[int]
) -> Written:
    if list(x.shape) == c.shape:
        return c.v(x)
    return c.values.write("broadcast", [c.v(x)], c.shape, dims=list(dims))


@row("prims.cat")
def _prims_cat(c: Call, tensors: Sequence[Any], dim: int) -> Written:
    return _cat(c, tensors, dim)
