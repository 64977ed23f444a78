"""Transformers with experts, by dense dispatch and by ragged products."""

import jax
import jax.numpy as jnp

from dense_models import LLAMA, llama_shapes
from layers import (
    attention, grouped_attention, layered, next_token, plain, rms, rope, tokens)


def attended(w, x, kv, group):
    b, t, _ = x.shape
    h = rms(x, w["norm1"])
    q = rope((h @ w["q"]).reshape(b, t, kv, group, -1))
    k = rope((h @ w["k"]).reshape(b, t, kv, -1))
    v = (h @ w["v"]).reshape(b, t, kv, -1)
    return x + grouped_attention(q, k, v).reshape(b, t, -1) @ w["o"]


def shapes_of(experts, width, inner):
    one = llama_shapes(width, 2, 2, 8, inner)
    for name in ("gate", "up"):
        one[name] = (experts, width, inner)
    return {**one, "down": (experts, inner, width), "router": (width, experts)}


EXPERTS = {**{k: v for k, v in LLAMA.items() if k[2:] not in ("gate", "up", "down")},
           "*.router": "stream | experts", "*.gate": "experts | stream | inner",
           "*.up": "experts | stream | inner", "*.down": "experts | inner | stream"}


def moe_dense():
    """Every expert computes every token; weights are zero where it is not chosen."""
    def forward(w, batch):
        x = w["emb"][batch["tokens"]]
        for i in range(2):
            one = w.layer(i)
            x = attended(one, x, 2, 2)
            h = rms(x, one["norm2"])
            top, chosen = jax.lax.top_k(jax.nn.softmax(h @ one["router"]), 2)
            top = top / top.sum(-1, keepdims=True)
            mix = jnp.einsum("btk,btke->bte", top, jax.nn.one_hot(chosen, 6))
            g = jnp.einsum("bth,ehf->btef", h, one["gate"])
            u = jnp.einsum("bth,ehf->btef", h, one["up"])
            y = jnp.einsum("btef,efh->bteh", jax.nn.silu(g) * u, one["down"])
            x = x + jnp.einsum("bteh,bte->bth", y, mix)
        return rms(x, w["norm"]) @ w["head"]

    shapes = {"emb": (112, 40), "norm": (40,), "head": (40, 112),
              **layered(2, shapes_of(6, 40, 56))}
    return plain(forward, shapes, batch=tokens(2, 9), loss=next_token, high=112,
                 answers=EXPERTS)


def moe_ragged():
    """Tokens sorted by expert, and products of ragged groups."""
    def forward(w, batch):
        x = w["emb"][batch["tokens"]]
        for i in range(2):
            one = w.layer(i)
            x = attended(one, x, 2, 2)
            h = rms(x, one["norm2"]).reshape(-1, 40)
            top, chosen = jax.lax.top_k(jax.nn.softmax(h @ one["router"]), 2)
            flat = chosen.reshape(-1)
            order = jnp.argsort(flat)
            rows = h[order // 2]
            sizes = jnp.zeros(6, jnp.int32).at[flat].add(1)
            g = jax.lax.ragged_dot(rows, one["gate"], sizes)
            u = jax.lax.ragged_dot(rows, one["up"], sizes)
            y = jax.lax.ragged_dot(jax.nn.silu(g) * u, one["down"], sizes)
            y = y * top.reshape(-1)[order][:, None]
            y = jnp.zeros_like(h).at[order // 2].add(y)
            x = x + y.reshape(x.shape)
        return rms(x, w["norm"]) @ w["head"]

    shapes = {"emb": (112, 40), "norm": (40,), "head": (40, 112),
              **layered(2, shapes_of(6, 40, 56))}
    return plain(forward, shapes, batch=tokens(2, 9), loss=next_token, high=112,
                 answers=EXPERTS)


def mla():
    """DeepSeek's latent attention: [nope|rope] of each query head, [k|v] of each head
    from a latent, and one rope key for all heads."""
    heads, nope, rot, value, latent = 4, 8, 4, 12, 20

    def forward(w, batch):
        x = w["emb"][batch["tokens"]]
        b, t, _ = x.shape
        for i in range(2):
            one = w.layer(i)
            h = rms(x, one["norm1"])
            q = rms(h @ one["qa"], one["qnorm"]) @ one["qb"]
            q = q.reshape(b, t, heads, nope + rot)
            low = h @ one["kva"]
            kv = rms(low[..., :latent], one["kvnorm"]) @ one["kvb"]
            k, v = jnp.split(kv.reshape(b, t, heads, nope + value), [nope], -1)
            shared = rope(low[..., None, latent:])
            q = jnp.concatenate([q[..., :nope], rope(q[..., nope:])], -1)
            shared = jnp.broadcast_to(shared, (b, t, heads, rot))
            y = attention(q, jnp.concatenate([k, shared], -1), v)
            x = x + y.reshape(b, t, -1) @ one["o"]
            h = rms(x, one["norm2"])
            x = x + (jax.nn.silu(h @ one["gate"]) * (h @ one["up"])) @ one["down"]
        return rms(x, w["norm"]) @ w["head"]

    shapes = {"emb": (112, 40), "norm": (40,), "head": (40, 112), **layered(2, {
        "norm1": (40,), "norm2": (40,), "qa": (40, 24), "qnorm": (24,),
        "qb": (24, heads * (nope + rot)), "kva": (40, latent + rot),
        "kvnorm": (latent,), "kvb": (latent, heads * (nope + value)),
        "o": (heads * value, 40), "gate": (40, 88), "up": (40, 88),
        "down": (88, 40)})}
    return plain(forward, shapes, batch=tokens(2, 9), loss=next_token, high=112,
                 answers={
                     **{k: v for k, v in LLAMA.items() if k[2:] not in "qkvo"},
                     "*.qa": "stream | latent2", "*.qnorm": "latent2",
                     "*.qb": "latent2 | heads*sum(nope,rope)",
                     "*.kva": "stream | sum(latent,rope)", "*.kvnorm": "latent",
                     "*.kvb": "latent | heads*sum(nope,value)",
                     "*.o": "heads*value | stream"})
