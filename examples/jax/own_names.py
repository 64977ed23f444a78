"""A language model whose parameters have names of their own, trained by a plan that
follows from its program (docs/guides/program.md), and equal to the same on one device.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python3 own_names.py plan.json
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec

WIDTH, HEADS, INNER, VOCAB, LAYERS, BATCH, LENGTH = 64, 8, 256, 256, 2, 8, 16
OPTIMIZER = optax.adam(1e-3)


def block(oak, x):
    b, t, _ = x.shape
    h = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * oak["moss"]
    q, k, v = (
        (h @ oak[name]).reshape(b, t, HEADS, -1) for name in ("elk", "fox", "owl")
    )
    seen = jnp.tril(jnp.ones((t, t), bool))
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(q.shape[-1])
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e9))
    x = x + jnp.einsum("bhts,bshd->bthd", weights, v).reshape(b, t, -1) @ oak["bear"]
    return x + (jax.nn.silu(x @ oak["rain"]) * (x @ oak["snow"])) @ oak["river"]


def loss_of(params, tokens):
    x = params["meadow"][tokens[:, :-1]]
    for oak in params["forest"]:
        x = block(oak, x)
    logits = x @ params["sky"]
    wanted = jnp.take_along_axis(logits, tokens[:, 1:, None], -1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, -1) - wanted)


def train(params, state, tokens):
    loss, gradients = jax.value_and_grad(loss_of)(params, tokens)
    updates, state = OPTIMIZER.update(gradients, state)
    return optax.apply_updates(params, updates), state, loss


def init(key):
    square, out = (WIDTH, WIDTH), (WIDTH, INNER)
    shapes = {"elk": square, "fox": square, "owl": square, "bear": square,
              "rain": out, "snow": out, "river": (INNER, WIDTH), "moss": (WIDTH,)}
    keys = iter(jax.random.split(key, 2 + LAYERS * len(shapes)))

    def drawn(shape):
        return jax.random.normal(next(keys), shape) / np.sqrt(shape[0])

    return {"meadow": drawn((VOCAB, WIDTH)), "sky": drawn((WIDTH, VOCAB)),
            "forest": [{name: drawn(shape) for name, shape in shapes.items()}
                       for _ in range(LAYERS)]}


def step():
    """The function of the program, and the shapes of its arguments."""
    params = jax.eval_shape(init, jax.random.key(0))
    tokens = jax.ShapeDtypeStruct((BATCH, LENGTH + 1), "int32")
    return train, params, tokens, jax.eval_shape(OPTIMIZER.init, params)


def losses(function, params, tokens):
    state = OPTIMIZER.init(params)
    for _ in range(5):
        params, state, loss = function(params, state, tokens)
        yield float(loss)


def main(path):
    import shardc

    params = init(jax.random.key(0))
    tokens = jax.random.randint(jax.random.key(1), (BATCH, LENGTH + 1), 0, VOCAB)
    alone = list(losses(jax.jit(train), params, tokens))
    plan = shardc.Plan.load(path)
    mesh = plan.jax_mesh()
    params = jax.device_put(params, plan.named_shardings(like=params, mesh=mesh))
    tokens = jax.device_put(tokens, NamedSharding(mesh, PartitionSpec("fsdp")))
    planned = list(losses(jax.jit(shardc.constrain(train, plan)), params, tokens))
    print("losses", *(f"{loss:.4f}" for loss in planned))
    np.testing.assert_allclose(planned, alone, rtol=1e-4)
    print("equal to those on one device")


if __name__ == "__main__":
    main(sys.argv[1])
