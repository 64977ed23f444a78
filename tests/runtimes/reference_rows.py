"""New inputs for the functions of fjformer and EasyDeL that docs/parity.md
lists, and what these packages return for them. Both have the form of the
recorded cases in testdata/vectors, so tests/vectors/product_test.py compares
them.

The quantised cache is that of EasyDeL 0.0.65 with fjformer 0.0.57: later
versions quantise to unsigned integers."""

import ast
import contextlib
import functools
import glob
import importlib.util
import os
import random
import sys
import types
import unittest.mock

import environment
import reference_answers
from reference_answers import mesh_utils, package

import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
from eformer.escale import PartitionAxis, PartitionManager
from jax._src import xla_bridge
from jax.sharding import Mesh, PartitionSpec

import records

sys.path.insert(0, os.path.join(records.ROOT, "tests", "vectors"))
os.environ.setdefault("SHARDC_SOURCE_ROOT", records.ROOT)
import product  # noqa: E402

DEVICES = jax.devices()
AXES = ["dp", "fsdp", "tp", "sp", "ep", "x"]
MODES = ["__train__", "__prefill__", "__autoregressive__", "__insert__"]


def tuples(value):
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def plain(value):
    if isinstance(value, (PartitionSpec, tuple, list)):
        return [plain(item) for item in value]
    return value


# -- Sharding of attention --------------------------------------------------------

