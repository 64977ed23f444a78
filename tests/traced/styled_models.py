"""Models whose authors write otherwise than most: letters of einsum in any order, vmap
over heads, loops over pairs of layers, kernels by hand, sorted experts, scans over time
or by association, images, graphs and chunks. A training step of each, of width 256 with
16 x 64 tokens, is proved at reduced sizes (tests/cli/verify_styles_test.py)."""

import functools

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from layers import (
    I32, attention, causal, grouped_attention, layer_norm, layered, next_token, plain,
    rms, rope, shape, squares, tokens)

B, T, W, H, D, F, V = 16, 64, 256, 8, 32, 768, 1024
TEXT = tokens(B, T)
MODELS = {}


def styled(fn):
    MODELS[fn.__name__] = fn
    return fn


def step(model):
    """A training step with AdamW and a norm of all gradients."""
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))

    def run(params, state, batch):
        loss, gradients = jax.value_and_grad(
            lambda params: model.loss(model.forward(params, batch), batch))(params)
        updates, state = tx.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss

    return run, (model.params, jax.eval_shape(tx.init, model.params), model.batch)


def language(block, layer, count=2, **more):
    """A language model of blocks(weights, x), with an output matrix of its own."""

    def forward(w, b):
        x = w["table"][b["tokens"]]
        for i in range(count):
            x = block(w.layer(str(i)), x)
        return rms(x, w["last"]) @ w["out"]

    shapes = {"table": (V, W), "last": (W,), "out": (W, V), **layered(count, layer),
              **more}
    return plain(forward, shapes, batch=TEXT, answers={}, loss=next_token)


def gated(w, x):
    h = rms(x, w["norm2"])
    return x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"]


GATED = {"norm2": (W,), "gate": (W, F), "up": (W, F), "down": (F, W)}
FOUR = {"norm": (W,), "q": (W, H * D), "k": (W, H * D), "v": (W, H * D), "o": (H * D, W)}


def attended(w, x, of=attention):
    h = rms(x, w["norm"])
    q, k, v = (jnp.reshape(h @ w[one], (*h.shape[:2], H, D)) for one in "qkv")
    return x + of(q, k, v).reshape(*x.shape[:2], -1) @ w["o"]


@styled
def letters():
    """Every product is an einsum of three operands, heads come first, and scores are
    mixed between heads before the softmax."""

    def block(w, x):
        h = rms(x, w["norm"])
        s = jnp.einsum("zia,nah,nbh,zjb->nzij", h, w["q"], w["k"], h) * D ** -0.5
        s = jnp.einsum("nzij,nm->mijz", s, w["mix"])
        s = jnp.where(jnp.tril(jnp.ones((T, T), bool))[None, :, :, None], s, -1e9)
        a = jax.nn.softmax(s, 2)
        x = x + jnp.einsum("mijz,zja,amh,hmb->zib", a, h, w["v"], w["o"])
        h = rms(x, w["norm2"])
        y = jax.nn.gelu(jnp.einsum("fa,zia->fzi", w["up"], h))
        return x + jnp.einsum("fzi,bf->zib", y, w["down"])

    return language(block, {
        "norm": (W,), "q": (H, W, D), "k": (H, W, D), "v": (W, H, 24), "o": (24, H, W),
        "mix": (H, H), "norm2": (W,), "up": (F, W), "down": (W, F)})


@styled
def mapped():
    """The model is one of a single sequence; vmap makes heads, experts and the batch."""

    def head(q, k, v, x):
        return jax.nn.softmax(causal((x @ q) @ (x @ k).T / 6.0)) @ (x @ v)

    def expert(up, gate, down, row):
        return (jax.nn.silu(up.T @ row) * (gate.T @ row)) @ down

    def one(w, ids):
        x = w["table"][ids]
        for i in range(2):
            own = w.layer(str(i))
            h = rms(x, own["norm"])
            y = jax.vmap(head, (0, 0, 0, None), 1)(own["q"], own["k"], own["v"], h)
            x = x + y.reshape(T, -1) @ own["o"]
            h = rms(x, own["norm2"])
            chosen = jax.nn.softmax(h @ own["route"])
            every = jax.vmap(lambda row, own=own: jax.vmap(expert, (0, 0, 0, None))(
                own["up"], own["gate"], own["down"], row))(h)
            x = x + jnp.einsum("te,tew->tw", chosen, every)
        return rms(x, w["last"]) @ w["table"].T

    layer = {"norm": (W,), "q": (H, W, D), "k": (H, W, D), "v": (H, W, 24),
             "o": (H * 24, W), "norm2": (W,), "route": (W, 4), "up": (4, W, F),
             "gate": (4, W, F), "down": (4, F, W)}
    return plain(lambda w, b: jax.vmap(lambda ids: one(w, ids))(b["tokens"]),
                 {"table": (V, W), "last": (W,), **layered(2, layer)},
                 batch=TEXT, answers={}, loss=next_token)


