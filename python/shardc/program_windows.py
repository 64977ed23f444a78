"""Pooling, written as the operations that it consists of.

A reduction over windows is one of strided slices, a dimension after the other: three
slices for a window of three, whose maximum or sum is the result. Batches and channels
are complete in every slice, so that an axis on them stays where it is. The gradient of
a maximum goes to the first element of the window that has it: the windows' elements are
compared in their order, and each receives what is its own.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from shardc.program_ops import Body, Recorder, Writer, _ints, _part

# A gradient has some five operations for each element of a window.
LARGEST_WINDOW = 64


def _neutral(fn: str, dtype: str) -> Any:
    """What changes no result: 0 for a sum, and what no element is beyond for a
    maximum or a minimum. None for a dtype that has no such number here."""
    if dtype[0] in "IU":
        of = np.dtype(("int" if dtype[0] == "I" else "uint") + dtype[1:])
        ends = np.iinfo(of)
        return np.array({"add": 0, "max": ends.min, "min": ends.max}[fn], of)
    if dtype[:1] != "F" and dtype != "BF16":
        return None
    of = {"F64": np.float64, "F16": np.float16}.get(dtype, np.float32)
    return np.array({"add": 0, "max": -np.inf, "min": np.inf}[fn], of)


def _scalar(r: Recorder, b: Body, array: Any, dtype: str) -> int:
    value = r.constant(b, array)
    if r.dtype(value) == dtype:
        return value
    return r.derive(b, "map", [value], [], dtype, fn="convert")


def _padded(
    r: Recorder, b: Body, value: int, fill: Any, low: Any, high: Any, inside: Any
) -> int:
    if not any(low) and not any(high) and not any(inside):
        return value
    shape = [
        n + before + after + max(0, n - 1) * between
        for n, before, after, between in zip(r.shape(value), low, high, inside)
    ]
    scalar = _scalar(r, b, fill, r.dtype(value))
    return r.derive(
        b,
        "pad",
        [value, scalar],
        shape,
        low=_ints(low),
        high=_ints(high),
        interior=_ints(inside),
    )


def _pool(fn: str) -> Writer:
    def write(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
        (aval,) = avals
        low, high = zip(*p["padding"]) if aval.shape else ((), ())
        windows, dilation = p["window_dimensions"], p["window_dilation"]
        fill = _neutral(fn, r.dtype(ins[0]))
        if fill is None or max(windows, default=1) > LARGEST_WINDOW:
            return None
        inside = [n - 1 for n in p["base_dilation"]]
        value = _padded(r, b, ins[0], fill, low, high, inside)
        for dim, window in enumerate(windows):
            shape = r.shape(value)
            stride, apart = p["window_strides"][dim], dilation[dim]
            if window == 1 and stride == 1:
                continue
            length, steps = (aval.shape[dim] - 1) * stride + 1, [1] * len(shape)
            steps[dim] = stride
            parts = []
            for i in range(window):
                start, limit = [0] * len(shape), list(shape)
                start[dim], limit[dim] = i * apart, i * apart + length
                parts.append(_part(r, b, value, start, limit, steps))
            value = parts[0]
            for part in parts[1:]:
                value = r.derive(b, "map", [value, part], r.shape(value), fn=fn)
        return [value]

    return write


def _chosen(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    """The gradient of a maximum or minimum over windows: the first operand goes to the
    elements of the second one that were chosen."""
    source, operand = ins
    windows, strides = p["window_dimensions"], p["window_strides"]
    beyond, fn = {"ge": ("gt", "max"), "le": ("lt", "min")}.get(
        getattr(p["select_prim"], "name", ""), ("", "max")
    )
    fill = _neutral(fn, r.dtype(operand))
    if not beyond or fill is None or np.prod(windows) > LARGEST_WINDOW:
        return None
    low, high = zip(*p["padding"])
    value = _padded(r, b, operand, fill, low, high, [0] * len(low))
    shape, out = r.shape(value), r.shape(source)
    places = list(itertools.product(*map(range, windows)))
    best = index = None
    for i, place in enumerate(places):
        limit = [x + (n - 1) * s + 1 for x, n, s in zip(place, out, strides)]
        part = _part(r, b, value, list(place), limit, list(strides))
        number = r.constant(b, np.array(i, np.int32))
        if best is None or index is None:
            zero = r.derive(b, "broadcast", [number], out, dims=[])
            best, index = part, zero
            continue
        better = r.derive(b, "map", [part, best], out, "BOOL", fn=beyond)
        numbers = r.derive(b, "broadcast", [number], out, dims=[])
        index = r.derive(b, "map", [better, index, numbers], out, "I32", fn="select")
        best = r.derive(b, "map", [best, part], out, fn=fn)
    nothing = r.derive(
        b,
        "broadcast",
        [_scalar(r, b, np.zeros((), np.float32), r.dtype(source))],
        out,
        dims=[],
    )
    total = None
    for i, place in enumerate(places):
        numbers = r.derive(
            b, "broadcast", [r.constant(b, np.array(i, np.int32))], out, dims=[]
        )
        own = r.derive(b, "map", [index, numbers], out, "BOOL", fn="eq")
        given = r.derive(
            b, "map", [own, nothing, source], out, r.dtype(source), fn="select"
        )
        spans = [(n - 1) * s + 1 for n, s in zip(out, strides)]
        after = [n - x - span for n, x, span in zip(shape, place, spans)]
        given = _padded(
            r,
            b,
            given,
            np.zeros((), np.float32),
            place,
            after,
            [s - 1 for s in strides],
        )
        total = (
            given
            if total is None
            else r.derive(b, "map", [total, given], shape, fn="add")
        )
    limit = [x + n for x, n in zip(low, avals[0].shape)]
    return [_part(r, b, total, list(low), limit)] if total is not None else None


def _approximate_top_k(r: Recorder, b: Body, p: Any, ins: list[int], avals: Any) -> Any:
    if not p["is_max_k"] or not p["aggregate_to_topk"]:
        return None
    text = "approx_top_k returns the exact largest elements, as on CPUs"
    if text not in r.assumptions:
        r.assumptions.append(text)
    outs = [r.of_type(aval) for aval in avals]
    dim = int(p["reduction_dimension"]) % len(avals[0].shape)
    return r.write(b, "top_k", ins, outs, dim=dim, k=int(p["k"]))


WINDOWS: dict[str, Writer] = {
    "reduce_window_sum": _pool("add"),
    "reduce_window_max": _pool("max"),
    "reduce_window_min": _pool("min"),
    "select_and_scatter_add": _chosen,
    "approx_top_k": _approximate_top_k,
}
