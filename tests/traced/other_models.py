"""Models of images, recurrences and state spaces, and layouts of other libraries."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import nnx

from dense_models import LLAMA
from layers import (
    Model, attention, grouped_attention, layered, next_token, plain, rms, rope, shape,
    squares, tokens)

# ---- DiT: one matrix makes six vectors that modulate a block, in flax.nnx


class Grue(nnx.Module):
    def __init__(self, rngs):
        self.lim = nnx.Linear(40, 240, rngs=rngs)
        self.pok = nnx.Linear(40, 120, rngs=rngs)
        self.dov = nnx.Linear(40, 40, rngs=rngs)
        self.uzi = nnx.Linear(40, 112, rngs=rngs)
        self.ait = nnx.Linear(112, 40, rngs=rngs)

    def __call__(self, x, c):
        def norm(x):
            x = x - x.mean(-1, keepdims=True)
            return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)

        six = jnp.split(self.lim(nnx.silu(c))[:, None], 6, -1)
        h = norm(x) * (1 + six[0]) + six[1]
        qkv = self.pok(h).reshape(*x.shape[:2], 3, 5, 8)
        y = attention(*(qkv[:, :, i] for i in range(3)), mask=lambda s: s)
        x = x + six[2] * self.dov(y.reshape(x.shape))
        h = norm(x) * (1 + six[3]) + six[4]
        return x + six[5] * self.ait(nnx.gelu(self.uzi(h)))


class Blorb(nnx.Module):
    def __init__(self, rngs):
        self.cut = nnx.Conv(3, 40, (2, 2), strides=(2, 2), rngs=rngs)
        self.loc = nnx.Param(jnp.ones((16, 40)))
        self.tim = nnx.Linear(20, 40, rngs=rngs)
        self.row = nnx.List([Grue(rngs) for _ in range(2)])
        self.end = nnx.Linear(40, 12, rngs=rngs)

    def __call__(self, image, time):
        wave = jnp.exp(-jnp.arange(10) / 3.0)
        angle = time[:, None] * wave
        c = self.tim(jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], -1))
        x = self.cut(image)
        x = x.reshape(x.shape[0], -1, 40) + self.loc
        for one in self.row:
            x = one(x, c)
        x = self.end(x).reshape(-1, 4, 4, 2, 2, 3)
        return x.transpose(0, 1, 3, 2, 4, 5).reshape(image.shape)


def dit():
    model = nnx.eval_shape(lambda: Blorb(nnx.Rngs(0)))
    image = shape(3, 8, 8, 3)
    return Model(
        lambda m, batch: m(batch["image"], batch["time"]), model,
        {"image": image, "time": shape(3), "target": image}, loss=squares, answers={
            "cut/kernel": "window | window2 | in | stream", "cut/bias": "stream",
            "loc": "position | stream", "tim/kernel": "in2 | cond",
            "tim/bias": "cond",
            "row/*/lim/kernel":
                "cond | sum(stream,stream,stream,stream,stream,stream)",
            "row/*/lim/bias": "sum(stream,stream,stream,stream,stream,stream)",
            "row/*/pok/kernel": "stream | 3*heads*head_dim",
            "row/*/pok/bias": "3*heads*head_dim",
            "row/*/dov/kernel": "heads*head_dim | stream", "row/*/dov/bias": "stream",
            "row/*/uzi/kernel": "stream | inner", "row/*/uzi/bias": "inner",
            "row/*/ait/kernel": "inner | stream", "row/*/ait/bias": "stream",
            "end/kernel": "stream | 2*2*in", "end/bias": "2*2*in"})


# ---- ViT with linen's MultiHeadDotProductAttention


class Frotz(nn.Module):
    @nn.compact
    def __call__(self, image):
        x = nn.Conv(36, (4, 4), strides=(4, 4), name="j0")(image)
        x = x.reshape(x.shape[0], -1, 36)
        first = self.param("j1", nn.initializers.ones, (1, 1, 36))
        x = jnp.concatenate([jnp.tile(first, (x.shape[0], 1, 1)), x], 1)
        x = x + self.param("j2", nn.initializers.ones, (1, 17, 36))
        for i in range(2):
            y = nn.LayerNorm(name=f"k{i}")(x)
            x = x + nn.MultiHeadDotProductAttention(
                num_heads=3, qkv_features=24, name=f"l{i}")(y, y)
            y = nn.Dense(92, name=f"n{i}")(nn.LayerNorm(name=f"m{i}")(x))
            x = x + nn.Dense(36, name=f"o{i}")(nn.gelu(y))
        return nn.Dense(10, name="r0")(nn.LayerNorm(name="q0")(x)[:, 0])


def vit():
    module, image = Frotz(), shape(3, 16, 16, 3)
    params = jax.eval_shape(module.init, jax.random.key(0), image)
    answers = {
        "params/j0/kernel": "window | window2 | in | stream", "params/j0/bias": "stream",
        "params/j1": "1 | 1 | stream", "params/j2": "1 | position | stream",
        "params/[kmq]?/*": "stream", "params/l?/out/kernel": "heads | head_dim | stream",
        "params/l?/out/bias": "stream", "params/n?/kernel": "stream | inner",
        "params/n?/bias": "inner", "params/o?/kernel": "inner | stream",
        "params/o?/bias": "stream", "params/r0/kernel": "stream | out",
        "params/r0/bias": "out"}
    for name in ("query", "key", "value"):
        answers[f"params/l?/{name}/kernel"] = "stream | heads | head_dim"
        answers[f"params/l?/{name}/bias"] = "heads | head_dim"
    return Model(lambda p, batch: module.apply(p, batch["image"]), params,
                 {"image": image, "labels": shape(3, dtype=jnp.int32)},
                 loss=next_token, high=10, answers=answers)


# ---- A short causal convolution along time, each channel alone


def short_conv(x, kernel):
    """x [batch, time, channels], kernel [window, channels]."""
    window, channels = kernel.shape
    return jax.lax.conv_general_dilated(
        x, kernel[:, None], (1,), [(window - 1, 0)],
        dimension_numbers=("NHC", "HIO", "NHC"), feature_group_count=channels)


# ---- Gated delta rule, with heads in one matrix [k heads, (q, k, values, gates)]


def gdn():
    """Qwen3-Next's linear attention: keys' heads with two values' heads each."""
    kh, per, dk, dv = 2, 2, 6, 8

    def forward(w, batch):
        x = w["emb"][batch["tokens"]]
        b, t, _ = x.shape
        for i in range(2):
            one = w.layer(i)
            h = rms(x, one["norm1"])
            mixed = (h @ one["qkvz"]).reshape(b, t, kh, 2 * dk + 2 * per * dv)
            q, k, v, z = jnp.split(mixed, [dk, 2 * dk, 2 * dk + per * dv], -1)
            beta, decay = jnp.split((h @ one["ba"]).reshape(b, t, kh, 2 * per), 2, -1)
            beta = jax.nn.sigmoid(beta).reshape(b, t, kh * per)
            decay = decay.reshape(b, t, kh * per)
            g = jnp.exp(-jnp.exp(one["alog"]) * jax.nn.softplus(decay + one["dt"]))
            flat = jnp.concatenate([a.reshape(b, t, -1) for a in (q, k, v)], -1)
            flat = jax.nn.silu(short_conv(flat, one["conv"]))
            q, k, v = jnp.split(flat, [kh * dk, 2 * kh * dk], -1)
            q, k = (jnp.repeat(a.reshape(b, t, kh, dk), per, 2) for a in (q, k))
            q, k = (a * jax.lax.rsqrt((a * a).sum(-1, keepdims=True) + 1e-6)
                    for a in (q, k))
            v = v.reshape(b, t, kh * per, dv)

            def turn(s, now):
                q, k, v, beta, g = now
                s = s * g[..., None, None]
                error = (v - jnp.einsum("bnkv,bnk->bnv", s, k)) * beta[..., None]
                s = s + jnp.einsum("bnk,bnv->bnkv", k, error)
                return s, jnp.einsum("bnkv,bnk->bnv", s, q)

            steps = tuple(jnp.moveaxis(a, 1, 0) for a in (q, k, v, beta, g))
            _, y = jax.lax.scan(turn, jnp.zeros((b, kh * per, dk, dv)), steps)
            y = rms(jnp.moveaxis(y, 0, 1), one["onorm"])
            y = y * jax.nn.silu(z.reshape(b, t, kh * per, dv))
            x = x + y.reshape(b, t, -1) @ one["out"]
            h = rms(x, one["norm2"])
            x = x + (jax.nn.silu(h @ one["gate"]) * (h @ one["up"])) @ one["down"]
        return rms(x, w["norm"]) @ w["head"]

    shapes = {"emb": (104, 40), "norm": (40,), "head": (40, 104), **layered(2, {
        "norm1": (40,), "norm2": (40,), "qkvz": (40, kh * (2 * dk + 2 * per * dv)),
        "ba": (40, kh * 2 * per), "alog": (kh * per,), "dt": (kh * per,),
        "conv": (3, 2 * kh * dk + kh * per * dv), "onorm": (dv,),
        "out": (kh * per * dv, 40), "gate": (40, 72), "up": (40, 72),
        "down": (72, 40)})}
    return plain(forward, shapes, batch=tokens(2, 7), loss=next_token, high=104,
                 answers={
                     **{k: v for k, v in LLAMA.items() if k[2:] not in "qkvo"},
                     "*.qkvz": "stream | kv*sum(state,state,group*head_dim,group*head_dim)",
                     "*.ba": "stream | kv*2*group", "*.alog": "kv*group",
                     "*.dt": "kv*group",
                     "*.conv": "window | sum(kv*state,kv*state,kv*group*head_dim)",
                     "*.onorm": "head_dim", "*.out": "kv*group*head_dim | stream"})


