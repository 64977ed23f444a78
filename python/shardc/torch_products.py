"""Operations of PyTorch that combine elements: reductions, norms, matmuls,
convolutions, and lookups.

Rows are those of shardc.torch_ops. For instance, the mean of `x` over its last dimension
is a sum, divided by the number of elements:

    mean [2, 7, 48] over 2 -> reduce sum [2, 7], div by 48
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from shardc.torch_ops import (
    ROWS,
    Call,
    Row,
    Written,
    dim_of,
    dims_of,
    filled,
    of_each,
    row,
    scaled,
    selected,
)
from shardc.tree import dtype_text

# ---- Reductions


@row("sum")
def _sum(c: Call, x: Any, dims: Any = None, keepdim: bool = False, **_: Any) -> Written:
    value = c.v(x, c.dtype)
    return c.values.reduce("sum", value, dims_of(dims, x.dim()), keepdim)


@row("mean")
def _mean(
    c: Call, x: Any, dims: Any = None, keepdim: bool = False, **_: Any
) -> Written:
    axes = dims_of(dims, x.dim())
    count = math.prod(x.shape[d] for d in axes)
    total = c.values.reduce("sum", c.v(x, c.dtype), axes, keepdim)
    return c.values.map("div", [total, c.v(count)])


def _extreme(fn: str) -> Row:
    def write(c: Call, x: Any, dims: Any = (), keepdim: bool = False) -> Written:
        return c.values.reduce(fn, c.v(x), dims_of(dims, x.dim()), keepdim)

    return write


ROWS["amax"], ROWS["amin"] = _extreme("max"), _extreme("min")


def _extreme_and_index(fn: str) -> Row:
    def write(c: Call, x: Any, dim: Any = None, keepdim: bool = False) -> Written:
        v = c.values
        if isinstance(dim, torch.Tensor):
            return v.map(fn, [c.v(x, c.dtype), c.v(dim, c.dtype)])
        axes = dims_of(dim, x.dim())
        out = v.reduce(fn, c.v(x), axes, keepdim)
        if dim is None:
            return out
        return [out, v.reduce("arg" + fn, c.v(x), axes, keepdim, "I64")]

    return write


ROWS["max"], ROWS["min"] = _extreme_and_index("max"), _extreme_and_index("min")


def _index_of(fn: str) -> Row:
    def write(c: Call, x: Any, dim: Any = None, keepdim: bool = False) -> Written:
        value = c.v(x)
        if dim is None:
            value, dim = c.values.reshape(value, [x.numel()]), 0
        axes = dims_of(dim, len(c.values.shape(value)))
        return c.values.reduce(fn, value, axes, keepdim, "I64")

    return write


ROWS["argmax"], ROWS["argmin"] = _index_of("argmax"), _index_of("argmin")


def _logical(fn: str) -> Row:
    def write(c: Call, x: Any, dims: Any = None, keepdim: bool = False) -> Written:
        return c.values.reduce(fn, c.v(x, "BOOL"), dims_of(dims, x.dim()), keepdim)

    return write


ROWS["all"], ROWS["any"] = _logical("and"), _logical("or")


@row("prod")
def _prod(c: Call, x: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Written:
    return c.values.reduce("prod", c.v(x, c.dtype), dims_of(dim, x.dim()), keepdim)


def _cumulative(fn: str) -> Row:
    def write(c: Call, x: Any, dim: int, **_: Any) -> Written:
        dim = dim_of(dim, x.dim())
        return c.values.write("cumulative", [c.v(x, c.dtype)], c.shape, fn=fn, dim=dim)

    return write


ROWS.update(
    {
        "cumsum": _cumulative("sum"),
        "cumprod": _cumulative("prod"),
        "_cumsum": _cumulative("sum"),
        "logcumsumexp": _cumulative("logsumexp"),
    }
)


def _variance(
    c: Call, x: Any, axes: list[int], correction: Any, keep: bool
) -> tuple[int, int]:
    """The variance and the mean."""
    v, dtype = c.values, c.dtype
    value = c.v(x, dtype)
    count = math.prod(x.shape[d] for d in axes)
    mean = v.map("div", [v.reduce("sum", value, axes, True), v.number(count, dtype)])
    squares = v.map("square", [v.map("sub", [value, mean])])
    rest = count - (1 if correction is None else correction)
    total = v.reduce("sum", squares, axes, keep)
    out = v.map("div", [total, v.number(max(rest, 0), dtype)])
    return out, mean if keep else v.reshape(mean, v.shape(out))


def _spread(root: bool, with_mean: bool) -> Row:
    def write(
        c: Call,
        x: Any,
        dims: Any = None,
        *given: Any,
        correction: Any = None,
        keepdim: bool = False,
        unbiased: bool = True,
        **_: Any,
    ) -> Written:
        # Either (x, unbiased), or (x, dims, unbiased, keepdim), or by names.
        if isinstance(dims, bool):
            dims, unbiased = None, dims
        flags = [one for one in given if isinstance(one, bool)]
        unbiased = flags[0] if flags else unbiased
        keepdim = flags[1] if len(flags) > 1 else keepdim
        if correction is None:
            correction = 1 if unbiased else 0
        out, mean = _variance(c, x, dims_of(dims, x.dim()), correction, keepdim)
        out = c.values.map("sqrt", [out]) if root else out
        return [out, mean] if with_mean else out

    return write


ROWS.update(
    {
        "var": _spread(False, False),
        "var_mean": _spread(False, True),
        "std": _spread(True, False),
        "std_mean": _spread(True, True),
    }
)


@row("prims.var")
def _prims_var(c: Call, x: Any, dims: Any, correction: Any = 1, **_: Any) -> Written:
    return _variance(c, x, dims_of(dims, x.dim()), correction, False)[0]


def _normalised(c: Call, x: Any, axes: list[int], eps: float) -> tuple[int, int, int]:
    """The result without weights, the mean, and the reciprocal of the deviation."""
    v, dtype = c.values, c.dtype
    variance, mean = _variance(c, x, axes, 0, True)
    scale = v.map("rsqrt", [v.map("add", [variance, v.number(eps, dtype)])])
    centred = v.map("sub", [c.v(x, dtype), mean])
    return v.map("mul", [centred, scale]), mean, scale


@row("native_layer_norm")
def _layer_norm(
    c: Call, x: Any, shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> Written:
    axes = list(range(x.dim() - len(shape), x.dim()))
    out, mean, scale = _normalised(c, x, axes, eps)
    for fn, one in (("mul", weight), ("add", bias)):
        if one is not None:
            out = c.values.map(fn, [out, c.v(one, c.dtype)])
    return [out, mean, scale]


@row("native_group_norm")
def _group_norm(
    c: Call,
    x: Any,
    weight: Any,
    bias: Any,
    n: int,
    channels: int,
    size: int,
    groups: int,
    eps: float,
) -> Written:
    v = c.values
    hollow = x.new_empty([n, groups, channels // groups * size])
    grouped = v.reshape(c.v(x), list(hollow.shape))
    inner = Call(v, (hollow,), lambda one: grouped)
    out, mean, scale = _normalised(inner, hollow, [2], eps)
    out = v.reshape(out, list(x.shape))
    for fn, one in (("mul", weight), ("add", bias)):
        if one is not None:
            sizes = [channels, *[1] * (x.dim() - 2)]
            out = v.map(fn, [out, v.reshape(c.v(one), sizes)])
    return [out, v.reshape(mean, [n, groups]), v.reshape(scale, [n, groups])]


@row("topk")
def _topk(
    c: Call, x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Written:
    v, r = c.values, c.values.recorder
    value = c.v(x) if largest else v.map("neg", [c.v(x)])
    outs = [r.value(c.shape, v.dtype(value)), r.value(c.shape, "I64")]
    r.write(v.body, "top_k", [value], outs, dim=dim_of(dim, x.dim()), k=k)
    return outs if largest else [v.map("neg", [outs[0]]), outs[1]]


@row("sort")
def _sort(c: Call, x: Any, *given: Any, **named: Any) -> Written:
    v, r = c.values, c.values.recorder
    plain = [one for one in given if not isinstance(one, bool)]
    flags = [one for one in given if isinstance(one, bool)]
    dim = dim_of(named.get("dim", plain[0] if plain else -1), x.dim())
    descending = named.get("descending", flags[-1] if flags else False)
    value = v.convert(c.v(x), "I32") if x.dtype == torch.bool else c.v(x)
    key = v.map("neg", [value]) if descending else value
    places = v.iota(c.shape, dim)
    outs = [r.value(c.shape, v.dtype(key)), r.value(c.shape, "I64")]
    r.write(v.body, "sort", [key, places], outs, dim=dim, keys=1)
    first = v.map("neg", outs[:1]) if descending else outs[0]
    return [v.convert(first, c.dtype), outs[1]]


@row("argsort")
def _argsort(c: Call, x: Any, *given: Any, **named: Any) -> Written:
    return _sort(c, x, *given, **named)[1]


# ---- Products


@row("mm", "bmm", "_int_mm")
def _mm(c: Call, a: Any, b: Any, *_: Any) -> Written:
    return _product(c, a, b)


def _product(c: Call, a: Any, b: Any) -> int:
    rank = a.dim()
    batch = list(range(rank - 2))
    contract = ([rank - 1], [rank - 2])
    return c.values.dot(c.v(a), c.v(b), contract, (batch, batch), c.dtype)


@row("addmm", "baddbmm")
def _addmm(
    c: Call, bias: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1
) -> Written:
    v = c.values
    product = _product(c, a, b)
    # The sum comes before dimensions are joined, too.
    origin, made = product, v.made.get(product)
    if made is not None and made["op"] == "reshape":
        (origin,) = made["in"]
    if bias.dim() > 1 or v.shape(origin)[-1:] != c.shape[-1:]:
        origin = product
    if alpha != 1:
        origin = v.map("mul", [origin, c.v(alpha)])
    if beta != 0:
        added = c.v(bias)
        added = added if beta == 1 else v.map("mul", [added, c.v(beta)])
        origin = v.map("add", [origin, added])
    return v.reshape(origin, c.shape)


@row("linear")
def _linear(c: Call, x: Any, weight: Any, bias: Any = None) -> Written:
    out = c.values.dot(c.v(x), c.v(weight), ([x.dim() - 1], [1]), dtype=c.dtype)
    return out if bias is None else c.values.map("add", [out, c.v(bias)])


@row("mv")
def _mv(c: Call, a: Any, b: Any) -> Written:
    return c.values.dot(c.v(a), c.v(b), ([1], [0]), dtype=c.dtype)


@row("dot", "vdot")
def _dot(c: Call, a: Any, b: Any) -> Written:
    return c.values.dot(c.v(a), c.v(b), ([0], [0]), dtype=c.dtype)


@row("_grouped_mm")
def _grouped(
    c: Call, a: Any, b: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> Written:
    if offs is None or bias is not None or (a.dim(), b.dim()) != (2, 3):
        return None
    v, ends = c.values, c.v(offs)
    # The end of the group before; a slice and a zero would be parts of the groups.
    starts = v.pad(ends, [1], [-1], v.number(0, v.dtype(ends)))
    sizes = v.map("sub", [ends, starts])
    return v.write(
        "ragged_dot",
        [c.v(a), c.v(b), sizes],
        c.shape,
        c.dtype,
        lhs_contract=[1],
        rhs_contract=[1],
        lhs_batch=[],
        rhs_batch=[],
        lhs_ragged=[0],
        rhs_group=[0],
    )


@row("histc")
def _histogram(
    c: Call, x: Any, bins: int = 100, low: Any = 0, high: Any = 0
) -> Written:
    if low >= high:
        return None  # The bounds are those of the elements.
    v, dtype = c.values, c.dtype
    value = v.convert(c.v(x), dtype)
    value = v.reshape(value, [x.numel(), 1])

    def number(n: float) -> int:
        return v.number(n, dtype)

    scaled = v.map("sub", [value, number(low)])
    scaled = v.map("mul", [scaled, number(bins / (high - low))])
    # The last bin has its upper bound too.
    place = v.map("min", [v.map("floor", [scaled]), number(bins - 1)])
    inside = v.map(
        "and",
        [
            v.map("ge", [value, number(low)], "BOOL"),
            v.map("le", [value, number(high)], "BOOL"),
        ],
        "BOOL",
    )
    is_in = v.map("eq", [place, v.iota([1, bins], 1, dtype)], "BOOL")
    counted = v.convert(v.map("and", [is_in, inside], "BOOL"), dtype)
    return v.reduce("sum", counted, [0])


@row("convolution", "_convolution")
def _convolution(
    c: Call,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *_: Any,
) -> Written:
    v, rank = c.values, x.dim()
    spatial = rank - 2
    strides, around, steps = (
        of_each(given, spatial) for given in (stride, padding, dilation)
    )
    if transposed:
        if groups != 1:
            return None
        # What the gradient of a convolution's operand is.
        gradient = _Gradient(v, c.v(weight), weight, strides, around, steps, 1)
        out = gradient.of_operand(c.v(x), list(x.shape), c.shape)
        if bias is None:
            return out
        return v.map("add", [out, v.reshape(c.v(bias), [c.shape[1], *[1] * spatial])])
    out = v.write(
        "conv",
        [c.v(x), c.v(weight)],
        c.shape,
        c.dtype,
        lhs=list(range(rank)),
        rhs=list(range(rank)),
        result=list(range(rank)),
        strides=strides,
        padding=[[n, n] for n in around],
        rhs_dilation=steps if set(steps) != {1} else None,
        groups=groups,
    )
    if bias is None:
        return out
    return v.map("add", [out, v.reshape(c.v(bias), [weight.shape[0], *[1] * spatial])])


class _Gradient:
    """The gradients of a convolution: that of the operand is a convolution with the
    reversed kernel, that of the kernel one of the operand with the gradient."""

    def __init__(
        self,
        v: Values,
        value: int,
        weight: Any,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        groups: int,
    ) -> None:
        self.v, self.kernel, self.groups = v, list(weight.shape), groups
        self.weight = value
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.dims = list(range(weight.dim()))
        self.swapped = [1, 0, *self.dims[2:]]
        self.taps = [(n - 1) * step + 1 for n, step in zip(self.kernel[2:], dilation)]

    def spans(self, grad: Sequence[int]) -> list[int]:
        return [(n - 1) * step + 1 for n, step in zip(grad[2:], self.stride)]

    def of_operand(self, grad: int, shape: list[int], wanted: list[int]) -> int:
        """Of a gradient of this shape, for an operand of the shape `wanted`."""
        low = [n - 1 - p for n, p in zip(self.taps, self.padding)]
        sizes = zip(wanted[2:], self.spans(shape), self.taps, low)
        high = [n - 1 + tap - span - before for n, span, tap, before in sizes]
        kernel = self.v.write("rev", [self.weight], self.kernel, dims=self.dims[2:])
        return self.v.write(
            "conv",
            [grad, kernel],
            wanted,
            lhs=self.dims,
            rhs=self.dims if self.groups > 1 else self.swapped,
            result=self.dims,
            strides=[1] * len(self.stride),
            padding=[list(pair) for pair in zip(low, high)],
            lhs_dilation=_unless_one(self.stride),
            rhs_dilation=_unless_one(self.dilation),
            groups=self.groups,
        )

    def of_kernel(self, x: int, shape: list[int], grad: int, grads: list[int]) -> int:
        """Of an operand and a gradient of these shapes."""
        sizes = zip(shape[2:], self.spans(grads), self.taps, self.padding)
        high = [tap - 1 + span - n - before for n, span, tap, before in sizes]
        return self.v.write(
            "conv",
            [x, grad],
            self.kernel,
            lhs=self.swapped,
            rhs=self.swapped,
            result=self.swapped,
            strides=list(self.dilation),
            padding=[list(pair) for pair in zip(self.padding, high)],
            rhs_dilation=_unless_one(self.stride),
            groups=1,
            batch_groups=self.groups if self.groups > 1 else None,
        )


def _unless_one(sizes: Sequence[int]) -> list[int] | None:
    return None if set(sizes) == {1} else list(sizes)


@row("convolution_backward")
def _convolution_backward(
    c: Call,
    grad: Any,
    x: Any,
    weight: Any,
    _: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    __: Any,
    groups: int,
    mask: Sequence[bool],
) -> Written:
    each = weight.shape[1] == 1 and weight.shape[0] == groups
    if groups != 1 and (transposed or not each):
        return None
    v = c.values
    made = _Gradient(v, c.v(weight), weight, stride, padding, dilation, groups)
    x_shape, grad_shape = list(x.shape), list(grad.shape)
    out = []
    if transposed:
        # The convolution goes from the result to the operand.
        if mask[0]:
            forward = v.write(
                "conv",
                [c.v(grad), c.v(weight)],
                x_shape,
                lhs=made.dims,
                rhs=made.dims,
                result=made.dims,
                strides=list(stride),
                padding=[[n, n] for n in padding],
                rhs_dilation=_unless_one(dilation),
                groups=1,
            )
            out.append(forward)
        if mask[1]:
            out.append(made.of_kernel(c.v(grad), grad_shape, c.v(x), x_shape))
    else:
        if mask[0]:
            out.append(made.of_operand(c.v(grad), grad_shape, x_shape))
        if mask[1]:
            out.append(made.of_kernel(c.v(x), x_shape, c.v(grad), grad_shape))
    if mask[2]:
        out.append(v.reduce("sum", c.v(grad), [d for d in made.dims if d != 1]))
    return out


@row("linalg_solve_triangular")
def _solve(
    c: Call,
    a: Any,
    b: Any,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Written:
    if a.dim() != b.dim() or a.shape[:-2] != b.shape[:-2]:
        return None
    return c.values.write(
        "solve",
        [c.v(a), c.v(b)],
        c.shape,
        left_side=left,
        lower=not upper,
        transpose=False,
        unit_diagonal=unitriangular,
    )


# ---- Indices


def _inside(c: Call, index: Any, size: int) -> int:
    """Indices with those counted from the end as those from the beginning, where an
    index may be negative: elements of which nothing is known are taken as they are."""
    v, value = c.values, c.v(index)
    known = v.recorder.known.get(value)
    if known is not None and (known < 0).any():
        more = v.number(size, v.dtype(value))
        negative = v.map("lt", [value, v.number(0, v.dtype(value))], "BOOL")
        return v.map(
            "select", [negative, value, v.map("add", [value, more])], v.dtype(value)
        )
    return value


def _taken(c: Call, x: Any, dim: int, index: int) -> int:
    """A lookup; a slice where constants determine that the indices are a range, which
    may have dimensions of size 1 around it."""
    v, known = c.values, c.values.recorder.known.get(index)
    if known is not None and known.size and known.size == max((1, *known.shape)):
        flat = known.reshape(-1)
        first = int(flat[0])
        if first >= 0 and (flat == first + np.arange(flat.size)).all():
            value = v.slice(c.v(x), dim, first, first + flat.size)
            shape = list(v.shape(value))
            return v.reshape(value, [*shape[:dim], *known.shape, *shape[dim + 1 :]])
    return v.take(c.v(x), dim, index)


@row("embedding")
def _embedding(c: Call, weight: Any, index: Any, *_: Any, **__: Any) -> Written:
    return c.values.take(c.v(weight), 0, c.v(index))


@row("embedding_dense_backward")
def _embedding_backward(
    c: Call, grad: Any, index: Any, count: int, padding: int, scaled: bool
) -> Written:
    if scaled:
        return None
    v = c.values
    value = c.v(grad)
    if padding >= 0:
        kept = v.map(
            "ne", [c.v(index), v.number(padding, dtype_text(index.dtype))], "BOOL"
        )
        kept = v.reshape(kept, [*index.shape, 1])
        value = v.map("select", [kept, c.v(0), value], c.dtype)
    return v.put("add", filled(c, 0), 0, c.v(index), value)


@row("index_select")
def _index_select(c: Call, x: Any, dim: int, index: Any) -> Written:
    if not x.dim():
        return None
    return _taken(c, x, dim_of(dim, x.dim()), _inside(c, index, x.shape[dim]))


@row("gather")
def _gather(c: Call, x: Any, dim: int, index: Any, *_: Any, **__: Any) -> Written:
    if not x.dim():
        return None
    return c.values.take_along(c.v(x), dim_of(dim, x.dim()), c.v(index))


class _Indices:
    """Indices of x[a, :, b]: which dimensions they index, and where theirs go."""

    def __init__(self, c: Call, x: Any, indices: Sequence[Any]) -> None:
        v = c.values
        self.dims = [d for d, one in enumerate(indices) if one is not None]
        ids = [_inside(c, indices[d], x.shape[d]) for d in self.dims]
        shapes = [v.shape(one) for one in ids]
        self.shape = list(torch.broadcast_shapes(*shapes)) if shapes else []
        together = self.dims == list(range(self.dims[0], self.dims[-1] + 1))
        self.at = self.dims[0] if together else 0
        self.single = ids[0] if len(ids) == 1 else None
        self.all = together and self._finds_all(v, x, ids)
        full = []
        for one in ids if len(ids) > 1 else ():
            one = v.expand(v.rank(v.convert(one, "I64"), len(self.shape)), self.shape)
            full.append(v.reshape(one, [*self.shape, 1]))
        self.vectors = v.concat(full, len(self.shape)) if full else -1
        kept = [d for d in range(x.dim()) if d not in self.dims]
        before = [d for d in kept if d < self.at]
        self.window = [
            *range(len(before)),
            *range(len(before) + len(self.shape), len(kept) + len(self.shape)),
        ]


    def _finds_all(self, v: Any, x: Any, ids: list[int]) -> bool:
        """Whether the indices are all positions of their dimensions in order, as where
        a mask is true everywhere."""
        known = [v.recorder.known.get(one) for one in ids]
        sizes = [x.shape[d] for d in self.dims]
        if any(one is None or one.ndim != 1 for one in known):
            return False
        every = np.indices(sizes).reshape(len(sizes), -1)
        return all(
            one.shape == wanted.shape and (one == wanted).all()
            for one, wanted in zip(known, every)
        )


def _are_plain(indices: Sequence[Any]) -> bool:
    return any(one is not None for one in indices) and all(
        one is None or one.dtype not in (torch.bool, torch.uint8) for one in indices
    )


@row("index", "_unsafe_index")
def _index(c: Call, x: Any, indices: Sequence[Any]) -> Written:
    if not _are_plain(indices):
        return None
    found = _Indices(c, x, indices)
    if found.all:
        return c.values.reshape(c.v(x), c.shape)
    if found.single is not None:
        return _taken(c, x, found.dims[0], found.single)
    sizes = [1 if d in found.dims else n for d, n in enumerate(x.shape)]
    return c.values.write(
        "gather",
        [c.v(x), found.vectors],
        c.shape,
        offset_dims=found.window,
        collapsed_dims=found.dims,
        operand_batch_dims=[],
        indices_batch_dims=[],
        start_index_map=found.dims,
        slice_sizes=sizes,
        mode="promise_in_bounds",
    )


@row("index_put", "_unsafe_index_put", "_index_put_impl")
def _index_put(
    c: Call,
    x: Any,
    indices: Sequence[Any],
    source: Any,
    accumulate: bool = False,
    *_: Any,
) -> Written:
    v = c.values
    given = [one for one in indices if one is not None]
    if len(given) == 1 and given[0].dtype == torch.bool and source.dim() == 0:
        mask = c.v(given[0])
        more = x.dim() - given[0].dim()
        mask = v.reshape(mask, [*given[0].shape, *[1] * more])
        if indices[0] is None or accumulate:
            return None
        return selected(c, mask, c.v(x), c.v(source, c.dtype))
    if not _are_plain(indices):
        return None
    found = _Indices(c, x, indices)
    kept = [n for d, n in enumerate(x.shape) if d not in found.dims]
    shape = [*kept[: found.at], *found.shape, *kept[found.at :]]
    updates = v.expand(c.v(source, c.dtype), shape)
    if found.all:
        every = v.reshape(updates, c.shape)
        return v.map("add", [c.v(x), every]) if accumulate else every
    fn = "add" if accumulate else "set"
    if found.single is not None:
        return v.put(fn, c.v(x), found.dims[0], found.single, updates)
    return v.write(
        "scatter",
        [c.v(x), found.vectors, updates],
        c.shape,
        fn=fn,
        update_window_dims=found.window,
        inserted_window_dims=found.dims,
        operand_batch_dims=[],
        indices_batch_dims=[],
        operand_dims=found.dims,
        mode="promise_in_bounds",
    )


def _placed(fn: str) -> Row:
    def write(
        c: Call,
        x: Any,
        dim: int,
        index: Any,
        source: Any,
        reduce: str | None = None,
        *,
        include_self: bool = True,
    ) -> Written:
        fns = {
            "add": "add",
            "sum": "add",
            "multiply": "mul",
            "prod": "mul",
            "amax": "max",
            "amin": "min",
            None: fn,
        }
        if reduce not in fns or not include_self or not x.dim():
            return None
        v, shape = c.values, list(index.shape)
        if isinstance(source, torch.Tensor):
            updates = c.v(source, c.dtype)
            for d, n in enumerate(shape if source.dim() else ()):
                updates = v.slice(updates, d, 0, n)
            updates = v.expand(updates, shape)
        else:
            updates = v.full(shape, source, c.dtype)
        return v.put_along(
            fns[reduce], c.v(x), dim_of(dim, x.dim()), c.v(index), updates
        )

    return write


ROWS["scatter"] = ROWS["scatter_reduce"] = _placed("set")
ROWS["scatter_add"] = _placed("add")


def _put(fn: str) -> Row:
    def write(
        c: Call, x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1
    ) -> Written:
        if not x.dim():
            return None
        v, dim = c.values, dim_of(dim, x.dim())
        if isinstance(source, torch.Tensor) and source.dim():
            updates = scaled(c, source, alpha)
        else:
            shape = list(x.shape)
            shape[dim : dim + 1] = index.shape
            updates = v.expand(c.v(source, c.dtype), shape)
        return v.put(fn, c.v(x), dim, _inside(c, index, x.shape[dim]), updates)

    return write


ROWS["index_add"] = _put("add")
ROWS["index_copy"] = ROWS["index_fill"] = _put("set")


ROWS["prims.amax"], ROWS["prims.amin"] = _extreme("max"), _extreme("min")
ROWS["prims.sum"], ROWS["prims.prod"] = _sum, _prod
