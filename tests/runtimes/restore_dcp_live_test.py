"""torch.distributed.checkpoint loads the checkpoints that shardc writes, bit
for bit, on one process and on two that gloo connects."""

import os
import pickle
import random
import socket
import tempfile
import unittest
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint.default_planner import (
    _EmptyStateDictLoadPlanner)
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, zeros

import restore_cases
from dcp_answers import bytes_of

TYPES = {"F32": torch.float32, "F64": torch.float64, "F16": torch.float16,
         "BF16": torch.bfloat16, "I64": torch.int64, "I32": torch.int32,
         "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
         "U16": torch.uint16, "U32": torch.uint32, "U64": torch.uint64,
         "BOOL": torch.bool, "C64": torch.complex64,
         "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2}
RANKS = 2


def cases():
    out = restore_cases.cases()
    rng = random.Random(23)
    # orbax refuses arrays without elements.
    out["empty"] = [restore_cases.array(rng, ["none"], [0]),
                    restore_cases.array(rng, ["no", "rows"], [0, 4], "I8"),
                    restore_cases.array(rng, ["some"], [5, 2])], []
    return out


def same(got, one):
    wanted = TYPES[one["dtype"]]
    assert got.dtype == wanted, (one["path"], got.dtype)
    assert list(got.shape) == one["shape"], (one["path"], got.shape)
    assert bytes_of(got) == one["bytes"], one["path"]


def at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def load_alone(folder):
    """The number of tensors that were compared."""
    compared = 0
    for name, (arrays, leaves) in cases().items():
        path = os.path.join(folder, name)
        state = {}
        for one in arrays:
            restore_cases.insert(state, one["path"], torch.zeros(
                one["shape"], dtype=TYPES[one["dtype"]]))
        for leaf in leaves:
            restore_cases.insert(state, leaf["name"].split("/"), "absent")
        state = restore_cases.with_lists(state)
        dcp.load(state, checkpoint_id=path)
        for one in arrays:
            same(at(state, one["path"]), one)
        for leaf in leaves:
            wanted = {"None": None, "Dict": {}, "List": []}.get(
                leaf["text"], leaf["text"])
            got = at(state, leaf["name"].split("/"))
            assert got == wanted, (leaf, got)
        # Without a target: the tree is made from `.metadata`.
        made = {}
        _load_state_dict(made, storage_reader=FileSystemReader(path),
                         planner=_EmptyStateDictLoadPlanner(), no_dist=True)
        for one in arrays:
            same(at(made, one["path"]), one)
        compared += 2 * len(arrays)
    return compared


def load_rank(rank, folder, port):
    warnings.simplefilter("ignore")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("dp",))
    compared = 0
    for name, (arrays, _) in cases().items():
        state = {}
        for i, one in enumerate(arrays):
            rank_of = len(one["shape"])
            placement = (Shard(i % rank_of) if rank_of
                         and i % 3 else Replicate())
            restore_cases.insert(state, one["path"], zeros(
                one["shape"], dtype=TYPES[one["dtype"]], device_mesh=mesh,
                placements=[placement]))
        state = restore_cases.with_lists(state)
        dcp.load(state, checkpoint_id=os.path.join(folder, name))
        for one in arrays:
            got = at(state, one["path"])
            full = torch.frombuffer(
                bytearray(one["bytes"] or b"\0" * 8),
                dtype=TYPES[one["dtype"]])
            full = full[:torch.Size(one["shape"]).numel()].reshape(
                one["shape"])
            local = full
            if isinstance(got.placements[0], Shard):
                dim = got.placements[0].dim
                parts = torch.chunk(full, RANKS, dim)
                local = (parts[rank] if rank < len(parts)
                         else full.narrow(dim, 0, 0))
            assert got.to_local().shape == local.shape, one["path"]
            assert bytes_of(got.to_local()) == bytes_of(local), one["path"]
            compared += 1
    if rank == 0:
        with open(os.path.join(folder, "compared"), "wb") as file:
            pickle.dump(compared, file)
    dist.barrier()
    dist.destroy_process_group()


class Restores(unittest.TestCase):
    def test_torch_loads_what_shardc_writes(self):
        warnings.simplefilter("ignore")
        with tempfile.TemporaryDirectory() as folder:
            for name, (arrays, leaves) in cases().items():
                memory = 4096 if name == "tree_1" else 1 << 28
                restore_cases.write("dcp", os.path.join(folder, name), arrays,
                                    leaves, memory)
            alone = load_alone(folder)
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            mp.spawn(load_rank, (folder, port), nprocs=RANKS)
            with open(os.path.join(folder, "compared"), "rb") as file:
                placed = pickle.load(file)
        print(f"torch {torch.__version__}: {alone} tensors loaded by one "
              f"process, {placed} DTensors by {RANKS}")


if __name__ == "__main__":
    unittest.main()
