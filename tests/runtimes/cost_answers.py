"""The bytes that a training step holds on each device, by XLA.

A decoder of Llama's kind, its layers stacked and scanned over, is compiled
and not run, under rules on meshes of CPU devices; `compiled.memory_analysis()`
gives the bytes of its arguments, results and temporaries on one device.

The temporaries hold more than the model: how many more bytes they have with
another layer is what is kept of a layer between forward and backward.
"""

import os
import re

os.environ["JAX_PLATFORMS"] = "cpu"
# Nothing is run: machine code need not be good.
os.environ["XLA_FLAGS"] = ("--xla_backend_optimization_level=0 "
                           "--xla_llvm_disable_expensive_passes=true")

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import records

DEVICES = 512
jax.config.update("jax_num_cpu_devices", DEVICES)

SIZES = {"hidden": 256, "heads": 16, "kv_heads": 8, "head_dim": 32,
         "ffn": 1024, "vocab": 2048}
LAYERS = (4, 8)
COLUMN, ROW = ["fsdp", "tp"], ["tp", "fsdp"]
# The first that is found in a name, its spec of the last two dimensions.
RULES = {
    "split": [["embedding", ["tp", "fsdp"]], ["(o|down)_proj", ROW],
              ["_proj|lm_head", COLUMN], [".*", []]],
    "replicated": [[".*", []]],
}
POLICIES = {
    "everything_saveable": lambda p: p.everything_saveable,
    "nothing_saveable": lambda p: p.nothing_saveable,
    "dots_saveable": lambda p: p.dots_saveable,
    "checkpoint_dots": lambda p: p.checkpoint_dots,
    "dots_with_no_batch_dims_saveable":
        lambda p: p.dots_with_no_batch_dims_saveable,
    "checkpoint_dots_with_no_batch_dims":
        lambda p: p.checkpoint_dots_with_no_batch_dims,
    "save_only_these_names(q_proj,context)":
        lambda p: p.save_only_these_names("q_proj", "context"),
    "save_any_names_but_these(gate_proj)":
        lambda p: p.save_any_names_but_these("gate_proj"),
    "save_anything_except_these_names(gate_proj)":
        lambda p: p.save_anything_except_these_names("gate_proj"),
    "save_from_both_policies(save_only_these_names(context),"
    "save_only_these_names(up_proj))":
        lambda p: p.save_from_both_policies(
            p.save_only_these_names("context"),
            p.save_only_these_names("up_proj")),
}
OPTIMIZERS = {
    "adamw": lambda: optax.adamw(1e-3),
    "lion": lambda: optax.lion(1e-3),
    "momentum": lambda: optax.sgd(1e-3, momentum=0.9),
    "sgd": lambda: optax.sgd(1e-3),
}


def shapes(layers):
    s = SIZES
    d, f = s["hidden"], s["ffn"]
    q, k = s["heads"] * s["head_dim"], s["kv_heads"] * s["head_dim"]
    per_layer = {
        "input_layernorm/kernel": [d], "self_attn/q_proj/kernel": [d, q],
        "self_attn/k_proj/kernel": [d, k], "self_attn/v_proj/kernel": [d, k],
        "self_attn/o_proj/kernel": [q, d],
        "post_attention_layernorm/kernel": [d],
        "mlp/gate_proj/kernel": [d, f], "mlp/up_proj/kernel": [d, f],
        "mlp/down_proj/kernel": [f, d]}
    out = {"model/embed_tokens/embedding": [s["vocab"], d]}
    for name, shape in per_layer.items():
        out["model/layers/" + name] = [layers] + shape
    out["model/norm/kernel"] = [d]
    out["lm_head/kernel"] = [d, s["vocab"]]
    return out


def spec_of(name, shape, rules):
    spec = next(spec for pattern, spec in rules if re.search(pattern, name))
    return [None] * (len(shape) - len(spec)) + spec if spec else []


def norm(x, weight):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * \
        weight


