"""The checkpoints that orbax, tensorstore and PyTorch wrote (testdata/stored),
and a writer of zarr folders."""

import json
import os
import random

from checkpoint_case import SIZES

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SAMPLES = os.path.join(ROOT, "testdata", "stored")
SIZES.update({"F8_E4M3": 1, "F8_E5M2": 1, "C64": 8, "U32": 4, "I32": 4,
              "F64": 8, "I16": 2, "U16": 2, "U64": 8})


def wanted(sample):
    with open(os.path.join(SAMPLES, sample + ".want.json")) as file:
        return json.load(file)


def sample_names():
    end = ".want.json"
    return sorted(name[:-len(end)] for name in os.listdir(SAMPLES)
                  if name.endswith(end))


def key_of(name, want):
    """The storage name of a parameter: orbax joins the path by dots."""
    if name in want:
        return name
    return "" if name == "." else name.replace("/", ".")


def write_zarr(folder, arrays, seed=1):
    """Random arrays of F32, uncompressed; name -> (shape, chunk). Returns the
    bytes of each."""
    rng, out = random.Random(seed), {}
    for name, ((rows, columns), (height, width)) in arrays.items():
        where = os.path.join(folder, name)
        os.makedirs(where)
        with open(os.path.join(where, ".zarray"), "w") as file:
            json.dump({"zarr_format": 2, "shape": [rows, columns],
                       "chunks": [height, width], "dtype": "<f4",
                       "compressor": None, "fill_value": None,
                       "filters": None, "order": "C"}, file)
        data = rng.randbytes(rows * columns * 4)
        out[name] = data
        for i in range(0, rows, height):
            for k in range(0, columns, width):
                chunk = bytearray(height * width * 4)
                used = min(width, columns - k) * 4
                for row in range(i, min(i + height, rows)):
                    at = (row * columns + k) * 4
                    to = (row - i) * width * 4
                    chunk[to:to + used] = data[at:at + used]
                place = "%d.%d" % (i // height, k // width)
                with open(os.path.join(where, place), "wb") as file:
                    file.write(chunk)
    return out
