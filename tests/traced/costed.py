"""Functions whose cost is compared with what XLA compiles (record_costs.py): forward
passes, training steps with their optimizers, a decode step and an accumulation, in the
style of users who constrain the activations between layers. Each entry of COSTED has
the function, its inputs, and the mesh."""

import functools

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from layers import (
    I32, attention, causal, grouped_attention, layer_norm, next_token, rms, rope, shape,
    tokens)

BATCH = ("fsdp", "dp")
# The mesh of the program that is made; `costed` sets it.
GRID: list = [None]

RULES = """rules:
  - match: '(^|/)emb$'
    spec: [TP, FSDP]
  - match: 'experts/(gate|up)$'
    spec: [TP, FSDP, null]
  - match: 'experts/down$'
    spec: [TP, null, FSDP]
  - match: 'stack/(q|k|v|gate|up)$'
    spec: [null, FSDP, TP]
  - match: 'stack/(o|down)$'
    spec: [null, TP, FSDP]
  - match: '(^|/)(q|k|v|gate|up|in|head)$'
    spec: [FSDP, TP]
  - match: '(^|/)(o|down|out)$'
    spec: [TP, FSDP]
  - match: 'qkv$'
    spec: [FSDP, null, TP]
  - match: 'conv$'
    spec: [null, null, null, TP]
  - match: '.*'
    spec: Replicated
"""


def at(x, *axes):
    """The value with a sharding constraint; axes that the mesh lacks are left out."""
    grid = GRID[0]
    spec = []
    for one in axes:
        names = (one,) if isinstance(one, str) else one or ()
        spec.append(tuple(name for name in names if name in grid.axis_names) or None)
    return lax.with_sharding_constraint(x, NamedSharding(grid, PartitionSpec(*spec)))


def stream(x):
    return at(x, BATCH, None, None)


def heads(x):
    return at(x, BATCH, None, "tp", *[None] * (x.ndim - 3))


def ffn(w, x):
    hidden = jax.nn.silu(x @ w["gate"]) * (x @ w["up"])
    return at(hidden, BATCH, None, "tp") @ w["down"]


def attended(w, x, kv, group):
    b, t, _ = x.shape
    q = heads(rope((x @ w["q"]).reshape(b, t, kv, group, -1)))
    k = heads(rope((x @ w["k"]).reshape(b, t, kv, -1)))
    v = heads((x @ w["v"]).reshape(b, t, kv, -1))
    y = heads(grouped_attention(q, k, v)).reshape(b, t, -1)
    return at(y, BATCH, None, "tp") @ w["o"]


def block(w, x, kv=4, group=2, keep=stream):
    x = keep(x + attended(w, stream(rms(x, w["norm1"])), kv, group))
    return keep(x + ffn(w, stream(rms(x, w["norm2"]))))


def layer(width=256, kv=4, group=2, head=32, inner=768):
    return {"norm1": shape(width), "norm2": shape(width),
            "q": shape(width, kv * group * head), "k": shape(width, kv * head),
            "v": shape(width, kv * head), "o": shape(kv * group * head, width),
            "gate": shape(width, inner), "up": shape(width, inner),
            "down": shape(inner, width)}


def model(layers, width=256, vocab=1024):
    return {"emb": shape(vocab, width), "norm": shape(width),
            "head": shape(width, vocab), **layers}


def numbered(count, of):
    return {f"layer{i}": of for i in range(count)}


def embedded(p, batch, keep=stream):
    return keep(stream(at(p["emb"], "tp", None)[at(batch["tokens"], BATCH, None)]))


def logits(p, x):
    return at(stream(rms(x, p["norm"])) @ p["head"], BATCH, None, "tp")


def llama(p, batch, keep=stream, **sizes):
    x = embedded(p, batch, keep)
    for name in sorted(one for one in p if one.startswith("layer")):
        x = block(p[name], x, keep=keep, **sizes)
    return logits(p, x)


def scanned(p, batch, remat=False):
    body = lambda x, w: (block(w, x), None)
    if remat:
        body = jax.checkpoint(body)
    return logits(p, lax.scan(body, embedded(p, batch), p["stack"])[0])


def tied(p, batch):
    """The table of embeddings is the last matrix as well."""
    table = at(p["emb"], "tp", None)
    x = stream(table[at(batch["tokens"], BATCH, None)])
    for name in ("layer0", "layer1"):
        x = block(p[name], x)
    return at(stream(rms(x, p["norm"])) @ table.T, BATCH, None, "tp")


