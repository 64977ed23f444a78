"""What to write in a model where DTensor stops.

DTensor stops with an error of its own where it has no rule for an operation, or none for
the layouts of the operands; some have no text. A hook adds to the error the line of the
model's code, the tensors on it with their layouts, and what makes the line run:

    mlp.py:41, in `layers.0.mlp`: DTensor does not run aten.histc of `scores` [8, 16],
    sharded over tp in dimension 1. Write before this line
    `scores = scores.redistribute(placements=[Replicate()] * scores.device_mesh.ndim)`
"""

from __future__ import annotations

import linecache
import os
import re
import sys
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor, Replicate

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_DTENSOR = os.path.join(_TORCH, "distributed", "tensor") + os.sep
_MIXED = "got mixed torch.Tensor and DTensor"


def explain(module: nn.Module) -> None:
    """Explains errors of DTensor in the module's forward pass."""
    module.register_forward_hook(_explained, always_call=True)


# A frame and the line of it that was running.
_Place = tuple[FrameType, int]


def _explained(module: nn.Module, inputs: Any, output: Any) -> None:
    error = sys.exc_info()[1]
    if error is None or getattr(error, "_explained", False):
        return
    places = _places(error)
    called = any(frame.f_locals.get("self") is module for frame, _ in places)
    if not called or not _is_of_dtensor(error, places):
        return
    text = _sentence(module, places, str(error))
    if text is not None:
        error.args = (text, *error.args[1:])
        error._explained = True  # type: ignore[attr-defined]


def _places(error: BaseException) -> list[_Place]:
    out, at = [], error.__traceback__
    while at is not None:
        out.append((at.tb_frame, at.tb_lineno))
        at = at.tb_next
    return out


def _is_of_dtensor(error: BaseException, places: list[_Place]) -> bool:
    if "DTensor" in str(error) or "DeviceMesh" in str(error):
        return True
    # The innermost frames, of operations that the model has called.
    files = [frame.f_code.co_filename for frame, _ in places]
    last = max((i for i, one in enumerate(files) if not _is_hidden(one)), default=-1)
    return any(one.startswith(_DTENSOR) for one in files[last + 1 :])


def _is_hidden(file: str) -> bool:
    """Whether a file is no model's: PyTorch's, or this package's."""
    return file.startswith((_TORCH, _OWN, "<"))


def _sentence(module: nn.Module, places: list[_Place], error: str) -> str | None:
    """What to write, followed by the error; None outside of a model's code."""
    own = [one for one in places if not _is_hidden(one[0].f_code.co_filename)]
    if not own:
        return None
    frame, line = own[-1]
    names = {id(one): name for name, one in module.named_modules()}
    inside = [names.get(id(one.f_locals.get("self"))) for one, _ in places]
    where = f"{frame.f_code.co_filename}:{line}"
    if any(inside):
        where += f", in `{[one for one in inside if one][-1]}`"
    original = f" ({error.splitlines()[0]})" if error.strip() else ""
    text = linecache.getline(frame.f_code.co_filename, line).strip()
    tensors = _tensors(frame, text)
    if _MIXED in error or _writes_to_plain(tensors, text):
        return f"{where}: {_of_plain(tensors)}{original}"
    return f"{where}: {_of_layouts(tensors, error)}{original}"


def _writes_to_plain(tensors: list[tuple[str, Any]], text: str) -> bool:
    """Whether a line such as `x[rows] = y` writes a DTensor to a plain tensor."""
    target = re.match(r"([\w.]+)\[.*\] [-+*/]?= ", text)
    kinds = [isinstance(x, DTensor) for _, x in tensors]
    return target is not None and any(kinds) and any(
        name == target.group(1) and not isinstance(x, DTensor) for name, x in tensors
    )


def _of_plain(tensors: list[tuple[str, Any]]) -> str:
    plain = [f"`{name}`" for name, x in tensors if not isinstance(x, DTensor)]
    name = plain[0].strip("`") if plain else "x"
    return (
        f"{plain[0] if plain else 'a tensor'} is a plain tensor, and the parameters are"
        f" DTensors. Write before this line `{name} = distribute_tensor({name}, mesh,"
        " [Replicate()] * mesh.ndim)` with the plan's mesh, or call the module under"
        " `implicit_replication()`"
    )


def _of_layouts(tensors: list[tuple[str, Any]], error: str) -> str:
    found = [(name, x) for name, x in tensors if isinstance(x, DTensor)]
    moved = [(name, x) for name, x in found if not _is_replicated(x)]
    op = re.search(r"aten\.\w+", error)
    listed = ", ".join(f"`{name}` {_layout(x)}" for name, x in moved or found)
    out = (
        f"DTensor does not run {op.group() if op else 'what is called there'}"
        f"{' of ' + listed if listed else ''}. Write "
    )
    if moved:
        text = "; ".join(
            f"{name} = {name}.redistribute("
            f"placements=[Replicate()] * {name}.device_mesh.ndim)"
            for name, _ in moved
        )
        return f"{out}before this line `{text}`"
    lists = [name for name, x in tensors if isinstance(x, list)]
    if lists and not found:
        name = lists[0]
        return (
            f"{out}before this line `{name} = [x.full_tensor() for x in {name}]`, and"
            " behind it `distribute_tensor(y, mesh, [Replicate()] * mesh.ndim)` of its"
            " result y"
        )
    name = found[0][0] if found else "x"
    return (
        f"{out}`{name}.full_tensor()` there in place of `{name}`, and"
        f" `distribute_tensor(y, {name}.device_mesh, {name}.placements)` of its result y"
    )


def _is_replicated(x: DTensor) -> bool:
    return all(isinstance(one, Replicate) for one in x.placements)


def _layout(x: DTensor) -> str:
    """Such as "[8, 16], sharded over tp in dimension 1"."""
    names = x.device_mesh.mesh_dim_names or range(x.device_mesh.ndim)
    out = []
    for name, one in zip(names, x.placements):
        if one.is_shard():
            dim = getattr(one, "dim", 0)
            out.append(f"sharded over {name} in dimension {dim}")
        elif one.is_partial():
            out.append(f"partial over {name}")
    return ", ".join([str(list(x.shape)), *out])


def _tensors(frame: FrameType, text: str) -> list[tuple[str, Any]]:
    """The tensors that the line of a frame reads, with their names. The line may be a
    part of a statement."""
    assigned = re.match(r"\w+(?= = )", text)
    read = text[assigned.end() :] if assigned else text
    out: dict[str, Any] = {}
    for name in re.findall(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", read):
        found = _value(frame, name.split("."))
        if found is not None:
            out.setdefault(*found)
    return list(out.items())


def _value(frame: FrameType, parts: list[str]) -> tuple[str, Any] | None:
    """A tensor or a list of them, and its name: a variable, or a parameter or buffer
    of a module. Of `x.shape` it is x."""
    x = frame.f_locals.get(parts[0])
    for number, part in enumerate([*parts[1:], ""]):
        if isinstance(x, torch.Tensor) or _are_dtensors(x):
            return ".".join(parts[: number + 1]), x
        if not isinstance(x, nn.Module):
            return None
        x = {**x._parameters, **x._buffers, **x._modules}.get(part)
    return None


def _are_dtensors(x: Any) -> bool:
    return isinstance(x, list) and bool(x) and all(isinstance(y, DTensor) for y in x)