def loaded(name, path):
    """A module by its file, for dataclasses of which Python must know it."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


operation_meta = loaded("operation_meta", os.path.join(
    package("easydel"), "operations", "_operation_meta.py"))


def draw_axes(rng, count):
    fields = sorted(product.FIELDS)
    return {field: rng.choice([None, rng.choice(AXES), [rng.choice(AXES)],
                               rng.sample(AXES, 2), rng.sample(AXES, 3)])
            for field in rng.sample(fields, rng.randrange(count))}


def axis_of(fields):
    return PartitionAxis(**{key: tuples(value) for key, value in
                            fields.items()})


def draw_attention_shardings(rng):
    given = {"partition_axis": draw_axes(rng, 12), "mode": rng.choice(MODES),
             "layout": rng.choice(["bthd", "bthd", "bhtd", "bhtd", "thd"]),
             "qkv_mni_sharding": rng.random() < 0.5,
             "softmax_aux_ndim": rng.choice([None, 1, 2, 3])}
    return given


def attention_shardings(given):
    PartitionAxis.clear_registered_axes()
    rank = given["softmax_aux_ndim"]
    rules = operation_meta.OperationMetadata.get_shardings(
        types.SimpleNamespace(partition_manager=PartitionManager(
            axis_of(given["partition_axis"]))),
        given["mode"], given["layout"], given["qkv_mni_sharding"],
        None if rank is None else np.zeros((1,) * rank))
    return {name: None if spec is None else plain(spec)
            for name, spec in rules._asdict().items()}


# -- Trees, patterns and names ----------------------------------------------------

WORDS = ["a", "b", "kernel", "bias", "attn", "mlp", "layers", "0", "1", "10",
         "q_proj", "norm", "embed", "w.x", "é", "٣", "éa"]
PATTERNS = WORDS + [
    "^a", "kernel$", "(q|k)_proj", ".*", "[a-m]", r"\d+", "attn/.*/kernel",
    "layers/[0-9]+", "", "^$", "(?i)KERNEL", "a|b", "bias$|norm", "w.x", "w\\.x",
    "/", "^(?!a)", "(?=kernel)", r"\bkernel\b", "é", "(", "[a", "k{1,2}", "e.b",
    r"\w+/kernel", r"^\w+$", r"\W", r"[^\W\d]", r"\b\w\b", r"\Ba", r"\ba", r"\s"]


def draw_tree(rng):
    def node(depth):
        if depth > 3 or depth and rng.random() < 0.35:
            return {"$shape": [rng.choice([0, 1, 1, 2, 3, 8]) for _ in range(
                rng.randrange(0, 4))]}
        if depth and rng.random() < 0.2:
            return [node(depth + 1) for _ in range(rng.randrange(0, 12))]
        return {key: node(depth + 1) for key in
                rng.sample(WORDS, rng.randrange(1, 4))}
    return node(0)


def tree_of(node):
    if isinstance(node, dict) and "$shape" in node:
        return np.zeros(node["$shape"], np.float32)
    if isinstance(node, dict) and "$value" in node:
        return node["$value"]
    if isinstance(node, dict):
        return {key: tree_of(value) for key, value in node.items()}
    return [tree_of(v) for v in node] if isinstance(node, list) else node


def draw_fjformer_match(rng):
    def spec():
        return [rng.choice([None, rng.choice(AXES), [rng.choice(AXES)],
                            rng.sample(AXES, 2)])
                for _ in range(rng.randrange(0, 4))]
    rules = [{"pattern": rng.choice(PATTERNS), "spec": spec()}
             for _ in range(rng.randrange(0, 5))]
    if rng.random() < 0.7:
        rules.append({"pattern": ".*", "spec": spec()})
    return {"impl": "fjformer", "rules": rules, "tree": draw_tree(rng)}


def fjformer_match(given):
    rules = [(rule["pattern"], PartitionSpec(*tuples(rule["spec"])))
             for rule in given["rules"]]
    specs = mesh_utils.match_partition_rules(rules, tree_of(given["tree"]))
    flat, _ = jax.tree_util.tree_flatten_with_path(
        specs, is_leaf=lambda leaf: isinstance(leaf, PartitionSpec))
    return {"specs": {
        jax.tree_util.keystr(path, simple=True, separator="/"): plain(spec)
        for path, spec in flat}}


def draw_get_weight_decay_mask(rng):
    return {"exclusions": [rng.choice(PATTERNS)
                           for _ in range(rng.randrange(0, 4))],
            "tree": draw_tree(rng)}


def get_weight_decay_mask(given):
    mask = mesh_utils.get_weight_decay_mask(given["exclusions"])(
        tree_of(given["tree"]))
    flat, _ = jax.tree_util.tree_flatten_with_path(mask)
    return {"mask": {
        jax.tree_util.keystr(path, simple=True, separator="/"): decays
        for path, decays in flat}}


KEYS = {"key": jax.tree_util.DictKey, "index": jax.tree_util.SequenceKey,
        "name": jax.tree_util.GetAttrKey}


def draw_tree_path_to_string(rng):
    def part():
        kind = rng.choice(sorted(KEYS))
        return {kind: rng.randrange(0, 30) if kind == "index" else
                rng.choice(WORDS + ["", "a/b", " ", "\"", "None"])
                if kind == "name" or rng.random() < 0.9 else rng.randrange(-3, 3)}
    return {"path": [part() for _ in range(rng.randrange(0, 5))],
            "sep": rng.choice([None, "/", ".", "", "::", " ", "é", "a"])}


def tree_path_to_string(given):
    path = [KEYS[kind](value) for part in given["path"]
            for kind, value in part.items()]
    text = mesh_utils.tree_path_to_string(path, given["sep"])
    return {"keys": list(text)} if given["sep"] is None else {"string": text}


# -- Meshes -----------------------------------------------------------------------

NAMES = ["dp", "fsdp", "tp", "sp", "x", "data", "Model", "a.b", "a-b", "w_1"]


def draw_sizes(rng):
    sizes = [rng.choice([1, 1, 2, 2, 3]) for _ in range(rng.randrange(1, 5))]
    devices = int(np.prod(sizes))
    if rng.random() < 0.4:
        sizes[rng.randrange(len(sizes))] = -1
    if rng.random() < 0.2:
        sizes[rng.randrange(len(sizes))] = rng.choice([1, 2, 5])
    return sizes, min(devices, 64)


def draw_fjformer_create_mesh(rng):
    sizes, devices = draw_sizes(rng)
    given = {"device_count": devices, "axis_dims": sizes,
             "axis_names": rng.sample(NAMES, len(sizes))}
    if rng.random() < 0.1:
        del given["axis_names"]
    if rng.random() < 0.1:
        del given["axis_dims"]
    return given


def draw_get_jax_mesh(rng):
    sizes, devices = draw_sizes(rng)
    names = rng.sample(NAMES, len(sizes))
    order = list(zip(names, sizes))
    rng.shuffle(order)
    text = ",".join(f"{name}:{size}" for name, size in order) \
        if rng.random() < 0.6 else ",".join(map(str, sizes))
    if rng.random() < 0.15:
        text = "!" + text
    if rng.random() < 0.15:
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice([" ", ",", ":", "x", "1", "-", "+", "_"]) \
            + text[at + rng.randrange(0, 2):]
    if rng.random() < 0.1:
        names = names[:-1] or names
    return {"device_count": devices, "axis_dims": text, "names": names}


def on_devices(count, function):
    """What a function makes that reads the devices of JAX, for so many."""
    devices = DEVICES[:count]
    with contextlib.ExitStack() as stack:
        for module in (jax, xla_bridge):
            for name, value in (("devices", devices), ("device_count", count)):
                stack.enter_context(unittest.mock.patch.object(
                    module, name, lambda *_, value=value: value))
        made = function()
    ids = [device.id for device in made.devices.flat]
    return {"axis_names": list(made.axis_names),
            "shape": list(made.devices.shape), "mesh": dict(made.shape),
            "device_ids": ids if len(ids) <= 16 else None}


def fjformer_create_mesh(given):
    more = {key: tuple(given[key]) for key in ("axis_dims", "axis_names")
            if key in given}
    return on_devices(given["device_count"],
                      lambda: mesh_utils.create_mesh(**more))


def get_jax_mesh(given):
    return on_devices(given["device_count"], lambda: mesh_utils.get_jax_mesh(
        given["axis_dims"], tuple(given["names"])))


def draw_get_ranks_and_size(rng):
    mesh = {axis: rng.choice([1, 1, 2, 3, 4, 8]) for axis in
            ["dp", "fsdp", "tp", "sp"] if axis in ("dp", "fsdp") or
            rng.random() < 0.95}
    processes = rng.choice([1, 2, 3, 4, 8, 16])
    return {"mesh": mesh, "local_device_count": rng.choice([1, 2, 4, 6, 8]),
            "process_count": processes,
            "process_index": rng.randrange(processes)}


def get_ranks_and_size(given):
    function, = earlier("get_ranks_and_size")
    with unittest.mock.patch.multiple(
            jax, local_device_count=lambda: given["local_device_count"],
            process_count=lambda: given["process_count"],
            process_index=lambda: given["process_index"]):
        out = function(types.SimpleNamespace(shape=given["mesh"]))
    return {key: value for key, value in out.items() if key != "mesh"}


def draw_partition_manager_from_json(rng):
    return {"partition_axis": draw_axes(rng, 27)}


def partition_manager_from_json(given):
    """The JSON that the manager writes; what reads it again is refused."""
    manager = PartitionManager(axis_of(given["partition_axis"]))
    given["json"] = manager.to_json()
    PartitionManager.from_json(given["json"])
    return {}


# -- Arrays -----------------------------------------------------------------------

# JAX compiles each of its operations for each shape, which takes far longer
# than to run it. So there are few shapes, and many values.
EXACT = {"rtol": 1e-6, "atol": 1e-7}
SHAPES = [(1,), (2,), (7,), (1, 1), (3, 4), (2, 1, 5), (2, 2, 6), (1, 2, 3, 8)]
numbers = reference_answers.numbers
earlier = functools.cache(reference_answers.earlier)


def draw_rotate_half(rng):
    return {"x": numbers(rng, rng.choice(SHAPES))}


def rotate_half(given):
    function, = earlier("rotate_half")
    return {"y": function(jnp.array(given["x"])).tolist()}


def draw_apply_rotary_pos_emb(rng):
    b, h, s, d = rng.choice([(2, 2, 3, 4), (1, 3, 1, 2)])
    table = rng.choice([(b, h, s, d), (1, 1, s + 2, d), (b, 1, s, d),
                        (1, h, s, d), (2, 2, s, d), (1, 1, s + 1, d + 1)])
    return {"tensor": numbers(rng, (b, h, s, d)), "sin": numbers(rng, table),
            "cos": numbers(rng, table)}


def apply_rotary_pos_emb(given):
    _, function = earlier("rotate_half", "apply_rotary_pos_emb")
    y = function(*(jnp.array(given[key]) for key in ("tensor", "sin", "cos")))
    return {"y": y.tolist(), "tolerance": EXACT}


def draw_precompute_freq_cis(rng):
    dim = rng.choice([2, 6])
    given = {"dim": dim, "max_position_embeddings": rng.choice([1, 16]),
        "base": rng.choice([2, 100, 10000, 500000, 1.5, 10000.0]),
        "rope_type": rng.choice([None, "none", "linear", "dynamic", "su", "yarn",
                                 "wrong", ""])}
    if given["rope_type"] in ("linear", "dynamic") or rng.random() < 0.2:
        given["scaling_factor"] = rng.choice([0.5, 1.0, 2.0, 4, 8.0])
    if given["rope_type"] in ("su", "yarn"):
        if rng.random() < 0.95:
            given["original_max_position_embeddings"] = rng.choice([2, 4, 8, 64])
        for key in ("short_factor", "long_factor"):
            if rng.random() < 0.95:
                length = dim // 2 + (dim > 2 and rng.random() < 0.05)
                given[key] = [rng.choice([1.0, 1.25, 2.0, 4.5])
                              for _ in range(length)]
    return given


def precompute_freq_cis(given):
    function, = earlier("precompute_freq_cis")
    sin, cos = function(**given)
    return {"sin": sin.tolist(), "cos": cos.tolist(),
            "tolerance": {"rtol": 1e-4, "atol": 1e-5}}


def draw_repeat_kv_bsnh(rng):
    return {"x": numbers(rng, rng.choice([(2, 3, 2, 1), (1, 2, 3, 2)])),
            "n_rep": rng.randrange(1, 4)}


draw_repeat_kv_bnsh = draw_repeat_kv_bsnh


def repeat_kv_bnsh(given):
    function, = earlier("repeat_kv_bnsh")
    return {"y": function(jnp.array(given["x"]), given["n_rep"]).tolist()}


def repeat_kv_bsnh(given):
    function, = earlier("repeat_kv_bsnh")
    return {"y": function(jnp.array(given["x"]), given["n_rep"]).tolist()}


def installed(environment_name, package_name):
    """The folder of a package that is only read; nothing without it."""
    return next(iter(glob.glob(os.path.join(
        environment.MADE, environment_name, "lib", "python*", "site-packages",
        package_name))), None)


@functools.cache
def int8_functions():
    path = os.path.join(installed("int8_cache", "fjformer"), "linen",
                        "linen.py")
    return reference_answers.function_of(path, "quantize", "de_quantize")


def draw_quantize_int8(rng):
    shape = rng.choice(SHAPES)
    size = 2.0 ** rng.choice([0, 0, 0, 1, -20, 20, 60, -60])
    x = np.array(numbers(rng, shape), np.float32) * np.float32(size)
    if rng.random() < 0.2:
        x.reshape(-1, shape[-1])[0] = 0
    return {"x": x.tolist()}


def quantize_int8(given):
    quantize, de_quantize = int8_functions()
    q, scale = quantize(jnp.array(given["x"], jnp.float32))
    return {"q": q.tolist(), "scale": scale.tolist(), "dequantized":
            de_quantize(q, scale, jnp.float32, 0.0).tolist(),
            "dequantized_default_threshold":
            de_quantize(q, scale, jnp.float32).tolist(),
            "tolerance": {"q": 0, **EXACT}}


@functools.cache
def cache_module():
    """EasyDeL's class of the cache, with what its module imports."""
    path = os.path.join(installed("int8_cache", "easydel"), "modules",
                        "flax_modelling_utils.py")
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    tree.body = [node for node in tree.body if isinstance(node, ast.ClassDef)
                 and node.name == "BaseJAXAttentionModule"]
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            node.annotation = ast.Name("object", ast.Load())
    quantize, de_quantize = int8_functions()
    linen = types.SimpleNamespace(quantize=quantize, de_quantize=de_quantize)
    scope = {
        "__name__": "cache", "nn": flax.linen, "jax": jax, "jnp": jnp,
        "lax": jax.lax, "PartitionSpec": PartitionSpec,
        "combine_masks": flax.linen.combine_masks,
        "fjformer": types.SimpleNamespace(
            linen=types.SimpleNamespace(linen=linen)),
        # It left jax.experimental; this is the same one under its new name.
        "shard_map": lambda f, check_rep, **more: jax.shard_map(
            f, check_vma=check_rep, **more)}
    exec(compile(ast.fix_missing_locations(tree), path, "exec"), scope)
    return scope["BaseJAXAttentionModule"]


