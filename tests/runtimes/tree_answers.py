"""Parameter trees of transformers' models, built on the meta device, and how
transformers itself would split them."""

import json
import os

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import torch.distributed as dist
import transformers
import transformers.distributed.expert_parallel  # registers its styles
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from transformers.core_model_loading import revert_weight_conversion
from transformers.distributed import DistributedConfig
from transformers.distributed.tensor_parallel import (
    ALL_PARALLEL_STYLES, apply_tensor_parallelism)
from transformers.initialization import no_tie_weights


import families
import folding
import known_models
import records
import variants

DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
          torch.int64: "I64", torch.int32: "I32", torch.uint8: "U8",
          torch.bool: "BOOL", torch.complex64: "C64"}
TENSOR_PARALLEL = 2


def model_of(config):
    """The model that a config.json makes, without memory for its data."""
    config = records.infinite(config)
    kind = transformers.CONFIG_MAPPING[config["model_type"]]
    model_class = getattr(transformers, config["architectures"][0])
    with torch.device("meta"):
        return model_class._from_config(kind.from_dict(config))


def untied_model_of(config):
    """As `from_pretrained` has it when it splits a model: tied later."""
    with no_tie_weights():
        return model_of(config)


def entry(name, tensor):
    return {"name": name, "shape": list(tensor.shape),
            "dtype": DTYPES[tensor.dtype]}


def buffers_of(model):
    """Tensors that are no parameters; those that are not saved are listed."""
    saved = model.state_dict().keys()
    return [{**entry(name, tensor), "saved": name in saved}
            for name, tensor in model.named_buffers()]


def tied_of(model):
    """{name: the name of the parameter that it is}."""
    first, tied = {}, {}
    for name, tensor in model.named_parameters(remove_duplicate=False):
        if tensor in first:
            tied[name] = first[tensor]
        first.setdefault(tensor, name)
    return tied


def saved_of(model, tied):
    """The names and shapes in the files of this model, folded; nothing where
    they are those of the model. Tied ones are saved once."""
    state = {name: tensor for name, tensor in model.state_dict().items()
             if name not in tied}
    saved = revert_weight_conversion(model, state)
    if saved.keys() == state.keys() and all(
            saved[name].shape == x.shape for name, x in state.items()):
        return None
    return folding.fold([entry(*item) for item in saved.items()])


def tree(config):
    """What is recorded of every model."""
    model = model_of(config)
    tied = tied_of(model)
    parameters = [entry(*item) for item in model.named_parameters()]
    answer = {"params": parameters, "buffers": buffers_of(model),
              "tied": tied,
              "parameters": sum(p.numel() for p in model.parameters())}
    saved = saved_of(model, tied)
    if saved is not None:
        answer["saved"] = saved
    return answer


def plans(config):
    """The plans that transformers has for the model, patterns to styles."""
    model = model_of(config)
    text = model.config.get_text_config()
    return {"base_model_tp_plan": text.base_model_tp_plan,
            "base_model_ep_plan": text.base_model_ep_plan,
            "tp_plan": model.tp_plan, "ep_plan": model.ep_plan,
            "fsdp_plan": model.fsdp_plan}


def tensor_parallel(config):
    """How transformers' tensor parallelism over two devices places each
    parameter that it touches, on the first of them; nothing where it has no
    plan for the model."""
    if not model_of(config).tp_plan:
        return None
    if not dist.is_initialized():
        dist.init_process_group("fake", rank=0, world_size=TENSOR_PARALLEL)
    mesh = init_device_mesh("cpu", (TENSOR_PARALLEL,), mesh_dim_names=("tp",))
    model = untied_model_of(config)
    try:
        wanted = DistributedConfig(tp_size=TENSOR_PARALLEL)
        apply_tensor_parallelism(
            model, mesh, model._resolve_parallel_plans(wanted)[0])
    except Exception as error:  # the plan does not fit the model
        return {"error": f"{type(error).__name__}: {error}"}
    return {"placements": {
        name: [str(tensor.placements[0]), list(tensor.to_local().shape)]
        for name, tensor in model.named_parameters()
        if isinstance(tensor, DTensor)}}


def styles():
    """What a plan's pattern may be given."""
    return sorted(ALL_PARALLEL_STYLES.keys())


def full(config):
    """A config as `save_pretrained` writes it."""
    kind = transformers.CONFIG_MAPPING[config["model_type"]]
    kept = kind.from_dict(json.loads(json.dumps(config))).to_diff_dict()
    kept = json.loads(json.dumps(kept))
    kept.update(architectures=config["architectures"],
                model_type=config["model_type"])
    for derived in ("transformers_version", "is_gated_act", "dense_act_fn"):
        kept.pop(derived, None)
    return kept


