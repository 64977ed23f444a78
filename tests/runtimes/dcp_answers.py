"""Checkpoints that torch.distributed.checkpoint writes, with what they hold.

Usage: dcp_answers.py FOLDER, which writes FOLDER/NAME for each case and
FOLDER/NAME.want.json: for every tensor its type, shape and the SHA-256 of its
bytes in row-major order, and the names of all other values. The digests come
from tensors in memory, which no checkpoint was read for.

Cases are saved by one process, and by four that gloo connects.
"""

import hashlib
import inspect
import json
import os
import random
import socket
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint._nested_dict import flatten_state_dict
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor._utils import (
    compute_local_shape_and_global_offset)

RANKS = 4
TREES = 8  # random trees of each number of processes
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16,
          torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
          torch.bool, torch.complex64, torch.uint16, torch.float8_e4m3fn,
          torch.float8_e5m2]


def bytes_of(tensor):
    """In row-major order."""
    plain = tensor.detach().cpu().contiguous()
    if plain.numel() == 0:
        return b""
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes()


def drawn_tensor(rng, shape, dtype):
    width = torch.empty((), dtype=dtype).element_size()
    count = 1
    for size in shape:
        count *= size
    if dtype == torch.bool:
        values = torch.tensor([rng.random() < .5 for _ in range(count)],
                              dtype=dtype)
    else:
        values = torch.frombuffer(
            bytearray(rng.randbytes(max(count, 1) * width)), dtype=dtype)
        values = values[:count]
    return values.reshape(shape)


def strided(rng, tensor):
    """A tensor of other strides, whose values are all its own."""
    if tensor.dim() < 2 or rng.random() < .5:
        return tensor
    way = rng.randrange(3)
    if way == 0:
        return tensor.transpose(0, tensor.dim() - 1)
    if way == 1:
        return tensor[::2]
    return tensor[:1].expand(tensor.shape)


def drawn_shape(rng):
    return [rng.choice([0, 1, 2, 3, 5, 7, 9, 16]) if rng.random() < .9 else 1
            for _ in range(rng.randrange(4))]


def placed(rng, full, meshes):
    """The tensor as a DTensor, made from this rank's own slice."""
    mesh = rng.choice(meshes)
    placements = [rng.choice([Replicate(), Shard(rng.randrange(full.dim()))])
                  for _ in range(mesh.ndim)]
    sizes, offsets = compute_local_shape_and_global_offset(
        full.shape, mesh, placements)
    local = full[tuple(slice(at, at + size)
                       for at, size in zip(offsets, sizes))].clone()
    return DTensor.from_local(local, mesh, placements, run_check=False,
                              shape=full.shape, stride=full.stride())


def drawn_leaf(rng, meshes):
    if rng.random() < .15:
        return rng.choice([7, "text", None, (1, 2), 1.5, {}, []])
    full = drawn_tensor(rng, drawn_shape(rng), rng.choice(DTYPES))
    if meshes and full.dim() > 0 and rng.random() < .7:
        return placed(rng, full, meshes), full
    full = strided(rng, full)
    return full, full


def drawn_tree(rng, meshes, depth=3):
    """A tree to save, and the same with full tensors."""
    keys = [rng.choice(["w", "layers", "0", "é", "a b"]) + str(i)
            for i in range(rng.randrange(2, 5))]
    saved, full = {}, {}
    for key in keys:
        if depth > 0 and rng.random() < .5:
            saved[key], full[key] = drawn_tree(rng, meshes, depth - 1)
        elif depth > 0 and rng.random() < .2:
            pairs = [drawn_tree(rng, meshes, 0) for _ in range(2)]
            saved[key] = [one for one, _ in pairs]
            full[key] = [one for _, one in pairs]
        else:
            leaf = drawn_leaf(rng, meshes)
            saved[key], full[key] = (leaf if isinstance(leaf, tuple) and
                                     isinstance(leaf[0], torch.Tensor)
                                     else (leaf, leaf))
    return saved, full