@styled
def pairs():
    """A scan over pairs of layers, stacked along their second dimension, of which the
    first has a window; a policy states what is recomputed."""

    def forward(w, b):
        at = jnp.arange(T)

        def windowed(s, width):
            near = (at[:, None] >= at) & (at[:, None] - at < width)
            return jnp.where(near, s, -1e9)

        @functools.partial(
            jax.checkpoint,
            policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable)
        def pair(x, own):
            norm, qkv, o, up, down = own
            for j, width in ((0, 16), (1, T)):
                h = rms(x, norm[j, 0])
                y = jnp.einsum("btw,wkgd->btkgd", h, qkv[j])
                y = grouped_attention(
                    y[..., :2, :], y[..., 2, :], y[..., 3, :],
                    lambda s, width=width: windowed(s, width))
                x = x + jnp.einsum("btkgd,kgdw->btw", y, o[j])
                a, g = jnp.split(rms(x, norm[j, 1]) @ up[j], 2, -1)
                x = x + (a * jax.nn.gelu(g)) @ down[j]
            return x, None

        stacks = [jnp.moveaxis(w[one], 1, 0) for one in ("norm", "qkv", "o", "up", "down")]
        x, _ = lax.scan(pair, w["table"][b["tokens"]] * 16.0, stacks)
        return rms(x, w["last"]) @ w["out"]

    return plain(forward, {
        "table": (V, W), "last": (W,), "out": (W, V), "norm": (2, 3, 2, W),
        "qkv": (2, 3, W, 4, 4, D), "o": (2, 3, 4, 2, D, W), "up": (2, 3, W, 2 * F),
        "down": (2, 3, F, W)}, batch=TEXT, answers={}, loss=next_token)


@styled
def region():
    """The MLP of each layer is the user's own program of the devices."""
    mesh = AbstractMesh((2, 4), ("fsdp", "tp"), axis_types=(AxisType.Auto,) * 2)

    @functools.partial(jax.shard_map, mesh=mesh, out_specs=P("fsdp"),
                       in_specs=(P("fsdp"), P(None, "tp"), P("tp")))
    def shared(h, up, down):
        return lax.psum(jax.nn.gelu(h @ up) @ down, "tp")

    def block(w, x):
        x = attended(w, x)
        return x + shared(rms(x, w["norm2"]), w["up"], w["down"])

    return language(block, {**FOUR, "norm2": (W,), "up": (W, F), "down": (F, W)})


CHUNK = 16


