"""Average pooling of PyTorch as the operations that it consists of.

The mean of a window of three elements is the sum of three strided slices, divided by
their number; a dimension is summed after the other. Its gradient is spread in the same
way: each tap of the window adds the gradients at its places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shardc.torch_ops import ROWS, Call, Row, Written, of_each
from shardc.torch_values import Values


class _Windows:
    """The windows of the last dimensions of a tensor; `fits` is false where the last
    window is not complete, as ceil_mode has it."""

    def __init__(
        self,
        x: Any,
        out: Sequence[int],
        kernel: Any,
        stride: Any,
        padding: Any,
    ) -> None:
        rank = len(out)
        self.sizes = [int(n) for n in x.shape[-rank:]]
        self.out = list(out)
        self.kernel = of_each(kernel, rank)
        self.stride = of_each(stride, rank) if stride else self.kernel
        self.padding = of_each(padding, rank)
        self.first = x.dim() - rank
        sizes = zip(self.sizes, self.kernel, self.stride, self.padding)
        self.fits = self.out == [(n + 2 * p - k) // s + 1 for n, k, s, p in sizes]

    def counts(self, with_padding: bool) -> Any:
        """How many elements each window has: a number, or one for each window."""
        if with_padding or not any(self.padding):
            return float(np.prod(self.kernel))
        total = np.ones([1] * len(self.out), np.float32)
        for d, n in enumerate(self.sizes):
            begin = np.arange(self.out[d]) * self.stride[d] - self.padding[d]
            inside = np.minimum(begin + self.kernel[d], n) - np.maximum(begin, 0)
            shape = [1] * len(self.out)
            shape[d] = -1
            total = total * inside.astype(np.float32).reshape(shape)
        return total

    def sums(self, v: Values, value: int) -> int:
        zero = v.number(0, v.dtype(value))
        around = [0] * self.first + self.padding
        value = v.pad(value, around, around, zero)
        for d, (taps, step) in enumerate(zip(self.kernel, self.stride)):
            span = (self.out[d] - 1) * step + 1
            dim = self.first + d
            parts = [v.slice(value, dim, i, i + span, step) for i in range(taps)]
            value = _added(v, parts)
        return value

    def spread(self, v: Values, value: int) -> int:
        """The gradients of the elements, of those of the windows' sums."""
        zero = v.number(0, v.dtype(value))
        for d, (taps, step) in enumerate(zip(self.kernel, self.stride)):
            dim = self.first + d
            size = self.sizes[d] + 2 * self.padding[d]
            span = (self.out[d] - 1) * step + 1
            low, high, inner = ([0] * (self.first + len(self.out)) for _ in range(3))
            inner[dim] = step - 1
            parts = []
            for i in range(taps):
                low[dim], high[dim] = i, size - i - span
                parts.append(v.pad(value, low, high, zero, inner))
            value = _added(v, parts)
            start = self.padding[d]
            value = v.slice(value, dim, start, start + self.sizes[d])
        return value


def _added(v: Values, parts: Sequence[int]) -> int:
    out = parts[0]
    for part in parts[1:]:
        out = v.map("add", [out, part])
    return out


def _divided(c: Call, value: int, by: Any) -> int:
    dtype = c.values.dtype(value)
    divisor = (
        c.values.number(by, dtype)
        if isinstance(by, (int, float))
        else c.values.convert(c.values.constant(by), dtype)
    )
    return c.values.map("div", [value, divisor])


def _average(rank: int) -> Row:
    def write(
        c: Call,
        x: Any,
        kernel: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Written:
        windows = _Windows(x, c.shape[-rank:], kernel, stride, padding)
        if not windows.fits:
            return None
        by = divisor_override or windows.counts(count_include_pad)
        return _divided(c, windows.sums(c.values, c.v(x)), by)

    return write


def _gradient(rank: int) -> Row:
    def write(
        c: Call,
        gradient: Any,
        x: Any,
        kernel: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None = None,
    ) -> Written:
        windows = _Windows(x, gradient.shape[-rank:], kernel, stride, padding)
        if not windows.fits:
            return None
        by = divisor_override or windows.counts(count_include_pad)
        return windows.spread(c.values, _divided(c, c.v(gradient), by))

    return write


for _rank in (2, 3):
    ROWS[f"avg_pool{_rank}d"] = _average(_rank)
    ROWS[f"avg_pool{_rank}d_backward"] = _gradient(_rank)
