"""Functions with shard_map, and the same functions without it: what a proof compares
with `--reference`. The mesh has fsdp 2 and tp 4."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh
from jax.sharding import PartitionSpec as P

from layers import shape

MESH = AbstractMesh((2, 4), ("fsdp", "tp"))
SHIFT = [(i, (i + 1) % 4) for i in range(4)]


def ring(p, b):
    """Causal attention in which blocks of keys and values go round."""
    @functools.partial(jax.shard_map, mesh=MESH, in_specs=(P("fsdp", "tp"),) * 3,
                       out_specs=P("fsdp", "tp"))
    def local(q, k, v):
        rank = lax.axis_index("tp")
        rows = rank * q.shape[1] + jnp.arange(q.shape[1])

        def turn(c, step):
            k, v, top, low, y = c
            columns = (rank - step) % 4 * k.shape[1] + jnp.arange(k.shape[1])
            s = jnp.einsum("bqd,bkd->bqk", q, k) / q.shape[-1] ** 0.5
            s = jnp.where(rows[:, None] >= columns, s, -1e9)
            new = jnp.maximum(top, s.max(-1))
            w = jnp.exp(s - new[..., None])
            old = jnp.exp(top - new)
            y = y * old[..., None] + w @ v
            k, v = (lax.ppermute(a, "tp", SHIFT) for a in (k, v))
            return (k, v, new, low * old + w.sum(-1), y), None
        zero = q[..., 0] * 0
        start = (k, v, zero - 1e8, zero, q * 0)
        (_, _, _, low, y), _ = lax.scan(turn, start, jnp.arange(4))
        return y / low[..., None]
    return local(b["x"] @ p["q"], b["x"] @ p["k"], b["x"] @ p["v"])


def ring_reference(p, b):
    q, k, v = (b["x"] @ p[name] for name in "qkv")
    s = jnp.einsum("bqd,bkd->bqk", q, k) / q.shape[-1] ** 0.5
    return jax.nn.softmax(jnp.where(jnp.tri(8, dtype=bool), s, -1e9), -1) @ v


def mlp(p, b):
    """Gathers weights over fsdp, and adds over tp."""
    @functools.partial(
        jax.shard_map, mesh=MESH,
        in_specs=(P("fsdp"), P("fsdp", "tp"), P("tp", "fsdp"), P()),
        out_specs=P("fsdp"))
    def local(x, up, down, scale):
        up = lax.all_gather(up, "fsdp", axis=0, tiled=True)
        down = lax.all_gather(down, "fsdp", axis=1, tiled=True)
        y = lax.psum(jnp.sin(x @ up) @ down, "tp")
        total = lax.psum(jnp.square(y).sum(0), "fsdp")
        return y * scale / jnp.sqrt(total / 4 + 1e-6)
    return local(b["x"], p["up"], p["down"], p["scale"])


def mlp_reference(p, b):
    y = jnp.sin(b["x"] @ p["up"]) @ p["down"]
    return y * p["scale"] / jnp.sqrt(jnp.square(y).mean(0) + 1e-6)


def ulysses(p, b):
    """Attention that exchanges the length for heads."""
    @functools.partial(jax.shard_map, mesh=MESH, in_specs=(P("fsdp", "tp"), P(), P()),
                       out_specs=P("fsdp", "tp"))
    def local(x, w, out):
        q, k, v = jnp.moveaxis((x @ w).reshape(*x.shape[:2], 3, 4, 4), 2, 0)
        q, k, v = (lax.all_to_all(a, "tp", 2, 1, tiled=True) for a in (q, k, v))
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k) * 0.5
        y = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s), v)
        y = lax.all_to_all(y, "tp", 1, 2, tiled=True)
        return y.reshape(x.shape) @ out
    return local(b["x"], p["qkv"], p["out"])


def ulysses_reference(p, b):
    x = b["x"]
    q, k, v = jnp.moveaxis((x @ p["qkv"]).reshape(*x.shape[:2], 3, 4, 4), 2, 0)
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) * 0.5
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s), v).reshape(x.shape) @ p["out"]


REGIONS = {
    "ring": (ring, ring_reference, {n: shape(16, 16) for n in "qkv"},
             {"x": shape(2, 8, 16)}),
    "mlp": (mlp, mlp_reference, {"up": shape(8, 16), "down": shape(16, 8),
                                 "scale": shape(8)}, {"x": shape(4, 8)}),
    "ulysses": (ulysses, ulysses_reference, {"qkv": shape(16, 48),
                                             "out": shape(16, 16)},
                {"x": shape(2, 8, 16)}),
}