def _blocks(x):
    """[batch, time, heads, width] as [blocks, batch, chunk, heads, width]."""
    return x.reshape(B, T // CHUNK, CHUNK, *x.shape[2:]).swapaxes(0, 1)


def _scores(q, k, number):
    s = jnp.einsum("bqnd,bknd->bnqk", q, k) * D ** -0.5
    seen = jnp.arange(T)[:, None] >= number * CHUNK + jnp.arange(CHUNK)
    return jnp.where(seen, s, -1e30)


@jax.custom_vjp
def by_chunks(q, k, v):
    return _by_chunks(q, k, v)[0]


def _by_chunks(q, k, v):
    def chunk(c, own):
        top, low, y = c
        s = _scores(q, own[0], own[2])
        new = jnp.maximum(top, s.max(-1))
        weights, old = jnp.exp(s - new[..., None]), jnp.exp(top - new)
        y = y * old[..., None] + jnp.einsum("bnqk,bknd->bnqd", weights, own[1])
        return (new, low * old + weights.sum(-1), y), None

    rows = jnp.zeros((B, H, T))
    start = (rows - 1e30, rows, jnp.zeros((B, H, T, D)))
    (top, low, y), _ = lax.scan(
        chunk, start, (_blocks(k), _blocks(v), jnp.arange(T // CHUNK)))
    y = y / low[..., None]
    return y.swapaxes(1, 2), (q, k, v, y, top + jnp.log(low))


def _of_chunks(saved, given):
    q, k, v, y, total = saved
    given = given.swapaxes(1, 2)
    own = (given * y).sum(-1)

    def chunk(dq, one):
        k, v, number = one
        weights = jnp.exp(_scores(q, k, number) - total[..., None])
        dv = jnp.einsum("bnqk,bnqd->bknd", weights, given)
        ds = weights * (jnp.einsum("bnqd,bknd->bnqk", given, v) - own[..., None])
        ds = ds * D ** -0.5
        dq = dq + jnp.einsum("bnqk,bknd->bqnd", ds, k)
        return dq, (jnp.einsum("bnqk,bqnd->bknd", ds, q), dv)

    dq, (dk, dv) = lax.scan(chunk, jnp.zeros_like(q),
                            (_blocks(k), _blocks(v), jnp.arange(T // CHUNK)))
    return dq, *(one.swapaxes(0, 1).reshape(k.shape) for one in (dk, dv))


by_chunks.defvjp(_by_chunks, _of_chunks)


@styled
def chunked():
    """Attention over chunks of keys with a gradient by hand, a rotary embedding of half
    of a head by complex numbers, and recomputed blocks."""

    def turned(x):
        own, rest = x[..., :D // 2], x[..., D // 2:]
        pairs = lax.complex(own[..., ::2], own[..., 1::2])
        angle = jnp.outer(jnp.arange(T), 1e4 ** (-jnp.arange(D // 4) / (D // 4)))
        pairs = pairs * jnp.exp(1j * angle)[:, None]
        own = jnp.stack([pairs.real, pairs.imag], -1).reshape(own.shape)
        return jnp.concatenate([own, rest], -1)

    def block(w, x):
        @jax.checkpoint
        def run(x):
            x = attended(w, x, lambda q, k, v: by_chunks(turned(q), turned(k), v))
            return gated(w, x)
        return run(x)

    return language(block, {**FOUR, **GATED})


@styled
def queues():
    """Tokens are sorted by their experts and written to queues, of which those beyond
    the capacity are dropped."""
    experts, best = 8, 2

    def mixture(w, x):
        count = x.shape[0]
        room = 2 * count * best // experts
        p, e = lax.top_k(jax.nn.softmax(x @ w["route"]), best)
        order = jnp.argsort(e.reshape(-1), stable=True)
        expert, token = e.reshape(-1)[order], order // best
        first = jnp.searchsorted(expert, jnp.arange(experts))
        place = jnp.arange(count * best) - first[expert]
        queue = jnp.zeros((experts, room, W)).at[expert, place].set(x[token], mode="drop")
        h = jnp.einsum("ecw,ewtf->ectf", queue, w["both"])
        y = jnp.einsum("ecf,efw->ecw", jax.nn.silu(h[:, :, 0]) * h[:, :, 1], w["down"])
        y = y.at[expert, place].get(mode="fill", fill_value=0)
        return jnp.zeros_like(x).at[token].add(y * p.reshape(-1)[order][:, None])

    def block(w, x):
        x = attended(w, x)
        h = rms(x, w["norm2"]).reshape(-1, W)
        return x + mixture(w, h).reshape(x.shape)

    return language(block, {**FOUR, "norm2": (W,), "route": (W, experts),
                            "both": (experts, W, 2, 384), "down": (experts, 384, W)})


@styled
def associated():
    """A gated recurrence by an associative scan, and attention without a softmax by
    running sums."""

    def block(w, x):
        h = layer_norm(x, w["norm"], w["shift"])
        y, z = h @ w["in"], jax.nn.gelu(h @ w["gate"])
        parts = y.reshape(B, T, H, 48)
        open_, kept = (jax.nn.sigmoid(jnp.einsum("btni,nij->btnj", parts, w[one]))
                       for one in ("open", "kept"))
        decay = jnp.exp(-8 * jax.nn.softplus(w["rate"]) * kept.reshape(y.shape))
        given = jnp.sqrt(1 - decay ** 2 + 1e-6) * open_.reshape(y.shape) * y
        _, s = lax.associative_scan(
            lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (decay, given), axis=1)
        x = x + (s * z) @ w["back"]
        h = layer_norm(x, w["norm2"], w["shift2"])
        q, k = (jax.nn.elu(h @ w[one]).reshape(B, T, H, D) + 1 for one in "qk")
        v = (h @ w["v"]).reshape(B, T, H, 24)
        state = jnp.cumsum(jnp.einsum("btnk,btnv->btnkv", k, v), 1)
        size = jnp.einsum("btnk,btnk->btn", q, jnp.cumsum(k, 1))[..., None]
        y = jnp.einsum("btnk,btnkv->btnv", q, state) / (size + 1e-6)
        return x + y.reshape(B, T, -1) @ w["o"]

    wide = H * 48
    return language(block, {
        "norm": (W,), "shift": (W,), "norm2": (W,), "shift2": (W,), "in": (W, wide),
        "gate": (W, wide), "open": (H, 48, 48), "kept": (H, 48, 48), "rate": (wide,),
        "back": (wide, W), "q": (W, H * D), "k": (W, H * D), "v": (W, H * 24),
        "o": (H * 24, W)})


@styled
def pictures():
    """A network of convolutions with a skip connection, groups of channels, attention
    at half of the resolution, and a time that scales and shifts."""
    low, high = 64, 128

    def conv(x, kernel, stride=1):
        return lax.conv_general_dilated(
            x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def grouped(x, g, b):
        y = x.reshape(*x.shape[:3], 8, -1)
        y = y - y.mean((1, 2, 4), keepdims=True)
        y = y * lax.rsqrt((y * y).mean((1, 2, 4), keepdims=True) + 1e-5)
        return y.reshape(x.shape) * g + b

    def residual(w, x, time):
        y = conv(jax.nn.silu(grouped(x, w["norm"], w["shift"])), w["first"])
        scale, more = jnp.split(time @ w["time"], 2, -1)
        y = y * (1 + scale[:, None, None]) + more[:, None, None]
        return x + conv(jax.nn.silu(y), w["second"])

    def forward(w, b):
        wave = b["time"][:, None] * jnp.exp(-jnp.arange(32) / 4.0)
        time = jax.nn.silu(jnp.concatenate([jnp.sin(wave), jnp.cos(wave)], -1) @ w["time"])
        fine = residual(w.layer("fine"), conv(b["image"], w["in"]), time)
        x = residual(w.layer("coarse"), conv(fine, w["less"], 2), time)
        n, height, width, c = x.shape
        h = grouped(x, w["norm"], w["shift"]).reshape(n, -1, c)
        q, k, v = jnp.moveaxis((h @ w["qkv"]).reshape(n, -1, 4, 3, D), 3, 0)
        y = attention(q, k, v, lambda s: s)
        x = x + (y.reshape(n, -1, 4 * D) @ w["o"]).reshape(x.shape)
        x = conv(jax.image.resize(x, (n, 2 * height, 2 * width, c), "nearest"), w["more"])
        return conv(jnp.concatenate([x, fine], -1), w["out"])

    def of(c):
        return {"norm": (c,), "shift": (c,), "first": (3, 3, c, c), "time": (W, 2 * c),
                "second": (3, 3, c, c)}

    shapes = {"time": (64, W), "in": (3, 3, 4, low), "less": (3, 3, low, high),
              "norm": (high,), "shift": (high,), "qkv": (high, 12 * D),
              "o": (4 * D, high), "more": (3, 3, high, low), "out": (3, 3, 2 * low, 4)}
    for name, c in (("fine", low), ("coarse", high)):
        shapes |= {f"{name}.{one}": size for one, size in of(c).items()}
    image = shape(B, 16, 16, 4)
    return plain(forward, shapes, answers={}, loss=squares,
                 batch={"image": image, "time": shape(B), "target": image})


@styled
def graphs():
    """Attention over the edges of graphs, by sums and maxima of segments."""
    nodes, edges, count = 256, 1024, 16

    def forward(w, b):
        source, target = b["source"], b["target_node"]
        x, e = b["nodes"] @ w["nodes"], b["edges"] @ w["edges"]
        for i in range(2):
            own = w.layer(str(i))
            h = layer_norm(x, own["norm"], own["shift"])
            sent = (h @ own["sent"])[source].reshape(edges, H, D)
            seen = (h @ own["got"])[target].reshape(edges, H, D)
            s = jnp.einsum("end,nd->en", jax.nn.leaky_relu(
                sent + seen + (e @ own["edge"]).reshape(edges, H, D)), own["score"])
            s = jnp.exp(s - jax.ops.segment_max(s, target, nodes)[target])
            s = s / (jax.ops.segment_sum(s, target, nodes)[target] + 1e-9)
            y = jax.ops.segment_sum(sent * s[..., None], target, nodes)
            x = x + y.reshape(nodes, -1) @ own["o"]
            x = x + jax.nn.relu(x @ own["up"]) @ own["down"]
            e = e + jnp.concatenate([x[source], x[target], e], -1) @ own["more"]
        return jax.ops.segment_sum(x, b["graph"], count) @ w["out"]

    layer = {"norm": (W,), "shift": (W,), "sent": (W, H * D), "got": (W, H * D),
             "edge": (64, H * D), "score": (H, D), "o": (H * D, W), "up": (W, F),
             "down": (F, W), "more": (2 * W + 64, 64)}
    return plain(forward, {"nodes": (32, W), "edges": (16, 64), "out": (W, 8),
                           **layered(2, layer)}, answers={}, loss=squares, batch={
        "nodes": shape(nodes, 32), "edges": shape(edges, 16),
        "source": shape(edges, dtype=I32), "target_node": shape(edges, dtype=I32),
        "graph": shape(nodes, dtype=I32), "target": shape(count, 8)})


@styled
def streams():
    """Two streams of other widths with one attention, and one matrix of six vectors
    that scale, shift and gate each of them."""
    words, narrow = 24, 192

    def forward(w, b):
        n = b["image"].shape[0]
        x = b["image"].reshape(n, 8, 2, 8, 2, 4).transpose(0, 1, 3, 2, 4, 5)
        x = x.reshape(n, T, 16) @ w["patch"] + w["place"]
        wave = b["time"][:, None] * jnp.exp(-jnp.arange(32.0))
        c = jax.nn.silu(jnp.concatenate([jnp.sin(wave), jnp.cos(wave)], -1) @ w["time"])
        y = w["table"][b["words"]]
        for i in range(2):
            own, made, six = w.layer(str(i)), [], {}
            for s, z in (("x", x), ("y", y)):
                six[s] = jnp.einsum("bc,cpw->pbw", c, own[s + "six"])[:, :, None]
                h = layer_norm(z, 1 + six[s][0], six[s][1])
                made.append((h @ own[s + "qkv"]).reshape(n, -1, 3, H, D))
            q, k, v = (one[:, :, 0] for one in jnp.split(jnp.concatenate(made, 1), 3, 2))
            joint = attention(q, k, v, lambda s: s).reshape(n, -1, H * D)
            ends = []
            for s, z, o in (("x", x, joint[:, :T]), ("y", y, joint[:, T:])):
                m = six[s]
                z = z + m[2] * (o @ own[s + "o"])
                h = layer_norm(z, 1 + m[3], m[4])
                ends.append(z + m[5] * (jax.nn.gelu(h @ own[s + "up"]) @ own[s + "down"]))
            x, y = ends
        x = (rms(x, w["last"]) @ w["out"]).reshape(n, 8, 8, 2, 2, 4)
        return x.transpose(0, 1, 3, 2, 4, 5).reshape(n, 16, 16, 4)

    layer = {}
    for s, width in (("x", W), ("y", narrow)):
        layer |= {s + "six": (128, 6, width), s + "qkv": (width, 3 * H * D),
                  s + "o": (H * D, width), s + "up": (width, F), s + "down": (F, width)}
    image = shape(B, 16, 16, 4)
    return plain(forward, {
        "patch": (16, W), "place": (T, W), "time": (64, 128), "table": (V, narrow),
        "last": (W,), "out": (W, 16), **layered(2, layer)}, answers={}, loss=squares,
        batch={"image": image, "time": shape(B), "target": image,
               "words": shape(B, words, dtype=I32)})


@styled
def over_time():
    """A selective state space by a scan over time, after a convolution by shifts."""
    wide, states, rank = 512, 16, 12

    def block(w, x):
        xz = rms(x, w["norm"]) @ w["in"]
        u, z = xz[..., :wide], xz[..., wide:]
        before = jnp.pad(u, ((0, 0), (3, 0), (0, 0)))
        u = jax.nn.silu(sum(before[:, j:j + T] * w["taps"][j] for j in range(4)))
        rate, b, c = jnp.split(u @ w["three"], [rank, rank + states], -1)
        rate = jax.nn.softplus(rate @ w["rate"] + w["bias"])
        a = -jnp.exp(w["decay"])

        def turn(s, now):
            rate, u, b, c = now
            s = jnp.exp(rate[..., None] * a) * s + (rate * u)[..., None] * b[:, None]
            return s, jnp.einsum("bin,bn->bi", s, c)

        _, y = lax.scan(turn, jnp.zeros((B, wide, states)),
                        tuple(jnp.moveaxis(one, 1, 0) for one in (rate, u, b, c)))
        y = jnp.moveaxis(y, 0, 1) + w["skip"] * u
        return x + (y * jax.nn.silu(z)) @ w["o"]

    return language(block, {
        "norm": (W,), "in": (W, 2 * wide), "taps": (4, wide),
        "three": (wide, rank + 2 * states), "rate": (rank, wide), "bias": (wide,),
        "decay": (wide, states), "skip": (wide,), "o": (wide, W)})


@styled
def neighbours():
    """Chunks of queries see their own chunk and the one before, which a roll makes;
    distances have a learned bias from a table."""
    chunk = 16

    def local(w, q, k, v):
        q, k, v = (one.reshape(B, T // chunk, chunk, H, D) for one in (q, k, v))
        k, v = (jnp.concatenate([jnp.roll(one, 1, 1), one], 2) for one in (k, v))
        s = jnp.einsum("bcqnd,bcknd->bcnqk", q, k) * D ** -0.5
        far = jnp.arange(chunk)[:, None] - jnp.arange(2 * chunk) + chunk
        s = s + jnp.moveaxis(w["far"][jnp.clip(far, 0, 2 * chunk - 1)], -1, 0)
        first = (jnp.arange(T // chunk) == 0)[:, None, None, None]
        s = jnp.where((far >= 0) & (far < chunk) & ~(first & (jnp.arange(2 * chunk) < chunk)),
                      s, -1e9)
        y = jnp.einsum("bcnqk,bcknd->bcqnd", jax.nn.softmax(s, -1), v)
        return y.reshape(B, T, H, D)

    def block(w, x):
        x = attended(w, x, lambda q, k, v: local(w, rope(q), rope(k), v))
        return gated(w, x)

    return language(block, {**FOUR, **GATED, "far": (2 * chunk, H)})


@styled
def latent():
    """Latent attention in a scan over stacked layers, whose weights are rounded to few
    values in the forward pass alone."""
    inner, turned, out, few, cache = 24, 8, 16, 96, 48

    @jax.custom_jvp
    def rounded(x):
        size = jnp.max(jnp.abs(x)) / 127
        return jnp.round(x / size) * size

    @rounded.defjvp
    def _(primals, tangents):
        return rounded(*primals), tangents[0]

    def block(x, w):
        h = rms(x, w["norm"])
        q = rms(h @ rounded(w["qa"]), w["qn"]) @ rounded(w["qb"])
        q = q.reshape(B, T, H, inner + turned)
        both = h @ rounded(w["kva"])
        kv = (rms(both[..., :cache], w["kvn"]) @ w["kvb"]).reshape(B, T, H, inner + out)
        s = jnp.einsum("bqnd,bknd->bnqk", q[..., :inner], kv[..., :inner])
        s = s + jnp.einsum("bqnd,bkd->bnqk", rope(q[..., inner:]),
                           rope(both[..., None, cache:])[:, :, 0])
        a = jax.nn.softmax(causal(s / 6.0), -1)
        y = jnp.einsum("bnqk,bknd->bqnd", a, kv[..., inner:])
        return gated(w, x + y.reshape(B, T, -1) @ w["o"]), None

    names = {"norm": (W,), "qa": (W, few), "qn": (few,), "qb": (few, H * (inner + turned)),
             "kva": (W, cache + turned), "kvn": (cache,),
             "kvb": (cache, H * (inner + out)), "o": (H * out, W), **GATED}

    def forward(w, b):
        x, _ = lax.scan(jax.checkpoint(block), w["table"][b["tokens"]],
                        {name: w[name] for name in names})
        return rms(x, w["last"]) @ w["out"]

    return plain(forward, {"table": (V, W), "last": (W,), "out": (W, V),
                           **{name: (4, *of) for name, of in names.items()}},
                 batch=TEXT, answers={}, loss=next_token)
