"""Compiles the programs of testdata/audit/findings: steps with one mistake
each, and steps without. Run by hand, with JAX on the CPU:

    cd tests/runtimes; python3 audit_programs.py OUT_FOLDER [NAME...]

Writes the text right after partitioning and the optimised one of each.
"""

import glob
import gzip
import os
import re
import sys
import tempfile

DUMP = tempfile.mkdtemp()
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = (
    f"--xla_force_host_platform_device_count=8 --xla_dump_to={DUMP} "
    "--xla_dump_hlo_as_text --xla_dump_hlo_pass_re=spmd.*")

# The settings above must precede the import.
# pylint: disable=wrong-import-position
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

MESH = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("dp", "fsdp", "tp"))
BATCH = ("dp", "fsdp")
B, T, D, F, L = 8, 16, 64, 128, 4


def over(*axes):
    return NamedSharding(MESH, P(*axes))


def keep(x, *axes):
    return jax.lax.with_sharding_constraint(x, over(*axes))


def shape(sizes, *axes, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(sizes, dtype, sharding=over(*axes))


def weights(dtype=jnp.float32, up=(None, "fsdp", "tp"),
            down=(None, "tp", "fsdp")):
    return {"up": shape((L, D, F), *up, dtype=dtype),
            "down": shape((L, F, D), *down, dtype=dtype),
            "norm": shape((L, D), dtype=dtype)}


def inputs(*axes, dtype=jnp.float32):
    return shape((B, T, D), *(axes or (BATCH,)), dtype=dtype)


def layer(h, p, hidden=(BATCH, None, "tp"), out=(BATCH, None, None)):
    n = h * jax.lax.rsqrt(jnp.mean(h * h, -1, keepdims=True) + 1e-5) * p["norm"]
    u = keep(jax.nn.silu(n @ p["up"]), *hidden)
    return keep(h + u @ p["down"], *out)


def scanned(p, x, step=layer):
    h, _ = jax.lax.scan(jax.checkpoint(lambda h, q: (step(h, q), None)), x, p)
    return jnp.mean(h * h)


def scanned_whole(p, x):
    return jax.lax.scan(jax.checkpoint(lambda h, q: (layer(h, q), None)), x,
                        p)[0]


def train(loss):
    def update(p, x):
        value, grads = jax.value_and_grad(loss)(p, x)
        return value, jax.tree.map(lambda a, b: a - 0.1 * b, p, grads)
    return update


def kept(p):
    return (None, jax.tree.map(lambda one: one.sharding, p))


def lower(name, f, *args, out=None):
    f.__name__ = name
    return jax.jit(f, out_shardings=out).lower(*args)


# Steps as they should be.


def scan_remat(name):
    return lower(name, train(scanned), weights(), inputs(), out=kept(weights()))


def unrolled(name):
    def loss(p, x):
        for i in range(L):
            x = layer(x, jax.tree.map(lambda a, i=i: a[i], p))
        return jnp.mean(x * x)
    return lower(name, train(loss), weights(), inputs(), out=kept(weights()))


def grad_accum(name):
    def accumulate(p, xs):
        def body(sums, x):
            value, grads = jax.value_and_grad(scanned)(p, x)
            return jax.tree.map(jnp.add, sums, grads), value
        grads, values = jax.lax.scan(body, jax.tree.map(jnp.zeros_like, p), xs)
        return values.sum(), jax.tree.map(lambda a, b: a - 0.1 * b, p, grads)
    return lower(name, accumulate, weights(),
                 shape((3, B, T, D), None, BATCH), out=kept(weights()))


def bf16(name):
    p = weights(jnp.bfloat16)
    return lower(name, train(scanned), p, inputs(dtype=jnp.bfloat16),
                 out=kept(p))


def seq_parallel(name):
    def step(h, p):
        h = keep(h, BATCH, None, None)
        return keep(layer(h, p), BATCH, "tp", None)

    def loss(p, x):
        return scanned(p, keep(x, BATCH, "tp", None), step)
    return lower(name, train(loss), weights(), inputs(), out=kept(weights()))


def forward(name):
    return lower(name, lambda p, x: scanned(p, x), weights(), inputs())


def ring(name):
    def turn(q):
        def body(_, state):
            total, block = state
            block = jax.lax.ppermute(block, "tp", [(0, 1), (1, 0)])
            return total + block, block
        return jax.lax.fori_loop(0, 5, body, (q, q))[0]
    f = jax.shard_map(turn, mesh=MESH, in_specs=P(BATCH, "tp"),
                      out_specs=P(BATCH, "tp"))
    return lower(name, lambda q: f(q), shape((8, 8), BATCH, "tp"))


def exchange(name):
    def body(x, w):
        x = jax.lax.all_to_all(x, "tp", 1, 0, tiled=True)
        x = jax.lax.all_gather(x, "fsdp", axis=1, tiled=True)
        return jax.lax.psum(x @ w, "dp")
    f = jax.shard_map(body, mesh=MESH, in_specs=(P("tp", "fsdp"), P()),
                      out_specs=P("tp"), check_vma=False)
    return lower(name, lambda x, w: f(x, w), shape((16, 16), "tp", "fsdp"),
                 shape((8, 8)))


# Steps with one mistake.


def activation_gathered(name):
    def loss(p, x):
        # The constraint leaves out the axes of the batch.
        return scanned(p, x, lambda h, q: layer(h, q, out=(None, None, None)))
    return lower(name, train(loss), weights(), inputs(), out=kept(weights()))


def weight_gathered_twice(name):
    def f(p, x):
        w = p["up"]
        a = x @ keep(w, None, "tp")
        y = keep(jnp.sin(w), "fsdp", "tp")
        b = x @ keep(jax.lax.optimization_barrier(w), None, "tp")
        return keep(a * b, BATCH, None, "tp"), y
    return lower(name, f, {"up": shape((D, F), "fsdp", "tp")}, inputs())


def weight_hoisted(name):
    def loss(p, x):
        p = dict(p, up=keep(p["up"], None, None, "tp"))
        return scanned(p, x)
    return lower(name, loss, weights(), inputs())


def gradient_all_reduced(name):
    p = weights()
    out = (None, dict(kept(p)[1], up=over(None, None, "tp")))
    return lower(name, lambda p, x: jax.value_and_grad(scanned)(p, x), p,
                 inputs(), out=out)


def output_gathered(name):
    def f(p, x):
        h, _ = jax.lax.scan(lambda h, q: (layer(h, q), None), x, p)
        return h
    return lower(name, f, weights(), inputs(), out=over())


def wider_dtype(name):
    def step(h, p):
        return layer(h, jax.tree.map(lambda a: a.astype(jnp.float32), p))
    p = weights(jnp.bfloat16)
    return lower(name, lambda p, x: scanned(p, x, step), p, inputs())


def sum_rounded(name):
    """A partial product is summed in float32 and then rounded."""
    def f(p, x):
        u = keep(jax.nn.silu(x @ p["up"]), BATCH, None, "tp")
        y = jnp.einsum("btf,fd->btd", u, p["down"],
                       preferred_element_type=jnp.float32)
        return keep(y, BATCH, None, None).astype(jnp.bfloat16)
    return lower(name, f, {
        "up": shape((D, F), "fsdp", "tp", dtype=jnp.bfloat16),
        "down": shape((F, D), "tp", "fsdp", dtype=jnp.bfloat16)},
        inputs(dtype=jnp.bfloat16))


def logits_gathered(name):
    """The constraint of the logits leaves out the axes of the batch."""
    def loss(p, x):
        h = scanned_whole(p["layers"], x)
        logits = keep(h @ p["head"], None, None, "tp")
        return jnp.mean(jax.nn.logsumexp(logits, -1))
    return lower(name, train(loss), {
        "layers": weights(), "head": shape((D, 256), "fsdp", "tp")}, inputs())


def many_small(name):
    def f(x):
        for _ in range(12):
            x = x / (1 + jnp.sum(x * x))
        return x
    return lower(name, f, shape((B, T), BATCH))


def batch_replicated(name):
    def step(h, p):
        n = h * p["norm"]
        return h + jax.nn.silu(n @ p["up"]) @ p["down"]
    return lower(name, lambda p, x: scanned(p, x, step), weights(),
                 inputs(None))


def host_callback(name):
    def step(h, p):
        h = layer(h, p)
        jax.debug.callback(print, h.mean())
        return h
    return lower(name, lambda p, x: scanned(p, x, step), weights(), inputs())


PROGRAMS = [scan_remat, unrolled, grad_accum, bf16, seq_parallel, forward,
            ring, exchange, activation_gathered, weight_gathered_twice,
            weight_hoisted, gradient_all_reduced, output_gathered, wider_dtype,
            sum_rounded, logits_gathered, many_small, batch_replicated,
            host_callback]


def put(folder, name, text):
    with open(os.path.join(folder, name + ".hlo.txt.gz"), "wb") as file:
        with gzip.GzipFile("", "wb", mtime=0, fileobj=file) as packed:
            # No folder of the recording machine.
            here = os.path.dirname(os.path.abspath(__file__)) + os.sep
            text = re.sub(r'"[^"]*/(site-packages/)', r'"\1', text)
            packed.write(text.replace(here, "").encode())


def main():
    folder, names = sys.argv[1], sys.argv[2:]
    for program in PROGRAMS:
        name = program.__name__
        if names and name not in names:
            continue
        compiled = program(name).compile()
        put(folder, name, compiled.as_text())
        (path,) = glob.glob(
            f"{DUMP}/module_*.jit_{name}.*.after_spmd-partitioning*.txt")
        with open(path, encoding="utf-8") as file:
            put(folder, f"{name}.after_spmd", file.read())
        print(name, flush=True)


if __name__ == "__main__":
    main()
