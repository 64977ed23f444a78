"""Models at sizes that a mesh of eight devices divides, whose plans are
compared with XLA (record_constraints.py). Their parameters have natural names too, for
plans that names decide; a plan by hand follows from the answers.

`kept` marks the residual stream: whoever plans by hand constrains it there, as authors
of models do."""

import fnmatch

import jax
import jax.numpy as jnp

from layers import (
    attention, grouped_attention, layer_norm, next_token, plain, rms, rope,
    shape, squares, tokens)
from other_models import short_conv
from wide_sizes import B, D, E, F, GROUP, KV, T, V, W

N = KV * GROUP


# The sharding of the residual stream, while a plan by hand is compiled.
by_hand = []


def kept(x):
    return jax.lax.with_sharding_constraint(x, by_hand[0]) if by_hand else x


ATTENTION = {"q_proj": (W, N * D), "k_proj": (W, KV * D), "v_proj": (W, KV * D),
             "o_proj": (N * D, W)}
MLP = {"gate_proj": (W, F), "up_proj": (W, F), "down_proj": (F, W)}
ANSWERS = {
    "norm*": "stream", "*.norm*": "stream", "embed": "vocab | stream",
    "lm_head": "stream | vocab", "*.q_proj": "stream | kv*group*head_dim",
    "*.[kv]_proj": "stream | kv*head_dim", "*.o_proj": "kv*group*head_dim | stream",
    "*.gate_proj": "stream | inner", "*.up_proj": "stream | inner",
    "*.down_proj": "inner | stream"}


def heads(w, h, group=GROUP, rotate=rope):
    b, t, _ = h.shape
    q = rotate((h @ w["q_proj"]).reshape(b, t, KV, group, D))
    k = rotate((h @ w["k_proj"]).reshape(b, t, KV, D))
    return q, k, (h @ w["v_proj"]).reshape(b, t, KV, D)


def attended(w, x, mask=None, **more):
    h = rms(x, w["norm1"])
    y = grouped_attention(*heads(w, h, **more), **({"mask": mask} if mask else {}))
    return kept(x + y.reshape(*x.shape[:2], -1) @ w["o_proj"])


def fed(w, x, act=jax.nn.silu):
    h = rms(x, w["norm2"])
    return kept(x + (act(h @ w["gate_proj"]) * (h @ w["up_proj"])) @ w["down_proj"])


def language(block, layer, more=None, tied=False, answers=None, count=2, start=None):
    """A language model of blocks block(w, x), whose parameters are `layer`."""
    def forward(w, batch):
        x = kept(w["embed"][batch["tokens"]])
        if start:
            x = kept(start(w, x))
        for i in range(count):
            x = block(w.layer(f"layers.{i}"), x)
        x = rms(x, w["norm"])
        return x @ w["embed"].T if tied else x @ w["lm_head"]

    shapes = {"embed": (V, W), "norm": (W,), **(more or {})}
    if not tied:
        shapes["lm_head"] = (W, V)
    for i in range(count):
        shapes |= {f"layers.{i}.{k}": v for k, v in layer.items()}
    return plain(forward, shapes, batch=tokens(B, T), loss=next_token, high=V,
                 answers={**(answers or {}), **ANSWERS})


NORMS = {"norm1": (W,), "norm2": (W,)}

MODELS = {}


def model(make):
    MODELS[make.__name__] = make
    return make


# ---- The models of the facts page, written again


@model
def gpt_fused():
    def block(w, x):
        h = layer_norm(x, w["norm1.g"], w["norm1.b"])
        q, k, v = jnp.split(h @ w["qkv"] + w["qkv_bias"], 3, -1)
        q, k, v = (one.reshape(*x.shape[:2], N, D) for one in (q, k, v))
        x = kept(x + attention(q, k, v).reshape(x.shape) @ w["out"])
        h = layer_norm(x, w["norm2.g"], w["norm2.b"])
        return kept(x + jax.nn.gelu(h @ w["fc1"] + w["fc1_bias"]) @ w["fc2"])

    part = "heads*head_dim"
    return language(block, {
        "norm1.g": (W,), "norm1.b": (W,), "norm2.g": (W,), "norm2.b": (W,),
        "qkv": (W, 3 * W), "qkv_bias": (3 * W,), "out": (W, W), "fc1": (W, F),
        "fc1_bias": (F,), "fc2": (F, W)}, {"positions": (T + 2, W)}, tied=True,
        start=lambda w, x: x + w["positions"][:T],
        answers={
            "positions": "position | stream", "*.qkv": f"stream | sum({part},{part},{part})",
            "*.qkv_bias": f"sum({part},{part},{part})", "*.out": f"{part} | stream",
            "*.fc1": "stream | inner", "*.fc1_bias": "inner", "*.fc2": "inner | stream"})


@model
def llama():
    return language(lambda w, x: fed(w, attended(w, x)), {**ATTENTION, **MLP, **NORMS})


@model
def mqa():
    def block(w, x):
        h = layer_norm(x, w["norm.g"], w["norm.b"])
        qkv = (h @ w["qkv"]).reshape(*x.shape[:2], N + 2, D)
        q, k, v = qkv[..., :N, :], qkv[..., N, :], qkv[..., N + 1, :]
        scores = jnp.einsum("bqnd,bsd->bnqs", rope(q), rope(k)) * D ** -0.5
        keep = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        p = jax.nn.softmax(jnp.where(keep, scores, -jnp.inf), -1)
        y = jnp.einsum("bnqs,bsd->bqnd", p, v).reshape(x.shape)
        return kept(x + y @ w["out"] + jax.nn.gelu(h @ w["fc1"]) @ w["fc2"])

    return language(block, {"norm.g": (W,), "norm.b": (W,), "qkv": (W, (N + 2) * D),
                            "out": (N * D, W), "fc1": (W, F), "fc2": (F, W)}, tied=True,
                    answers={"*.qkv": "stream | (heads+2)*head_dim",
                             "*.out": "heads*head_dim | stream",
                             "*.fc1": "stream | inner", "*.fc2": "inner | stream"})


