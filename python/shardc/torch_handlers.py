"""Operations that DTensor runs otherwise than a sharded model needs.

PyTorch calls a handler in place of its own rule for an operation. Each handler here has
the operands in a layout for which every device computes its part alone, computes, and
gives the result its layout:

    embedding of a weight whose rows `tp` shards, as each device finds the rows it has:

        rows 0..47 on device 0: ids [3, 50] -> [row 3, 0]
        rows 48..95 on device 1:            -> [0, row 50]
        sum over tp                         -> [row 3, row 50], replicated

PyTorch's own rule leaves the sum open, as a value that can be summed only once; a
decoder reads it twice, in the first norm and in the residual. It has no rule for
attention on a CPU, and none where the elements decide the shape of the result; of a
convolution it shards the width of the image, with the ranks of all processes, whatever
the mesh is. A mean over a sharded dimension stays open as well, and may then not be
changed in place.

The handlers are those of the process: PyTorch has one table of them. Results are equal
to PyTorch's; only layouts differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

aten = torch.ops.aten
Handler = Callable[[Any, "tuple[Any, ...]", "dict[str, Any]"], Any]


def install() -> None:
    """Adds the handlers to PyTorch's, once."""
    handlers: dict[Any, Handler] = DTensor._op_dispatcher._custom_op_handlers
    for name, handler in HANDLERS.items():
        packet, _, overload = name.partition(".")
        op = getattr(getattr(aten, packet, None), overload or "default", None)
        if op is not None:
            handlers[op] = handler


# ---- Layouts


def _mesh_of(*operands: Any) -> DeviceMesh:
    return next(one.device_mesh for one in operands if isinstance(one, DTensor))


def _placements(x: Any, mesh: DeviceMesh) -> list[Any]:
    return list(x.placements) if isinstance(x, DTensor) else [Replicate()] * mesh.ndim


def _is_plain(placement: Any) -> bool:
    """Whether it is a shard in contiguous ranges."""
    return type(placement) is Shard


def _local(x: Any, mesh: DeviceMesh, where: Sequence[Any]) -> Any:
    """The part of an operand that this device has under a layout. A plain tensor
    among DTensors counts as replicated, if the program allows that."""
    if not isinstance(x, torch.Tensor):
        return x
    if not isinstance(x, DTensor):
        if not DTensor._op_dispatcher._allow_implicit_replication and x.dim():
            raise RuntimeError(
                "got mixed torch.Tensor and DTensor, need to convert all torch.Tensor"
                " to DTensor before calling distributed operators"
            )
        x = DTensor.from_local(x, mesh, [Replicate()] * mesh.ndim, run_check=False)
    return x.redistribute(mesh, list(where)).to_local()


def _whole(x: Any, mesh: DeviceMesh) -> Any:
    return _local(x, mesh, [Replicate()] * mesh.ndim)


def _result(
    x: torch.Tensor, mesh: DeviceMesh, where: Sequence[Any], shape: Sequence[int]
) -> DTensor:
    stride = torch.empty(list(shape), device="meta").stride()
    return DTensor.from_local(
        x.contiguous(), mesh, list(where), run_check=False, shape=torch.Size(shape),
        stride=stride,
    )


# ---- Lookups

# The layouts of the weights that lookups read, by mesh and shape, for the gradients.
_TABLES: dict[Any, list[Any]] = {}


class _Lookup:
    """How the devices of a mesh look up rows of a weight. On each mesh dimension

    - the weight's rows are sharded: each device looks up those it has;
    - the indices are sharded: each device looks up its own;
    - the weight's width is sharded: each device looks up its columns."""

    def __init__(self, mesh: DeviceMesh, weight: list[Any], ids: list[Any]) -> None:
        self.weight, self.ids, self.rows = [], [], []
        for of_weight, of_ids in zip(weight, ids):
            row = _is_plain(of_weight) and of_weight.dim == 0
            split = not row and _is_plain(of_ids)
            column = not row and not split and _is_plain(of_weight)
            self.rows.append(row)
            self.weight.append(of_weight if row or column else Replicate())
            self.ids.append(of_ids if split else Replicate())
        self.mesh = mesh

    def of_rows(self, shape: Sequence[int]) -> tuple[int, int]:
        """The first row of this device, and the number of its rows."""
        sizes, offsets = compute_local_shape_and_global_offset(
            torch.Size(shape), self.mesh, self.weight
        )
        return (offsets[0] if sizes[0] else 0), sizes[0]

    def of_values(self, rank: int, summed: bool) -> list[Any]:
        """The layout of what is looked up, which has `rank` dimensions."""
        out: list[Any] = []
        for row, of_weight, of_ids in zip(self.rows, self.weight, self.ids):
            if row:
                out.append(Replicate() if summed else Partial())
            elif _is_plain(of_weight):
                out.append(Shard(rank - 1))
            else:
                out.append(of_ids)
        return out