def rotated(x):
    length, half = x.shape[1], x.shape[-1] // 2
    angle = jnp.arange(length)[:, None] * (
        10000.0 ** (-jnp.arange(half) / half))[None]
    sin = jnp.concatenate([jnp.sin(angle)] * 2, -1)[:, None].astype(x.dtype)
    cos = jnp.concatenate([jnp.cos(angle)] * 2, -1)[:, None].astype(x.dtype)
    a, b = jnp.split(x, 2, -1)
    return x * cos + jnp.concatenate([-b, a], -1) * sin


def attend(q, k, v):
    batch, length, heads, dim = q.shape
    kv_heads = k.shape[2]
    grouped = q.reshape(batch, length, kv_heads, heads // kv_heads, dim)
    logits = jnp.einsum("bskgd,btkd->bkgst", grouped, k) / dim ** 0.5
    mask = jnp.tril(jnp.ones((length, length), bool))
    weights = jax.nn.softmax(jnp.where(mask, logits, -1e30), -1)
    weights = weights.astype(v.dtype)
    return jnp.einsum("bkgst,btkd->bskgd", weights, v)


def loss_of(policy, hidden_axis):
    """The loss of tokens [batch, length] under parameters by name."""
    batch = ("fsdp", "dp")
    hidden = PartitionSpec(batch, None, hidden_axis)
    heads = PartitionSpec(batch, None, "tp", None)
    wide = PartitionSpec(batch, None, "tp")
    see = jax.lax.with_sharding_constraint

    def layer(x, p):
        h = norm(x, p["input_layernorm/kernel"])
        split = lambda name, n: checkpoint_name(see(
            (h @ p[f"self_attn/{name}/kernel"]).reshape(
                *h.shape[:2], n, SIZES["head_dim"]), heads), name)
        q, k, v = (split("q_proj", SIZES["heads"]),
                   split("k_proj", SIZES["kv_heads"]),
                   split("v_proj", SIZES["kv_heads"]))
        o = attend(rotated(q), rotated(k), v)
        o = checkpoint_name(see(o.reshape(*h.shape[:2], -1), wide), "context")
        o = see(o @ p["self_attn/o_proj/kernel"], hidden)
        x = see(x + checkpoint_name(o, "out_proj"), hidden)
        h = norm(x, p["post_attention_layernorm/kernel"])
        gate = checkpoint_name(see(h @ p["mlp/gate_proj/kernel"], wide),
                               "gate_proj")
        up = checkpoint_name(see(h @ p["mlp/up_proj/kernel"], wide), "up_proj")
        down = see((jax.nn.silu(gate) * up) @ p["mlp/down_proj/kernel"],
                   hidden)
        return see(x + checkpoint_name(down, "down_proj"), hidden), None

    kept = jax.checkpoint(
        layer, policy=POLICIES[policy](jax.checkpoint_policies))

    def loss(params, tokens):
        x = see(params["model/embed_tokens/embedding"][tokens], hidden)
        start = "model/layers/"
        layers = {name[len(start):]: value for name, value in params.items()
                  if name.startswith(start)}
        x, _ = jax.lax.scan(kept, x, layers)
        x = norm(x, params["model/norm/kernel"])
        logits = see(x @ params["lm_head/kernel"], wide)
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits),
                                     tokens[..., None], -1)
        return -jnp.mean(picked)
    return loss


def analysis(function, *arguments, out):
    compiled = jax.jit(function, out_shardings=out).lower(
        *arguments).compile()
    said = compiled.memory_analysis()
    return {"arguments": said.argument_size_in_bytes,
            "results": said.output_size_in_bytes,
            "temporaries": said.temp_size_in_bytes}


# Of cases that differ in their optimizer alone.
GRADIENTS = {}


