"""Functions with shard_map, and the same functions without it: what a proof compares
with `--reference`. The mesh has fsdp 2 and tp 4."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from layers import I32, shape

MESH = AbstractMesh((2, 4), ("fsdp", "tp"), axis_types=(AxisType.Auto,) * 2)
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


def trained(fn):
    """A step of descent through a function, and its loss."""
    def step(p, b):
        def loss(p):
            return jnp.mean((fn(p, b) - b["target"]) ** 2)
        value, gradients = jax.value_and_grad(loss)(p)
        return jax.tree.map(lambda p, g: p - 0.1 * g, p, gradients), value
    step.__name__ = fn.__name__ + "_step"
    return step


def vocabulary(p, b):
    """The cross entropy of logits whose vocabulary is sharded."""
    @functools.partial(jax.shard_map, mesh=MESH, out_specs=P("fsdp"),
                       in_specs=(P("fsdp"), P(None, "tp"), P("fsdp")))
    def local(x, head, labels):
        logits = x @ head
        top = lax.pmax(lax.stop_gradient(logits.max(-1)), "tp")
        total = lax.psum(jnp.exp(logits - top[:, None]).sum(-1), "tp")
        columns = lax.axis_index("tp") * logits.shape[-1] + jnp.arange(logits.shape[-1])
        own = jnp.where(columns == labels[:, None], logits, 0).sum(-1)
        return jnp.log(total) + top - lax.psum(own, "tp")
    return local(jnp.sin(b["x"]), p["head"], b["labels"])


def vocabulary_reference(p, b):
    logits = jnp.sin(b["x"]) @ p["head"]
    own = jnp.where(jnp.arange(logits.shape[-1]) == b["labels"][:, None], logits, 0)
    return jax.nn.logsumexp(logits, -1) - own.sum(-1)


def flash_decode(p, b):
    """One token's attention to a cache whose length is sharded."""
    @functools.partial(jax.shard_map, mesh=MESH, out_specs=P("fsdp"),
                       in_specs=(P("fsdp"), P("fsdp", "tp"), P("fsdp", "tp")))
    def local(q, k, v):
        s = jnp.einsum("bhd,bkhd->bhk", q, k) * 0.5
        top = lax.pmax(s.max(-1), "tp")
        w = jnp.exp(s - top[..., None])
        y, total = lax.psum((jnp.einsum("bhk,bkhd->bhd", w, v), w.sum(-1)), "tp")
        return y / total[..., None]
    q = (b["x"] @ p["q"]).reshape(-1, 2, 4)
    return local(q, b["keys"], b["values"]).reshape(b["x"].shape) @ p["out"]


def flash_decode_reference(p, b):
    q = (b["x"] @ p["q"]).reshape(-1, 2, 4)
    s = jnp.einsum("bhd,bkhd->bhk", q, b["keys"]) * 0.5
    y = jnp.einsum("bhk,bkhd->bhd", jax.nn.softmax(s), b["values"])
    return y.reshape(b["x"].shape) @ p["out"]


def experts(p, b):
    """Tokens travel to the devices of their experts, by position, and back."""
    @functools.partial(jax.shard_map, mesh=MESH, out_specs=P(("fsdp", "tp")),
                       in_specs=(P(("fsdp", "tp")), P("tp"), P("tp")))
    def local(x, up, down):
        x = lax.all_to_all(x.reshape(4, -1, x.shape[-1]), "tp", 0, 0)
        y = jnp.tanh(jnp.einsum("snd,df->snf", x, up[0]))
        y = jnp.einsum("snf,fd->snd", y, down[0])
        return lax.all_to_all(y, "tp", 0, 0).reshape(-1, x.shape[-1])
    return local(b["x"], p["up"], p["down"])


def experts_reference(p, b):
    x = b["x"].reshape(8, 4, -1, b["x"].shape[-1])
    y = jnp.tanh(jnp.einsum("send,edf->senf", x, p["up"]))
    return jnp.einsum("senf,efd->send", y, p["down"]).reshape(b["x"].shape)