def sized(defaults, more):
    """The sizes that a configuration has, and those of its parts."""
    given = {}
    for key, value in defaults.items():
        if isinstance(value, dict) and key.endswith("_config"):
            given[key] = sized(value, more.get(key, {}))
            if "model_type" in value:
                given[key]["model_type"] = value["model_type"]
        elif key in families.SIZES and value is not None:
            size = families.SIZES[key]
            if isinstance(size, list) == isinstance(value, (list, tuple)):
                given[key] = size
    return {**given, **{key: value for key, value in more.items()
                        if not isinstance(given.get(key), dict)}}


def small(model_type):
    """The small config of a family: only what differs from its defaults."""
    class_name, more = families.FAMILIES[model_type]
    defaults = transformers.CONFIG_MAPPING[model_type]().to_dict()
    return {"architectures": [class_name], "model_type": model_type,
            **sized(defaults, more)}


def built(config):
    """The parameters of a config, or nothing where it makes no model."""
    try:
        model = model_of(config)
        return [entry(*item) for item in model.named_parameters()]
    except Exception:
        return None


def small_record(model_type):
    """A family in small: as given, and what changes it."""
    given = small(model_type)
    base = full(given)
    assert tree(base) == tree(given), model_type
    cases = [{"name": "base", "config": base, "given": given, **tree(base),
              "plans": plans(base), "tensor_parallel": tensor_parallel(base)}]
    for name, config in variants.chosen(base, built):
        cases.append({"name": name, "config": config, **tree(config)})
    return {"format": "shardc.runtimes.small_trees/v1",
            "versions": records.versions("transformers", "torch"),
            "model_type": model_type, "cases": cases}


def default_cases():
    """The trees of the classes' own default configs, and of published configs
    in the form of their files, whose keys the class rewrites. Folded, as most
    of these models are large."""
    types = {name: kind for name, (kind, _) in families.FAMILIES.items()}
    for name, kind in {**types, **families.LARGE}.items():
        try:
            config = full({"architectures": [kind], "model_type": name})
            yield name, config, tree(config)
        except Exception as error:
            yield name, {"model_type": name}, {
                "error": f"{type(error).__name__}: {error}".splitlines()[0]}
    for name, config in families.PUBLISHED.items():
        yield name, config, tree(config)


def defaults_record():
    cases = []
    for name, config, answer in default_cases():
        if "params" in answer:
            answer["params"] = folding.fold(answer["params"])
            answer["buffers"] = folding.fold(
                [{**entry, "saved": True} for entry in saved_buffers(answer)])
        cases.append({"name": name, "config": config, **answer})
    return {"format": "shardc.runtimes.default_trees/v1",
            "versions": records.versions("transformers", "torch"),
            "cases": cases}


def saved_buffers(answer):
    return [buffer for buffer in answer["buffers"] if buffer["saved"]]


def known_record(name):
    """A published model: from its own config.json, or from its sizes and
    the class's defaults, then written out in full."""
    given, source = known_models.given(name)
    config = given if source else full(given)
    answer = tree(config)
    record = {"schema": "shardc.manifest/v1",
              "format": "shardc.runtimes.tree/v1",
              "versions": records.versions("transformers", "torch"),
              "model": name, "separator": ".", "source": source,
              "given": given, "config": config}
    if name in known_models.PUBLISHED:
        number, where = known_models.PUBLISHED[name]
        record["published"] = {"parameters": number, "where": where}
        if name in known_models.DIFFERENCES:
            record["published"]["differs"] = known_models.DIFFERENCES[name]
    return {**record, **answer, "plans": plans(config),
            "tensor_parallel": tensor_parallel(config)}


def index_entry(record):
    return {"model": record["model"],
            "model_type": record["config"]["model_type"],
            "class": record["config"]["architectures"][0],
            "tensors": len(record["params"]),
            "parameters": record["parameters"],
            "published": record.get("published")}


def record():
    """The records of transformers by name."""
    transformers.logging.set_verbosity_error()
    used = records.versions("transformers", "torch")
    yield "transformers/styles", {
        "format": "shardc.runtimes.styles/v1", "versions": used,
        "styles": styles()}
    for model_type in families.FAMILIES:
        yield f"transformers/small/{model_type}", small_record(model_type)
    yield "transformers/defaults", defaults_record()
    index = []
    for name in known_models.names():
        answer = known_record(name)
        index.append(index_entry(answer))
        yield f"transformers/known/{name}", answer
    yield "transformers/index", {
        "format": "shardc.runtimes.index/v1", "versions": used,
        "families": list(families.FAMILIES), "models": index}
