"""What transformers computes under the tensor parallel plans that follow from programs:
`suggest --program` and `export hf-tp-plan` for tp:2, judged by the logits of two
processes against those of one device. Writes testdata/torch_programs/PLANS.json.

Usage: SHARDC_BIN=... torch_plans_answers.py [TYPE...], in the environment of
tp_logits_answers.py."""

import json
import os
import subprocess
import sys
import tempfile
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "traced"), os.path.join(ROOT, "python")]

# The paths above must be set first.
# pylint: disable=wrong-import-position
import torch
import transformers

import tp_logits_answers
import tp_logits_models
from shardc import program
from torch_programs_answers import types
import torch_models

PATH = os.path.join(ROOT, "testdata", "torch_programs", "PLANS.json")


def exported(model_type, folder):
    """The plan of a type's program, and what the export reports."""
    model = tp_logits_models.model_of(model_type, tied=False)
    # Loops over the experts that are chosen ask for data.
    model.config._experts_implementation = "batched_mm"
    with torch.no_grad():
        made = program.of_torch(
            torch_models.run, (model, torch_models.tokens_of(model)),
            {"use_cache": False}, model_type).program
    path, rules, manifest, out = (
        os.path.join(folder, name)
        for name in ("program.json", "rules.yaml", "manifest.json", "plan.json"))
    program.write(made, path)
    values = made["values"]
    with open(manifest, "w", encoding="utf-8") as file:
        json.dump({one["name"]: values[one["value"]] for one in made["inputs"]
                   if one["kind"] == "param"}, file)
    shardc = os.environ["SHARDC_BIN"]
    for command in (["suggest", "--program", path, "--mesh", "tp:2", "--force", "-o", rules],
                    ["export", "hf-tp-plan", "--mesh", "tp:2", "--rules", rules,
                     "--manifest", manifest, "-o", out]):
        done = subprocess.run([shardc, *command, "--no-project"], check=False,
                              capture_output=True)
        if done.returncode > 1 or not os.path.exists(command[-1]):
            raise RuntimeError(done.stderr.decode()[:200])
    with open(out, encoding="utf-8") as file:
        return json.load(file)


def main(names):
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    plans, results = {}, {}
    if names and os.path.exists(PATH):
        with open(PATH, encoding="utf-8") as file:
            results = json.load(file)["types"]
    for name in names or types():
        if name in torch_models.ENCODERS and name != "bert":
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                plans[name] = exported(name, folder)
            except Exception as error:  # pylint: disable=broad-except
                results[name] = {"no_plan": f"{type(error).__name__}: {error}"[:200]}
                print(name, results[name], flush=True)
    order = sorted(plans)
    found = tp_logits_answers.run_pairs([(name, plans[name], False) for name in order])
    for name, one in zip(order, found):
        # What a type that fails leaves in the processes must not count for others.
        if "error" in one:
            (one,) = tp_logits_answers.run_pairs([(name, plans[name], False)])
        results[name] = {**one, "entries": len(plans[name])}
        print(name, results[name], flush=True)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}"
                       for key, value in sorted(results.items()))
    with open(PATH, "w", encoding="utf-8") as file:
        file.write(f'{{"versions": {json.dumps(dict(torch=torch.__version__, transformers=transformers.__version__))},\n'
                   f'"types": {{\n{lines}}}}}\n')


if __name__ == "__main__":
    main(sys.argv[1:])
