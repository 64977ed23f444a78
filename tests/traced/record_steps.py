"""Writes testdata/steps: the training steps of wide_models.py at small sizes, and what
JAX computes from the numbers that a proof draws for them (record_values.py).

Usage: SHARDC_BIN=... record_steps.py [MODEL...], in an environment with JAX and optax."""

import json
import os
import sys
import tempfile

os.environ["SHARDC_WIDE_MODELS"] = "small"

# The sizes above must be set first.
# pylint: disable=wrong-import-position
import record_values
import wide_models
from record import ROOT
from shardc import program

FOLDER = os.path.join(ROOT, "testdata", "steps")


def main(names):
    os.chdir(ROOT)
    os.makedirs(FOLDER, exist_ok=True)
    path = os.path.join(FOLDER, "VALUES.json")
    values = {}
    if names and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            values = json.load(file)["values"]
    with tempfile.TemporaryDirectory() as folder:
        for name in names or wide_models.MODELS:
            fn, params, batch, state = wide_models.MODELS[name]().step()
            made = program.traced(fn, (params, state, batch), f"wide_models:{name}")
            file = os.path.join(FOLDER, name + ".program.json.gz")
            program.write(made.program, file)
            values[name] = record_values.values_of(file, made.function, folder)
            print(name, len(made.program["ops"]), values[name][-1], flush=True)
    record_values.written(path, values)


if __name__ == "__main__":
    main(sys.argv[1:])