def draw_concatenate_to_cache(rng):
    batch, heads, dim = 2, 2, 3
    sp, length = rng.choice([(1, 3), (2, 4)])
    config = {"quantize_kv_cache": rng.random() < 0.5,
              "use_sharded_kv_caching": rng.random() < 0.5, "sp": sp}
    if config["quantize_kv_cache"]:
        config["initial_scale_keepdims"] = rng.random() < 0.9
    steps, at = [], 0
    for _ in range(rng.randrange(1, 4)):
        t = min(rng.choice([1, 1, 2]), max(1, length - at)
                if rng.random() < 0.9 else 9)
        step = {"key": numbers(rng, (batch, t, heads, dim)),
                "value": numbers(rng, (batch, t, heads, dim))}
        if rng.random() < 0.5:
            shape = rng.choice([(batch, 1, t, length), (1, 1, 1, length)])
            if t > 1 and rng.random() < 0.1:
                shape = shape[1:]
            step["mask"] = np.array(
                [rng.randrange(2) for _ in range(int(np.prod(shape)))]).reshape(
                    shape).tolist()
        steps.append(step)
        at += t
    return {"batch": batch, "max_length": length, "num_heads": heads,
            "head_dim": dim, "config": config, "steps": steps}


def kind_of_cache(error):
    text = str(error)
    if isinstance(error, AssertionError):
        return "mask_rank_mismatch"
    return "broadcast_mismatch" if "roadcast" in text or "ncompatible" in text \
        else "too_large"