def full_of(tree):
    """A copy with full tensors; every rank takes part."""
    if isinstance(tree, dict):
        return {key: full_of(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(full_of(value) for value in tree)
    return tree.full_tensor() if isinstance(tree, DTensor) else tree


def write_wanted(path, full):
    flat, _ = flatten_state_dict(full)
    wanted = {"tensors": {}, "others": []}
    for name, value in flat.items():
        if isinstance(value, torch.Tensor):
            wanted["tensors"][name] = {
                "dtype": str(value.dtype).removeprefix("torch."),
                "shape": list(value.shape),
                "sha256": hashlib.sha256(bytes_of(value)).hexdigest()}
        else:
            wanted["others"].append(name)
    with open(path + ".want.json", "w", encoding="utf-8") as file:
        json.dump(wanted, file, indent=1, ensure_ascii=True)


def save(path, saved, full, **options):
    options.setdefault("thread_count", 1)
    collectives = options.pop("collectives", True)
    more = {} if collectives else {"use_collectives": False}
    dcp.save(saved, storage_writer=FileSystemWriter(path, **options), **more)
    if not dist.is_initialized() or dist.get_rank() == 0:
        write_wanted(path, full)


def model_and_state(meshes):
    """FSDP over four ranks, and over two with tensor parallelism over two."""
    # Both were elsewhere before torch 2.6.
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, RowwiseParallel, parallelize_module)
    for name, mesh in meshes.items():
        torch.manual_seed(3)
        # With tensor parallelism FSDP needs sizes that all ranks divide.
        inner, outer = (12, 8) if name == "fsdp_tp" else (10, 7)
        model = torch.nn.Sequential(
            torch.nn.Linear(6, inner), torch.nn.LayerNorm(inner),
            torch.nn.Linear(inner, outer))
        if name == "fsdp_tp":
            parallelize_module(model, mesh["tp"], {
                "0": ColwiseParallel(), "2": RowwiseParallel()})
            fully_shard(model, mesh=mesh["dp"])
        else:
            fully_shard(model, mesh=mesh)
        optimizer = torch.optim.AdamW(model.parameters(), lr=.1)
        torch.manual_seed(4 + dist.get_rank())
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter) * .5
        optimizer.step()
        weights, moments = get_state_dict(model, optimizer)
        yield name, {"model": weights, "optim": moments, "step": 7}


def cases_of(rng, ranks, meshes):
    for i in range(TREES):
        # All ranks draw the same.
        options = {"single_file_per_rank": rng.random() < .6,
                   "thread_count": rng.choice([1, 2, 3])}
        if i == TREES - 1 and ranks > 1 and "use_collectives" in (
                inspect.signature(dcp.save).parameters):
            options["collectives"] = False
        saved, full = drawn_tree(rng, meshes)
        yield f"tree_{ranks}_{i}", saved, full, options


def run_rank(rank, folder, port):
    warnings.simplefilter("ignore")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    line = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("dp",))
    plane = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    rng = random.Random(11)
    for name, saved, full, options in cases_of(rng, RANKS, [line, plane]):
        save(os.path.join(folder, name), saved, full, **options)
    meshes = {"fsdp": line, "fsdp_tp": plane}
    for name, state in model_and_state(meshes):
        save(os.path.join(folder, name), state, full_of(state))
    dist.barrier()
    dist.destroy_process_group()


def save_alone(folder):
    rng = random.Random(12)
    for name, saved, full, options in cases_of(rng, 1, []):
        save(os.path.join(folder, name), saved, full, **options)
    model = torch.nn.Linear(3, 5)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    for name, tree in (("model", model.state_dict()),
                       ("optimizer", optimizer.state_dict())):
        save(os.path.join(folder, "plain_" + name), tree, tree)


def save_all(folder):
    """The names of the cases."""
    warnings.simplefilter("ignore")
    os.makedirs(folder, exist_ok=True)
    save_alone(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(run_rank, (folder, port), nprocs=RANKS)
    ending = ".want.json"
    return sorted(name[:-len(ending)] for name in os.listdir(folder)
                  if name.endswith(ending))


if __name__ == "__main__":
    print(torch.__version__, *save_all(sys.argv[1]))
