"""Transformers with dense layers: fused and separate projections, grouped and single
KV heads, parallel blocks, scanned layers, caches, adapters and quantised weights."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import nnx

from layers import (
    F32, I32, Model, attention, grouped_attention, layer_norm, layered, next_token,
    plain, rms, rope, shape, tokens)

# ---- GPT with one matrix [Q|K|V], in flax.nnx


class Glarb(nnx.Module):
    def __init__(self, width, heads, rngs):
        self.heads = heads
        self.zub = nnx.LayerNorm(width, rngs=rngs)
        self.fny = nnx.Linear(width, 3 * width, rngs=rngs)
        self.qix = nnx.Linear(width, width, rngs=rngs)
        self.wob = nnx.LayerNorm(width, rngs=rngs)
        self.tak = nnx.Linear(width, 4 * width, rngs=rngs)
        self.elk = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, x):
        q, k, v = jnp.split(self.fny(self.zub(x)), 3, -1)
        q, k, v = (one.reshape(*x.shape[:2], self.heads, -1) for one in (q, k, v))
        x = x + self.qix(attention(q, k, v).reshape(x.shape))
        return x + self.elk(jax.nn.gelu(self.tak(self.wob(x))))


class Mumble(nnx.Module):
    def __init__(self, rngs):
        self.ork = nnx.Embed(96, 40, rngs=rngs)
        self.pum = nnx.Param(jnp.ones((12, 40)))
        self.vex = nnx.List([Glarb(40, 5, rngs) for _ in range(2)])
        self.fin = nnx.LayerNorm(40, rngs=rngs)

    def __call__(self, tokens):
        x = self.ork(tokens) + self.pum[: tokens.shape[1]]
        for one in self.vex:
            x = one(x)
        return self.ork.attend(self.fin(x))


def gpt_fused():
    model = nnx.eval_shape(lambda: Mumble(nnx.Rngs(0)))
    return Model(
        lambda m, batch: m(batch["tokens"]), model, tokens(2, 10),
        loss=next_token, high=96, answers={
            "ork/embedding": "vocab | stream",
            "pum": "position | stream",
            "vex/*/zub/*": "stream",
            "vex/*/wob/*": "stream",
            "fin/*": "stream",
            "vex/*/fny/kernel":
                "stream | sum(heads*head_dim,heads*head_dim,heads*head_dim)",
            "vex/*/fny/bias":
                "sum(heads*head_dim,heads*head_dim,heads*head_dim)",
            "vex/*/qix/kernel": "heads*head_dim | stream",
            "vex/*/qix/bias": "stream",
            "vex/*/tak/kernel": "stream | inner",
            "vex/*/tak/bias": "inner",
            "vex/*/elk/kernel": "inner | stream",
            "vex/*/elk/bias": "stream",
        })


# ---- Llama


def llama_block(w, x, kv, group):
    b, t, _ = x.shape
    h = rms(x, w["norm1"])
    q = rope((h @ w["q"]).reshape(b, t, kv, group, -1))
    k = rope((h @ w["k"]).reshape(b, t, kv, -1))
    v = (h @ w["v"]).reshape(b, t, kv, -1)
    x = x + grouped_attention(q, k, v).reshape(b, t, -1) @ w["o"]
    h = rms(x, w["norm2"])
    return x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"]


def llama_shapes(width=48, kv=2, group=3, head=8, inner=80):
    return {"norm1": (width,), "q": (width, kv * group * head),
            "k": (width, kv * head), "v": (width, kv * head),
            "o": (kv * group * head, width), "norm2": (width,),
            "gate": (width, inner), "up": (width, inner), "down": (inner, width)}


LLAMA = {
    "*.norm?": "stream", "norm": "stream", "emb": "vocab | stream",
    "head": "stream | vocab", "*.q": "stream | kv*group*head_dim",
    "*.k": "stream | kv*head_dim", "*.v": "stream | kv*head_dim",
    "*.o": "kv*group*head_dim | stream", "*.gate": "stream | inner",
    "*.up": "stream | inner", "*.down": "inner | stream"}


def llama():
    def forward(w, batch):
        x = w["emb"][batch["tokens"]]
        for i in range(2):
            x = llama_block(w.layer(i), x, 2, 3)
        return rms(x, w["norm"]) @ w["head"]

    shapes = {"emb": (112, 48), "norm": (48,), "head": (48, 112),
              **layered(2, llama_shapes())}
    return plain(forward, shapes, batch=tokens(2, 10), loss=next_token, high=112,
                 answers=LLAMA)


# ---- One KV head, with queries, key and value in one matrix (Falcon)


def mqa():
    def forward(w, batch):
        x = w["emb"][batch["tokens"]]
        for i in range(2):
            one = w.layer(i)
            h = layer_norm(x, one["g"], one["b"])
            # (heads + 2) blocks of head_dim.
            qkv = (h @ one["qkv"]).reshape(*x.shape[:2], 6, 8)
            q, k, v = qkv[..., :4, :], qkv[..., 4, :], qkv[..., 5, :]
            scores = jnp.einsum("bqnd,bsd->bnqs", rope(q), rope(k)) * 8 ** -0.5
            keep = jnp.tril(jnp.ones(scores.shape[-2:], bool))
            p = jax.nn.softmax(jnp.where(keep, scores, -jnp.inf), -1)
            y = jnp.einsum("bnqs,bsd->bqnd", p, v).reshape(*x.shape[:2], 32)
            x = x + y @ one["out"] + jax.nn.gelu(h @ one["up"]) @ one["down"]
        return x @ w["emb"].T

    shapes = {"emb": (104, 40), **layered(2, {
        "g": (40,), "b": (40,), "qkv": (40, 48), "out": (32, 40), "up": (40, 136),
        "down": (136, 40)})}
    return plain(forward, shapes, batch=tokens(2, 9), loss=next_token, high=104,
                 answers={
                     "emb": "vocab | stream", "*.g": "stream", "*.b": "stream",
                     "*.qkv": "stream | (heads+2)*head_dim",
                     "*.out": "heads*head_dim | stream",
                     "*.up": "stream | inner", "*.down": "inner | stream"})


# ---- NeoX: parallel blocks, and [heads, 3, head_dim] in one matrix, in Flax linen


class Zork(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(88, 36, name="a0")(tokens)
        for i in range(2):
            b, t, h = x.shape
            y = nn.LayerNorm(name=f"b{i}")(x)
            qkv = nn.Dense(3 * h, name=f"c{i}")(y).reshape(b, t, 3, 3, h // 3)
            q, k, v = (qkv[..., j, :] for j in range(3))
            y = attention(rope(q), rope(k), v).reshape(b, t, h)
            z = nn.LayerNorm(name=f"e{i}")(x)
            z = nn.Dense(h, name=f"g{i}")(nn.gelu(nn.Dense(100, name=f"f{i}")(z)))
            x = x + nn.Dense(h, name=f"d{i}")(y) + z
        return nn.Dense(88, use_bias=False, name="h0")(nn.LayerNorm(name="i0")(x))


def parallel():
    module = Zork()
    params = jax.eval_shape(module.init, jax.random.key(0), shape(2, 11, dtype=I32))
    return Model(
        lambda p, batch: module.apply(p, batch["tokens"]), params, tokens(2, 11),
        loss=next_token, high=88, answers={
            "params/a0/embedding": "vocab | stream",
            "params/[bei]?/*": "stream",
            "params/c?/kernel": "stream | heads*3*head_dim",
            "params/c?/bias": "heads*3*head_dim",
            "params/d?/kernel": "heads*head_dim | stream",
            "params/d?/bias": "stream",
            "params/f?/kernel": "stream | inner", "params/f?/bias": "inner",
            "params/g?/kernel": "inner | stream", "params/g?/bias": "stream",
            "params/h0/kernel": "stream | vocab"})


# ---- Grouped heads in one matrix [kv, group + 2, head_dim] (GQA of NeMo, InternLM2)


def grouped_fused():
    kv, group, head = 2, 2, 8

    def forward(w, batch):
        x = w["emb"][batch["tokens"]]
        for i in range(2):
            one = w.layer(i)
            h = rms(x, one["norm1"])
            qkv = (h @ one["qkv"]).reshape(*x.shape[:2], kv, group + 2, head)
            q, k, v = jnp.split(qkv, [group, group + 1], 3)
            y = grouped_attention(rope(q), rope(k)[:, :, :, 0], v[:, :, :, 0])
            x = x + y.reshape(*x.shape[:2], -1) @ one["out"]
            gate, up = jnp.split(rms(x, one["norm2"]) @ one["gate_up"], 2, -1)
            x = x + (jax.nn.silu(gate) * up) @ one["down"]
        return rms(x, w["norm"]) @ w["head"].T

    shapes = {"emb": (120, 44), "norm": (44,), "head": (120, 44), **layered(2, {
        "norm1": (44,), "qkv": (44, 64), "out": (32, 44), "norm2": (44,),
        "gate_up": (44, 144), "down": (72, 44)})}
    return plain(forward, shapes, batch=tokens(2, 10), loss=next_token, high=120,
                 answers={
                     "emb": "vocab | stream", "norm": "stream", "*.norm?": "stream",
                     "head": "vocab | stream",
                     "*.qkv": "stream | kv*(group+2)*head_dim",
                     "*.out": "kv*group*head_dim | stream",
                     "*.gate_up": "stream | sum(inner,inner)",
                     "*.down": "inner | stream"})


# ---- Layers in a scan, recomputed in the backward pass


def scan_llama():
    one = llama_shapes(40, 2, 2, 8, 72)

    def forward(w, batch):
        x = w["emb"][batch["tokens"]]

        @jax.checkpoint
        def turn(x, layer):
            return llama_block(layer, x, 2, 2), None

        x, _ = jax.lax.scan(turn, x, {name: w["all." + name] for name in one})
        return rms(x, w["norm"]) @ w["head"]

    shapes = {"emb": (104, 40), "norm": (40,), "head": (40, 104),
              **{"all." + name: (3, *of) for name, of in one.items()}}
    return plain(forward, shapes, batch=tokens(2, 9), loss=next_token, high=104,
                 answers={k.replace("*.", "all."): ("layers | " if "*." in k else "") + v
                          for k, v in LLAMA.items()})


# ---- LoRA adapters of the queries' and values' matrices


def lora():
    def forward(w, batch):
        x = w["emb"][batch["tokens"]]
        for i in range(2):
            one = w.layer(i)
            merged = {name: one[name] for name in llama_shapes()}
            for name in "qv":
                merged[name] = one[name] + 0.5 * one[name + "a"] @ one[name + "b"]
            x = llama_block(merged, x, 2, 3)
            # An adapter on the residual stream, not merged.
            x = x + jax.nn.relu(x @ one["pa"]) @ one["pb"]
        return rms(x, w["norm"]) @ w["head"]

    shapes = {"emb": (112, 48), "norm": (48,), "head": (48, 112), **layered(2, {
        **llama_shapes(), "qa": (48, 6), "qb": (6, 48), "va": (48, 6), "vb": (6, 16),
        "pa": (48, 10), "pb": (10, 48)})}
    return plain(forward, shapes, batch=tokens(2, 9), loss=next_token, high=112,
                 answers={**LLAMA, "*.qa": "stream | rank",
                          "*.qb": "rank | kv*group*head_dim", "*.va": "stream | rank2",
                          "*.vb": "rank2 | kv*head_dim", "*.pa": "stream | rank3",
                          "*.pb": "rank3 | stream"})


# ---- Weights in int8 with scales, and one matrix for embedding and head


def int8():
    def weight(w, name):
        return w[name].astype(F32) * w[name + "_scale"]

    def forward(w, batch):
        x = w["emb"][batch["tokens"]].astype(F32) * w["emb_scale"][batch["tokens"]]
        for i in range(2):
            one = w.layer(i)
            full = {name: weight(one, name) for name in "q k v o gate up down".split()}
            x = llama_block({**full, "norm1": one["norm1"], "norm2": one["norm2"]},
                            x, 2, 2)
        return rms(x, w["norm"]) @ (w["emb"].astype(F32) * w["emb_scale"]).T

    one = {}
    for name, of in llama_shapes(40, 2, 2, 8, 64).items():
        one[name] = shape(*of) if len(of) == 1 else shape(*of, dtype=jnp.int8)
        if len(of) == 2:
            one[name + "_scale"] = shape(of[1])
    shapes = {"emb": shape(104, 40, dtype=jnp.int8), "emb_scale": (104, 1),
              "norm": (40,), **layered(2, one)}
    scales = {f"{k}_scale": v.split("|")[1] for k, v in LLAMA.items()
              if "|" in v and k not in ("emb", "head")}
    return plain(forward, shapes, batch=tokens(2, 9), high=104,
                 answers={**{k: v for k, v in LLAMA.items() if k != "head"}, **scales,
                          "emb_scale": "vocab | 1"})


# ---- One step of decoding with a stacked KV cache


def decode():
    kv, group, head, longest = 2, 3, 8, 14

    def forward(w, state, batch):
        x = w["emb"][batch["tokens"]][:, None]
        at = state["length"]
        ks, vs = state["k"], state["v"]
        angle = at * 1e4 ** (-jnp.arange(head // 2) / (head // 2))

        def rotate(x):
            a, b = jnp.split(x, 2, -1)
            c, s = jnp.cos(angle), jnp.sin(angle)
            return jnp.concatenate([a * c - b * s, b * c + a * s], -1)

        for i in range(2):
            one = w.layer(i)
            h = rms(x, one["norm1"])
            q = rotate((h @ one["q"]).reshape(-1, 1, kv, group, head))
            k = rotate((h @ one["k"]).reshape(-1, 1, kv, head))
            v = (h @ one["v"]).reshape(-1, 1, kv, head)
            ks = jax.lax.dynamic_update_slice(ks, k[None], (i, 0, at, 0, 0))
            vs = jax.lax.dynamic_update_slice(vs, v[None], (i, 0, at, 0, 0))
            y = grouped_attention(
                q, ks[i], vs[i],
                lambda s: jnp.where(jnp.arange(longest) <= at, s, -1e9))
            x = x + y.reshape(x.shape[0], 1, -1) @ one["o"]
            h = rms(x, one["norm2"])
            x = x + (jax.nn.silu(h @ one["gate"]) * (h @ one["up"])) @ one["down"]
        logits = (rms(x, w["norm"]) @ w["head"])[:, 0]
        return jnp.argmax(logits, -1), {"k": ks, "v": vs, "length": at + 1}

    cache = shape(2, 5, longest, kv, head)
    shapes = {"emb": (112, 48), "norm": (48,), "head": (48, 112),
              **layered(2, llama_shapes())}
    return plain(forward, shapes, batch={"tokens": shape(5, dtype=I32)}, high=112,
                 state={"k": cache, "v": cache, "length": shape(dtype=I32)},
                 answers=LLAMA)


# ---- T5: an encoder and a decoder with biases of relative positions


def t5():
    def attended(w, x, y, bias, mask):
        b, t, _ = x.shape
        q = (x @ w["q"]).reshape(b, t, 4, 8)
        k, v = ((y @ w[n]).reshape(b, -1, 4, 8) for n in "kv")
        scores = jnp.einsum("bqnd,bsnd->bnqs", q, k)
        scores = scores if bias is None else scores + bias
        p = jax.nn.softmax(mask(scores), -1)
        return jnp.einsum("bnqs,bsnd->bqnd", p, v).reshape(b, t, 32) @ w["o"]

    def bias_of(table, t):
        far = jnp.arange(t)[None] - jnp.arange(t)[:, None]
        return table[jnp.clip(far + 8, 0, 15)].transpose(2, 0, 1)[None]

    def inner(w, x):
        h = rms(x, w["n3"])
        return x + (jax.nn.gelu(h @ w["wi0"]) * (h @ w["wi1"])) @ w["wo"]

    def all_(scores):
        return scores

    def causal(scores):
        t = scores.shape[-1]
        return jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e9)

    def forward(w, batch):
        x = w["emb"][batch["source"]]
        bias = bias_of(w["ebias"], x.shape[1])
        for i in range(2):
            one = w.layer(f"e{i}")
            h = rms(x, one["n1"])
            x = inner(one, x + attended(one, h, h, bias, all_))
        memory = rms(x, w["enorm"])
        x = w["emb"][batch["tokens"]]
        bias = bias_of(w["dbias"], x.shape[1])
        for i in range(2):
            one = w.layer(f"d{i}")
            h = rms(x, one["n1"])
            x = x + attended(one, h, h, bias, causal)
            h = rms(x, one["n2"])
            x = inner(one, x + attended(one.layer("x"), h, memory, None, all_))
        return rms(x, w["dnorm"]) @ w["emb"].T

    att = {"q": (36, 32), "k": (36, 32), "v": (36, 32), "o": (32, 36)}
    one = {**att, "n1": (36,), "n3": (36,), "wi0": (36, 76), "wi1": (36, 76),
           "wo": (76, 36)}
    two = {**one, "n2": (36,), **{"x." + k: v for k, v in att.items()}}
    shapes = {"emb": (92, 36), "ebias": (16, 4), "dbias": (16, 4), "enorm": (36,),
              "dnorm": (36,)}
    for i in range(2):
        shapes |= {f"e{i}.{k}": v for k, v in one.items()}
        shapes |= {f"d{i}.{k}": v for k, v in two.items()}
    answers = {"emb": "vocab | stream", "?norm": "stream", "*.n?": "stream"}
    # Nothing ties the three kinds of attention to each other, but for the biases.
    for kind, number in (("e?", ""), ("d?", "2"), ("d?.x", "3")):
        for name in "qkv":
            answers[f"{kind}.{name}"] = f"stream | heads{number}*head_dim{number}"
        answers[f"{kind}.o"] = f"heads{number}*head_dim{number} | stream"
    for kind, number in (("e", ""), ("d", "2")):
        answers[f"{kind}bias"] = f"position{number} | heads{number}"
        answers[f"{kind}?.wi?"] = f"stream | inner{number}"
        answers[f"{kind}?.wo"] = f"inner{number} | stream"
    return plain(forward, shapes, batch={**tokens(2, 7), "source": shape(2, 11, dtype=I32)},
                 loss=next_token, high=92, answers=answers)


# ---- A loop that generates text from a token, with a cache that zeros begin


def generate():
    kv, group, head, length = 2, 2, 8, 10

    def forward(w, batch):
        rows = batch["tokens"].shape[0]

        def more(c):
            return (c[0] < length) & ~jnp.all(c[4])

        def turn(c):
            i, token, keys, values, done, text = c
            x = w["emb"][token]
            q = (x @ w["q"]).reshape(rows, kv, group, head)
            keys = keys.at[:, i].set((x @ w["k"]).reshape(rows, kv, head))
            values = values.at[:, i].set((x @ w["v"]).reshape(rows, kv, head))
            scores = jnp.einsum("bkgd,btkd->bkgt", q, keys)
            scores = jnp.where(jnp.arange(length) <= i, scores, -1e9)
            y = jnp.einsum("bkgt,btkd->bkgd", jax.nn.softmax(scores, -1), values)
            x = x + y.reshape(rows, -1) @ w["o"]
            x = x + jax.nn.silu(x @ w["up"]) @ w["down"]
            token = jnp.argmax(x @ w["head"], -1).astype(I32)
            return i + 1, token, keys, values, done | (token == 0), text.at[:, i].set(token)

        cache = jnp.zeros((rows, length, kv, head))
        return jax.lax.while_loop(more, turn, (
            0, batch["tokens"], cache, cache, jnp.zeros(rows, bool),
            jnp.zeros((rows, length), I32)))[5]

    shapes = {"emb": (96, 40), "q": (40, kv * group * head), "k": (40, kv * head),
              "v": (40, kv * head), "o": (kv * group * head, 40), "up": (40, 72),
              "down": (72, 40), "head": (40, 96)}
    return plain(forward, shapes, batch={"tokens": shape(4, dtype=I32)}, high=96, answers={
        "emb": "vocab | stream", "q": "stream | kv*group*head_dim",
        "[kv]": "stream | kv*head_dim", "o": "kv*group*head_dim | stream",
        "up": "stream | inner", "down": "inner | stream", "head": "stream | out"})
