"""The inputs of a command in a framework's own terms, written as files.

A mesh is `jax.sharding.Mesh`, `AbstractMesh`, PyTorch's `DeviceMesh`, a mapping of
sizes, or what `--mesh` takes; rules are files, packs, or pairs of a pattern and a
PartitionSpec; a model is a module, a tree of shapes, a manifest, or a config.json:

>>> mesh_value({"fsdp": 4, "tp": 2})
'fsdp:4,tp:2'
>>> rules_value([(r"up_proj", (None, "tp"))])["rules"]
[{'match': 'up_proj', 'spec': [None, 'tp']}]
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shardc import files
from shardc.mesh import Mesh


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def mesh_data(mesh: Mesh) -> dict[str, Any]:
    """The data of a mesh file for the mesh of a plan."""
    out: dict[str, Any] = {
        "axes": mesh.sizes,
        "axis_types": {axis.name: axis.type for axis in mesh.axes},
    }
    if mesh.slices > 1:
        out.update(slices=mesh.slices, dcn=dict(zip(mesh.axis_names, mesh.dcn)))
    if mesh.processes > 1:
        out["processes"] = mesh.processes
    return out


def mesh_value(mesh: Any) -> Any:
    """A path or axes such as `dp:2,tp:4` as they are; of any other mesh the axes
    with their sizes as text, or a mesh file's data if an axis is not of type auto.
    TypeError: the value has no axes with names and sizes."""
    if _is_path(mesh):
        return mesh
    if isinstance(mesh, Mesh):
        return mesh_data(mesh)
    types: dict[str, str] = {}
    if isinstance(mesh, Mapping):
        if "axes" in mesh and not isinstance(mesh["axes"], int):
            return mesh  # a mesh file's data
        sizes = dict(mesh)
    elif hasattr(mesh, "mesh_dim_names"):  # torch.distributed.DeviceMesh
        names = mesh.mesh_dim_names
        if not names:
            raise TypeError("the DeviceMesh has no `mesh_dim_names`, which rules need")
        sizes = dict(zip(names, mesh.shape))
    elif hasattr(mesh, "axis_names"):  # JAX's
        shape = mesh.shape
        sizes = (
            dict(shape)
            if isinstance(shape, Mapping)
            else dict(zip(mesh.axis_names, shape))
        )
        for name, kind in zip(sizes, getattr(mesh, "axis_types", None) or ()):
            word = str(getattr(kind, "name", kind)).lower()
            if word != "auto":
                types[str(name)] = word
    else:
        raise TypeError(
            f"{type(mesh).__name__} is no mesh: it has no names of axes; write"
            " mesh={'fsdp': 4, 'tp': 2}, or what `--mesh` takes"
        )
    axes = {str(name): int(size) for name, size in sizes.items()}
    if types:
        return {"axes": axes, "axis_types": types}
    return ",".join(f"{name}:{size}" for name, size in axes.items())


# The keys of which a rules file has one at least.
_OF_RULES_FILES = {"version", "extends", "rules", "axes", "bundles", "register"}


def _entry(entry: Any, pattern: str) -> Any:
    if entry is None or isinstance(entry, str):
        return entry
    if isinstance(entry, Iterable):
        return [str(one) for one in entry]
    raise TypeError(
        f"the spec of {pattern!r} has {entry!r}, which is no name of an axis"
    )


def rules_value(rules: Any) -> Any:
    """Paths and packs as they are; pairs of a pattern and a spec (a PartitionSpec,
    a list, or the name of a bundle) as a rules file's data, in their order."""
    if isinstance(rules, Mapping) and not rules.keys() & _OF_RULES_FILES:
        raise TypeError(
            "rules are tried in their order: write them as pairs, such as"
            f" rules=[({next(iter(rules), 'q_proj')!r}, ('tp', None))]"
        )
    if rules is None or _is_path(rules) or isinstance(rules, Mapping):
        return rules
    if not isinstance(rules, Iterable):
        raise TypeError(
            f"rules are a file, a pack, or pairs of a pattern and a spec, not {rules!r}"
        )
    given = list(rules)
    if all(_is_path(one) for one in given):
        for one in given:
            if re.fullmatch(r"\w+", os.fspath(one)) and not _is_rules(one):
                raise TypeError(
                    f"there is no file {os.fspath(one)!r}; if it is the pattern of a"
                    f" rule, write its spec too: ({os.fspath(one)!r}, ('tp', None))"
                )
        return given
    return {"version": 1, "rules": [_rule(one, i) for i, one in enumerate(given)]}


def _is_rules(path: Any) -> bool:
    return path == "auto" or os.path.exists(path)


def _rule(pair: Any, at: int) -> dict[str, Any]:
    """A pair of a pattern and a spec as a rule of a file. TypeError: it is none;
    the message names its place in the list."""
    if _is_path(pair) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise TypeError(f"rules[{at}] is {pair!r}, no pair of a pattern and a spec")
    pattern, spec = pair
    pattern = getattr(pattern, "pattern", pattern)  # of re.compile
    if not isinstance(pattern, str):
        raise TypeError(f"the pattern of rules[{at}] is {pattern!r}, no text")
    if isinstance(spec, str):
        return {"match": pattern, "spec": spec}
    if not isinstance(spec, Iterable):
        raise TypeError(
            f"the spec of rules[{at}] ({pattern!r}) is {spec!r}: write (None, 'tp'),"
            " one entry a dimension, or () for a replicated parameter"
        )
    return {"match": pattern, "spec": [_entry(entry, pattern) for entry in spec]}


def model_flags(model: Any) -> dict[str, Any]:
    """The model as the keyword `model` (a config.json) or `manifest` (all else)."""
    if isinstance(model, Mapping) and "model_type" in model:
        return {"model": model}
    if (
        isinstance(model, Mapping)
        and "params" in model
        and ("schema" in model or isinstance(model["params"], list))
    ):
        return {"manifest": model}
    if hasattr(model, "to_dict") and hasattr(model, "model_type"):
        return {"model": model.to_dict()}  # a config of transformers
    if not _is_path(model):
        from shardc import manifest

        return {"manifest": manifest.from_model(model)}
    path = os.fspath(model)
    if path.endswith(".json") and os.path.isfile(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            head = file.read(1 << 16)
        if '"model_type"' in head and '"params"' not in head:
            return {"model": path}
    return {"manifest": path}


# The line of a written rules file on which the first rule stands, from 1.
FIRST_RULE = 2


def _text(value: Mapping[str, Any]) -> str:
    """The data as JSON. Each rule has a line of its own, so that the line of a
    finding is the rule's place in the caller's list."""
    if set(value) != {"version", "rules"}:
        return json.dumps(value)
    rules = ",\n".join(json.dumps(rule) for rule in value["rules"])
    return f'{{"version": {value["version"]}, "rules": [\n{rules}\n]}}'


def written(value: Any, folder: str, name: str) -> Any:
    """Data as the path of a file in the folder; anything else as it is."""
    if not isinstance(value, Mapping):
        return value
    return files.scratch(folder, name, _text(value))
