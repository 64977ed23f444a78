"""What PyTorch's DTensor puts on each device: a tensor of 0, 1, 2, ... is
distributed, and every rank's local data is read. No ranks are started."""

import math
import random

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard

import random_shardings
import records
import slices

FREE_CASES = 400


def placements_of(case):
    """One placement per mesh axis. They are applied in the mesh's order, so
    an axis whose dimension is split first by a later axis is strided: its
    factor is the parts that those make."""
    groups = [[e] if isinstance(e, str) else e or [] for e in case["spec"]]
    axes = list(case["mesh"])
    placements = []
    for number, axis in enumerate(axes):
        dim = next((d for d, g in enumerate(groups) if axis in g), None)
        if dim is None:
            placements.append(Replicate())
            continue
        first = groups[dim][:groups[dim].index(axis)]
        factor = math.prod(case["mesh"][other] for other in first
                           if axes.index(other) > number)
        placements.append(Shard(dim) if factor == 1 else
                          _StridedShard(dim, split_factor=factor))
    return placements


def local_data(mesh, shape, placements):
    """By rank, the local tensor of a tensor of 0, 1, 2, ...: each rank is
    computed in turn, with a mesh that has its coordinates."""
    start()
    sizes = list(mesh.values())
    count = math.prod(sizes)
    whole = torch.arange(math.prod(shape)).reshape(shape)
    local = []
    for rank in range(count):
        devices = DeviceMesh("cpu", torch.arange(count).reshape(sizes),
                             mesh_dim_names=tuple(mesh), _rank=rank,
                             _init_backend=False)
        local.append(distribute_tensor(whole, devices, placements,
                                       src_data_rank=None).to_local())
    return local


def local_data_at_once(mesh, shape, placements):
    """The same by PyTorch's own mode for all ranks in one process, which
    takes seconds."""
    start()
    sizes = list(mesh.values())
    with LocalTensorMode(math.prod(sizes)):
        devices = init_device_mesh("cpu", sizes, mesh_dim_names=tuple(mesh))
        whole = torch.arange(math.prod(shape)).reshape(shape)
        local = distribute_tensor(whole, devices, placements,
                                  src_data_rank=None).to_local()
        return [local._local_tensors[rank]
                for rank in range(math.prod(sizes))]


def start():
    if not dist.is_initialized():
        dist.init_process_group("fake", rank=0,
                                world_size=random_shardings.MAX_DEVICES)


def offset_of(shape, tensor):
    """Where a contiguous block starts, which is checked to be one."""
    flat = tensor.flatten().tolist()
    offset, rest = [], flat[0]
    for dim in range(len(shape)):
        stride = math.prod(shape[dim + 1:])
        offset.append(rest // stride)
        rest %= stride
    assert flat == slices.elements(shape, offset, list(tensor.shape))
    return offset


def answer(case):
    """A sharding as placements, and where each rank's block starts."""
    placements = placements_of(case)
    tensors = local_data(case["mesh"], case["shape"], placements)
    assert len({tensor.shape for tensor in tensors}) == 1
    return {"placements": [str(p) for p in placements],
            "shard_shape": list(tensors[0].shape),
            "offsets": [offset_of(case["shape"], t) for t in tensors]}


def indices_of(shape, tensor):
    """Along each dimension, which indices a rank holds, in its order."""
    lists = []
    for dim in range(len(shape)):
        stride = math.prod(shape[dim + 1:])
        line = tensor
        for other in range(len(shape) - 1, -1, -1):
            if other != dim:
                line = line.select(other, 0)
        lists.append([n // stride % shape[dim] for n in line.tolist()])
    whole = torch.arange(math.prod(shape)).reshape(shape)
    for dim, wanted in enumerate(lists):
        whole = whole.index_select(dim, torch.tensor(wanted))
    assert torch.equal(whole, tensor)
    return lists


def free_case(rng):
    """Placements as they come: uneven, strided by any factor."""
    mesh = random_shardings.random_mesh(rng)
    while math.prod(mesh.values()) > 16:
        mesh = random_shardings.random_mesh(rng)
    shape = [rng.randint(1, 14) for _ in range(rng.randint(1, 3))]
    placements = []
    for _ in mesh:
        kind = rng.choice("SSRT")
        dim = rng.randrange(len(shape))
        placements.append(
            Replicate() if kind == "R" else Shard(dim) if kind == "S" else
            _StridedShard(dim, split_factor=rng.choice([2, 2, 3, 4])))
    return mesh, shape, placements


def free_answer(mesh, shape, placements):
    try:
        tensors = local_data(mesh, shape, placements)
    except Exception as error:  # what PyTorch does not do
        return {"error": type(error).__name__}
    return {"local": [
        {"shape": list(tensor.shape),
         "indices": indices_of(shape, tensor) if tensor.numel() else None}
        for tensor in tensors]}


def free_cases():
    rng = random.Random(11)
    for _ in range(FREE_CASES):
        mesh, shape, placements = free_case(rng)
        yield {"mesh": mesh, "shape": shape,
               "placements": [str(p) for p in placements],
               **free_answer(mesh, shape, placements)}


def record():
    """The records by name; the shardings are those of JAX's records."""
    used = records.versions("torch")
    asked = [{key: case[key] for key in ("mesh", "shape", "spec")}
             for case in records.load("jax/shardings")["cases"]]
    yield "dtensor/shardings", {
        "format": "shardc.runtimes.dtensor_shardings/v1", "versions": used,
        "cases": [{**case, **answer(case)} for case in asked]}
    yield "dtensor/placements", {
        "format": "shardc.runtimes.dtensor_placements/v1", "versions": used,
        "cases": list(free_cases())}
