"""A training step in plain JAX: a decoder of Llama's kind, and the same with
experts of Mixtral's, written as people write them, with constraints on
activations that have logical axes.

Every part has a scope by name, so that an instruction of the partitioned
module names the op that it is for.
"""

import jax
import jax.numpy as jnp


def norm(x, weight, config):
    mean = jnp.mean(x * x, -1, keepdims=True)
    return x * jax.lax.rsqrt(mean + config["rms_norm_eps"]) * weight


def rotated(x, positions, config):
    half = x.shape[-1] // 2
    rate = config["rope_theta"] ** (-jnp.arange(half, dtype=x.dtype) / half)
    angle = (positions[..., None].astype(x.dtype) * rate)[:, :, None]
    sin = jnp.concatenate([jnp.sin(angle)] * 2, -1)
    cos = jnp.concatenate([jnp.cos(angle)] * 2, -1)
    a, b = jnp.split(x, 2, -1)
    return x * cos + jnp.concatenate([-b, a], -1) * sin


def softmax(x):
    e = jnp.exp(x - jax.lax.stop_gradient(x.max(-1, keepdims=True)))
    return e / e.sum(-1, keepdims=True)


class Model:
    """`see(x, role)` constrains a value to the spec of its role; rows of the table
    are found by a product with ones and zeros, or by `gather`."""

    def __init__(self, config, see, gather=False):
        self.config, self.see, self.gather = config, see, gather

    def rows(self, table, ids):
        if self.gather:
            return table[ids]
        return jax.nn.one_hot(ids, len(table), dtype=table.dtype) @ table

    def heads(self, y, weight, role, positions=None):
        x = y @ weight
        x = x.reshape(*y.shape[:2], -1, self.config["head_dim"])
        x = self.see(x, role)
        if positions is not None:
            x = rotated(x, positions, self.config)
        return x

    def attend(self, q, k, v, positions):
        groups = q.shape[2] // k.shape[2]
        k, v = jnp.repeat(k, groups, 2), jnp.repeat(v, groups, 2)
        scores = jnp.einsum("btnh,bsnh->bnts", q, k)
        scores = scores / self.config["head_dim"] ** 0.5
        seen = positions[:, None, :, None] >= positions[:, None, None, :]
        p = softmax(jnp.where(seen, scores, -1e30))
        return self.see(jnp.einsum("bnts,bsnh->btnh", p, v), "attn_out")

    def attention(self, x, weight, positions):
        with jax.named_scope("norm1"):
            y = self.see(norm(x, weight("input_layernorm"), self.config),
                         "normed")
        with jax.named_scope("q"):
            q = self.heads(y, weight("self_attn/q_proj"), "q", positions)
        with jax.named_scope("k"):
            k = self.heads(y, weight("self_attn/k_proj"), "k", positions)
        with jax.named_scope("v"):
            v = self.heads(y, weight("self_attn/v_proj"), "k")
        with jax.named_scope("attention"):
            a = self.attend(q, k, v, positions)
        with jax.named_scope("o"):
            a = a.reshape(*x.shape[:2], -1) @ weight("self_attn/o_proj")
            return self.see(x + a, "resid")

    def dense(self, y, weight):
        with jax.named_scope("gate"):
            gate = self.see(y @ weight("mlp/gate_proj"), "mlp")
        with jax.named_scope("up"):
            up = self.see(y @ weight("mlp/up_proj"), "mlp")
        with jax.named_scope("down"):
            inner = self.see(jax.nn.silu(gate) * up, "mlp")
            return inner @ weight("mlp/down_proj")

    def routed(self, y, weight):
        """Each expert's queue and what its tokens weigh, [b, t, e, slot]."""
        logits = self.see(y @ weight("block_sparse_moe/gate"), "router")
        scores = softmax(logits)
        top = jax.lax.stop_gradient(jax.lax.top_k(
            scores, self.config["num_experts_per_tok"])[0][..., -1:])
        chosen = self.see((scores >= top).astype(scores.dtype), "sel")
        weights = scores * chosen
        weights = weights / weights.sum(-1, keepdims=True)
        place = jnp.cumsum(chosen, 1) - chosen
        slots = jax.nn.one_hot(place.astype(jnp.int32),
                               self.config["slots"], dtype=y.dtype)
        slots = slots * chosen[..., None]
        return slots, slots * weights[..., None]

    def experts(self, y, weight):
        part = "block_sparse_moe/experts/"
        with jax.named_scope("router"):
            slots, shares = self.routed(y, weight)
        with jax.named_scope("dispatch"):
            sent = jnp.einsum("btec,btd->becd", slots, y)
            sent = self.see(self.see(sent, "moe_tok"), "moe_exp")
        with jax.named_scope("gate"):
            gate = self.see(jnp.einsum("becd,edf->becf", sent,
                                       weight(part + "w1")), "moe_mlp")
        with jax.named_scope("up"):
            up = self.see(jnp.einsum("becd,edf->becf", sent,
                                     weight(part + "w3")), "moe_mlp")
        with jax.named_scope("down"):
            inner = self.see(jax.nn.silu(gate) * up, "moe_mlp")
            made = jnp.einsum("becf,efd->becd", inner, weight(part + "w2"))
            made = self.see(made, "moe_exp")
        with jax.named_scope("combine"):
            made = self.see(made, "moe_tok")
            return jnp.einsum("btec,becd->btd", shares, made)

    def layer(self, x, weight, positions):
        x = self.attention(x, weight, positions)
        with jax.named_scope("norm2"):
            y = self.see(norm(x, weight("post_attention_layernorm"),
                              self.config), "normed")
        mlp = self.experts if "num_local_experts" in self.config else \
            self.dense
        y = mlp(y, weight)
        with jax.named_scope("add"):
            return self.see(x + y, "resid")

    def loss(self, params, data):
        with jax.named_scope("embed"):
            x = self.see(self.rows(params["model/embed_tokens/embedding"],
                                   data["ids"]), "resid")
        for i in range(self.config["num_hidden_layers"]):
            with jax.named_scope(f"layer{i}"):
                x = self.layer(
                    x, lambda name, i=i:
                    params[f"model/layers/{i}/{name}/kernel"],
                    data["positions"])
        with jax.named_scope("norm"):
            y = self.see(norm(x, params["model/norm/kernel"], self.config),
                         "normed")
        with jax.named_scope("head"):
            logits = self.see(y @ params["lm_head/kernel"], "logits")
        with jax.named_scope("loss"):
            return self.cross_entropy(logits, data)

    @staticmethod
    def cross_entropy(logits, data):
        most = jax.lax.stop_gradient(logits.max(-1, keepdims=True))
        shifted = logits - most
        total = jnp.log(jnp.exp(shifted).sum(-1))
        picked = (shifted * jax.nn.one_hot(
            data["labels"], logits.shape[-1], dtype=logits.dtype)).sum(-1)
        weights = data["weights"]
        return ((total - picked) * weights).sum() / weights.sum()

    def step(self, params, data):
        """The loss, every gradient, and their norm."""
        loss, gradients = jax.value_and_grad(self.loss)(params, data)
        with jax.named_scope("gradient_norm"):
            norm_of_all = jnp.sqrt(sum((g * g).sum()
                                       for g in gradients.values()))
        return loss, gradients, norm_of_all
