"""A training step in plain JAX: decoders of Llama's, Gemma 2's and GPT-2's kind,
and one with experts of Mixtral's, written as people write them, with constraints
on activations that have logical axes.

Every part has a scope by name, so that an instruction of the partitioned
module names the op that it is for.
"""

import jax
import jax.numpy as jnp


def norm(x, weight, config):
    mean = jnp.mean(x * x, -1, keepdims=True)
    return x * jax.lax.rsqrt(mean + config["rms_norm_eps"]) * weight


def layer_norm(x, weight, bias, config):
    x = x - jnp.mean(x, -1, keepdims=True)
    mean = jnp.mean(x * x, -1, keepdims=True)
    return x * jax.lax.rsqrt(
        mean + config["layer_norm_epsilon"]) * weight + bias


def capped(x, limit):
    return jnp.tanh(x / limit) * limit


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
    """A decoder of Llama's kind. `see(x, role)` constrains a value to the spec of
    its role; rows of the table are found by a product with ones and zeros, or by
    `gather`; attention repeats keys and values for the query heads, or is
    `grouped` by KV heads."""

    EMBEDDING, HEAD = "model/embed_tokens/embedding", "lm_head/kernel"
    LAYER = "model/layers/{}/{}/kernel"

    def __init__(self, config, see, gather=False, grouped=False):
        self.config, self.see, self.gather = config, see, gather
        self.grouped = grouped

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

    def scaled(self, scores, layer):
        return scores / self.config["head_dim"] ** 0.5

    def seen(self, positions, layer):
        """Which keys a query sees, [b, t, s]."""
        return positions[:, :, None] >= positions[:, None, :]

    def attend(self, q, k, v, positions, layer):
        groups = q.shape[2] // k.shape[2]
        seen = self.seen(positions, layer)
        if self.grouped:
            q = q.reshape(*q.shape[:2], k.shape[2], groups, -1)
            scores = jnp.einsum("btkgh,bskh->bkgts", q, k)
            scores = self.scaled(scores, layer)
            p = softmax(jnp.where(seen[:, None, None], scores, -1e30))
            a = jnp.einsum("bkgts,bskh->btkgh", p, v)
            return self.see(a.reshape(*a.shape[:2], -1, a.shape[-1]),
                            "attn_out")
        k, v = jnp.repeat(k, groups, 2), jnp.repeat(v, groups, 2)
        scores = self.scaled(jnp.einsum("btnh,bsnh->bnts", q, k), layer)
        p = softmax(jnp.where(seen[:, None], scores, -1e30))
        return self.see(jnp.einsum("bnts,bsnh->btnh", p, v), "attn_out")

    def attended(self, y, weight, positions, layer):
        """The output of attention by its projections, before the sum."""
        with jax.named_scope("q"):
            q = self.heads(y, weight("self_attn/q_proj"), "q", positions)
        with jax.named_scope("k"):
            k = self.heads(y, weight("self_attn/k_proj"), "k", positions)
        with jax.named_scope("v"):
            v = self.heads(y, weight("self_attn/v_proj"), "k")
        with jax.named_scope("attention"):
            a = self.attend(q, k, v, positions, layer)
        with jax.named_scope("o"):
            return a.reshape(*y.shape[:2], -1) @ weight("self_attn/o_proj")

    def attention(self, x, weight, positions, layer):
        with jax.named_scope("norm1"):
            y = self.see(norm(x, weight("input_layernorm"), self.config),
                         "normed")
        return self.see(x + self.attended(y, weight, positions, layer),
                        "resid")

    def dense(self, y, weight):
        with jax.named_scope("gate"):
            gate = self.see(y @ weight("mlp/gate_proj"), "mlp")
        with jax.named_scope("up"):
            up = self.see(y @ weight("mlp/up_proj"), "mlp")
        with jax.named_scope("down"):
            inner = self.see(self.activation(gate) * up, "mlp")
            return inner @ weight("mlp/down_proj")

    @staticmethod
    def activation(x):
        return jax.nn.silu(x)

    def layer(self, x, weight, positions, layer):
        x = self.attention(x, weight, positions, layer)
        with jax.named_scope("norm2"):
            y = self.see(norm(x, weight("post_attention_layernorm"),
                              self.config), "normed")
        y = self.mlp(y, weight)
        with jax.named_scope("add"):
            return self.see(x + y, "resid")

    def mlp(self, y, weight):
        return self.dense(y, weight)

    def embedded(self, params, data):
        return self.see(self.rows(params[self.EMBEDDING], data["ids"]),
                        "resid")

    def last_norm(self, x, params):
        return norm(x, params["model/norm/kernel"], self.config)

    def logits(self, y, params):
        head = params[self.HEAD] if self.HEAD in params else \
            params[self.EMBEDDING].T
        return self.see(y @ head, "logits")

    def layers(self, x, params, positions):
        for i in range(self.depth()):
            with jax.named_scope(f"layer{i}"):
                x = self.layer(
                    x, lambda name, i=i: params[self.LAYER.format(i, name)],
                    positions, i)
        return x

    def depth(self):
        return self.config["num_hidden_layers"]

    def loss(self, params, data):
        with jax.named_scope("embed"):
            x = self.embedded(params, data)
        x = self.layers(x, params, data["positions"])
        with jax.named_scope("norm"):
            y = self.see(self.last_norm(x, params), "normed")
        with jax.named_scope("head"):
            logits = self.logits(y, params)
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


