"""Decoders under plan.distribute on real PyTorch: on two and on four processes each
holds the bytes of the plan, and results and gradients are those of one device.
Where DTensor stops, the error has the line and what to write there."""

import json
import os
import tempfile
import unittest

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import distribute_answers
import distribute_models
import shardc
import shardc.manifest
import shardc.torch

# Sums in another order give the last digits of float32.
NEAR = 5e-5
NAMES = [*distribute_models.OWN, *(f"transformers.{name}" for name in (
    "llama.tied", "qwen3", "mixtral", "gpt_oss", "deepseek_v3", "gpt2"))]


class Stops(nn.Module):
    """The columns of `up` are sharded where all are read."""

    def __init__(self, how):
        super().__init__()
        self.up = nn.Linear(8, 16, bias=False)
        self.how = how

    def forward(self, x):
        y = self.up(x)
        if self.how == "distances":
            return nn.functional.pdist(y)  # distances
        if self.how == "written":
            z = torch.zeros(x.shape[0], 16)
            z[:1] = y[:1]  # written
            return z
        return y


def line_of(word):
    with open(__file__, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1)
                    if line.rstrip().endswith("# " + word))


def sharded(how, mesh):
    module = Stops(how)
    module.up.weight = nn.Parameter(
        distribute_tensor(module.up.weight.data, mesh, [Shard(0)]))
    shardc.torch.explain(module)
    return module


def stopped(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank,
                            world_size=2)
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    x = distribute_tensor(torch.ones(3, 8), mesh, [Replicate()])
    for how, given, parts in (
            ("distances", x, (
                "DTensor does not run aten._pdist_forward of `y` [3, 16], sharded over tp in "
                "dimension 1. Write before this line `y = y.redistribute(placements="
                "[Replicate()] * y.device_mesh.ndim)`",)),
            ("written", x, ("`z` is a plain tensor", "`z = distribute_tensor(z, mesh, ")),
            ("plain", torch.ones(3, 8), (
                "is a plain tensor", "`implicit_replication()`",
                "got mixed torch.Tensor and DTensor"))):
        module = sharded(how, mesh)
        try:
            module(given)
        except Exception as error:  # pylint: disable=broad-except
            text = str(error)
        else:
            raise AssertionError(how)
        for part in parts:
            assert part in text, (part, text)
        if how != "plain":
            assert f"{__file__}:{line_of(how)}: " in text, text
    # What is written runs, and another error stays as it is.
    y = sharded("nothing", mesh)(x)
    y = y.redistribute(placements=[Replicate()] * y.device_mesh.ndim)
    assert nn.functional.pdist(y.to_local()).shape == (3,)
    try:
        sharded("nothing", mesh)("text")
    except TypeError as error:
        assert "DTensor" not in str(error), error
    dist.destroy_process_group()


# Each kind of rule, on a mesh of four devices.
OTHERS = "  - match: '.*'\n    spec: []\n"
RULES = {
    "columns": ("fsdp:2,tp:2", """
  - match: '(gate|up)[.]weight$'
    spec: [tp, null]
"""),
    "rows": ("fsdp:2,tp:2", """
  - match: '(o|down)[.]weight$'
    spec: [null, tp]
"""),
    "columns and rows": ("tp:4", """
  - match: '(gate|up)[.]weight$'
    spec: [tp, null]
  - match: '(o|down)[.]weight$'
    spec: [null, tp]
"""),
    "rows of tables": ("fsdp:2,tp:2", """
  - match: '(embedding|positions|head)[.]weight$'
    spec: [tp, fsdp]
"""),
    "rows of tables over all": ("fsdp:2,tp:2", """
  - match: '(embedding|positions|head)[.]weight$'
    spec: [[fsdp, tp], null]
"""),
    "width of tables": ("fsdp:2,tp:2", """
  - match: '(embedding|positions)[.]weight$'
    spec: [null, tp]
"""),
    "fully sharded": ("dp:2,fsdp:2", """
  - match: '(weight|scale)$'
    spec: [fsdp]
"""),
    "fully sharded and columns": ("fsdp:2,tp:2", """
  - match: '(gate|up|qkv)[.]weight$'
    spec: [tp, fsdp]
  - match: '(o|down)[.]weight$'
    spec: [fsdp, tp]
"""),
    "strided": ("fsdp:2,tp:2", """
  - match: '(gate|up|embedding)[.]weight$'
    spec: [[tp, fsdp], null]
"""),
    "biases and norms": ("fsdp:2,tp:2", """
  - match: '(bias|scale)$'
    spec: [tp]
"""),
    "channels": ("tp:4", """
  - match: 'taps[.](weight|bias)$'
    spec: [tp]
"""),
}


def ruled(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank,
                            world_size=4)
    for name in RULES:
        plan = shardc.Plan.load(os.path.join(folder, name + ".json"))
        answer = distribute_answers.distributed("own.ruled", plan, rank)
        assert answer["sharded"] > 0, name
        assert answer["results"] < NEAR, (name, answer)
        assert answer["gradients"] < NEAR, (name, answer)
    dist.destroy_process_group()


class Distribute(unittest.TestCase):
    def test_each_kind_of_rule_on_four_processes(self):
        model, _ = distribute_models.model_of("own.ruled")
        manifest = shardc.manifest.from_model(model)
        with tempfile.TemporaryDirectory() as folder:
            for name, (mesh, rules) in RULES.items():
                path = os.path.join(folder, name + ".yaml")
                with open(path, "w", encoding="utf-8") as file:
                    file.write("version: 1\nrules:" + rules + OTHERS)
                plan = shardc.compile(mesh=mesh, rules=path, manifest=manifest)
                with open(os.path.join(folder, name + ".json"), "w",
                          encoding="utf-8") as file:
                    json.dump(plan.data, file)
            torch.multiprocessing.spawn(ruled, (folder,), nprocs=4)
        print(f"{len(RULES)} kinds of rules on 4 processes")

    def test_decoders_compute_what_one_device_does(self):
        found = distribute_answers.answers(NAMES)
        for name in NAMES:
            for ranks, answer in found[name].items():
                with self.subTest(model=name, ranks=ranks):
                    self.assertGreater(answer.get("sharded", 0), 0, answer)
                    self.assertLess(answer["results"], NEAR)
                    self.assertLess(answer["gradients"], NEAR)
        print(f"{len(NAMES)} decoders on 2 and on 4 processes, "
              f"PyTorch {torch.__version__}")

    def test_an_error_has_the_line_and_what_to_write(self):
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(stopped, (folder,), nprocs=2)


if __name__ == "__main__":
    unittest.main()
