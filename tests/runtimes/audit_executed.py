"""Compiles programs, runs them on eight CPU devices under JAX's profiler, and
counts the collectives that ran. Run by hand, with jax, flax and optax:

    cd tests/runtimes; python3 audit_executed.py OUT_FOLDER [NAME...]

Writes the optimised text of each, and EXPECT.json with the number of
collectives that a device ran in one step and the bytes that it sent: the sum
over the events of the profiler, each with the shapes of its operands in the
text. Nothing of it depends on shardc.
"""

import glob
import gzip
import json
import os
import re
import sys
import tempfile

import audit_programs as plain

# pylint: disable=wrong-import-position
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

import xla_hlo

B, T, D, F, L = plain.B, plain.T, plain.D, plain.F, plain.L
BATCH, MESH = plain.BATCH, plain.MESH
keep, shape, weights, inputs = (plain.keep, plain.shape, plain.weights,
                                plain.inputs)


def jitted(name, f, *args, out=None, donate=()):
    f.__name__ = name
    return jax.jit(f, out_shardings=out, donate_argnums=donate), args


def mapped(f, ins, outs):
    return jax.shard_map(f, mesh=MESH, in_specs=ins, out_specs=outs,
                         check_vma=False)


def donated(name):
    p = weights()
    return jitted(name, plain.train(plain.scanned), p, inputs(),
                  out=plain.kept(p), donate=(0,))


def momentum(name):
    """States of the optimizer are sharded over all axes of the batch."""
    p = weights()
    m = weights(up=(None, ("dp", "fsdp"), "tp"), down=(None, "tp",
                                                       ("dp", "fsdp")))

    def step(p, m, x):
        value, g = jax.value_and_grad(plain.scanned)(p, x)
        m = jax.tree.map(lambda m, g: 0.9 * m + g, m, g)
        return value, jax.tree.map(lambda p, m: p - 0.1 * m, p, m), m
    return jitted(name, step, p, m, inputs(), out=(
        None, *(jax.tree.map(lambda x: x.sharding, one) for one in (p, m))))


def nested_scans(name):
    def loss(p, x):
        def outer(h, _):
            h, _ = jax.lax.scan(lambda h, q: (plain.layer(h, q), None), h, p)
            return h, None
        h, _ = jax.lax.scan(outer, x, None, length=3)
        return jnp.mean(h * h)
    return jitted(name, plain.train(loss), weights(), inputs(),
                  out=plain.kept(weights()))


def custom_vjp(name):
    @jax.custom_vjp
    def product(x, w):
        return x @ w

    def forward(x, w):
        return x @ w, (x, w)

    def backward(kept, g):
        x, w = kept
        return g @ w.T, jnp.einsum("btd,btf->df", x, g)
    product.defvjp(forward, backward)

    def loss(p, x):
        inner = jax.jit(lambda x, w: keep(product(x, w), BATCH, None, "tp"))
        return jnp.mean(inner(x, p["w"]) ** 2)
    return jitted(name, plain.train(loss), {"w": shape((D, F), "fsdp", "tp")},
                  inputs())


def ring_attention(name):
    def body(q, k, v):
        n = MESH.shape["tp"]
        pairs = [(i, (i + 1) % n) for i in range(n)]

        def turn(_, state):
            k, v, top, below = state
            s = jnp.exp(jnp.einsum("bqd,bkd->bqk", q, k) / 8)
            top, below = top + s @ v, below + s.sum(-1, keepdims=True)
            return (*(jax.lax.ppermute(x, "tp", pairs) for x in (k, v)), top,
                    below)
        _, _, top, below = jax.lax.fori_loop(
            0, n, turn, (k, v, jnp.zeros_like(q), jnp.zeros_like(q[..., :1])))
        return top / below
    f = mapped(body, (P(BATCH, "tp"),) * 3, P(BATCH, "tp"))
    q = shape((B, T, D), BATCH, "tp")
    return jitted(name, lambda q, k, v: f(q, k, v), q, q, q)


def ring_attention_trained(name):
    f, (q, k, v) = ring_attention(name)

    def loss(q, k, v):
        return jnp.mean(f(q, k, v) ** 2)
    return jitted(name, lambda q, k, v: jax.grad(loss, (0, 1, 2))(q, k, v), q,
                  k, v)