@functools.cache
def cache_step(count, quantize, sharded):
    """The cache's first state for a key, and what writes tokens into a state."""
    mesh = Mesh(np.array(DEVICES[:count]).reshape(1, 1, 1, count),
                ("dp", "fsdp", "tp", "sp"))
    module = cache_module()(config=types.SimpleNamespace(
        quantize_kv_cache=quantize, use_sharded_kv_caching=sharded,
        jax_mesh=lambda: mesh))
    method = "_concatenate_to_cache"

    def first(key):
        return dict(module.init(jax.random.key(0), key, key, key, None,
                                method=method)["cache"])

    def step(state, key, value, mask):
        return module.apply({"cache": state}, key, value, key, mask,
                            method=method, mutable=["cache"])
    return first, jax.jit(step)


def concatenate_to_cache(given):
    config = given["config"]
    first, write = cache_step(config["sp"], config["quantize_kv_cache"],
                              config["use_sharded_kv_caching"])
    state = first(np.zeros([given[key] for key in (
        "batch", "max_length", "num_heads", "head_dim")], np.float32))
    if config.get("initial_scale_keepdims"):
        for name in ("cached_key_scale", "cached_value_scale"):
            state[name] = state[name][..., None]
    out = []
    for step in given["steps"]:
        key, value = (np.array(step[name], np.float32)
                      for name in ("key", "value"))
        mask = np.array(step["mask"], np.float32) if "mask" in step else None
        try:
            (all_key, all_value, now), more = write(state, key, value, mask)
        except Exception as error:
            out.append({"error": {"kind": kind_of_cache(error),
                                  "type": type(error).__name__}})
            break
        # On one device again: the next step has another sharding.
        state = {name: np.asarray(x) for name, x in more["cache"].items()}
        found = {"index": int(state["cache_index"]),
                 "key": np.asarray(all_key).tolist(),
                 "value": np.asarray(all_value).tolist(),
                 "mask": None if now is None else np.asarray(
                     now, np.float32).tolist()}
        if config["quantize_kv_cache"]:
            found.update({name: state[name].tolist() for name in state
                          if name != "cache_index"})
        out.append(found)
    return {"steps": out, "tolerance": EXACT}


