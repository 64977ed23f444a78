"""What transformers' tensor parallel plans and torchtitan's parallelisms make of
their models: DTensor, on the meta device and a simulated process group."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import torch.distributed as dist
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers.distributed import DistributedConfig
from transformers.distributed.tensor_parallel import apply_tensor_parallelism
from transformers.initialization import no_tie_weights

import declared_cases
import tp_logits_answers

TP = 2


def transformers_model(model_type):
    """The model with its own plan applied, as `from_pretrained` does."""
    config_class = transformers.CONFIG_MAPPING[model_type]
    config = tp_logits_answers.config_of(model_type, config_class)
    made = tp_logits_answers.class_of(model_type, config_class)
    if made is None:
        raise LookupError("no model class")
    config._attn_implementation = config._experts_implementation = "eager"
    mesh = init_device_mesh("cpu", (TP,), mesh_dim_names=("tp",))
    # Tied weights are two parameters while the plan is applied.
    with no_tie_weights():
        model = made._from_config(config)
    given = DistributedConfig(tp_size=TP, tp_plan=model.tp_plan)
    apply_tensor_parallelism(
        model, mesh, model._resolve_parallel_plans(given)[0])
    return model


def shards_of(factory):
    """The shapes of the local tensors of the first rank."""
    with torch.device("meta"):
        model = factory()
    return {name: list((values.to_local() if isinstance(values, DTensor)
                        else values).shape)
            for name, values in model.named_parameters()}


def models():
    for name in tp_logits_answers.architectures():
        def factory(name=name):
            return transformers_model(name)
        yield ("transformers", name, factory,
               lambda factory=factory: shards_of(factory), {})


def record():
    transformers.logging.set_verbosity_error()
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=64)
    yield from declared_cases.record(
        "declared/torch", ("transformers", "torch"), models())
