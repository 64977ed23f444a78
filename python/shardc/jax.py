"""A plan as JAX's meshes and shardings."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from shardc.mesh import PlanError, Spec
from shardc.tree import dtype_name, is_array, is_nnx_module, key_text

if TYPE_CHECKING:
    from shardc.plan import Parameter, Plan

_TYPES = {
    "auto": AxisType.Auto,
    "explicit": AxisType.Explicit,
    "manual": AxisType.Manual,
}


def jax_mesh(plan: Plan, devices: Iterable[Any] | None = None) -> Mesh:
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
                    else ""
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
    return PartitionSpec(*spec)


def sharding(parameter: Parameter, mesh: Mesh, mode: str = "train") -> NamedSharding:
    """The parameter's; of a placed one, over the devices at its coordinate."""
    placed = parameter.placement
    if placed:
        axis = mesh.axis_names.index(placed.axis)
        part = np.take(mesh.devices, [placed.coordinate], axis=axis)
        mesh = Mesh(part, mesh.axis_names, axis_types=mesh.axis_types)
    return NamedSharding(mesh, partition_spec(parameter.spec(mode)))


def named_shardings(
    plan: Plan, mode: str = "train", like: Any = None, mesh: Mesh | None = None
) -> Any:
    """By name without `like`; else in the shape of its tree, with None where it
    has no array. An array that the plan does not know is an error."""
    mesh = mesh or jax_mesh(plan)
    if like is None:
        return {
            name: sharding(parameter, mesh, mode) for name, parameter in plan.items()
        }

    def one(keys: Any, leaf: Any) -> NamedSharding | None:
        if not is_array(leaf):
            return None
        return sharding(_parameter(plan, keys, leaf), mesh, mode)

    return jax.tree_util.tree_map_with_path(one, like)


def _parameter(plan: Plan, keys: Any, leaf: Any) -> Parameter:
    path = tuple(map(key_text, keys))
    name = plan.name_of(path)
    if name is None:
        shown = plan.separator.join(path)
        near = plan.near(shown)
        raise PlanError(
            f"the plan has no parameter {shown}"
            + (f"; did you mean {near}?" if near else "")
        )
    parameter = plan[name]
    if parameter.shape is not None and tuple(leaf.shape) != parameter.shape:
        raise PlanError(
            f"{name} is {list(parameter.shape)} in the plan and {list(leaf.shape)} here"
        )
    return parameter


def shard(plan: Plan, tree: Any, mode: str = "train", mesh: Mesh | None = None) -> Any:
    """`tree` with its arrays where the plan has them; what is no array stays,
    and so does what is no parameter of a module of flax.nnx."""
    mesh = mesh or jax_mesh(plan)
    if is_nnx_module(tree):
        nnx: Any = sys.modules["flax.nnx"]
        module, parameters, rest = nnx.split(tree, nnx.Param, ...)
        return nnx.merge(module, shard(plan, parameters, mode, mesh), rest)

    def one(keys: Any, leaf: Any) -> Any:
        if not is_array(leaf):
            return leaf
        return jax.device_put(leaf, sharding(_parameter(plan, keys, leaf), mesh, mode))

    return jax.tree_util.tree_map_with_path(one, tree)


def constrain(
    plan: Plan,
    x: jax.Array,
    tensor: str | Spec,
    mode: str = "train",
    mesh: Mesh | None = None,
) -> jax.Array:
    """Inside jit: `x` as the plan has an attention tensor, or by a spec."""
    if isinstance(tensor, str):
        specs = plan.attention(mode)
        if tensor not in specs:
            raise PlanError(f"attention has no tensor {tensor!r}: {', '.join(specs)}")
        spec = specs[tensor]
    else:
        spec = tensor
    mesh = mesh or jax_mesh(plan)
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
    plan: Plan, mode: str = "train", mesh: Mesh | None = None, like: Any = None
) -> Any:
    """ShapeDtypeStructs with shardings, for jax.eval_shape, ahead-of-time
    compilation and restoring: nested dicts by the parts of names, or in the
    shape of `like`."""
    mesh = mesh or jax_mesh(plan)
    if like is not None:

        def one(keys: Any, leaf: Any) -> Any:
            if not is_array(leaf):
                return leaf
            return _abstract(_parameter(plan, keys, leaf), mesh, mode)

        return jax.tree_util.tree_map_with_path(one, like)
    out: dict[str, Any] = {}
    for name, parameter in plan.items():
        *folders, last = name.split(plan.separator)
        at = out
        for folder in folders:
            at = at.setdefault(folder, {})
            if not isinstance(at, dict):
                raise PlanError(f"{name} is below a parameter: pass like=")
        at[last] = _abstract(parameter, mesh, mode)
    return out


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