def answer(case, layers):
    """Bytes on one device: of the gradient's program and of the step's."""
    sizes = case["mesh"]
    count = int(np.prod(list(sizes.values())))
    mesh = Mesh(np.array(jax.devices()[:count]).reshape(
        list(sizes.values())), list(sizes))
    sharding = lambda spec: NamedSharding(mesh, PartitionSpec(*spec))
    struct = lambda shape, dtype, spec: jax.ShapeDtypeStruct(
        tuple(shape), dtype, sharding=sharding(spec))
    params = {name: struct(shape, case["dtype"],
                           spec_of(name, shape, RULES[case["rules"]]))
              for name, shape in shapes(layers).items()}
    tokens = struct([case["batch"], case["length"]], "int32",
                    [("fsdp", "dp")])
    loss = loss_of(case["policy"], case["hidden"])
    lie = {name: value.sharding for name, value in params.items()}
    whole = sharding([])
    local = int(np.prod(tokens.sharding.shard_shape(tokens.shape))) * 4
    with jax.set_mesh(mesh):
        key = str((layers, {**case, "optimizer": None}))
        if key not in GRADIENTS:
            GRADIENTS[key] = analysis(jax.value_and_grad(loss), params,
                                      tokens, out=(whole, lie))
        gradient = GRADIENTS[key]
        out = {"parameters": gradient["arguments"] - local,
               # Without the loss, and a pointer to each result.
               "gradients": (gradient["results"] - 8 * (len(params) + 1)
                             - jnp.dtype(case["dtype"]).itemsize),
               "temporaries": gradient["temporaries"]}
        if case["optimizer"] and layers == LAYERS[0]:
            stepped, scalars = step_analysis(case, loss, params, tokens, whole)
            out["states"] = (stepped["arguments"] - gradient["arguments"]
                             - scalars)
    return out


def step_analysis(case, loss, params, tokens, whole):
    """Of a step with the optimizer's states, and the bytes of its scalars."""
    optimizer = OPTIMIZERS[case["optimizer"]]()
    lie = {name: value.sharding for name, value in params.items()}
    state = jax.eval_shape(optimizer.init, params)

    def placed(path, leaf):
        name = next((key.key for key in path
                     if getattr(key, "key", None) in params), None)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype,
                                    sharding=lie[name] if name else whole)
    state = jax.tree_util.tree_map_with_path(placed, state)
    lie_state = jax.tree.map(lambda leaf: leaf.sharding, state)

    def step(params, state, tokens):
        grads = jax.grad(loss)(params, tokens)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state
    scalars = sum(leaf.dtype.itemsize for leaf in jax.tree.leaves(state)
                  if leaf.shape == ())
    return analysis(step, params, state, tokens, out=(lie, lie_state)), scalars


def cases():
    def case(mesh, policy="nothing_saveable", optimizer=None,
             rules="split", hidden=None, dtype="float32", batch=None,
             length=256):
        rows = mesh.get("dp", 1) * mesh.get("fsdp", 1)
        return {"mesh": mesh, "policy": policy, "optimizer": optimizer,
                "rules": rules, "hidden": hidden, "dtype": dtype,
                "batch": batch or 2 * rows, "length": length}
    small = {"dp": 2, "fsdp": 4, "tp": 2}
    for policy in POLICIES:
        yield case(small, policy)
    for optimizer in OPTIMIZERS:
        yield case(small, optimizer=optimizer)
    yield case(small, optimizer="adamw", dtype="bfloat16")
    yield case(small, hidden="tp")
    for mesh in ({"dp": 1, "fsdp": 8, "tp": 1},
                 {"dp": 1, "fsdp": 8, "tp": 8},
                 {"dp": 4, "fsdp": 16, "tp": 8}):
        yield case(mesh, optimizer="adamw")
    yield case({"dp": 4, "fsdp": 16, "tp": 8},
               "dots_with_no_batch_dims_saveable")
    yield case({"dp": 8, "fsdp": 1, "tp": 1}, rules="replicated",
               optimizer="adamw")


def answered(case):
    """A case with what is recorded of it."""
    few, many = (answer(case, layers) for layers in LAYERS)
    kept = many["temporaries"] - few["temporaries"]
    return {**case, "layers": LAYERS[0], **few,
            "kept_per_layer": kept // (LAYERS[1] - LAYERS[0])}


def record():
    """The record of JAX by name."""
    yield "jax/cost", {
        "format": "shardc.runtimes.cost/v1",
        "versions": records.versions("jax", "jaxlib", "optax"),
        "sizes": SIZES, "rules": RULES, "shapes": shapes(LAYERS[0]),
        "cases": [answered(case) for case in cases()]}
