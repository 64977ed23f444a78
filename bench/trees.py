#!/usr/bin/env python3
"""Resharding an orbax checkpoint: shardc, orbax and PyTorch DCP side by side.

    bench/trees.py SHARDC PYTHON_WITH_ORBAX [PYTHON_WITH_TORCH [FOLDER [GIB]]]

Orbax saves random float32 arrays (GIB, 2 by default) from 8 host devices, mesh
(2, 4). Each system then reshards them to the mesh (4, 2) with the axes of every
spec exchanged, and writes a checkpoint: shardc by `reshard`, orbax by restore
and save on 8 host devices, DCP by load and save of DTensors on 8 processes.
Prints wall-clock and processor seconds and the peak memory of each; that of DCP
is the sum over its processes. Also: uncompressed bytes against `cp`, and how
long `show manifest` takes for 100,000 chunks.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROWS, COLUMNS = 8192, 4096

ORBAX = """
import os, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax, numpy as np, orbax.checkpoint as ocp
from jax.sharding import NamedSharding, PartitionSpec as P
what, folder, count, raw = sys.argv[1:]
ROWS, COLUMNS = %d, %d
handler = lambda: ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_compression=raw != "raw")
def place(shape, names):
    return NamedSharding(jax.make_mesh(shape, ("x", "y")), P(*names))
if what == "make":
    rng = np.random.default_rng(1)
    tree = {f"w{i}": jax.device_put(rng.standard_normal(
        (ROWS, COLUMNS), dtype=np.float32), place((2, 4), ("x", "y")))
        for i in range(int(count))}
    ocp.Checkpointer(handler()).save(folder, tree)
elif what == "many":
    tree = {f"w{i}": np.zeros((10, 4), np.float32) for i in range(int(count))}
    args = jax.tree.map(lambda _: ocp.SaveArgs(chunk_byte_size=16), tree)
    ocp.Checkpointer(handler()).save(folder, tree, save_args=args)
else:
    to = place((4, 2), ("y", "x"))
    args = {f"w{i}": ocp.ArrayRestoreArgs(sharding=to) for i in range(int(count))}
    tree = ocp.Checkpointer(handler()).restore(folder, restore_args=args)
    jax.block_until_ready(tree)
    ocp.Checkpointer(handler()).save(folder + "_orbax", tree)
""" % (ROWS, COLUMNS)

DCP = """
import os, sys, warnings
warnings.simplefilter("ignore")
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, zeros
folder, count = sys.argv[1], int(sys.argv[2])
def rank(i):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29631")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=i, world_size=8)
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("x", "y"))
    state = {f"w{k}": zeros((%d, %d), device_mesh=mesh,
                            placements=[Shard(1), Shard(0)])
             for k in range(count)}
    dcp.load(state, checkpoint_id=folder)
    dcp.save(state, checkpoint_id=folder + "_dcp")
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.spawn(rank, nprocs=8)
""" % (ROWS, COLUMNS)


def memory_of(pid):
    """Resident bytes of a process and its descendants; shared pages once."""
    total = 0
    stack = [pid]
    while stack:
        one = stack.pop()
        try:
            with open(f"/proc/{one}/smaps_rollup", encoding="ascii") as file:
                total += sum(int(line.split()[1]) << 10 for line in file
                             if line.startswith("Pss:"))
            for task in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{task}/children",
                          encoding="ascii") as file:
                    stack += [int(word) for word in file.read().split()]
        except (OSError, ValueError):
            pass
    return total


def timed(label, command, **more):
    """Prints wall-clock and processor seconds and the peak memory."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, **more)
    peak, ended = [0], threading.Event()

    def watch():
        while not ended.wait(.05):
            peak[0] = max(peak[0], memory_of(run.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    message = run.communicate()[1]
    wall = time.perf_counter() - start
    ended.set()
    watcher.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode:
        sys.exit(f"{label}: {message.decode()[-2000:]}")
    work = (after.ru_utime + after.ru_stime
            - before.ru_utime - before.ru_stime)
    print(f"{label:34} wall {wall:6.2f} s, processor {work:6.2f} s, peak "
          f"{peak[0] / 2**20:6.0f} MiB; load {os.getloadavg()[0]:.1f}",
          flush=True)


def make_plan(program, at):
    with open(at("rules.yaml"), "w", encoding="utf-8") as out:
        out.write("version: 1\nrules:\n- match: .*\n  spec: [y, x]\n")
    subprocess.run([program, "plan", "--no-project", "--quiet", "--mesh",
                    "x:4,y:2", "--rules", at("rules.yaml"), "--manifest",
                    at("zstd"), "-o", at("plan.json")], check=True)
    return at("plan.json")


def main():
    program, jax_python = sys.argv[1:3]
    torch_python = sys.argv[3] if len(sys.argv) > 3 else ""
    base = sys.argv[4] if len(sys.argv) > 4 else None
    gib = float(sys.argv[5]) if len(sys.argv) > 5 else 2
    count = max(1, round(gib * 2**30 / (ROWS * COLUMNS * 4)))
    folder = tempfile.mkdtemp(prefix="shardc_trees_", dir=base)
    at = lambda name: os.path.join(folder, name)
    try:
        def orbax(what, name, number, raw="zstd"):
            return [jax_python, "-c", ORBAX, what, at(name), str(number), raw]

        def shardc(name, to, out):
            return [program, "checkpoint", "reshard", at(name), "--plan", plan, "--as", to,
                    "--output", at(out)]

        subprocess.run(orbax("make", "zstd", count), check=True,
                       capture_output=True)
        plan = make_plan(program, at)
        for _ in range(2):
            timed("shardc, orbax to orbax, zstd", shardc("zstd", "orbax", "a"))
            shutil.rmtree(at("a"))
            timed("orbax, restore and save, zstd", orbax("again", "zstd",
                                                         count))
            shutil.rmtree(at("zstd_orbax"))
        timed("shardc, orbax to DCP", shardc("zstd", "dcp", "torch"))
        shutil.rmtree(at("zstd"))
        if torch_python:
            with open(at("dcp.py"), "w", encoding="utf-8") as out:
                out.write(DCP)
            for _ in range(2):
                timed("shardc, DCP to DCP", shardc("torch", "dcp", "a"))
                shutil.rmtree(at("a"))
                timed("DCP, load and save on 8 processes",
                      [torch_python, at("dcp.py"), at("torch"), str(count)])
                shutil.rmtree(at("torch_dcp"))
        for _ in range(2):
            timed("cp -r of a DCP checkpoint", ["cp", "-r", at("torch"),
                                                at("b")])
            shutil.rmtree(at("b"))
        shutil.rmtree(at("torch"))
        subprocess.run(orbax("many", "many", 10_000), check=True,
                       capture_output=True)
        for _ in range(2):
            timed("manifest of 100,000 chunks", [program, "show", "manifest",
                                                 "--manifest", at("many")])
        timed("merge of 100,000 chunks", [program, "checkpoint", "merge", at("many"),
                                          "--output", at("a.safetensors")])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
