"""A plan as JAX's meshes and shardings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Callable

try:
    import jax
except ModuleNotFoundError as error:
    if error.name != "jax":
        raise
    raise ModuleNotFoundError(
        "shardc.jax needs JAX, which is not installed: `pip install jax`",
        name="jax",
    ) from None
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from shardc.arrays import Owner, abstract, check_mesh, map_arrays, nested, put
from shardc.mesh import PlanError, Spec, no_factors
from shardc.parameter import Parameter, parts_text
from shardc.plan_data import PlanData
from shardc.tree import dtype_name

_TYPES = {
    "auto": AxisType.Auto,
    "explicit": AxisType.Explicit,
    "manual": AxisType.Manual,
}


def jax_mesh(plan: PlanData, devices: Iterable[Any] | None = None) -> Mesh:
    """Device n of the plan is the n-th of `devices`, or of all by their ids."""
    if devices is not None:
        devices = list(np.array(list(devices), dtype=object).ravel())
    if devices is None:
        devices = sorted(jax.devices(), key=lambda device: device.id)
        if len(devices) != plan.mesh.devices:
            raise PlanError(
                f"the plan is for {plan.mesh.devices} devices and JAX has {len(devices)}"
                + (
                    f": pass devices=jax.devices()[:{plan.mesh.devices}]"
                    if len(devices) > plan.mesh.devices
                    else "; to simulate them on the CPU, start Python with "
                    "XLA_FLAGS=--xla_force_host_platform_device_count="
                    f"{plan.mesh.devices}"
                )
            )
    elif len(devices) != plan.mesh.devices:
        raise PlanError(
            f"the plan is for {plan.mesh.devices} devices, and {len(devices)} are given"
        )
    grid = np.empty(plan.mesh.shape, dtype=object)
    for number, device in enumerate(devices):
        grid[tuple(plan.mesh.coordinates(number).values())] = device
    return Mesh(
        grid,
        plan.mesh.axis_names,
        axis_types=tuple(_TYPES[a.type] for a in plan.mesh.axes),
    )


def partition_spec(spec: Sequence[Any]) -> PartitionSpec:
    no_factors(spec, "a PartitionSpec")
    return PartitionSpec(*spec)


def sharding(parameter: Parameter, mesh: Mesh, mode: str = "train") -> NamedSharding:
    """The parameter's; of a placed one, over the devices at its coordinate, and
    of one of some stages, over the devices of their ranks."""
    check_mesh(mesh, parameter.mesh.sizes, PlanError)
    spec = partition_spec(_even_spec(parameter, mode))
    return NamedSharding(_part(parameter, mesh), spec)


def _even_spec(parameter: Parameter, mode: str) -> Spec:
    """The spec on the whole mesh. Uneven shards, and shards of each of several
    parts, have no NamedSharding, which is a PlanError."""
    for dim in parameter.uneven_in(mode):
        raise PlanError(
            f"dimension {dim} of {parameter.name} has uneven shards, and a"
            " NamedSharding divides a dimension into equal parts"
        )
    for dim, parts in parameter.parts_in(mode).items():
        raise PlanError(
            f"the axes divide each of {parts_text(parts)} of dimension {dim} of"
            f" {parameter.name}, and a NamedSharding divides a dimension as one"
        )
    return parameter.mesh_spec(mode)


def _part(parameter: Parameter, mesh: Mesh) -> Mesh:
    """The devices that hold the parameter: all unless it is placed, or in stages
    of some ranks."""
    devices = mesh.devices
    placed = parameter.placement
    if placed:
        at = mesh.axis_names.index(placed.axis)
        devices = np.take(devices, [placed.coordinate], axis=at)
    axis, ranks = parameter.stage_axis, parameter.ranks
    # A tensor that holds layers is on all ranks, split by its spec.
    if axis is not None and ranks is not None and parameter.layer_slices is None:
        at = mesh.axis_names.index(axis)
        devices = np.take(devices, list(ranks), axis=at)
    if devices is mesh.devices:
        return mesh
    return Mesh(devices, mesh.axis_names, axis_types=mesh.axis_types)


def named_shardings(
    plan: PlanData,
    mode: str = "train",
    like: Any = None,
    mesh: Mesh | None = None,
    unmatched: str = "error",
) -> Any:
    """By name without `like`; else in the shape of its tree, with None where it
    has no array. `shard` describes which parameter an array belongs to."""
    mesh = mesh_of(plan, mesh)
    if like is None:
        return {
            name: sharding(parameter, mesh, mode) for name, parameter in plan.items()
        }
    return _mapped(
        plan, like, mode, mesh, unmatched, lambda leaves, made: made, lambda leaf: None
    )


def shard(
    plan: PlanData,
    tree: Any,
    mode: str = "train",
    mesh: Mesh | None = None,
    unmatched: str = "error",
) -> Any:
    """`tree` with its arrays where the plan has them, ShapeDtypeStructs with
    their shardings. The tree is a model's parameters or a whole train state:
    moments are sharded as their parameters, scalars, random keys and other
    state are replicated, and leaves that are no arrays stay."""
    mesh = mesh_of(plan, mesh)
    return _mapped(plan, tree, mode, mesh, unmatched, put, lambda leaf: leaf)


def mesh_of(plan: PlanData, mesh: Mesh | None) -> Mesh:
    if mesh is None:
        return jax_mesh(plan)
    check_mesh(mesh, plan.mesh.sizes, PlanError)
    return mesh


def _mapped(
    plan: PlanData,
    tree: Any,
    mode: str,
    mesh: Mesh,
    unmatched: str,
    use: Callable[[list[Any], list[Any]], list[Any]],
    other: Callable[[Any], Any],
) -> Any:
    replicated = NamedSharding(mesh, PartitionSpec())
    made: dict[tuple[Any, ...], NamedSharding] = {}

    def of(owner: Owner | None) -> NamedSharding:
        if owner is None:
            return replicated
        parameter = plan[owner.name]
        spec = owner.spec(_even_spec(parameter, mode))
        key = (parameter.placement, parameter.ranks, spec)
        if key not in made:
            made[key] = NamedSharding(_part(parameter, mesh), partition_spec(spec))
        return made[key]

    return map_arrays(plan.arrays, tree, of, use, other, unmatched)


def constrain(
    plan: PlanData,
    x: jax.Array,
    tensor: str | Spec,
    mode: str = "train",
    mesh: Mesh | None = None,
) -> jax.Array:
    """Inside jit: `x` as the plan has an activation, or by a spec."""
    spec = plan.activation(tensor, mode) if isinstance(tensor, str) else tensor
    mesh = mesh_of(plan, mesh)
    # Explicit axes are part of an array's type: no constraint may name them.
    if AxisType.Explicit in mesh.axis_types:
        explicit = _over(spec, mesh, AxisType.Explicit)
        x = jax.sharding.reshard(x, NamedSharding(mesh, partition_spec(explicit)))
        if AxisType.Auto not in mesh.axis_types:
            return x
        spec = _over(spec, mesh, AxisType.Auto)
    return jax.lax.with_sharding_constraint(
        x, NamedSharding(mesh, partition_spec(spec))
    )


def _over(spec: Spec, mesh: Mesh, kind: AxisType) -> Spec:
    """The spec's axes of one kind."""
    kinds = dict(zip(mesh.axis_names, mesh.axis_types))
    out: list[tuple[str, ...] | None] = []
    for entry in spec:
        group = (entry,) if isinstance(entry, str) else entry or ()
        out.append(tuple(axis for axis in group if kinds[axis] == kind) or None)
    return tuple(out)


