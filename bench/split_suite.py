"""Splitting a checkpoint against copying its bytes with dd and cp, and against
the safetensors package, page cache warm.

All overwrite what is there: fresh files measure the file system's mood.
"""

import json
import os
import struct
import subprocess
import tempfile
import time

import peers

HERE = os.path.dirname(os.path.abspath(__file__))
MEGA = 1 << 20
TENSORS = 8
DEVICES = 8
DD, CP = "dd of the same bytes", "cp of the same bytes"
SAFETENSORS = "safetensors in Python"


def write_checkpoint(path):
    """Eight float32 matrices of 32 MiB; returns the bytes of all."""
    rows, columns = 8192, 1024
    size = rows * columns * 4
    header = {}
    for i in range(TENSORS):
        header["layers/%d/kernel" % i] = {
            "dtype": "F32", "shape": [rows, columns],
            "data_offsets": [i * size, (i + 1) * size]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block = os.urandom(MEGA)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _ in range(TENSORS * size // MEGA):
            out.write(block)
    return TENSORS * size


class Suite:
    def __init__(self, build):
        self.program = os.path.join(build, "src", "cli", "shardc")

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        at = self.folder.name
        self.source = at + "/model.safetensors"
        self.bytes = write_checkpoint(self.source)
        self.plans = {}
        for dim, spec in ((0, '["tp"]'), (1, '[null, "tp"]')):
            with open(at + "/rules.yaml", "w") as out:
                out.write("version: 1\nrules:\n  - match: '.*'\n"
                          "    spec: %s\n" % spec)
            plan = at + "/plan%d.json" % dim
            self.failed = self._run([
                self.program, "plan", "--mesh", "tp:%d" % DEVICES,
                "--rules", at + "/rules.yaml", "--manifest", self.source,
                "-o", plan])
            self.plans[dim] = plan
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def rows(self):
        return [{"name": "split along dim %d into %d" % (dim, DEVICES),
                 "against": against, "dim": dim,
                 "rate": True, "unit": "byte/s"}
                for dim in (0, 1) for against in (DD, CP, SAFETENSORS)]

    def _run(self, command):
        before = time.perf_counter()
        try:
            done = subprocess.run(command, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE)
        except OSError as error:
            return str(error)
        if done.returncode != 0:
            lines = done.stderr.decode(errors="replace").splitlines()
            return lines[0] if lines else "exit %d" % done.returncode
        return time.perf_counter() - before

    def _peer(self, spec):
        copy = self.folder.name + "/copy"
        if spec["against"] == DD:
            return self._run(["dd", "if=" + self.source, "of=" + copy, "bs=1M",
                              "conv=notrunc"])
        if spec["against"] == CP:
            return self._run(["cp", "--reflink=never", self.source, copy])
        done = subprocess.run(
            [peers.python(), os.path.join(HERE, "safetensors_worker.py"),
             self.source, self.folder.name + "/sliced%d" % spec["dim"],
             str(spec["dim"]), str(DEVICES)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            check=False)
        if done.returncode != 0:
            return (done.stderr.strip().splitlines() or ["failed"])[-1]
        return float(done.stdout)

    def round(self, spec):
        at = self.folder.name
        ours = self._run([
            self.program, "checkpoint", "split", "--plan", self.plans[spec["dim"]],
            "--checkpoint", self.source, "--output",
            at + "/pieces%d" % spec["dim"], "--reuse", "--no-sync"])
        theirs = self._peer(spec)
        for side in (self.failed, ours, theirs):
            if isinstance(side, str):
                return {"absent": side}
        return {"ours": self.bytes / ours, "against": self.bytes / theirs}
