"""Models of EasyDeL and MaxText by their configurations, with the shardings that the
frameworks give their parameters. Nothing is allocated.

    easydel("config.json")                          a model of EasyDeL 0.2 or 0.3
    maxtext(["base.yml", "model_name=llama3-8b"])   a model of MaxText
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Sequence
from typing import Any

from shardc import files
from shardc.declared import DeclarationError


def easydel(config: str, task: str = "CAUSAL_LM") -> Any:
    """The module of EasyDeL for a config.json, or for a folder with one. It declares
    its partition rules itself."""
    path = os.path.join(config, "config.json") if os.path.isdir(config) else config
    try:
        kind = files.read_json(path)["model_type"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DeclarationError(f"{path} is no config.json: {error}") from error
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    importlib.import_module("easydel.modules")
    factory = importlib.import_module("easydel.infra.factory")
    nnx = importlib.import_module("flax.nnx")
    if not hasattr(factory.TaskType, task):
        raise DeclarationError(f"EasyDeL has no task {task}")
    try:
        found = factory.registry.get_module_registration(
            getattr(factory.TaskType, task), kind
        )
    except (AssertionError, KeyError, ValueError) as error:
        raise DeclarationError(f"EasyDeL has no {kind} for {task}") from error
    # By its path: of a folder, EasyDeL reads `config.json` or else its own defaults.
    made = found.config.from_pretrained(path)
    return found.module.lazy_init(config=made, rngs=nnx.Rngs(0))


# What does not concern shardings, and needs a cloud or a file.
_QUIET = {
    "run_name": "shardc",
    "hardware": "cpu",
    "enable_checkpointing": "false",
    "dataset_type": "synthetic",
    "skip_jax_distributed_system": "true",
}


def maxtext(settings: Sequence[str], devices: int = 256) -> Any:
    """The parameters of a model of MaxText, as the nested dictionary of its names.
    `settings` are the arguments of its trainer: a file such as base.yml and then
    KEY=VALUE. Their mesh has `devices` simulated devices."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    jax: Any = importlib.import_module("jax")
    with contextlib.suppress(AttributeError, RuntimeError):
        jax.config.update("jax_num_cpu_devices", devices)
    pyconfig = importlib.import_module("maxtext.configs.pyconfig")
    utils = importlib.import_module("maxtext.utils.maxtext_utils")
    creation = importlib.import_module("maxtext.utils.model_creation_utils")
    sharding = importlib.import_module("maxtext.utils.sharding")
    nnx = importlib.import_module("flax.nnx")
    spmd = importlib.import_module("flax.core.spmd")
    given = {one.split("=")[0] for one in settings[1:]}
    more = [f"{key}={value}" for key, value in _QUIET.items() if key not in given]
    config = pyconfig.initialize(["", *settings, *more])
    mesh = utils.get_mesh_from_config(config)
    out: dict[str, Any] = {}
    with spmd.logical_axis_rules(config.logical_axis_rules):
        made = nnx.eval_shape(creation.get_nnx_create_model_fn(config, mesh))
        for path, variable in nnx.to_flat_state(nnx.split(made)[1]):
            if not isinstance(variable, nnx.Param):
                continue
            value = variable.get_value()
            where = sharding.get_nnx_var_named_sharding_with_scan_axis(variable, mesh)
            node = out
            for part in path[:-1]:
                node = node.setdefault(str(part), {})
            node[str(path[-1])] = jax.ShapeDtypeStruct(
                value.shape, value.dtype, sharding=where.get_value()
            )
    return out