@functools.cache
def attention_module():
    """The kernel that EasyDeL's vanilla attention calls."""
    return loaded("ejkernel_attention", os.path.join(
        package("ejkernel"), "kernels", "_xla", "attention",
        "_xla_impl_fwd.py"))


@functools.cache
def attention_step(causal):
    kernel = attention_module().attention

    def step(arrays, numbers_of):
        return kernel(**arrays, **numbers_of, causal=causal,
                      dtype=jnp.float64, softmax_dtype=jnp.float64)
    return jax.jit(step)


@functools.cache
def attention_settings():
    """Some of the settings that arguments can have together."""
    rng = random.Random(0)
    sizes = [(2, 3, 3, 4, 2, 2, 2), (1, 2, 4, 3, 1, 4, 1)]
    return [(rng.choice(sizes), rng.random() < 0.5, rng.random() < 0.3,
             rng.random() < 0.3, rng.choice(["", "bias", "mask", "both"]),
             rng.randrange(1, 4), rng.choice([0, 0, 1, 2]))
            for _ in range(24)]


def draw_attention(rng):
    (b, t, s, h, kh, d, vd), causal, window, cap, extra, rank, sinks = \
        rng.choice(attention_settings())
    given = {"query": numbers(rng, (b, t, h, d)),
             "key": numbers(rng, (b, s, kh, d)),
             "value": numbers(rng, (b, s, kh, vd)),
             "softmax_scale": rng.choice([1.0, 0.25, 0.5, 3.0])}
    if cap:
        given["soft_cap"] = rng.choice([1.0, 30.0, 0.5])
    if extra != "both":
        given["combine"] = "both"
        if causal:
            given["causal"] = True
        if window:
            given["window"] = {"left": rng.randrange(0, 3),
                               "right": rng.randrange(0, 3)}
    if extra in ("bias", "both"):
        given["bias"] = numbers(rng, (b, [1, kh, h][rank - 1], t, s))
    if extra in ("mask", "both"):
        shape = [(b, s), (b, t, s), (b, 1, t, s)][rank - 1]
        given["mask"] = np.array([rng.randrange(2) for _ in range(
            int(np.prod(shape)))]).reshape(shape).tolist()
    if sinks:
        given["softmax_aux"] = numbers(rng, (h,) if sinks == 1 else (kh, 2))
    return {**given, "release": "0.3"}


def attention(given):
    names = {"mask": "attention_mask"}
    with jax.enable_x64(True):
        arrays = {names.get(name, name): np.array(
            given[name], bool if name == "mask" else np.float64)
            for name in ("query", "key", "value", "bias", "mask",
                         "softmax_aux") if name in given}
        more = {"softmax_scale": given["softmax_scale"]}
        if "soft_cap" in given:
            more["logits_soft_cap"] = given["soft_cap"]
        if "window" in given:
            more["sliding_window"] = (given["window"]["left"],
                                      given["window"]["right"])
        output, weights = attention_step(given.get("causal", False))(
            arrays, more)
    return {"output": np.asarray(output).tolist(),
            "weights": np.asarray(weights).tolist(),
            "tolerance": {"rtol": 1e-9, "atol": 1e-12}}
