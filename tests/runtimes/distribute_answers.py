"""What modules compute under plan.distribute, with the plan that follows from their
program: results, gradients and the bytes of each rank, on two and on four processes,
against one device. Writes testdata/torch_programs/DISTRIBUTED.json.

Usage: SHARDC_BIN=... distribute_answers.py [MODEL...], in an environment with the
libraries of distribute_models.py."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
os.environ["SHARDC"] = os.environ["SHARDC_BIN"] = os.environ.get(
    "SHARDC_BIN", os.path.join(ROOT, "build", "src", "cli", "shardc"))
sys.path[:0] = [HERE, os.path.join(ROOT, "python")]

# The paths above must be set first.
# pylint: disable=wrong-import-position
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.experimental import implicit_replication
from torch.utils._pytree import tree_leaves

import distribute_models
import shardc
import shardc.manifest
import shardc.program

PATH = os.path.join(ROOT, "testdata", "torch_programs", "DISTRIBUTED.json")
MESHES = {2: "tp:2", 4: "fsdp:2,tp:2"}
# Of a gradient's largest value, or of this part of the largest of all: what is zero but
# for rounding, such as that of a key's bias, has no digits.
SMALLEST = 1e-3
# Models for which one group of processes is made.
TOGETHER = 8


def plan_of(name, mesh, folder):
    """The plan of the rules that are suggested for the model's program."""
    model, given = distribute_models.model_of(name)
    paths = {key: os.path.join(folder, key) for key in (
        "program.json.gz", "manifest.json", "rules.yaml", "plan.json")}
    args, named = ((), given) if isinstance(given, dict) else (given, {})
    with torch.no_grad():
        made = shardc.program.of_torch(model, args, named, name).program
    shardc.program.write(made, paths["program.json.gz"])
    with open(paths["manifest.json"], "w", encoding="utf-8") as file:
        json.dump(shardc.manifest.manifest(model), file)
    for command in (
            ["suggest", "--program", paths["program.json.gz"], "-o", paths["rules.yaml"]],
            ["plan", "--rules", paths["rules.yaml"], "--manifest",
             paths["manifest.json"], "-o", paths["plan.json"]]):
        done = subprocess.run(
            [os.environ["SHARDC_BIN"], *command, "--no-project", "--mesh", mesh],
            check=False, capture_output=True, text=True)
        if not os.path.exists(command[-1]):
            raise RuntimeError(done.stderr[:300])
    return shardc.Plan.load(paths["plan.json"])


def results_of(out):
    out = vars(out) if hasattr(out, "logits") else out
    found = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor)]
    return [x.full_tensor() if isinstance(x, DTensor) else x for x in found
            if x.is_floating_point()]


def backward(results):
    """The gradients of a sum with weights."""
    total = 0
    for one in results:
        weights = torch.cos(torch.arange(one.numel(), dtype=one.dtype))
        total = total + (one * weights.reshape(one.shape)).sum()
    total.backward()


def gradients_of(model):
    return {name: one.grad.full_tensor() if isinstance(one.grad, DTensor) else one.grad
            for name, one in model.named_parameters() if one.grad is not None}


def error_between(found, wanted, least=0.0):
    scale = max(wanted.abs().max().item(), least) or 1.0
    return (found - wanted).abs().max().item() / scale


def distributed(name, plan, rank):
    dense, given = distribute_models.model_of(name)
    wanted = results_of(distribute_models.run(dense, given))
    backward(wanted)
    gradients = gradients_of(dense)
    model, given = distribute_models.model_of(name)
    model = plan.distribute(model)
    sharded = 0
    for path, parameter in model.named_parameters():
        of_plan = plan[plan.name_of(tuple(path.split("."))) or path]
        local = parameter.to_local()
        assert local.numel() * local.element_size() == of_plan.bytes_per_device, path
        assert torch.equal(local, dense.get_parameter(path)[of_plan.slices(rank)]), path
        sharded += local.numel() < parameter.numel()
    with implicit_replication():
        found = results_of(distribute_models.run(model, given))
        backward(found)
    largest = max(one.abs().max().item() for one in gradients.values())
    mine = gradients_of(model)
    assert set(mine) == set(gradients)
    assert all(one.grad is None or one.grad.placements == one.placements
               for one in model.parameters())
    return {"sharded": sharded,
            "results": max(error_between(a.detach(), b.detach())
                           for a, b in zip(found, wanted, strict=True)),
            "gradients": max(error_between(mine[key], gradients[key],
                                           SMALLEST * largest) for key in mine)}


def work(rank, ranks, folder, names):
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting{ranks}",
                            rank=rank, world_size=ranks)
    for name in names:
        plan = shardc.Plan.load(os.path.join(folder, f"{name}.{ranks}.json"))
        try:
            answer = distributed(name, plan, rank)
        except Exception as error:  # pylint: disable=broad-except
            text = str(error).replace(os.path.dirname(torch.__path__[0]) + os.sep, "")
            answer = {"error": re.sub(r"\(.*$", "", f"{type(error).__name__}: {text}",
                                      flags=re.S)[:400].strip()}
        every = [None] * ranks
        dist.all_gather_object(every, answer)
        failed = [one for one in every if "error" in one]
        if rank == 0:
            with open(os.path.join(folder, f"{name}.{ranks}.answer"), "w",
                      encoding="utf-8") as file:
                json.dump(failed[0] if failed else {
                    key: max(one[key] for one in every) for key in every[0]}, file)
    dist.destroy_process_group()


def answers(names):
    """By the name of a model and the number of processes."""
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        for ranks, mesh in MESHES.items():
            planned = []
            for name in names:
                with tempfile.TemporaryDirectory() as inner:
                    try:
                        plan = plan_of(name, mesh, inner)
                    except Exception as error:  # pylint: disable=broad-except
                        out.setdefault(name, {})[ranks] = {
                            "no_plan": f"{type(error).__name__}: {error}"[:300]}
                        continue
                with open(os.path.join(folder, f"{name}.{ranks}.json"), "w",
                          encoding="utf-8") as file:
                    json.dump(plan.data, file)
                planned.append(name)
            torch.multiprocessing.spawn(work, (ranks, folder, planned), nprocs=ranks)
            for name in planned:
                path = os.path.join(folder, f"{name}.{ranks}.answer")
                with open(path, encoding="utf-8") as file:
                    out.setdefault(name, {})[ranks] = json.load(file)
    return out


def main(names):
    warnings.filterwarnings("ignore")
    results = {}
    if names and os.path.exists(PATH):
        with open(PATH, encoding="utf-8") as file:
            results = json.load(file)["models"]
    names = names or list(distribute_models.MODELS)
    for start in range(0, len(names), TOGETHER):
        for name, found in answers(names[start:start + TOGETHER]).items():
            results[name] = {str(ranks): {
                key: float(f"{value:.1e}") if isinstance(value, float) else value
                for key, value in one.items()} for ranks, one in found.items()}
            print(name, results[name], flush=True)
        write(results)


def write(results):
    versions = {one: importlib.metadata.version(one) for one in (
        "torch", "transformers", "litgpt", "diffusers", "timm", "peft")}
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}"
                       for key, value in sorted(results.items()))
    with open(PATH, "w", encoding="utf-8") as file:
        file.write(f'{{"versions": {json.dumps(versions)},\n"meshes": '
                   f'{json.dumps({str(k): v for k, v in MESHES.items()})},\n'
                   f'"models": {{\n{lines}}}}}\n')


if __name__ == "__main__":
    main(sys.argv[1:])
