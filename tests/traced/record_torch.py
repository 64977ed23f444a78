"""Writes testdata/torch_programs: programs of torch_models.py, what is known of their
parameters, and what PyTorch computes.

Usage: SHARDC_BIN=... record_torch.py [PROGRAM...], in an environment with PyTorch,
transformers, scipy and ml_dtypes. Of each program PROGRAM.program.json.gz is written, and
PROGRAM.answers.json with the structure of parameters by torch_answers.py. VALUES.json
has, of each result, the sum of its numbers and of their squares in float32, for the
inputs that a proof draws; CONFIGS.json the config.json of each model; VERSIONS.json the
versions."""

import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "python")]

# The paths above must be set first.
# pylint: disable=wrong-import-position
import numpy as np
import torch

from drawn_inputs import drawn
from shardc import program
from torch_answers import answers_of
from torch_models import RECORDED

FOLDER = os.path.join(ROOT, "testdata", "torch_programs")


def versions():
    return {one: importlib.metadata.version(one) for one in ("torch", "transformers")}


def recorded(name):
    """The program with its function, and the module."""
    fn, args, kwargs = RECORDED[name]()
    module = fn if isinstance(fn, torch.nn.Module) else args[0]
    with torch.set_grad_enabled(".step" in name):
        return program.of_torch(fn, args, kwargs, f"torch_models:{name}"), module


def answers(made, module):
    """The answers about a program's parameters. A model without a configuration has
    the sizes of its definition."""
    values = made.program["values"]
    shapes = {one["name"]: values[one["value"]]["shape"]
              for one in made.program["inputs"] if one["kind"] == "param"}
    config = getattr(module, "config", None)
    if config is None:
        class Sizes:
            hidden_size, num_attention_heads = 40, 5
            intermediate_size, vocab_size = 72, 96
        config = Sizes
    return answers_of(config, shapes)


def values_of(name, made, folder):
    """The sums of each result, for the inputs that a proof draws."""
    path = os.path.join(FOLDER, name + ".program.json.gz")
    rules = os.path.join(folder, "rules.yaml")
    with open(rules, "w", encoding="utf-8") as file:
        file.write("rules:\n  - match: '.*'\n    spec: []\n")
    done = subprocess.run(
        [os.environ["SHARDC_BIN"], "verify", "step", "--no-project", "--program", path,
         "--mesh", "tp:1", "--rules", rules, "--format", "json"],
        check=True, stdout=subprocess.PIPE)
    bounds = [one["below"] for one in json.loads(done.stdout)["inputs"]]
    values = made.program["values"]
    given = [torch.from_numpy(np.array(drawn(i, values[one["value"]], one["kind"],
                                             bounds[i])))
             for i, one in enumerate(made.program["inputs"])]
    with torch.set_grad_enabled(".step" in name):
        results = made.function(*given)
    return [[float(np.sum(one, dtype=np.float64)),
             float(np.sum(np.square(one.astype(np.float64))))]
            for one in (x.numpy() for x in results)]


def written(name, data, indent=1):
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
        file.write(json.dumps(data, indent=indent, ensure_ascii=False) + "\n")


def write_configs():
    """The config.json of each program's model, one in a line."""
    configs = {}
    for name, build in RECORDED.items():
        fn, args, _ = build()
        module = fn if isinstance(fn, torch.nn.Module) else args[0]
        if hasattr(module, "config"):
            configs[name] = json.loads(module.config.to_json_string())
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(configs[name])}"
                       for name in sorted(configs))
    with open(os.path.join(FOLDER, "CONFIGS.json"), "w", encoding="utf-8") as file:
        file.write(f"{{\n{lines}\n}}\n")


def main(names):
    os.chdir(ROOT)
    os.makedirs(FOLDER, exist_ok=True)
    path = os.path.join(FOLDER, "VALUES.json")
    values = {}
    if names and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
    for name in names or RECORDED:
        made, module = recorded(name)
        program.write(made.program, os.path.join(FOLDER, name + ".program.json.gz"))
        found, sizes = answers(made, module)
        used = {word for dims in found.values() for dim in dims for word in sizes
                if word in dim}
        written(name + ".answers.json", {
            "sizes": {word: sizes[word] for word in sorted(used)}, "params": found})
        with tempfile.TemporaryDirectory() as folder:
            values[name] = values_of(name, made, folder)
        params = sum(one["kind"] == "param" for one in made.program["inputs"])
        print(name, len(made.program["ops"]), "operations,", len(found), "answers of",
              params, made.program["unknown"], made.program["assumptions"], flush=True)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(values[name])}"
                       for name in sorted(values))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{{\n{lines}\n}}\n")
    written("VERSIONS.json", versions())
    write_configs()


if __name__ == "__main__":
    main(sys.argv[1:])