def pipeline(name):
    """Two stages over fsdp, four micro-batches."""
    def body(w, x):
        stage = jax.lax.axis_index("fsdp")
        out = jnp.zeros_like(x)
        held = jnp.zeros_like(x[0])
        for turn in range(5):
            held = jnp.where(stage == 0, x[min(turn, 3)], held)
            held = jnp.tanh(held @ w[0])
            if turn > 0:
                out = out.at[turn - 1].set(held)
            held = jax.lax.ppermute(held, "fsdp", [(0, 1)])
        return jax.lax.psum(jnp.where(stage == 1, out, 0), "fsdp")
    f = mapped(body, (P("fsdp"), P(None, "dp")), P(None, "dp"))

    def loss(w, x):
        return jnp.mean(f(w, x) ** 2)
    return jitted(name, lambda w, x: jax.value_and_grad(loss)(w, x),
                  shape((2, D, D), "fsdp"), shape((4, B, D), None, "dp"))


def moe_all_to_all(name):
    """Tokens go to the experts of tp and back, by shard_map."""
    def body(x, w):
        n = MESH.shape["tp"]
        sent = jax.lax.all_to_all(x.reshape(n, -1, D), "tp", 0, 0, tiled=True)
        made = jax.nn.silu(sent.reshape(-1, D) @ w[0])
        return jax.lax.all_to_all(made.reshape(n, -1, D), "tp", 0, 0,
                                  tiled=True).reshape(-1, D)
    f = mapped(body, (P(("dp", "fsdp", "tp")), P("tp")),
               P(("dp", "fsdp", "tp")))

    def loss(w, x):
        return jnp.mean(f(x, w) ** 2)
    return jitted(name, lambda w, x: jax.value_and_grad(loss)(w, x),
                  shape((2, D, D), "tp"),
                  shape((B * T, D), ("dp", "fsdp", "tp")))


def moe_top_k(name):
    """The same by constraints: top-2 of eight experts over tp."""
    def loss(p, x):
        scores = jax.nn.softmax(x @ p["router"])
        best, at = jax.lax.top_k(scores, 2)
        chosen = (jax.nn.one_hot(at, 8) * best[..., None]).sum(-2)
        each = keep(jnp.einsum("btd,edf->btef", x, p["up"]), BATCH, None, "tp")
        made = jnp.einsum("btef,efd,bte->btd", jax.nn.silu(each), p["down"],
                          chosen)
        return jnp.mean(keep(made, BATCH) ** 2)
    return jitted(name, plain.train(loss), {
        "router": shape((D, 8)), "up": shape((8, D, F), "tp", "fsdp"),
        "down": shape((8, F, D), "tp", None, "fsdp")}, inputs())


def decode(name):
    """One token against a KV cache whose length is sharded over tp."""
    def step(p, cache, x, at):
        k = jax.lax.dynamic_update_slice(
            cache, (x @ p["k"])[:, None], (0, at, 0))
        k = keep(k, BATCH, "tp", None)
        s = jax.nn.softmax(jnp.einsum("bd,btd->bt", x @ p["q"], k) / 8)
        return keep(jnp.einsum("bt,btd->bd", s, k), BATCH), k
    w = shape((D, D), "fsdp", None)
    return jitted(name, step, {"q": w, "k": w},
                  shape((B, 4 * T, D), BATCH, "tp"), shape((B, D), BATCH),
                  jax.ShapeDtypeStruct((), jnp.int32))


def embedding(name):
    """A table over the vocabulary, its head, and a loss over tp."""
    def loss(p, ids):
        h = keep(jax.nn.one_hot(ids, 256) @ p["table"], BATCH)
        logits = keep(h @ p["table"].T, BATCH, None, "tp")
        picked = (jax.nn.log_softmax(logits) * jax.nn.one_hot(ids, 256)).sum(-1)
        return -picked.mean()
    return jitted(name, plain.train(loss), {
        "table": shape((256, D), "tp", "fsdp")},
        shape((B, T), BATCH, dtype=jnp.int32))


def linen_adam(name):
    import flax.linen as nn
    import optax

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.silu(nn.Dense(F, name="up")(nn.LayerNorm()(x)))
            return x + nn.Dense(D, name="down")(keep(h, BATCH, None, "tp"))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for _ in range(2):
                x = keep(nn.remat(Block)()(x), BATCH)
            return x
    net, adam = Net(), optax.adamw(1e-3)
    x = inputs()
    params = jax.eval_shape(net.init, jax.random.key(0),
                            jnp.zeros(x.shape))["params"]
    state = jax.eval_shape(adam.init, params)

    def placed(tree):
        return jax.tree.map_with_path(place, tree)

    def place(path, one):
        text = jax.tree_util.keystr(path)
        axes = () if one.ndim < 2 else ("fsdp", "tp") if "up" in text else (
            "tp", "fsdp")
        return shape(one.shape, *axes, dtype=one.dtype)

    def step(params, state, x):
        def loss(p):
            return jnp.mean(net.apply({"params": p}, x) ** 2)
        value, grads = jax.value_and_grad(loss)(params)
        updates, state = adam.update(grads, state, params)
        return value, optax.apply_updates(params, updates), state
    args = placed(params), placed(state), x
    return jitted(name, step, *args, out=(
        None, *(jax.tree.map(lambda one: one.sharding, tree)
                for tree in args[:2])))


