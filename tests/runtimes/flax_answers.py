"""Parameter trees of transformers' Flax models, by shape inference, and the
tensor-parallel plans of the transformers that still had them."""

import json
import os
import re

os.environ.update(JAX_PLATFORMS="cpu", HF_HUB_OFFLINE="1")

import flax
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import known_models
import records

DTYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16",
          "int32": "I32"}


def flax_class(config):
    return getattr(transformers, "Flax" + config["architectures"][0], None)


def asked(config):
    """The config with short contexts where no parameter has their length:
    the Flax classes compute a mask of that size squared."""
    config = json.loads(json.dumps(config))
    if config["model_type"] in ("gemma", "llama", "mistral"):
        config["max_position_embeddings"] = 2048
        config.pop("rope_scaling", None)
    return config


def tree(config):
    """Names as flax joins them, with `/`, in its own order."""
    config = asked(config)
    kind = CONFIG_MAPPING[config["model_type"]]
    model = flax_class(config)(kind.from_dict(config), _do_init=False)
    flat = flax.traverse_util.flatten_dict(
        flax.core.unfreeze(model.params_shape_tree), sep="/")
    return {"params": [{"name": name, "shape": list(leaf.shape),
                        "dtype": DTYPES[str(leaf.dtype)]}
                       for name, leaf in flat.items()]}


def answered(model, config):
    """A case of the record; an error where the class refuses the config."""
    try:
        answer = tree(config)
    except Exception as error:  # newer than this transformers, mostly
        first = re.split(r"\n| \(http", str(error))[0]
        answer = {"error": f"{type(error).__name__}: {first}"}
    return {"model": model, "model_type": config["model_type"],
            "class": flax_class(config).__name__, "config": config, **answer}


def has_class(config):
    return (config["model_type"] in CONFIG_MAPPING
            and flax_class(config) is not None)


def small_cases():
    """The small configs of the torch trees that a Flax class takes."""
    for model_type in records.load("transformers/index")["families"]:
        small = records.load("transformers/small/" + model_type)
        for case in small["cases"]:
            config = case.get("given", case["config"])
            if has_class(config):
                yield answered(f"{model_type}: {case['name']}", config)


def known_cases():
    for name in known_models.names():
        config = records.load("transformers/known/" + name)["given"]
        if has_class(config):
            yield answered(name, config)


def plans():
    """By model type, the values of the configuration class."""
    for model_type in sorted(CONFIG_MAPPING.keys()):
        try:
            text = CONFIG_MAPPING[model_type]().get_text_config()
        except Exception:  # needs arguments, or packages that are not here
            continue
        plan = getattr(text, "base_model_tp_plan", None)
        if plan:
            yield {"model_type": model_type, "base_model_tp_plan": plan,
                   "base_model_ep_plan":
                   getattr(text, "base_model_ep_plan", None)}


def record():
    """The records by name."""
    transformers.logging.set_verbosity_error()
    used = records.versions("transformers", "flax", "jax")
    for name, cases in (("small", small_cases), ("known", known_cases)):
        yield "flax/" + name, {"format": "shardc.runtimes.flax_trees/v1",
                               "versions": used, "cases": list(cases())}
    yield "transformers/plans-4.57", {
        "format": "shardc.runtimes.plans/v1", "versions": used,
        "cases": list(plans())}
