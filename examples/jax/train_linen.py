"""A decoder in Flax linen, trained and decoded by a plan on eight devices, and
equal to the same on one.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python3 train_linen.py
"""

import os
import tempfile

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from flax.training.train_state import TrainState
from train import (
    BATCH,
    LENGTH,
    VOCAB,
    WIDTH,
    Decoding,
    attend,
    heads,
    loss_of,
    report,
    sharded_inputs,
)

import shardc
import shardc.manifest

HERE = os.path.dirname(os.path.abspath(__file__))


class Dense(nn.Module):
    size: int

    @nn.compact
    def __call__(self, x):
        shape = (x.shape[-1], self.size)
        return x @ self.param("kernel", nn.initializers.lecun_normal(), shape)


class Layer(nn.Module):
    constrain: callable

    @nn.compact
    def __call__(self, x, cache, at):
        h = nn.RMSNorm(name="norm1")(x)
        query, key, value = (
            self.constrain(heads(Dense(WIDTH, name=name)(h)), name)
            for name in ("query", "key", "value")
        )
        mixed, cache = attend(query, key, value, cache, at)
        mixed = self.constrain(mixed, "output").reshape(x.shape)
        x = self.constrain(x + Dense(WIDTH, name="out")(mixed), "hidden")
        h = nn.RMSNorm(name="norm2")(x)
        gate, up = (Dense(4 * WIDTH, name=name)(h) for name in ("gate", "up"))
        h = self.constrain(nn.silu(gate) * up, "mlp")
        return self.constrain(x + Dense(WIDTH, name="down")(h), "hidden"), cache


class Decoder(nn.Module):
    constrain: callable

    @nn.compact
    def __call__(self, tokens, caches=(None, None), at=0):
        table = self.param("embedding", nn.initializers.normal(), (VOCAB, WIDTH))
        x = self.constrain(self.constrain(table, ("tp", None))[tokens], "hidden")
        new = []
        for i, cache in enumerate(caches):
            layer = Layer(self.constrain, name=f"layers_{i}")
            x, cache = layer(x, cache, at)
            new.append(cache)
        logits = Dense(VOCAB, name="head")(nn.RMSNorm(name="norm")(x))
        return self.constrain(logits, "logits"), new


def model(plan=None, mode="train", mesh=None):
    """Without a plan, nothing is constrained."""
    if plan is None:
        return Decoder(lambda x, tensor: x)
    return Decoder(lambda x, tensor: plan.constrain(x, tensor, mode, mesh))


def init(key):
    params = model().init(key, jnp.zeros((BATCH, LENGTH), jnp.int32))["params"]
    return TrainState.create(
        apply_fn=None, params=params, tx=optax.adamw(1e-3, weight_decay=0.1)
    )


def train_step(net, state, batch, keep=lambda gradients: gradients):
    value, gradients = jax.value_and_grad(
        lambda params: loss_of(net.apply({"params": params}, batch["inputs"])[0], batch)
    )(state.params)
    return state.apply_gradients(grads=keep(gradients)), value


def main():
    key = jax.random.key(0)
    shapes = jax.eval_shape(init, key)
    plan = shardc.compile(
        mesh="dp:2,fsdp:2,tp:2",
        rules=os.path.join(HERE, "train.rules.yaml"),
        manifest=shardc.manifest.from_model(shapes),
        arguments=["--modes", "train,decode"],
    )
    mesh = plan.jax_mesh()

    # Every device makes its own shards: no array is ever unsharded.
    where = plan.named_shardings(like=shapes, mesh=mesh)
    state = jax.jit(init, out_shardings=where)(key)

    batch = sharded_inputs(plan, mesh)
    step = jax.jit(
        lambda state, batch: train_step(
            model(plan, "train", mesh),
            state,
            batch,
            lambda tree: jax.lax.with_sharding_constraint(tree, where.params),
        ),
        donate_argnums=0,
        in_shardings=(where, jax.tree.map(lambda x: x.sharding, batch)),
        out_shardings=(where, None),
    )
    lowered = step.lower(state, batch)
    losses = []
    for _ in range(3):
        state, loss = step(state, batch)
        losses.append(float(loss))

    alone, wanted = init(key), []
    for _ in range(3):
        alone, loss = jax.jit(lambda s, b: train_step(model(), s, b))(alone, batch)
        wanted.append(float(loss))

    with tempfile.TemporaryDirectory() as folder:
        saver = ocp.StandardCheckpointer()
        saver.save(os.path.join(folder, "step3"), state)
        saver.wait_until_finished()
        restored = saver.restore(
            os.path.join(folder, "step3"), plan.abstract_tree(like=shapes, mesh=mesh)
        )

    decode = model(plan, "decode", mesh)
    serve = jax.jit(
        lambda params, *inputs: decode.apply({"params": params}, *inputs),
        donate_argnums=2,
    )
    params = plan.shard(restored.params, "decode", mesh=mesh)
    decoding = Decoding(plan, mesh)
    logits = decoding.run(lambda *inputs: serve(params, *inputs))
    gathered = jax.device_get(restored.params)
    prompt = model().apply({"params": gathered}, decoding.prompt)[0]
    report(plan, lowered, restored, where, losses, wanted, logits, prompt)


if __name__ == "__main__":
    main()