def nnx_sgd(name):
    from flax import nnx

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.up = nnx.Linear(D, F, use_bias=False, rngs=rngs)
            self.down = nnx.Linear(F, D, use_bias=False, rngs=rngs)

        def __call__(self, x):
            return x + self.down(keep(nnx.silu(self.up(x)), BATCH, None, "tp"))
    graph, state = nnx.split(nnx.eval_shape(lambda: Net(nnx.Rngs(0))))

    def place(path, one):
        return shape(one.shape, *(("fsdp", "tp") if "up" in
                                  jax.tree_util.keystr(path) else
                                  ("tp", "fsdp")))

    def loss(state, x):
        return jnp.mean(keep(nnx.merge(graph, state)(x), BATCH) ** 2)
    placed = jax.tree.map_with_path(place, state)
    return jitted(name, plain.train(loss), placed, inputs(), out=(
        None, jax.tree.map(lambda one: one.sharding, placed)))


def nnx_decoder(name):
    """Flax's own attention, embedding and norms, and AdamW on sharded states."""
    from flax import nnx
    import optax

    class Block(nnx.Module):
        def __init__(self, rngs):
            self.norm1, self.norm2 = (nnx.RMSNorm(D, rngs=rngs)
                                      for _ in range(2))
            self.attention = nnx.MultiHeadAttention(
                num_heads=8, in_features=D, use_bias=False, decode=False,
                rngs=rngs)
            self.up = nnx.Linear(D, F, use_bias=False, rngs=rngs)
            self.down = nnx.Linear(F, D, use_bias=False, rngs=rngs)

        def __call__(self, x):
            mask = nnx.make_causal_mask(x[..., 0])
            x = keep(x + self.attention(self.norm1(x), mask=mask), BATCH)
            h = keep(nnx.silu(self.up(self.norm2(x))), BATCH, None, "tp")
            return keep(x + self.down(h), BATCH)

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.embed = nnx.Embed(256, D, rngs=rngs)
            self.blocks = nnx.List(Block(rngs) for _ in range(2))

        def __call__(self, ids):
            x = keep(self.embed(ids), BATCH)
            for block in self.blocks:
                x = block(x)
            return keep(self.embed.attend(x), BATCH, None, "tp")
    graph, state, rest = nnx.split(nnx.eval_shape(lambda: Net(nnx.Rngs(0))),
                                   nnx.Param, ...)
    adam = optax.adamw(1e-3)
    moments = jax.eval_shape(adam.init, state)

    def place(path, one):
        text = jax.tree_util.keystr(path)
        axes = (("tp", "fsdp") if "embedding" in text else
                ("tp", None, "fsdp") if "'out'" in text else
                ("fsdp", "tp", None) if "attention" in text else
                ("fsdp", "tp") if "up" in text else ("tp", "fsdp"))
        return shape(one.shape, *(axes if one.ndim > 1 else ()),
                     dtype=one.dtype)
    params, moments, rest = (jax.tree.map_with_path(place, tree)
                             for tree in (state, moments, rest))

    def step(params, moments, rest, ids):
        def loss(params):
            logits = nnx.merge(graph, params, rest)(ids)
            picked = jax.nn.log_softmax(logits) * jax.nn.one_hot(ids, 256)
            return -picked.sum(-1).mean()
        value, grads = jax.value_and_grad(loss)(params)
        updates, moments = adam.update(grads, moments, params)
        return value, optax.apply_updates(params, updates), moments
    return jitted(name, step, params, moments, rest,
                  shape((B, T), BATCH, dtype=jnp.int32), out=(
                      None, *(jax.tree.map(lambda one: one.sharding, tree)
                              for tree in (params, moments))))


def linen_scanned(name):
    """`nn.scan` over rematerialised layers with Flax's attention."""
    import flax.linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, _):
            y = nn.MultiHeadDotProductAttention(
                num_heads=8, use_bias=False, name="attention")(
                    nn.RMSNorm()(x))
            x = keep(x + y, BATCH)
            h = nn.silu(nn.Dense(F, use_bias=False, name="up")(
                nn.RMSNorm()(x)))
            h = keep(h, BATCH, None, "tp")
            return keep(x + nn.Dense(D, use_bias=False, name="down")(h),
                        BATCH), None

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            layers = nn.scan(nn.remat(Block), variable_axes={"params": 0},
                             split_rngs={"params": True}, length=L)
            return layers(name="layers")(x, None)[0]
    net = Net()
    params = jax.eval_shape(net.init, jax.random.key(0),
                            jnp.zeros((B, T, D)))["params"]

    def place(path, one):
        text = jax.tree_util.keystr(path)
        axes = ((None, "tp", None, "fsdp") if "'out'" in text else
                (None, "fsdp", "tp", None) if "attention" in text else
                (None, "fsdp", "tp") if "up" in text else
                (None, "tp", "fsdp") if "down" in text else ())
        return shape(one.shape, *axes, dtype=one.dtype)
    placed = jax.tree.map_with_path(place, params)

    def loss(params, x):
        return jnp.mean(net.apply({"params": params}, x) ** 2)
    return jitted(name, plain.train(loss), placed, inputs(), out=(
        None, jax.tree.map(lambda one: one.sharding, placed)))


