"""What transformers computes with a saved checkpoint and the tensor parallel plan
that shardc exports for the names in its files: the logits of two processes that
load it by `from_pretrained`, against those of one process."""

import json
import os
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import torch.distributed as dist
import transformers
from safetensors import safe_open
from transformers.distributed import DistributedConfig

import records
import tp_logits_models
from tp_logits_answers import BIN, NEAR, brief, error_between
from tp_logits_models import model_of, result_of

RANKS = 2
# Architectures of each way in which the names of files, tied weights or the code
# of modules matter to a plan.
TYPES = ("llama", "qwen2", "qwen3", "gemma2", "gpt_neox", "phi3", "glm4",
         "mixtral", "qwen3_moe", "gpt_oss", "stablelm")
PATIENCE = 120
# Half of a head is rotated, which must be an even number.
tp_logits_models.MORE["glm4"] = {"head_dim": 8}


def loaded(folder, plan=None):
    given = {} if plan is None else {"distributed_config": DistributedConfig(
        tp_size=RANKS, tp_plan=plan)}
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager",
        experts_implementation="eager", **given).eval()


def work(rank, folder):
    """One of the processes, for one checkpoint."""
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank),
                      WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1")
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting",
                            rank=rank, world_size=RANKS)
    with open(os.path.join(folder, "tp_plan.json"), encoding="utf-8") as file:
        plan = json.load(file)
    answer = {}
    try:
        wanted = result_of(loaded(folder))
        model = loaded(folder, plan)
        answer["sharded"] = sum(
            hasattr(param, "placements") and any(
                one.is_shard() for one in param.placements)
            for param in model.parameters())
        answer["logits"] = float(f"{error_between(result_of(model), wanted):.1e}")
    except Exception as error:
        answer["error"] = brief(error)
    if rank == 0:
        with open(os.path.join(folder, "answer.json"), "w",
                  encoding="utf-8") as file:
            json.dump(answer, file)
    os._exit(0)


def run_pair(folder):
    pair = [subprocess.Popen(
        [sys.executable, os.path.abspath(__file__), str(rank), folder],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=records.HERE)
        for rank in range(RANKS)]
    try:
        for one in pair:
            one.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        pass
    for one in pair:
        one.kill()
        one.wait()
    path = os.path.join(folder, "answer.json")
    if not os.path.exists(path):
        return {"error": "the processes wait for each other, or one ended"}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def exported(folder, *more):
    """The plan that shardc exports, or nothing, and its messages."""
    out = os.path.join(folder, "tp_plan.json")
    done = subprocess.run(
        [BIN, "export", "hf-tp-plan", "--no-project", "--mesh", f"tp:{RANKS}",
         "--rules", "auto", "--manifest", folder, "--model",
         os.path.join(folder, "config.json"), "-o", out, *more],
        check=False, capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr
    with open(out, encoding="utf-8") as file:
        return json.load(file), done.stderr


def shapes_in(folder):
    """The shapes of the tensors in the files, by name."""
    shapes = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".safetensors"):
            continue
        with safe_open(os.path.join(folder, name), "pt") as file:
            for key in file.keys():
                shapes[key] = list(file.get_slice(key).get_shape())
    return shapes


def config_in(folder):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        return json.load(file)


def answer_of(model_type):
    with tempfile.TemporaryDirectory() as folder:
        model = model_of(model_type)
        model.save_pretrained(folder)
        case = {"model_type": model_type, "params": shapes_in(folder),
                "config": config_in(folder)}
        case["exported"], printed = exported(folder)
        # The folder's name is another one each time.
        case["warnings"] = [line.partition("]: ")[2]
                            for line in printed.splitlines()
                            if line.startswith(("warning[", "error["))]
        if case["exported"] is not None:
            case.update(run_pair(folder))
        return case


def record():
    transformers.logging.set_verbosity_error()
    yield "transformers/tp_checkpoints", {
        "format": "shardc.runtimes.tp_checkpoints/v1",
        "versions": records.versions("transformers", "torch"),
        "cases": [answer_of(name) for name in TYPES]}


if __name__ == "__main__":
    work(int(sys.argv[1]), sys.argv[2])