def split_sequence(x):
    return at(x, BATCH, "tp", None)


def gpt(p, batch):
    """One matrix [width, 3, heads * head] for queries, keys and values."""
    x = embedded(p, batch)
    for name in ("layer0", "layer1"):
        w = p[name]
        b, t, _ = x.shape
        h = stream(layer_norm(x, w["g1"], w["b1"]))
        qkv = jnp.einsum("btd,dcn->btcn", h, w["qkv"]).reshape(b, t, 3, 8, 32)
        q, k, v = (heads(qkv[:, :, i]) for i in range(3))
        y = at(heads(attention(q, k, v)).reshape(b, t, -1), BATCH, None, "tp")
        x = stream(x + y @ w["o"])
        h = stream(layer_norm(x, w["g2"], w["b2"]))
        x = stream(x + at(jax.nn.gelu(h @ w["in"]), BATCH, None, "tp") @ w["out"])
    return logits(p, x)


def gpt_layer():
    return {**{name: shape(256) for name in ("g1", "b1", "g2", "b2")},
            "qkv": shape(256, 3, 256), "o": shape(256, 256), "in": shape(256, 1024),
            "out": shape(1024, 256)}


def one_head(p, batch):
    """One KV head, whose projections are replicated over tp."""
    x = embedded(p, batch)
    for name in ("layer0", "layer1"):
        w = p[name]
        b, t, _ = x.shape
        h = stream(rms(x, w["norm1"]))
        q = heads(rope((h @ w["q"]).reshape(b, t, 8, 32)))
        k, v = rope(h @ w["key"]), h @ w["value"]
        scores = jnp.einsum("bqnd,bsd->bnqs", q, k) * 32 ** -0.5
        y = jnp.einsum("bnqs,bsd->bqnd", jax.nn.softmax(causal(scores), -1), v)
        y = at(heads(y).reshape(b, t, -1), BATCH, None, "tp")
        x = stream(x + y @ w["o"])
        x = stream(x + ffn(w, stream(rms(x, w["norm2"]))))
    return logits(p, x)


def one_head_layer():
    of = layer()
    del of["k"], of["v"]
    return {**of, "key": shape(256, 32), "value": shape(256, 32)}


def mixture(p, batch):
    """All experts compute all tokens, weighted by the router."""
    x = embedded(p, batch)
    for name in ("layer0", "layer1"):
        w = p[name]
        x = stream(x + attended(w, stream(rms(x, w["norm1"])), 4, 2))
        h = stream(rms(x, w["norm2"]))
        weight = at(jax.nn.softmax(h @ w["router"], -1), BATCH, None, None)
        e = w["experts"]
        hidden = jax.nn.silu(jnp.einsum("btd,edf->betf", h, e["gate"]))
        hidden = hidden * jnp.einsum("btd,edf->betf", h, e["up"])
        hidden = at(hidden, BATCH, "tp", None, None)
        hidden = at(hidden * weight.swapaxes(1, 2)[..., None], BATCH, "tp", None, None)
        x = stream(x + jnp.einsum("betf,efd->btd", hidden, e["down"]))
    return logits(p, x)


def mixture_layer():
    of = layer()
    for name in ("gate", "up", "down"):
        del of[name]
    return {**of, "router": shape(256, 8), "experts": {
        "gate": shape(8, 256, 256), "up": shape(8, 256, 256),
        "down": shape(8, 256, 256)}}


def vision(p, batch):
    """Patches, layers without a mask, and a linear head."""
    x = stream(batch["patches"] @ p["patch"])
    for name in ("layer0", "layer1"):
        w = p[name]
        b, t, _ = x.shape
        h = stream(rms(x, w["norm1"]))
        q, k, v = (heads((h @ w[one]).reshape(b, t, 8, 32)) for one in "qkv")
        y = heads(attention(q, k, v, mask=lambda s: s)).reshape(b, t, -1)
        x = stream(x + at(y, BATCH, None, "tp") @ w["o"])
        x = stream(x + ffn(w, stream(rms(x, w["norm2"]))))
    return x.mean(1) @ p["classes"]


def translate(p, batch):
    """An encoder, and a decoder that attends to it."""
    b, t = batch["source"].shape
    table = at(p["emb"], "tp", None)
    e = block(p["encoder"], stream(table[at(batch["source"], BATCH, None)]))
    x = stream(table[at(batch["tokens"], BATCH, None)])
    w = p["cross"]
    x = block(p["decoder"], x)
    h = stream(rms(x, w["norm1"]))
    q = heads((h @ w["q"]).reshape(b, t, 8, 32))
    k, v = (heads((e @ w[one]).reshape(b, t, 8, 32)) for one in "kv")
    y = heads(attention(q, k, v, mask=lambda s: s)).reshape(b, t, -1)
    return logits(p, stream(x + at(y, BATCH, None, "tp") @ w["o"]))


