"""Decoders of many families in plain JAX, in the names of Hugging Face: a training
step with AdamW, a prefill that returns the last token's logits and the caches, and
one decoding step.

A family is a row of FAMILIES: the names of its tensors and which form attention
and the MLP have. `see(x, role)` constrains a value to the plan's spec of its role.
Each part has a scope, so that an instruction of the partitioned module names it.
"""

import jax
import jax.numpy as jnp

COMMON = {"embed": "model.embed_tokens", "norm": "model.norm", "head": "lm_head",
          "layer": "model.layers.{}.", "norm1": "input_layernorm",
          "norm2": "post_attention_layernorm", "q": "self_attn.q_proj",
          "k": "self_attn.k_proj", "v": "self_attn.v_proj",
          "o": "self_attn.o_proj", "qnorm": "self_attn.q_norm",
          "knorm": "self_attn.k_norm", "gate": "mlp.gate_proj",
          "up": "mlp.up_proj", "down": "mlp.down_proj",
          "gate_up": "mlp.gate_up_proj", "router": "mlp.gate",
          "experts": "mlp.experts.", "shared": None, "kind": "rms"}


def row(**own):
    return {**COMMON, **own}


FAMILIES = {
    "llama": row(),
    "phi3": row(qkv="self_attn.qkv_proj"),
    "mixtral": row(),
    "qwen2_moe": row(shared="mlp.shared_expert."),
    "gpt_oss": row(router="mlp.router", sinks="self_attn.sinks"),
    "deepseek": row(shared="mlp.shared_experts."),
    "gemma2": row(norm2="pre_feedforward_layernorm",
                  norm1post="post_attention_layernorm",
                  norm2post="post_feedforward_layernorm", plus=1.0),
    "gpt_neox": row(embed="gpt_neox.embed_in", norm="gpt_neox.final_layer_norm",
                    head="embed_out", layer="gpt_neox.layers.{}.", kind="layer",
                    each="attention.query_key_value", o="attention.dense",
                    up="mlp.dense_h_to_4h", down="mlp.dense_4h_to_h"),
    "gpt2": row(embed="transformer.wte", norm="transformer.ln_f",
                layer="transformer.h.{}.", norm1="ln_1", norm2="ln_2",
                kind="layer", qkv="attn.c_attn", o="attn.c_proj",
                up="mlp.c_fc", down="mlp.c_proj", places="transformer.wpe",
                turned=True),
    "falcon": row(embed="transformer.word_embeddings", norm="transformer.ln_f",
                  layer="transformer.h.{}.", kind="layer", norm2=None,
                  qkv="self_attention.query_key_value",
                  o="self_attention.dense", up="mlp.dense_h_to_4h",
                  down="mlp.dense_4h_to_h"),
    "olmo2": row(norm1=None, norm2=None, norm1post="post_attention_layernorm",
                 norm2post="post_feedforward_layernorm", wide=True),
    "cohere": row(kind="layer", norm2=None),
    "starcoder2": row(kind="layer", up="mlp.c_fc", down="mlp.c_proj"),
    "llama4": row(router="feed_forward.router", experts="feed_forward.experts.",
                  shared="feed_forward.shared_expert."),
    "granitemoe": row(router="block_sparse_moe.router",
                      experts="block_sparse_moe.experts."),
}


def softmax(x):
    e = jnp.exp(x - jax.lax.stop_gradient(x.max(-1, keepdims=True)))
    return e / e.sum(-1, keepdims=True)


def rotated(x, positions):
    half = x.shape[-1] // 2
    rate = 10000.0 ** (-jnp.arange(half, dtype=x.dtype) / half)
    angle = (positions[..., None].astype(x.dtype) * rate)[:, :, None]
    sin = jnp.concatenate([jnp.sin(angle)] * 2, -1)
    cos = jnp.concatenate([jnp.cos(angle)] * 2, -1)
    a, b = jnp.split(x, 2, -1)
    return x * cos + jnp.concatenate([-b, a], -1) * sin


