"""What eformer, fjformer and EasyDeL answer at the edges of their functions,
and the public names of the modules that docs/parity.md lists."""

import ast
import functools
import glob
import importlib.util
import json
import math
import os
import random
import sys
import unittest.mock
import warnings

import environment
import records

os.environ["JAX_PLATFORMS"] = "cpu"
warnings.simplefilter("ignore")

import jax  # noqa: E402
import jax.experimental.pjit  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from eformer import escale  # noqa: E402
from eformer.escale.mesh import creation  # noqa: E402
from eformer.escale.partition import manager  # noqa: E402
from eformer.pytree import auto_pytree  # noqa: E402
from jax.sharding import Mesh, PartitionSpec  # noqa: E402

DEVICES = 64
jax.config.update("jax_num_cpu_devices", DEVICES)
CASES = {"canonicalize_dtype": 400, "constraint": 150, "named_tree_map": 40,
         "hash": 40, "create_mesh": 150, "rotary": 20, "repeat": 20}


def package(name):
    return os.path.dirname(importlib.util.find_spec(name).origin)


def earlier_easydel():
    """EasyDeL 0.0.67, the last with flax_modelling_utils; nothing if its
    environment is not made."""
    return next(iter(glob.glob(os.path.join(
        environment.MADE, "sources", "lib", "python*", "site-packages",
        "easydel"))), None)


def loaded(path, **names):
    """A module by its file, because its package imports more than it needs."""
    spec = importlib.util.spec_from_file_location("loaded", path)
    module = importlib.util.module_from_spec(spec)
    vars(module).update(names)
    spec.loader.exec_module(module)
    return module


# This function left jax.experimental.pjit; it is the same one under its name.
jax.experimental.pjit.with_sharding_constraint = \
    jax.lax.with_sharding_constraint
mesh_utils = loaded(os.path.join(package("fjformer"), "partition_utils",
                                 "mesh_utils.py"))


