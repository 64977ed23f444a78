"""Records the bytes of the parameters of each rank that the own code of training
systems makes of configurations: testdata/system_bytes.json. The configurations
are those of public repositories, reduced to the keys that change what a rank
holds; `source` of each is where it is.

    python systems_answers.py SYSTEM BYTES.json

runs one rank after the other in a process of its own, on the meta device and a
fake process group. It needs torch and the system; Megatron-LM is its checkout in
PYTHONPATH.
"""

import json
import math
import os
import subprocess
import sys
import types


def start(rank, world):
    """Begins a fake process group."""
    import torch
    from torch.testing._internal.distributed.fake_pg import FakeStore
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world),
                      LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(world),
                      MASTER_ADDR="localhost", MASTER_PORT="1",
                      CUDA_DEVICE_MAX_CONNECTIONS="1")
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank,
                                         world_size=world)


def megatron(row, rank):
    import typing
    import typing_extensions
    typing.override = typing_extensions.override
    import torch
    # It requests devices, and uses none of them on the meta device.
    torch.cuda.current_device = lambda: "meta"
    torch.cuda.device_count = lambda: 8
    torch.cuda.get_device_capability = lambda *ignored: (9, 0)
    torch.cuda.get_device_properties = lambda *ignored: types.SimpleNamespace(
        major=9, minor=0, multi_processor_count=132)
    torch.Tensor.cuda = lambda self, *ignored, **more: self
    start(rank, row["devices"])
    torch.distributed.all_reduce = lambda *ignored, **more: None
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt import gpt_layer_specs as specs
    from megatron.core.tensor_parallel.random import (
        model_parallel_cuda_manual_seed)
    from megatron.core.transformer import torch_norm
    from megatron.training import arguments
    torch.cuda.Stream = torch.cuda.stream = lambda *ignored, **more: None
    # Torch's norms have the same parameters under sequence parallelism.
    init = torch_norm.WrappedTorchNorm.__new__

    def allowing(cls, config, *rest, **more):
        kept, config.sequence_parallel = config.sequence_parallel, False
        try:
            return init(cls, config, *rest, **more)
        finally:
            config.sequence_parallel = kept

    torch_norm.WrappedTorchNorm.__new__ = allowing
    sys.argv = ["pretrain_gpt.py", *row["flags"].split(), "--transformer-impl",
                "local", "--no-persist-layer-norm", "--micro-batch-size", "1",
                "--train-iters", "1", "--lr", "1e-4", "--tokenizer-type",
                "NullTokenizer", "--no-gradient-accumulation-fusion",
                "--no-masked-softmax-fusion", "--no-rope-fusion"]
    args = arguments.parse_args()
    arguments.validate_args(args, {})
    parallel_state.initialize_model_parallel(
        args.tensor_model_parallel_size, args.pipeline_model_parallel_size,
        args.virtual_pipeline_model_parallel_size,
        context_parallel_size=args.context_parallel_size,
        expert_model_parallel_size=args.expert_model_parallel_size,
        expert_tensor_parallel_size=args.expert_tensor_parallel_size,
        create_gloo_process_groups=False)
    config = arguments.core_transformer_config_from_args(args)
    config.perform_initialization = False
    # Attention without Transformer Engine has no context parallelism, which
    # changes no parameter.
    config.context_parallel_size = 1
    multiple = (args.make_vocab_size_divisible_by *
                args.tensor_model_parallel_size)
    padded = -(-args.vocab_size // multiple) * multiple
    total = 0
    chunks = args.virtual_pipeline_model_parallel_size or 1
    for chunk in range(chunks):
        first = parallel_state.is_pipeline_first_stage(
            ignore_virtual=False, vp_stage=chunk)
        last = parallel_state.is_pipeline_last_stage(
            ignore_virtual=False, vp_stage=chunk)
        if args.num_experts:
            spec = specs.get_gpt_decoder_block_spec(
                config, use_transformer_engine=False,
                normalization=args.normalization, vp_stage=chunk)
        else:
            spec = specs.get_gpt_layer_local_spec(
                normalization=args.normalization,
                qk_layernorm=args.qk_layernorm)
        with torch.device("meta"):
            model = GPTModel(
                config, spec, padded, args.max_position_embeddings,
                pre_process=first, post_process=last,
                share_embeddings_and_output_weights=not
                args.untie_embeddings_and_output_weights,
                position_embedding_type=args.position_embedding_type,
                vp_stage=chunk)
        size = 2 if args.bf16 or args.fp16 else 4
        total += sum(one.numel() * size for one in model.parameters())
    return total


def model_of(row):
    """Returns the model of the row's config.json of testdata/configs."""
    import torch
    import transformers
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                        "testdata", "configs", row["model"] + ".config.json")
    config = transformers.AutoConfig.from_pretrained(path)
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16)


