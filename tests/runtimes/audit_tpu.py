"""Compiles the programs of audit_programs.py for TPUs, without a TPU. Run by
hand, with jax and libtpu of one release:

    cd tests/runtimes; python3 audit_tpu.py OUT_FOLDER [NAME...]

Writes the optimised text of each for eight chips of v5e and of v5p. Nothing is
run: a text shows what the back end has scheduled.
"""

import importlib.util
import os
import sys

os.environ.update({
    "TPU_SKIP_MDS_QUERY": "1", "TPU_ACCELERATOR_TYPE": "v5litepod-8",
    "TPU_WORKER_HOSTNAMES": "localhost"})
LIBTPU = importlib.util.find_spec("libtpu")
if LIBTPU is not None:
    os.environ["TPU_LIBRARY_PATH"] = os.path.join(
        os.path.dirname(LIBTPU.origin), "libtpu.so")

# The settings above must precede the import.
# pylint: disable=wrong-import-position
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh

import audit_programs as programs

TOPOLOGIES = {"v5e": "v5e:2x4", "v5p": "v5p:2x2x2"}
# A callback needs a device that runs.
LEFT_OUT = {"host_callback"}


def mesh_of(topology):
    devices = topologies.get_topology_desc(
        platform="tpu", topology_name=topology).devices
    return Mesh(np.array(devices)[:8].reshape(2, 2, 2), ("dp", "fsdp", "tp"))


def main():
    folder, names = sys.argv[1], sys.argv[2:]
    for chip, topology in TOPOLOGIES.items():
        programs.MESH = mesh_of(topology)
        for program in programs.PROGRAMS:
            name = program.__name__
            if name in LEFT_OUT or (names and name not in names):
                continue
            compiled = program(name).compile()
            programs.put(folder, f"{chip}.{name}", compiled.as_text())
            print(chip, name, flush=True)


if __name__ == "__main__":
    main()