class Net:
    def __init__(self, family, c, see, tp, by_part, slots):
        self.f, self.c, self.see, self.tp = FAMILIES[family], c, see, tp
        self.family, self.by_part, self.slots = family, by_part, slots
        self.d = c["hidden_size"]
        self.n = c["num_attention_heads"]
        self.k = c["num_key_value_heads"]
        self.h = c.get("head_dim") or self.d // self.n
        self.eps = 1e-6

    # Parameters of a layer, by role.
    def has(self, name):
        return name is not None and (
            self.at + name in self.params or
            self.at + name + ".weight" in self.params)

    def w(self, name):
        full = self.at + name
        return self.params[full if full in self.params else full + ".weight"]

    def linear(self, x, name):
        w = self.w(name)
        y = x @ (w if self.f.get("turned") else w.T)
        bias = self.params.get(self.at + name + ".bias")
        return y if bias is None else y + bias

    def normed(self, x, name):
        if name is None:
            return x
        w = self.w(name) + self.f.get("plus", 0.0)
        if self.f["kind"] == "layer":
            x = x - x.mean(-1, keepdims=True)
        x = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + self.eps) * w
        bias = self.params.get(self.at + name + ".bias")
        return x if bias is None else x + bias

    def split(self, y, sizes):
        """The parts of a fused product. In one range they follow one another;
        by part each device of tp has its share of each."""
        if not self.by_part or self.tp == 1:
            at = [sum(sizes[:i + 1]) for i in range(len(sizes) - 1)]
            return jnp.split(y, at, -1)
        z = y.reshape(*y.shape[:-1], self.tp, -1)
        out, at = [], 0
        for size in sizes:
            part = z[..., at:at + size // self.tp]
            out.append(part.reshape(*y.shape[:-1], size))
            at += size // self.tp
        return out

    def heads(self, y, h=None):
        return y.reshape(*y.shape[:-1], -1, h or self.h)

    # Attention.
    def seen(self, positions, keys, layer):
        seen = positions[:, :, None] >= keys[:, None, :]
        windows = self.c.get("windows")
        if windows and layer % windows:
            near = positions[:, :, None] - keys[:, None, :]
            seen &= near < self.c["sliding_window"]
        return seen

    def scores(self, s, width):
        s = s / width ** 0.5
        cap = self.c.get("attn_logit_softcapping")
        return jnp.tanh(s / cap) * cap if cap else s

    def weights(self, s, seen):
        sinks = self.params.get(self.at + "self_attn.sinks")
        s = jnp.where(seen, s, -1e30)
        if sinks is None:
            return softmax(s)
        more = jnp.broadcast_to(
            sinks.reshape(1, *s.shape[1:-2], 1, 1), (*s.shape[:-1], 1))
        m = jax.lax.stop_gradient(jnp.maximum(s.max(-1, keepdims=True), more))
        e = jnp.exp(s - m)
        return e / (e.sum(-1, keepdims=True) + jnp.exp(more - m))

    def attend(self, q, k, v, positions, keys, layer):
        seen, groups = self.seen(positions, keys, layer), q.shape[2] // k.shape[2]
        if k.shape[2] % self.tp == 0 and groups > 1:
            q = q.reshape(*q.shape[:2], k.shape[2], groups, -1)
            s = self.scores(jnp.einsum("btkgh,bskh->bkgts", q, k), q.shape[-1])
            p = self.weights(s, seen[:, None, None])
            a = jnp.einsum("bkgts,bskh->btkgh", p, v)
            return a.reshape(*a.shape[:2], -1, a.shape[-1])
        if groups > 1:
            k, v = jnp.repeat(k, groups, 2), jnp.repeat(v, groups, 2)
        s = self.scores(jnp.einsum("btnh,bsnh->bnts", q, k), q.shape[-1])
        return jnp.einsum("bnts,bsnh->btnh", self.weights(s, seen[:, None]), v)

    def cached(self, i, name, x):
        """Writes new rows into a cache, or keeps those of a prompt."""
        key = f"{i}.{name}"
        if self.mode == "decode":
            here = jnp.arange(self.caches[key].shape[1]) == self.at_place
            here = here.reshape(1, -1, *[1] * (x.ndim - 2))
            x = jnp.where(here, x, self.caches[key])
        if self.mode != "train":
            x = self.see(x, "cache:" + name)
            self.made[key] = x
        return x

    def qkv(self, y):
        f, n, k, h = self.f, self.n, self.k, self.h
        if f.get("qkv"):
            parts = self.split(self.linear(y, f["qkv"]), [n * h, k * h, k * h])
            return [self.heads(one) for one in parts]
        if f.get("each"):
            z = self.linear(y, f["each"]).reshape(*y.shape[:2], n, 3, h)
            return [z[..., i, :] for i in range(3)]
        q, k, v = (self.linear(y, f[one]) for one in "qkv")
        if f.get("wide"):
            q, k = self.normed(q, f["qnorm"]), self.normed(k, f["knorm"])
        return [self.heads(one) for one in (q, k, v)]

    def attention(self, y, i, positions):
        with jax.named_scope("qkv"):
            q, k, v = self.qkv(y)
            q, k, v = self.see(q, "q"), self.see(k, "k"), self.see(v, "k")
            if not self.f.get("wide") and self.has(self.f["qnorm"]):
                q, k = self.normed(q, self.f["qnorm"]), self.normed(k, self.f["knorm"])
            if not self.f.get("places"):
                q, k = rotated(q, positions), rotated(k, positions)
            k, v = self.cached(i, "k", k), self.cached(i, "v", v)
        with jax.named_scope("attention"):
            a = self.attend(q, k, v, positions, self.keys, i)
            a = self.see(a, "attn_out")
        with jax.named_scope("o"):
            return self.linear(a.reshape(*a.shape[:2], -1), self.f["o"])

    def latent(self, y, i, positions):
        c = self.c
        nope, rope, wide = (c["qk_nope_head_dim"], c["qk_rope_head_dim"],
                            c["v_head_dim"])
        with jax.named_scope("q"):
            if c.get("q_lora_rank"):
                low = self.see(self.linear(y, "self_attn.q_a_proj"), "latent")
                low = self.normed(low, "self_attn.q_a_layernorm")
                q = self.linear(low, "self_attn.q_b_proj")
            else:
                q = self.linear(y, "self_attn.q_proj")
            q = self.see(self.heads(q, nope + rope), "q")
            qn, qr = q[..., :nope], rotated(q[..., nope:], positions)
        with jax.named_scope("kv"):
            low = self.see(self.linear(y, "self_attn.kv_a_proj_with_mqa"), "latent")
            low, kr = low[..., :c["kv_lora_rank"]], low[..., c["kv_lora_rank"]:]
            low = self.normed(low, "self_attn.kv_a_layernorm")
            kr = rotated(kr[:, :, None], positions)[:, :, 0]
            low = self.cached(i, "latent", low)
            kr = self.cached(i, "rope", kr)
        with jax.named_scope("attention"):
            b = self.w("self_attn.kv_b_proj").reshape(self.n, nope + wide, -1)
            seen = self.seen(positions, self.keys, i)[:, None]
            if self.mode == "decode":  # absorbed
                qn = jnp.einsum("btnp,npc->btnc", qn, b[:, :nope])
                s = jnp.einsum("btnc,bsc->bnts", qn, low) + \
                    jnp.einsum("btnr,bsr->bnts", qr, kr)
                p = softmax(jnp.where(seen, s / (nope + rope) ** 0.5, -1e30))
                a = jnp.einsum("bnts,bsc->btnc", p, low)
                a = jnp.einsum("btnc,nwc->btnw", a, b[:, nope:])
            else:
                kv = low @ self.w("self_attn.kv_b_proj").T
                kv = self.see(self.heads(kv, nope + wide), "q")
                kn, v = kv[..., :nope], kv[..., nope:]
                s = jnp.einsum("btnp,bsnp->bnts", qn, kn) + \
                    jnp.einsum("btnr,bsr->bnts", qr, kr)
                p = softmax(jnp.where(seen, s / (nope + rope) ** 0.5, -1e30))
                a = jnp.einsum("bnts,bsnw->btnw", p, v)
            a = self.see(a, "attn_out")
        with jax.named_scope("o"):
            return self.linear(a.reshape(*a.shape[:2], -1), self.f["o"])

    # MLPs.
    def activated(self, x):
        return jax.nn.silu(x)

    def mlp(self, y, at=""):
        f = self.f
        gate, up, down = f["gate"], f["up"], f["down"]
        if at:
            gate, up, down = (at + one for one in ("gate_proj", "up_proj",
                                                   "down_proj"))
        with jax.named_scope("up"):
            if not at and self.has(f["gate_up"]):
                z = self.linear(y, f["gate_up"])
                g, u = self.split(z, [z.shape[-1] // 2] * 2)
                m = self.see(self.activated(self.see(g, "mlp")) * self.see(u, "mlp"), "mlp")
            elif self.has(gate):
                g = self.see(self.linear(y, gate), "mlp")
                u = self.see(self.linear(y, up), "mlp")
                m = self.see(self.activated(g) * u, "mlp")
            else:
                m = self.see(self.activated(self.linear(y, up)), "mlp")
        with jax.named_scope("down"):
            return self.linear(m, down)

    def expert_weights(self):
        """gate and up as [e, d, f] each, down as [e, f, d], and biases."""
        e, n = self.f["experts"], self.c["experts"]
        z, d = self.w(e + "gate_up_proj"), self.w(e + "down_proj")
        if self.family not in ("gpt_oss", "llama4"):  # theirs are [e, in, out]
            z, d = z.transpose(0, 2, 1), d.transpose(0, 2, 1)
        if self.family == "gpt_oss":
            b = self.w(e + "gate_up_proj_bias")
            z = z.reshape(*z.shape[:-1], -1, 2)
            b = b.reshape(n, -1, 2)
            return z[..., 0], z[..., 1], d, b[..., 0], b[..., 1], \
                self.w(e + "down_proj_bias")
        g, u = self.split(z, [z.shape[-1] // 2] * 2)
        return g, u, d, None, None, None

    def scores_of(self, y):
        """What each token's experts weigh, [b, t, e]."""
        logits = self.see(self.linear(y, self.f["router"]), "router")
        top = jax.lax.stop_gradient(jax.lax.top_k(
            logits, self.c["top_k"])[0][..., -1:])
        chosen = (logits >= top).astype(logits.dtype)
        weights = softmax(logits) * chosen
        return chosen, weights / weights.sum(-1, keepdims=True)

    def moe(self, y):
        with jax.named_scope("router"):
            chosen, share = self.scores_of(y)
        g, u, d, bg, bu, bd = self.expert_weights()
        if not self.c["sends"]:
            # Every device has the tokens of its experts: one product over
            # experts and their width adds what a token's experts give.
            with jax.named_scope("experts"):
                a = jnp.einsum("btd,edf->btef", y, g)
                b = jnp.einsum("btd,edf->btef", y, u)
                if bg is not None:
                    a, b = a + bg, b + bu
                m = self.activated(a) * b * share[..., None]
                m = self.see(m, "dense_experts")
                out = jnp.einsum("btef,efd->btd", m, d)
                if bd is not None:
                    out = out + share @ bd
            return out
        if self.mode == "decode":
            # The tokens of a device share the queues.
            groups, shape = self.c["groups"], y.shape
            y, chosen, share = (x.reshape(groups, -1, x.shape[-1])
                                for x in (y, chosen, share))
        with jax.named_scope("dispatch"):
            place = jnp.cumsum(chosen, 1) - chosen
            slots = jax.nn.one_hot(place.astype(jnp.int32), self.slots,
                                   dtype=y.dtype) * chosen[..., None]
            sent = self.see(jnp.einsum("btec,btd->becd", slots, y), "moe_tok")
            sent = self.see(sent, "moe_exp")
        with jax.named_scope("experts"):
            a = self.see(jnp.einsum("becd,edf->becf", sent, g), "moe_mlp")
            b = self.see(jnp.einsum("becd,edf->becf", sent, u), "moe_mlp")
            if bg is not None:
                a, b = a + bg[:, None], b + bu[:, None]
            m = self.see(self.activated(a) * b, "moe_mlp")
            made = jnp.einsum("becf,efd->becd", m, d)
            if bd is not None:
                made = made + bd[:, None]
            made = self.see(made, "moe_exp")
        with jax.named_scope("combine"):
            made = self.see(made, "moe_tok")
            out = jnp.einsum("btec,becd->btd", slots * share[..., None], made)
            return out.reshape(shape) if self.mode == "decode" else out

    def feed_forward(self, y):
        if not self.has(self.f["router"]):
            return self.mlp(y)
        out = self.moe(y)
        if self.f["shared"]:
            with jax.named_scope("shared"):
                s = self.mlp(y, self.f["shared"])
                gate = self.f["shared"].rstrip(".") + "_gate"
                if self.has(gate):
                    s = s * jax.nn.sigmoid(self.linear(y, gate))
                out = out + s
        return out

    def layer(self, x, i, positions):
        f = self.f
        with jax.named_scope("norm1"):
            y = self.see(self.normed(x, f["norm1"]), "normed")
        latent = self.has("self_attn.kv_a_proj_with_mqa")
        a = (self.latent if latent else self.attention)(y, i, positions)
        if f.get("norm1post"):
            with jax.named_scope("norm1post"):
                a = self.normed(self.see(a, "resid"), f["norm1post"])
        parallel = self.family in ("cohere", "falcon", "gpt_neox")
        if not parallel:
            with jax.named_scope("add1"):
                x = self.see(x + a, "resid")
            a = None
        if f["norm2"] or not parallel:
            with jax.named_scope("norm2"):
                y = self.see(self.normed(x, f["norm2"]), "normed")
        m = self.feed_forward(y)
        if f.get("norm2post"):
            with jax.named_scope("norm2post"):
                m = self.normed(self.see(m, "resid"), f["norm2post"])
        with jax.named_scope("add"):
            return self.see(x + (m if a is None else a + m), "resid")

    def rows(self, table, ids):
        return jax.nn.one_hot(ids, len(table), dtype=table.dtype) @ table

    def logits(self, params, ids, positions, mode, caches=None, place=None):
        f, self.params, self.mode, self.at = self.f, params, mode, ""
        self.caches, self.at_place, self.made = caches, place, {}
        length = ids.shape[1]
        if mode == "decode":
            # All rows of a cache's width have been filled.
            first = next(iter(caches.values()))
            self.keys = jnp.broadcast_to(jnp.arange(first.shape[1]),
                                         (ids.shape[0], first.shape[1]))
        else:
            self.keys = positions
        with jax.named_scope("embed"):
            x = self.rows(self.w(f["embed"]), ids)
            if f.get("places"):
                x = self.see(x, "resid") + self.rows(self.w(f["places"]), positions)
            x = self.see(x, "resid")
        for i in range(self.c["num_hidden_layers"]):
            with jax.named_scope(f"layer{i}"):
                self.at = f["layer"].format(i)
                x = self.layer(x, i, positions)
        self.at = ""
        with jax.named_scope("norm"):
            if mode == "prefill":
                x = self.see(x[:, -1:], "resid")
            y = self.see(self.normed(x, f["norm"]), "normed")
        with jax.named_scope("head"):
            head = self.w(next(one for one in (f["head"], "lm_head", f["embed"])
                               if self.has(one)))
            z = self.see(y @ head.T, "logits")
            cap = self.c.get("final_logit_softcapping")
            return jnp.tanh(z / cap) * cap if cap else z

    def loss(self, params, data):
        logits = self.logits(params, data["ids"], data["positions"], "train")
        with jax.named_scope("loss"):
            most = jax.lax.stop_gradient(logits.max(-1, keepdims=True))
            shifted = logits - most
            total = jnp.log(jnp.exp(shifted).sum(-1))
            picked = (shifted * jax.nn.one_hot(
                data["labels"], logits.shape[-1], dtype=logits.dtype)).sum(-1)
            return ((total - picked) * data["weights"]).sum() / data["weights"].sum()

    def train(self, params, moments, data):
        loss, g = jax.value_and_grad(self.loss)(params, data)
        with jax.named_scope("gradient_norm"):
            norm = jnp.sqrt(sum((one * one).sum() for one in g.values()))
            scale = jnp.minimum(1.0, 1.0 / norm)
        new, states = {}, {}
        for name, one in g.items():
            one = self.see(one, "gradient:" + name) * scale
            m = 0.9 * moments[name][0] + 0.1 * one
            v = 0.95 * moments[name][1] + 0.05 * one * one
            states[name] = (m, v)
            new[name] = params[name] - 1e-4 * (
                m / (jnp.sqrt(v) + 1e-8) + 0.1 * params[name])
        return loss, new, states

    def prefill(self, params, data):
        out = self.logits(params, data["ids"], data["positions"], "prefill")
        return out, self.made

    def decode(self, params, data, caches):
        out = self.logits(params, data["ids"], data["positions"], "decode",
                          caches, data["place"])
        return out, self.made
