"""What transformers computes under an exported tensor parallel plan: the logits
of two processes, and the gradients where the model trains, against those of one
device, for every architecture that has a plan of its own."""

import json
import os
import subprocess
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import torch.distributed as dist
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from transformers.distributed import DistributedConfig
from transformers.distributed.tensor_parallel import apply_tensor_parallelism

import records
from tp_logits_models import gradients_of, model_of, result_of

BIN = os.environ.get("SHARDC_BIN", "shardc")
RANKS = 2
# Errors are a part of the largest value; sums in another order give the last
# digits of float64, or of float32 where a model computes in it: a change of its
# last digit in MuseSpark's norm of embeddings changes the result by 3e-6 to 6e-6.
NEAR = 1e-5
# Plans besides the model's own: every projection sharded as Megatron-LM does,
# a mixture that fits no block, and nothing sharded, where no hook of the model's
# own plan may be left.
RULES = {
    "all": """version: 1
rules:
  - match: '(o_proj|down_proj|out_proj|c_proj|fc2|dense|w2)[.]weight$'
    spec: [null, tp]
  - match: '(_proj|_proj_.*|fc1|c_fc|lm_head|embed_tokens|query_key_value)[.](weight|bias)$'
    spec: [tp]
  - match: '.*'
    spec: []
""",
    "mixed": """version: 1
rules:
  - match: '(o_proj|up_proj|k_proj|embed_tokens|lm_head)[.]weight$'
    spec: [null, tp]
  - match: '(q_proj|v_proj|down_proj)[.](weight|bias)$'
    spec: [tp]
  - match: '.*'
    spec: []
""",
    "none": """version: 1
rules:
  - match: '.*'
    spec: []
"""}
# Seconds without a result after which a pair of processes is given up.
PATIENCE = 60


def error_between(found, wanted):
    """The largest difference, as a part of the largest value."""
    scale = wanted.abs().max().item() or 1.0
    return (found.double() - wanted.double()).abs().max().item() / scale


def parallel(model_type, plan, gradients, mesh):
    model = model_of(model_type)
    wanted = result_of(model)
    try:
        reference = gradients_of(model) if gradients else None
    except Exception:
        reference = None
    model = model_of(model_type, tied=False)
    given = DistributedConfig(tp_size=RANKS, tp_plan=plan)
    resolved = model._resolve_parallel_plans(given)[0]
    apply_tensor_parallelism(model, mesh, resolved)
    model.tie_weights()
    answer = {"sharded": sum(
        isinstance(param, DTensor) and any(
            one.is_shard() for one in param.placements)
        for param in model.parameters())}
    answer["logits"] = error_between(result_of(model), wanted)
    if reference is not None:
        try:
            found = gradients_of(model)
            worst = [(error_between(found[name], value), name)
                     for name, value in reference.items()
                     if value.abs().max() > 1e-12]
            answer["gradients"], answer["gradient_of"] = max(worst)
        except Exception as error:
            answer["gradient_error"] = brief(error)
    return answer


def brief(error):
    text = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {text[0][:160]}"


def work(rank, folder, first):
    """One of the processes: every job from the first on, in turn."""
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting{first}", rank=rank,
        world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
    with open(os.path.join(folder, "jobs.json"), encoding="utf-8") as file:
        jobs = json.load(file)
    for number in range(first, len(jobs)):
        try:
            answer = parallel(*jobs[number], mesh)
        except Exception as error:
            answer = {"error": brief(error)}
        dist.barrier()
        if rank == 0:
            path = os.path.join(folder, f"answer{number}")
            with open(path + ".new", "w", encoding="utf-8") as file:
                json.dump(answer, file)
            os.rename(path + ".new", path)
    os._exit(0)


