"""New inputs for the commands that docs/parity.md lists, and what live eformer and
fjformer return for them.

A row has three functions: draw_ROW makes an input, ROW returns what the packages
answer, and command_ROW what the program writes. Both answers are plain data. A
command that the program refuses raises Refused.

Where the answers differ on purpose, the program's must be that of the packages
with groups flattened (`flattened`), or differs_ROW names the difference."""

import contextlib
import functools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest.mock

import eformer_answers
import reference_rows
from eformer_answers import mesh_of, plain, tuples
from reference_rows import AXES, axis_of, draw_axes, draw_tree, tree_of

import jax
import jax.numpy as jnp
import numpy as np
from eformer import common_types
from eformer.escale import (
    PartitionAxis, PartitionManager, get_corrected_named_sharding,
    match_partition_rules)
from eformer.escale.partition import constraints
from eformer.escale.partition import manager as manager_module
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from safetensors.flax import load_file, save_file

import records

sys.path.insert(0, os.path.join(records.ROOT, "python"))
import product
from shardc import import_python as importer
from product import spec, strings
from reference_cases import BIN

MODES = {"train": common_types.MODE_TRAIN, "prefill": common_types.MODE_PREFILL,
         "decode": common_types.MODE_DECODE, "insert": common_types.MODE_INSERT}
BUNDLES = sorted(name for name, value in vars(common_types).items()
                 if isinstance(value, type) and name != "DynamicShardingAxes" and
                 issubclass(value, tuple) and hasattr(value, "axes"))
# The tokens by each of their names: HEAD, TP, TENSOR_PARALLEL, ...
TOKENS = {name: value for name, value in vars(common_types).items()
          if isinstance(value, str) and name.isupper() and
          not name.startswith(("MODE", "_"))}


class Refused(Exception):
    """What the program prints for an input that it does not accept."""


@functools.cache
def folder():
    return tempfile.TemporaryDirectory()


def path(name):
    return os.path.join(folder().name, name)


def written(name, value):
    with open(path(name), "w", encoding="utf-8") as file:
        json.dump(value, file)
    return path(name)


def run(*words, stdin=None):
    done = subprocess.run([BIN, *words], input=stdin, capture_output=True,
                          encoding="utf-8", timeout=60, check=False)
    if done.returncode not in (0, 1, 2):
        raise RuntimeError((words, done.returncode, done.stderr))
    if done.returncode:
        raise Refused(done.stderr)
    return done.stdout


def asked(*words):
    """What a command writes in JSON, without a project's file."""
    return json.loads(run(*words, "--no-project", "--format", "json"))


def rules_of(fields, **more):
    return written("rules.yaml", {"version": 1, "separator": "/",
                                  "axes": fields, **more})


EFORMER = {"policy": {"compat": "eformer"}}


def draw_entry(rng):
    kind = rng.random()
    names = sorted(TOKENS)
    if kind < 0.15:
        return rng.choice([None, "_", "EMPTY"])
    if kind < 0.75:
        name = rng.choice(names)
        return name if rng.random() < 0.7 else TOKENS[name]
    return rng.sample(names, rng.randrange(1, 4))


def meant(entry):
    """An entry as eformer takes it, by the constants of its module."""
    if isinstance(entry, list):
        return tuple(map(meant, entry))
    return TOKENS.get(entry, entry)


@contextlib.contextmanager
def flattened():
    """eformer with groups that arise by resolution flattened, and nulls in groups
    left out."""
    resolve_axis = PartitionAxis.resolve_axis

    def flat(self, axes, mode):
        return tuples(spec(plain(resolve_axis(self, axes, mode))))
    with unittest.mock.patch.object(PartitionAxis, "resolve_axis", flat):
        yield


def written_twice(given, _theirs, ours):
    """Whether an axis is written twice in a group, or comes to be."""
    return "repeated-early" if "twice" in ours.get("error", "") and any(
        len(set(strings(entry))) < len(list(strings(entry)))
        for entry in given["groups"]) else None


# -- resolve ----------------------------------------------------------------------

