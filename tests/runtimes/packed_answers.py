"""The elements that transformers gives each device of a packed weight: those of its
styles `packed_colwise` and `packed_rowwise`, or, before 5.16, of its function
`get_packed_weights`. The record of 4.57 is made by hand, with
`record.py --here packed` in an environment that has it and torch."""

import json
import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import torch.distributed as dist
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

import records

# Shape, the packed dimension, devices.
CASES = [(shape, dim, devices)
         for devices in (2, 3, 4)
         for shape, dim in (([devices * 4, 2], 0), ([2, devices * 6], 1),
                            ([3, devices * 2, 2], 1),
                            ([2, 3, devices * 4], 2))]


def of_style(shape, dim, devices, device):
    """The placeholder of the style, and the weight distributed in its way."""
    from torch.distributed.tensor import distribute_tensor
    from transformers.distributed.tensor_parallel import ALL_PARALLEL_STYLES
    dist.init_process_group("fake", store=FakeStore(), rank=device,
                            world_size=devices)
    try:
        mesh = init_device_mesh("cpu", (devices,), mesh_dim_names=("tp",))
        module = torch.nn.Module()
        module.weight = torch.nn.Parameter(torch.empty(shape, device="meta"))
        rowwise = dim == len(shape) - 1
        ALL_PARALLEL_STYLES["packed_rowwise" if rowwise else "packed_colwise"
                            ].shard_param(module, "weight", mesh)
        value = torch.arange(torch.Size(shape).numel()).reshape(shape)
        return distribute_tensor(value, mesh, module.weight.placements,
                                 src_data_rank=None).to_local()
    finally:
        dist.destroy_process_group()


def of_function(shape, dim, devices, device):
    from safetensors import safe_open
    from safetensors.torch import save_file
    from transformers.integrations.tensor_parallel import get_packed_weights

    class Mesh:
        def size(self):
            return devices

    value = torch.arange(torch.Size(shape).numel(),
                         dtype=torch.float32).reshape(shape)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "w.safetensors")
        save_file({"w": value}, path)
        with safe_open(path, "pt") as file:
            return get_packed_weights(file.get_slice("w"), value, Mesh(),
                                      device, dim)


def record():
    old = transformers.__version__.startswith("4.")
    cases = [{"shape": shape, "dim": dim, "devices": devices, "parts": 2,
              "held": [[int(one) for one in (of_function if old else of_style)(
                  shape, dim, devices, device).flatten().tolist()]
                  for device in range(devices)]}
             for shape, dim, devices in CASES]
    yield "transformers/packed" + ("-4.57" if old else ""), {
        "format": "shardc.runtimes.packed/v1",
        "versions": records.versions("transformers", "torch"),
        "cases": json.loads(json.dumps(cases))}
