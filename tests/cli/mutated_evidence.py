"""Outputs that other commands read again, files of servers, and the words of command
lines, for mutated_inputs_test.py."""

import json
import os

import yaml
from driver import ROOT, TESTDATA
from mutated_kinds import ALONE, LLAMA, MESH, Kind, read
from mutators import ODD, change_text

CONFIG = ["--model", "config.json"]
HEADS = ["--operation", "vanilla", "--attention", "heads=4,kv_heads=2,head_dim=8",
         "--batch", "4", "--seq", "8", "--kv-len", "8", "--dtype", "float32", "--layout",
         "bthd", "--features", "none"]


class Words(Kind):
    """Command lines whose words are changed; the files are good ones."""

    def text(self, _rng):
        return b""

    def arguments(self, rng):
        words = list(rng.choice(self.commands))
        others = [word for command in self.commands for word in command]
        for _ in range(rng.choice([1, 1, 2])):
            if len(words) < 2:
                break
            at = rng.randrange(1, len(words))
            how = rng.random()
            if how < 0.3:
                words[at] = str(rng.choice(ODD))
            elif how < 0.6:
                words[at] = change_text(rng, words[at], others)
            elif how < 0.7:
                words[at] = rng.choice(others)
            elif how < 0.8:
                words[at:at] = [rng.choice(others)]
            elif how < 0.9:
                words[at:at] = words[at:at + 2]
            else:
                del words[at]
        # Nothing is written over the files that are read.
        return ["out" if before in ("-o", "--output", "--folder") else
                word.replace("\0", "") for before, word in zip(["", *words], words)]


def command_lines():
    inputs = [*MESH, "--rules", "rules.yaml", *CONFIG, ALONE]
    own = os.path.join(TESTDATA, "configs", "llama-3.2-1b.config.json")
    return [
        ["plan", *inputs, "--modes", "train,decode", "--min-size", "16", "--threads", "2"],
        ["check", *inputs, "--select", "SHD2", "--severity", "SHD202=note", "--fail-on",
         "warning", "--batch", "8", "--kv-len", "64", "--memory", "80GiB"],
        ["cost", *inputs, "--batch", "8", "--seq", "64", "--optimizer", "adamw", "--remat",
         "save_only_these_names(q_proj,context)", "--moments-dtype", "float32,bfloat16",
         "--zero", "1", "--microbatches", "2"],
        ["cost", "--mesh", "pp:2,tp:2", "--rules", "auto", *CONFIG, ALONE, "--stages", "pp",
         "--assign", "1,1", "--schedule", "1f1b", "--batch", "8", "--seq", "64"],
        ["cost", "--mode", "decode", "--engine", "vllm", "--slots", "4", "--isl", "64",
         "--osl", "64", "--mesh", "tp:4", "--rules", "auto", "--model", own, "--profile",
         "h200-sxm", ALONE, "--set", "max_batched_tokens=2048"],
        ["search", "--devices", "4", "--batch", "8", "--seq", "64", "--profile", "h100-sxm",
         "--prove", "0", "--seconds", "1", *CONFIG, ALONE],
        ["search", "--all", "--devices", "8", "--batch", "8", "--axes", "dp,tp", "--rules",
         "auto", *CONFIG, ALONE, "--limit", "3"],
        ["search", "--serve", "--devices", "8", "--profile", "h200-sxm", "--model", own,
         "--engine", "vllm", "--isl", "64", "--osl", "64", "--ttft", "1s", "--tpot", "25ms"],
        ["schedule", "zb-h1", "--ranks", "4", "--microbatches", "8", "--times", "1,1,1",
         "--hop", "0.5", "--picture", "--width", "80"],
        ["schedule", "interleaved", "--ranks", "4", "--virtual", "2", "--microbatches", "8"],
        ["kv", "--from", "plan.json", "--to", "plan.json", "--tokens", "4096", "--page",
         "16:32", "--interleave", "16:block", "--dp-rank", "0:0", "--order", "HND:NHD"],
        ["verify", *MESH, "--rules", "builtin:llama/hf", *HEADS, "--mode", "train,decode",
         "--steps", "2", "--seed", "3", ALONE],
        ["verify", "step", "--mesh", "fsdp:2,tp:2", "--rules", "auto", *CONFIG, "--batch",
         "4", "--seq", "8", "--dtype", "float64", ALONE],
        ["verify", "kv", "--from", "plan.json", "--to", "plan.json", "--tokens", "64",
         "--page", "16"],
        ["resolve", "[BATCH, [FSDP, SP], _]", "--mode", "decode", "--mesh", "fsdp:2,sp:2",
         "--shape", "4,8,16"],
        ["resolve", "attention", "--mesh", "dp:2,tp:2", "--mode", "decode", "--layout",
         "bthd", "--softmax-aux-rank", "2", ALONE],
        ["show", "layout", "model.embed_tokens.weight", "--plan", "plan.json", "--dims",
         "0,1", "--width", "100"],
        ["show", "mesh", "--mesh", "dp:2,fsdp:-1,tp:2", "--devices", "16", "--processes",
         "4", ALONE],
        ["show", "kv", "--plan", "plan.json", "--mode", "decode"],
        ["explain", "model.embed_tokens.weight", *MESH, "--rules", "builtin:llama/hf",
         *CONFIG, ALONE, "--ops", "train,decode", "--device", "1"],
        ["explain", "SHD202"], ["schema", "rules"], ["completion", "bash"], ["example"],
        ["diff", "plan.json", "plan.json", "--format", "json"],
        ["diff", "plan.json", "--between", "prefill,decode"],
        ["report", "--plan", "plan.json", "--base", "plan.json", "-o", "written.html",
         "--batch", "8", "--seq", "64"],
        ["export", "hlo", "--plan", "plan.json", "--form", "iota", "--mode", "decode"],
        ["export", "torch-pipeline", "--mesh", "pp:2,tp:2", "--rules", "auto", *CONFIG,
         ALONE, "--stages", "pp", "--assign", "even", "--schedule", "1f1b",
         "--microbatches", "4"],
        ["checkpoint", "split", "--checkpoint", "whole.safetensors", "--plan",
         "stored.plan.json", "--per", "shard", "--cast", "f32", "-o", "out"],
        ["checkpoint", "merge", "shards", "--max-shard-size", "1KiB", "--buffer", "1MiB",
         "-o", "out"],
        ["suggest", *MESH, *CONFIG, "--prefer", "memory", ALONE],
        ["suggest", "--devices", "8", "--memory", "80GiB", "--batch", "8", "--profile",
         "h100-sxm", *CONFIG, ALONE],
        ["init", "some.json", "--folder", "out", "--devices", "4", "--per-host", "4"],
    ]


