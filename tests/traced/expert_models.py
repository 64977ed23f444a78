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