def draw_resolve(rng):
    given = {"fields": draw_axes(rng, 12)}
    if rng.random() < 0.25:
        given["axes"] = rng.choice(BUNDLES)
        given["shape"] = [rng.choice([1, 1, 2, 8]) for _ in range(4)]
    else:
        given["axes"] = [draw_entry(rng) for _ in range(rng.randrange(1, 5))]
        if rng.random() < 0.3:
            given["shape"] = [rng.choice([1, 1, 2, 8]) for _ in given["axes"]]
            given["mode_dim"] = rng.randrange(len(given["axes"]))
        else:
            given["mode"] = rng.choice(sorted(MODES))
    return given


def resolved(manager, given):
    """The spec, and the mode where it is known."""
    if isinstance(given["axes"], str):
        bundle = getattr(common_types, given["axes"])
        return manager.resolve(axes=bundle, shape=tuple(given["shape"]))
    return manager.resolve(
        axes=tuple(map(meant, given["axes"])),
        mode=given["mode_dim"] if "mode_dim" in given else
        MODES[given["mode"]], shape=tuple(given.get("shape", ())))


def resolve(given):
    out = resolved(PartitionManager(axis_of(given["fields"])), given)
    return {"spec": plain(out), "names": sorted(
        constraints.get_names_from_partition_spec(out))}


def words_of(given):
    axes = given["axes"]
    words = [axes if isinstance(axes, str) else json.dumps(axes)]
    if "mode" in given:
        words += ["--mode", given["mode"]]
    if "mode_dim" in given:
        words += ["--mode-dim", str(given["mode_dim"])]
    if "shape" in given:
        words += ["--shape", ",".join(map(str, given["shape"]))]
    return words


def command_resolve(given):
    made = asked("resolve", *words_of(given), "--axis-names", "--rules",
                 rules_of(given["fields"], **EFORMER))
    return {"spec": made["spec"], "names": made["names"]}


# -- PartitionManager.shard, with the correction that it makes ---------------------

def draw_shard(rng):
    given = draw_resolve(rng)
    names = rng.sample(AXES[:5], rng.randrange(1, 4))
    given["mesh"] = dict(zip(names, draw_sizes(rng, names)))
    rank = 4 if isinstance(given["axes"], str) else len(given["axes"])
    given["shape"] = [rng.choice([1, 2, 4, 6, 8, 12, 48]) for _ in range(
        max(1, rank + rng.choice([0, 0, 0, 0, -1, 1])))]
    given.pop("mode_dim", None)
    if not isinstance(given["axes"], str):
        given.setdefault("mode", "train")
    return given


def shard(given):
    """The spec that reaches JAX."""
    manager = PartitionManager(axis_of(given["fields"]))
    seen = []

    def constraint(x, spec):
        seen.append(spec)
        return jax.lax.with_sharding_constraint(
            x, NamedSharding(mesh, spec)) if spec else x
    mesh = mesh_of(given["mesh"])
    bundle = isinstance(given["axes"], str)
    with mesh, unittest.mock.patch.object(
            manager_module, "with_sharding_constraint", constraint):
        jax.eval_shape(
            lambda x: manager.shard(
                x, **({"dynamic_axes": bundle_of(given["axes"])} if bundle else {
                    "axes": tuple(map(meant, given["axes"])),
                    "mode": MODES[given["mode"]]})),
            jax.ShapeDtypeStruct(tuple(given["shape"]), np.float32))
    return {"spec": plain(seen[0])}


def bundle_of(name):
    bundle = getattr(common_types, name)
    return common_types.DynamicShardingAxes(axes=bundle.axes, mode=bundle.mode)


def command_shard(given):
    sizes = ",".join(f"{axis}:{size}" for axis, size in given["mesh"].items())
    made = asked("resolve", *words_of(given), "--mesh", sizes, "--illegal",
                 "drop", "--rules", rules_of(given["fields"], **EFORMER))
    return {"spec": made["spec"]}


# -- PartitionAxis as JSON, and the axis rules of a rules file ----------------------

def draw_import_eformer(rng):
    given = {"fields": draw_axes(rng, 27), "manager": rng.random() < 0.5}
    paxis = axis_of(given["fields"])
    given["json"] = PartitionManager(paxis).to_json() if given["manager"] else \
        json.dumps(paxis.to_dict())
    given["groups"] = [plain(value) for value in paxis.to_dict().values()]
    return given


def fields_of(paxis):
    return {name: spec([plain(value)])[0]
            for name, value in paxis.to_dict().items()}


def import_eformer(given):
    return fields_of(axis_of(given["fields"]))


