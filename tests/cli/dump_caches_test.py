"""`verify --dump` of caches and pages can be recomputed from its tensors alone.

Every step is computed again in numpy: what enters is rotated, quantised or
rounded, written to the slots of its positions and read back; the state after
must be that of the dump in every bit, and the output that of dense attention.
"""

import glob
import json
import os
import struct
import sys
import tempfile
import unittest

import numpy as np

from driver import run
from verify_case import sizes

SIZES = "heads=8,kv_heads=4,head_dim=16,batch=4,q_len=16,kv_len=32"
DTYPES = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I8": "i1", "F16": "<f2",
          "BOOL": "i1"}


def tensors_of(path):
    """All tensors of a safetensors file; 16 bits are read as float32."""
    with open(path, "rb") as file:
        data = file.read()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    out = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[8 + size + begin:8 + size + end]
        if entry["dtype"] == "BF16":
            bits = np.frombuffer(raw, "<u2").astype("<u4") << 16
            array = bits.view("<f4")
        else:
            array = np.frombuffer(raw, DTYPES[entry["dtype"]])
            if entry["dtype"] == "F16":
                array = array.astype(np.float32)
        out[name] = array.reshape(entry["shape"])
    return out, {name: entry["dtype"] for name, entry in header.items()
                 if name != "__metadata__"}


def to_bf16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    return (rounded & 0xFFFF0000).astype(np.uint32).view(np.float32)


def rounded(x, dtype):
    if dtype == "BF16":
        return to_bf16(x)
    return x.astype(np.float16).astype(np.float32) if dtype == "F16" else x


