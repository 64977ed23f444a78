"""How many model types of transformers are recorded, with which values, and what shardc
concludes from their programs. Writes testdata/torch_programs/TYPES.json.

Usage: SHARDC_BIN=... torch_programs_answers.py [-k KIND] [TYPE...], in an environment
with PyTorch, transformers, jsonschema, scipy and ml_dtypes. Of each type and kind
(prefill, decode, step): whether it is recorded, the largest difference of its logits from
PyTorch's in parts of the largest logit, what is right, unknown and wrong about the
structure of its parameters by tests/traced/torch_answers.py, and whether the plan that
`suggest` makes for tp:2 is proved."""

import json
import os
import subprocess
import sys
import tempfile
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "traced"),
                os.path.join(ROOT, "tests", "cli"), os.path.join(ROOT, "python")]

# The paths above must be set first.
# pylint: disable=wrong-import-position
import numpy as np
import torch
import transformers

import families
import program_test
import torch_models
from interpreter import Interpreter
from record_torch import answers
from shardc import program
from transformers.models.auto import modeling_auto

PATH = os.path.join(ROOT, "testdata", "torch_programs", "TYPES.json")
KINDS = {"prefill": torch_models.prefill, "decode": torch_models.decode,
         "step": torch_models.step}
# A difference of logits in float32, in parts of the largest, that counts as equal.
TOLERANCE = 2e-5


def types():
    """The types of decoders, and the encoders of torch_models."""
    causal = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    known = [one for one in families.FAMILIES
             if one in causal and one in transformers.CONFIG_MAPPING]
    return known + [one for one in torch_models.ENCODERS if one not in known]


def shardc(*arguments):
    return subprocess.run([os.environ["SHARDC_BIN"], *arguments], timeout=600,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)


def judged(path, made, module):
    """Counts of right, unknown and wrong dimensions, and of those without answer."""
    found, sizes = answers(made, module)
    done = shardc("explain", "--no-project", "--program", path, "--format", "json")
    facts = json.loads(done.stdout)
    judge, names = program_test.Answers(), {}
    counts = {"right": 0, "unknown": 0, "wrong": 0, "no_answer": 0}
    wrong = []
    for one in facts["params"]:
        if one["param"] not in found:
            counts["no_answer"] += len(one["dims"])
            continue
        for answer, dim in zip(found[one["param"]], one["dims"], strict=True):
            verdict = judge.verdict(program_test.parse(answer, sizes),
                                    judge.product(dim["factors"], facts["factors"]), names)
            counts[verdict] += 1
            if verdict != "right":
                wrong.append(f"{verdict}: {one['param']} {answer}")
    mixed = {number: sorted(known) for number, known in names.items() if len(known) > 1}
    return counts, wrong[:6], [known for known in mixed.values()][:6]


def planned(path, folder):
    """What `suggest`, `verify step` and `cost` make of a program on tp:2."""
    rules = os.path.join(folder, "rules.yaml")
    done = shardc("suggest", "--no-project", "--program", path, "--mesh", "tp:2",
                  "--force", "-o", rules)
    out = {"suggest": done.returncode}
    if done.returncode > 1:
        return {**out, "message": done.stderr.decode()[:300]}
    done = shardc("verify", "step", "--no-project", "--program", path, "--mesh", "tp:2",
                  "--rules", rules, "--format", "json")
    if done.returncode > 1:
        out["proof"] = "refused: " + json.loads(done.stdout)[0]["message"][:200] \
            if done.stdout.startswith(b"[") else done.stderr.decode()[:200]
    else:
        report = json.loads(done.stdout)
        out["proof"] = report["status"] if report["complete"] else \
            report["status"] + " but for stand-ins"
    done = shardc("cost", "--no-project", "--program", path, "--mesh", "tp:2", "--rules",
                  rules, "--format", "json")
    if done.returncode == 0:
        flops = json.loads(done.stdout)["flops"]
        out["share_of_flops"] = round(flops["device"] / max(1, flops["program"]), 3)
    return out


def measured(model_type, kind, folder):
    build = KINDS[kind] if model_type not in torch_models.ENCODERS else \
        {"prefill": lambda name: torch_models.ENCODERS[name]()}.get(kind)
    if build is None:
        return {"not_built": "only its prefill is measured"}
    try:
        fn, args, kwargs = build(model_type)
    except Exception as error:  # pylint: disable=broad-except
        return {"not_built": f"{type(error).__name__}: {error}"[:200]}
    module = fn if isinstance(fn, torch.nn.Module) else args[0]
    with torch.set_grad_enabled(kind == "step"):
        try:
            made = program.of_torch(fn, args, kwargs, f"torch_models:{model_type}")
        except Exception as error:  # pylint: disable=broad-except
            return {"not_recorded": f"{type(error).__name__}: {error}"[:200]}
        out = {"operations": len(made.program["ops"]),
               "unknown": [one["primitive"] for one in made.program["unknown"]],
               "assumptions": made.program["assumptions"]}
        given = [x.detach().clone() for x in made.given]
        want = [x.numpy() for x in made.function(*given)]
    path = os.path.join(folder, "program.json.gz")
    program.write(made.program, path)
    out["bytes"] = os.path.getsize(path)
    if not out["unknown"]:
        got = Interpreter(made.program, made.constants).run([x.numpy() for x in given])
        off = [float(np.max(np.abs(a - b), initial=0)) / max(1e-6, float(np.max(
            np.abs(b), initial=0))) for a, b in zip(got, want) if b.dtype.kind == "f"]
        out["difference"] = float(f"{max(off):.1e}")
    out["facts"], out["not_right"], out["mixed"] = judged(path, made, module)
    out.update(planned(path, folder))
    return out


def main(arguments):
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    os.chdir(ROOT)
    kinds = list(KINDS)
    if arguments[:1] == ["-k"]:
        kinds, arguments = [arguments[1]], arguments[2:]
    out = {"versions": {"torch": torch.__version__,
                        "transformers": transformers.__version__}, "types": {}}
    if os.path.exists(PATH):
        with open(PATH, encoding="utf-8") as file:
            out["types"] = json.load(file)["types"]
    for name in arguments or types():
        for kind in kinds:
            with tempfile.TemporaryDirectory() as folder:
                one = measured(name, kind, folder)
            out["types"].setdefault(name, {})[kind] = one
            print(name, kind, json.dumps({key: value for key, value in one.items()
                                          if key != "assumptions"}), flush=True)
            lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}"
                               for key, value in sorted(out["types"].items()))
            with open(PATH, "w", encoding="utf-8") as file:
                file.write(f'{{"versions": {json.dumps(out["versions"])},\n'
                           f'"types": {{\n{lines}}}}}\n')


if __name__ == "__main__":
    main(sys.argv[1:])
