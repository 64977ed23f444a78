"""What each tensor parallel rank holds of a weight by the attributes that shardc
exports: Megatron-Core splits a master weight and places shards of a checkpoint,
vLLM loads the weights of a checkpoint. Both packages' own functions run, rank by
rank in one process and without a GPU."""

import json
import math
import random
import tempfile

import torch
from megatron.core.dist_checkpointing.mapping import ShardedTensor
from megatron.core.dist_checkpointing.validation import \
    _validate_sharding_for_key
from megatron.core.tensor_parallel import layers as megatron
from vllm.model_executor import parameter as vllm

import random_shardings
import records
import shardc_answers

CASES = 300
SEED = 71


def random_cases():
    """(mesh, cases) whose mesh has an axis `tp` of two or more devices."""
    rng = random.Random(SEED)
    count = 0
    while count < CASES:
        mesh = random_shardings.random_mesh(rng)
        large = [axis for axis, size in mesh.items() if size > 1]
        if not large:
            continue
        chosen = rng.choice(large)
        mesh = {"tp" if axis == chosen else axis.replace("tp", "t"): size
                for axis, size in mesh.items()}
        cases = [random_shardings.random_case(rng, mesh) for _ in range(6)]
        cases = [case for case in cases if case["shape"]]
        count += len(cases)
        yield mesh, cases


def exported(mesh, cases):
    """By system, the parameters of the plan that are exported for it. vLLM has
    no interleaved pieces: those are left out."""
    with tempfile.TemporaryDirectory() as folder:
        plan = shardc_answers.plan(folder, mesh, cases)
        of_megatron = json.loads(shardc_answers.run(
            "export", "megatron", "--plan", plan, "--format", "json").stdout)
        plain = [i for i, one in enumerate(of_megatron["params"].values())
                 if one["partition_stride"] == 1]
        of_vllm = {"params": {}}
        if plain:
            plan = shardc_answers.plan(folder, mesh,
                                       [cases[i] for i in plain])
            of_vllm = json.loads(shardc_answers.run(
                "export", "vllm", "--plan", plan, "--format", "json").stdout)
    entries = iter(of_vllm["params"].values())
    return (list(of_megatron["params"].values()),
            [next(entries) if i in plain else None
             for i in range(len(cases))])


def whole(shape):
    return torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape)


def digest(held, shape):
    """By dimension, the runs of indices that a rank holds."""
    at = [held.flatten().long()]
    runs = []
    for size in reversed(shape):
        runs.insert(0, sorted(set((at[0] % size).tolist())))
        at[0] = at[0] // size
    assert math.prod(map(len, runs)) == held.numel(), "no box"
    out = []
    for indices in runs:
        begins = [i for n, i in enumerate(indices)
                  if n == 0 or indices[n - 1] != i - 1]
        ends = [i + 1 for n, i in enumerate(indices)
                if n + 1 == len(indices) or indices[n + 1] != i + 1]
        out.append([list(pair) for pair in zip(begins, ends)])
    return out


def by_megatron(entry, size, shape):
    """Of each rank; its master weights have two dimensions."""
    dim, stride = entry["partition_dim"], entry["partition_stride"]
    held = []
    shards = []
    for rank in range(size):
        local = list(shape)
        if entry["tensor_model_parallel"]:
            local[dim] //= size
        weight = torch.nn.Parameter(torch.empty(local))
        if len(shape) == 2 and entry["tensor_model_parallel"]:
            megatron._initialize_affine_weight_cpu(
                weight, shape[0], shape[1], local[dim], dim,
                lambda master: master.copy_(whole(shape)), stride=stride,
                rank=rank, world_size=size)
            assert (weight.tensor_model_parallel, weight.partition_dim,
                    weight.partition_stride) == (True, dim, stride)
            held.append(digest(weight.data, shape))
            continue
        megatron.set_tensor_model_parallel_attributes(
            weight, entry["tensor_model_parallel"], dim, stride)
        if stride != 1:
            return None  # Megatron-Core interleaves matrices only
        offsets = [(dim, rank, size)] if weight.tensor_model_parallel else []
        shard = ShardedTensor.from_rank_offsets(
            "w", weight, *offsets, replica_id=0 if offsets else rank)
        assert list(shard.global_shape) == list(shape)
        shards.append((rank, shard))
        cut = tuple(slice(begin, begin + n) for begin, n in
                    zip(shard.global_offset, shard.local_shape))
        held.append(digest(whole(shape)[cut], shape))
    if shards:
        _validate_sharding_for_key(shards)
    return held


def by_vllm(entry, size, shape):
    held = []
    for rank in range(size):
        # Otherwise it takes these of the processes that were started.
        vllm.get_tensor_model_parallel_rank = lambda rank=rank: rank
        vllm.get_tensor_model_parallel_world_size = lambda: size
        data = torch.empty(entry["shard_shape"])
        parallel, dim = entry["parallel"], entry["shard_dim"]
        if parallel == "replicated":
            weight = vllm.BasevLLMParameter(data=data, weight_loader=None)
        else:
            weight = vllm.ModelWeightParameter(
                data=data, weight_loader=None,
                output_dim=dim if parallel == "column" else None,
                input_dim=dim if parallel == "row" else None)
        load = weight.load_row_parallel_weight if parallel == "row" else \
            weight.load_column_parallel_weight
        load(whole(shape))
        held.append(digest(weight.data, shape))
    return held


def answers():
    for mesh, cases in random_cases():
        of_megatron, of_vllm = exported(mesh, cases)
        for case, entry, other in zip(cases, of_megatron, of_vllm,
                                      strict=True):
            yield {"mesh": mesh, "shape": case["shape"],
                   "spec": case["spec"],
                   "megatron": {"given": entry, "held": by_megatron(
                       entry, mesh["tp"], case["shape"])},
                   "vllm": other and {"given": other, "held": by_vllm(
                       other, mesh["tp"], case["shape"])}}


def record():
    yield "tensor_parallel/megatron_vllm", {
        "format": "shardc.runtimes.megatron_vllm/v1",
        "versions": records.versions("megatron-core", "vllm", "torch"),
        "cases": list(answers())}