def abstract_tree(
    plan: PlanData,
    mode: str = "train",
    mesh: Mesh | None = None,
    like: Any = None,
    unmatched: str = "error",
) -> Any:
    """ShapeDtypeStructs with shardings, for jax.eval_shape, ahead-of-time
    compilation and restoring: nested dicts by the parts of names, or in the
    shape of `like`, whose data types stay."""
    mesh = mesh_of(plan, mesh)
    if like is not None:
        return _mapped(
            plan,
            like,
            mode,
            mesh,
            unmatched,
            lambda leaves, made: list(map(abstract, leaves, made)),
            lambda leaf: leaf,
        )
    values = {
        name: _abstract(parameter, mesh, mode) for name, parameter in plan.items()
    }
    return nested(values, plan.separator, "pass like=", PlanError)


def _abstract(parameter: Parameter, mesh: Mesh, mode: str) -> jax.ShapeDtypeStruct:
    if parameter.shape is None or parameter.dtype is None:
        raise PlanError(f"the plan knows no shape or data type of {parameter.name}")
    try:
        dtype = jax.numpy.dtype(dtype_name(parameter.dtype))
    except (TypeError, ValueError):
        raise PlanError(f"JAX has no {parameter.dtype}, of {parameter.name}") from None
    return jax.ShapeDtypeStruct(
        parameter.shape,
        dtype,
        sharding=sharding(parameter, mesh, mode),
    )
