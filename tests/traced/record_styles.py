"""Writes testdata/styles: the training steps of styled_models.py.

Usage: record_styles.py [MODEL...], in an environment with JAX and optax."""

import os
import sys

from record import ROOT
from shardc import program
from styled_models import MODELS, step

FOLDER = os.path.join(ROOT, "testdata", "styles")


def main(names):
    os.chdir(ROOT)
    os.makedirs(FOLDER, exist_ok=True)
    for name in names or MODELS:
        fn, arguments = step(MODELS[name]())
        made = program.traced(fn, arguments, f"styled_models:{name}").program
        program.write(made, os.path.join(FOLDER, name + ".program.json.gz"))
        print(name, len(made["ops"]), "operations", *made["unknown"])


if __name__ == "__main__":
    main(sys.argv[1:])