def command_import_eformer(given):
    made = json.loads(run("import", "eformer", "-", "--format", "json",
                          stdin=given["json"]))
    return every_field(made.get("axes", {}))


differs_import_eformer = written_twice


def draw_rules_resolved(rng):
    return {"fields": draw_axes(rng, 27)}


rules_resolved = import_eformer


def command_rules_resolved(given):
    made = asked("show", "rules", "--resolved", "--rules", rules_of(given["fields"]))
    return {name + "_axis": value for name, value in made["axes"].items()}


def differs_rules_resolved(_given, theirs, ours):
    """A default that names an axis twice is left out, since no file may have it."""
    wanted = {name: value for name, value in theirs["expect"].items()
              if len(set(strings([value]))) == len(list(strings([value])))}
    return "repeated-early" if ours.get("expect") == wanted else None


def draw_export_eformer(rng):
    return {"fields": draw_plan_axes(rng)}


export_eformer = import_eformer


def command_export_eformer(given):
    """Read again by eformer."""
    mesh_of_all = ",".join(f"{axis}:1" for axis in AXES)
    made = json.loads(run(
        "export", "eformer", "--rules",
        rules_of(given["fields"], rules=[{"match": "", "spec": []}]),
        "--mesh", mesh_of_all, "--manifest", manifest({"a": [1]}),
        "--no-project"))
    return fields_of(PartitionAxis.from_dict(tupled(made["paxis"])))


def tupled(fields):
    return {name: tuples(value) for name, value in fields.items()}


def every_field(axes):
    """All fields of axis rules of a rules file, by eformer's own defaults."""
    return fields_of(axis_of({
        name if name.endswith("_axis") else name + "_axis": value
        for name, value in axes.items()}))


def manifest(shapes, name="manifest.json"):
    return written(name, {
        "schema": "shardc.manifest/v1", "separator": "/",
        "params": [{"name": key, "shape": shape, "dtype": "F32"}
                   for key, shape in shapes.items()]})


# -- hash_fn ------------------------------------------------------------------------

def draw_fingerprint(rng):
    first = draw_axes(rng, 6)
    second = dict(first)
    if rng.random() < 0.8:
        field = rng.choice(sorted(product.FIELDS))
        second[field] = rng.choice([None, *AXES, ["dp", "fsdp"], ["fsdp", "dp"]])
    # A list of one axis is this axis; only the hash of a string differs.
    return {name: {field: spec([value])[0] for field, value in fields.items()}
            for name, fields in (("first", first), ("second", second))}


def fingerprint(given):
    """Whether two tables are one to hash_fn."""
    tables = [axis_of(given[name]) for name in ("first", "second")]
    # The reference keeps a null in a group that it derives from others, which
    # names no axis: (None, "dp") is "dp".
    return {"same": len(set(map(hash, tables))) == 1 or without_nulls(
        tables[0]) == without_nulls(tables[1])}


def without_nulls(table):
    return {field: spec([[one for one in value if one is not None]])[0]
            if isinstance(value, (list, tuple)) else value
            for field, value in fields_of(table).items()}


def command_fingerprint(given):
    made = json.loads(run("eval", "partition_axis", stdin=json.dumps(
        [{"partition_axis": given[name]} for name in ("first", "second")])))
    return {"same": len({one["result"]["fingerprint"] for one in made}) == 1}


def draw_sizes(rng, names):
    """Sizes of axes, for the devices that there are."""
    sizes = []
    for _ in names:
        sizes.append(rng.choice([1, 2, 2, 3, 4]))
        if np.prod(sizes) > 32:
            sizes[-1] = 1
    return sizes


# -- Meshes -------------------------------------------------------------------------

def draw_mesh(rng):
    names = rng.sample(["dp", "fsdp", "tp", "sp", "ep", "a"], rng.randrange(1, 5))
    sizes = draw_sizes(rng, names)
    devices = int(np.prod(sizes))
    if rng.random() < 0.3:
        sizes[rng.randrange(len(sizes))] = -1
    if rng.random() < 0.1:
        devices += rng.choice([-1, 1, 2])
    processes = rng.choice([n for n in (1, 1, 2, 3, 4) if devices % n == 0])
    return {"mesh": dict(zip(names, sizes)), "devices": devices,
            "processes": processes, "device": rng.randrange(max(1, devices)),
            "axes": rng.sample(names, rng.randrange(1, len(names) + 1))}


