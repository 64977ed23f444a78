"""Compiles training steps of whole states (weights, optimizer, counters), with
one mistake each or none, for testdata/audit/states. Run by hand, with jax,
flax and optax on the CPU:

    cd tests/runtimes; python3 audit_train_states.py OUT_FOLDER [NAME...]

Writes the text right after partitioning of those with the names, or of those
that are recorded.
"""

import glob
import sys

import audit_programs as plain

# pylint: disable=wrong-import-position
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import nnx
from flax.training.train_state import TrainState

BATCH, MESH, keep, shape = plain.BATCH, plain.MESH, plain.keep, plain.shape
B, T, D, F, V = 8, 16, 64, 128, 512
# How the parameters should be sharded, by the end of their path.
SPECS = {"embedding": ("tp", "fsdp"), "wq/kernel": ("fsdp", "tp"),
         "wk/kernel": ("fsdp", "tp"), "wv/kernel": ("fsdp", "tp"),
         "wo/kernel": ("tp", "fsdp"), "gate/kernel": ("fsdp", "tp"),
         "up/kernel": ("fsdp", "tp"), "down/kernel": ("tp", "fsdp"),
         "head/kernel": ("fsdp", "tp")}


def constrain(x, *axes):
    return keep(x, *axes)


class Block(nn.Module):
    change: dict

    @nn.compact
    def __call__(self, x):
        def dense(size, name):
            return Dense(size, name=name, **self.change.get(name, {}))
        h = nn.RMSNorm(name="norm1")(x)
        q, k, v = (dense(D, name)(h) for name in ("wq", "wk", "wv"))
        q, k, v = (constrain(one, BATCH, None, "tp") for one in (q, k, v))
        split = [one.reshape(*one.shape[:2], 8, D // 8) for one in (q, k, v)]
        a = nn.dot_product_attention(*split).reshape(x.shape)
        a = constrain(a, *self.change.get("mixed", (BATCH, None, "tp")))
        x = x + dense(D, "wo")(a)
        x = constrain(x, *self.change.get("residual", (BATCH, None, None)))
        h = nn.RMSNorm(name="norm2")(x)
        g = constrain(dense(F, "gate")(h), BATCH, None, "tp")
        u = constrain(dense(F, "up")(h), BATCH, None, "tp")
        y = dense(D, "down")(nn.silu(g) * u)
        return constrain(x + y, BATCH, None, None)


class Dense(nn.Module):
    size: int
    gathered: tuple = ()
    after: bool = False

    @nn.compact
    def __call__(self, x):
        w = self.param("kernel", nn.initializers.lecun_normal(),
                       (x.shape[-1], self.size))
        if self.gathered and self.after:
            w = keep(w, *self.gathered).astype(jnp.bfloat16)
        elif self.gathered:
            w = keep(w.astype(jnp.bfloat16), *self.gathered)
        return (x.astype(w.dtype) @ w).astype(x.dtype)


class Embed(nn.Module):
    gathered: tuple

    @nn.compact
    def __call__(self, ids):
        table = self.param("embedding", nn.initializers.normal(), (V, D))
        if self.gathered:
            table = keep(table, *self.gathered)
        return table[ids]


class Net(nn.Module):
    change: dict

    @nn.compact
    def __call__(self, ids):
        x = Embed(self.change.get("table", ("tp", None)), name="embed")(ids)
        x = constrain(x, BATCH, None, None)
        for i in range(2):
            x = Block(self.change, name=f"block_{i}")(x)
        x = nn.RMSNorm(name="last")(x)
        logits = Dense(V, name="head")(x)
        return constrain(logits,
                         *self.change.get("logits", (BATCH, None, "tp")))


def loss_of(net, params, ids):
    logits = net.apply({"params": params}, ids)
    picked = jax.nn.log_softmax(logits) * jax.nn.one_hot(ids, V)
    return -picked.sum(-1).mean()


def place(specs):
    """Gives the arrays of a tree the shardings of the parameters."""
    def one(path, array):
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        axes = next((axes for end, axes in specs.items() if
                     name.removesuffix("/value").endswith(end)), ())
        return shape(array.shape, *(axes if array.ndim == 2 else ()),
                     dtype=array.dtype)
    return lambda tree: jax.tree.map_with_path(one, tree)


def states(change=None, tx=None, specs=None, moments=None):
    net = Net(change or {})
    tx = tx or optax.adamw(1e-3)
    params = jax.eval_shape(net.init, jax.random.key(0),
                            jnp.zeros((B, T), jnp.int32))["params"]
    state = jax.eval_shape(
        lambda params: TrainState.create(apply_fn=net.apply, params=params,
                                         tx=tx), params)
    placed = place({**SPECS, **(specs or {})})(state)
    if moments is not None:
        placed = placed.replace(opt_state=place(moments)(state.opt_state))
    return net, placed


def ids():
    return shape((B, T), BATCH, dtype=jnp.int32)


def shardings(tree):
    return jax.tree.map(lambda one: one.sharding, tree)


def like(grads, params):
    """Constrains gradients to the shardings of their parameters."""
    return jax.tree.map(lambda g, p: keep(g, *p.sharding.spec), grads, params)


def train(name, net, placed, out=None, grads_as=None):
    def step(state, ids):
        loss, grads = jax.value_and_grad(
            lambda params: loss_of(net, params, ids))(state.params)
        grads = grads_as(grads) if grads_as else like(grads, placed.params)
        return state.apply_gradients(grads=grads), loss
    return plain.lower(name, step, placed, ids(),
                       out=out or (shardings(placed), None))


# Steps as they should be.


def adam(name):
    return train(name, *states())


def momentum(name):
    return train(name, *states(tx=optax.sgd(1e-2, momentum=0.9)))


def clipped(name):
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    return train(name, *states(tx=tx))


def weights_named(name):
    """The arguments are a dictionary `w` and a tuple of moments."""
    net, state = states()

    def step(w, moments, ids):
        loss, grads = jax.value_and_grad(
            lambda params: loss_of(net, params, ids))(w)
        updates, moments = optax.adamw(1e-3).update(
            like(grads, state.params), moments, w)
        return optax.apply_updates(w, updates), moments, loss
    args = (state.params, state.opt_state, ids())
    return plain.lower(name, step, *args,
                       out=(*(shardings(one) for one in args[:2]), None))


def state_in_dictionary(name):
    """`s['state']['params']`, as checkpoints have it."""
    net, state = states()

    def step(s, ids):
        s = s["state"]
        loss, grads = jax.value_and_grad(
            lambda params: loss_of(net, params, ids))(s["params"])
        updates, moments = optax.adamw(1e-3).update(
            like(grads, state.params), s["opt"], s["params"])
        return {"state": {"params": optax.apply_updates(s["params"], updates),
                          "opt": moments}}, loss
    s = {"state": {"params": state.params, "opt": state.opt_state}}
    return plain.lower(name, step, s, ids(), out=(shardings(s), None))


class Mlp(nnx.Module):
    def __init__(self, rngs):
        self.up = nnx.Linear(D, F, use_bias=False, rngs=rngs)
        self.gate = nnx.Linear(D, F, use_bias=False, rngs=rngs)
        self.down = nnx.Linear(F, D, use_bias=False, rngs=rngs)

    def __call__(self, x):
        g = keep(self.gate(x), BATCH, None, "tp")
        u = keep(self.up(x), BATCH, None, "tp")
        return keep(x + self.down(nnx.silu(g) * u), BATCH)


class Mlps(nnx.Module):
    def __init__(self, rngs):
        self.layers = nnx.List(Mlp(rngs) for _ in range(2))

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def nnx_adam(name):
    graph, params = nnx.split(nnx.eval_shape(lambda: Mlps(nnx.Rngs(0))))
    tx = optax.adamw(1e-3)
    moments = jax.eval_shape(tx.init, params)
    params, moments = place(SPECS)(params), place(SPECS)(moments)

    def step(params, moments, x):
        loss, grads = jax.value_and_grad(
            lambda params: jnp.mean(nnx.merge(graph, params)(x) ** 2))(params)
        updates, moments = tx.update(grads, moments, params)
        return optax.apply_updates(params, updates), moments, loss
    return plain.lower(name, step, params, moments,
                       shape((B, T, D), BATCH),
                       out=(shardings(params), shardings(moments), None))


def gradients_alone(name):
    """Without an optimizer: the gradients are outputs."""
    net, state = states()
    return plain.lower(
        name, lambda params, ids: jax.value_and_grad(
            lambda params: loss_of(net, params, ids))(params),
        state.params, ids(), out=(None, shardings(state.params)))


# Steps with one mistake.


def residual_gathered(name):
    """The constraint of the residual leaves out the axes of the batch."""
    return train(name, *states({"residual": (None, None, None)}))


def logits_gathered(name):
    return train(name, *states({"logits": (None, None, "tp")}))


def logits_of_every_device(name):
    """The constraint of the logits leaves out tp."""
    return train(name, *states({"logits": (BATCH, None, None)}))


def mixed_gathered(name):
    """The result of attention is gathered over tp before `wo`."""
    return train(name, *states({"mixed": (BATCH, None, None)}))


def table_of_every_device(name):
    return train(name, *states({"table": (None, None)}))


def key_transposed(name):
    """`wk` has the shape of `wq`, `wv` and `wo`."""
    return train(name, *states(specs={"wk/kernel": ("tp", "fsdp")}))


def down_transposed(name):
    return train(name, *states(specs={"down/kernel": ("fsdp", "tp")}))


def query_transposed(name):
    return train(name, *states(specs={"wq/kernel": ("tp", "fsdp")}))


def up_transposed(name):
    return train(name, *states(specs={"up/kernel": ("tp", "fsdp")}))


def gate_transposed(name):
    return train(name, *states(specs={"gate/kernel": ("tp", "fsdp")}))


def out_transposed(name):
    return train(name, *states(specs={"wo/kernel": ("fsdp", "tp")}))


def head_transposed(name):
    return train(name, *states(specs={"head/kernel": ("tp", "fsdp")}))


def table_transposed(name):
    return train(name, *states(specs={"embedding": ("fsdp", "tp")}))


def lookup_gathered(name):
    """The table is looked up as it is sharded, over an axis of the batch."""
    return train(name, *states({"table": ()}))


def lookup_of_rows_gathered(name):
    return train(name, *states({"table": ()},
                               specs={"embedding": (("fsdp", "tp"), None)}))


def cast_after_gather(name):
    return train(name, *states({"up": {"gathered": (None, "tp"),
                                       "after": True}}))


def gradient_replicated(name):
    """The gradient of `gate` in block_1 is constrained to be replicated."""
    def grads_as(grads):
        grads["block_1"]["gate"]["kernel"] = keep(
            grads["block_1"]["gate"]["kernel"], None, "tp")
        return grads
    return train(name, *states(), grads_as=grads_as)


def moments_replicated(name):
    return train(name, *states(moments={}))


def moment_of_head_replicated(name):
    specs = {end: axes for end, axes in SPECS.items() if "head" not in end}
    return train(name, *states(moments=specs))


def outputs_replicated(name):
    """`out_shardings` replicates what the step shards over two axes."""
    net, state = states()
    out = shardings(state)
    out.params["block_0"]["down"]["kernel"] = plain.over()
    out.params["head"]["kernel"] = plain.over(None, "tp")
    return train(name, net, state, out=(out, None))


RECORDED = [adam, momentum, weights_named, state_in_dictionary, nnx_adam,
            gradients_alone, residual_gathered, logits_of_every_device,
            mixed_gathered, table_of_every_device, key_transposed,
            up_transposed, out_transposed, down_transposed,
            query_transposed, lookup_gathered, lookup_of_rows_gathered,
            cast_after_gather, gradient_replicated, moment_of_head_replicated,
            outputs_replicated]
OTHERS = [clipped, logits_gathered, gate_transposed, head_transposed,
          table_transposed, moments_replicated]


def main():
    folder, names = sys.argv[1], sys.argv[2:]
    for program in RECORDED + OTHERS:
        name = program.__name__
        if name not in (names or [one.__name__ for one in RECORDED]):
            continue
        program(name).compile()
        (path,) = glob.glob(f"{plain.DUMP}/module_*.jit_{name}.*"
                            ".after_spmd-partitioning*.txt")
        with open(path, encoding="utf-8") as file:
            plain.put(folder, name, file.read())
        print(name, flush=True)


if __name__ == "__main__":
    main()