def cross_layer():
    of = layer(kv=8, group=1)
    return {name: of[name] for name in ("norm1", "q", "k", "v", "o")}


def adapted(p, batch):
    """Frozen weights and trained adapters of rank 8."""
    x = embedded(p["base"], batch)
    for name in ("layer0", "layer1"):
        w, a = p["base"][name], p["adapters"][name]
        h = stream(rms(x, w["norm1"]))
        b, t, _ = x.shape
        q = h @ w["q"] + at(h @ a["a"], BATCH, None, None) @ a["b"]
        q = heads(rope(q.reshape(b, t, 4, 2, -1)))
        k = heads(rope((h @ w["k"]).reshape(b, t, 4, -1)))
        v = heads((h @ w["v"]).reshape(b, t, 4, -1))
        y = at(heads(grouped_attention(q, k, v)).reshape(b, t, -1), BATCH, None, "tp")
        x = stream(x + y @ w["o"])
        x = stream(x + ffn(w, stream(rms(x, w["norm2"]))))
    return logits(p["base"], x)


def images(p, batch):
    """Convolutions whose channels are sharded."""
    x = batch["pixels"]
    for name in ("stage0", "stage1"):
        x = lax.conv_general_dilated(x, p[name]["conv"], (2, 2), "SAME",
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = at(jax.nn.relu(x), BATCH, None, None, "tp")
        x = at(x @ p[name]["out"], BATCH, None, None, None)
    return x.mean((1, 2)) @ p["classes"]


def recurrent(p, batch):
    """A gated state that a scan over time carries."""
    x = embedded(p, batch)
    for name in ("layer0", "layer1"):
        w = p[name]
        h = stream(rms(x, w["norm1"]))
        gate = at(jax.nn.sigmoid(h @ w["gate"]), BATCH, None, "tp")
        value = at(h @ w["up"], BATCH, None, "tp")

        def turn(state, one):
            gate, value = one
            state = at(gate * state + (1 - gate) * value, BATCH, "tp")
            return state, state

        start = at(jnp.zeros((x.shape[0], gate.shape[-1])), BATCH, "tp")
        _, y = lax.scan(turn, start, (jnp.moveaxis(gate, 1, 0),
                                      jnp.moveaxis(value, 1, 0)))
        y = at(jnp.moveaxis(y, 0, 1), BATCH, None, "tp")
        x = stream(x + y @ w["down"])
    return logits(p, x)


def recurrent_layer():
    return {name: of for name, of in layer().items()
            if name in ("norm1", "gate", "up", "down")}


def decode(p, cache, batch):
    """One more token with a cache of keys and values."""
    x = embedded(p, batch)
    place = batch["place"]
    new = {}
    for name in ("layer0", "layer1"):
        w, old = p[name], cache[name]
        b = x.shape[0]
        h = stream(rms(x, w["norm1"]))
        q = heads((h @ w["q"]).reshape(b, 1, 4, 2, -1))
        k = heads((h @ w["k"]).reshape(b, 1, 4, -1))
        v = heads((h @ w["v"]).reshape(b, 1, 4, -1))
        k = heads(lax.dynamic_update_slice_in_dim(old["keys"], k, place, 1))
        v = heads(lax.dynamic_update_slice_in_dim(old["values"], v, place, 1))
        new[name] = {"keys": k, "values": v}
        seen = lambda s: jnp.where(jnp.arange(s.shape[-1]) <= place, s, -1e9)
        y = heads(grouped_attention(q, k, v, mask=seen)).reshape(b, 1, -1)
        x = stream(x + at(y, BATCH, None, "tp") @ w["o"])
        x = stream(x + ffn(w, stream(rms(x, w["norm2"]))))
    return logits(p, x), new


# ---- training steps


def classes(out, batch):
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(out) * batch["target"], -1))


def sgd(forward, loss=next_token, trained=None):
    """Plain descent. `trained` names the part of the parameters that is trained."""
    def step(p, batch):
        def of(part):
            whole = part if trained is None else {**p, trained: part}
            return loss(forward(whole, batch), batch)
        part = p if trained is None else p[trained]
        value, gradients = jax.value_and_grad(of)(part)
        return value, jax.tree.map(lambda p, g: p - 1e-2 * g, part, gradients)
    return step