def mesh(given):
    """The mesh, its part in a process, and where a device is."""
    creation = eformer_answers.creation
    creation._cached_mesh_impl.cache_clear()
    made = reference_rows.on_devices(
        given["devices"], lambda: creation.parse_mesh_from_string(
            ",".join(f"{name}:{size}" for name, size in given["mesh"].items()),
            tuple(given["mesh"])))
    sizes = made["mesh"]
    if int(np.prod(list(sizes.values()))) != given["devices"]:
        raise ValueError("a mesh of other devices")
    with Mesh(np.array(jax.devices()[:given["devices"]]).reshape(
            list(sizes.values())), tuple(sizes)):
        size = constraints.get_axes_size_in_mesh(tuple(given["axes"]))
        names = constraints.get_mesh_axis_names()
    return {"names": names, "sizes": list(sizes.values()), "part": size,
            "host": host_mesh(sizes, given),
            "index": submesh_index(sizes, given)}


def host_mesh(sizes, given):
    """Nothing where a process holds no part of the mesh that is one."""
    with contextlib.suppress(ValueError):
        return list(eformer_answers.creation.calculate_host_mesh_shape(
            tuple(sizes.values()), given["devices"] // given["processes"],
            given["processes"]))


def submesh_index(sizes, given):
    """get_submesh_device_index for one device: its sums and products of
    axis_index and psum."""
    where = dict(zip(sizes, np.unravel_index(
        given["device"], list(sizes.values())), strict=True))
    with unittest.mock.patch.multiple(
            jax.lax, axis_index=lambda axis_name: int(where[axis_name]),
            psum=lambda _, axis_name: sizes[axis_name]):
        return constraints.get_submesh_device_index(tuple(given["axes"]))


def command_mesh(given):
    text = ",".join(f"{name}:{size}" for name, size in given["mesh"].items())
    words = ["show", "mesh", "--mesh", text, "--devices", str(given["devices"])]
    made = asked(*words, "--processes", str(given["processes"]))
    place = asked(*words, "--device", str(given["device"]))["place"]
    sizes = {axis["name"]: axis["size"] for axis in made["axes"]}
    index = part = 0
    for axis in given["axes"]:
        index = index * sizes[axis] + place["coordinates"][axis]
        part = (part or 1) * sizes[axis]
    return {"names": list(sizes), "sizes": list(sizes.values()), "part": part,
            "host": made["host_mesh"], "index": index}


# -- attention ------------------------------------------------------------------------

def draw_attention_command(rng):
    given = reference_rows.draw_attention_shardings(rng)
    given["layout"] = rng.choice(["bthd", "bhtd"])
    given["mode"] = rng.choice(sorted(MODES))
    return given


def attention_command(given):
    return reference_rows.attention_shardings(
        {**given, "mode": MODES[given["mode"]]})


def command_attention_command(given):
    words = ["resolve", "attention", "--mode", given["mode"], "--layout", given["layout"],
             "--rules", rules_of(given["partition_axis"], **EFORMER)]
    if given["qkv_mni_sharding"]:
        words.append("--mni")
    if given["softmax_aux_ndim"] is not None:
        words += ["--softmax-aux-rank", str(given["softmax_aux_ndim"])]
    return {"softmax_aux": None, **asked(*words)}


# -- plan ------------------------------------------------------------------------------

def draw_plan_axes(rng):
    """Axis rules that the specs of attention can have together."""
    pools = (("batch_axis", ["dp", "fsdp"]), ("decode_batch_axis", ["dp"]),
             ("query_sequence_axis", ["sp"]), ("key_sequence_axis", ["sp"]),
             ("head_axis", ["tp", "ep"]), ("kv_head_axis", ["tp"]),
             ("decode_head_axis", ["ep", "tp"]), ("hidden_state_axis", ["x"]),
             ("mlp_intermediate_axis", ["tp", "x"]), ("vocab_axis", ["x", "tp"]),
             ("decode_key_sequence_axis", ["sp"]))
    return {field: rng.choice([None, pool[0], [rng.choice(pool)], pool])
            for field, pool in rng.sample(pools, rng.randrange(0, 6))}