def evidence(made, folder):
    """`made` runs a command in the folder and returns what it printed."""
    inputs = [*MESH, "--rules", "auto", *CONFIG, ALONE]
    mesh = "dp:2,fsdp:2,tp:2"
    made("plan", "--mesh", mesh, "--rules", "rules.yaml", *CONFIG, ALONE, "-q", "-o",
         "eight.plan.json")
    step = json.loads(made("verify", "step", "--mesh", mesh, "--rules", "auto", *CONFIG, ALONE,
                           "--format", "json"))
    verified = json.loads(made("verify", *MESH, "--rules", "builtin:llama/hf", *HEADS,
                               ALONE, "--format", "json"))
    hlo = os.path.join(TESTDATA, "audit", "layers.hlo.txt.gz")
    with open(os.path.join(folder, "step.hlo.txt"), "wb") as file:
        file.write(read(hlo))
    whole = os.path.join(ROOT, "examples", "checkpoint", "model.safetensors")
    with open(os.path.join(folder, "whole.safetensors"), "wb") as file:
        file.write(read(whole))
    with open(os.path.join(folder, "step.json"), "w", encoding="utf-8") as file:
        json.dump(step, file)
    audited = json.loads(made("audit", "step.hlo.txt", "--mesh", mesh, "--format", "json"))
    made("check", *MESH, "--rules", "any.yaml", *CONFIG, ALONE, "--write-baseline",
         "baseline.json")
    plan = json.loads(read(folder, "plan.json"))
    engine = yaml.safe_load(read(ROOT, "engines", "vllm.yaml"))
    own = os.path.join(TESTDATA, "configs", "llama-3.2-1b.config.json")
    schedule = made("schedule", "1f1b", "--ranks", "2", "--microbatches", "4",
                    "--csv").decode()
    state = {"schema": "shardc.manifest/v1", "params": [
        {"name": name, "shape": one["shape"], "dtype": one["dtype"]}
        for name, one in plan["params"].items()] + [
            {"name": "step", "shape": [], "dtype": "I32"}]}
    orbax = os.path.join(TESTDATA, "stored", "orbax_trainstate")
    hf = os.path.join(TESTDATA, "hostile", "gguf_ok.gguf")
    out = []
    if os.path.exists(hf):
        out.append(Kind("gguf-right", ".gguf", [read(hf)], [
            ["show", "manifest", "--manifest", "{}", ALONE],
            ["plan", *MESH, "--rules", "any.yaml", "--manifest", "{}", ALONE]]))
    return [
        *out,
        Kind("step", ".json", [step], [
            ["diff", "{}", "step.json"], ["diff", "step.json", "{}", "--format", "json"],
            ["audit", "step.hlo.txt", "--mesh", mesh, "--step", "{}"],
            ["report", "--plan", "eight.plan.json", "--compiled", "step.hlo.txt", "--step", "{}",
             "-o", "written.html"]]),
        Kind("verified-output", ".json", [verified], [
            ["report", "--plan", "plan.json", "--verified", "{}", "-o",
             "written.html"]]),
        Kind("audited", ".json", [audited], [
            ["audit", "step.hlo.txt", "--mesh", mesh, "--against", "{}"]]),
        Kind("baseline", ".json", [json.loads(read(folder, "baseline.json"))], [
            ["check", *MESH, "--rules", "any.yaml", *CONFIG, ALONE, "--baseline", "{}"]]),
        Kind("other-plan", ".json", [plan], [
            ["kv", "--from", "plan.json", "--to", "{}", "--allow-edited", "--tokens",
             "4096", "--page", "16:32", "--interleave", "16:7"],
            ["verify", "kv", "--from", "{}", "--to", "plan.json", "--allow-edited",
             "--tokens", "64", "--page", "16"],
            ["report", "--plan", "plan.json", "--base", "{}", "--allow-edited", "-o",
             "written.html"],
            ["diff", "plan.json", "{}", "--allow-edited", "--format", "markdown"],
            ["diff", "{}", "--allow-edited", "--between", "prefill,decode"],
            ["show", "kv", "--plan", "{}", "--allow-edited"],
            ["show", "layout", "model.embed_tokens.weight", "--plan", "{}",
             "--allow-edited"],
            *(["export", name, "--plan", "{}", "--allow-edited"] for name in (
                "hlo", "shardy", "dtensor", "torchtitan", "deepspeed", "orbax", "tree", "dot", "markdown", "hf-tp-plan")),
            ["checkpoint", "split", "--checkpoint", "whole.safetensors", "--plan", "{}",
             "--allow-edited", "-o", "out"]]),
        Kind("engine", ".yaml", [engine], [
            ["cost", "--mode", "decode", "--engine", "{}", "--slots", "4", "--isl", "64",
             "--osl", "64", "--mesh", "tp:4", "--rules", "auto", "--model", own,
             "--profile", "h200-sxm", ALONE],
            ["search", "--serve", "--devices", "8", "--profile", "h200-sxm", "--model", own,
             "--engine", "{}", "--isl", "64", "--osl", "64", "--ttft", "1s", "--tpot",
             "25ms", ALONE]]),
        Kind("served", ".json", [LLAMA], [
            ["cost", "--mode", "decode", "--engine", "sglang", "--slots", "4", "--isl",
             "64", "--osl", "64", "--mesh", "tp:4", "--rules", "auto", "--model", "{}",
             "--profile", "h200-sxm", ALONE],
            ["search", "--serve", "--devices", "8", "--profile", "h200-sxm", "--model",
             "{}", "--engine", "vllm", "--isl", "64", "--osl", "64", "--ttft", "1s",
             "--tpot", "25ms", ALONE],
            ["export", "vllm", "--mesh", "tp:2", "--rules", "auto", "--model", "{}",
             "--format", "json", ALONE]]),
        Kind("staged", ".csv", [schedule], [
            ["cost", "--mesh", "pp:2,tp:2", "--rules", "auto", *CONFIG, ALONE, "--stages",
             "pp", "--assign", "1,1", "--schedule", "{}", "--microbatches", "4", "--batch",
             "8", "--seq", "64"],
            ["export", "torch-pipeline", "--mesh", "pp:2,tp:2", "--rules", "auto", *CONFIG,
             ALONE, "--stages", "pp", "--assign", "even", "--schedule", "{}",
             "--microbatches", "4"]]),
        Kind("state", ".json", [state], [
            ["export", "orbax", *inputs, "--state", "{}"]]),
        Kind("sharding", "_sharding", [json.loads(read(orbax, "_sharding"))], [
            ["diff", "{folder}", "plan.json"], ["checkpoint", "list", "{folder}"]], orbax),
        Kind("compiled-parameter", ".hlo.txt", [read(hlo).decode()], [
            ["explain", "model.embed_tokens.weight", "--mesh", mesh, "--rules", "auto",
             *CONFIG, ALONE, "--compiled", "{}"],
            ["report", "--plan", "eight.plan.json", "--compiled", "{}", "-o",
             "written.html"],
            ["audit", "{}", "--mesh", mesh, "--by", "line", "--format", "json"]]),
        Words("words", ".none", [b""], command_lines()),
    ]
