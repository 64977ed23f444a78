"""shardc reads what orbax saves, in each of its forms, bit for bit; and what
shardc makes of such a checkpoint on another mesh, orbax restores.

The arrays are saved from 8 devices with shardings drawn at random.
"""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import inspect
import json
import random
import subprocess
import sys
import tempfile
import unittest
from typing import NamedTuple

import jax
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from records import ROOT

sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
from checkpoint_case import SIZES, make_plan, read_safetensors  # noqa: E402

jax.config.update("jax_enable_x64", True)
SIZES.update({"C64": 8, "F64": 8, "I32": 4, "U16": 2, "F8_E4M3": 1})
TYPES = {"F32": np.float32, "F64": np.float64, "F16": np.float16,
         "BF16": ml_dtypes.bfloat16, "I64": np.int64, "I32": np.int32,
         "U16": np.uint16, "U8": np.uint8, "I8": np.int8, "BOOL": np.bool_,
         "C64": np.complex64, "F8_E4M3": ml_dtypes.float8_e4m3fn}
SHAPES = [[], [8], [5], [16, 24], [7, 9], [4, 6, 10], [2, 8, 3, 4], [33, 64],
          [1, 1]]
AXES = [[("x", 2), ("y", 4)], [("x", 8)], [("x", 2), ("y", 2), ("z", 2)]]


def forms():
    """Of the handler: the name, its options, those of each array."""
    known = inspect.signature(ocp.PyTreeCheckpointHandler).parameters
    out = []
    for ocdbt in (True, False):
        for zarr3 in (False, True):
            for chunk in (None, 256):
                options = {"use_ocdbt": ocdbt, "use_zarr3": zarr3}
                options = {name: value for name, value in options.items()
                           if name in known}
                out.append((f"ocdbt {ocdbt}, zarr3 {zarr3}, chunks of {chunk} "
                            "bytes", options,
                            {"chunk_byte_size": chunk} if chunk else {}))
    return out


def drawn_spec(rng, shape, axes):
    spec, free = [], list(axes)
    for length in shape:
        fits = [one for one in free if length % one[1] == 0]
        spec.append(rng.choice(fits)[0] if fits and rng.random() < .7
                    else None)
        free = [one for one in free if one[0] != spec[-1]]
    return spec


def without_nan(dtype, data):
    """Clears the first bit of exponents: saving with orbax 0.11.20 and jax
    0.6.2 changes the payload of a bfloat16 NaN."""
    if dtype[0] not in "BFC" or dtype == "BOOL":
        return data
    out = bytearray(data)
    width = 4 if dtype == "C64" else SIZES[dtype]
    out[width - 1::width] = bytes(byte & 0xBF for byte in out[width - 1::width])
    return bytes(out)


def drawn_tree(rng):
    axes = rng.choice(AXES)
    mesh = Mesh(np.array(jax.devices()).reshape([n for _, n in axes]),
                [name for name, _ in axes])
    tree, held = {"layers": []}, {}
    for i, (dtype, kind) in enumerate(TYPES.items()):
        shape = rng.choice(SHAPES)
        count = int(np.prod(shape, dtype=int)) * np.dtype(kind).itemsize
        data = (bytes(rng.randrange(2) for _ in range(count))
                if dtype == "BOOL" else rng.randbytes(count))
        data = without_nan(dtype, data)
        value = np.frombuffer(data, kind).reshape(shape)
        held[f"layers/{i}/w.{dtype}"] = (dtype, shape, data)
        spec = PartitionSpec(*drawn_spec(rng, shape, axes))
        tree["layers"].append({f"w.{dtype}": jax.device_put(
            value, NamedSharding(mesh, spec)) if rng.random() < .8
            else np.array(value)})
    return tree, held


def shardc(*args):
    subprocess.run([os.environ["SHARDC_BIN"], *args], check=True,
                   stderr=subprocess.DEVNULL)


def merged(source, out):
    shardc("checkpoint", "merge", source, "--output", out)
    return read_safetensors(out)[0]


def restored(path):
    """The arrays of a checkpoint by orbax itself, as `merged` has them."""
    with ocp.PyTreeCheckpointer() as checkpointer:
        tree = checkpointer.restore(path)
    names = {np.dtype(kind): name for name, kind in TYPES.items()}
    out = {}
    for keys, value in jax.tree_util.tree_flatten_with_path(tree)[0]:
        value = np.asarray(value)
        name = "/".join(str(getattr(key, "key", getattr(key, "idx", None)))
                        for key in keys)
        out[name] = (names[value.dtype], list(value.shape), value.tobytes())
    return out