def run_pairs(jobs):
    """The answers to the jobs, each (model type, plan,
    whether gradients are compared too). A pair of processes
    that waits for each other is ended and the next job begins in another."""
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "jobs.json"), "w",
                  encoding="utf-8") as file:
            json.dump(jobs, file)
        while len(answers) < len(jobs):
            pair = [subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), str(rank), folder,
                 str(len(answers))], stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, cwd=records.HERE)
                for rank in range(RANKS)]
            last = time.monotonic()
            while len(answers) < len(jobs):
                path = os.path.join(folder, f"answer{len(answers)}")
                if os.path.exists(path):
                    with open(path, encoding="utf-8") as file:
                        answers.append(json.load(file))
                    last = time.monotonic()
                elif time.monotonic() - last > PATIENCE or any(
                        one.poll() for one in pair):
                    answers.append({"error": "the processes wait for each "
                                             "other, or one ended"})
                    break
                else:
                    time.sleep(0.05)
            for one in pair:
                one.kill()
                one.wait()
    return answers


def exported(folder, shapes, own, name):
    """The plan that shardc exports; nothing where the rules do not fit."""
    paths = {key: os.path.join(folder, key + ".json")
             for key in ("manifest", "own", "out")}
    rules = os.path.join(folder, "rules.yaml")
    with open(paths["manifest"], "w", encoding="utf-8") as file:
        json.dump({"schema": "shardc.manifest/v1", "params": {
            param: {"shape": shape, "dtype": "F32"}
            for param, shape in shapes.items()}}, file)
    if name == "own":
        with open(paths["own"], "w", encoding="utf-8") as file:
            json.dump(own, file)
        subprocess.run([BIN, "import", "hf-tp-plan", "--contiguous", paths["own"], "-o",
                        rules], check=True, capture_output=True)
    else:
        with open(rules, "w", encoding="utf-8") as file:
            file.write(RULES[name])
    done = subprocess.run(
        [BIN, "export", "hf-tp-plan", "--no-project", "--mesh", f"tp:{RANKS}",
         "--rules", rules, "--manifest", paths["manifest"], "-o",
         paths["out"]], check=False, capture_output=True)
    if done.returncode:
        return None  # the two devices do not divide a size
    with open(paths["out"], encoding="utf-8") as file:
        return json.load(file)


def architectures():
    return [name for name in sorted(transformers.CONFIG_MAPPING.keys())
            if getattr(transformers.CONFIG_MAPPING[name],
                       "base_model_tp_plan", None)]


def answers(names=None):
    """The architectures that were run, and the reasons of the others."""
    transformers.logging.set_verbosity_error()
    cases, unrun, jobs = [], {}, []
    with tempfile.TemporaryDirectory() as folder:
        for name in names or architectures():
            try:
                model = model_of(name)
                if not torch.isfinite(result_of(model)).all():
                    raise ArithmeticError("its result is not finite")
            except Exception as error:
                unrun[name] = brief(error)
                continue
            shapes = {param: list(values.shape)
                      for param, values in model.named_parameters()}
            case = {"model_type": name, "class": type(model).__name__,
                    "params": shapes, "plans": {}}
            for plan in ("own", *RULES):
                made = exported(folder, shapes, model.tp_plan, plan)
                if made is None:
                    continue
                case["plans"][plan] = {"exported": made}
                jobs.append((name, made, plan == "own"))
            if "own" in case["plans"]:
                case["plans"]["own"]["given"] = dict(model.tp_plan)
            cases.append(case)
    found = iter(run_pairs(jobs))
    for case in cases:
        for plan in case["plans"].values():
            for key, value in next(found).items():
                plan[key] = float(f"{value:.1e}") if isinstance(
                    value, float) else value
    return cases, unrun


def record():
    cases, unrun = answers()
    yield "transformers/tp_logits", {
        "format": "shardc.runtimes.tp_logits/v1",
        "versions": records.versions("transformers", "torch"),
        "rules": RULES, "not_run": unrun, "cases": cases}


if __name__ == "__main__":
    work(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
