"""Functions with ops of which nothing is known: a kernel of their own, a call of a
foreign library, and an op that is no class of the format.

Usage: opaque_models.py, in an environment with JAX. Writes testdata/opaque."""

import functools
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "python")]

# The paths above must be set first.
# pylint: disable=wrong-import-position
import jax
import jax.numpy as jnp
from jax.experimental import pallas
from jax.extend.core import Primitive
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from layers import shape
from shardc import program

FOLDER = os.path.join(ROOT, "testdata", "opaque")
PARAMS = {"up": shape(16, 32), "down": shape(32, 16)}


def halves(x, y):
    y[...] = x[...] * 0.5


def pallas_call(p, b):
    h = jnp.sin(b["x"] @ p["up"])
    h = pallas.pallas_call(halves, out_shape=shape(*h.shape), interpret=True)(h)
    return h @ p["down"]


def ffi_call(p, b):
    h = jnp.sin(b["x"] @ p["up"])
    h = jax.ffi.ffi_call("a_library_of_theirs", shape(*h.shape))(h, eps=1e-6)
    return h @ p["down"]


# A primitive that no release of JAX has.
frobnicate = Primitive("frobnicate")
frobnicate.def_abstract_eval(lambda x: x)


def invented(p, b):
    h = jnp.sin(b["x"] @ p["up"])
    h = frobnicate.bind(h)
    return h @ p["down"]


def kernel_in_region(p, b):
    """As kernels are used on several devices: each runs one on its shard."""
    @functools.partial(jax.shard_map, mesh=AbstractMesh(
        (2, 2), ("fsdp", "tp"), axis_types=(AxisType.Auto,) * 2),
        in_specs=P("fsdp", "tp"), out_specs=P("fsdp", "tp"), check_vma=False)
    def local(h):
        return pallas.pallas_call(halves, out_shape=shape(*h.shape),
                                  interpret=True)(h)
    return local(jnp.sin(b["x"] @ p["up"])) @ p["down"]


def kernel_in_scan(p, b):
    def turn(h, _):
        return pallas.pallas_call(halves, out_shape=shape(*h.shape),
                                  interpret=True)(h) + 1, None
    h, _ = jax.lax.scan(turn, jnp.sin(b["x"] @ p["up"]), None, 3)
    return h @ p["down"]


OPAQUE = {one.__name__: one for one in (
    pallas_call, ffi_call, invented, kernel_in_region, kernel_in_scan)}


def main():
    os.chdir(ROOT)
    os.makedirs(FOLDER, exist_ok=True)
    for name, function in OPAQUE.items():
        made = program.traced(function, (PARAMS, {"x": shape(8, 16)}),
                              f"opaque_models:{name}").program
        program.write(made, os.path.join(FOLDER, name + ".program.json.gz"))
        print(name, made["unknown"])


if __name__ == "__main__":
    main()