# ---- Mamba 2: [z|x|B|C|dt] in one matrix


def mamba2():
    heads, width, groups, state = 4, 8, 2, 6
    inner, bc = heads * width, groups * state

    def forward(w, batch):
        x = w["emb"][batch["tokens"]]
        b, t, _ = x.shape
        for i in range(2):
            one = w.layer(i)
            h = rms(x, one["norm1"]) @ one["in"]
            z, u, dt = jnp.split(h, [inner, 2 * inner + 2 * bc], -1)
            u = jax.nn.silu(short_conv(u, one["conv"]) + one["convb"])
            u, key, out = jnp.split(u, [inner, inner + bc], -1)
            u = u.reshape(b, t, groups, heads // groups, width)
            key, out = (a.reshape(b, t, groups, state) for a in (key, out))
            dt = jax.nn.softplus(dt + one["dt"]).reshape(b, t, groups, -1)
            a = -jnp.exp(one["alog"]).reshape(groups, -1)

            def turn(s, now):
                u, key, out, dt = now
                s = s * jnp.exp(dt * a)[..., None, None] + jnp.einsum(
                    "bgr,bgrp,bgn->bgrpn", dt, u, key)
                return s, jnp.einsum("bgrpn,bgn->bgrp", s, out)

            steps = tuple(jnp.moveaxis(x, 1, 0) for x in (u, key, out, dt))
            zero = jnp.zeros((b, groups, heads // groups, width, state))
            _, y = jax.lax.scan(turn, zero, steps)
            y = jnp.moveaxis(y, 0, 1) + u * one["d"].reshape(groups, -1)[..., None]
            y = y.reshape(b, t, inner) * jax.nn.silu(z)
            x = x + rms(y, one["ynorm"]) @ one["out"]
        return rms(x, w["norm"]) @ w["emb"].T

    shapes = {"emb": (96, 36), "norm": (36,), **layered(2, {
        "norm1": (36,), "in": (36, 2 * inner + 2 * bc + heads),
        "conv": (4, inner + 2 * bc), "convb": (inner + 2 * bc,), "dt": (heads,),
        "alog": (heads,), "d": (heads,), "ynorm": (inner,), "out": (inner, 36)})}
    whole, part = "kv*group*head_dim", "kv*state"
    return plain(forward, shapes, batch=tokens(2, 7), loss=next_token, high=96,
                 answers={
                     "emb": "vocab | stream", "norm": "stream", "*.norm1": "stream",
                     "*.in": f"stream | sum({whole},{whole},{part},{part},kv*group)",
                     "*.conv": f"window | sum({whole},{part},{part})",
                     "*.convb": f"sum({whole},{part},{part})",
                     "*.dt": "kv*group", "*.alog": "kv*group", "*.d": "kv*group",
                     "*.ynorm": whole, "*.out": f"{whole} | stream"})


# ---- Attention and a linear recurrence side by side (Hymba, Falcon-H1)


def hybrid():
    def forward(w, batch):
        x = w["emb"][batch["tokens"]]
        b, t, _ = x.shape
        for i in range(2):
            one = w.layer(i)
            h = rms(x, one["norm1"])
            q = rope((h @ one["q"]).reshape(b, t, 2, 2, 8))
            k = rope((h @ one["k"]).reshape(b, t, 2, 8))
            v = (h @ one["v"]).reshape(b, t, 2, 8)
            y = grouped_attention(q, k, v).reshape(b, t, -1) @ one["o"]
            u = h @ one["x"]
            keep = jax.nn.sigmoid(h @ one["f"])

            def pair(a, c):
                return a[0] * c[0], a[1] * c[0] + c[1]

            _, s = jax.lax.associative_scan(pair, (keep, (1 - keep) * u), axis=1)
            x = x + y + (s * jax.nn.silu(h @ one["g"])) @ one["p"]
            h = rms(x, one["norm2"])
            x = x + jnp.square(jax.nn.relu(h @ one["up"])) @ one["down"]
        return rms(x, w["norm"]) @ w["head"]

    shapes = {"emb": (104, 40), "norm": (40,), "head": (40, 104), **layered(2, {
        "norm1": (40,), "norm2": (40,), "q": (40, 32), "k": (40, 16), "v": (40, 16),
        "o": (32, 40), "x": (40, 24), "f": (40, 24), "g": (40, 24), "p": (24, 40),
        "up": (40, 120), "down": (120, 40)})}
    return plain(forward, shapes, batch=tokens(2, 8), loss=next_token, high=104,
                 answers={**{k: v for k, v in LLAMA.items() if k[2:] != "gate"},
                          "*.[xfg]": "stream | channels", "*.p": "channels | stream"})


# ---- Layouts of other libraries, in PyTorch's orientation [out, in]


def odd():
    """LFM2's in_proj [B|C|x], Megatron's fc1 [gate|up], Granite's experts [E, 2F, H],
    and q, k, v of a head in one block of rows."""
    heads, head = 3, 8

    def forward(w, batch):
        x = w["emb"][batch["tokens"]]
        b, t, _ = x.shape
        for i in range(2):
            one = w.layer(i)
            gate, scale, u = jnp.split(rms(x, one["n1"]) @ one["in"].T, 3, -1)
            x = x + (scale * short_conv(gate * u, one["conv"])) @ one["out"].T
            qkv = jnp.einsum("bth,xh->btx", rms(x, one["n2"]), one["qkv"])
            q, k, v = jnp.split(qkv.reshape(b, t, heads, 3 * head), 3, -1)
            y = attention(rope(q), rope(k), v).reshape(b, t, -1)
            x = x + y @ one["o"].T
            gate, up = jnp.split(rms(x, one["n3"]) @ one["fc1"].T, 2, -1)
            x = x + (jax.nn.silu(gate) * up) @ one["fc2"].T
            h = rms(x, one["n4"])
            p = jax.nn.softmax(h @ one["router"].T)
            top, chosen = jax.lax.top_k(p, 2)
            mix = jnp.zeros_like(p)
            mix = jnp.put_along_axis(mix, chosen, top, axis=-1, inplace=False)
            both = jnp.einsum("bth,efh->btef", h, one["first"])
            both = jax.nn.silu(both[..., :28]) * both[..., 28:]
            x = x + jnp.einsum("btef,ehf,bte->bth", both, one["second"], mix)
        return rms(x, w["norm"]) @ w["emb"].T

    shapes = {"emb": (104, 40), "norm": (40,), **layered(2, {
        "n1": (40,), "n2": (40,), "n3": (40,), "n4": (40,), "in": (120, 40),
        "conv": (3, 40), "out": (40, 40), "qkv": (heads * 3 * head, 40),
        "o": (40, heads * head), "fc1": (136, 40), "fc2": (40, 68), "router": (4, 40),
        "first": (4, 56, 40), "second": (4, 40, 28)})}
    return plain(forward, shapes, batch=tokens(2, 8), loss=next_token, high=104,
                 answers={
                     "emb": "vocab | stream", "norm": "stream", "*.n?": "stream",
                     "*.in": "sum(channels,channels,channels) | stream",
                     "*.conv": "window | channels", "*.out": "stream | channels",
                     "*.qkv": "heads*3*head_dim | stream",
                     "*.o": "stream | heads*head_dim",
                     "*.fc1": "sum(inner,inner) | stream", "*.fc2": "stream | inner",
                     "*.router": "experts | stream",
                     "*.first": "experts | sum(inner2,inner2) | stream",
                     "*.second": "experts | stream | inner2"})


def pooled():
    """Windows of maxima and means, one of them over the edge and one over the others."""
    def forward(w, batch):
        x = batch["pixels"] @ w["first"]
        x = jax.nn.relu(x + w["first_bias"])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1),
                                  "SAME")
        x = x @ w["second"]
        x = jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 2, 2, 1), (1, 1, 1, 1),
                                  "VALID") / 4
        least = jax.lax.reduce_window(x, jnp.inf, jax.lax.min, (1, 1, 2, 1), (1, 1, 2, 1),
                                      ((0, 0), (0, 0), (1, 0), (0, 0)))
        return jnp.concatenate([x.sum((1, 2)), least.sum((1, 2))], -1) @ w["last"]

    shapes = {"first": (6, 24), "first_bias": (24,), "second": (24, 20), "last": (40, 10)}
    return plain(forward, shapes, batch={
        "pixels": shape(4, 10, 12, 6), "target": shape(4, 10)}, loss=squares,
                 answers={"first": "in | inner", "first_bias": "inner",
                          "second": "inner | stream", "last": "sum(stream,stream) | out"})


