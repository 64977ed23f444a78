"""What the tests of checkpoints share: safetensors by the definition of the
format, plans, runs of the program in a folder of their own."""

import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "..", "python"))

from shardc import seal  # noqa: E402

BIN = os.environ["SHARDC_BIN"]
SIZES = {"U8": 1, "I8": 1, "BOOL": 1, "F8_E8M0": 1, "BF16": 2, "F16": 2,
         "F32": 4, "I64": 8}


def write_safetensors(path, tensors, metadata=None):
    """tensors: name -> (dtype, shape, bytes), in order."""
    header, at = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            out.write(data)


def read_safetensors(path):
    """name -> (dtype, shape, bytes), and the metadata; by the definition."""
    with open(path, "rb") as file:
        raw = file.read()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + length])
    metadata = header.pop("__metadata__", {})
    data, out, ends = raw[8 + length:], {}, [0]
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert 0 <= begin <= end <= len(data)
        count = SIZES[entry["dtype"]]
        for size in entry["shape"]:
            count *= size
        assert end - begin == count, name
        out[name] = (entry["dtype"], entry["shape"], data[begin:end])
        ends.append(end)
    assert max(ends) == len(data)
    return out, metadata


def make_plan(axes, params):
    """axes: [(name, size)]; params: name -> (shape, spec or fields). Sizes,
    totals and the fingerprint are those that the content gives."""
    devices = 1
    for _, size in axes:
        devices *= size
    out = {"schema": "shardc.plan/v1", "fingerprint": "",
           "mesh": {"axes": [{"name": n, "size": s, "type": "auto"}
                             for n, s in axes], "devices": devices},
           "modes": ["train", "decode"], "rules": [], "params": {},
           "attention": {}}
    sizes, total, bytes_ = dict(axes), 0, 0
    for name, (shape, fields) in params.items():
        if not isinstance(fields, dict):
            fields = {"spec": fields}
        entry = {"shape": shape, "dtype": None, "rule": None,
                 **json.loads(json.dumps(fields))}
        out["params"][name] = entry
        for layout in (entry, *entry.get("modes", {}).values()):
            known = all(axis in sizes for group in layout["spec"] for axis in
                        ([group] if isinstance(group, str) else group or ()))
            layout["shard_shape"], layout["bytes_per_device"] = seal.held(
                shape, entry["dtype"], layout["spec"], sizes) if known else (
                    None, None)
        count = 1
        for length in shape or ():
            count *= length
        total = None if total is None or shape is None else total + count
        bytes_ = None if bytes_ is None or entry["dtype"] is None else (
            bytes_ + count * SIZES[entry["dtype"]])
    held = [one["bytes_per_device"] for one in out["params"].values()]
    out["summary"] = {
        "params": len(params), "elements": total, "bytes": bytes_,
        "bytes_per_device": None if None in held else sum(held),
        "unmatched": sum(one["shape"] != [] for one in
                         out["params"].values()), "corrected": 0}
    out["fingerprint"] = seal.fingerprint(out)
    return out


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return "crc32c:%08x" % (crc ^ 0xFFFFFFFF)


class Base(unittest.TestCase):
    def setUp(self):
        # In memory where there is such a place: syncs are quick there.
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.dir = tempfile.mkdtemp(prefix="shardc_", dir=base)
        self.addCleanup(shutil.rmtree, self.dir, True)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def shardc(self, *args, status=0, env=None, **kwargs):
        run = subprocess.run([BIN, *args], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True,
                             env={**clean_env(), **(env or {})}, **kwargs)
        self.assertEqual(run.returncode, status, run.stderr)
        return run

    def write_plan(self, name, *args, **kwargs):
        with open(self.path(name), "w") as out:
            json.dump(make_plan(*args, **kwargs), out)
        return self.path(name)

    def same(self, held, want):
        """assertEqual would print megabytes, for minutes."""
        self.assertEqual(list(held), list(want))
        for name, data in want.items():
            self.assertTrue(held[name] == data, name + " differs")

    def contents(self, *names):
        out = {}
        folder = self.path(*names)
        for name in sorted(os.listdir(folder)):
            if os.path.isdir(os.path.join(folder, name)):
                continue
            with open(os.path.join(folder, name), "rb") as file:
                out[name] = file.read()
        return out


def clean_env():
    drop = ("SLURM", "OMPI", "RANK", "WORLD_SIZE")
    return {k: v for k, v in os.environ.items() if not k.startswith(drop)}


def interruptible():
    """For preexec_fn: what a shell starts in the background ignores SIGINT, and
    so do the processes that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def sample_tensors(seed=1, scale=1):
    rng = random.Random(seed)
    return {
        "embed.weight": ("BF16", [64 * scale, 32],
                         rng.randbytes(64 * scale * 32 * 2)),
        "layer.0.q.weight": ("F32", [16, 24 * scale],
                             rng.randbytes(16 * 24 * scale * 4)),
        "layer.0.norm.weight": ("F16", [7], rng.randbytes(14)),
        "empty": ("I64", [0, 4], b""),
        "scalar": ("F32", [], rng.randbytes(4)),
    }


AXES = [("dp", 2), ("fsdp", 2), ("tp", 4)]


def sample_params(scale=1):
    return {
        "embed.weight": ([64 * scale, 32], [["fsdp", "tp"], None]),
        "layer.0.q.weight": ([16, 24 * scale],
                             {"spec": [None, ["tp", "fsdp"]],
                              "modes": {"decode": {"spec": [["tp"]]}}}),
        "layer.0.norm.weight": ([7], []),
        "empty": ([0, 4], [None, "tp"]),
        "scalar": ([], []),
    }
