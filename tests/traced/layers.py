"""What the models of this folder share: layers in plain JAX, losses, training steps,
and parameters under names that say nothing.

A model is written with natural names; the program has `hidden(name)` in their place,
so that whoever reads the program cannot use names. The answers of a model give the
structure of each parameter's dimensions by natural names, with `*` for a number of a
layer, in the language of testdata/programs/README.md."""

import dataclasses
import fnmatch
import hashlib
from typing import Any, Callable

import jax
import jax.numpy as jnp
import optax

F32, I32 = jnp.float32, jnp.int32


def shape(*sizes, dtype=F32):
    return jax.ShapeDtypeStruct(sizes, dtype)


def hidden(name):
    digits = hashlib.sha256(name.encode()).hexdigest()
    return f"p{digits[:3]}/t{digits[3:8]}"


@dataclasses.dataclass
class Model:
    """`forward(params, batch)`, or with a state forward(params, state, batch), its
    abstract arguments, and the answers. `high` bounds the integers of the batch."""

    forward: Callable[..., Any]
    params: Any
    batch: dict[str, Any]
    answers: dict[str, str]
    loss: Callable[..., Any] | None = None
    state: Any = None
    high: int = 4
    # Natural names of parameters by their names in the program.
    natural: dict[str, str] = dataclasses.field(default_factory=dict)

    def step(self):
        """A training step: gradients, and Adam on all parameters."""
        tx = optax.adam(1e-2)

        def step(params, state, batch):
            loss, gradients = jax.value_and_grad(
                lambda params: self.loss(self.forward(params, batch), batch))(params)
            updates, state = tx.update(gradients, state, params)
            return optax.apply_updates(params, updates), state, loss

        return step, self.params, self.batch, jax.eval_shape(tx.init, self.params)

    def call(self):
        """What is traced without gradients."""
        given = self.forward, self.params, self.batch
        return given if self.state is None else (*given, self.state)

    def answer_of(self, name):
        """The structure of each dimension, of a name in the program."""
        found = [answer for pattern, answer in self.answers.items()
                 if fnmatch.fnmatchcase(self.natural.get(name, name), pattern)]
        assert len(found) == 1, (name, self.natural.get(name), found)
        return [one.strip() for one in found[0].split("|")]


class Named:
    """The parameters of a plain model by their natural names."""

    def __init__(self, params, prefix=""):
        self.params, self.prefix = params, prefix

    def __getitem__(self, name):
        folder, leaf = hidden(self.prefix + name).split("/")
        return self.params[folder][leaf]

    def layer(self, name):
        return Named(self.params, f"{self.prefix}{name}.")


def plain(forward, shapes, **given):
    """A model of a function forward(Named, batch) and natural names with shapes, or
    with arrays' types."""
    params, natural = {}, {}
    for name, of in shapes.items():
        folder, leaf = hidden(name).split("/")
        kind = of if hasattr(of, "dtype") else shape(*of)
        params.setdefault(folder, {})[leaf] = kind
        natural[hidden(name)] = name
    assert len(natural) == len(shapes)

    def with_names(params, *rest):
        return forward(Named(params), *rest)

    return Model(with_names, params, natural=natural, **given)


def layered(count, shapes):
    return {f"{i}.{name}": of for i in range(count) for name, of in shapes.items()}


# ---- Layers


def rms(x, g, eps=1e-6):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * g


def layer_norm(x, g, b):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * g + b


def rope(x, start=0):
    """Rotates halves of the last dimension of [batch, time, ..., width]."""
    half = x.shape[-1] // 2
    angle = jnp.outer(jnp.arange(x.shape[1]) + start,
                      1e4 ** (-jnp.arange(half) / half))
    angle = angle.reshape(1, x.shape[1], *[1] * (x.ndim - 3), half)
    a, b = jnp.split(x, 2, -1)
    c, s = jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


def causal(scores):
    """Masks scores [..., queries, keys] above the diagonal."""
    q, k = scores.shape[-2:]
    keep = jnp.arange(k) <= jnp.arange(q)[:, None] + (k - q)
    return jnp.where(keep, scores, -1e9)


def grouped_attention(q, k, v, mask=causal):
    """q [batch, time, kv, group, width]; k and v [batch, time, kv, width]."""
    scores = jnp.einsum("bqkgd,bskd->bkgqs", q, k) * q.shape[-1] ** -0.5
    weights = jax.nn.softmax(mask(scores), -1)
    return jnp.einsum("bkgqs,bskd->bqkgd", weights, v)


def attention(q, k, v, mask=causal):
    """All [batch, time, heads, width]."""
    scores = jnp.einsum("bqnd,bsnd->bnqs", q, k) * q.shape[-1] ** -0.5
    return jnp.einsum("bnqs,bsnd->bqnd", jax.nn.softmax(mask(scores), -1), v)


def next_token(logits, batch):
    """Cross entropy of labels, picked from the logits."""
    logp = jax.nn.log_softmax(logits, -1)
    return -jnp.take_along_axis(logp, batch["labels"][..., None], -1).mean()


def squares(out, batch):
    return jnp.mean((out - batch["target"]) ** 2)


def tokens(batch, time):
    return {"tokens": shape(batch, time, dtype=I32),
            "labels": shape(batch, time, dtype=I32)}
