"""Train states by JAX's libraries: the paths and shapes of their arrays, and for
each the parameter that optax or the library itself assigns to it.

optax.tree_utils.tree_map_params is the judge of optimizer states: it replaces the
leaves of a state that belong to a parameter by that parameter's name.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import optax
from flax import nnx
from flax.training.train_state import TrainState

import records

jax.config.update("jax_num_cpu_devices", 8)

PACKAGES = ("jax", "flax", "optax", "equinox", "dm-haiku")
SIZE = (8, 16)


class Net(nn.Module):
    """With statistics and dropout, which are no parameters."""

    @nn.compact
    def __call__(self, x, train=True):
        x = nn.Dense(16, name="up")(x)
        x = nn.BatchNorm(name="norm", use_running_average=not train)(x)
        x = nn.Dropout(0.5, deterministic=not train)(x)
        return nn.Dense(8, name="down")(x)


class NnxNet(nnx.Module):
    def __init__(self, rngs):
        self.up = nnx.Linear(8, 16, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.down = nnx.Linear(16, 8, rngs=rngs)

    def __call__(self, x):
        return self.down(self.drop(self.norm(self.up(x))))


class Training(TrainState):
    batch_stats: object = None
    key: object = None


def linen_variables():
    return Net().init(jax.random.key(0), jnp.ones((1, 8)))


def linen_state(tx, params):
    return Training.create(
        apply_fn=Net().apply, params=params, tx=tx,
        batch_stats=linen_variables()["batch_stats"],
        key=jax.random.PRNGKey(0))


def equinox_net():
    return eqx.nn.MLP(8, 8, 16, 1, key=jax.random.key(0))


def haiku_net():
    return hk.transform(lambda x: hk.nets.MLP([16, 8])(x))


def is_kernel(params):
    return jax.tree.map(lambda x: x.ndim > 1, params)


def optimizers():
    # As a function, because the trees of equinox are callable themselves.
    def labels(tree):
        return jax.tree.map(lambda x: "a" if x.ndim > 1 else "b", tree)

    return {
        "adam": optax.adam(1e-3),
        "chained": optax.chain(optax.clip_by_global_norm(1.0),
                               optax.adamw(optax.cosine_decay_schedule(
                                   1e-3, 10))),
        "adafactor": optax.adafactor(1e-3, min_dim_size_to_factor=4,
                                     momentum=0.9),
        "momentum": optax.sgd(1e-3, momentum=0.9),
        "sgd": optax.sgd(1e-3),
        "lion": optax.lion(1e-3),
        "multi_transform": optax.multi_transform(
            {"a": optax.adam(1e-3), "b": optax.sgd(1e-3, 0.9)}, labels),
        "masked": optax.masked(optax.adam(1e-3), is_kernel),
        "multi_steps": optax.MultiSteps(
            optax.adam(1e-3), 4).gradient_transformation(),
        "ema": optax.chain(optax.adam(1e-3), optax.ema(0.99)),
        "injected": optax.inject_hyperparams(optax.adam)(
            learning_rate=1e-3),
        "amsgrad": optax.amsgrad(1e-3),
    }


def key_text(key):
    for member in ("key", "idx", "name"):
        if hasattr(key, member):
            return str(getattr(key, member))
    raise ValueError(key)


def flat(tree):
    return [([key_text(key) for key in path], leaf) for path, leaf
            in jax.tree_util.tree_flatten_with_path(tree)[0]
            if hasattr(leaf, "shape")]


def names_of(params):
    """A tree of the parameters' own names."""
    return jax.tree_util.tree_map_with_path(
        lambda path, _: "/".join(map(key_text, path)), params)


def case(system, params, tree, owners):
    """`owners` has a name or None for each array of the tree."""
    arrays = flat(tree)
    assert len(arrays) == len(owners), (system, len(arrays), len(owners))
    return {
        "system": system,
        "params": {"/".join(path): list(x.shape) for path, x in flat(params)},
        "arrays": [{"path": path, "shape": list(x.shape),
                    "dtype": str(x.dtype), "owner": owner}
                   for (path, x), owner in zip(arrays, owners)]}


def is_masked(leaf):
    return isinstance(leaf, optax.MaskedNode)


def of_optimizer(tx, params):
    """The state, and who owns its leaves."""
    state = tx.init(params)
    owners = optax.tree_utils.tree_map_params(
        tx, lambda leaf, name: leaf if is_masked(leaf) else name, state,
        names_of(params), transform_non_params=lambda _: "",
        is_leaf=is_masked)
    owners = [owner or None for owner in jax.tree_util.tree_leaves(owners)]
    assert len(owners) == len(jax.tree_util.tree_leaves(state))
    return state, owners


def models():
    """The parameters of one model in the libraries that are trees."""
    return {"linen": linen_variables()["params"],
            "haiku": haiku_net().init(jax.random.key(0), jnp.ones((1, 8))),
            "equinox": eqx.filter(equinox_net(), eqx.is_array)}


def states():
    """(system, parameters, state, owners of its leaves)."""
    for library, params in models().items():
        own = jax.tree_util.tree_leaves(names_of(params))
        for name, tx in optimizers().items():
            state, owners = of_optimizer(tx, params)
            yield (f"{library}/{name}", params, (params, state),
                   own + owners)
            if library == "linen":
                full = linen_state(tx, params)
                # A step that is no array, the statistics and the key follow.
                yield (f"TrainState/{name}", params, full,
                       own + owners + [None] * 3)


def record():
    cases = [case(*one) for one in states()]
    yield "states/optax", {"format": 1, "versions": records.versions(*PACKAGES),
                           "cases": cases}