def of_plain(function):
    def program(name):
        lowered = {}

        def lower(name, f, *args, out=None):
            lowered["is"] = jitted(name, f, *args, out=out)
        before, plain.lower = plain.lower, lower
        try:
            function(name)
        finally:
            plain.lower = before
        return lowered["is"]
    program.__name__ = function.__name__
    return program


PROGRAMS = [of_plain(one) for one in plain.PROGRAMS
            if one.__name__ != "host_callback"] + [
    donated, momentum, nested_scans, custom_vjp, ring_attention,
    ring_attention_trained, pipeline, moe_all_to_all, moe_top_k, decode,
    embedding, linen_adam, nnx_sgd, nnx_decoder,
    linen_scanned]


def made(like, seed):
    if like.ndim == 0:
        return jnp.asarray(1, like.dtype)
    key = jax.random.key(seed)
    value = jax.random.randint(key, like.shape, 0, 9, like.dtype) if \
        jnp.issubdtype(like.dtype, jnp.integer) else \
        jax.random.normal(key, like.shape, like.dtype) / 8
    return jax.device_put(value, like.sharding)


def lines_of(text):
    """Shape, opcode, operand names and the rest of instructions by name."""
    out = {}
    for line in text.splitlines():
        found = xla_hlo.LINE.match(line)
        if found:
            _, name, shape_, opcode, rest = found.groups()
            operands, rest = xla_hlo.split_operands(rest)
            out[name] = (shape_, opcode,
                         re.findall(r"%([\w.-]+)", operands), rest)
    return out


def sent(lines, name):
    """Bytes that the busiest device sends when the collective runs once."""
    _, opcode, operands, rest = lines[name]
    kind = xla_hlo.KINDS[opcode]
    held = [(xla_hlo.size(lines[one][0]),
             xla_hlo.WIDTHS[xla_hlo.sides(lines[one][0])[0]])
            for one in operands]
    if kind == "ppermute":
        pairs = re.findall(r"\{(\d+),(\d+)\}", re.search(
            r"source_target_pairs=\{(.*?)\}\}", rest).group(0))
        most = max(sum(a == source != b for a, b in pairs)
                   for source, _ in pairs)
        return most * sum(size for size, _ in held)
    n = len(xla_hlo.groups_of(xla_hlo.GROUPS.search(rest).group(1))[0])
    if kind == "all_to_all":
        return xla_hlo.sent_bytes(kind, n, sum(size for size, _ in held), 1)
    return sum(xla_hlo.sent_bytes(kind, n, *one) for one in held)


def executed(program):
    name = program.__name__
    step, args = program(name)
    compiled = step.lower(*args).compile()
    text = compiled.as_text()
    lines = lines_of(text)
    seeds = iter(range(1 << 20))
    values = [jax.tree.map(lambda one: made(one, next(seeds)), args)
              for _ in range(2)]
    # Not traced: what is done once.
    jax.block_until_ready(compiled(*values[0]))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(compiled(*values[1]))
        (path,) = glob.glob(folder + "/**/*.trace.json.gz", recursive=True)
        with gzip.open(path, "rt", encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
    ran = [event["args"]["hlo_op"] for event in events
           if "hlo_op" in event.get("args", {})]
    ran = [one for one in ran if one in lines and
           lines[one][1] in xla_hlo.KINDS]
    devices = len(jax.devices())
    assert len(ran) % devices == 0, (name, len(ran))
    total = sum(sent(lines, one) for one in ran)
    assert total % devices == 0, (name, total)
    return text, {"program": name, "mesh": "dp:2,fsdp:2,tp:2",
                  "calls": len(ran) // devices, "bytes": total // devices}


def main():
    folder, names = sys.argv[1], sys.argv[2:]
    out = []
    for program in PROGRAMS:
        if names and program.__name__ not in names:
            continue
        text, one = executed(program)
        plain.put(folder, one["program"], text)
        out.append(one)
        print(one, flush=True)
    with open(os.path.join(folder, "EXPECT.json"), "w",
              encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(map(json.dumps, out)) + "\n]\n")


if __name__ == "__main__":
    main()