def draw_plan(rng):
    names = sorted(set(TOKENS) - {"EXPERT_GATE"})

    def one_spec():
        kind = rng.random()
        if kind < 0.2:
            return rng.choice(BUNDLES)
        return [None if rng.random() < 0.3 else rng.choice(names)
                if rng.random() < 0.8 else rng.sample(names, 2)
                for _ in range(rng.randrange(0, 4))]
    tree = {}
    for name in rng.sample(["q/kernel", "k/kernel", "q/bias", "mlp/up", "norm",
                            "emb/table", "lm", "s"], rng.randrange(1, 5)):
        tree[name] = [rng.choice([1, 2, 4, 6, 8, 12]) for _ in range(
            rng.randrange(0, 5))]
    rules = [{"match": rng.choice(["kernel$", "^q", "bias", "k/", "mlp|norm", "e",
                                   "^lm$", "[a-k]/"]), "spec": one_spec()}
             for _ in range(rng.randrange(0, 3))]
    axes = rng.sample(AXES, rng.randrange(2, 6))
    return anchored({"fields": draw_plan_axes(rng), "tree": tree,
                     "mesh": dict(zip(axes, [2, *draw_sizes(rng, axes[1:])])),
                     "rules": [*rules, {"match": ".*", "spec": one_spec()}]})


def anchored(given):
    """With a parameter that is sharded: `plan` refuses rules that shard nothing,
    and those of which none but the last matches."""
    axis = next(iter(given["mesh"]))
    return {**given, "tree": {**given["tree"], "anchor": [12]},
            "mesh": {**given["mesh"], axis: 2}, "rules": [
                {"match": "^anchor$", "spec": [[axis]]}, *given["rules"]]}


def specs_in(manager, given, mode):
    """The rules with specs for a mode. A bundle without a mode of its own, which is
    that of an activation's shape, has the plan's."""
    out = []
    for rule in given["rules"]:
        axes, now = rule["spec"], MODES[mode]
        if isinstance(axes, str):
            bundle = getattr(common_types, axes)
            axes, now = bundle.axes, now if isinstance(bundle.mode, int) else \
                bundle.mode
        out.append((rule["match"], manager.resolve(
            axes=tuple(map(meant, axes)), mode=now)))
    return out


def plan(given):
    manager = PartitionManager(axis_of(given["fields"]))
    out = {}
    with mesh_of(given["mesh"]):
        for name, shape in given["tree"].items():
            for mode in MODES:
                rules = specs_in(manager, given, mode)
                found = match_partition_rules(
                    rules, {name: jax.ShapeDtypeStruct(tuple(shape), np.float32)})
                out[f"{name} in {mode}"] = plain(get_corrected_named_sharding(
                    tuple(shape), found[name]).spec)
    return out


def command_plan(given, compat="eformer"):
    sizes = ",".join(f"{axis}:{size}" for axis, size in given["mesh"].items())
    made = json.loads(run(
        "plan", "-q", "--no-project", "--compat", compat, "--mesh", sizes,
        "--rules", rules_of(given["fields"], rules=given["rules"]),
        "--manifest", manifest(given["tree"])))["params"]
    return {f"{name} in {mode}": param.get("modes", {}).get(mode, param)["spec"]
            for name, param in made.items() for mode in MODES}


def draw_plan_fjformer(rng):
    def one_spec():
        axes = rng.sample(["dp", "fsdp", "tp", "sp"], 4)
        return [rng.choice([None, axes.pop(), [axes.pop()]])
                for _ in range(rng.randrange(0, 3))]
    given = draw_plan(rng)
    return anchored({**given, "fields": {}, "mesh": {
        axis: rng.choice([1, 2]) for axis in ("dp", "fsdp", "tp", "sp")},
        "rules": [{"match": rule["match"], "spec": one_spec()}
                  for rule in given["rules"][1:]]})


def plan_fjformer(given):
    """Specs, of which each is one that JAX accepts for its array."""
    found = reference_rows.mesh_utils.match_partition_rules(
        [(rule["match"], PartitionSpec(*tuples(rule["spec"])))
         for rule in given["rules"]],
        {name: jax.ShapeDtypeStruct(tuple(shape), np.float32)
         for name, shape in given["tree"].items()})
    on = mesh_of(given["mesh"])
    for name, shape in given["tree"].items():
        sharding = NamedSharding(on, found[name])
        sharding.check_compatible_aval(tuple(shape))
        sharding.shard_shape(tuple(shape))
    return {f"{name} in {mode}": plain(found[name])
            for name in given["tree"] for mode in MODES}


