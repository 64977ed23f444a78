"""Levanter's own code that shards parameters, taken out of its sources and run
over random configurations: TrainerConfig's properties of the older versions,
MeshConfig of the newer, and haliax's spec of named axes."""

import ast
import os
import random
import sysconfig
import types

import records

NAMES = ["embed", "mlp", "heads", "kv_head", "head_size", "vocab", "layers",
         "position"]
MESH = {"replica": 2, "data": 4, "model": 2}
COUNT = 300


def source(*path):
    root = sysconfig.get_paths()["purelib"]
    with open(os.path.join(root, *path), encoding="utf-8") as file:
        return ast.parse(file.read())


def run(body, names):
    """The names that the statements define, with stand-ins for imports."""
    module = ast.fix_missing_locations(ast.Module(body=body, type_ignores=[]))
    exec(compile(module, "<levanter>", "exec"), names)
    return names


def bare(function):
    """Without what is looked up when it is defined."""
    function.decorator_list, function.returns = [], None
    for argument in (*function.args.args, *function.args.kwonlyargs):
        argument.annotation = None
    return function


def functions(tree, wanted):
    return [bare(node) for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node.name in wanted]


def spec_of():
    """haliax's function of axis names and a mapping."""
    names = run(functions(source("haliax", "partitioning.py"),
                          ("pspec_for_axis", "physical_axis_name")),
                {"ensure_tuple": tuple, "axis_spec_to_shape_dict": tuple,
                 "PartitionSpec": lambda *entries: list(entries)})
    return names["pspec_for_axis"]


def random_mapping(rng, count, axes=("replica", "data", "model")):
    def place():
        if rng.random() < 0.3:
            return rng.sample(axes, rng.randint(1, 2))
        return rng.choice(axes)
    return {name: place() for name in rng.sample(NAMES, count)}


def sometimes(rng, config, key, value, chance=0.5):
    if rng.random() < chance:
        config[key] = value


def older_config(rng):
    config = {"model_axis_size": MESH["model"]}
    sometimes(rng, config, "axis_resources",
              random_mapping(rng, rng.randint(0, 4)))
    sometimes(rng, config, "parameter_axis_resources",
              random_mapping(rng, rng.randint(0, 4)))
    sometimes(rng, config, "tensor_parallel_axes",
              rng.choice([None, rng.sample(NAMES, rng.randint(1, 3))]))
    sometimes(rng, config, "fsdp_axis", rng.choice(
        [None, rng.choice(NAMES), rng.sample(NAMES, rng.randint(1, 3))]))
    sometimes(rng, config, "batch_axis", rng.choice([None, "batch", "embed"]))
    return config


def newer_config(rng):
    config = {"axes": {"replica": MESH["replica"], "data": -1,
                       "model": MESH["model"]}}
    for key in ("shared_mapping", "compute_mapping", "param_mapping"):
        sometimes(rng, config, key, random_mapping(rng, rng.randint(0, 4)))
    sometimes(rng, config, "batch_axis_name", rng.choice([None, "batch"]))
    return config


def older_mapping():
    """A function of a configuration."""
    tree = source("levanter", "trainer.py")
    (trainer,) = (node for node in ast.walk(tree)
                  if isinstance(node, ast.ClassDef)
                  and node.name == "TrainerConfig")
    names = run(functions(trainer, ("compute_axis_mapping",
                                    "parameter_axis_mapping")),
                {"ResourceAxis": types.SimpleNamespace(
                    MODEL="model", DATA="data", REPLICA="replica"),
                 "logger": types.SimpleNamespace(warning=lambda text: None)})
    defaults = {node.target.id: node.value for node in trainer.body
                if isinstance(node, ast.AnnAssign)}

    def default(key):
        try:
            return ast.literal_eval(defaults[key])
        except ValueError:
            return {}  # a factory of an empty dict

    def mapping(config):
        keys = ("axis_resources", "parameter_axis_resources", "batch_axis",
                "tensor_parallel_axes", "fsdp_axis")
        own = types.SimpleNamespace(
            **{key: config.get(key, default(key)) for key in keys})
        own.compute_axis_mapping = names["compute_axis_mapping"](own)
        return names["parameter_axis_mapping"](own)
    return mapping


def newer_mapping():
    import dataclasses
    import functools
    import typing
    tree = source("levanter", "utils", "mesh.py")
    body = [node for node in tree.body if isinstance(
        node, (ast.Assign, ast.AnnAssign, ast.ClassDef))
        or isinstance(node, ast.FunctionDef) and node.name == "_norm"]
    names = {"dataclass": dataclasses.dataclass, "field": dataclasses.field,
             "cached_property": functools.cached_property,
             "ResourceMapping": dict, "prod": None, "__name__": "mesh"}
    names.update({name: getattr(typing, name) for name in (
        "Union", "Sequence", "Tuple", "Mapping", "Dict")})
    # Data classes look their module up.
    import sys
    sys.modules["mesh"] = types.ModuleType("mesh")
    made = run(body, names)
    return lambda config: made["MeshConfig"](**config).resolved_param_mapping


def cases(config_of, mapping_of):
    rng, spec = random.Random(16), spec_of()
    for _ in range(COUNT):
        config = config_of(rng)
        mapping = mapping_of(config)
        params = []
        for _ in range(6):
            dims = rng.sample(NAMES, rng.randint(1, 3))
            params.append({"names": dims, "spec": [
                list(entry) if isinstance(entry, tuple) else entry
                for entry in spec(dims, mapping)]})
        yield {"config": config, "params": params}


def answers(package, config_of, mapping_of):
    return {"format": "shardc.runtimes.levanter/v1",
            "versions": records.versions(*package), "mesh": MESH,
            "cases": list(cases(config_of, mapping_of))}


def asked():
    return answers(("levanter", "haliax"), older_config, older_mapping())


def record():
    yield "levanter/trainer", asked()
