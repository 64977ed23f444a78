"""A decoder in Flax NNX, trained and decoded by a plan on eight devices, and
equal to the same on one.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python3 train_nnx.py
"""

import os
import tempfile

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from flax import nnx
from train import (
    LAYERS,
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


class Layer(nnx.Module):
    def __init__(self, rngs):
        def linear(rows, columns):
            return nnx.Linear(rows, columns, use_bias=False, rngs=rngs)

        self.norm1, self.norm2 = (nnx.RMSNorm(WIDTH, rngs=rngs) for _ in range(2))
        self.query, self.key, self.value, self.out = (
            linear(WIDTH, WIDTH) for _ in range(4)
        )
        self.gate, self.up = (linear(WIDTH, 4 * WIDTH) for _ in range(2))
        self.down = linear(4 * WIDTH, WIDTH)

    def __call__(self, x, constrain, cache, at):
        h = self.norm1(x)
        query, key, value = (
            constrain(heads(getattr(self, name)(h)), name)
            for name in ("query", "key", "value")
        )
        mixed, cache = attend(query, key, value, cache, at)
        mixed = constrain(mixed, "output").reshape(x.shape)
        x = constrain(x + self.out(mixed), "hidden")
        h = self.norm2(x)
        h = constrain(nnx.silu(self.gate(h)) * self.up(h), "mlp")
        return constrain(x + self.down(h), "hidden"), cache


class Decoder(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(VOCAB, WIDTH, rngs=rngs)
        self.layers = nnx.List([Layer(rngs) for _ in range(LAYERS)])
        self.norm = nnx.RMSNorm(WIDTH, rngs=rngs)
        self.head = nnx.Linear(WIDTH, VOCAB, use_bias=False, rngs=rngs)

    def __call__(self, tokens, constrain, caches=(None,) * LAYERS, at=0):
        table = constrain(self.embed.embedding[...], ("tp", None))
        x = constrain(table[tokens], "hidden")
        new = []
        for layer, cache in zip(self.layers, caches):
            x, cache = layer(x, constrain, cache, at)
            new.append(cache)
        return constrain(self.head(self.norm(x)), "logits"), new


def constrainer(plan, mode, mesh):
    return lambda x, tensor: plan.constrain(x, tensor, mode, mesh)


def unconstrained(x, tensor):
    return x


def create():
    model = Decoder(nnx.Rngs(0))
    tx = optax.adamw(1e-3, weight_decay=0.1)
    return model, nnx.Optimizer(model, tx, wrt=nnx.Param)


def init():
    return nnx.state(create())


def train_step(graph, constrain, state, batch, keep=lambda gradients: gradients):
    model, optimizer = nnx.merge(graph, state)
    value, gradients = nnx.value_and_grad(
        lambda model: loss_of(model(batch["inputs"], constrain)[0], batch)
    )(model)
    optimizer.update(model, keep(gradients))
    return nnx.state((model, optimizer)), value


def main():
    graph, shapes = nnx.split(nnx.eval_shape(create))
    plan = shardc.compile(
        mesh="dp:2,fsdp:2,tp:2",
        rules=os.path.join(HERE, "train.rules.yaml"),
        manifest=shardc.manifest.from_model(nnx.eval_shape(create)[0]),
        arguments=["--modes", "train,decode"],
    )
    mesh = plan.jax_mesh()

    # Every device makes its own shards: no array is ever unsharded.
    where = plan.named_shardings(like=shapes, mesh=mesh)
    state = jax.jit(init, out_shardings=where)()

    batch = sharded_inputs(plan, mesh)
    constrain = constrainer(plan, "train", mesh)
    step = jax.jit(
        lambda state, batch: train_step(
            graph,
            constrain,
            state,
            batch,
            lambda tree: jax.lax.with_sharding_constraint(
                tree, plan.named_shardings(like=tree, mesh=mesh)
            ),
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

    alone, wanted = init(), []
    one_device = jax.jit(lambda s, b: train_step(graph, unconstrained, s, b))
    for _ in range(3):
        alone, loss = one_device(alone, batch)
        wanted.append(float(loss))

    with tempfile.TemporaryDirectory() as folder:
        saver = ocp.StandardCheckpointer()
        saver.save(os.path.join(folder, "step3"), state)
        saver.wait_until_finished()
        restored = saver.restore(
            os.path.join(folder, "step3"), plan.abstract_tree(like=shapes, mesh=mesh)
        )

    model, _ = nnx.merge(graph, restored)
    definition, params = nnx.split(model)
    constrain = constrainer(plan, "decode", mesh)
    serve = jax.jit(
        lambda params, token, cache, at: nnx.merge(definition, params)(
            token, constrain, cache, at
        ),
        donate_argnums=2,
    )
    params = plan.shard(params, "decode", mesh=mesh)
    decoding = Decoding(plan, mesh)
    logits = decoding.run(lambda *inputs: serve(params, *inputs))
    alone = nnx.merge(definition, jax.device_get(params))
    prompt = alone(decoding.prompt, unconstrained)[0]
    report(plan, lowered, restored, where, losses, wanted, logits, prompt)


if __name__ == "__main__":
    main()