def command_plan_fjformer(given):
    return command_plan(given, "fjformer")


# -- weight_decay: ------------------------------------------------------------------

def draw_weight_decay(rng):
    return {"exclusions": [rng.choice(["^a", "kernel$", "bias", "norm", "[a-m]",
                                       "(q|k)_proj", "layers/1", "attn/.*"])
                           for _ in range(rng.randrange(0, 4))],
            "tree": draw_tree(rng)}


def weight_decay(given):
    return reference_rows.get_weight_decay_mask(given)["mask"]


def shapes_of(given):
    """The leaves by name; nothing where two have one name."""
    flat, _ = jax.tree_util.tree_flatten_with_path(tree_of(given["tree"]))
    return {jax.tree_util.keystr(where, simple=True, separator="/"):
            list(leaf.shape) for where, leaf in flat}


def command_weight_decay(given):
    shapes = shapes_of(given)
    if not shapes:
        return {}
    made = json.loads(run(
        "plan", "-q", "--no-project", "--mesh", "dp:1", "--rules",
        rules_of({}, rules=[{"match": "", "spec": []}],
                 weight_decay={"exclude": given["exclusions"]}),
        "--manifest", manifest(shapes)))["params"]
    return {name: param["weight_decay"] for name, param in made.items()}


# -- manifest: flatten_tree ------------------------------------------------------------

def draw_manifest(rng):
    return {"tree": draw_tree(rng)}


def manifest_tree(given):
    flat = reference_rows.mesh_utils.flatten_tree(tree_of(given["tree"]), sep="/")
    return {"leaves": {name: list(leaf.shape) for name, leaf in flat.items()}}


draw_manifest_tree = draw_manifest


def leaf(node):
    if isinstance(node, dict) and "$shape" in node:
        return {"shape": node["$shape"], "dtype": "F32"}
    if isinstance(node, dict):
        return {key: leaf(value) for key, value in node.items()}
    return list(map(leaf, node))


def command_manifest_tree(given):
    made = asked("show", "manifest", "--manifest", written("tree.json", leaf(
        given["tree"])))
    return {"leaves": {one["name"]: one["shape"] for one in made["params"]}}


# -- split, merge and reshard: make_shard_and_gather_fns -----------------------------

SHARDED = ({"dp": 2, "tp": 2}, {"tp": 4}, {"fsdp": 2, "tp": 3}, {"dp": 8})
DTYPES = ("float32", "int32", "bfloat16", "bool", "float16")
TENSORS = 10
IN_ONE = {"shard_and_gather": TENSORS}  # cases that are drawn together


def draw_shard_and_gather(rng):
    first, second = rng.choice(SHARDED), rng.choice(SHARDED)
    return {"tensors": {f"w{number}": {
        "shape": rng.choice([[24], [24, 48], [48, 24], [1, 24, 24]]),
        "dtype": rng.choice(DTYPES), "seed": rng.randrange(2 ** 32),
        "specs": [draw_legal(rng, mesh) for mesh in (first, second)]}
        for number in range(TENSORS)}, "meshes": [first, second]}


def draw_legal(rng, mesh):
    """For the last dimensions, which every product of the sizes divides."""
    axes = rng.sample(list(mesh), rng.randrange(0, len(mesh) + 1))
    return [axes] if len(axes) == 1 or rng.random() < 0.5 else [
        [axis] for axis in axes]


def array_of(tensor):
    rng = np.random.default_rng(tensor["seed"])
    return rng.integers(0, 256, tensor["shape"]).astype(jnp.dtype(
        tensor["dtype"]))


def spec_of(tensor, number):
    """The spec for the dimensions that are drawn."""
    rank, entries = len(tensor["shape"]), tensor["specs"][number]
    if len(entries) > rank:
        entries = [sum(entries, [])]
    return [None] * (rank - len(entries)) + [entry or None for entry in entries]


@functools.cache
def shard_and_gather_functions(sizes, entries):
    count = int(np.prod([size for _, size in sizes]))
    on = Mesh(np.array(jax.devices()[:count]).reshape(
        [size for _, size in sizes]), tuple(name for name, _ in sizes))
    shard_one, gather_one = constraints.make_shard_and_gather_fns(
        {"w": PartitionSpec(*entries)}, on)
    return shard_one["w"], gather_one["w"]