def _embedding(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    weight, ids = args[0], args[1]
    mesh = _mesh_of(weight, ids)
    found = _Lookup(mesh, _placements(weight, mesh), _placements(ids, mesh))
    _TABLES[mesh, tuple(weight.shape)] = _placements(weight, mesh)
    table = _local(weight, mesh, found.weight)
    where = _local(ids, mesh, found.ids)
    first, count = found.of_rows(weight.shape)
    mine = (where >= first) & (where < first + count)
    if count:
        rows = op(table, torch.where(mine, where - first, 0))
        rows = rows.masked_fill(~mine[..., None], 0)
    else:
        rows = table.new_zeros((*where.shape, table.shape[1]))
    shape = (*ids.shape, weight.shape[1])
    out = _result(rows, mesh, found.of_values(len(shape), False), shape)
    return out.redistribute(mesh, found.of_values(len(shape), True))


def _embedding_backward(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    grad, ids, size, padding, scaled = args
    mesh = _mesh_of(grad, ids)
    shape = (int(size), grad.shape[-1])
    known = _TABLES.get((mesh, shape), [Replicate()] * mesh.ndim)
    found = _Lookup(mesh, known, _placements(ids, mesh))
    local = _local(grad, mesh, found.of_values(grad.dim(), True))
    where = _local(ids, mesh, found.ids)
    first, count = found.of_rows(shape)
    mine = (where >= first) & (where < first + count)
    if padding >= 0:
        mine &= where != padding
    # Rows of other devices are added to a last row, which is left out.
    where = torch.where(mine, where - first, count)
    out = op(local, where, count + 1, -1, scaled)[:count]
    layout = [
        Partial() if _is_plain(of_ids) else of_weight
        for of_weight, of_ids in zip(found.weight, found.ids)
    ]
    return _result(out, mesh, layout, shape)


# ---- Attention


def _heads(mesh: DeviceMesh, *operands: Any) -> list[Any]:
    """The layout of queries, keys and values [batch, heads, ...] for which a device
    computes its rows or its heads: that of the queries, where the axes divide all."""
    out: list[Any] = []
    left = [list(one.shape) for one in operands]
    for number, placement in enumerate(_placements(operands[0], mesh)):
        size = mesh.size(number)
        dim = placement.dim if _is_plain(placement) else 2
        if dim > 1 or any(shape[dim] % size for shape in left):
            out.append(Replicate())
            continue
        for shape in left:
            shape[dim] //= size
        out.append(placement)
    return out


def _of_mask(mask: Any, where: Sequence[Any]) -> list[Any]:
    """The layout of a mask, whose dimensions may be of size 1."""
    rank = mask.dim() if isinstance(mask, torch.Tensor) else 0
    out: list[Any] = []
    for one in where:
        dim = one.dim + rank - 4 if _is_plain(one) else -1
        split = dim >= 0 and mask.shape[dim] > 1
        out.append(Shard(dim) if split else Replicate())
    return out


def _attention(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    query, key, value, *rest = args
    mesh = _mesh_of(query, key, value)
    where = _heads(mesh, query, key, value)
    mask = kwargs.get("attn_mask")
    if isinstance(mask, torch.Tensor):
        kwargs = {**kwargs, "attn_mask": _local(mask, mesh, _of_mask(mask, where))}
    out, sums = op(*(_local(x, mesh, where) for x in (query, key, value)), *rest, **kwargs)
    shape = (*query.shape[:-1], value.shape[-1])
    # The sums have the dimensions of the queries without their size.
    return (
        _result(out, mesh, where, shape),
        _result(sums, mesh, where, (*query.shape[:2], *sums.shape[2:])),
    )


def _attention_backward(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    grad, query, key, value, out, sums, *rest = args
    mesh = _mesh_of(grad, query, key, value)
    where = _heads(mesh, query, key, value)
    mask = kwargs.get("attn_mask")
    if isinstance(mask, torch.Tensor):
        kwargs = {**kwargs, "attn_mask": _local(mask, mesh, _of_mask(mask, where))}
    operands = (grad, query, key, value, out, sums)
    grads = op(*(_local(x, mesh, where) for x in operands), *rest, **kwargs)
    return tuple(
        _result(one, mesh, where, x.shape) for one, x in zip(grads, (query, key, value))
    )


# ---- Convolutions


def _rows(x: Any, weight: Any, mesh: DeviceMesh) -> list[Any]:
    """The layout of a convolution's operand: its batch may be sharded."""
    batched = x.dim() == weight.dim()
    return [
        one if batched and _is_plain(one) and one.dim == 0 else Replicate()
        for one in _placements(x, mesh)
    ]


def _convolution(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x, weight, bias, *rest = args
    mesh = _mesh_of(x, weight, bias)
    where = _rows(x, weight, mesh)
    out = op(_local(x, mesh, where), _whole(weight, mesh), _whole(bias, mesh), *rest)
    return _result(out, mesh, where, (x.shape[0], *out.shape[1:]))


def _convolution_backward(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    grad, x, weight, *rest = args
    mesh = _mesh_of(grad, x, weight)
    where = _rows(x, weight, mesh)
    of_weight = [Partial() if _is_plain(one) else one for one in where]
    of_x, of_kernel, of_bias = op(
        _local(grad, mesh, where), _local(x, mesh, where), _whole(weight, mesh), *rest
    )
    return (
        None if of_x is None else _result(of_x, mesh, where, x.shape),
        None if of_kernel is None else _result(of_kernel, mesh, of_weight, weight.shape),
        None if of_bias is None else _result(of_bias, mesh, of_weight, of_bias.shape),
    )


def _group_norm(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x, weight, bias, count, *rest = args
    mesh = _mesh_of(x, weight, bias)
    where = _rows(x, x, mesh)
    local = _local(x, mesh, where)
    of_weights = [_whole(one, mesh) for one in (weight, bias)]
    out, *more = op(local, *of_weights, local.shape[0], *rest)
    return (
        _result(out, mesh, where, x.shape),
        *(_result(one, mesh, where, (x.shape[0], *one.shape[1:])) for one in more),
    )


def _group_norm_backward(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    grad, x, mean, scale, weight, count, *rest = args
    mesh = _mesh_of(grad, x, weight)
    where = _rows(x, x, mesh)
    of_weight = [Partial() if _is_plain(one) else one for one in where]
    grad, x, mean, scale = (_local(one, mesh, where) for one in (grad, x, mean, scale))
    shape = args[1].shape
    of_x, *more = op(grad, x, mean, scale, _whole(weight, mesh), x.shape[0], *rest)
    return (
        None if of_x is None else _result(of_x, mesh, where, shape),
        *(None if one is None else _result(one, mesh, of_weight, one.shape)
          for one in more),
    )


# ---- Means, which the next operation may change in place


def _mean(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    out = _by_rule(op, args, kwargs)
    where = [Replicate() if one.is_partial() else one for one in out.placements]
    return out.redistribute(out.device_mesh, where)


def _by_rule(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """By PyTorch's own rule."""
    dispatcher = DTensor._op_dispatcher
    info = dispatcher.unwrap_to_op_info(op, args, kwargs)
    dispatcher.sharding_propagator.propagate(info)
    results = dispatcher._dispatch_get_local_results_slow_path(op, args, info)
    made = info.output_sharding
    return dispatcher.wrap(results, None if made is None else made.output_spec)


# ---- What every device computes from all elements


def _of_all(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    leaves = torch.utils._pytree.tree_leaves((args, kwargs))
    mesh = _mesh_of(*leaves)
    args, kwargs = torch.utils._pytree.tree_map(
        lambda x: _whole(x, mesh), (args, kwargs)
    )
    replicated = [Replicate()] * mesh.ndim

    def placed(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        return DTensor.from_local(x, mesh, replicated, run_check=False)

    return torch.utils._pytree.tree_map(placed, op(*args, **kwargs))


HANDLERS: dict[str, Handler] = {
    "embedding": _embedding,
    "embedding_dense_backward": _embedding_backward,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "native_group_norm": _group_norm,
    "native_group_norm_backward": _group_norm_backward,
    "mean.dim": _mean,
    "nonzero": _of_all,
    "bincount": _of_all,
    "_unique2": _of_all,
}