def stages(p, b):
    """A pipeline: four microbatches pass four stages in seven turns."""
    @functools.partial(jax.shard_map, mesh=MESH, out_specs=P(None, "fsdp"),
                       in_specs=(P("tp"), P(None, "fsdp")))
    def local(w, x):
        stage = lax.axis_index("tp")
        now, out = x[0] * 0, x * 0
        now, out = (lax.pcast(one, "tp", to="varying") for one in (now, out))
        for turn in range(7):
            now = jnp.where(stage == 0, x[min(turn, 3)], now)
            now = jnp.tanh(now @ w[0])
            if turn >= 3:
                out = out.at[turn - 3].set(jnp.where(stage == 3, now, 0))
            now = lax.ppermute(now, "tp", SHIFT)
        return lax.psum(out, "tp")
    return local(p["w"], b["x"])


def stages_reference(p, b):
    x = b["x"]
    for i in range(4):
        x = jnp.tanh(x @ p["w"][i])
    return x


def scattered(p, b):
    """Rows of the result are added where they are kept, and gathered again."""
    @functools.partial(jax.shard_map, mesh=MESH, out_specs=P("fsdp", "tp"),
                       in_specs=(P("fsdp"), P(None, "tp"), P("tp"), P()))
    def local(x, up, down, scale):
        y = lax.psum_scatter(jnp.sin(x @ up) @ down, "tp", scatter_dimension=0,
                             tiled=True)
        y = y * lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + 1e-6) * scale
        y = lax.all_gather(y, "tp", axis=0, tiled=True)
        width = y.shape[1] // 4
        return lax.dynamic_slice_in_dim(y, lax.axis_index("tp") * width, width, 1)
    return local(b["x"], p["up"], p["down"], p["scale"])


def scattered_reference(p, b):
    y = jnp.sin(b["x"] @ p["up"]) @ p["down"]
    return y * lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + 1e-6) * p["scale"]


MLP = {"up": shape(8, 16), "down": shape(16, 8), "scale": shape(8)}
REGIONS = {
    "ring": (ring, ring_reference, {n: shape(16, 16) for n in "qkv"},
             {"x": shape(2, 8, 16)}),
    "mlp": (mlp, mlp_reference, {"up": shape(8, 16), "down": shape(16, 8),
                                 "scale": shape(8)}, {"x": shape(4, 8)}),
    "ulysses": (ulysses, ulysses_reference, {"qkv": shape(16, 48),
                                             "out": shape(16, 16)},
                {"x": shape(2, 8, 16)}),
    "vocabulary": (vocabulary, vocabulary_reference, {"head": shape(8, 16)},
                   {"x": shape(4, 8), "labels": shape(4, dtype=I32)}),
    "flash_decode": (flash_decode, flash_decode_reference, {"q": shape(8, 8),
                                                            "out": shape(8, 8)},
                     {"x": shape(4, 8), "keys": shape(4, 12, 2, 4),
                      "values": shape(4, 12, 2, 4)}),
    "experts": (experts, experts_reference, {"up": shape(4, 8, 16),
                                             "down": shape(4, 16, 8)},
                {"x": shape(64, 8)}),
    "stages": (stages, stages_reference, {"w": shape(4, 8, 8)}, {"x": shape(4, 6, 8)}),
    "scattered": (scattered, scattered_reference, MLP, {"x": shape(16, 8)}),
    "mlp_step": (trained(mlp), trained(mlp_reference), MLP,
                 {"x": shape(4, 8), "target": shape(4, 8)}),
    "ring_step": (trained(ring), trained(ring_reference), {n: shape(16, 16) for n in "qkv"},
                  {"x": shape(2, 8, 16), "target": shape(2, 8, 16)}),
    "ulysses_step": (trained(ulysses), trained(ulysses_reference),
                     {"qkv": shape(16, 48), "out": shape(16, 16)},
                     {"x": shape(2, 8, 16), "target": shape(2, 8, 16)}),
    "vocabulary_step": (trained(vocabulary), trained(vocabulary_reference),
                        {"head": shape(8, 16)},
                        {"x": shape(4, 8), "labels": shape(4, dtype=I32),
                         "target": shape(4)}),
    "scattered_step": (trained(scattered), trained(scattered_reference), MLP,
                       {"x": shape(16, 8), "target": shape(16, 8)}),
}
