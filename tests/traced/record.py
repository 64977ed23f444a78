"""Writes testdata/programs: programs of the models of this folder, and their answers.

Usage: record.py [MODEL...], in an environment with JAX, Flax and optax. Of each model
MODEL.program.json.gz (without gradients), MODEL.step.program.json.gz (a training step
with Adam) and MODEL.answers.json are written. SIZES.json has the size of each factor, and VERSIONS.json
the versions."""

import importlib.metadata
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "python")]
FOLDER = os.path.join(ROOT, "testdata", "programs")


def written(name, data):
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
        file.write(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def main(names):
    from models import FORWARD, MODELS, SIZES
    from shardc import program

    os.chdir(ROOT)
    os.makedirs(FOLDER, exist_ok=True)
    for name in names or MODELS:
        model = MODELS[name]()
        calls = {name: model.call()}
        if name not in FORWARD:
            calls[f"{name}.step"] = model.step()
        for file, (fn, params, batch, *state) in calls.items():
            made = program.traced(fn, (params, *state, batch), f"models:{file}").program
            program.write(made, os.path.join(FOLDER, file + ".program.json.gz"))
            print(file, len(made["ops"]), "operations", *made["unknown"])
            params_ = [one["name"] for one in made["inputs"] if one["kind"] == "param"]
        written(f"{name}.answers.json", {n: model.answer_of(n) for n in params_})
    written("SIZES.json", SIZES)
    written("VERSIONS.json", {one: importlib.metadata.version(one)
                              for one in ("jax", "flax", "optax")})


if __name__ == "__main__":
    main(sys.argv[1:])