def bytes_of(array):
    return [list(array.shape), np.ascontiguousarray(array).tobytes().hex()]


def shard_and_gather(given):
    """Each device's part under both specs, and the tensor that is gathered."""
    out = {}
    for name, tensor in given["tensors"].items():
        array = jnp.asarray(array_of(tensor))
        for number, sizes in enumerate(given["meshes"]):
            shard_one, gather_one = shard_and_gather_functions(
                tuple(sizes.items()), tuples(spec_of(tensor, number)))
            array = shard_one(jnp.asarray(np.asarray(array)))
            for part in array.addressable_shards:
                out[f"{number}/{part.device.id}/{name}"] = bytes_of(
                    np.asarray(part.data))
        out[name] = bytes_of(gather_one(array))
    return out


def plan_of(given, number):
    rules = rules_of({}, rules=[
        {"match": f"^{name}$", "spec": spec_of(tensor, number)}
        for name, tensor in given["tensors"].items()])
    sizes = ",".join(f"{axis}:{size}" for axis, size in
                     given["meshes"][number].items())
    run("plan", "-q", "--no-project", "--unmatched", "replicate", "--mesh",
        sizes, "--rules", rules, "--manifest", path("whole.safetensors"), "-o",
        path(f"plan{number}.json"))
    return path(f"plan{number}.json")


def command_shard_and_gather(given):
    save_file({name: array_of(tensor) for name, tensor in given[
        "tensors"].items()} | {"anchor": np.zeros(24, np.float32)},
        path("whole.safetensors"))
    given["tensors"]["anchor"] = {
        "shape": [24], "specs": [[[next(iter(mesh))]] for mesh in given["meshes"]]}
    try:
        plans = [plan_of(given, number) for number in (0, 1)]
    finally:
        del given["tensors"]["anchor"]
    out = {}
    for number in (0, 1):
        shutil.rmtree(path(f"pieces{number}"), ignore_errors=True)
        words = ("checkpoint", "reshard", path("pieces0")) if number else \
            ("checkpoint", "split", "--checkpoint", path("whole.safetensors"))
        run(*words, "-q", "--no-sync", "--plan", plans[number], "--output",
            path(f"pieces{number}"))
        devices = int(np.prod(list(given["meshes"][number].values())))
        for device in range(devices):
            pieces = load_file(path(f"pieces{number}/device-{device:05}.safetensors"))
            out.update({f"{number}/{device}/{name}": bytes_of(piece)
                        for name, piece in pieces.items() if name != "anchor"})
    run("checkpoint", "merge", path("pieces1"), "-q", "--no-sync", "--output",
        path("merged.safetensors"))
    out.update({name: bytes_of(array) for name, array in load_file(
        path("merged.safetensors")).items() if name != "anchor"})
    return out


# -- shardc.import_python ---------------------------------------------------------------

MODE_NAMES = ["MODE_TRAIN", "MODE_PREFILL", "MODE_DECODE", "MODE_INSERT"]
HEADER = """from typing import ClassVar
from eformer.common_types import *
from eformer.common_types import DynamicShardingAxes
from eformer.escale import PartitionAxis, PartitionManager
from jax.sharding import PartitionSpec
"""


