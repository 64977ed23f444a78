"""Operations on complex numbers as operations on their parts, for programs of JAX.

A program has no complex numbers where they begin and end as real ones, as those of a
rotary embedding do:

    complex(a, b) * complex(c, d)  ->  a c - b d  and  a d + b c

Each complex value of the jaxpr has a real and an imaginary value in the program. The
complex value itself is written as a `complex` map of both, which is left out if nothing
reads it. An operation that is not listed here reads the complex value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

import numpy as np

from shardc.program_ops import Body, Recorder, Writer

Pair = tuple[int, int]

# Applied to each part alone. Operands that are not complex, such as indices and the
# condition of a select, are the same for both.
_OF_EACH = """add add_any broadcast_in_dim concatenate copy copy_p cumsum dynamic_slice
    dynamic_update_slice expand_dims gather name neg optimization_barrier pad pcast
    pbroadcast pvary reduce_sum reshape rev scatter scatter_add select_n slice split
    squeeze stack stop_gradient sub tile transpose unstack
    """.split()


def _is_complex(dtype: Any) -> bool:
    return np.issubdtype(dtype, np.complexfloating)


class _Parts:
    """Writes the parts of the results of one equation."""

    def __init__(self, recorder: Recorder, body: Body, avals: list[Any]) -> None:
        self.recorder, self.body = recorder, body
        # The types of the results' parts.
        self.avals = [
            aval.update(dtype=np.zeros((), aval.dtype).real.dtype)
            if _is_complex(aval.dtype)
            else aval
            for aval in avals
        ]

    def map(self, fn: str, *ins: int, dtype: str | None = None) -> int:
        shape = max((self.recorder.shape(one) for one in ins), key=len)
        return self.recorder.derive(self.body, "map", list(ins), shape, dtype, fn=fn)

    def is_complex(self, value: int) -> bool:
        return self.recorder.dtype(value) == "C64"

    def of(self, value: int) -> Pair:
        """The parts of a complex value. A real one is its own real part."""
        recorder = self.recorder
        known = recorder.parts.get(value)
        if known is None and value in recorder.constants:
            data = recorder.constants[value]
            known = (
                recorder.constant(self.body, np.array(data.real)),
                recorder.constant(self.body, np.array(data.imag)),
            )
        elif known is None:
            dtype, shape = "F32", recorder.shape(value)
            known = (
                recorder.derive(self.body, "map", [value], shape, dtype, fn="real"),
                recorder.derive(self.body, "map", [value], shape, dtype, fn="imag"),
            )
            recorder.parts[value] = known
        return known

    def joined(self, parts: Pair) -> int:
        real = parts[0]
        out = self.recorder.derive(
            self.body, "map", list(parts), self.recorder.shape(real), "C64", fn="complex"
        )
        self.recorder.parts[out] = parts
        return out


def _product(p: _Parts, times: Callable[[int, int], int], x: Pair, y: Pair) -> Pair:
    (a, b), (c, d) = x, y
    return (
        p.map("sub", times(a, c), times(b, d)),
        p.map("add", times(a, d), times(b, c)),
    )


def _multiplied(p: _Parts, ins: list[int]) -> Pair:
    return _product(p, lambda a, b: p.map("mul", a, b), p.of(ins[0]), p.of(ins[1]))


def _size(p: _Parts, x: Pair) -> int:
    """The square of the absolute value."""
    return p.map("add", *(p.map("mul", one, one) for one in x))


def _divided(p: _Parts, ins: list[int]) -> Pair:
    c, d = p.of(ins[1])
    size = _size(p, (c, d))
    over = _product(
        p, lambda a, b: p.map("mul", a, b), p.of(ins[0]), (c, p.map("neg", d))
    )
    return p.map("div", over[0], size), p.map("div", over[1], size)


def _exponential(p: _Parts, ins: list[int]) -> Pair:
    real, imaginary = p.of(ins[0])
    length = p.map("exp", real)
    return (
        p.map("mul", length, p.map("cos", imaginary)),
        p.map("mul", length, p.map("sin", imaginary)),
    )


def _conjugate(p: _Parts, ins: list[int]) -> Pair:
    if not p.is_complex(ins[0]):
        return ins[0], p.map("neg", p.map("sub", ins[0], ins[0]))
    real, imaginary = p.of(ins[0])
    return real, p.map("neg", imaginary)


def _compared(p: _Parts, fn: str, joined: str, ins: list[int]) -> int:
    pairs = zip(p.of(ins[0]), p.of(ins[1]))
    parts = [p.map(fn, *pair, dtype="BOOL") for pair in pairs]
    return p.map(joined, *parts)


def _power(p: _Parts, exponent: int, x: Pair) -> Pair:
    """By squares, for an exponent that is not zero."""
    if exponent < 0:
        c, d = _power(p, -exponent, x)
        size = _size(p, (c, d))
        return p.map("div", c, size), p.map("div", p.map("neg", d), size)

    def times(a: Pair, b: Pair) -> Pair:
        return _product(p, lambda c, d: p.map("mul", c, d), a, b)

    out = None
    while True:
        if exponent % 2:
            out = x if out is None else times(out, x)
        exponent //= 2
        if out is not None and not exponent:
            return out
        x = times(x, x)


# Functions with one complex result.
_JOINT: dict[str, Callable[[_Parts, list[int]], Pair]] = {
    "complex": lambda p, ins: (ins[0], ins[1]),
    "conj": _conjugate,
    "div": _divided,
    "exp": _exponential,
    "mul": _multiplied,
}

# Functions of complex numbers with one real result.
_REAL: dict[str, Callable[[_Parts, list[int]], int]] = {
    "abs": lambda p, ins: p.map("sqrt", _size(p, p.of(ins[0]))),
    "eq": lambda p, ins: _compared(p, "eq", "and", ins),
    "imag": lambda p, ins: p.of(ins[0])[1],
    "ne": lambda p, ins: _compared(p, "ne", "or", ins),
    "real": lambda p, ins: p.of(ins[0])[0],
}


def _each(writer: Writer, p: _Parts, given: Any, ins: list[int]) -> list[int] | None:
    recorder, parts = p.recorder, []
    for i in (0, 1):
        operands = [p.of(one)[i] if p.is_complex(one) else one for one in ins]
        outs = writer(recorder, p.body, given, operands, p.avals)
        if outs is None:
            return None
        parts.append(outs)
    return [p.joined(pair) for pair in zip(*parts)]


def _converted(
    writer: Writer, p: _Parts, given: Any, ins: list[int]
) -> list[int] | None:
    """From real numbers, between complex dtypes, or to the real part."""
    if p.is_complex(ins[0]):
        return None if _is_complex(given["new_dtype"]) else [p.of(ins[0])[0]]
    real = writer(p.recorder, p.body, given, ins, p.avals)
    if real is None:
        return None
    zeros = p.recorder.constant(p.body, np.zeros((), p.avals[0].dtype))
    shape = p.recorder.shape(real[0])
    if shape:
        zeros = p.recorder.derive(p.body, "broadcast", [zeros], shape, dims=[])
    return [p.joined((real[0], zeros))]


def _dot(writer: Writer, p: _Parts, given: Any, ins: list[int]) -> list[int] | None:
    def times(a: int, b: int) -> int:
        (out,) = writer(p.recorder, p.body, given, [a, b], p.avals)
        return out

    return [p.joined(_product(p, times, p.of(ins[0]), p.of(ins[1])))]


def on_parts(writers: Mapping[str, Writer]) -> dict[str, Writer]:
    """The writers of the functions that are described of complex numbers too."""

    def wrapped(name: str, writer: Writer | None) -> Writer:
        def write(r: Recorder, b: Body, given: Any, ins: list[int], avals: Any) -> Any:
            results = any(_is_complex(aval.dtype) for aval in avals)
            if not results and not any(r.dtype(one) == "C64" for one in ins):
                return None if writer is None else writer(r, b, given, ins, avals)
            p = _Parts(r, b, avals)
            if name in _REAL and not results:
                return [_REAL[name](p, ins)]
            if name in _JOINT and results:
                return [p.joined(_JOINT[name](p, ins))]
            if name == "convert_element_type" and writer is not None:
                made = _converted(writer, p, given, ins)
            elif name == "integer_pow" and given["y"]:
                made = [p.joined(_power(p, int(given["y"]), p.of(ins[0])))]
            elif name == "dot_general" and writer is not None:
                made = _dot(writer, p, given, ins)
            elif name in _OF_EACH and writer is not None:
                made = _each(writer, p, given, ins)
            else:
                made = None
            if made is None and writer is not None:
                made = writer(r, b, given, ins, avals)
            return made

        return write

    more = ("convert_element_type", "dot_general", "integer_pow")
    names = {*_OF_EACH, *_JOINT, *_REAL, *more}
    return {name: wrapped(name, writers[name]) for name in names if name in writers}
