"""The Python package on real PyTorch: four processes hold the shards of a
module's plan, gathered parameters are the given ones, tied ones stay tied, and the
sharded module computes what the unsharded one does, with the inputs of the guide."""

import json
import os
import re
import sys
import tempfile
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))
os.environ["SHARDC"] = os.environ.get(
    "SHARDC_BIN", os.path.join(ROOT, "build", "src", "cli", "shardc"))
sys.path.insert(0, os.path.join(ROOT, "python"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.tensor import distribute_tensor  # noqa: E402
from torch.distributed.tensor import Replicate  # noqa: E402

import shardc  # noqa: E402
import shardc.manifest  # noqa: E402
import shardc.torch  # noqa: E402

RANKS = 4
RULES = """version: 1
rules:
  - match: '^scale$'
    spec: [tp]
  - match: 'embed\\.weight$'
    spec: [tp, fsdp]
  - match: 'up\\.weight$'
    spec: [[tp, fsdp], null]
  - match: 'down\\.weight$'
    spec: [null, [fsdp, tp]]
  - match: '.*'
    spec: []
"""


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.linspace(1, 2, 8))
        self.register_buffer("shift", torch.linspace(0, 1, 8),
                             persistent=False)
        self.embed = nn.Embedding(16, 8)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)
        self.head = nn.Linear(8, 16, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        y = self.down(torch.relu(self.up(x)))
        return self.head(x + y * self.scale + self.shift)


def plan_of(folder):
    made = shardc.manifest.manifest(shardc.manifest.build(Net, "torch"))
    made["params"]["scale"] = {"shape": [8], "dtype": "F32"}
    manifest, rules = (os.path.join(folder, name)
                       for name in ("manifest.json", "rules.yaml"))
    with open(manifest, "w", encoding="utf-8") as file:
        json.dump(made, file)
    with open(rules, "w", encoding="utf-8") as file:
        file.write(RULES)
    return shardc.compile(mesh="fsdp:2,tp:2", rules=rules, manifest=manifest)


def on_rank(rank, folder):
    dist.init_process_group(
        "gloo", init_method="file://" + os.path.join(folder, "meeting"),
        rank=rank, world_size=RANKS)
    plan = shardc.Plan.load(os.path.join(folder, "plan.json"))
    torch.manual_seed(3)
    whole = Net()
    torch.manual_seed(3)
    names = {"plan": plan, "module": Net()}
    with open(os.path.join(ROOT, "docs", "guides", "python.md"),
              encoding="utf-8") as file:
        guide = file.read().partition("## PyTorch")[2]
    block, inputs = re.findall(r"^```python\n(.*?)^```$", guide, re.M | re.S)
    exec(block, names)
    module = names["module"]
    assert names["where"] == plan.placements("up.weight")
    assert list(module.up.weight.placements) == names["where"]
    for name, parameter in module.named_parameters():
        given = whole.get_parameter(name).detach()
        where = plan[name].slices(rank)
        mine = parameter.to_local().detach()
        assert torch.equal(mine, given[where]), name
        assert torch.equal(parameter.full_tensor().detach(), given), name
    assert module.head.weight is module.embed.weight
    # A buffer of the plan is split by it, one that it does not contain is replicated.
    assert torch.equal(module.scale.to_local(),
                       whole.scale[plan["scale"].slices(rank)])
    assert torch.equal(module.shift.to_local(), whole.shift)
    assert list(module.state_dict()) == list(whole.state_dict())
    mesh = module.up.weight.device_mesh
    x = torch.randn(6, 8)
    out = module(distribute_tensor(x, mesh, [Replicate(), Replicate()]))
    torch.testing.assert_close(out.full_tensor(), whole(x))
    out.sum().backward()
    whole(x).sum().backward()
    torch.testing.assert_close(module.up.weight.grad.full_tensor(),
                               whole.up.weight.grad)
    check_inputs(names, inputs, whole, rank)
    dist.destroy_process_group()


def check_inputs(names, program, whole, rank):
    """The guide's program, whose results are those of the unsharded module."""
    torch.manual_seed(5)
    batch = torch.randn(6, 8)
    row = plan_row(names["plan"], rank)
    names |= {"batch": batch, "mine": batch[3 * row:3 * row + 3]}
    try:
        names["module"](batch)
    except RuntimeError as error:
        assert "got mixed torch.Tensor and DTensor" in str(error), error
    else:
        raise AssertionError("a plain tensor is accepted")
    given = program.partition("x = DTensor.from_local")[0]
    exec(given, names)
    first = names["x"]
    exec(program, names)
    assert torch.equal(first.full_tensor(), batch)
    assert torch.equal(names["x"].to_local(), first.to_local())
    assert torch.equal(names["x"].full_tensor(), batch)
    wanted = whole(batch)
    torch.testing.assert_close(names["logits"], wanted)
    torch.testing.assert_close(names["same"], wanted)


def plan_row(plan, rank):
    """The coordinate of a process along the axis that splits the batch."""
    return plan.mesh.coordinates(rank)["fsdp"]


STAGED = """version: 1
stages: {axis: pp, assign: [1, 2]}
rules:
  - match: 'up\\.weight$'
    spec: [tp, null]
  - match: '.*'
    spec: []
"""


def stage_of(layers, first, last):
    """The module of one stage, with the names of the whole model."""
    module = nn.Module()
    if first:
        module.embed_tokens = nn.Embedding(16, 8)
    module.layers = nn.ModuleDict()
    for layer in layers:
        module.layers[str(layer)] = nn.ModuleDict({"up": nn.Linear(8, 16)})
    if last:
        module.lm_head = nn.Linear(8, 16, bias=False)
    return module


def on_stage(rank, folder):
    dist.init_process_group(
        "gloo", init_method="file://" + os.path.join(folder, "meeting"),
        rank=rank, world_size=RANKS)
    plan = shardc.Plan.load(os.path.join(folder, "plan.json"))
    own = plan.stages.of[plan.mesh.coordinates(rank)["pp"]]
    module = plan.distribute(stage_of(own.layers, own.first, own.last))
    held = dict(module.named_parameters())
    assert set(held) == {name for name in plan if rank // 2 in plan[name].ranks}
    for name, parameter in held.items():
        assert parameter.device_mesh.mesh_dim_names == ("tp",), name
        assert list(parameter.placements) == plan.placements(name), name
        lengths = [part.stop - part.start for part in plan[name].slices(rank)]
        assert list(parameter.to_local().shape) == lengths, name
    dist.destroy_process_group()


class Package(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_four_processes(self):
        plan = plan_of(self.folder)
        with open(os.path.join(self.folder, "plan.json"), "w",
                  encoding="utf-8") as file:
            json.dump(plan.data, file)
        torch.multiprocessing.spawn(on_rank, (self.folder,), nprocs=RANKS)
        print(f"package: a module on {RANKS} processes, "
              f"PyTorch {torch.__version__}")

    def test_a_stage_is_distributed_over_its_own_devices(self):
        whole = stage_of(range(3), True, True)
        manifest, rules = (os.path.join(self.folder, name)
                           for name in ("manifest.json", "rules.yaml"))
        with open(manifest, "w", encoding="utf-8") as file:
            json.dump(shardc.manifest.manifest(whole), file)
        with open(rules, "w", encoding="utf-8") as file:
            file.write(STAGED)
        plan = shardc.compile(mesh="pp:2,tp:2", rules=rules, manifest=manifest)
        with open(os.path.join(self.folder, "plan.json"), "w",
                  encoding="utf-8") as file:
            json.dump(plan.data, file)
        torch.multiprocessing.spawn(on_stage, (self.folder,), nprocs=RANKS)

    def test_tied_and_buffers_are_no_differences(self):
        plan = plan_of(self.folder)
        self.assertEqual(plan.check(Net()), [])
        module = Net()
        module.head.weight = nn.Parameter(torch.zeros(16, 8))
        self.assertEqual([str(d) for d in plan.check(module)], [
            "head.weight: in the model, not in the plan; did you mean "
            "embed.weight?"])

    def test_a_placed_parameter_is_reported_before_anything_moves(self):
        plan = plan_of(self.folder)
        plan.data["params"]["up.bias"]["placement"] = {
            "axis": "tp", "coordinate": 1}
        module = Net()
        with self.assertRaisesRegex(shardc.PlanError, "up.bias is placed"):
            plan.distribute(module)
        self.assertFalse(any(hasattr(x, "to_local")
                             for x in module.parameters()))

    def test_differences_are_reported_before_anything_moves(self):
        plan = plan_of(self.folder)
        module = Net()
        module.up = nn.Linear(8, 32)
        with self.assertRaisesRegex(shardc.PlanError, r"up\.weight"):
            plan.distribute(module)
        self.assertFalse(any(hasattr(x, "to_local")
                             for x in module.parameters()))


if __name__ == "__main__":
    unittest.main()
