"""What transformers computes under the tensor parallel plans that follow from programs:
`export hf-tp-plan --program` for tp:2, judged by the logits of two processes against
those of one device. Writes testdata/torch_programs/PLANS.json. Of each type it has also
how many modules with matrices have a style and how many a sentence that states why they
have none, and the modules that have neither.

Usage: SHARDC_BIN=... torch_plans_answers.py [TYPE...], in the environment of
tp_logits_answers.py."""

import json
import os
import re
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

# The types that take other inputs than tokens.
OTHERS = set(torch_models.ENCODERS) - {"bert"}
PATH = os.path.join(ROOT, "testdata", "torch_programs", "PLANS.json")


def explained(made, plan, messages):
    """Counts of the modules with matrices by what the export states about them."""
    values = made["values"]
    modules = {re.sub(r"\.\d+(?=\.|$)", ".*", one["name"]) for one in made["inputs"]
               if one["kind"] == "param" and len(values[one["value"]]["shape"]) > 1}
    found = {"styles": 0, "sentences": 0, "neither": []}
    for name in sorted(modules):
        owner = name.rpartition(".")[0]
        styles = {plan.get(name, "replicate"), plan.get(owner, "replicate")}
        if styles != {"replicate"}:
            found["styles"] += 1
        elif any(f"leaves `{one}` " in text for text in messages for one in (name, owner)):
            found["sentences"] += 1
        else:
            found["neither"].append(name)
    return found


def exported(model_type, folder):
    """The plan of a type's program, and what the export states about modules."""
    model = tp_logits_models.model_of(model_type)
    try:
        tp_logits_models.result_of(model)
    except RuntimeError as error:
        raise RuntimeError(f"the model does not run in float64: {error}") from error
    # Loops over the experts that are chosen ask for data.
    model.config._experts_implementation = "batched_mm"
    if model_type in OTHERS:
        fn, args, given = model, (), tp_logits_models.inputs_of(model)
    else:
        fn, args = torch_models.run, (model, torch_models.tokens_of(model))
        given = {"use_cache": False}
    with torch.no_grad():
        made = program.of_torch(fn, args, given, model_type).program
    path, out = (os.path.join(folder, name) for name in ("program.json", "plan.json"))
    program.write(made, path)
    done = subprocess.run(
        [os.environ["SHARDC_BIN"], "export", "hf-tp-plan", "--mesh", "tp:2", "--program",
         path, "-o", out, "--no-project", "--format", "json"], check=False,
        capture_output=True)
    if done.returncode or not os.path.exists(out):
        raise RuntimeError(done.stderr.decode()[:200])
    with open(out, encoding="utf-8") as file:
        plan = json.load(file)
    messages = [one["message"] for one in json.loads(done.stderr or "[]")]
    return plan, explained(made, plan, messages)


def main(names):
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    plans, said, results = {}, {}, {}
    if names and os.path.exists(PATH):
        with open(PATH, encoding="utf-8") as file:
            results = json.load(file)["types"]
    for name in names or types():
        with tempfile.TemporaryDirectory() as folder:
            try:
                plans[name], said[name] = exported(name, folder)
            except Exception as error:  # pylint: disable=broad-except
                results[name] = {"no_plan": f"{type(error).__name__}: {error}"[:200]}
                print(name, results[name], flush=True)
    order = sorted(plans)
    found = tp_logits_answers.run_pairs([(name, plans[name], False) for name in order])
    for name, one in zip(order, found):
        # What a type that fails leaves in the processes must not count for others.
        if "error" in one:
            (one,) = tp_logits_answers.run_pairs([(name, plans[name], False)])
        results[name] = {**one, "entries": len(plans[name]), **said[name]}
        print(name, results[name], flush=True)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}"
                       for key, value in sorted(results.items()))
    with open(PATH, "w", encoding="utf-8") as file:
        file.write(f'{{"versions": {json.dumps(dict(torch=torch.__version__, transformers=transformers.__version__))},\n'
                   f'"types": {{\n{lines}}}}}\n')


if __name__ == "__main__":
    main(sys.argv[1:])
