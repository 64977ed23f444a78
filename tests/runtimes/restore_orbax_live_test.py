"""orbax restores the checkpoints that shardc writes, bit for bit.

Every number of devices is a process of its own, since JAX fixes it at its
start: the test runs this file with the number and a folder of checkpoints.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

if __name__ == "__main__" and len(sys.argv) == 3:
    os.environ["XLA_FLAGS"] = (
        f"--xla_force_host_platform_device_count={sys.argv[1]}")
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import NamedSharding, PartitionSpec

import random

import restore_cases

jax.config.update("jax_enable_x64", True)
DEVICES = (1, 2, 8)
TYPES = {"BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn,
         "F8_E5M2": ml_dtypes.float8_e5m2, "I4": ml_dtypes.int4,
         "BOOL": np.bool_, "C64": np.complex64}


def numpy_type(name):
    if name in TYPES:
        return np.dtype(TYPES[name])
    return np.dtype({"F": "f", "I": "i", "U": "u"}[name[0]]
                    + str(int(name[1:]) // 8))


def wanted_of(one):
    return np.frombuffer(one["bytes"], numpy_type(one["dtype"])).reshape(
        one["shape"])


def at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def same(got, one):
    got = np.asarray(got)
    wanted = wanted_of(one)
    assert got.dtype == wanted.dtype, (one["path"], got.dtype, wanted.dtype)
    assert got.shape == wanted.shape, (one["path"], got.shape)
    assert got.tobytes() == wanted.tobytes(), one["path"]


def sharded_target(arrays):
    """Shapes with shardings over all devices that the sizes allow."""
    count = jax.device_count()
    axes = (count // 2, 2) if count > 2 else (1, count)
    mesh = jax.make_mesh(axes, ("x", "y"))
    target = {}
    for one in arrays:
        spec = [None] * len(one["shape"])
        for dim, (name, size) in enumerate(zip(("y", "x"), axes[::-1])):
            if dim < len(spec) and one["shape"][dim] % size == 0:
                spec[dim] = name
        restore_cases.insert(target, one["path"], jax.ShapeDtypeStruct(
            one["shape"], numpy_type(one["dtype"]),
            sharding=NamedSharding(mesh, PartitionSpec(*spec))))
    return target


def restore_all(folder):
    """Restores in this process; the number of arrays that were compared."""
    compared = 0
    for name, (arrays, leaves) in restore_cases.cases().items():
        path = os.path.join(folder, name)
        with ocp.PyTreeCheckpointer() as checkpointer:
            tree = checkpointer.restore(path)
        for one in arrays:
            same(at(tree, one["path"]), one)
        for leaf in leaves:
            got = at(tree, leaf["name"].split("/"))
            wanted = {"None": None, "Dict": {}, "List": []}.get(
                leaf["text"], leaf["text"])
            assert got == wanted, (leaf, got)
        if restore_cases.STRING in leaves:
            compared += len(arrays)
            continue  # which a target of StandardCheckpointer cannot hold
        target = sharded_target(arrays)
        for leaf in leaves:
            # Given as they were saved.
            restore_cases.insert(target, leaf["name"].split("/"), at(
                tree, leaf["name"].split("/")))
        target = restore_cases.with_lists(target)
        with ocp.StandardCheckpointer() as checkpointer:
            placed = checkpointer.restore(path, target)
        for one in arrays:
            got = at(placed, one["path"])
            assert isinstance(got, jax.Array), one["path"]
            assert got.sharding == at(target, one["path"]).sharding
            same(got, one)
        compared += 2 * len(arrays)
    with ocp.CheckpointManager(os.path.join(folder, "manager")) as manager:
        assert manager.latest_step() == 30, manager.all_steps()
        tree = manager.restore(30, args=ocp.args.StandardRestore())
        arrays, _ = restore_cases.cases()["tree_0"]
        for one in arrays:
            same(at(tree, one["path"]), one)
        compared += len(arrays)
    return compared


def restore_sharded(folder):
    """Without a target on 8 devices: the shardings are those recorded."""
    arrays, _ = restore_cases.odd_tree(random.Random(3), MESH)
    with ocp.PyTreeCheckpointer() as checkpointer:
        tree = checkpointer.restore(os.path.join(folder, "sharded"))
    mesh = jax.make_mesh((2, 4), ("fsdp", "tp"))
    compared = 0
    for one in arrays:
        got = at(tree, one["path"])
        same(got, one)
        if "spec" not in one:
            continue
        spec = PartitionSpec(*(tuple(group) or None for group in one["spec"]))
        assert got.sharding.is_equivalent_to(
            NamedSharding(mesh, spec), got.ndim), (one["path"], got.sharding)
        compared += 1
    return compared


MESH = [["fsdp", 2], ["tp", 4]]


class Restores(unittest.TestCase):
    def test_orbax_restores_what_shardc_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, (arrays, leaves) in restore_cases.cases().items():
                # A small memory divides the chunks.
                memory = 4096 if name == "tree_1" else 1 << 28
                restore_cases.write("orbax", os.path.join(folder, name),
                                    arrays, leaves, memory)
            arrays, leaves = restore_cases.odd_tree(random.Random(3), MESH)
            restore_cases.write("orbax", os.path.join(folder, "sharded"),
                                arrays, leaves)
            for step in (2, 30):
                path = os.path.join(folder, "manager", str(step))
                os.makedirs(path)
                restore_cases.write("orbax", os.path.join(path, "default"),
                                    *restore_cases.cases()["tree_0"])
                for left in ("default.json", "default.json.bytes"):
                    os.remove(os.path.join(path, left))
            for devices in DEVICES:
                with self.subTest(devices=devices):
                    done = subprocess.run(
                        [sys.executable, __file__, str(devices), folder],
                        capture_output=True, encoding="utf-8", check=False)
                    self.assertEqual(done.returncode, 0, done.stderr[-4000:])
                    counted = json.loads(done.stdout.splitlines()[-1])
                    print(f"orbax-checkpoint {ocp.__version__}, jax "
                          f"{jax.__version__}, {devices} devices: "
                          f"{counted[0]} arrays restored, {counted[1]} with "
                          "the sharding that was written")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        assert jax.device_count() == int(sys.argv[1])
        restored = restore_all(sys.argv[2])
        print(json.dumps([restored, restore_sharded(sys.argv[2])
                          if sys.argv[1] == "8" else 0]))
    else:
        unittest.main()
