"""PyTorch runs the modules of `export dtensor` on 4, 6 and 8 processes with gloo, over
meshes of several slices and of one: each process holds the plan's shards of its rank,
and the gathered tensors are the given ones. JSON gives the same."""

import importlib.util
import json
import logging
import math
import os
import random
import sys
import tempfile
import unittest

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard

import device_lists
import random_shardings
import shardc_answers

sys.dont_write_bytecode = True
PARAMS = 6
# Sizes of axes, and the slices along each.
MESHES = {
    4: [((2, 2), (1, 2)), ((4, 1), (2, 1)), ((2, 2), (1, 1)), ((4,), (2,))],
    6: [((2, 3), (1, 3)), ((3, 2), (1, 2)), ((6, 1), (1, 1)), ((1, 6), (1, 2))],
    8: [((2, 4), (1, 2)), ((2, 2, 2), (1, 2, 1)), ((4, 2), (2, 2)),
        ((2, 2, 2), (1, 1, 2)), ((2, 2, 2), (1, 2, 2))]}


def cases_of(mesh, seed):
    rng = random.Random(seed)
    return [random_shardings.random_case(rng, mesh) for _ in range(PARAMS)]


def placement(text):
    if text == "R":
        return Replicate()
    numbers = [int(n) for n in text.partition("(")[2].rstrip(")").split(",")]
    return _StridedShard(numbers[0], split_factor=numbers[1]) \
        if text.startswith("_") else Shard(numbers[0])


def ways_of(folder):
    """The mesh and placements of the exported module, and of the JSON."""
    spec = importlib.util.spec_from_file_location(
        "exported", os.path.join(folder, "exported.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.mesh("cpu"), module.PLACEMENTS
    with open(os.path.join(folder, "exported.json"), encoding="utf-8") as file:
        plan = json.load(file)
    shape = plan["mesh"]["shape"]
    devices = plan["mesh"].get("devices", range(math.prod(shape)))
    yield DeviceMesh("cpu", torch.tensor(list(devices)).reshape(shape),
                     mesh_dim_names=tuple(plan["mesh"]["mesh_dim_names"])), {
        name: [placement(text) for text in texts]
        for name, texts in plan["params"].items()}


def on_rank(rank, folder, ranks):
    torch.set_num_threads(1)
    # It warns of gathers in several steps.
    logging.getLogger("torch.distributed.tensor").setLevel(logging.ERROR)
    dist.init_process_group(
        "gloo", init_method="file://" + os.path.join(folder, "meeting"),
        rank=rank, world_size=ranks)
    compared = 0
    for number, (sizes, slices) in enumerate(MESHES[ranks]):
        mesh = {f"a{i}": size for i, size in enumerate(sizes)}
        devices = device_lists.sliced_order(mesh, slices)
        for on, placements in ways_of(os.path.join(folder, str(number))):
            assert on.mesh.flatten().tolist() == devices
            for i, case in enumerate(cases_of(mesh, number)):
                given = torch.arange(math.prod(case["shape"])).reshape(
                    case["shape"])
                made = distribute_tensor(given, on, placements[f"w{i}"])
                mine = device_lists.by_device(device_lists.of_spec(
                    mesh, case["shape"], case["spec"]), devices)[rank]
                wanted = given[tuple(slice(*one) for one in mine)]
                assert torch.equal(made.to_local(), wanted), (case, slices)
                assert torch.equal(made.full_tensor(), given), (case, slices)
                compared += 1
    total = torch.tensor(compared)
    dist.all_reduce(total)
    if rank == 0:
        print(f"{total} local tensors of {ranks} processes over meshes of "
              f"slices are the plan's; PyTorch {torch.__version__}")
    dist.destroy_process_group()


class Processes(unittest.TestCase):
    def test_processes_hold_the_plans_shards(self):
        for ranks, meshes in MESHES.items():
            with tempfile.TemporaryDirectory() as folder:
                for number, (sizes, slices) in enumerate(meshes):
                    mesh = {f"a{i}": size for i, size in enumerate(sizes)}
                    inside = os.path.join(folder, str(number))
                    os.mkdir(inside)
                    plan = shardc_answers.plan(
                        inside, mesh, cases_of(mesh, number), slices=slices)
                    for form, name in (("text", "exported.py"),
                                       ("json", "exported.json")):
                        shardc_answers.run(
                            "export", "dtensor", "--plan", plan, "--format",
                            form, "-o", os.path.join(inside, name))
                torch.multiprocessing.spawn(on_rank, (folder, ranks),
                                            nprocs=ranks)


if __name__ == "__main__":
    unittest.main()
