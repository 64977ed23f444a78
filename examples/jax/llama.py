"""A small Llama in plain JAX, sharded by a plan: a train step and a decode step
on eight devices, equal to the same on one.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python3 llama.py

The rules are compiled here; a pipeline would commit the plan and load it.
"""

import json
import os
import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import shardc
import shardc.manifest

HERE = os.path.dirname(os.path.abspath(__file__))
MESH = "dp:2,fsdp:2,tp:2"
LAYERS, HIDDEN, HEADS, KV_HEADS, DIM, WIDE, VOCAB = 2, 64, 8, 4, 8, 128, 96
BATCH, LENGTH, RATE = 8, 16, 0.1


def init():
    """Parameters as nested dicts and a list; float32, drawn by their names."""

    def draw(name, *shape):
        key = jax.random.key(sum(name.encode()))
        return jax.random.normal(key, shape) / np.sqrt(shape[0])

    def layer(i):
        return {
            "attention_norm": jnp.ones(HIDDEN),
            "attention": {
                "query": draw(f"q{i}", HIDDEN, HEADS * DIM),
                "key": draw(f"k{i}", HIDDEN, KV_HEADS * DIM),
                "value": draw(f"v{i}", HIDDEN, KV_HEADS * DIM),
                "out": draw(f"o{i}", HEADS * DIM, HIDDEN),
            },
            "mlp_norm": jnp.ones(HIDDEN),
            "mlp": {
                "gate": draw(f"g{i}", HIDDEN, WIDE),
                "up": draw(f"u{i}", HIDDEN, WIDE),
                "down": draw(f"d{i}", WIDE, HIDDEN),
            },
        }

    return {
        "embed": draw("embed", VOCAB, HIDDEN),
        "layers": [layer(i) for i in range(LAYERS)],
        "norm": jnp.ones(HIDDEN),
        "head": draw("head", HIDDEN, VOCAB),
    }


def normed(x, weight):
    return x * weight / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def attend(query, key, value, visible):
    """[B, T, H, D] over [B, S, K, D]; H / K query heads share a KV head."""
    key, value = (jnp.repeat(x, HEADS // KV_HEADS, axis=2) for x in (key, value))
    logits = jnp.einsum("bthd,bshd->bhts", query, key) / np.sqrt(DIM)
    weights = jax.nn.softmax(jnp.where(visible, logits, -jnp.inf))
    return jnp.einsum("bhts,bshd->bthd", weights, value)


def heads(x, weight, count):
    return (x @ weight).reshape(*x.shape[:2], count, DIM)


def forward(params, tokens, constrain, cache=None, at=0):
    """Logits, and keys and values of all layers. With a cache, `tokens` are the
    ones at `at`, and see what is before them."""
    x = constrain(params["embed"][tokens], "hidden")
    new = []
    for i, layer in enumerate(params["layers"]):
        h = normed(x, layer["attention_norm"])
        a = layer["attention"]
        query = constrain(heads(h, a["query"], HEADS), "query")
        key = constrain(heads(h, a["key"], KV_HEADS), "key")
        value = constrain(heads(h, a["value"], KV_HEADS), "value")
        if cache is not None:
            key = jax.lax.dynamic_update_slice(cache[i][0], key, (0, at, 0, 0))
            value = jax.lax.dynamic_update_slice(cache[i][1], value, (0, at, 0, 0))
        new.append((key, value))
        rows = at + jnp.arange(tokens.shape[1])
        visible = jnp.arange(key.shape[1])[None, :] <= rows[:, None]
        out = constrain(attend(query, key, value, visible), "output")
        x = constrain(x + out.reshape(*x.shape[:2], -1) @ a["out"], "hidden")
        h = normed(x, layer["mlp_norm"])
        m = layer["mlp"]
        up = jax.nn.silu(h @ m["gate"]) * (h @ m["up"])
        x = constrain(x + up @ m["down"], "hidden")
    return normed(x, params["norm"]) @ params["head"], new


def train_step(params, tokens, constrain):
    def loss(params):
        logits, _ = forward(params, tokens[:, :-1], constrain)
        scores = jax.nn.log_softmax(logits)
        return -jnp.mean(jnp.take_along_axis(scores, tokens[:, 1:, None], 2))

    value, gradients = jax.value_and_grad(loss)(params)
    return value, jax.tree.map(lambda p, g: p - RATE * g, params, gradients)


def decode_step(params, token, cache, at, constrain):
    logits, cache = forward(params, token, constrain, cache, at)
    return logits[:, -1], cache


def constrainer(plan, mode, mesh):
    """Attention's tensors by the plan, the others split by the batch alone."""
    batch = (plan.attention(mode)["query"][0],)

    def constrain(x, tensor):
        return plan.constrain(x, batch if tensor == "hidden" else tensor, mode, mesh)

    return constrain


def compile_plan():
    """From the model's own tree, without allocating it."""
    with tempfile.TemporaryDirectory() as folder:
        manifest = os.path.join(folder, "manifest.json")
        with open(manifest, "w", encoding="utf-8") as file:
            json.dump(
                shardc.manifest.manifest(shardc.manifest.build(init, "jax")), file
            )
        return shardc.compile(
            mesh=MESH, rules=os.path.join(HERE, "rules.yaml"), manifest=manifest
        )


def largest_difference(got, want):
    return max(
        float(jnp.max(jnp.abs(jnp.asarray(np.asarray(a)) - np.asarray(b))))
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want))
    )