def accelerate(row, rank):
    import torch
    start(rank, row["devices"])
    from accelerate import Accelerator, FullyShardedDataParallelPlugin
    from accelerate.state import PartialState
    from accelerate.utils import DistributedType, ParallelismConfig
    os.environ["ACCELERATE_USE_FSDP"] = "true"
    PartialState(cpu=True)
    # Its code for devices runs, with the tensors of the processor.
    PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    sizes = row["config"].get("parallelism_config", {})
    sizes = {key.removeprefix("parallelism_config_"): value
             for key, value in sizes.items()}
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap",
        cpu_ram_efficient_loading=False, state_dict_type="SHARDED_STATE_DICT")
    accelerator = Accelerator(
        mixed_precision=row["config"]["mixed_precision"],
        fsdp_plugin=plugin,
        parallelism_config=ParallelismConfig(**sizes) if sizes else None)
    # The weights are zeros, which take no memory until they are written.
    model = model_of(row).to_empty(device="cpu")
    model.tie_weights()
    optimizer = torch.optim.SGD(model.parameters())
    model, _ = accelerator.prepare(model, optimizer)
    return sum(one.to_local().numel() * one.to_local().element_size()
               for one in model.parameters())


def deepspeed(row, rank):
    import torch
    start(rank, row["devices"])
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed as package
    package.comm.comm.cdb = None
    package.init_distributed("fake", dist_init_required=False)
    model = model_of(row).to_empty(device="cpu")
    model.tie_weights()
    zero = dict(row["config"]["zero_optimization"])
    # `auto` is this value of transformers.
    key = "stage3_param_persistence_threshold"
    if zero.get(key) == "auto":
        zero[key] = 10 * model.config.hidden_size
    kept = zero.setdefault(key, 100000)
    settings = {"zero_optimization": zero,
                "train_micro_batch_size_per_gpu": 1,
                "bf16": {"enabled": True}}
    package.zero.Init(module=model, config_dict_or_path=settings,
                      dtype=torch.bfloat16)
    return sum(
        (one.ds_numel if one.ds_numel <= kept else one.ds_tensor.numel()) *
        one.ds_tensor.element_size()
        for one in model.parameters())


def torchtitan(row, rank):
    import dataclasses
    import importlib
    import torch
    start(rank, row["devices"])
    from torchtitan.tools import utils
    utils.device_type = "cpu"
    from torchtitan.config import TORCH_DTYPE_MAP
    from torchtitan.distributed import ParallelDims
    module, function = row["function"].split(":")
    registry = importlib.import_module(
        f"torchtitan.models.{module}.config_registry")
    config = getattr(registry, function)()
    config.parallelism = dataclasses.replace(config.parallelism,
                                             **row["parallelism"])
    dims = ParallelDims.from_config(config.parallelism, row["devices"])
    dims.build_mesh()
    spec = config.model_spec
    spec.model.update_from_config(config=config)
    with torch.device("meta"):
        before = torch.get_default_dtype()
        torch.set_default_dtype(TORCH_DTYPE_MAP[config.training.dtype])
        model = spec.model.build()
        torch.set_default_dtype(before)
    model = spec.parallelize_fn(
        model, parallel_dims=dims, training=config.training,
        parallelism=config.parallelism, compile_config=config.compile,
        ac_config=None, dump_folder="")
    return sum(one.to_local().numel() * one.element_size()
               if hasattr(one, "to_local") else
               one.numel() * one.element_size()
               for one in model.parameters())


SYSTEMS = {"megatron": megatron, "accelerate": accelerate,
           "deepspeed": deepspeed, "torchtitan": torchtitan}


def main():
    system, path = sys.argv[1:3]
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)
    if len(sys.argv) == 5:
        row = rows[int(sys.argv[3])]
        total = SYSTEMS[system](row, int(sys.argv[4]))
        print("BYTES", total)
        return
    for index, row in enumerate(rows):
        if row["system"] != system:
            continue
        for rank in row["bytes"]:
            done = subprocess.run(
                [sys.executable, __file__, system, path, str(index), rank],
                capture_output=True, text=True, check=False)
            found = [line for line in done.stdout.splitlines()
                     if line.startswith("BYTES ")]
            if not found:
                print(row["source"], rank, done.returncode,
                      done.stderr[-2000:])
                continue
            row["bytes"][rank] = int(found[0].split()[1])
            print(row["source"], rank, row["bytes"][rank], flush=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
