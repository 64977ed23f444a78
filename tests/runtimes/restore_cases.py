"""Checkpoints that shardc writes for other systems to restore.

SHARDC_WRITE_TREE is the program of tests/programs/write_tree.cc, which writes
random trees and the odd cases that are listed here.
"""

import json
import os
import random
import subprocess

import numpy as np

from records import ROOT

PROGRAM = os.environ.get(
    "SHARDC_WRITE_TREE",
    os.path.join(ROOT, "build", "tests", "programs", "write_tree"))

# shardc's name, and the bytes of an element.
WIDTHS = {"F32": 4, "F64": 8, "F16": 2, "BF16": 2, "I64": 8, "I32": 4,
          "I16": 2, "I8": 1, "U8": 1, "U16": 2, "U32": 4, "U64": 8,
          "BOOL": 1, "C64": 8, "F8_E4M3": 1, "F8_E5M2": 1}

EMPTY = [{"name": "opt/none", "kind": "empty", "text": "None"},
         {"name": "opt/mu", "kind": "empty", "text": "Dict"},
         {"name": "opt/nu", "kind": "empty", "text": "List"}]
STRING = {"name": "opt/name", "kind": "string", "text": "adam \u00e9"}


def drawn_bytes(rng, dtype, count):
    if dtype == "BOOL":
        return bytes(rng.randrange(2) for _ in range(count))
    if dtype == "I4":  # a byte for each element, with its sign
        return bytes(rng.randrange(-8, 8) & 255 for _ in range(count))
    return rng.randbytes(count * WIDTHS[dtype])


def array(rng, path, shape, dtype="F32", chunk=(), mesh=None, spec=None):
    """Integers of a path are places in lists."""
    out = {"path": path, "shape": list(shape), "dtype": dtype,
           "chunk": list(chunk),
           "bytes": drawn_bytes(rng, dtype, int(np.prod(shape, dtype=int)))}
    if mesh:
        out.update(mesh=mesh, spec=spec)
    return out


def odd_tree(rng, mesh=None):
    """Names, shapes and leaves of every kind that both formats can store."""
    def sharded(path, shape, spec, **more):
        return array(rng, path, shape, mesh=mesh, spec=spec, **more)

    arrays = [
        array(rng, ["scalar"], []),
        array(rng, ["step"], [], "I32"),
        array(rng, ["one"], [1]),
        array(rng, ["odd", "a.b"], [3, 5], "BF16"),
        array(rng, ["odd", "c/d"], [2, 2], "I8"),
        array(rng, ["odd", "a b%2f"], [4], "U8"),
        array(rng, ["odd", "\u00fcn\u00ef\u03ba"], [4], "F64"),
        array(rng, ["odd", "it's \\ \"q\""], [4], "F16"),
        array(rng, ["layers", 0, "k"], [7, 9, 2], chunk=[3, 4, 2]),
        array(rng, ["layers", 1, "k"], [7, 9, 2], chunk=[7, 1, 1]),
        array(rng, ["layers", 1, "m", 0], [2]),
        array(rng, ["digits", "0"], [2]),
        array(rng, ["large"], [300, 70], chunk=[128, 64]),
        sharded(["w"], [16, 24], [["fsdp"], ["tp"]], chunk=[8, 6]),
        sharded(["v"], [16], [["fsdp", "tp"]]),
        sharded(["u"], [4, 8, 2], [[], ["tp"]], dtype="BF16"),
    ] + [array(rng, ["types", name], [6, 4], name) for name in WIDTHS]
    return arrays, EMPTY


def drawn_tree(rng):
    arrays = []
    for i in range(rng.randrange(1, 9)):
        path = [f"k{i}"] + [rng.choice(["w", "0", "a.b", "\u00e9"])
                            for _ in range(rng.randrange(3))]
        shape = [rng.choice([1, 2, 3, 5, 8, 17])
                 for _ in range(rng.randrange(4))]
        chunk = [rng.randrange(1, 9) for _ in shape]
        arrays.append(array(rng, path, shape, rng.choice(list(WIDTHS)),
                            chunk if rng.random() < .5 else ()))
    return arrays, []


def cases():
    """{name: (arrays, leaves)}"""
    rng = random.Random(17)
    out = {"odd": odd_tree(rng),
           "string": ([array(rng, ["w"], [3])], EMPTY + [STRING])}
    for i in range(8):
        out[f"tree_{i}"] = drawn_tree(rng)
    return out


def write(form, folder, arrays, leaves, memory=1 << 28, threads=2):
    listed = [{key: value for key, value in one.items() if key != "bytes"}
              | {"path": [str(key) for key in one["path"]],
                 "in_sequence": [isinstance(key, int) for key in one["path"]]}
              for one in arrays]
    with open(folder + ".json", "w", encoding="utf-8") as file:
        json.dump({"arrays": listed, "leaves": leaves}, file)
    with open(folder + ".json.bytes", "wb") as file:
        file.write(b"".join(one["bytes"] for one in arrays))
    subprocess.run([PROGRAM, form, folder + ".json", folder, str(memory),
                    str(threads)], check=True)


def insert(tree, path, value):
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree[path[-1]] = value


def with_lists(tree):
    """The tree of `insert` with lists where the keys are integers."""
    if not isinstance(tree, dict):
        return tree
    children = {key: with_lists(child) for key, child in tree.items()}
    if children and all(isinstance(key, int) for key in children):
        return [children[key] for key in range(len(children))]
    return children