def shardings_differ(compiled, shardings, params):
    """Names of parameters that the compiled program has elsewhere."""
    wrong = []
    placed = compiled.input_shardings[0][0]
    wanted = jax.tree_util.tree_leaves_with_path(shardings)
    for (path, want), got, array in zip(
        wanted, jax.tree.leaves(placed), jax.tree.leaves(params)
    ):
        if not got.is_equivalent_to(want, array.ndim):
            wrong.append(jax.tree_util.keystr(path))
    return wrong


def main():
    plan = compile_plan()
    params = init()
    tokens = jax.random.randint(jax.random.key(1), (BATCH, LENGTH + 1), 0, VOCAB)
    alone = lambda x, tensor: x  # noqa: E731
    want_loss, want_params = jax.jit(lambda p, t: train_step(p, t, alone))(
        params, tokens
    )
    prompt = tokens[:, :LENGTH]
    want_logits, _ = jax.jit(lambda p, t: forward(p, t, alone))(params, prompt)

    mesh = plan.jax_mesh()
    shardings = plan.named_shardings("train", like=params)
    sharded = plan.shard(params)
    data = NamedSharding(mesh, PartitionSpec(plan.attention("train")["query"][0]))
    train = jax.jit(
        lambda p, t: train_step(p, t, constrainer(plan, "train", mesh)),
        in_shardings=(shardings, data),
        out_shardings=(None, shardings),
    )
    batch = jax.device_put(tokens, data)
    compiled = train.lower(sharded, batch).compile()
    wrong = shardings_differ(compiled, shardings, params)
    loss, new = compiled(sharded, batch)

    # Decoding: the prompt but its last token into the cache, then that one.
    serving = plan.shard(params, "decode")
    keys, values = (plan.attention("decode")[name] for name in ("key", "value"))
    place = [NamedSharding(mesh, PartitionSpec(*spec)) for spec in (keys, values)]
    _, cache = jax.jit(lambda p, t: forward(p, t, alone))(serving, prompt[:, :-1])
    cache = [
        tuple(
            jax.device_put(jnp.pad(x, ((0, 0), (0, 1), (0, 0), (0, 0))), where)
            for x, where in zip(pair, place)
        )
        for pair in cache
    ]
    decode = jax.jit(
        lambda p, t, c, at: decode_step(p, t, c, at, constrainer(plan, "decode", mesh))
    )
    logits, _ = decode(serving, prompt[:, -1:], cache, LENGTH - 1)

    errors = {
        "loss": abs(float(loss) - float(want_loss)),
        "parameters after the step": largest_difference(new, want_params),
        "decoded logits": largest_difference(logits, want_logits[:, -1]),
    }
    print(f"{plan!r}, {len(wrong)} parameters have another sharding in the "
          "compiled step")
    for name, error in errors.items():
        print(f"largest difference of {name}: {error:.1e}")
    return 1 if wrong or max(errors.values()) > 1e-4 else 0


if __name__ == "__main__":
    sys.exit(main())
