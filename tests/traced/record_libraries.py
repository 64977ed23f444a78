"""Writes testdata/library_programs: programs of models of JAX libraries, and answers.

Usage: SHARDC_LIBRARIES=... record_libraries.py [MODEL...], in an environment with JAX,
Flax and optax and the folder that library_models.py describes. MODEL.program.json.gz is
the forward pass, and MODEL.step.program.json.gz a training step with Adam of those in
STEPS; lines are relative to that folder. ANSWERS.json has for each model
the size of each factor and the structure of each parameter's dimensions, which were
written from the sources, and VERSIONS.json the versions. Models of MaxText need an
environment of their own (maxtext_models.py), and are recorded where they are named."""

import importlib.metadata
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "python")]
FOLDER = os.path.join(ROOT, "testdata", "library_programs")
STEPS = ("tunix_qwen3_moe", "equinox_lm", "maxtext_llama2_scanned", "maxtext_deepseek")

# The paths above must be set first.
# pylint: disable=wrong-import-position
import library_models
import maxtext_models
from record import versions
from shardc import program


def written(name, data):
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
        file.write(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def main(names):
    os.makedirs(FOLDER, exist_ok=True)
    os.chdir(library_models.LIBRARIES)
    path = os.path.join(FOLDER, "ANSWERS.json")
    known = {}
    if names and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            known = json.load(file)
    models = {**library_models.MODELS, **maxtext_models.MODELS}
    for name in names or library_models.MODELS:
        model, sizes = models[name]()
        calls = {name: model.call()}
        if name in STEPS:
            calls[name + ".step"] = model.step()
        for file, (fn, params, batch, *state) in calls.items():
            made = program.traced(fn, (params, *state, batch),
                                  f"{models[name].__module__}:{file}").program
            made["files"] = [one.removeprefix(ROOT + os.sep) for one in made["files"]]
            program.write(made, os.path.join(FOLDER, file + ".program.json.gz"))
            print(file, len(made["ops"]), "operations", *made["unknown"], flush=True)
        known[name] = {"sizes": sizes, "params": {
            one["name"]: model.answer_of(one["name"]) for one in made["inputs"]
            if one["kind"] == "param"}}
    written("ANSWERS.json", known)
    path = os.path.join(FOLDER, "VERSIONS.json")
    with open(path, encoding="utf-8") as file:
        known = json.load(file)
    if any(name in library_models.MODELS for name in names or library_models.MODELS):
        known |= {**versions(), **library_models.VERSIONS}
    if any(name in maxtext_models.MODELS for name in names):
        known["maxtext"] = {one: importlib.metadata.version(one)
                            for one in ("maxtext", "jax", "flax", "optax")}
    written("VERSIONS.json", known)


if __name__ == "__main__":
    main(sys.argv[1:])
