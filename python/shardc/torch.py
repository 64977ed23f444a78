"""A plan as PyTorch's device meshes and DTensor placements."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        "shardc.torch needs PyTorch, which is not installed: `pip install torch`",
        name="torch",
    ) from None
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard

from shardc.arrays import check_mesh
from shardc.mesh import Mesh, PlanError, Spec
from shardc.parameter import parts_text
from shardc.placement import splits_of
from shardc.plan_data import PlanData
from shardc.torch_failures import explain
from shardc.torch_handlers import install


def device_mesh(plan: PlanData, device_type: str = "cpu") -> DeviceMesh:
    """Rank n of torch.distributed is device n of the plan."""
    ranks = torch.empty(plan.mesh.shape, dtype=torch.int)
    for device in range(plan.mesh.devices):
        ranks[tuple(plan.mesh.coordinates(device).values())] = device
    return DeviceMesh(device_type, ranks, mesh_dim_names=plan.mesh.axis_names)


def check_device_mesh(plan: PlanData, mesh: DeviceMesh) -> None:
    """Raises PlanError where ranks would hold other shards than planned."""
    names = mesh.mesh_dim_names or plan.mesh.axis_names
    shape = tuple(mesh.mesh.shape)
    given = dict(zip(names, shape)) if len(names) == len(shape) else {"": len(shape)}
    check_mesh(SimpleNamespace(shape=given), plan.mesh.sizes, PlanError)


def placements_of(
    spec: Spec, mesh: Mesh, parts: Mapping[int, int] | None = None
) -> list[Any]:
    """One for each mesh dimension: _StridedShard where an axis has to take
    every n-th part, as shardc.placement describes."""
    out: list[Any] = []
    for split in splits_of(spec, mesh):
        if split is None:
            out.append(Replicate())
            continue
        dim, factor = split
        factor *= (parts or {}).get(dim, 1)
        strided = factor > 1
        out.append(_StridedShard(dim, split_factor=factor) if strided else Shard(dim))
    return out


def placements(plan: PlanData, name: str, mode: str = "train") -> list[Any]:
    parameter = plan[name]
    if parameter.placement:
        raise PlanError(
            f"{name} is placed at one coordinate of {parameter.placement.axis}, "
            "which DTensor has no placement for"
        )
    strided = [
        split[0] for split in splits_of(parameter.spec(mode), plan.mesh) if split and split[1] > 1
    ]
    for dim in parameter.uneven_in(mode):
        if dim in strided:
            raise PlanError(
                f"the axes of {name} do not divide dimension {dim} and are not in the"
                " order of the mesh: the parts of _StridedShard have other sizes than"
                " the plan's"
            )
    counts: dict[int, int] = {}
    for dim, parts in parameter.parts_in(mode).items():
        if not isinstance(parts, int):
            raise PlanError(
                f"the axes divide each of {parts_text(parts)} of dimension {dim} of"
                f" {name}, and a _StridedShard divides equal parts: store the parts as"
                " separate parameters"
            )
        counts[dim] = parts
    of = placements_of(parameter.spec(mode), plan.mesh, counts)
    return [of[number] for number in _numbers_of_stage(plan)]


def _numbers_of_stage(plan: PlanData) -> list[int]:
    """The mesh dimensions over which a stage's parameters are distributed: all
    but the one of the pipeline, whose ranks hold other parameters."""
    stages = plan.stages
    return [
        number
        for number, axis in enumerate(plan.mesh.axes)
        if stages is None or axis.name != stages.axis
    ]


def stage_mesh(plan: PlanData, mesh: DeviceMesh) -> DeviceMesh:
    """The part of the plan's mesh that this process's stages are distributed
    over; the mesh itself in a plan without stages."""
    names = tuple(plan.mesh.axes[n].name for n in _numbers_of_stage(plan))
    if len(names) == len(plan.mesh.axes):
        return mesh
    if not names:
        raise PlanError("the mesh has no axis but that of the stages")
    return mesh[names]


def distribute(
    plan: PlanData,
    module: torch.nn.Module,
    mode: str = "train",
    mesh: DeviceMesh | None = None,
) -> torch.nn.Module:
    """Replaces every parameter of the module by a DTensor, and every buffer:
    replicated, where the plan does not have it. A parameter that the plan lacks,
    or has in another shape, is an error before any is replaced, and so is a mesh
    that is not the plan's; a parameter in several places (tied embeddings) is
    there afterwards. Of a plan with stages the module is that of the process's
    own stages, and its parameters are distributed over `stage_mesh`."""
    if mesh is not None:
        check_device_mesh(plan, mesh)
    wrong = [str(d) for d in plan.check(module, dtypes=False) if d.kind != "missing"]
    if wrong:
        raise PlanError("; ".join(wrong[:5]) + (", ..." if len(wrong) > 5 else ""))
    tensors = dict(module.named_parameters())
    buffers = dict(module.named_buffers())
    where = {name: _placements_at(plan, name, mode) for name in (*tensors, *buffers)}
    for tensor in (*tensors.values(), *buffers.values()):
        mesh = mesh or device_mesh(plan, tensor.device.type)
    if mesh is not None:
        mesh = stage_mesh(plan, mesh)
    install()
    made: dict[torch.Tensor, torch.Tensor] = {}
    for path, child in module.named_modules():
        for key, parameter in _own(child.named_parameters):
            if parameter not in made:
                made[parameter] = _as_parameter(
                    distribute_tensor(parameter.data, mesh, where[_joined(path, key)]),
                    parameter.requires_grad,
                )
            setattr(child, key, made[parameter])
        for key, buffer in _own(child.named_buffers):
            if buffer not in made:
                made[buffer] = distribute_tensor(
                    buffer, mesh, where[_joined(path, key)]
                )
            setattr(child, key, made[buffer])
    explain(module)
    return module


def _own(named: Any) -> list[tuple[str, Any]]:
    """Of a module itself, and under each name that a tensor has in it."""
    return list(named(recurse=False, remove_duplicate=False))


def _as_parameter(x: DTensor, trained: bool) -> torch.nn.Parameter:
    """A parameter whose gradient has its layout, in which optimizers compute."""
    out = torch.nn.Parameter(x, requires_grad=trained)
    if trained:
        mesh, where = x.device_mesh, x.placements
        out.register_hook(lambda gradient: gradient.redistribute(mesh, where))
    return out


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _placements_at(plan: PlanData, name: str, mode: str) -> list[Any]:
    known = plan.name_of(tuple(name.split(".")))
    if known is None:
        return [Replicate() for _ in _numbers_of_stage(plan)]
    return placements(plan, known, mode)
