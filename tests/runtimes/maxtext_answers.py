"""MaxText itself: of models in its list, built without memory, the logical
names of every parameter's dimensions and the spec that MaxText gives them,
under its base.yml and its custom meshes and rules."""

import json
import os

import records

os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402

DEVICES = 64
jax.config.update("jax_num_cpu_devices", DEVICES)

import maxtext  # noqa: E402
from flax import nnx  # noqa: E402
from flax.core.spmd import logical_axis_rules  # noqa: E402
from maxtext.configs import pyconfig  # noqa: E402
from maxtext.utils import maxtext_utils, model_creation_utils  # noqa: E402
from maxtext.utils import sharding  # noqa: E402

MODELS = ["llama2-7b", "llama3-8b", "mistral-7b", "gemma2-2b", "gemma3-4b",
          "mixtral-8x7b", "deepseek2-16b", "deepseek3-test", "qwen3-0.6b",
          "qwen3-30b-a3b", "gpt3-52k", "gpt-oss-20b", "llama4-17b-16e"]
# Parallelism as its configurations name it; the rest of the devices is data.
MESHES = [
    {"fsdp": 64},
    {"fsdp": 16, "tensor": 4},
    {"data": 4, "fsdp": 4, "tensor": 4},
    {"fsdp": 8, "expert": 8},
    {"fsdp": 4, "tensor": 2, "expert": 4, "context": 2},
    {"fsdp": 4, "fsdp_transpose": 4, "tensor": 2, "tensor_sequence": 2},
]
CUSTOM = ["pure-fsdp", "ep-as-dp", "shard-exp-on-fsdp"]


def base():
    return os.path.join(os.path.dirname(maxtext.__file__), "configs",
                        "base.yml")


def config_of(model, *more):
    return pyconfig.initialize([
        "", base(), "model_name=" + model, "run_name=x", "hardware=cpu",
        "enable_checkpointing=false", "dataset_type=synthetic",
        "skip_jax_distributed_system=true", *more])


def settings():
    """(model, what the command line adds)"""
    for number, model in enumerate(MODELS):
        for mesh in MESHES:
            if "expert" in mesh and not has_experts(model):
                continue
            sizes = {"data": 1, "fsdp": 1, **mesh}
            yield model, [f"ici_{axis}_parallelism={size}"
                          for axis, size in sizes.items()]
        custom = CUSTOM[number % len(CUSTOM)]
        yield model, ["custom_mesh_and_rule=" + custom,
                      "ici_fsdp_parallelism=-1"]


def has_experts(model):
    return any(word in model for word in ("mixtral", "deepseek", "a3b", "oss",
                                          "llama4"))


def entries(spec):
    return [list(e) if isinstance(e, tuple) else e for e in spec]


def asked(model, more):
    """One case: the mesh, the rules, and each parameter."""
    config = config_of(model, *more)
    mesh = maxtext_utils.get_mesh_from_config(config)
    given = sharding.logical_to_mesh_axes
    said = []

    def heard(names, on, rules=None):
        spec = given(names, on, rules=rules)
        said.append((names, rules, spec))
        return spec
    params = {}
    with logical_axis_rules(config.logical_axis_rules):
        model_state = nnx.split(nnx.eval_shape(
            model_creation_utils.get_nnx_create_model_fn(config, mesh)))[1]
        sharding.logical_to_mesh_axes = heard
        for path, variable in nnx.to_flat_state(model_state):
            if not isinstance(variable, nnx.Param):
                continue
            del said[:]
            named = sharding.get_nnx_var_named_sharding_with_scan_axis(
                variable, mesh).get_value()
            if not said:  # it has no logical names
                continue
            (names, rules, spec), = said
            if spec != named.spec or len(names) != len(
                    variable.get_value().shape):
                continue
            same = [list(rule) for rule in rules] == [
                list(rule) for rule in config.logical_axis_rules]
            if same:
                params["/".join(map(str, path))] = {
                    "logical": list(names), "spec": entries(spec),
                    "shape": list(variable.get_value().shape)}
        sharding.logical_to_mesh_axes = given
    return {"model": model, "settings": more,
            "mesh": {axis: int(size) for axis, size in mesh.shape.items()},
            "rules": json.loads(json.dumps(config.logical_axis_rules)),
            "params": params}


def trained(model, more):
    """By parameter, its shape, the spec in the state that MaxText's trainer makes,
    the sizes of the mesh's axes, and whether JAX accepts the spec."""
    config = config_of(model, *more)
    mesh = maxtext_utils.get_mesh_from_config(config)
    state, _, shardings = maxtext_utils.get_abstract_state(
        config, mesh, model_creation_utils.get_nnx_create_model_fn(config, mesh),
        False)
    params = {path: tuple(variable.get_value().shape)
              for path, variable in nnx.to_flat_state(state)
              if isinstance(variable, nnx.Param)}
    out = {}
    for path, where in nnx.to_flat_state(shardings):
        if path in params:
            shape = params[path]
            out["/".join(map(str, path))] = (
                list(shape), entries(where.spec), dict(mesh.shape),
                is_legal(where, shape))
    return out


def is_legal(sharding_of, shape):
    try:
        sharding_of.check_compatible_aval(shape)
        sharding_of.shard_shape(shape)
    except ValueError:
        return False
    return True


def answers():
    """The record: rules by number, as most cases have the same."""
    made, rules = [], []
    for model, more in settings():
        case = asked(model, more)
        if case["rules"] not in rules:
            rules.append(case["rules"])
        case["rules"] = rules.index(case["rules"])
        made.append(case)
    return {"format": "shardc.runtimes.maxtext/v1",
            "versions": records.versions("maxtext", "flax", "jax"),
            "rules": rules, "cases": made}


def record():
    yield "maxtext/models", answers()
