"""Steps of torch's pipeline runtime under tables that shardc writes, on two
processes, against one process.

The model is a chain of layers in float64. Each process has the stages that the
table gives it; loss and gradients are summed over micro-batches."""

import json
import os
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules

BIN = os.environ.get("SHARDC_BIN", "shardc")
RANKS, WIDTH, ROWS = 2, 6, 12
# Our name, and the stages on each rank.
CASES = [("1f1b", 1), ("interleaved", 2), ("interleaved", 3), ("zb-h1", 1),
         ("zb-h2", 1), ("interleaved-zb", 2), ("zbv", 2), ("dualpipev", 2),
         ("looped-bfs", 2)]
MICROBATCHES = 4


class Layer(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        draw = torch.Generator().manual_seed(number)
        self.weight = torch.nn.Parameter(torch.randn(
            WIDTH, WIDTH, generator=draw, dtype=torch.float64) / 2)

    def forward(self, x):
        return x + torch.tanh(x @ self.weight)


def inputs():
    draw = torch.Generator().manual_seed(99)
    return [torch.randn(ROWS, WIDTH, generator=draw, dtype=torch.float64)
            for _ in range(2)]


def loss_of(output, target):
    return ((output - target) ** 2).sum()


def alone(stages):
    """The loss and the gradient of each layer on one process."""
    layers = [Layer(number) for number in range(stages)]
    x, target = inputs()
    value = x
    for layer in layers:
        value = layer(value)
    loss = loss_of(value, target)
    loss.backward()
    return float(loss.detach()), [layer.weight.grad for layer in layers]


def work(rank, path, table, stages, owners):
    """What a process computes: its part of the loss, gradients by stage."""
    dist.init_process_group("gloo", rank=rank, world_size=RANKS,
                            init_method="file://" + path)
    own = [stage for stage in range(stages) if owners[stage] == rank]
    layers = {stage: Layer(stage) for stage in own}
    made = [PipelineStage(layers[stage], stage, stages, torch.device("cpu"))
            for stage in own]
    runtime = schedules._PipelineScheduleRuntime(
        made, MICROBATCHES, loss_fn=loss_of, scale_grads=False)
    runtime._load_csv(table)
    x, target = inputs()
    losses = []
    arguments = [x] if owners[0] == rank else []
    more = {"target": target, "losses": losses} if (
        owners[stages - 1] == rank) else {}
    runtime.step(*arguments, **more)
    print(json.dumps({
        "loss": float(sum(loss.detach() for loss in losses)),
        "gradients": {stage: layers[stage].weight.grad.tolist()
                      for stage in own}}))
    dist.destroy_process_group()


def run(name, virtual):
    """The largest error of loss and gradients, relative to the largest."""
    stages = RANKS * virtual
    table = subprocess.run(
        [BIN, "schedule", name, "--ranks", str(RANKS), "--virtual",
         str(virtual), "--microbatches", str(MICROBATCHES), "--csv"],
        check=True, capture_output=True, text=True).stdout
    owners = {}
    for rank, line in enumerate(table.splitlines()):
        for cell in line.replace("(", "").replace(";", ",").split(","):
            owners[int(cell[:next(i for i, c in enumerate(cell)
                                  if not c.isdigit())])] = rank
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "table.csv")
        with open(path, "w", encoding="utf-8") as file:
            file.write(table)
        given = json.dumps([path, stages, [owners[s] for s in range(stages)]])
        processes = [subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), str(rank),
             os.path.join(folder, "store"), given], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for rank in range(RANKS)]
        parts = []
        try:
            for process in processes:
                out, err = process.communicate(timeout=120)
                if process.returncode:
                    raise RuntimeError(err[-2000:])
                parts.append(json.loads(out.splitlines()[-1]))
        finally:
            for process in processes:
                process.kill()
    loss, gradients = alone(stages)
    found = {int(stage): torch.tensor(values, dtype=torch.float64)
             for part in parts for stage, values in part["gradients"].items()}
    errors = [abs(sum(part["loss"] for part in parts) - loss) / abs(loss)]
    for stage, wanted in enumerate(gradients):
        errors.append(float((found[stage] - wanted).abs().max() /
                            wanted.abs().max()))
    return max(errors)


if __name__ == "__main__":
    work(int(sys.argv[1]), sys.argv[2], *json.loads(sys.argv[3]))