# ---- Recurrences: block-diagonal gates, and a decayed state of linear attention


def griffin():
    """A gated linear recurrence over channels, whose gates are block diagonal, and a
    table of embeddings that is the last matrix as well."""
    blocks, width, taps = 4, 12, 4

    def forward(w, batch):
        x = w["emb"][batch["tokens"]]
        b, t, _ = x.shape
        for i in range(2):
            one = w.layer(i)
            h = rms(x, one["norm1"])
            past = jnp.pad(h @ one["x"], ((0, 0), (taps - 1, 0), (0, 0)))
            z = sum(past[:, k:k + t] * one["conv"][k] for k in range(taps))
            each = z.reshape(b, t, blocks, width)
            open_, keep = (jax.nn.sigmoid(jnp.einsum("btgi,gij->btgj", each, one[name]))
                           .reshape(z.shape) for name in ("in", "keep"))
            decay = -8 * keep * jax.nn.softplus(one["decay"])
            value = jnp.sqrt(1 - jnp.exp(2 * decay) + 1e-6) * open_ * z

            def join(a, c):
                return a[0] * c[0], c[0] * a[1] + c[1]

            _, y = jax.lax.associative_scan(join, (jnp.exp(decay), value), axis=1)
            x = x + (y * jax.nn.gelu(h @ one["y"])) @ one["out"]
            h = rms(x, one["norm2"])
            x = x + (jax.nn.gelu(h @ one["gate"]) * (h @ one["up"])) @ one["down"]
        return rms(x, w["norm"]) @ w["emb"].T

    channels = blocks * width
    shapes = {"emb": (96, 40), "norm": (40,), **layered(2, {
        "norm1": (40,), "norm2": (40,), "x": (40, channels), "y": (40, channels),
        "conv": (taps, channels), "in": (blocks, width, width),
        "keep": (blocks, width, width), "decay": (channels,), "out": (channels, 40),
        "gate": (40, 72), "up": (40, 72), "down": (72, 40)})}
    return plain(forward, shapes, batch=tokens(2, 6), loss=next_token, high=96, answers={
        "emb": "vocab | stream", "norm": "stream", "*.norm[12]": "stream",
        "*.[xy]": "stream | blocks*channels", "*.conv": "4 | blocks*channels",
        "*.in": "blocks | channels | channels", "*.keep": "blocks | channels | channels",
        "*.decay": "blocks*channels", "*.out": "blocks*channels | stream",
        "*.gate": "stream | inner", "*.up": "stream | inner", "*.down": "inner | stream"})


