"""Writes testdata/library_programs: programs of models of JAX libraries, and answers.

Usage: SHARDC_LIBRARIES=... record_libraries.py [MODEL...], in an environment with JAX,
Flax and optax and the folder that library_models.py describes. MODEL.program.json.gz is
the forward pass; its lines are relative to that folder. ANSWERS.json has for each model
the size of each factor and the structure of each parameter's dimensions, which were
written from the sources, and VERSIONS.json the versions."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "python")]
FOLDER = os.path.join(ROOT, "testdata", "library_programs")

# The paths above must be set first.
# pylint: disable=wrong-import-position
import library_models
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
    for name in names or library_models.MODELS:
        model, sizes = library_models.MODELS[name]()
        fn, params, batch, *state = model.call()
        made = program.traced(fn, (params, *state, batch),
                              f"library_models:{name}").program
        made["files"] = [file.removeprefix(ROOT + os.sep) for file in made["files"]]
        program.write(made, os.path.join(FOLDER, name + ".program.json.gz"))
        known[name] = {"sizes": sizes, "params": {
            one["name"]: model.answer_of(one["name"]) for one in made["inputs"]
            if one["kind"] == "param"}}
        print(name, len(made["ops"]), "operations", *made["unknown"], flush=True)
    written("ANSWERS.json", known)
    written("VERSIONS.json", {**versions(), **library_models.VERSIONS})


if __name__ == "__main__":
    main(sys.argv[1:])