def draw_import_python(rng):
    lines, own = [], []

    def rule():
        return rng.choice([
            rng.choice(AXES), rng.choice(sorted(product.FIELDS)),
            rng.choice(sorted(TOKENS.values())), [rng.choice(AXES)],
            [rng.choice(sorted(product.FIELDS)), rng.choice(AXES)]])
    for number in range(rng.randrange(0, 3)):
        name = f"__OWN{number}__"
        more = ""
        if rng.random() < 0.4:
            more = f", generation_axis_rule={rule()!r}"
        lines.append(f"PartitionAxis.register({name!r}, {rule()!r}{more})")
        own.append(repr(name))
    fields = ", ".join(f"{field}={tuples(value)!r}" for field, value in
                       draw_axes(rng, 6).items())
    lines.append(f"axes = PartitionAxis({fields})")
    lines.append("manager = PartitionManager(axes)")
    names = [name for name in sorted(TOKENS) if name != "_"] + own

    def listed():
        return "[" + ", ".join(
            "None" if rng.random() < 0.2 else rng.choice(names)
            if rng.random() < 0.8 else
            f"[{', '.join(rng.sample(names, rng.randrange(1, 3)))}]"
            for _ in range(rng.randrange(1, 4))) + "]"
    classes = list(BUNDLES)
    for number in range(rng.randrange(0, 3)):
        classes.append(f"Own{number}")
        lines += [f"class Own{number}(DynamicShardingAxes):",
                  f"    axes: ClassVar = {listed()}",
                  f"    mode: ClassVar = {rng.choice(MODE_NAMES)}"]
    rules = []
    for number in range(rng.randrange(1, 5)):
        mode = rng.choice(MODE_NAMES)
        kind = rng.random()
        made = (
            f"manager.resolve({listed()}, {mode})" if kind < 0.3 else
            f"manager.resolve(axes={listed()}, mode={mode})" if kind < 0.5 else
            f"axes.resolve_spec({listed()}, {mode})" if kind < 0.6 else
            f"manager.resolve({rng.choice(classes)}, shape=(2, 2, 2, 2))"
            if kind < 0.75 else
            f"manager.resolve(dynamic_axes=DynamicShardingAxes(axes={listed()}, "
            f"mode={mode}))" if kind < 0.85 else
            f"PartitionSpec({rng.choice(AXES)!r}, None)")
        rules.append(f"    ('^r{number}$', {made}),")
    return {"text": "\n".join([*lines, "RULES = [", *rules, "]", ""])}


def import_python(given):
    """The specs of the rules that Python makes; one that names an axis twice is
    refused, as JAX refuses it."""
    scope = {"__name__": "program"}
    exec(compile(HEADER + given["text"], "program", "exec"), scope)
    out = {}
    for pattern, made in scope["RULES"]:
        names = list(strings(plain(made)))
        if len(names) != len(set(names)):
            raise ValueError("an axis twice")
        entries = spec(plain(made))
        for mode in MODES:
            out[f"{pattern} in {mode}"] = entries
    return out


def command_import_python(given):
    try:
        made = importer.data(importer.read(
            (HEADER + given["text"]).encode(), "RULES"))
    except importer.Failure as failure:
        raise Refused(str(failure)) from failure
    rules = {key: made[key] for key in ("axes", "register") if key in made}
    asks = {f"{rule['match']} in {mode}": {
        "axes": rule.get("modes", {}).get(mode, rule["spec"]), "mode": mode,
        "rules": rules, "mesh": dict.fromkeys(AXES, 1)}
        for rule in made["rules"] for mode in MODES}
    found = json.loads(run("eval", "resolve", stdin=json.dumps(
        list(asks.values()))))
    for one in found:
        if "error" in one:
            raise Refused(one["error"]["message"])
        names = list(strings(one["result"]["spec"]))
        if len(names) != len(set(names)):
            raise Refused("an axis twice")
    return {name: spec(one["result"]["spec"])
            for name, one in zip(asks, found, strict=True)}


def differs_import_python(_given, _theirs, ours):
    """A bundle whose mode is that of a shape is refused."""
    return "refused-alone" if "has the mode of a dimension" in ours.get(
        "error", "") else None


# -- Answers ----------------------------------------------------------------------

def answer(function, given):
    PartitionAxis.clear_registered_axes()
    try:
        return {"expect": json.loads(json.dumps(function(given)))}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def cases(row, seed, count):
    """(input, what the packages answer, what the program writes)"""
    rng = random.Random(f"{seed}/{row}")
    scope = globals()
    for _ in range(-(-count // IN_ONE.get(row, 1))):
        given = scope["draw_" + row](rng)
        theirs = answer(scope[row], given)
        try:
            ours = {"expect": scope["command_" + row](given)}
        except Refused as refused:
            ours = {"error": str(refused)}
        yield given, theirs, ours


def outcome(row, case):
    """How a case ends: passed, refused by both, the name of a difference, or
    nothing."""
    given, theirs, ours = case
    if "error" in theirs and "error" in ours:
        return "refused"
    if theirs == ours:
        return "passed"
    scope = globals()
    with flattened():
        theirs = answer(scope[row], given)
    if theirs == ours or "error" in theirs and "error" in ours:
        return "groups"
    return scope.get("differs_" + row, lambda *_: None)(given, theirs, ours)