class Stacked(Model):
    """Each parameter of all layers is one array, over which a loop goes."""

    LAYER = "model/layers/{}/kernel"

    def layers(self, x, params, positions):
        def one(x, layer):
            return self.layer(x, lambda name: layer[self.LAYER.format(name)],
                              positions, 0), None

        stack = {name: param for name, param in params.items()
                 if name.startswith("model/layers/")}
        return jax.lax.scan(one, x, stack)[0]


class Mixtral(Model):
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

    def mlp(self, y, weight):
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


class Gemma2(Model):
    """Norms before and after, scores and logits with a limit, a window in every
    other layer, one table for both ends."""

    @staticmethod
    def activation(x):
        return jax.nn.gelu(x, approximate=True)

    def scaled(self, scores, layer):
        return capped(scores / self.config["query_pre_attn_scalar"] ** 0.5,
                      self.config["attn_logit_softcapping"])

    def seen(self, positions, layer):
        seen = super().seen(positions, layer)
        if layer % 2:
            return seen
        near = positions[:, :, None] - positions[:, None, :]
        return seen & (near < self.config["sliding_window"])

    def normed(self, x, weight):
        return norm(x, 1 + weight, self.config)

    def layer(self, x, weight, positions, layer):
        with jax.named_scope("norm1"):
            y = self.see(self.normed(x, weight("input_layernorm")), "normed")
        a = self.see(self.attended(y, weight, positions, layer), "resid")
        with jax.named_scope("norm1post"):
            a = self.normed(a, weight("post_attention_layernorm"))
        x = self.see(x + a, "resid")
        with jax.named_scope("norm2"):
            y = self.see(self.normed(x, weight("pre_feedforward_layernorm")),
                         "normed")
        y = self.see(self.dense(y, weight), "resid")
        with jax.named_scope("norm2post"):
            y = self.normed(y, weight("post_feedforward_layernorm"))
        with jax.named_scope("add"):
            return self.see(x + y, "resid")

    def embedded(self, params, data):
        return super().embedded(params, data) * \
            self.config["hidden_size"] ** 0.5

    def last_norm(self, x, params):
        return self.normed(x, params["model/norm/kernel"])

    def logits(self, y, params):
        return capped(super().logits(y, params),
                      self.config["final_logit_softcapping"])


class Gpt2(Model):
    """Query, key and value are one product; positions have a table; layer norms
    and products have biases; kernels are stored [out, in]."""

    EMBEDDING, LAYER = "wte/embedding", "h/{}/{}"

    def __init__(self, config, see, gather=False, grouped=False):
        config = {**config, "head_dim": config["n_embd"] // config["n_head"]}
        super().__init__(config, see, gather, grouped)

    def depth(self):
        return self.config["n_layer"]

    def embedded(self, params, data):
        x = self.rows(params["wte/embedding"], data["ids"])
        return self.see(x + self.rows(params["wpe/embedding"],
                                      data["positions"]), "resid")

    def normed(self, x, weight, name):
        return self.see(layer_norm(x, weight(name + "/scale"),
                                   weight(name + "/bias"), self.config),
                        "normed")

    @staticmethod
    def linear(y, weight, name):
        return y @ weight(name + "/kernel").T + weight(name + "/bias")

    def parts(self, z):
        """Query, key and value, one after the other."""
        return jnp.split(z, 3, -1)

    def layer(self, x, weight, positions, layer):
        with jax.named_scope("norm1"):
            y = self.normed(x, weight, "ln_1")
        with jax.named_scope("qkv"):
            q, k, v = (self.see(part.reshape(*y.shape[:2], -1,
                                             self.config["head_dim"]), "q")
                       for part in self.parts(self.linear(y, weight,
                                                          "attn/c_attn")))
        with jax.named_scope("attention"):
            a = self.attend(q, k, v, positions, layer)
        with jax.named_scope("o"):
            a = self.linear(a.reshape(*y.shape[:2], -1), weight,
                            "attn/c_proj")
        x = self.see(x + a, "resid")
        with jax.named_scope("norm2"):
            y = self.normed(x, weight, "ln_2")
        with jax.named_scope("up"):
            y = self.see(jax.nn.gelu(self.linear(y, weight, "mlp/c_fc"),
                                     approximate=True), "mlp")
        with jax.named_scope("down"):
            y = self.linear(y, weight, "mlp/c_proj")
        with jax.named_scope("add"):
            return self.see(x + y, "resid")

    def last_norm(self, x, params):
        return layer_norm(x, params["ln_f/scale"], params["ln_f/bias"],
                          self.config)


class Gpt2ByPart(Gpt2):
    """With query, key and value of each head together, as loaders that shard
    each part store it."""

    def parts(self, z):
        heads = z.reshape(*z.shape[:2], -1, 3, self.config["head_dim"])
        return [heads[..., i, :] for i in range(3)]


MODELS = {"llama": Model, "mixtral": Mixtral, "gemma": Gemma2, "gpt2": Gpt2,
          "by_part": Gpt2ByPart, "stacked": Stacked}