def gla():
    """Gated linear attention in chunks of 3 tokens, between which a state is carried."""
    heads, dk, dv, chunk = 4, 6, 10, 3

    def forward(w, batch):
        x = w["emb"][batch["tokens"]]
        b, t, _ = x.shape
        for i in range(2):
            one = w.layer(i)
            h = rms(x, one["norm1"])
            decay = jax.nn.log_sigmoid(h @ one["a"] @ one["b"] + one["bias"]) / 16
            parts = tuple(jnp.moveaxis(a.reshape(b, t // chunk, chunk, heads, -1), 1, 0)
                          for a in (h @ one["q"], h @ one["k"], h @ one["v"], decay))

            def turn(state, now):
                q, k, v, g = now
                g = jnp.cumsum(g, 1)
                scores = jnp.einsum("bind,bjnd->bnij", q * jnp.exp(g), k * jnp.exp(-g))
                y = jnp.einsum("bnij,bjne->bine", jnp.tril(scores), v)
                y = y + jnp.einsum("bind,bnde->bine", q * jnp.exp(g), state)
                k = k * jnp.exp(g[:, -1:] - g)
                state = state * jnp.exp(g[:, -1])[..., None]
                return state + jnp.einsum("bind,bine->bnde", k, v), y

            _, y = jax.lax.scan(turn, jnp.zeros((b, heads, dk, dv)), parts)
            y = jnp.moveaxis(y, 0, 1).reshape(b, t, heads, dv)
            y = rms(y, one["onorm"]).reshape(b, t, -1)
            x = x + (y * jax.nn.silu(h @ one["g"])) @ one["o"]
        return x @ w["head"]

    shapes = {"emb": (96, 40), "head": (40, 96), **layered(2, {
        "norm1": (40,), "q": (40, heads * dk), "k": (40, heads * dk),
        "v": (40, heads * dv), "a": (40, 5), "b": (5, heads * dk), "bias": (heads * dk,),
        "onorm": (dv,), "g": (40, heads * dv), "o": (heads * dv, 40)})}
    return plain(forward, shapes, batch=tokens(2, 6), loss=next_token, high=96, answers={
        "emb": "vocab | stream", "head": "stream | vocab", "*.norm1": "stream",
        "*.[qk]": "stream | heads*head_dim", "*.[vg]": "stream | heads*head_dim2",
        "*.a": "stream | rank", "*.b": "rank | heads*head_dim",
        "*.bias": "heads*head_dim", "*.onorm": "head_dim2",
        "*.o": "heads*head_dim2 | stream"})
