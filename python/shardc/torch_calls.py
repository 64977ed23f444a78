"""What only the calls of a model's code show, and not what PyTorch dispatches for them.

Elements: `torch.tensor([1, 2])` has elements that a device without any would lose, and
`x.tolist()` returns some.

Sizes: a view has numbers for all its sizes by the time it is dispatched. Where the code
gives a number, a device that has a part of the heads cannot run it:

    x.view(2, 7, 4, 8)                       fixes all dimensions of x
    x.view(2, 7, -1, 8)                      leaves that of the heads open
    x.view(2, 7, x.shape[-1] // 8, 8)        does so too
"""

from __future__ import annotations

import math
from typing import Any, Callable

import torch
from torch.overrides import TorchFunctionMode

from shardc.torch_recorder import Recording


class Calls(TorchFunctionMode):
    """Follows calls while it is entered."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self._recording = recording

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and "device" in kwargs:
            if not isinstance(args[0] if args else kwargs.get("data"), torch.Tensor):
                kwargs["device"] = "cpu"
        elif func is torch.Tensor.tolist and self._recording.slot_of(args[0]):
            return self._recording.elements(args[0])
        elif func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
            args = (args[0], _index(args[1]), *args[2:])
        fixed = _FIXED.get(func)
        if fixed is not None and isinstance(args[0], torch.Tensor):
            self._recording.sized(args[0], fixed(args[0], args[1:], kwargs))
        result = func(*args, **kwargs)
        made = _MADE.get(func)
        if made is not None:
            self._recording.sized(result, made(result, args, kwargs))
        if func in (torch.Tensor.shape.__get__, torch.Tensor.size):
            if isinstance(result, torch.Size):
                return torch.Size([Measured(n) for n in result])
            return Measured(result)
        return result


def _index(index: Any) -> Any:
    """An index with tensors in place of lists of numbers."""
    if isinstance(index, tuple):
        return tuple(map(_index, index))
    if isinstance(index, list) and index and all(type(x) in (int, bool) for x in index):
        return torch.tensor(index)
    return index


# ---- Sizes


class Measured(int):
    """A size that is computed from those of tensors."""


def _measured(name: str) -> Any:
    compute = getattr(int, name)

    def computed(self: Measured, *others: Any) -> Any:
        result = compute(self, *others)
        return Measured(result) if type(result) is int else result

    return computed


for _name in """__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __floordiv__
    __rfloordiv__ __mod__ __rmod__""".split():
    setattr(Measured, _name, _measured(_name))


def _is_open(size: int) -> bool:
    return size == -1 or isinstance(size, Measured)


def _of_view(x: Any, args: Any, kwargs: Any) -> list[int]:
    """The dimensions of the operand whose sizes a view or a reshape fixes."""
    given = kwargs.get("shape", kwargs.get("size", args))
    shape = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    if not all(isinstance(n, int) for n in shape):
        return []  # view(dtype)
    rest = math.prod(n for n in shape if n != -1)
    target = [x.numel() // max(rest, 1) if n == -1 else int(n) for n in shape]
    fixed: list[int] = []
    for source, result in _groups([int(n) for n in x.shape], target):
        if not any(_is_open(shape[d]) for d in result):
            fixed += source
    return fixed


def _groups(source: list[int], target: list[int]) -> list[tuple[list[int], list[int]]]:
    """Dimensions of two shapes whose products are equal, in order: [6, 4] and [2, 12]
    are one group, [2, 6] and [2, 3, 2] are two."""
    out: list[tuple[list[int], list[int]]] = []
    a = b = 0
    while a < len(source) and b < len(target):
        left, right, first, second = [a], [b], source[a], target[b]
        a, b = a + 1, b + 1
        while first != second:
            if first < second and a < len(source):
                left, first, a = [*left, a], first * source[a], a + 1
            elif second < first and b < len(target):
                right, second, b = [*right, b], second * target[b], b + 1
            else:
                return []
        out.append((left, right))
    return out


def _of_unflatten(x: Any, args: Any, kwargs: Any) -> list[int]:
    named = {**dict(zip(("dim", "sizes"), args)), **kwargs}
    return [] if any(map(_is_open, named["sizes"])) else [named["dim"] % x.dim()]


def _of_split(x: Any, args: Any, kwargs: Any) -> list[int]:
    named = {**dict(zip(("sizes", "dim"), args)), **kwargs}
    for name in ("split_size", "split_sizes", "split_size_or_sections"):
        named["sizes"] = named.get(name, named.get("sizes"))
    sizes = named["sizes"]
    sizes = sizes if isinstance(sizes, (tuple, list)) else [sizes]
    return [] if any(map(_is_open, sizes)) else [named.get("dim", 0) % x.dim()]


def _of_new(result: Any, args: Any, kwargs: Any) -> list[int]:
    """The dimensions of a new tensor, such as zeros(2, 8), that numbers fix."""
    given = [x for x in args if not isinstance(x, torch.Tensor)]
    shape = kwargs.get("size", given[0] if given else None)
    shape = shape if isinstance(shape, (tuple, list)) else given
    if len(shape) != result.dim():
        return []
    return [d for d, n in enumerate(shape) if isinstance(n, int) and not _is_open(n)]


def _of_expand(result: Any, args: Any, kwargs: Any) -> list[int]:
    """The dimensions that numbers make out of ones."""
    own = [1] * (result.dim() - args[0].dim()) + list(args[0].shape)
    return [d for d in _of_new(result, args, kwargs) if own[d] != result.shape[d]]


# Of calls the dimensions of their operand that they fix.
_FIXED: dict[Any, Callable[[Any, Any, Any], list[int]]] = {
    torch.Tensor.view: _of_view,
    torch.Tensor.reshape: _of_view,
    torch.reshape: _of_view,
    torch.Tensor.unflatten: _of_unflatten,
    torch.unflatten: _of_unflatten,
    torch.Tensor.split: _of_split,
    torch.split: _of_split,
    torch.Tensor.split_with_sizes: _of_split,
}

# And those of their result.
_MADE: dict[Any, Callable[[Any, Any, Any], list[int]]] = {
    torch.Tensor.expand: _of_expand,
    torch.broadcast_to: _of_expand,
    torch.zeros: _of_new,
    torch.ones: _of_new,
    torch.empty: _of_new,
    torch.full: _of_new,
    torch.Tensor.new_zeros: _of_new,
    torch.Tensor.new_ones: _of_new,
    torch.Tensor.new_empty: _of_new,
}
