#!/usr/bin/env python3
"""How fast `shardc checkpoint split` copies, against dd of the same bytes.

    bench/checkpoint.py SHARDC [FOLDER [GIB]]

Both write over what an earlier run has written, turn by turn, so that the
page cache and the machine's other work weigh on both. FOLDER needs three
times GIB (1 by default); in memory (/dev/shm) no disk takes part.
Prints wall-clock rates and, as the machine may be busy, the ratio of the
processor time that each took.
"""

import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROUNDS = 7
ROW = 4096  # bytes; cut in four it is rows of 1 KiB


def make(folder, rows):
    header = json.dumps({"w": {"dtype": "BF16", "shape": [rows, ROW // 2],
                               "data_offsets": [0, rows * ROW]}}).encode()
    header += b" " * (-len(header) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as out:
        out.write(struct.pack("<Q", len(header)) + header)
        block = os.urandom(1 << 22)
        for _ in range(rows * ROW >> 22):
            out.write(block)


def make_plan(program, folder, spec):
    rules = os.path.join(folder, "rules.yaml")
    path = os.path.join(folder, "plan.json")
    with open(rules, "w", encoding="utf-8") as out:
        json.dump({"version": 1, "rules": [{"match": "w", "spec": spec}]}, out)
    subprocess.run([program, "plan", "--no-project", "--quiet", "--mesh",
                    "tp:4", "--rules", rules, "--manifest",
                    os.path.join(folder, "model.safetensors"), "-o", path],
                   check=True)
    return path


def timed(command):
    """Wall-clock and processor seconds."""
    start = time.perf_counter()
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(run.pid, 0)
    if status != 0:
        sys.exit(f"failed: {' '.join(command)}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime


def compare(program, folder, rows, label, spec):
    source = os.path.join(folder, "model.safetensors")
    plan = make_plan(program, folder, spec)
    dd = ["dd", f"if={source}", f"of={folder}/copy", "bs=1M", "conv=notrunc"]
    for threads in ("1", "2"):
        split = [program, "checkpoint", "split", "--plan", plan, "--checkpoint", source,
                 "--output", os.path.join(folder, "pieces"), "--reuse",
                 "--threads", threads]
        timed(dd), timed(split)
        pairs = [(timed(dd), timed(split)) for _ in range(ROUNDS)]
        rate = [rows * ROW / 1e9 / min(p[i][0] for p in pairs)
                for i in range(2)]
        work = statistics.median(p[0][1] / p[1][1] for p in pairs)
        wall = statistics.median(p[0][0] / p[1][0] for p in pairs)
        print(f"{label:14} threads {threads}: dd {rate[0]:.2f} GB/s, split "
              f"{rate[1]:.2f} GB/s; dd / split: wall {wall:.2f}, "
              f"processor {work:.2f}", flush=True)
    subprocess.run([*split, "--verify"], check=True, capture_output=True)
    shutil.rmtree(os.path.join(folder, "pieces"))


def main():
    program = sys.argv[1]
    base = sys.argv[2] if len(sys.argv) > 2 else None
    rows = int(float(sys.argv[3] if len(sys.argv) > 3 else 1) * (1 << 30)) // ROW
    folder = tempfile.mkdtemp(prefix="shardc_bench_", dir=base)
    try:
        make(folder, rows)
        compare(program, folder, rows, "contiguous", ["tp"])
        compare(program, folder, rows, "rows of 1 KiB", [None, "tp"])
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