def int8_rows(x):
    """Values and the largest magnitude of each row."""
    scale = np.abs(x).max(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.rint(x * (np.float32(127.5) / scale)[..., None])
    steps = np.where(scale[..., None] == 0, 0, steps)
    return np.clip(steps, -128, 127).astype(np.int8), scale


def phases(tensors):
    """Tensors by phase, in the order of the dump."""
    out = {}
    for name, array in tensors.items():
        phase, _, rest = name.partition("/")
        out.setdefault(phase, {})[rest] = array
    return out


class Cache:
    """A dumped trace of a cache."""

    def __init__(self, test, tensors, dtypes):
        self.test = test
        self.phases = phases(tensors)
        self.dtypes = dtypes
        settings = self.phases.pop("settings-0000")
        self.slots = int(settings["slots"][0])
        self.window = int(settings["window"][0])
        self.interleaved = bool(settings["interleaved"][0])
        self.frequencies = settings["rotary_frequencies"]
        self.amplitude, self.scale, self.soft_cap = settings[
            "amplitude_scale_soft_cap"]

    def same(self, ours, theirs, what):
        self.test.assertTrue(np.array_equal(ours, theirs), what)

    def rotated(self, x, position):
        """x [heads, D] at a position, in float64."""
        angle = position * self.frequencies
        sin, cos = np.sin(angle) * self.amplitude, \
            np.cos(angle) * self.amplitude
        half = len(self.frequencies)
        x = x.astype(np.float64)
        if self.interleaved:
            a, b = x[..., 0::2], x[..., 1::2]
            out = np.empty_like(x)
            out[..., 0::2], out[..., 1::2] = a * cos - b * sin, \
                b * cos + a * sin
            return out
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def check(self):
        for name, phase in self.phases.items():
            if name.startswith("insert"):
                self.insertion(name, phase)
            elif "after/key" in phase:
                self.append(name, phase)
            if "output" in phase:
                self.attention(name, phase)
        return len(self.phases)

    def insertion(self, name, phase):
        slot = int(phase["slot"][0])
        for part in sorted(key.removeprefix("before/") for key in phase
                           if key.startswith("before/")):
            want = phase["before/" + part].copy()
            want[slot] = phase["row/" + part][0]
            self.same(want, phase["after/" + part], f"{name} {part}")

    def append(self, name, phase):
        index, counts = phase["before/index"], phase["counts"]
        state = {key.removeprefix("before/"): value.copy()
                 for key, value in phase.items() if key.startswith("before/")}
        tokens = phase["in/key"].shape[1]
        for row in range(len(index)):
            for i in range(tokens):
                position = int(index[row]) + i
                if i >= counts[row]:
                    self.test.assertEqual(phase["owners"][row, i], -1)
                    continue
                self.token(name, phase, state, row, i, position)
            state["index"][row] += counts[row]
        for part, want in state.items():
            self.same(want, phase["after/" + part], f"{name} {part}")

    def token(self, name, phase, state, row, i, position):
        exact = self.rotated(phase["raw/key"][row, i], position)
        error = np.abs(exact - phase["in/key"][row, i]).max()
        self.test.assertLessEqual(
            error, 0.02 * max(1, np.abs(exact).max()), name)
        slot = position % self.slots if self.window else position
        owner = int(phase["owners"][row, i])
        each = self.slots // int(phase["length_parts"][0])
        self.test.assertEqual(owner, slot // each)
        for part in ("key", "value"):
            entered = phase["in/" + part][row, i]
            dtype = self.dtypes[f"{name}/before/{part}"]
            if dtype == "I8":
                values, scale = int8_rows(entered)
                state[part][row, slot] = values
                state[part + "_scale"][row, slot] = scale
            else:
                state[part][row, slot] = rounded(entered, dtype)
        if "positions" in state:
            state["positions"][row, slot] = position

    def attention(self, name, phase):
        index, start = phase["after/index"], phase["after/start"]
        key, value = (phase["after/" + part].astype(np.float64)
                      for part in ("key", "value"))
        if self.dtypes[f"{name}/after/key"] == "I8":
            key *= phase["after/key_scale"][..., None] / 127.5
            value *= phase["after/value_scale"][..., None] / 127.5
        query, output = phase["query"], phase["output"]
        groups = query.shape[2] // key.shape[2]
        for row in range(len(index)):
            where = phase["after/positions"][row] if self.window else \
                np.arange(self.slots)
            seen = (where >= max(0, start[row])) & (where < index[row])
            if self.window:
                seen &= where >= index[row] - self.window
            self.same(seen, phase["mask"][row] != 0, f"{name} mask")
            for head in range(query.shape[2]):
                k, v = key[row, :, head // groups], value[row, :,
                                                          head // groups]
                score = self.scale * k @ query[row, 0, head].astype(np.float64)
                if self.soft_cap:
                    score = self.soft_cap * np.tanh(score / self.soft_cap)
                score = np.where(seen, score, -np.inf)
                weight = np.exp(score - score.max())
                want = weight / weight.sum() @ v
                error = np.abs(want - output[row, 0, head]).max()
                narrow = self.dtypes[f"{name}/output"] != "F32"
                self.test.assertLessEqual(
                    error, (0.05 if narrow else 1e-4) * max(
                        1, np.abs(want).max()), name)


class Pages:
    """A dumped trace of pages; each request's tokens are followed here."""

    def __init__(self, test, tensors, dtypes):
        self.test = test
        self.phases = phases(tensors)
        settings = self.phases.pop("settings-0000")
        self.size = int(settings["page_size"][0])
        self.heads, self.dim = map(int, settings["key_heads_head_dim"])
        self.format = int(settings["format"][0])
        self.dtype = dtypes["step-0000/before/first"]

    def read(self, phase, page, offset):
        """(key, value) of a token as [heads, D]."""
        first = phase["after/first"][page, offset]
        if self.format == 0:
            return first[0::2], first[1::2]
        if self.format == 1:
            return first, phase["after/second"][page, offset]
        flat = first.reshape(-1, first.shape[-1])
        if self.dim == 64:
            return flat[:self.heads, :64], flat[:self.heads, 64:128]
        return (flat[0:2 * self.heads:2, :self.dim],
                flat[1:2 * self.heads:2, :self.dim])

    def check(self):
        requests = {}
        for name, phase in self.phases.items():
            if "grow" in phase:
                row = int(phase["grow"][0])
                for key, value in zip(phase["in/key"], phase["in/value"]):
                    requests.setdefault(row, []).append((key, value))
            if "share" in phase:
                source, to = map(int, phase["share"])
                requests[to] = list(requests.get(source, []))
            if "release" in phase:
                requests[int(phase["release"][0])] = []
            for row, tokens in requests.items():
                self.test.assertEqual(phase["after/lengths"][row],
                                      len(tokens), name)
                self.request(name, phase, row, tokens)
        return len(self.phases)

    def request(self, name, phase, row, tokens):
        for position, token in enumerate(tokens):
            page = phase["after/table"][row, position // self.size]
            offset = position % self.size
            for part, entered, got in zip(("key", "value"), token,
                                          self.read(phase, page, offset)):
                if self.dtype == "I8":
                    want, scale = int8_rows(entered)
                    held = phase[f"after/{part}_scale"][page, offset]
                    self.test.assertTrue(np.array_equal(scale, held), name)
                else:
                    want = rounded(entered, self.dtype)
                self.test.assertTrue(np.array_equal(want, got),
                                     f"{name} {part} {row} {position}")


class Dumps(unittest.TestCase):
    def dump(self, *flags):
        """Phases recomputed over all cases of caches and of pages."""
        counts = [0, 0]
        with tempfile.TemporaryDirectory() as folder:
            done = run("verify", "--no-project", "--dump", folder, "-q",
                       *flags)
            self.assertEqual(done.rc, 0, done.err)
            for path in sorted(glob.glob(os.path.join(folder,
                                                      "*.safetensors"))):
                tensors, dtypes = tensors_of(path)
                if "settings-0000/slots" in tensors:
                    counts[0] += Cache(self, tensors, dtypes).check()
                elif "settings-0000/page_size" in tensors:
                    counts[1] += Pages(self, tensors, dtypes).check()
        return counts

    def test_every_step_of_caches_and_pages(self):
        caches = pages = 0
        for mesh, more in (
                ("dp:2,sp:2,tp:2", ("--kv-dtype", "int8")),
                ("dp:2,tp:2", ("--kv-dtype", "bfloat16", "--page-size", "4"))):
            found = self.dump("--mesh", mesh, *sizes(SIZES), "--dtype",
                              "float32", "--mode", "decode,insert", *more)
            caches, pages = caches + found[0], pages + found[1]
        self.assertGreater(caches, 10)
        self.assertGreater(pages, 10)
        print(f"{caches} phases of caches and {pages} of pages are recomputed")

    def test_a_window_whose_slots_are_used_again(self):
        caches, _ = self.dump(
            "--full", "--mesh", "dp:2,tp:2", *sizes(SIZES + ",window=12"), "--dtype", "float32", "--kv-dtype", "int8",
            "--mode", "decode")
        self.assertGreater(caches, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
