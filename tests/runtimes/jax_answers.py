"""Shardings by JAX: which device holds which slice, and XLA's and Shardy's
texts. Nothing is computed on the devices."""

import math
import os
import re

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import random_shardings
import records

jax.config.update("jax_num_cpu_devices", random_shardings.MAX_DEVICES)


def jax_mesh(axes):
    """Devices in row-major order, every axis automatic."""
    devices = jax.devices()[:math.prod(axes.values())]
    return Mesh(np.array(devices).reshape(list(axes.values())), list(axes))


def named_sharding(case):
    spec = [tuple(e) if isinstance(e, list) else e for e in case["spec"]]
    return NamedSharding(jax_mesh(case["mesh"]), PartitionSpec(*spec))


def offsets(sharding, shape):
    """Where each device's slice starts, by device number; the slices have
    the size of `shard_shape`, which is checked here."""
    shard = sharding.shard_shape(tuple(shape))
    starts = {}
    for device, slices in sharding.devices_indices_map(tuple(shape)).items():
        ends = [s.indices(n)[:2] for s, n in zip(slices, shape)]
        assert all(e - b == n for (b, e), n in zip(ends, shard))
        starts[device.id] = [b for b, _ in ends]
    return [starts[number] for number in range(len(starts))]


def shardy_texts(sharding, shape):
    """The mesh and the argument's sharding in the module that JAX lowers."""
    argument = jax.ShapeDtypeStruct(tuple(shape), np.float32,
                                    sharding=sharding)
    module = jax.jit(lambda x: x).lower(argument).as_text()
    mesh = re.search(r"sdy\.mesh @mesh = (<.*?>)(?: \{|$)", module, re.M)
    text = re.search(r"sdy\.sharding = (#sdy\.sharding<.*?>)[,}]", module)
    return mesh and mesh.group(1), text and text.group(1)


def hlo_texts(sharding, mesh, rank):
    """XLA's own printing: the iota form, the form with a device list, the
    form that names axes."""
    tiled = sharding._to_xla_hlo_sharding(rank)
    kind = type(tiled)
    listed = str(tiled)
    if tiled.is_tiled():
        devices = ",".join(map(str, tiled.tile_assignment_devices()))
        listed = re.sub(r"<=\[[\d,]*\](T\([\d,]*\))?", devices, str(tiled))
    assert same_hlo(kind.from_string(listed), tiled)
    axes = ",".join(f'"{name}"={size}' for name, size in mesh.items())
    groups = [e if isinstance(e, tuple) else (e,) if e else ()
              for e in sharding.spec]
    groups += [()] * (rank - len(groups))
    dims = ",".join("{" + ",".join(f'"{a}"' for a in g) + "}" for g in groups)
    named = kind.from_string("{mesh[" + axes + "], [" + dims + "]}")
    assert same_hlo(kind.v3_to_v2_sharding(named), tiled), (named, tiled)
    return {"hlo": str(tiled), "hlo_listed": listed, "hlo_named": str(named)}


def same_hlo(a, b):
    """Equal up to how the device order is written."""
    if not (a.is_tiled() and b.is_tiled()):
        return str(a) == str(b)
    return (a.tile_assignment_dimensions() == b.tile_assignment_dimensions()
            and a.tile_assignment_devices() == b.tile_assignment_devices()
            and a.replicate_on_last_tile_dim() ==
            b.replicate_on_last_tile_dim())


def answer(case):
    """What is recorded of a legal case."""
    sharding = named_sharding(case)
    mesh, shardy = shardy_texts(sharding, case["shape"])
    return {"shard_shape": list(sharding.shard_shape(tuple(case["shape"]))),
            "offsets": offsets(sharding, case["shape"]),
            **hlo_texts(sharding, case["mesh"], len(case["shape"])),
            "shardy_mesh": mesh, "shardy": shardy}


def refusal(case):
    """The error that an illegal case raises: its type and first line. A
    spec longer than the rank passes `devices_indices_map`; what jit and
    device_put ask of a sharding refuses it."""
    try:
        sharding = named_sharding(case)
        sharding.check_compatible_aval(tuple(case["shape"]))
        offsets(sharding, case["shape"])
    except Exception as error:  # JAX has a class of its own for some
        return {"error": type(error).__name__,
                "message": str(error).split("\n")[0]}
    return {"error": None, "message": None}


class SlicedDevice:
    """What mesh_utils reads of a device."""

    platform = device_kind = "cpu"

    def __init__(self, number, per_slice):
        self.id = number
        self.slice_index = number // per_slice
        self.process_index = 0


def device_grid(case):
    """Device numbers of the whole mesh, in its row-major order."""
    per_slice = math.prod(case["inner"])
    devices = [SlicedDevice(i, per_slice)
               for i in range(per_slice * math.prod(case["outer"]))]
    grid = mesh_utils.create_hybrid_device_mesh(case["inner"], case["outer"],
                                                devices)
    return {"shape": list(grid.shape), "devices": [d.id for d in grid.flat]}


COUNTS = {"shardings": 1000, "refusals": 120, "slice_meshes": 60}


def record():
    """The records of JAX by name."""
    def answered(cases, answers):
        return [{**case, **answers(case)} for case in cases]

    used = records.versions("jax", "jaxlib")
    legal = random_shardings.shardings(COUNTS["shardings"], 1)
    illegal = random_shardings.refusals(COUNTS["refusals"], 2)
    sliced = random_shardings.slice_meshes(COUNTS["slice_meshes"], 3)
    yield "jax/shardings", {
        "format": "shardc.runtimes.shardings/v1", "versions": used,
        "cases": answered(legal, answer)}
    yield "jax/refusals", {
        "format": "shardc.runtimes.refusals/v1", "versions": used,
        "cases": answered(illegal, refusal)}
    yield "jax/slice_meshes", {
        "format": "shardc.runtimes.slice_meshes/v1", "versions": used,
        "cases": answered(sliced, device_grid)}