@model
def parallel():
    def block(w, x):
        qkv = (layer_norm(x, w["norm1.g"], w["norm1.b"]) @ w["qkv"]).reshape(
            *x.shape[:2], N, 3, D)
        q, k, v = (qkv[..., j, :] for j in range(3))
        y = attention(rope(q), rope(k), v).reshape(x.shape)
        z = jax.nn.gelu(layer_norm(x, w["norm2.g"], w["norm2.b"]) @ w["fc1"])
        return kept(x + y @ w["out"] + z @ w["fc2"])

    return language(block, {
        "norm1.g": (W,), "norm1.b": (W,), "norm2.g": (W,), "norm2.b": (W,),
        "qkv": (W, 3 * W), "out": (W, W), "fc1": (W, F), "fc2": (F, W)},
        answers={"*.qkv": "stream | heads*3*head_dim", "*.out": "heads*head_dim | stream",
                 "*.fc1": "stream | inner", "*.fc2": "inner | stream"})


EXPERTS = {"router": (W, E), "w1": (E, W, F // 4), "w3": (E, W, F // 4),
           "w2": (E, F // 4, W)}
EXPERT_ANSWERS = {"*.router": "stream | experts", "*.w[13]": "experts | stream | inner",
                  "*.w2": "experts | inner | stream"}


def chosen_experts(w, h):
    top, chosen = jax.lax.top_k(jax.nn.softmax(h @ w["router"]), 2)
    return top / top.sum(-1, keepdims=True), chosen


@model
def moe_dense():
    def block(w, x):
        x = attended(w, x)
        h = rms(x, w["norm2"])
        top, chosen = chosen_experts(w, h)
        mix = jnp.einsum("btk,btke->bte", top, jax.nn.one_hot(chosen, E))
        g, u = (jnp.einsum("bth,ehf->btef", h, w[n]) for n in ("w1", "w3"))
        y = jnp.einsum("btef,efh->bteh", jax.nn.silu(g) * u, w["w2"])
        return kept(x + jnp.einsum("bteh,bte->bth", y, mix))

    return language(block, {**ATTENTION, **NORMS, **EXPERTS}, answers=EXPERT_ANSWERS)


@model
def moe_ragged():
    def block(w, x):
        x = attended(w, x)
        h = rms(x, w["norm2"]).reshape(-1, W)
        top, chosen = chosen_experts(w, h)
        flat = chosen.reshape(-1)
        order = jnp.argsort(flat)
        rows = h[order // 2]
        sizes = jnp.zeros(E, jnp.int32).at[flat].add(1)
        g, u = (jax.lax.ragged_dot(rows, w[n], sizes) for n in ("w1", "w3"))
        y = jax.lax.ragged_dot(jax.nn.silu(g) * u, w["w2"], sizes)
        y = y * top.reshape(-1)[order][:, None]
        return kept(x + jnp.zeros_like(h).at[order // 2].add(y).reshape(x.shape))

    return language(block, {**ATTENTION, **NORMS, **EXPERTS}, answers=EXPERT_ANSWERS)


@model
def mla():
    nope, rot, value, latent, low_rank = 32, 16, 32, 64, 96

    def block(w, x):
        b, t, _ = x.shape
        h = rms(x, w["norm1"])
        q = rms(h @ w["q_a"], w["q_norm"]) @ w["q_b"]
        q = q.reshape(b, t, N, nope + rot)
        low = h @ w["kv_a"]
        kv = rms(low[..., :latent], w["kv_norm"]) @ w["kv_b"]
        k, v = jnp.split(kv.reshape(b, t, N, nope + value), [nope], -1)
        shared = jnp.broadcast_to(rope(low[..., None, latent:]), (b, t, N, rot))
        q = jnp.concatenate([q[..., :nope], rope(q[..., nope:])], -1)
        y = attention(q, jnp.concatenate([k, shared], -1), v).reshape(b, t, -1)
        return fed(w, kept(x + y @ w["o"]))

    return language(block, {
        **NORMS, **MLP, "q_a": (W, low_rank), "q_norm": (low_rank,),
        "q_b": (low_rank, N * (nope + rot)), "kv_a": (W, latent + rot),
        "kv_norm": (latent,), "kv_b": (latent, N * (nope + value)), "o": (N * value, W)},
        answers={"*.q_a": "stream | latent2", "*.q_norm": "latent2",
                 "*.q_b": "latent2 | heads*sum(nope,rope)",
                 "*.kv_a": "stream | sum(latent,rope)", "*.kv_norm": "latent",
                 "*.kv_b": "latent | heads*sum(nope,value)", "*.o": "heads*value | stream"})


@model
def gdn():
    kh, per, dk, dv = 4, 2, 16, 32

    def block(w, x):
        b, t, _ = x.shape
        h = rms(x, w["norm1"])
        mixed = (h @ w["qkvz"]).reshape(b, t, kh, 2 * dk + 2 * per * dv)
        q, k, v, z = jnp.split(mixed, [dk, 2 * dk, 2 * dk + per * dv], -1)
        beta, decay = jnp.split((h @ w["ba"]).reshape(b, t, kh, 2 * per), 2, -1)
        beta = jax.nn.sigmoid(beta).reshape(b, t, kh * per)
        g = jnp.exp(-jnp.exp(w["a_log"]) * jax.nn.softplus(
            decay.reshape(b, t, kh * per) + w["dt"]))
        q, k = (jnp.repeat(a, per, 2) for a in (q, k))
        v = v.reshape(b, t, kh * per, dv)

        def turn(s, now):
            q, k, v, beta, g = now
            s = s * g[..., None, None]
            error = (v - jnp.einsum("bnkv,bnk->bnv", s, k)) * beta[..., None]
            s = s + jnp.einsum("bnk,bnv->bnkv", k, error)
            return s, jnp.einsum("bnkv,bnk->bnv", s, q)

        steps = tuple(jnp.moveaxis(a, 1, 0) for a in (q, k, v, beta, g))
        _, y = jax.lax.scan(turn, jnp.zeros((b, kh * per, dk, dv)), steps)
        y = jnp.moveaxis(y, 0, 1) * jax.nn.silu(z.reshape(b, t, kh * per, dv))
        return fed(w, kept(x + y.reshape(b, t, -1) @ w["out"]))

    return language(block, {
        **NORMS, **MLP, "qkvz": (W, kh * (2 * dk + 2 * per * dv)), "ba": (W, kh * 2 * per),
        "a_log": (kh * per,), "dt": (kh * per,), "out": (kh * per * dv, W)},
        answers={"*.qkvz": "stream | kv*sum(state,state,group*head_dim,group*head_dim)",
                 "*.ba": "stream | kv*2*group", "*.a_log": "kv*group", "*.dt": "kv*group",
                 "*.out": "kv*group*head_dim | stream"})


@model
def mamba2():
    groups, per, width, state = 4, 2, 32, 16
    inner, bc = groups * per * width, groups * state

    def block(w, x):
        b, t, _ = x.shape
        h = rms(x, w["norm1"]) @ w["in_proj"]
        z, u, dt = jnp.split(h, [inner, 2 * inner + 2 * bc], -1)
        u = jax.nn.silu(short_conv(u, w["conv"]))
        u, key, out = jnp.split(u, [inner, inner + bc], -1)
        u = u.reshape(b, t, groups, per, width)
        key, out = (a.reshape(b, t, groups, state) for a in (key, out))
        dt = jax.nn.softplus(dt + w["dt"]).reshape(b, t, groups, per)
        a = -jnp.exp(w["a_log"]).reshape(groups, per)

        def turn(s, now):
            u, key, out, dt = now
            s = s * jnp.exp(dt * a)[..., None, None] + jnp.einsum(
                "bgr,bgrp,bgn->bgrpn", dt, u, key)
            return s, jnp.einsum("bgrpn,bgn->bgrp", s, out)

        steps = tuple(jnp.moveaxis(one, 1, 0) for one in (u, key, out, dt))
        _, y = jax.lax.scan(turn, jnp.zeros((b, groups, per, width, state)), steps)
        y = jnp.moveaxis(y, 0, 1).reshape(b, t, inner) * jax.nn.silu(z)
        return kept(x + rms(y, w["y_norm"]) @ w["out_proj"])

    whole, part = "kv*group*head_dim", "kv*state"
    return language(block, {
        "norm1": (W,), "in_proj": (W, 2 * inner + 2 * bc + groups * per),
        "conv": (4, inner + 2 * bc), "dt": (groups * per,), "a_log": (groups * per,),
        "y_norm": (inner,), "out_proj": (inner, W)},
        answers={"*.in_proj": f"stream | sum({whole},{whole},{part},{part},kv*group)",
                 "*.conv": f"window | sum({whole},{part},{part})", "*.dt": "kv*group",
                 "*.a_log": "kv*group", "*.y_norm": whole, "*.out_proj": f"{whole} | stream"})


def images(block, layer, count=2, more=None, answers=None, side=16, loss=next_token):
    """A model of patches, with a class for each image."""
    def forward(w, batch):
        x = jax.lax.conv_general_dilated(
            batch["image"], w["patch"], (4, 4), "VALID",
            dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = kept(x.reshape(x.shape[0], -1, W) + w["positions"])
        for i in range(count):
            x = block(w.layer(f"layers.{i}"), x)
        return rms(x.mean(1), w["norm"]) @ w["classes"]

    shapes = {"patch": (4, 4, 3, W), "positions": ((side // 4) ** 2, W), "norm": (W,),
              "classes": (W, 64), **(more or {}), **{
                  f"layers.{i}.{k}": v for i in range(count) for k, v in layer.items()}}
    return plain(forward, shapes, loss=loss, high=64, batch={
        "image": shape(B, side, side, 3), "labels": shape(B, dtype=jnp.int32)},
        answers={"patch": "window | window2 | in | stream",
                 "positions": "position | stream", "classes": "stream | out",
                 **(answers or {}), **ANSWERS})


@model
def vit():
    layer = {**NORMS, "query": (W, N, D), "key": (W, N, D), "value": (W, N, D),
             "out": (N, D, W), "fc1": (W, F), "fc2": (F, W)}

    def block(w, x):
        h = rms(x, w["norm1"])
        q, k, v = (jnp.einsum("bth,hnd->btnd", h, w[n]) for n in ("query", "key", "value"))
        y = attention(q, k, v, mask=lambda s: s)
        x = kept(x + jnp.einsum("btnd,ndh->bth", y, w["out"]))
        return kept(x + jax.nn.gelu(rms(x, w["norm2"]) @ w["fc1"]) @ w["fc2"])

    return images(block, layer, answers={
        **{f"*.{n}": "stream | heads | head_dim" for n in ("query", "key", "value")},
        "*.out": "heads | head_dim | stream", "*.fc1": "stream | inner",
        "*.fc2": "inner | stream"})


@model
def dit():
    def norm(x):
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)

    def forward(w, batch):
        c = jax.nn.silu(batch["time"] @ w["time"])
        x = kept(batch["patches"] @ w["patch"] + w["positions"])
        for i in range(2):
            one = w.layer(f"layers.{i}")
            six = jnp.split((c @ one["ada"])[:, None], 6, -1)
            h = norm(x) * (1 + six[0]) + six[1]
            qkv = (h @ one["qkv"]).reshape(*x.shape[:2], 3, N, D)
            y = attention(*(qkv[:, :, j] for j in range(3)), mask=lambda s: s)
            x = kept(x + six[2] * (y.reshape(x.shape) @ one["out"]))
            h = norm(x) * (1 + six[3]) + six[4]
            x = kept(x + six[5] * (jax.nn.gelu(h @ one["fc1"]) @ one["fc2"]))
        return x @ w["last"]

    stream = ",".join(["stream"] * 6)
    return plain(forward, {
        "time": (32, W), "patch": (48, W), "positions": (16, W), "last": (W, 48),
        **{f"layers.{i}.{k}": v for i in range(2) for k, v in {
            "ada": (W, 6 * W), "qkv": (W, 3 * W), "out": (W, W), "fc1": (W, F),
            "fc2": (F, W)}.items()}}, loss=squares, batch={
                "time": shape(B, 32), "patches": shape(B, 16, 48),
                "target": shape(B, 16, 48)}, answers={
            "time": "in | cond", "patch": "in | stream", "positions": "position | stream",
            "last": "stream | out", "*.ada": f"cond | sum({stream})",
            "*.qkv": "stream | 3*heads*head_dim", "*.out": "heads*head_dim | stream",
            "*.fc1": "stream | inner", "*.fc2": "inner | stream"})


@model
def t5():
    def attended(w, x, y, mask):
        b, t, _ = x.shape
        q = (x @ w["q"]).reshape(b, t, N, D)
        k, v = ((y @ w[n]).reshape(b, -1, N, D) for n in "kv")
        return attention(q, k, v, mask=mask).reshape(b, t, N * D) @ w["o"]

    def inner(w, x):
        h = rms(x, w["norm3"])
        return kept(x + (jax.nn.gelu(h @ w["wi_0"]) * (h @ w["wi_1"])) @ w["wo"])

    def forward(w, batch):
        x = kept(w["embed"][batch["source"]])
        for i in range(2):
            one = w.layer(f"encoder.{i}")
            h = rms(x, one["norm1"])
            x = inner(one, kept(x + attended(one, h, h, lambda s: s)))
        memory = rms(x, w["norm_encoder"])
        x = kept(w["embed"][batch["tokens"]])
        from layers import causal
        for i in range(2):
            one = w.layer(f"decoder.{i}")
            h = rms(x, one["norm1"])
            x = kept(x + attended(one, h, h, causal))
            h = rms(x, one["norm2"])
            x = inner(one, kept(x + attended(one.layer("cross"), h, memory, lambda s: s)))
        return rms(x, w["norm_decoder"]) @ w["embed"].T

    att = {"q": (W, N * D), "k": (W, N * D), "v": (W, N * D), "o": (N * D, W)}
    one = {**att, "norm1": (W,), "norm3": (W,), "wi_0": (W, F), "wi_1": (W, F),
           "wo": (F, W)}
    two = {**one, "norm2": (W,), **{"cross." + k: v for k, v in att.items()}}
    shapes = {"embed": (V, W), "norm_encoder": (W,), "norm_decoder": (W,)}
    for i in range(2):
        shapes |= {f"encoder.{i}.{k}": v for k, v in one.items()}
        shapes |= {f"decoder.{i}.{k}": v for k, v in two.items()}
    return plain(forward, shapes, loss=next_token, high=V, batch={
        **tokens(B, T // 2), "source": shape(B, T, dtype=jnp.int32)}, answers={
            **{f"*.{n}": "stream | heads*head_dim" for n in "qkv"},
            "*.o": "heads*head_dim | stream", "*.wi_?": "stream | inner",
            "*.wo": "inner | stream", **ANSWERS})


@model
def lora():
    def block(w, x):
        merged = {name: w[name] for name in (*ATTENTION, *MLP, *NORMS)}
        for name in ("q_proj", "v_proj"):
            merged[name] = w[name] + 0.5 * w[name + "_a"] @ w[name + "_b"]
        return fed(merged, attended(merged, x))

    return language(block, {
        **ATTENTION, **MLP, **NORMS, "q_proj_a": (W, 8), "q_proj_b": (8, N * D),
        "v_proj_a": (W, 8), "v_proj_b": (8, KV * D)}, answers={
            "*_a": "stream | rank", "*.q_proj_b": "rank | kv*group*head_dim",
            "*.v_proj_b": "rank | kv*head_dim"})


@model
def hybrid():
    def block(w, x):
        b, t, _ = x.shape
        h = rms(x, w["norm1"])
        y = grouped_attention(*heads(w, h)).reshape(b, t, -1) @ w["o_proj"]
        u = h @ w["x"]
        keep = jax.nn.sigmoid(h @ w["f"])

        def pair(a, c):
            return a[0] * c[0], a[1] * c[0] + c[1]

        _, s = jax.lax.associative_scan(pair, (keep, (1 - keep) * u), axis=1)
        x = kept(x + y + (s * jax.nn.silu(h @ w["g"])) @ w["p"])
        h = rms(x, w["norm2"])
        return kept(x + jnp.square(jax.nn.relu(h @ w["fc1"])) @ w["fc2"])

    return language(block, {**ATTENTION, **NORMS, "x": (W, 128), "f": (W, 128),
                            "g": (W, 128), "p": (128, W), "fc1": (W, F), "fc2": (F, W)},
                    answers={"*.[xfg]": "stream | channels", "*.p": "channels | stream",
                             "*.fc1": "stream | inner", "*.fc2": "inner | stream"})


@model
def scan_llama():
    one = {**ATTENTION, **MLP, **NORMS}

    def forward(w, batch):
        x = kept(w["embed"][batch["tokens"]])

        @jax.checkpoint
        def turn(x, layer):
            return fed(layer, attended(layer, x)), None

        x, _ = jax.lax.scan(turn, x, {name: w["layers." + name] for name in one})
        return rms(x, w["norm"]) @ w["lm_head"]

    return plain(forward, {"embed": (V, W), "norm": (W,), "lm_head": (W, V), **{
        "layers." + name: (3, *of) for name, of in one.items()}},
        batch=tokens(B, T), loss=next_token, high=V, answers={
            k.replace("*.", "layers."): ("layers | " if "*." in k else "") + v
            for k, v in ANSWERS.items()})


@model
def odd():
    def block(w, x):
        b, t, _ = x.shape
        gate, scale, u = jnp.split(rms(x, w["norm1"]) @ w["in"].T, 3, -1)
        x = kept(x + (scale * short_conv(gate * u, w["conv"])) @ w["out"].T)
        qkv = jnp.einsum("bth,xh->btx", rms(x, w["norm2"]), w["qkv"])
        q, k, v = jnp.split(qkv.reshape(b, t, N, 3 * D), 3, -1)
        y = attention(rope(q), rope(k), v).reshape(b, t, -1)
        x = kept(x + y @ w["o"].T)
        gate, up = jnp.split(rms(x, w["norm3"]) @ w["fc1"].T, 2, -1)
        return kept(x + (jax.nn.silu(gate) * up) @ w["fc2"].T)

    return language(block, {
        "norm1": (W,), "norm2": (W,), "norm3": (W,), "in": (3 * W, W), "conv": (3, W),
        "out": (W, W), "qkv": (N * 3 * D, W), "o": (W, N * D), "fc1": (2 * F, W),
        "fc2": (W, F)}, tied=True, answers={
            "*.in": "sum(channels,channels,channels) | stream",
            "*.conv": "window | channels", "*.out": "stream | channels",
            "*.qkv": "heads*3*head_dim | stream", "*.o": "stream | heads*head_dim",
            "*.fc1": "sum(inner,inner) | stream", "*.fc2": "stream | inner"})


# ---- Models that are not on it


@model
def gemma():
    """Norms after the blocks, soft caps, one matrix for embedding and head."""
    def block(w, x):
        q, k, v = heads(w, rms(x, w["norm1"]))
        scores = jnp.einsum("bqkgd,bskd->bkgqs", q, k) * D ** -0.5
        scores = 50 * jnp.tanh(scores / 50)
        keep = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        p = jax.nn.softmax(jnp.where(keep, scores, -1e9), -1)
        y = jnp.einsum("bkgqs,bskd->bqkgd", p, v).reshape(*x.shape[:2], -1)
        x = kept(x + rms(y @ w["o_proj"], w["norm3"]))
        h = rms(x, w["norm2"])
        y = (jax.nn.gelu(h @ w["gate_proj"]) * (h @ w["up_proj"])) @ w["down_proj"]
        return kept(x + rms(y, w["norm4"]))

    return language(block, {**ATTENTION, **MLP, **NORMS, "norm3": (W,), "norm4": (W,)},
                    tied=True)


@model
def qwen3():
    """Norms of each query and key head."""
    def block(w, x):
        q, k, v = heads(w, rms(x, w["norm1"]), rotate=lambda x: x)
        q, k = rope(rms(q, w["head_norm_q"])), rope(rms(k, w["head_norm_k"]))
        y = grouped_attention(q, k, v).reshape(*x.shape[:2], -1)
        return fed(w, kept(x + y @ w["o_proj"]))

    return language(block, {**ATTENTION, **MLP, **NORMS, "head_norm_q": (D,),
                            "head_norm_k": (D,)},
                    answers={"*.head_norm_?": "head_dim"})


@model
def phi_fused():
    """Phi-3: [Q|K|V] of different widths, [gate|up]."""
    def block(w, x):
        b, t, _ = x.shape
        qkv = rms(x, w["norm1"]) @ w["qkv_proj"]
        q, k, v = jnp.split(qkv, [N * D, (N + KV) * D], -1)
        y = grouped_attention(rope(q.reshape(b, t, KV, GROUP, D)),
                              rope(k.reshape(b, t, KV, D)), v.reshape(b, t, KV, D))
        x = kept(x + y.reshape(b, t, -1) @ w["o_proj"])
        gate, up = jnp.split(rms(x, w["norm2"]) @ w["gate_up_proj"], 2, -1)
        return kept(x + (jax.nn.silu(gate) * up) @ w["down_proj"])

    return language(block, {
        **NORMS, "qkv_proj": (W, (N + 2 * KV) * D), "o_proj": (N * D, W),
        "gate_up_proj": (W, 2 * F), "down_proj": (F, W)}, answers={
            "*.qkv_proj": "stream | sum(kv*group*head_dim,kv*head_dim,kv*head_dim)",
            "*.gate_up_proj": "stream | sum(inner,inner)"})


@model
def gptj():
    """A parallel block with one norm and biases."""
    def block(w, x):
        h = layer_norm(x, w["norm.g"], w["norm.b"])
        b, t, _ = x.shape
        q, k, v = ((h @ w[n]).reshape(b, t, N, D) for n in ("q", "k", "v"))
        y = attention(rope(q), rope(k), v).reshape(b, t, -1)
        z = jax.nn.gelu(h @ w["fc_in"] + w["fc_in_bias"]) @ w["fc_out"] + w["fc_out_bias"]
        return kept(x + y @ w["o"] + z)

    return language(block, {
        "norm.g": (W,), "norm.b": (W,), "q": (W, N * D), "k": (W, N * D), "v": (W, N * D),
        "o": (N * D, W), "fc_in": (W, F), "fc_in_bias": (F,), "fc_out": (F, W),
        "fc_out_bias": (W,)}, answers={
            **{f"*.{n}": "stream | heads*head_dim" for n in "qkv"},
            "*.o": "heads*head_dim | stream", "*.fc_in": "stream | inner",
            "*.fc_in_bias": "inner", "*.fc_out": "inner | stream", "*.fc_out_bias": "stream"})


@model
def bert():
    """An encoder with norms after the blocks and token types."""
    def forward(w, batch):
        x = w["embed"][batch["tokens"]] + w["types"][batch["kinds"]] + w["positions"]
        x = kept(layer_norm(x, w["norm.g"], w["norm.b"]))
        for i in range(2):
            one = w.layer(f"layers.{i}")
            b, t, _ = x.shape
            q, k, v = ((x @ one[n] + one[n + "_bias"]).reshape(b, t, N, D)
                       for n in ("query", "key", "value"))
            y = attention(q, k, v, mask=lambda s: s).reshape(b, t, -1) @ one["out"]
            x = kept(layer_norm(x + y, one["norm1.g"], one["norm1.b"]))
            y = jax.nn.gelu(x @ one["inner"]) @ one["outer"]
            x = kept(layer_norm(x + y, one["norm2.g"], one["norm2.b"]))
        return x @ w["embed"].T

    layer = {f"norm{i}.{n}": (W,) for i in (1, 2) for n in "gb"}
    layer |= {n: (W, N * D) for n in ("query", "key", "value")}
    layer |= {n + "_bias": (N * D,) for n in ("query", "key", "value")}
    layer |= {"out": (N * D, W), "inner": (W, F), "outer": (F, W)}
    return plain(forward, {
        "embed": (V, W), "types": (2, W), "positions": (T, W), "norm.g": (W,),
        "norm.b": (W,), **{f"layers.{i}.{k}": v for i in range(2)
                           for k, v in layer.items()}},
        batch={**tokens(B, T), "kinds": shape(B, T, dtype=jnp.int32)}, loss=next_token,
        high=2, answers={
            "types": "types | stream", "positions": "position | stream",
            **{f"*.{n}": "stream | heads*head_dim" for n in ("query", "key", "value")},
            **{f"*.{n}_bias": "heads*head_dim" for n in ("query", "key", "value")},
            "*.out": "heads*head_dim | stream", "*.inner": "stream | inner",
            "*.outer": "inner | stream", **ANSWERS})


@model
def mixer():
    """MLP-Mixer: matrices along the patches, and along the channels."""
    def block(w, x):
        y = rms(x, w["norm1"]).swapaxes(1, 2)
        y = jax.nn.gelu(y @ w["tokens1"]) @ w["tokens2"]
        x = kept(x + y.swapaxes(1, 2))
        return kept(x + jax.nn.gelu(rms(x, w["norm2"]) @ w["fc1"]) @ w["fc2"])

    return images(block, {**NORMS, "tokens1": (64, 128), "tokens2": (128, 64),
                          "fc1": (W, F), "fc2": (F, W)}, side=32, answers={
        "*.tokens1": "position | inner2", "*.tokens2": "inner2 | position",
        "*.fc1": "stream | inner", "*.fc2": "inner | stream"})


@model
def rwkv():
    """Time mixing with a shifted token, a scan over time, and channel mixing."""
    def block(w, x):
        b, t, _ = x.shape
        h = rms(x, w["norm1"])
        before = jnp.pad(h, ((0, 0), (1, 0), (0, 0)))[:, :-1]
        r, k, v, g = ((h + (before - h) * w["mix_" + n]) @ w["time_" + n] for n in "rkvg")
        r, k, v = (a.reshape(b, t, N, D) for a in (r, k, v))
        decay = jnp.exp(-jnp.exp(w["decay"])).reshape(N, D)

        def turn(s, now):
            r, k, v = now
            kv = jnp.einsum("bnd,bne->bnde", k, v)
            y = jnp.einsum("bnd,bnde->bne", r, s + kv)
            return s * decay[..., None] + kv, y

        steps = tuple(jnp.moveaxis(a, 1, 0) for a in (r, k, v))
        _, y = jax.lax.scan(turn, jnp.zeros((b, N, D, D)), steps)
        y = jnp.moveaxis(y, 0, 1).reshape(b, t, -1) * jax.nn.silu(g)
        x = kept(x + y @ w["time_o"])
        h = rms(x, w["norm2"])
        return kept(x + jnp.square(jax.nn.relu(h @ w["chan_k"])) @ w["chan_v"])

    return language(block, {
        **NORMS, **{"mix_" + n: (W,) for n in "rkvg"},
        **{"time_" + n: (W, N * D) for n in "rkvg"}, "decay": (N * D,),
        "time_o": (N * D, W), "chan_k": (W, F), "chan_v": (F, W)}, answers={
            "*.mix_?": "stream", **{f"*.time_{n}": "stream | heads*head_dim" for n in "rkvg"},
            "*.decay": "heads*head_dim", "*.time_o": "heads*head_dim | stream",
            "*.chan_k": "stream | inner", "*.chan_v": "inner | stream"})


@model
def perceiver():
    """Learned latents that attend to the input."""
    def forward(w, batch):
        x = kept(batch["features"] @ w["features"])
        z = jnp.broadcast_to(w["latents"], (x.shape[0], *w["latents"].shape))
        for i in range(2):
            one = w.layer(f"layers.{i}")
            b, t, _ = z.shape
            q = (rms(z, one["norm1"]) @ one["q"]).reshape(b, t, N, D)
            k, v = ((x @ one[n]).reshape(b, -1, N, D) for n in "kv")
            y = attention(q, k, v, mask=lambda s: s).reshape(b, t, -1)
            z = kept(z + y @ one["o"])
            h = rms(z, one["norm2"])
            z = kept(z + jax.nn.gelu(h @ one["fc1"]) @ one["fc2"])
        return z.mean(1) @ w["classes"]

    layer = {**NORMS, "q": (W, N * D), "k": (W, N * D), "v": (W, N * D), "o": (N * D, W),
             "fc1": (W, F), "fc2": (F, W)}
    return plain(forward, {"features": (96, W), "latents": (32, W), "classes": (W, 64), **{
        f"layers.{i}.{k}": v for i in range(2) for k, v in layer.items()}},
        batch={"features": shape(B, 128, 96), "labels": shape(B, dtype=jnp.int32)},
        loss=next_token, high=64, answers={
            "features": "in | stream", "latents": "position | stream",
            "classes": "stream | out",
            **{f"*.{n}": "stream | heads*head_dim" for n in "qkv"},
            "*.o": "heads*head_dim | stream", "*.fc1": "stream | inner",
            "*.fc2": "inner | stream", **ANSWERS})


@model
def dlrm():
    """Tables of a recommender, and two stacks of layers."""
    tables, width = 6, W // 4

    def forward(w, batch):
        x = batch["dense"]
        for i in range(2):
            x = jax.nn.relu(x @ w[f"bottom.{i}"])
        rows = [w[f"table.{i}"][batch["ids"][:, i]] for i in range(tables)]
        each = jnp.stack([x, *rows], 1)
        pairs = jnp.einsum("bid,bjd->bij", each, each).reshape(x.shape[0], -1)
        x = jnp.concatenate([x, pairs], -1)
        x = jax.nn.relu(x @ w["top.0"])
        return (x @ w["top.1"])[:, 0]

    return plain(forward, {
        **{f"table.{i}": (2 * V, width) for i in range(tables)},
        "bottom.0": (16, F), "bottom.1": (F, width),
        "top.0": (width + (tables + 1) ** 2, F), "top.1": (F, 1)},
        batch={"dense": shape(B * T, 16), "ids": shape(B * T, tables, dtype=jnp.int32),
               "target": shape(B * T)}, loss=squares, high=2 * V, answers={
            "table.*": "vocab | stream", "bottom.0": "in | inner",
            "bottom.1": "inner | stream", "top.0": "in2 | inner2", "top.1": "inner2 | 1"})


@model
def capacity():
    """GShard's experts: tokens in buffers of a capacity."""
    slots = 4 * T

    def block(w, x):
        x = attended(w, x)
        b, t, _ = x.shape
        h = rms(x, w["norm2"]).reshape(b * t, W)
        top, chosen = chosen_experts(w, h)
        hot = jax.nn.one_hot(chosen, E).sum(1)
        place = jnp.cumsum(hot, 0) * hot - 1
        into = jax.nn.one_hot(place.astype(jnp.int32), slots) * hot[..., None]
        mix = jnp.einsum("nk,nke->ne", top, jax.nn.one_hot(chosen, E))
        rows = jnp.einsum("nec,nh->ech", into, h)
        g, u = (jnp.einsum("ech,ehf->ecf", rows, w[n]) for n in ("w1", "w3"))
        y = jnp.einsum("ecf,efh->ech", jax.nn.silu(g) * u, w["w2"])
        y = jnp.einsum("nec,ech,ne->nh", into, y, mix)
        return kept(x + y.reshape(x.shape))

    return language(block, {**ATTENTION, **NORMS, **EXPERTS}, answers=EXPERT_ANSWERS)


@model
def shared_expert():
    """Experts with a shared one next to them and a gate."""
    def block(w, x):
        x = attended(w, x)
        h = rms(x, w["norm2"])
        top, chosen = chosen_experts(w, h)
        mix = jnp.einsum("btk,btke->bte", top, jax.nn.one_hot(chosen, E))
        g, u = (jnp.einsum("bth,ehf->btef", h, w[n]) for n in ("w1", "w3"))
        y = jnp.einsum("btef,efh,bte->bth", jax.nn.silu(g) * u, w["w2"], mix)
        z = (jax.nn.silu(h @ w["gate_proj"]) * (h @ w["up_proj"])) @ w["down_proj"]
        return kept(x + y + jax.nn.sigmoid(h @ w["shared_gate"]) * z)

    return language(block, {**ATTENTION, **NORMS, **EXPERTS, **MLP, "shared_gate": (W, 1)},
                    answers={**EXPERT_ANSWERS, "*.shared_gate": "stream | 1"})


@model
def clip():
    """Two towers and a matrix of similarities."""
    def tower(w, x, mask):
        for i in range(2):
            one = w.layer(f"layers.{i}")
            b, t, _ = x.shape
            h = rms(x, one["norm1"])
            q, k, v = ((h @ one[n]).reshape(b, t, N, D) for n in "qkv")
            x = kept(x + attention(q, k, v, mask=mask).reshape(b, t, -1) @ one["o"])
            x = kept(x + jax.nn.gelu(rms(x, one["norm2"]) @ one["fc1"]) @ one["fc2"])
        return x.mean(1) @ w["project"]

    def forward(w, batch):
        from layers import causal
        a = tower(w.layer("text"), kept(w["embed"][batch["tokens"]]), causal)
        b = tower(w.layer("image"), kept(batch["patches"] @ w["patch"]), lambda s: s)
        a, b = (x * jax.lax.rsqrt((x * x).sum(-1, keepdims=True)) for x in (a, b))
        return a @ b.T * 10

    layer = {**NORMS, **{n: (W, N * D) for n in "qkv"}, "o": (N * D, W), "fc1": (W, F),
             "fc2": (F, W)}
    shapes = {"embed": (V, W), "patch": (48, W)}
    for side in ("text", "image"):
        shapes[f"{side}.project"] = (W, 128)
        shapes |= {f"{side}.layers.{i}.{k}": v for i in range(2) for k, v in layer.items()}

    def loss(out, batch):
        return next_token(out[None], {"labels": jnp.arange(out.shape[0])[None]})

    return plain(forward, shapes, batch={
        "tokens": shape(B, T, dtype=jnp.int32), "patches": shape(B, 16, 48)}, high=V,
        loss=loss, answers={
            "patch": "in | stream", "*.project": "stream | out",
            **{f"*.{n}": "stream | heads*head_dim" for n in "qkv"},
            "*.o": "heads*head_dim | stream", "*.fc1": "stream | inner",
            "*.fc2": "inner | stream", **ANSWERS})


@model
def window():
    """Attention inside windows of the sequence."""
    size = 16

    def block(w, x):
        h = rms(x, w["norm1"])
        b, t, _ = x.shape
        q, k, v = ((h @ w[n]).reshape(b * t // size, size, N, D) for n in ("q", "k", "v"))
        y = attention(q, k, v, mask=lambda s: s).reshape(b, t, -1)
        return fed(w, kept(x + y @ w["o"]))

    return language(block, {**NORMS, **MLP, **{n: (W, N * D) for n in "qkv"},
                            "o": (N * D, W)}, answers={
        **{f"*.{n}": "stream | heads*head_dim" for n in "qkv"},
        "*.o": "heads*head_dim | stream"})


@model
def glm():
    """Half of each head is rotated; the keys have biases; a norm after attention."""
    def block(w, x):
        h = rms(x, w["norm1"])
        b, t, _ = x.shape

        def half(a):
            return jnp.concatenate([rope(a[..., :D // 2]), a[..., D // 2:]], -1)

        q = half((h @ w["q_proj"] + w["q_bias"]).reshape(b, t, KV, GROUP, D))
        k = half((h @ w["k_proj"] + w["k_bias"]).reshape(b, t, KV, D))
        v = (h @ w["v_proj"]).reshape(b, t, KV, D)
        y = grouped_attention(q, k, v).reshape(b, t, -1)
        return fed(w, kept(x + rms(y @ w["o_proj"], w["norm3"])))

    return language(block, {**ATTENTION, **MLP, **NORMS, "norm3": (W,), "q_bias": (N * D,),
                            "k_bias": (KV * D,)},
                    answers={"*.q_bias": "kv*group*head_dim", "*.k_bias": "kv*head_dim"})


@model
def olmo2():
    """Norms over all query and all key heads together."""
    def block(w, x):
        b, t, _ = x.shape
        q, k = rms(x @ w["q_proj"], w["qn"]), rms(x @ w["k_proj"], w["kn"])
        v = (x @ w["v_proj"]).reshape(b, t, KV, D)
        y = grouped_attention(rope(q.reshape(b, t, KV, GROUP, D)),
                              rope(k.reshape(b, t, KV, D)), v).reshape(b, t, -1)
        x = kept(x + rms(y @ w["o_proj"], w["norm1"]))
        y = (jax.nn.silu(x @ w["gate_proj"]) * (x @ w["up_proj"])) @ w["down_proj"]
        return kept(x + rms(y, w["norm2"]))

    return language(block, {**ATTENTION, **MLP, **NORMS, "qn": (N * D,), "kn": (KV * D,)},
                    answers={"*.qn": "kv*group*head_dim", "*.kn": "kv*head_dim"})


@model
def convnext():
    """Depthwise convolutions of images, and an inverted bottleneck."""
    def block(w, x):
        b, t, _ = x.shape
        y = jax.lax.conv_general_dilated(
            x.reshape(b, 8, 8, W), w["depth"], (1, 1), "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=W)
        h = rms(y.reshape(b, t, W), w["norm1"])
        return kept(x + w["scale"] * (jax.nn.gelu(h @ w["fc1"]) @ w["fc2"]))

    return images(block, {"norm1": (W,), "depth": (7, 7, 1, W), "scale": (W,),
                          "fc1": (W, F), "fc2": (F, W)}, side=32, answers={
        "*.depth": "window | window2 | 1 | stream", "*.scale": "stream",
        "*.fc1": "stream | inner", "*.fc2": "inner | stream"})


@model
def linear_attention():
    """Attention without a softmax, as two products of states."""
    def block(w, x):
        h = rms(x, w["norm1"])
        b, t, _ = x.shape
        q, k, v = ((h @ w[n]).reshape(b, t, N, D) for n in "qkv")
        q, k = jax.nn.elu(q) + 1, jax.nn.elu(k) + 1
        s = jnp.einsum("btnd,btne->bnde", k, v)
        y = jnp.einsum("btnd,bnde->btne", q, s)
        y = y / (jnp.einsum("btnd,bnd->btn", q, k.sum(1)) + 1e-6)[..., None]
        return fed(w, kept(x + y.reshape(b, t, -1) @ w["o"]))

    return language(block, {**NORMS, **MLP, **{n: (W, N * D) for n in "qkv"},
                            "o": (N * D, W)}, answers={
        **{f"*.{n}": "stream | heads*head_dim" for n in "qkv"},
        "*.o": "heads*head_dim | stream"})


@model
def phi_inner():
    """phi_fused with its gate and up projections in the layout that `suggest` advises."""
    def block(w, x):
        b, t, _ = x.shape
        qkv = rms(x, w["norm1"]) @ w["qkv_proj"]
        q, k, v = jnp.split(qkv, [N * D, (N + KV) * D], -1)
        y = grouped_attention(rope(q.reshape(b, t, KV, GROUP, D)),
                              rope(k.reshape(b, t, KV, D)), v.reshape(b, t, KV, D))
        x = kept(x + y.reshape(b, t, -1) @ w["o_proj"])
        both = jnp.einsum("btw,wfp->btfp", rms(x, w["norm2"]), w["gate_up_proj"])
        return kept(x + (jax.nn.silu(both[..., 0]) * both[..., 1]) @ w["down_proj"])

    return language(block, {
        **NORMS, "qkv_proj": (W, (N + 2 * KV) * D), "o_proj": (N * D, W),
        "gate_up_proj": (W, F, 2), "down_proj": (F, W)}, answers={
            "*.qkv_proj": "stream | sum(kv*group*head_dim,kv*head_dim,kv*head_dim)",
            "*.gate_up_proj": "stream | inner | 2"})


# ---- Inference


@model
def decode():
    """One step with a stacked KV cache, whose rows all have the same length."""
    def forward(w, state, batch):
        x, at = kept(w["embed"][batch["tokens"]][:, None]), state["length"]
        ks, vs = state["k"], state["v"]
        for i in range(2):
            one = w.layer(f"layers.{i}")
            q, k, v = heads(one, rms(x, one["norm1"]), rotate=lambda x: rope(x, at))
            ks = jax.lax.dynamic_update_slice(ks, k[None], (i, 0, at, 0, 0))
            vs = jax.lax.dynamic_update_slice(vs, v[None], (i, 0, at, 0, 0))
            y = grouped_attention(q, ks[i], vs[i], lambda s: jnp.where(
                jnp.arange(T) <= at, s, -1e9))
            x = fed(one, kept(x + y.reshape(B, 1, -1) @ one["o_proj"]))
        logits = (rms(x, w["norm"]) @ w["lm_head"])[:, 0]
        return jnp.argmax(logits, -1), {"k": ks, "v": vs, "length": at + 1}

    shapes = {"embed": (V, W), "norm": (W,), "lm_head": (W, V)}
    for i in range(2):
        shapes |= {f"layers.{i}.{k}": v for k, v in {**ATTENTION, **MLP, **NORMS}.items()}
    cache = shape(2, B, T, KV, D)
    return plain(forward, shapes, batch={"tokens": shape(B, dtype=jnp.int32)}, high=V,
                 state={"k": cache, "v": cache, "length": shape(dtype=jnp.int32)},
                 answers=ANSWERS)


@model
def int8():
    """The forward pass with weights of eight bits, and a scale of each column."""
    names = {**ATTENTION, **MLP}

    def forward(w, batch):
        x = kept(w["embed"][batch["tokens"]])
        for i in range(2):
            one = w.layer(f"layers.{i}")
            full = {name: one[name].astype(jnp.float32) * one[name + "_scale"]
                    for name in names}
            full |= {name: one[name] for name in NORMS}
            x = fed(full, attended(full, x))
        return rms(x, w["norm"]) @ w["lm_head"]

    shapes = {"embed": (V, W), "norm": (W,), "lm_head": (W, V)}
    for i in range(2):
        shapes |= {f"layers.{i}.{k}": v for k, v in NORMS.items()}
        for name, of in names.items():
            shapes[f"layers.{i}.{name}"] = shape(*of, dtype=jnp.int8)
            shapes[f"layers.{i}.{name}_scale"] = (of[1],)
    scales = {f"*.{name}_scale": next(
        ANSWERS[one] for one in ANSWERS if fnmatch.fnmatchcase("." + name, one)
    ).split(" | ")[1] for name in names}
    return plain(forward, shapes, batch=tokens(B, T), high=V,
                 answers={**scales, **ANSWERS})
