"""Writes testdata/programs: programs of the models of this folder, and their answers.

Usage: record.py [MODEL...], in an environment with JAX, Flax and optax. Of each model
MODEL.program.json.gz (without gradients), MODEL.step.program.json.gz (a training step
with Adam) and MODEL.answers.json are written. SIZES.json has the size of each factor, and VERSIONS.json
the versions. testdata/regions gets the functions of regions.py."""

import gzip
import importlib.metadata
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "python")]
FOLDER = os.path.join(ROOT, "testdata", "programs")
REGION_FOLDER = os.path.join(ROOT, "testdata", "regions")


def written(name, data):
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
        file.write(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def versions():
    return {one: importlib.metadata.version(one) for one in ("jax", "flax", "optax")}


def programs(name):
    """The programs of a model by the beginning of their file's name."""
    from models import FORWARD, MODELS
    from shardc import program

    os.chdir(ROOT)
    model = MODELS[name]()
    calls = {name: model.call()}
    if name not in FORWARD:
        calls[f"{name}.step"] = model.step()
    made = {}
    for file, (fn, params, batch, *state) in calls.items():
        made[file] = program.traced(
            fn, (params, *state, batch), f"models:{file}").program
    return model, made


def compared(test):
    """Checks the files against programs of now, where the versions are equal."""
    from models import MODELS

    with open(os.path.join(FOLDER, "VERSIONS.json"), encoding="utf-8") as file:
        if json.load(file) != versions():
            test.skipTest("the record is of other versions")
    for name in MODELS:
        for file, made in programs(name)[1].items():
            path = os.path.join(FOLDER, file + ".program.json.gz")
            with gzip.open(path, "rt", encoding="utf-8") as opened:
                test.assertEqual(json.load(opened), made, file)


def record_regions():
    from regions import REGIONS
    from shardc import program

    os.chdir(ROOT)
    os.makedirs(REGION_FOLDER, exist_ok=True)
    for name, (fn, reference, params, batch) in REGIONS.items():
        for file, one in ((name, fn), (f"{name}_reference", reference)):
            made = program.traced(one, (params, batch), f"regions:{one.__name__}").program
            program.write(made, os.path.join(REGION_FOLDER, file + ".program.json.gz"))


def main(names):
    from models import MODELS, SIZES
    from shardc import program

    if not names or names == ["regions"]:
        record_regions()
    if names == ["regions"]:
        return

    os.makedirs(FOLDER, exist_ok=True)
    for name in names or MODELS:
        model, all_made = programs(name)
        for file, made in all_made.items():
            program.write(made, os.path.join(FOLDER, file + ".program.json.gz"))
            print(file, len(made["ops"]), "operations", *made["unknown"])
            params = [one["name"] for one in made["inputs"] if one["kind"] == "param"]
        written(f"{name}.answers.json", {n: model.answer_of(n) for n in params})
    written("SIZES.json", SIZES)
    written("VERSIONS.json", versions())


if __name__ == "__main__":
    main(sys.argv[1:])