class Reads(unittest.TestCase):
    def compare(self, got, wanted, what):
        self.assertEqual(sorted(got), sorted(wanted), what)
        for name, value in wanted.items():
            self.assertTrue(tuple(got[name]) == tuple(value),
                            f"{what}: {name} {got[name][:2]} {value[:2]}")

    def test_what_orbax_saves_in_each_form(self):
        rng = random.Random(31)
        compared = 0
        with tempfile.TemporaryDirectory() as folder:
            for number, (what, options, per_array) in enumerate(forms()):
                tree, held = drawn_tree(rng)
                path = os.path.join(folder, f"saved{number}")
                handler = ocp.PyTreeCheckpointHandler(**options)
                with ocp.Checkpointer(handler) as checkpointer:
                    checkpointer.save(path, args=ocp.args.PyTreeSave(
                        tree, save_args=jax.tree.map(
                            lambda _: ocp.SaveArgs(**per_array), tree)))
                out = os.path.join(folder, "merged.safetensors")
                self.compare(merged(path, out), held, what)
                compared += len(held)
                # On another mesh, and restored by orbax.
                axes = rng.choice(AXES)
                plan = os.path.join(folder, "plan.json")
                with open(plan, "w", encoding="utf-8") as file:
                    json.dump(make_plan(axes, {
                        name: (shape, drawn_spec(rng, shape, axes))
                        for name, (_, shape, _) in held.items()}), file)
                again = os.path.join(folder, f"again{number}")
                shardc("checkpoint", "reshard", path, "--plan", plan, "--as",
                       "orbax", "--output", again)
                self.compare(restored(again), held, what)
                torch = os.path.join(folder, f"torch{number}")
                shardc("checkpoint", "reshard", again, "--plan", plan, "--as",
                       "dcp", "--output", torch)
                shardc("checkpoint", "merge", torch, "--as", "orbax", "--output",
                       again + "-back")
                self.compare(merged(again + "-back", out), held, what)
        print(f"orbax-checkpoint {ocp.__version__}, jax {jax.__version__}: "
              f"{compared} arrays of {len(forms())} forms read, resharded and "
              "restored")


class Moments(NamedTuple):
    count: jax.Array
    mu: dict


class Empty(NamedTuple):
    pass


def train_state():
    """Lists of ten and more, empty nodes between arrays, random keys."""
    arrays = iter(range(1000))

    def array(*shape):
        return jax.numpy.full(shape, next(arrays), jax.numpy.float32)

    state = {"params": {"layers": [{"w": array(4, 8)} for _ in range(12)]},
             "opt_state": (Empty(), Moments(array(), {"w": array(3)}), None,
                           {}, [array(2)], ())}
    # Before, orbax saved no random keys.
    version = [int(part) for part in ocp.__version__.split(".")[:3]]
    if version >= [0, 11, 20]:
        state.update(rng=jax.random.key(3),
                     dropout=jax.random.key(5, impl="rbg"))
    return state


def leaves_of(tree):
    is_key = jax.dtypes.prng_key
    return [(str(jax.random.key_impl(one)) if jax.dtypes.issubdtype(
        one.dtype, is_key) else str(one.dtype), np.asarray(
            jax.random.key_data(one) if jax.dtypes.issubdtype(
                one.dtype, is_key) else one).tobytes())
            for one in jax.tree.leaves(tree)]


class Trees(unittest.TestCase):
    def restore(self, path, state, keys):
        """With the tree as a target, and without one."""
        if not keys:
            state = {name: state[name] for name in ("params", "opt_state")}
        with ocp.PyTreeCheckpointer() as checkpointer:
            plain = checkpointer.restore(path)
        with ocp.StandardCheckpointer() as checkpointer:
            got = checkpointer.restore(path, jax.tree.map(
                ocp.utils.to_shape_dtype_struct, state)) if keys else None
        self.assertEqual(len(plain["params"]["layers"]), 12)
        for index, layer in enumerate(plain["params"]["layers"]):
            self.assertEqual(float(np.asarray(layer["w"])[0, 0]), index)
        self.assertIsInstance(plain["opt_state"], list)
        self.assertEqual(len(plain["opt_state"]), 6)
        if keys:
            self.assertEqual(jax.tree.structure(got),
                             jax.tree.structure(state))
            self.assertEqual(leaves_of(got), leaves_of(state))

    def test_a_train_state_is_its_own_tree_through_other_formats(self):
        state = train_state()
        with tempfile.TemporaryDirectory() as folder:
            def at(name):
                return os.path.join(folder, name)

            with ocp.StandardCheckpointer() as checkpointer:
                checkpointer.save(at("saved"), state)
                if hasattr(checkpointer, "wait_until_finished"):
                    checkpointer.wait_until_finished()
            shardc("checkpoint", "merge", at("saved"), "--output", at("m.safetensors"))
            shardc("checkpoint", "merge", at("m.safetensors"), "--as", "dcp", "--output",
                   at("dcp"))
            # DCP has no random keys: they are arrays of their words there.
            for source, keys in (("saved", True), ("m.safetensors", True),
                                 ("dcp", False)):
                with self.subTest(source):
                    shardc("checkpoint", "merge", at(source), "--as", "orbax", "--output",
                           at("from-" + source))
                    self.restore(at("from-" + source), state, keys)
            # A list of which an element was left out is a dictionary.
            shardc("checkpoint", "merge", at("saved"), "--params", "params/layers/[13]/",
                   "--as", "orbax", "--output", at("some"))
            with ocp.PyTreeCheckpointer() as checkpointer:
                some = checkpointer.restore(at("some"))
            self.assertEqual(sorted(some["params"]["layers"]), ["1", "3"])


if __name__ == "__main__":
    unittest.main()
