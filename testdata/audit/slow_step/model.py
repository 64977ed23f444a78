"""A decoder of two layers on eight devices, with one sharding constraint too
narrow: docs/guides/slow-step.md finds and mends it."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

BATCH = ("fsdp", "dp")
HEADS, KV_HEADS, WIDTH = 8, 4, 32


def keep(x, *axes):
    mesh = jax.sharding.get_abstract_mesh()
    return jax.lax.with_sharding_constraint(
        x, NamedSharding(mesh, PartitionSpec(*axes)))


def norm(x, scale):
    mean = jnp.mean(x * x, -1, keepdims=True)
    return keep(x * jax.lax.rsqrt(mean + 1e-6) * scale, BATCH)


def rotate(x, positions):
    rate = 10000.0 ** (-jnp.arange(WIDTH // 2) / (WIDTH // 2))
    angle = (positions[..., None] * rate)[:, :, None]
    sin, cos = (jnp.concatenate([f(angle)] * 2, -1) for f in (jnp.sin, jnp.cos))
    a, b = jnp.split(x, 2, -1)
    return x * cos + jnp.concatenate([-b, a], -1) * sin


def heads(x, weight):
    y = x @ weight
    return keep(y.reshape(*y.shape[:2], -1, WIDTH), BATCH, None, "tp")


def attention(x, w, positions):
    q = rotate(heads(x, w("self_attn/q_proj")), positions)
    k = rotate(heads(x, w("self_attn/k_proj")), positions)
    v = heads(x, w("self_attn/v_proj"))
    k, v = (jnp.repeat(y, HEADS // KV_HEADS, 2) for y in (k, v))
    scores = jnp.einsum("btnh,bsnh->bnts", q, k) / WIDTH**0.5
    seen = positions[:, None, :, None] >= positions[:, None, None, :]
    weights = jnp.exp(jnp.where(seen, scores, -1e30) -
                      jax.lax.stop_gradient(scores.max(-1, keepdims=True)))
    weights = weights / weights.sum(-1, keepdims=True)
    mixed = keep(jnp.einsum("bnts,bsnh->btnh", weights, v), BATCH, None, "tp")
    return mixed.reshape(*x.shape[:2], -1) @ w("self_attn/o_proj")


def mlp(x, w):
    gate = jax.nn.silu(x @ w("mlp/gate_proj"))
    inner = keep(gate * (x @ w("mlp/up_proj")), "dp", None, "tp")
    return inner @ w("mlp/down_proj")


def loss(params, data):
    table = params["model/embed_tokens/embedding"]
    x = keep(jax.nn.one_hot(data["ids"], len(table)) @ table, BATCH)
    for i in range(2):
        def w(name, layer=i):
            return params[f"model/layers/{layer}/{name}/kernel"]
        y = norm(x, w("input_layernorm"))
        x = keep(x + attention(y, w, data["positions"]), BATCH)
        x = keep(x + mlp(norm(x, w("post_attention_layernorm")), w), BATCH)
    y = norm(x, params["model/norm/kernel"])
    logits = keep(y @ params["lm_head/kernel"], BATCH, None, "tp")
    logits = logits - jax.lax.stop_gradient(logits.max(-1, keepdims=True))
    picked = (logits * jax.nn.one_hot(data["labels"], 2048)).sum(-1)
    lost = jnp.log(jnp.exp(logits).sum(-1)) - picked
    return (lost * data["weights"]).sum() / data["weights"].sum()


def step(params, data):
    value, gradients = jax.value_and_grad(loss)(params, data)
    norm_of_all = jnp.sqrt(sum((g * g).sum() for g in gradients.values()))
    return value, gradients, norm_of_all