@functools.cache
def function_of(path, *names):
    """Functions of a module of which nothing else is run."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    tree.body = [node for node in tree.body
                 if isinstance(node, ast.FunctionDef) and node.name in names]
    for node in tree.body:
        node.decorator_list, node.returns = [], None
        for argument in (*node.args.args, *node.args.kwonlyargs):
            argument.annotation = None
    scope = {"jax": jax, "jnp": jnp, "math": math, "np": np}
    exec(compile(tree, path, "exec"), scope)
    return [scope[name] for name in names]


# -- Cases: how each is drawn, and what the packages answer -----------------------

DTYPES = ["bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64",
          "uint64", "float16", "bfloat16", "float32", "float64", "complex64",
          "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "int4", "uint4",
          "float8_e4m3fnuz", "float8_e5m2fnuz"]
SAFETENSORS = dict(zip(DTYPES, (
    "BOOL U8 I8 I16 U16 I32 U32 I64 U64 F16 BF16 F32 F64 C64 F8_E4M3 F8_E5M2"
    " F8_E8M0 I4 U4 F8_E4M3FNUZ F8_E5M2FNUZ").split()))


def draw_canonicalize_dtype(rng):
    given = {}
    if rng.random() < 0.5:
        given["inexact"] = rng.random() < 0.4
    if rng.random() < 0.15:
        given["dtype"] = rng.choice(DTYPES)
    else:
        given["args"] = [rng.choice([
            {"dtype": rng.choice(DTYPES)}, {"dtype": rng.choice(DTYPES)}, None,
            True, 3, -7, 2 ** 31 - 1, 2 ** 31, 1.5, -0.25])
            for _ in range(rng.randrange(0, 5))]
    return given


def canonicalize_dtype(given):
    function, = function_of(os.path.join(package("easydel"), "infra",
                                         "utils.py"), "canonicalize_dtype")
    args = [jnp.zeros(1, arg["dtype"]) if isinstance(arg, dict) else arg
            for arg in given.get("args", ())]
    more = {key: given[key] for key in ("inexact",) if key in given}
    if "dtype" in given:
        more["dtype"] = jnp.dtype(given["dtype"])
    return {"dtype": SAFETENSORS[np.dtype(function(*args, **more)).name]}


AXES = ["dp", "fsdp", "tp", "zz"]


def draw_constraint(rng):
    mesh = {axis: rng.choice([1, 2, 3, 4]) for axis in
            rng.sample(AXES[:3], rng.randrange(0, 4))}
    names = list(mesh) * 3 + AXES
    spec = []
    for _ in range(rng.randrange(0, 4)):
        kind = rng.random()
        spec.append(None if kind < 0.3 else rng.choice(names) if kind < 0.8
                    else rng.sample(names, 2))
    return {"shape": [rng.choice([0, 1, 2, 6, 8, 12, 24])
                      for _ in range(rng.randrange(0, 4))],
            "spec": spec, "mesh": mesh, "implementation": "fjformer"}


def entries(spec):
    return [list(e) if isinstance(e, tuple) else e for e in spec]


def constraint(given):
    sizes = given["mesh"]
    spec = PartitionSpec(*(tuple(e) if isinstance(e, list) else e
                           for e in given["spec"]))
    x = jnp.zeros(given["shape"])
    if sizes:
        count = int(np.prod(list(sizes.values())))
        with Mesh(np.array(jax.devices()[:count]).reshape(
                list(sizes.values())), tuple(sizes)):
            out = mesh_utils.with_sharding_constraint(x, spec)
    else:
        out = mesh_utils.with_sharding_constraint(x, spec)
    return {"applied": out is not x, "spec": None if out is x else
            entries(spec)}


LEAF = {"shape": [1], "dtype": "F32"}


def draw_named_tree_map(rng):
    def node(depth):
        kind = rng.random()
        if depth > 2 or (depth and kind < 0.4):
            return None if rng.random() < 0.1 else LEAF
        if depth and kind < 0.6:
            return [node(depth + 1) for _ in range(rng.randrange(0, 12))]
        return {key: node(depth + 1) for key in rng.sample(
            ["b", "a", "B", "10", "9", "é", "_", "layers", "w.x", "~"],
            rng.randrange(1, 5))}
    given = {"tree": node(0)}
    if rng.random() < 0.7:
        given["separator"] = rng.choice(["/", ".", "::", None, ""])
    return given


def named_tree_map(given):
    visited = []
    mesh_utils.named_tree_map(
        lambda name, _: visited.append(name), given["tree"],
        is_leaf=lambda node: node == LEAF, sep=given.get("separator", "/"))
    flat = mesh_utils.flatten_tree(
        given["tree"], is_leaf=lambda node: node == LEAF,
        sep=given.get("separator", "/"))
    assert list(flat) == list(dict.fromkeys(visited))
    return {"names": [list(n) if isinstance(n, tuple) else n for n in visited]}


def draw_hash(rng):
    given = {"text": rng.choice(["", "a", "hello world", "ü", 5, -3, None, True,
                                 2.5, 0.0, "1.0"])}
    if rng.random() < 0.9:
        given["algorithm"] = rng.choice([
            "md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha3_224",
            "sha3_256", "sha3_384", "sha3_512", "blake2b", "blake2s", "MD5",
            "sha-256", "SHA256", "sha3-256", "crc", "", "shake_128", "sha512_256",
            "new", "sha_256"])
    return given


def hash(given):
    return {"decimal": str(manager.get_safe_hash_int(**given))}


def draw_create_mesh(rng):
    sizes = [rng.choice([1, 2, 2, 3, 4]) for _ in range(rng.randrange(1, 4))]
    devices = int(np.prod(sizes))
    if rng.random() < 0.3:
        sizes[rng.randrange(len(sizes))] = -1
    given = {"axis_dims": sizes, "axis_names": ["a", "b", "c"][:len(sizes)],
             "device_count": devices}
    parts = rng.choice([p for p in (1, 2, 3, 4, 6) if devices % p == 0])
    if rng.random() < 0.8:
        given[rng.choice(["process_count", "num_slices"])] = parts
    if rng.random() < 0.4:
        given["dcn_mesh_dims"] = [rng.choice([1, 1, 2, 3, parts, -1])
                                  for _ in sizes]
    return given


class Device:
    device_kind = platform = "cpu"

    def __init__(self, number, processes, slices, of):
        self.id = number
        self.process_index = number // (of // processes)
        self.slice_index = number // (of // slices)


def create_mesh(given):
    creation._cached_mesh_impl.cache_clear()
    count = given["device_count"]
    processes = given.get("process_count", 1)
    devices = [Device(number, processes, given.get("num_slices", 1), count)
               for number in range(count)]
    made = []

    def mesh(array, names, axis_types=None):
        if array.ndim != len(names):
            raise ValueError("a name for each axis is needed")
        made.append(array)

    patches = {"devices": lambda *_: devices,
               "device_count": lambda *_: count,
               "local_device_count": lambda *_: count // processes,
               "process_count": lambda *_: processes}
    dcn = given.get("dcn_mesh_dims")
    with unittest.mock.patch.multiple(jax, **patches), \
            unittest.mock.patch.object(creation, "Mesh", mesh):
        creation.create_mesh(
            tuple(given["axis_dims"]), tuple(given["axis_names"]),
            dcn_mesh_dims=None if dcn is None else tuple(dcn))
    array, = made
    out = {"shape": list(array.shape)}
    if array.size <= 16:
        out["device_ids"] = [device.id for device in array.flat]
    return out


def numbers(rng, shape):
    return np.array([rng.randrange(-64, 65) / 32 for _ in range(
        int(np.prod(shape)))], np.float32).reshape(shape).tolist()


def draw_rotary(rng):
    b, h, s, d = (rng.randrange(1, 4) for _ in range(4))
    length = s + rng.randrange(-1, 2) if s > 1 else s
    table = [rng.choice([1, b]), rng.choice([1, h]), length,
             2 * d if rng.random() < 0.9 else d]
    return {"tensor": numbers(rng, (b, h, s, 2 * d)),
            "sin": numbers(rng, table), "cos": numbers(rng, table)}


def earlier(*names):
    return function_of(os.path.join(earlier_easydel(), "modules",
                                    "flax_modelling_utils.py"), *names)


def rotary(given):
    _, function = earlier("rotate_half", "apply_rotary_pos_emb")
    y = function(*(jnp.array(given[key]) for key in ("tensor", "sin", "cos")))
    return {"y": y.tolist()}


def draw_repeat(rng):
    shape = [rng.randrange(1, 4) for _ in range(4)]
    return {"x": numbers(rng, shape), "n_rep": rng.randrange(-1, 5),
            "layout": "bnsh"}


def repeat(given):
    function, = earlier("repeat_kv_bnsh")
    return {"y": function(jnp.array(given["x"]), given["n_rep"]).tolist()}


def cases(seed, counts):
    """New cases by family, each with the packages' answer: `expect`, or the
    `error` of those that they refuse."""
    out = {}
    for family, count in counts.items():
        rng = random.Random(f"{seed}/{family}")
        out[family] = []
        for _ in range(count):
            given = json.loads(json.dumps(
                globals()["draw_" + family](rng)))
            try:
                answer = {"expect": globals()[family](given)}
            except Exception as error:
                answer = {"error": type(error).__name__}
            out[family].append({"input": given, **answer})
    return out


# -- The public names of the modules ----------------------------------------------

def modules():
    easydel, earlier_one = package("easydel"), earlier_easydel()
    yield "eformer.common_types", os.path.join(package("eformer"),
                                               "common_types.py")
    yield "eformer.escale.partition.manager", os.path.join(
        package("eformer"), "escale", "partition", "manager.py")
    yield "easydel.operations._operation_meta", os.path.join(
        easydel, "operations", "_operation_meta.py")
    yield "fjformer.partition_utils.mesh_utils", mesh_utils.__file__
    if earlier_one:
        yield "easydel.modules.flax_modelling_utils", os.path.join(
            earlier_one, "modules", "flax_modelling_utils.py")


@auto_pytree
class Decorated:
    """A class with what the decorator of OperationMetadata adds."""


# What the decorators and bases of these classes add.
ADDED = {"PartitionAxis": manager.PartitionAxis,
         "PartitionManager": manager.PartitionManager,
         "OperationMetadata": Decorated}


def names_in(path):
    """Functions, classes, constants, methods and fields, without those that
    begin with an underscore; of a class of constants, its fields."""
    with open(path, encoding="utf-8") as file:
        body = ast.parse(file.read()).body
    found = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) \
                else [node.target]
            found |= {t.id for t in targets if isinstance(t, ast.Name)}
        if not isinstance(node, ast.ClassDef):
            continue
        for inner in node.body:
            if isinstance(inner, ast.FunctionDef):
                found.add(f"{node.name}.{inner.name}")
            elif isinstance(inner, ast.AnnAssign):
                found.add(f"{node.name}.{inner.target.id}")
        for name in dir(ADDED.get(node.name)) if node.name in ADDED else ():
            if not hasattr(object, name):
                found.add(f"{node.name}.{name}")
    return sorted(name for name in found
                  if not name.split(".")[-1].startswith("_") or
                  name.endswith("._concatenate_to_cache"))


def names():
    """Those of eformer.escale are what it exports."""
    return {"eformer.escale": sorted(escale.__all__),
            **{module: names_in(path) for module, path in modules()}}


def record():
    assert earlier_easydel(), "make the environment `sources` first"
    used = records.versions("easydel", "eformer", "fjformer", "jax")
    yield "reference/names", {
        "format": "shardc.runtimes.names/v1", "versions": used,
        "earlier": {"easydel": "0.0.67"}, "modules": names()}
    yield "reference/edges", {
        "format": "shardc.runtimes.edges/v1", "versions": used,
        "earlier": {"easydel": "0.0.67"}, "cases": cases(1, CASES)}


if __name__ == "__main__":
    print(json.dumps(names(), indent=1))
    sys.exit()
