"""Inputs for tests of `shardc plan` and of commands that show parts of a plan."""

import os

from driver import MODELS

MESH = ["--mesh", "dp:2,fsdp:8,tp:4"]
LLAMA = os.path.join(MODELS, "llama-3-8b.flax.manifest.json")


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path
