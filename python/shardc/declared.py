"""The shardings that the parameters of a live model declare, as shardc's specs.

    jax.Array, ShapeDtypeStruct    a NamedSharding, or a PartitionSpec in its place
    Flax linen                     with_partitioning, with_logical_partitioning
    flax.nnx                       the metadata `out_sharding` and `sharding_rules`
    Keras                          a LayoutMap
    PyTorch                        the placements of DTensor
    any                            a tree of specs, or a list of (pattern, spec)

Libraries are known by the attributes of their objects, so that none is imported.
What shardc has no spec for is kept with the reason.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from shardc.arrays import key_text
from shardc.mesh import Axis, Mesh, Spec
from shardc.placement import splits_of
from shardc.tree import Leaf, leaves

# (logical axis, mesh axes), the first usable wins.
LogicalRules = Sequence[tuple[str, Any]]


class DeclarationError(ValueError):
    """The model declares no sharding, or one that contradicts itself."""


class Refused(ValueError):
    """One declaration has no spec in shardc; the message has the reason."""


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter and its declared spec: None where it declares nothing, or where
    `refused` has the reason that shardc has no spec for it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    spec: Spec | None
    refused: str = ""


@dataclasses.dataclass(frozen=True)
class Declarations:
    """What a model declares. `axes` is the mesh, empty where none is declared."""

    parameters: tuple[Parameter, ...]
    separator: str
    axes: Mapping[str, int]
    # Of axes that are not `auto`: JAX's `explicit` and `manual`.
    axis_types: Mapping[str, str]


def declarations(
    model: Any,
    shardings: Any = None,
    logical_rules: LogicalRules | None = None,
    mesh: Any = None,
    separator: str = "/",
) -> Declarations:
    """What the parameters of a model declare. `shardings` is a tree of specs with
    the parameters' names, a list of (pattern, spec) of which the first that is
    found in a name counts, or a LayoutMap of Keras."""
    if hasattr(model, "named_parameters"):
        separator = "."
    given = _given(shardings, separator)
    meshes = _Meshes()
    if mesh is not None:
        meshes.add(mesh)
    elif hasattr(shardings, "device_mesh"):
        meshes.add(shardings.device_mesh)
    out: dict[str, Parameter] = {}
    for leaf in leaves(model):
        name = separator.join(leaf.path)
        if name in out:
            raise DeclarationError(
                f"two parameters are named {name!r}: rename one, or pass another"
                " separator (`--separator`)"
            )
        spec, refused = None, ""
        try:
            spec = _declared(name, leaf, given, logical_rules, meshes)
        except Refused as error:
            refused = str(error)
        out[name] = Parameter(name, leaf.shape, leaf.dtype, spec, refused)
    parameters = tuple(out.values())
    return Declarations(parameters, separator, meshes.axes, meshes.types)


def _declared(
    name: str,
    leaf: Leaf,
    given: Callable[[str, Leaf], Any],
    rules: LogicalRules | None,
    meshes: _Meshes,
) -> Spec | None:
    """The spec of one parameter, or None where it declares nothing."""
    found = given(name, leaf)
    if found is None:
        found = _of_holder(leaf.holder, rules)
    for value in (leaf.holder, leaf.value):
        if found is None:
            found = _of_value(value, meshes)
    if found is None:
        return None
    if hasattr(found, "spec") and hasattr(found, "mesh"):
        meshes.add(found.mesh)
        found = found.spec
    entries, rank = len(tuple(found)), len(leaf.shape)
    if entries > rank:
        # An array of JAX refuses it, even if the entries at its end are None.
        raise Refused(
            f"a spec of {entries} entries for {rank} dimensions, which is too long"
        )
    return spec_of(found)


_AXIS_NAME = "which is no letter with letters, digits, `_`, `-` and `.` after it"


def _is_axis(name: str) -> bool:
    """Whether rules and mesh files read it as the name of an axis."""
    return bool(re.fullmatch(r"[A-Za-z][A-Za-z0-9_.\-]*", name)) and name != "null"


def spec_of(declared: Any) -> Spec:
    """The spec of a PartitionSpec, or of a tuple like one, without the entries at
    its end that are None."""
    for member in ("unreduced", "reduced"):
        if getattr(declared, member, None):
            raise Refused(f"`{member}` axes, which a spec of shardc cannot have")
    out: list[Any] = []
    for entry in declared:
        if isinstance(entry, (tuple, list)):
            group = tuple(str(axis) for axis in entry if axis is not None)
            out.append(group if len(group) > 1 else group[0] if group else None)
        elif entry is None or isinstance(entry, str):
            out.append(entry)
        elif "UNCONSTRAINED" in repr(entry).upper():
            raise Refused(
                "an UNCONSTRAINED dimension, whose sharding the compiler chooses"
            )
        else:
            out.append(str(getattr(entry, "name", entry)))
    while out and out[-1] is None:
        out.pop()
    named = [a for e in out if e for a in ((e,) if isinstance(e, str) else e)]
    for axis in named:
        if not _is_axis(axis):
            raise Refused(f"the axis name `{axis}`, {_AXIS_NAME}")
    if len(set(named)) < len(named):
        raise Refused(f"a mesh axis twice in one spec: {', '.join(named)}")
    return tuple(out)


# -- Where a declaration is found ----------------------------------------------


def _of_holder(holder: Any, rules: LogicalRules | None) -> Any:
    """What a box of Flax linen, or a variable of flax.nnx, declares."""
    if hasattr(holder, "names") and hasattr(holder, "unbox"):
        own = getattr(holder, "rules", None)
        if not hasattr(holder, "rules"):  # with_partitioning names mesh axes
            return holder.names
        return _linen_axes(holder.names, own or rules)
    if hasattr(holder, "get_metadata"):
        found = holder.get_metadata()
        names = None
        for key in ("out_sharding", "sharding_names", "sharding"):
            names = names or found.get(key)
        if not names or hasattr(names, "spec"):
            return names or None
        merged = {**dict(rules or ()), **dict(found.get("sharding_rules") or ())}
        return tuple(merged.get(n, n) if isinstance(n, str) else n for n in names)
    return None


def _linen_axes(names: Sequence[Any], rules: Any) -> Any:
    """The mesh axes of logical ones: rules in order, each mesh axis once."""
    if not rules:
        raise Refused(
            f"the logical axes {', '.join(map(str, names))} without logical rules"
        )
    out: list[Any] = [None] * len(names)
    done = [not isinstance(name, str) for name in names]
    used: set[str] = set()
    for logical, axes in rules:
        group = (axes,) if isinstance(axes, str) else tuple(axes or ())
        if logical in names and not used & set(group):
            at = list(names).index(logical)
            if not done[at]:
                out[at], done[at] = group or None, True
                used |= set(group)
    return out


def _of_value(value: Any, meshes: _Meshes) -> Any:
    """What an array declares by itself."""
    if hasattr(value, "placements") and hasattr(value, "device_mesh"):
        return _of_placements(value.placements, meshes.add(value.device_mesh))
    sharding = getattr(value, "sharding", None)
    if sharding is None:
        return getattr(value, "mesh_axes", None)
    if hasattr(sharding, "spec") and hasattr(sharding, "mesh"):
        return None if getattr(sharding.mesh, "empty", False) else sharding
    if type(sharding).__name__ in ("GSPMDSharding", "PositionalSharding"):
        raise Refused(f"a {type(sharding).__name__}, which has no names of axes")
    return None


def _of_placements(placements: Sequence[Any], axes: Mapping[str, int]) -> Spec:
    """The spec that DTensor's placements on a mesh of these axes are. An axis that
    takes every n-th part comes after later axes of the mesh."""
    mesh = Mesh(tuple(Axis(*one) for one in axes.items()), 0)
    splits: list[Any] = []
    for name, placement in zip(axes, placements):
        kind = type(placement).__name__
        if kind == "Replicate":
            splits.append(None)
        elif kind in ("Shard", "_StridedShard"):
            splits.append((placement.dim, getattr(placement, "split_factor", 1)))
        else:
            raise Refused(f"the placement {placement} on `{name}`")
    dims = sorted({split[0] for split in splits if split})
    if not dims:
        return ()
    spec: list[Any] = [None] * (dims[-1] + 1)
    for dim in dims:
        group = [n for n, split in zip(axes, splits) if split and split[0] == dim]
        for order in itertools.permutations(group):
            spec[dim] = order if len(order) > 1 else order[0]
            got = splits_of(tuple(spec), mesh)
            if all(g == s for g, s in zip(got, splits) if s and s[0] == dim):
                break
        else:
            raise Refused(
                f"the placements {tuple(placements)}: of several parts in one"
                " dimension each device holds a shard, which no spec expresses"
            )
    return tuple(spec)


def _given(shardings: Any, separator: str) -> Callable[[str, Leaf], Any]:
    """A lookup in what was passed next to the model."""
    if shardings is None:
        return lambda name, leaf: None
    if hasattr(shardings, "device_mesh") and hasattr(shardings, "keys"):
        return lambda name, leaf: getattr(shardings[name], "axes", None)
    if _is_pattern_list(shardings):
        compiled = [(re.compile(pattern), spec) for pattern, spec in shardings]
        return lambda name, leaf: (
            ()
            if not leaf.shape
            else next(
                (spec for pattern, spec in compiled if pattern.search(name)), None
            )
        )
    if hasattr(shardings, "apply") and not isinstance(shardings, Mapping):
        raise DeclarationError(
            f"an object of {type(shardings).__name__} is no tree of specs: pass what"
            " its `apply` returns"
        )
    named = {separator.join(path): spec for path, spec in _specs(shardings, ())}
    return lambda name, leaf: named.get(name)


def _is_pattern_list(x: Any) -> bool:
    return (
        isinstance(x, (list, tuple))
        and len(x) > 0
        and not hasattr(x, "_fields")
        and all(
            isinstance(one, (list, tuple)) and len(one) == 2 and isinstance(one[0], str)
            for one in x
        )
    )


def is_spec(x: Any) -> bool:
    """Whether it is a sharding or a PartitionSpec, a leaf of a tree of them."""
    return type(x).__name__ == "PartitionSpec" or (
        hasattr(x, "spec") and hasattr(x, "mesh")
    )


def _specs(tree: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if tree is None or is_spec(tree):
        yield path, tree
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _specs(value, (*path, str(key)))
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        for key, value in zip(tree._fields, tree):
            yield from _specs(value, (*path, key))
    elif isinstance(tree, (list, tuple)):
        for index, value in enumerate(tree):
            yield from _specs(value, (*path, str(index)))
    else:
        import jax

        flat = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_spec)[0]
        for keys, value in flat:
            yield (*path, *map(key_text, keys)), value


# -- Meshes ---------------------------------------------------------------------


class _Meshes:
    """The mesh of all declarations: the largest, of which others are a part."""

    def __init__(self) -> None:
        self.axes: dict[str, int] = {}
        self.types: dict[str, str] = {}
        self._known: dict[int, tuple[Any, dict[str, int]]] = {}

    def add(self, mesh: Any) -> dict[str, int]:
        """The axes of a mesh of JAX, Keras or PyTorch, or of a mapping."""
        known = self._known.get(id(mesh))
        if known is not None:
            return known[1]
        axes = axes_of(mesh)
        for name in axes:
            if not _is_axis(name):
                raise DeclarationError(
                    f"the mesh has the axis name `{name}`, {_AXIS_NAME}"
                )
        self._known[id(mesh)] = (mesh, axes)
        both = {**self.axes, **axes}
        if not (
            both == {**axes, **self.axes} and len(both) in (len(axes), len(self.axes))
        ):
            raise DeclarationError(
                f"parameters declare different meshes, {_shown(self.axes)} and"
                f" {_shown(axes)}: declare all of them over one mesh"
            )
        if len(axes) >= len(self.axes):
            self.axes = axes
        for name, kind in zip(axes, getattr(mesh, "axis_types", None) or ()):
            text = str(getattr(kind, "name", kind)).lower()
            if text != "auto":
                self.types[name] = text
        return axes


def axes_of(mesh: Any) -> dict[str, int]:
    """Names and sizes of a mesh, in order; `tp:4,dp:2` is one too."""
    if isinstance(mesh, str):
        return _parsed(mesh)
    if isinstance(mesh, Mapping):
        return {str(name): int(size) for name, size in mesh.items()}
    names = getattr(mesh, "axis_names", None) or getattr(mesh, "mesh_dim_names", None)
    shape = mesh.shape
    if isinstance(shape, Mapping):  # JAX
        return {str(name): int(size) for name, size in shape.items()}
    sizes = [int(size) for size in shape]
    if not names:
        raise DeclarationError(
            f"a DeviceMesh of shape {sizes} has no names: pass `mesh_dim_names`"
        )
    return dict(zip(map(str, names), sizes))


def _parsed(text: str) -> dict[str, int]:
    out = {}
    for part in text.split(","):
        found = re.fullmatch(r"\s*([^\s:=]+)\s*[:=]\s*([0-9]+)\s*", part)
        if not found:
            raise DeclarationError(
                f"`{text}` is no mesh: write axes and sizes, such as dp:2,tp:4"
            )
        out[found[1]] = int(found[2])
    return out


def _shown(axes: Mapping[str, int]) -> str:
    return " ".join(f"{name}={size}" for name, size in axes.items())
