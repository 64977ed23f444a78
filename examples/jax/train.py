"""What train_linen.py and train_nnx.py share: attention with a cache, the loss,
the inputs, and the checks of the result."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import shardc

BATCH, LENGTH, LAYERS, WIDTH, HEADS, VOCAB = 8, 16, 2, 64, 8, 128


def heads(x):
    return x.reshape(*x.shape[:2], HEADS, WIDTH // HEADS)


def attend(query, key, value, cache, at):
    """[B, T, H, D]; with a cache of keys and values, the rows are those at `at`,
    and are written into it."""
    if cache is not None:
        key, value = (
            jax.lax.dynamic_update_slice(old, new, (0, at, 0, 0))
            for old, new in zip(cache, (key, value))
        )
    rows = at + jnp.arange(query.shape[1])
    visible = jnp.arange(key.shape[1])[None, :] <= rows[:, None]
    logits = jnp.einsum("bthd,bshd->bhts", query, key) / np.sqrt(query.shape[-1])
    weights = jax.nn.softmax(jnp.where(visible, logits, -jnp.inf))
    return jnp.einsum("bhts,bshd->bthd", weights, value), (key, value)


def loss_of(logits, batch):
    """Sums the vocabulary by a product: picking one logit by its index would
    gather them over tp."""
    picked = jnp.sum(logits * jax.nn.one_hot(batch["targets"], VOCAB), -1)
    return jnp.mean(jax.nn.logsumexp(logits, -1) - picked)


def tokens():
    shape = (BATCH, LENGTH + 1)
    return np.asarray(jax.random.randint(jax.random.key(1), shape, 0, VOCAB))


def place(plan, mesh, mode, tensor, dims):
    """The sharding of the first dimensions of an activation."""
    spec = plan.activation(tensor, mode)
    return NamedSharding(mesh, PartitionSpec(*spec[:dims]))


def sharded_inputs(plan, mesh):
    rows = place(plan, mesh, "train", "hidden", 1)
    batch = {"inputs": tokens()[:, :-1], "targets": tokens()[:, 1:]}
    return jax.tree.map(lambda x: jax.device_put(x, rows), batch)


class Decoding:
    """One step with a cache: the prompt is decoded token by token."""

    def __init__(self, plan, mesh):
        self.prompt = tokens()[:, :-1]
        self.rows = place(plan, mesh, "decode", "hidden", 1)
        self.cache = [place(plan, mesh, "decode", name, 4) for name in ("key", "value")]

    def empty_cache(self):
        """Every device makes its own shard."""
        shape = (BATCH, LENGTH, HEADS, WIDTH // HEADS)
        return [
            tuple(jnp.zeros(shape, device=where) for where in self.cache)
            for _ in range(LAYERS)
        ]

    def run(self, serve):
        """Returns the logits of every position, from one step each."""
        cache, out = self.empty_cache(), []
        for at in range(LENGTH):
            token = jax.device_put(self.prompt[:, at : at + 1], self.rows)
            logits, cache = serve(token, cache, at)
            out.append(logits[:, 0])
        return jnp.stack(out, 1)


def differ(got, want):
    return float(jnp.max(jnp.abs(np.asarray(got) - np.asarray(want))))


def report(plan, lowered, restored, where, losses, wanted, logits, prompt):
    """Prints and checks: the shardings of the restored state, the losses, the
    logits of decoding, and the findings about the compiled step."""
    kept = jax.tree.all(
        jax.tree.map(
            lambda x, want: x.sharding.is_equivalent_to(want, x.ndim), restored, where
        )
    )
    audited = shardc.audit(lowered, plan=plan)
    print(plan)
    print("losses", losses, "on one device", wanted)
    print("restored as planned:", kept)
    print("decoding differs by", differ(logits, prompt))
    print(len(audited.findings), "findings,", len(audited.drift), "arguments differ")
    assert kept and np.allclose(losses, wanted, rtol=1e-5), (losses, wanted)
    assert np.allclose(logits, prompt, atol=1e-5)
    assert not audited.findings and not audited.drift, audited