def with_state(tx, forward, loss=next_token):
    def step(p, state, batch):
        value, gradients = jax.value_and_grad(
            lambda p: loss(forward(p, batch), batch))(p)
        updates, state = tx.update(gradients, state, p)
        return optax.apply_updates(p, updates), state, value
    return step


def accumulated(p, batch):
    """Gradients of four parts of the batch, added by a scan."""
    parts = jax.tree.map(
        lambda x: x.reshape(4, x.shape[0] // 4, *x.shape[1:]), batch)

    def turn(total, part):
        part = jax.tree.map(lambda x: at(x, BATCH, None), part)
        g = jax.grad(lambda p: next_token(llama(p, part), part))(p)
        return jax.tree.map(jnp.add, total, g), None

    total, _ = lax.scan(turn, jax.tree.map(jnp.zeros_like, p), parts)
    return jax.tree.map(lambda p, g: p - 1e-2 / 4 * g, p, total)


def stacked(count, of):
    return {name: shape(count, *one.shape) for name, one in of.items()}


LAYERS = model(numbered(2, layer()))
TEXT = tokens(8, 128)
PATCHES = {"patches": shape(8, 64, 192), "target": shape(8, 16)}
ADAM = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
MESH = {"fsdp": 2, "tp": 4}
CACHE = {f"layer{i}": {"keys": shape(8, 128, 4, 32), "values": shape(8, 128, 4, 32)}
         for i in range(2)}


def adamw(forward, params, batch, tx=ADAM):
    return with_state(tx, forward), (params, jax.eval_shape(tx.init, params), batch)


COSTED = {
    "forward": (llama, (LAYERS, TEXT), MESH),
    "forward_tp": (llama, (LAYERS, TEXT), {"tp": 4, "dp": 2}),
    "step": (sgd(llama), (LAYERS, TEXT), MESH),
    "step_fsdp": (sgd(llama), (LAYERS, TEXT), {"fsdp": 8}),
    "step_dp": (sgd(llama), (LAYERS, TEXT), {"dp": 2, "fsdp": 2, "tp": 2}),
    "tied": (sgd(tied), ({name: of for name, of in LAYERS.items() if name != "head"},
                         TEXT), MESH),
    "adamw": (*adamw(llama, LAYERS, TEXT), MESH),
    "sequence": (sgd(functools.partial(llama, keep=split_sequence)), (LAYERS, TEXT),
                 MESH),
    "scanned": (sgd(scanned), (model({"stack": stacked(4, layer())}), TEXT), MESH),
    "remat": (sgd(functools.partial(scanned, remat=True)),
              (model({"stack": stacked(4, layer())}), TEXT), MESH),
    "gpt": (*adamw(gpt, model(numbered(2, gpt_layer())), TEXT, optax.adam(1e-3)), MESH),
    "one_head": (sgd(one_head), (model(numbered(2, one_head_layer())), TEXT), MESH),
    "mixture": (sgd(mixture), (model(numbered(2, mixture_layer())), TEXT), MESH),
    "vision": (sgd(vision, classes), (
        {"patch": shape(192, 256), "classes": shape(256, 16),
         **numbered(2, layer(kv=8, group=1))}, PATCHES), MESH),
    "translate": (sgd(translate), (model(
        {"encoder": layer(), "decoder": layer(), "cross": cross_layer()}),
        {**TEXT, "source": shape(8, 128, dtype=I32)}), MESH),
    "adapted": (sgd(adapted, trained="adapters"), (
        {"base": LAYERS, "adapters": numbered(2, {"a": shape(256, 8),
                                                  "b": shape(8, 256)})}, TEXT), MESH),
    "images": (sgd(images, classes), (
        {"classes": shape(64, 16), "stage0": {"conv": shape(3, 3, 8, 64),
                                              "out": shape(64, 64)},
         "stage1": {"conv": shape(3, 3, 64, 64), "out": shape(64, 64)}},
        {"pixels": shape(8, 32, 32, 8), "target": shape(8, 16)}), MESH),
    "recurrent": (sgd(recurrent), (model(numbered(2, recurrent_layer())), tokens(8, 32)),
                  MESH),
    "decode": (decode, (LAYERS, CACHE, {
        "tokens": shape(8, 1, dtype=I32), "place": shape(dtype=I32)}), MESH),
    "accumulated": (accumulated, (LAYERS, tokens(16, 64)), MESH),
}
