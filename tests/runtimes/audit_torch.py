"""Runs steps of PyTorch on four gloo ranks and records what they send, for
testdata/audit/torch. Run by hand, with PyTorch:

    cd tests/runtimes; python3 audit_torch.py OUT_FOLDER

Of each step it writes the recorder's text, NAME.hlo.txt, and the profiler's
trace without what no reader looks at, NAME.trace.json.gz. Both come from a step
after those that do what is done once. The numbers of collectives by kind are
printed as the profiler has them; bytes are computed by hand in the test.
"""

import collections
import gzip
import json
import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, parallelize_module)
from torch.profiler import ProfilerActivity, profile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))

from shardc import torch_programs  # pylint: disable=wrong-import-position

MESH = {"dp": 2, "tp": 2}


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(32, 64, bias=False)
        self.down = nn.Linear(64, 32, bias=False)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(32, 32, bias=False) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def ddp(_):
    return nn.parallel.DistributedDataParallel(
        nn.Linear(64, 64, bias=False)), (4, 64)


def fsdp2(mesh):
    net = Net()
    for layer in net.layers:
        fully_shard(layer, mesh=mesh["dp"])
    return fully_shard(net, mesh=mesh["dp"]), (8, 32)


def fsdp2_compiled(mesh):
    net, shape = fsdp2(mesh)
    return torch.compile(net, backend="aot_eager"), shape


def tensor_parallel(mesh):
    return parallelize_module(Mlp(), mesh["tp"], {
        "up": ColwiseParallel(), "down": RowwiseParallel()}), (8, 32)


def sequence_parallel(mesh):
    return parallelize_module(Mlp(), mesh["tp"], {
        "up": ColwiseParallel(input_layouts=Shard(0)),
        "down": RowwiseParallel(output_layouts=Shard(0))}), (4, 32)


def hybrid(mesh):
    """Replicated over dp, sharded over tp, gathered in bfloat16."""
    return fully_shard(
        nn.Linear(64, 64, bias=False), mesh=mesh,
        mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16,
                                       reduce_dtype=torch.float32)), (4, 64)


def fsdp2_tensor_parallel(mesh):
    net, shape = tensor_parallel(mesh)
    return fully_shard(net, mesh=mesh["dp"]), shape


STEPS = [ddp, fsdp2, fsdp2_compiled, tensor_parallel, sequence_parallel,
         hybrid, fsdp2_tensor_parallel]


def kept(trace):
    """The events that a reader looks at, with no folder and no process."""
    threads, events = {}, []
    start = min(one["ts"] for one in trace["traceEvents"]
                if one.get("ph") == "X")
    for one in trace["traceEvents"]:
        name = str(one.get("name", ""))
        called = one.get("cat") == "python_function" and HERE in name
        if one.get("ph") != "X" or not (
                called or one.get("cat") == "user_annotation" or
                name.startswith(("c10d::", "_c10d_functional::",
                                 "autograd::engine::evaluate_function"))):
            continue
        args = {key: value for key, value in one.get("args", {}).items()
                if key in ("Input Dims", "Input type", "Concrete Inputs")}
        events.append({
            "ph": "X", "cat": one["cat"],
            "name": name.replace(HERE + os.sep, ""),
            "tid": threads.setdefault(one["tid"], len(threads)),
            "ts": round(one["ts"] - start, 3),
            "dur": round(one.get("dur", 0), 3), "args": args})
    return {"distributedInfo": trace["distributedInfo"], "traceEvents": events}


def run(rank, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29641")
    dist.init_process_group("gloo", rank=rank, world_size=4)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", tuple(MESH.values()),
                            mesh_dim_names=tuple(MESH))
    for make in STEPS:
        net, shape = make(mesh)

        def step(net=net, shape=shape):
            net(torch.randn(shape, requires_grad=True)).sum().backward()
        step()
        step()
        name = make.__name__
        with torch_programs.record(name) as recorded:
            step()
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True,
                     with_stack=True) as profiled:
            step()
        dist.barrier()
        if rank > 0:
            continue
        with open(os.path.join(folder, name + ".hlo.txt"), "w",
                  encoding="utf-8") as file:
            file.write(recorded.as_hlo(MESH).replace(HERE + os.sep, ""))
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "trace.json")
            profiled.export_chrome_trace(path)
            with open(path, encoding="utf-8") as file:
                trace = kept(json.load(file))
        with open(os.path.join(folder, name + ".trace.json.gz"), "wb") as file:
            with gzip.GzipFile("", "wb", mtime=0, fileobj=file) as packed:
                packed.write(json.dumps(trace).encode())
        print(name, dict(collections.Counter(
            one["name"] for one in trace["traceEvents"]
            if "c10d" in one["name"] and "wait" not in one["name"])),
            flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(run, args=(sys.argv[1],), nprocs=4)
