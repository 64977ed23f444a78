"""Operations of shardc.program/v1 as a PyTorch program needs them.

PyTorch joins dimensions before each matmul and divides them afterwards:

    [B, S, H] -> reshape [B*S, H] -> mm with [H, N] -> reshape [B, S, N]

Written as they are, these operations would hide which dimensions a product keeps.
So a reshape of a reshape is one reshape, a transpose of a transpose one transpose, and
a product is written with the operands before dimensions were joined or exchanged:

    dot of [B, S, H] and [H, N], contracting 2 with 0 -> [B, S, N]

A slice of joined parts is the part itself, so that a tensor that is filled part by part
is the concatenation of what it is filled with. Operations whose results nothing reads
any more are left out of the program later.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from shardc.program_ops import Body, Op, Recorder

# A value before dimensions were joined or exchanged, and for each dimension of the
# value those of it.
Origin = tuple[int, list[list[int]]]

_FLOATS = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")


class Values:
    """Writes operations; values are numbers of the recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.body = Body()
        # The operation of each value that one wrote.
        self.made: dict[int, Op] = {}
        # The real and the imaginary part of complex values.
        self._parts: dict[int, tuple[int, int]] = {}

    def shape(self, value: int) -> list[int]:
        return self.recorder.shape(value)

    def dtype(self, value: int) -> str:
        return self.recorder.dtype(value)

    def write(
        self,
        op: str,
        ins: Sequence[int],
        shape: Sequence[int],
        dtype: str | None = None,
        /,
        **attributes: Any,
    ) -> int:
        out = self.recorder.derive(self.body, op, list(ins), shape, dtype, **attributes)
        self.made[out] = self.body.ops[-1]
        if self.dtype(out) == "C64":
            self._divide(out, op, ins, shape, attributes)
        return out

    # ---- Complex numbers: operations on their parts, where these are known, so that
    # the program has no complex values where it ends with real ones.

    def complex(self, real: int, imaginary: int) -> int:
        return self.map("complex", [real, imaginary], "C64")

    def conjugate(self, value: int) -> int:
        if self.dtype(value) != "C64":
            return value
        real, imaginary = self.parts(value)
        return self.complex(real, self.map("neg", [imaginary]))

    def parts(self, value: int) -> tuple[int, int]:
        if value not in self._parts:
            real, imaginary = (self.map(fn, [value], "F32") for fn in ("real", "imag"))
            self._parts[value] = real, imaginary
        return self._parts[value]

    def _divide(
        self, out: int, op: str, ins: Sequence[int], shape: Sequence[int], more: Any
    ) -> None:
        fn = more.get("fn")
        if fn == "complex":
            self._parts[out] = ins[0], ins[1]
            return
        # The indices of a lookup are real.
        operands = ins[:1] if op == "gather" else ins
        known = [self._parts.get(one) for one in operands]
        if not known or None in known:
            return
        if op in ("reshape", "transpose", "broadcast", "slice", "concat", "gather"):
            indices = ins[len(operands) :]
            real, imaginary = (
                self.write(
                    op, [*(pair[i] for pair in known if pair), *indices], shape, **more
                )
                for i in (0, 1)
            )
            self._parts[out] = real, imaginary
        elif fn in ("add", "sub"):
            self._parts[out] = tuple(  # type: ignore[assignment]
                self.map(fn, [pair[i] for pair in known if pair]) for i in (0, 1)
            )
        elif fn == "mul" and known[0] and known[1]:
            (a, b), (c, d) = known[0], known[1]
            pairs = [
                [self.map("mul", list(two)) for two in pair]
                for pair in (((a, c), (b, d)), ((a, d), (b, c)))
            ]
            self._parts[out] = self.map("sub", pairs[0]), self.map("add", pairs[1])

    # ---- Constants

    def constant(self, array: Any) -> int:
        return self.recorder.constant(self.body, array)

    def number(self, x: Any, dtype: str) -> int:
        """A scalar."""
        if dtype == "C64":
            return self.complex(self.number(x.real, "F32"), self.number(x.imag, "F32"))
        return self.typed(self.constant(np.asarray(x, dtype=_numpy(dtype))), dtype)

    def typed(self, constant: int, dtype: str) -> int:
        """A constant as a dtype that NumPy lacks, converted once."""
        if self.dtype(constant) == dtype:
            return constant
        key = ("converted", constant, dtype)
        if key not in self.body.constants:
            self.body.constants[key] = self.convert(constant, dtype)
        return self.body.constants[key]

    def full(self, shape: Sequence[int], x: Any, dtype: str) -> int:
        return self.expand(self.number(x, dtype), shape)

    def iota(self, shape: Sequence[int], dim: int, dtype: str = "I64") -> int:
        return self.write("iota", [], shape, dtype, dim=dim)

    # ---- Single elements

    def convert(self, value: int, dtype: str) -> int:
        if self.dtype(value) == dtype:
            return value
        if dtype == "C64":
            real = self.convert(value, "F32")
            return self.complex(real, self.number(0, "F32"))
        if dtype == "BOOL":
            zero = self.number(0, self.dtype(value))
            return self.map("ne", [value, zero], dtype)
        return self.write("map", [value], self.shape(value), dtype, fn="convert")

    def map(
        self, fn: str, ins: Sequence[int], dtype: str | None = None, **attributes: Any
    ) -> int:
        """A function of single elements, whose operands are broadcast as PyTorch
        does; the result is of the first operand's dtype by default."""
        shape = list(np.broadcast_shapes(*(tuple(self.shape(one)) for one in ins)))
        ins = [self.rank(one, len(shape)) for one in ins]
        return self.write("map", ins, shape, dtype, fn=fn, **attributes)

    def rank(self, value: int, rank: int) -> int:
        """With leading dimensions of size 1, unless it is a scalar."""
        shape = self.shape(value)
        if not shape or len(shape) == rank:
            return value
        more = rank - len(shape)
        dims = list(range(more, rank))
        return self.write("broadcast", [value], [1] * more + shape, dims=dims)

    def expand(self, value: int, shape: Sequence[int]) -> int:
        own = self.shape(value)
        if own == list(shape):
            return value
        dims = list(range(len(shape) - len(own), len(shape)))
        return self.write("broadcast", [value], shape, dims=dims)

    # ---- Dimensions

    def reshape(self, value: int, shape: Sequence[int]) -> int:
        before: int | None = value
        while before is not None:
            if self.shape(before) == list(shape):
                return before
            made = self.made.get(before)
            before = (
                made["in"][0] if made is not None and made["op"] == "reshape" else None
            )
        return self.write("reshape", [value], shape)

    def transpose(self, value: int, perm: Sequence[int]) -> int:
        made = self.made.get(value)
        if made is not None and made["op"] == "transpose":
            perm = [made["perm"][d] for d in perm]
            (value,) = made["in"]
        if list(perm) == list(range(len(perm))):
            return value
        shape = self.shape(value)
        return self.write(
            "transpose", [value], [shape[d] for d in perm], perm=list(perm)
        )

    def moved(self, value: int, source: int, target: int) -> int:
        """With a dimension in another place."""
        perm = list(range(len(self.shape(value))))
        perm.insert(target, perm.pop(source))
        return self.transpose(value, perm)

    def slice(self, value: int, dim: int, start: int, stop: int, step: int = 1) -> int:
        shape = self.shape(value)
        stop = max(start, stop)
        if (start, stop, step) == (0, shape[dim], 1):
            return value
        part = self._part(value, dim, start, stop) if step == 1 else None
        if part is not None:
            return part
        low, high, steps = [0] * len(shape), list(shape), [1] * len(shape)
        low[dim], high[dim], steps[dim] = start, stop, step
        shape[dim] = -(-(stop - start) // step)
        return self.write(
            "slice",
            [value],
            shape,
            start=low,
            limit=high,
            stride=None if step == 1 else steps,
        )

    def _part(self, value: int, dim: int, start: int, stop: int) -> int | None:
        """What a concatenation has in this range, if its parts begin and end there."""
        made = self.made.get(value)
        if made is None or made["op"] != "concat" or made["dim"] != dim:
            return None
        parts, at = [], 0
        for one in made["in"]:
            size = self.shape(one)[dim]
            if start <= at and at + size <= stop:
                parts.append(one)
            elif start <= at and at < stop or at < start < at + size:
                return None
            at += size
        return self.concat(parts, dim) if parts else None

    def concat(self, parts: Sequence[int], dim: int) -> int:
        if len(parts) == 1:
            return parts[0]
        shape = self.shape(parts[0])
        shape[dim] = sum(self.shape(one)[dim] for one in parts)
        return self.write("concat", parts, shape, dim=dim)

    def overwritten(
        self, value: int, part: int, dim: int, start: int, stop: int, step: int = 1
    ) -> int:
        """With other elements in a slice of a dimension."""
        size = self.shape(value)[dim]
        if self.shape(part)[dim] == 0:
            return value
        if (start, stop, step) == (0, size, 1):
            return part
        if step == 1:
            around = [self.slice(value, dim, 0, start), part]
            around.append(self.slice(value, dim, stop, size))
            kept = [one for one in around if self.shape(one)[dim] > 0]
            return self.concat(kept, dim)
        # Every step-th element: the others keep theirs.
        inside = np.zeros(size, np.bool_)
        inside[start:stop:step] = True
        count = self.shape(part)[dim]
        low, high, inner = ([0] * len(self.shape(value)) for _ in range(3))
        low[dim], inner[dim] = start, step - 1
        high[dim] = size - start - ((count - 1) * step + 1)
        zero = self.number(0, self.dtype(value))
        spread = self.pad(part, low, high, zero, inner)
        shape = [1] * len(low)
        shape[dim] = size
        which = self.reshape(self.constant(inside), shape)
        return self.map("select", [which, value, spread], self.dtype(value))

    def pad(
        self,
        value: int,
        low: Sequence[int],
        high: Sequence[int],
        fill: int,
        interior: Sequence[int] | None = None,
    ) -> int:
        inner = list(interior or [0] * len(low))
        sizes = zip(self.shape(value), low, high, inner)
        shape = [n + a + b + max(n - 1, 0) * i for n, a, b, i in sizes]
        if shape == self.shape(value) and not any(low):
            return value
        return self.write(
            "pad",
            [value, fill],
            shape,
            low=list(low),
            high=list(high),
            interior=inner,
        )

    # ---- Reductions

    def reduce(
        self,
        fn: str,
        value: int,
        axes: Sequence[int],
        keep: bool = False,
        dtype: str | None = None,
    ) -> int:
        shape = self.shape(value)
        kept = [n for d, n in enumerate(shape) if d not in axes]
        out = value
        if axes:
            out = self.write("reduce", [value], kept, dtype, fn=fn, axes=list(axes))
        elif dtype is not None:
            out = self.convert(value, dtype)
        if not keep:
            return out
        return self.reshape(out, [1 if d in axes else n for d, n in enumerate(shape)])

    # ---- Products

    def origins(self, value: int) -> list[Origin]:
        """The value as it was before dimensions were exchanged or joined, step by
        step, the last step first."""
        groups = [[d] for d in range(len(self.shape(value)))]
        out = [(value, groups)]
        while True:
            made = self.made.get(value)
            inner: list[list[int]] | None = None
            if made is not None and made["op"] == "transpose":
                inner = [[d] for d in made["perm"]]
            elif made is not None and made["op"] == "reshape":
                inner = _joined(self.shape(made["in"][0]), self.shape(value))
            if made is None or inner is None:
                return out[::-1]
            groups = [[e for d in one for e in inner[d]] for one in groups]
            (value,) = made["in"]
            out.append((value, groups))

    def dot(
        self,
        lhs: int,
        rhs: int,
        contract: tuple[Sequence[int], Sequence[int]],
        batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
        dtype: str | None = None,
    ) -> int:
        """A product: dimensions of the result are the batch dimensions, the others
        of the left and the others of the right operand."""
        want = [self.shape(lhs)[d] for d in batch[0]]
        for side, value in ((0, lhs), (1, rhs)):
            gone = {*contract[side], *batch[side]}
            want += [n for d, n in enumerate(self.shape(value)) if d not in gone]
        pairs = list(zip([*contract[0], *batch[0]], [*contract[1], *batch[1]]))
        for (a, left), (b, right) in itertools.product(
            self.origins(lhs), self.origins(rhs)
        ):
            if all(
                [self.shape(a)[d] for d in left[one]]
                == [self.shape(b)[d] for d in right[other]]
                for one, other in pairs
            ):
                break
        out = self._dot(a, b, left, right, contract, batch, dtype)
        return self.reshape(out, want)

    def _dot(
        self,
        a: int,
        b: int,
        left: list[list[int]],
        right: list[list[int]],
        contract: tuple[Sequence[int], Sequence[int]],
        batch: tuple[Sequence[int], Sequence[int]],
        dtype: str | None,
    ) -> int:
        flat = [
            [[e for d in dims for e in groups[d]] for dims in (contract[i], batch[i])]
            for i, groups in ((0, left), (1, right))
        ]
        shape = [self.shape(a)[d] for d in flat[0][1]]
        # The dimensions of the result, in the order that the program gives them
        # and in the order that the groups want.
        given: list[tuple[int, int]] = [(2, i) for i in range(len(shape))]
        wanted = list(given)
        for side, value, groups in ((0, a, left), (1, b, right)):
            gone = {*flat[side][0], *flat[side][1]}
            free = [d for d in range(len(self.shape(value))) if d not in gone]
            shape += [self.shape(value)[d] for d in free]
            given += [(side, d) for d in free]
            of_groups = [(side, d) for group in groups for d in group if d not in gone]
            wanted += of_groups
            wanted += [(side, d) for d in free if (side, d) not in of_groups]
        out = self.write(
            "dot",
            [a, b],
            shape,
            dtype,
            lhs_contract=flat[0][0],
            rhs_contract=flat[1][0],
            lhs_batch=flat[0][1],
            rhs_batch=flat[1][1],
        )
        return self.transpose(out, [given.index(one) for one in wanted])

    # ---- Indices

    def take(self, value: int, dim: int, index: int) -> int:
        """value[..., index, ...]: the dimensions of the index in place of one."""
        shape, ids = self.shape(value), self.shape(index)
        sizes = list(shape)
        sizes[dim] = 1
        window = [*range(dim), *range(dim + len(ids), len(ids) + len(shape) - 1)]
        return self.write(
            "gather",
            [value, self.reshape(index, [*ids, 1])],
            [*shape[:dim], *ids, *shape[dim + 1 :]],
            offset_dims=window,
            collapsed_dims=[dim],
            operand_batch_dims=[],
            indices_batch_dims=[],
            start_index_map=[dim],
            slice_sizes=sizes,
            mode="promise_in_bounds",
        )

    def put(self, fn: str, value: int, dim: int, index: int, updates: int) -> int:
        """With other elements at the indices of a dimension."""
        ids = self.shape(index)
        rank = len(self.shape(value))
        return self.write(
            "scatter",
            [value, self.reshape(index, [*ids, 1]), updates],
            self.shape(value),
            fn=fn,
            update_window_dims=[
                *range(dim),
                *range(dim + len(ids), len(ids) + rank - 1),
            ],
            inserted_window_dims=[dim],
            operand_batch_dims=[],
            indices_batch_dims=[],
            operand_dims=[dim],
            mode="promise_in_bounds",
        )

    def _batched(
        self, value: int, dim: int, index: int
    ) -> tuple[int, int, dict[str, Any]]:
        """The value without what the index leaves out, the index vectors, and the
        dimension numbers of an index for each element."""
        for d, n in enumerate(self.shape(index)):
            if d != dim:
                value = self.slice(value, d, 0, n)
        batch = [d for d in range(len(self.shape(value))) if d != dim]
        return (
            value,
            self.reshape(index, [*self.shape(index), 1]),
            {"operand_batch_dims": batch, "indices_batch_dims": batch},
        )

    def take_along(self, value: int, dim: int, index: int) -> int:
        """The element at an index of its own for each element of the result."""
        value, vectors, numbers = self._batched(value, dim, index)
        return self.write(
            "gather",
            [value, vectors],
            self.shape(index),
            offset_dims=[],
            collapsed_dims=[dim],
            start_index_map=[dim],
            slice_sizes=[1] * len(self.shape(value)),
            mode="promise_in_bounds",
            **numbers,
        )

    def put_along(
        self, fn: str, value: int, dim: int, index: int, updates: int
    ) -> int | None:
        """With other elements at an index of its own for each update; None where
        the index covers a part of the other dimensions only."""
        shape = self.shape(value)
        if any(n != shape[d] for d, n in enumerate(self.shape(index)) if d != dim):
            return None
        value, vectors, numbers = self._batched(value, dim, index)
        return self.write(
            "scatter",
            [value, vectors, updates],
            shape,
            fn=fn,
            update_window_dims=[],
            inserted_window_dims=[dim],
            operand_dims=[dim],
            mode="promise_in_bounds",
            **numbers,
        )


def _joined(source: list[int], target: list[int]) -> list[list[int]] | None:
    """For each dimension of a reshape's result those of its operand; None where the
    reshape also divides a dimension."""
    groups: list[list[int]] = []
    at = 0
    for size in target:
        group: list[int] = []
        product = 1
        while at < len(source) and (not group or product < size):
            group.append(at)
            product *= source[at]
            at += 1
        if product != size or not group:
            return None
        groups.append(group)
    if at < len(source):
        if not groups or math.prod(source[at:]) != 1:
            return None
        groups[-1] += range(at, len(source))
    return groups


def is_float(dtype: str) -> bool:
    return dtype in _FLOATS


def _numpy(dtype: str) -> Any:
    names = {
        "F64": np.float64,
        "BOOL": np.bool_,
        **{f"I{n}": np.dtype(f"int{n}") for n in (8, 16, 32, 64)},
        **{f"U{n}": np.dtype(f"uint{n}") for n in (8, 16, 32, 64)},
        "C64": np.complex64,
    }
    if dtype == "F16":
        return np.float16
    return names.get(dtype, np.float32)
