"""What models of Tunix (flax.nnx), in their published sizes with fewer layers, and of
KerasHub in small sizes declare, and what Flax and Keras make of it on a mesh."""

import dataclasses
import functools
import importlib
import importlib.util
import inspect
import os
import sys
import types

os.environ.update(JAX_PLATFORMS="cpu", KERAS_BACKEND="jax",
                  TF_CPP_MIN_LOG_LEVEL="3")

import jax

jax.config.update("jax_num_cpu_devices", 8)

import keras
import keras_hub
import numpy as np
from flax import nnx

import declared_cases

AXES = {"fsdp": 2, "tp": 4}
# Of each model of Tunix, whose layers take seconds each; Gemma alternates two kinds.
LAYERS = 2


def bare(name):
    """A package without what its __init__ imports: Tunix's are trainers."""
    found = importlib.util.find_spec(name)
    module = types.ModuleType(name)
    module.__path__ = list(found.submodule_search_locations)
    sys.modules[name] = module


def mesh():
    return jax.sharding.Mesh(
        np.array(jax.devices()).reshape(tuple(AXES.values())), tuple(AXES))


def nnx_shards(factory):
    """By Flax: get_named_sharding of the abstract state."""
    with nnx.use_eager_sharding(False):
        state = nnx.state(nnx.eval_shape(factory), nnx.Param)
        shardings = nnx.get_named_sharding(state, mesh())
    out = {}
    for (path, value), (_, sharding) in zip(
            nnx.to_flat_state(state), nnx.to_flat_state(shardings)):
        try:
            shard = sharding.get_value().shard_shape(value.get_value().shape)
        except ValueError:
            continue  # a dimension that the axes do not divide
        out["/".join(map(str, path))] = shard
    return out


# The model's class, and whether it is a text model that takes (config, rngs).
TUNIX = {"gemma": "Gemma", "gemma3": "Gemma3", "gemma4": "Gemma4",
         "llama3": "Llama3", "qwen2": "Qwen2", "qwen3": "Qwen3"}


def tunix():
    bare("tunix")
    for family, name in TUNIX.items():
        module = importlib.import_module(f"tunix.models.{family}.model")
        seen = set()
        for size, method in inspect.getmembers(module.ModelConfig):
            if size.startswith("_") or not inspect.ismethod(method):
                continue
            try:
                config = method()
            except TypeError:
                continue  # no size, but a helper with arguments
            if repr(config) in seen:
                continue  # a tuned version of the same sizes
            seen.add(repr(config))
            config = dataclasses.replace(config, num_layers=LAYERS)
            if hasattr(config, "attention_types"):
                config = dataclasses.replace(
                    config, attention_types=config.attention_types[:LAYERS])

            def factory(made=getattr(module, name), config=config):
                return made(config, rngs=nnx.Rngs(0))
            yield ("tunix", size, factory,
                   functools.partial(nnx_shards, factory),
                   {"mesh": mesh()})


# KerasHub's backbones with a layout map; their sizes in small.
SMALL = {"vocabulary_size": 64, "num_layers": 3, "num_query_heads": 8,
         "hidden_dim": 32, "intermediate_dim": 64, "num_key_value_heads": 4,
         "head_dim": 8, "num_experts": 4, "top_k": 2, "moe_intermediate_dim": 16,
         "shared_expert_intermediate_dim": 16, "norm_top_k_prob": True,
         "decoder_sparse_step": 1, "layer_norm_epsilon": 1e-6,
         "attention_head_size": 8, "sliding_window_size": 4}
BACKBONES = ("Gemma", "Llama", "Qwen", "QwenMoe", "Qwen3Moe", "Mistral", "Llama3")


def keras_shards(factory, layout):
    """By Keras: the layout that its distribution gives each variable."""
    given = keras.distribution.ModelParallel(layout_map=layout)
    with keras.StatelessScope(initialize_variables=False):
        model = factory()
    out = {}
    for variable in model.weights:
        found = given.get_variable_layout(variable).backend_layout
        try:
            out[variable.path] = found.shard_shape(tuple(variable.shape))
        except ValueError:
            continue
    return out


def keras_models():
    on = keras.distribution.DeviceMesh(
        (2, 4), ("batch", "model"), keras.distribution.list_devices())
    for name in BACKBONES:
        made = getattr(keras_hub.models, name + "Backbone")
        if not hasattr(made, "get_layout_map"):
            continue
        known = inspect.signature(made.__init__).parameters

        def factory(made=made, known=known):
            return made(**{key: value for key, value in SMALL.items()
                           if key in known})
        layout = made.get_layout_map(on)
        yield ("keras_hub", made.__name__, factory,
               functools.partial(keras_shards, factory, layout),
               {"shardings": layout})


def models():
    yield from keras_models()
    yield from tunix()


def record():
    yield from declared_cases.record(
        "declared/jax", ("jax", "flax", "keras", "keras-hub", "google-tunix"),
        models())
