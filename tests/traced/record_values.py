"""Writes testdata/programs/VALUES.json: what JAX computes from the numbers that a proof
draws for the programs of this folder.

Usage: SHARDC_BIN=... record_values.py [PROGRAM...], in an environment with JAX, Flax and optax. A
proof draws the inputs from a seed (src/exec/machine/random.cc, Philox), and its report
has the bound of each input's integers. The file has, of each result of each program, the sum
of its numbers and of their squares in float32, by jax.jit of the user's function."""

import gzip
import json
import os
import subprocess
import sys
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "python")]

# The paths above must be set first.
# pylint: disable=wrong-import-position
import jax
import numpy as np

from drawn_inputs import drawn
from record import FOLDER, REGION_FOLDER, versions


def functions():
    """The functions that were traced, of the arrays of their inputs, by the path of
    their program."""
    from models import FORWARD, MODELS
    import regions
    from shardc import program

    # The regions are traced with an abstract mesh.
    regions.MESH = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4),
                                     ("fsdp", "tp"))

    for name, build in MODELS.items():
        model = build()
        calls = {name: model.call()}
        if name not in FORWARD:
            calls[f"{name}.step"] = model.step()
        for file, (fn, params, batch, *state) in calls.items():
            yield (os.path.join(FOLDER, file + ".program.json.gz"),
                   program.traced(fn, (params, *state, batch), file).function)
    for name, (fn, reference, params, batch) in regions.REGIONS.items():
        for file, one in ((name, fn), (f"{name}_reference", reference)):
            yield (os.path.join(REGION_FOLDER, file + ".program.json.gz"),
                   program.traced(one, (params, batch), file).function)


def values_of(path, function, folder):
    """The sums of each result."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        made = json.load(file)
    rules = os.path.join(folder, "rules.yaml")
    with open(rules, "w", encoding="utf-8") as file:
        file.write("rules:\n  - match: '.*'\n    spec: []\n")
    mesh = "fsdp:2,tp:4" if "regions" in path else "tp:1"
    done = subprocess.run(
        [os.environ["SHARDC_BIN"], "verify", "step", "--no-project", "--program", path,
         "--mesh", mesh, "--rules", rules, "--format", "json"],
        check=True, stdout=subprocess.PIPE)
    bounds = [one["below"] for one in json.loads(done.stdout)["inputs"]]
    given = [drawn(i, made["values"][one["value"]], one["kind"], bounds[i])
             for i, one in enumerate(made["inputs"])]
    results = jax.jit(function)(*given)
    return [[float(np.sum(one, dtype=np.float64)),
             float(np.sum(np.square(one.astype(np.float64))))]
            for one in map(np.asarray, results)]


def written(path, values):
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}"
                       for name, one in values.items())
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{{"versions": {json.dumps(versions())},\n"values": {{\n{lines}}}}}\n')


def main(names):
    os.chdir(ROOT)
    values = {}
    if names:
        with open(os.path.join(FOLDER, "VALUES.json"), encoding="utf-8") as file:
            values = json.load(file)["values"]
    with tempfile.TemporaryDirectory() as folder:
        for path, function in functions():
            name = os.path.basename(path)[:-len(".program.json.gz")]
            if names and name not in names:
                continue
            values[name] = values_of(path, function, folder)
            print(name, values[name][-1], flush=True)
    written(os.path.join(FOLDER, "VALUES.json"), values)


if __name__ == "__main__":
    main(sys.argv[1:])
