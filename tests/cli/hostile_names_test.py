"""A hostile text in any member of any input reaches no output of any command
unescaped: not the escape character, no mark of direction, no end of a line."""

import copy
import gzip
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import driver
from driver import BIN, TESTDATA, Case, part_of

# A line that no name may begin: the texts have it after an end of a line.
FORGED = "FORGED"
HOSTILE = ["\x1b[31m\u202e\n" + FORGED, "\u202e\u200b"]
WILD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e]"
                  "|^[^\"'`A-Za-z0-9]*" + FORGED, re.MULTILINE)

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 128,
    "num_attention_heads": 8, "num_key_value_heads": 4,
    "num_hidden_layers": 2, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
    "torch_dtype": "bfloat16", "vocab_size": 256,
    "max_position_embeddings": 128}
MESH = {"axes": {"fsdp": 2, "tp": 2}, "device": {"profile": "h100-sxm"}}
LAYER = {
    "self_attn.q_proj": [64, 64], "self_attn.k_proj": [32, 64],
    "self_attn.v_proj": [32, 64], "self_attn.o_proj": [64, 64],
    "mlp.gate_proj": [128, 64], "mlp.up_proj": [128, 64],
    "mlp.down_proj": [64, 128], "input_layernorm": [64],
    "post_attention_layernorm": [64]}
MANIFEST = {
    "schema": "shardc.manifest/v1", "separator": ".", "model": "a model",
    "params": [
        {"name": "model.embed_tokens.weight", "shape": [256, 64],
         "dtype": "BF16"},
        *({"name": f"model.layers.{i}.{name}.weight", "shape": shape,
           "dtype": "BF16"} for i in range(2) for name, shape in LAYER.items()),
        {"name": "model.norm.weight", "shape": [64], "dtype": "BF16"},
        {"name": "lm_head.weight", "shape": [256, 64], "dtype": "BF16"},
        {"name": "model.layers.0.extra.weight", "shape": [6], "dtype": "F32"}]}
RULES = {
    "version": 1, "separator": ".",
    "axes": {"head": "tp"},
    "bundles": {"Columns": ["MINE", None]},
    "register": {"MINE": {"rule": "tp", "generation": "tp"}},
    "rules": [
        {"match": r"embed_tokens\.weight$", "spec": ["VOCAB", "fsdp"],
         "illegal": "shrink", "note": "the table"},
        {"match": r"(q|k|v)_proj\.weight$", "spec": ["HEAD", "fsdp"]},
        {"match": r"o_proj\.weight$", "spec": ["fsdp", "HEAD"]},
        {"match": r"(gate|up)_proj\.weight$", "spec": ["tp", "fsdp"]},
        {"match": r"down_proj\.weight$", "spec": ["fsdp", "tp"]},
        {"match": r"norm\.weight$", "spec": "Replicated"},
        {"match": r"lm_head\.weight$", "spec": ["tp", "fsdp"]},
        {"match": r"extra\.weight$", "spec": ["tp"], "min_size": 2},
        {"match": r"none\.weight$", "spec": []}],
    "policy": {"unmatched": "error"},
    "weight_decay": {"exclude": [r"norm\.weight$"]},
    "model": {
        "dims": {"d": "hidden_size", "n": "num_attention_heads",
                 "k": "num_key_value_heads ?? n", "h": "head_dim ?? d // n",
                 "f": "intermediate_size", "v": "vocab_size"},
        "axes": {"d": "EMBED", "n": "HEAD", "k": "KV_HEAD", "h": "HEAD_DIM",
                 "f": "MLP_INTERMEDIATE", "v": "VOCAB"},
        "repeat": "num_hidden_layers", "activation": "hidden_act ?? 'silu'",
        "norm": {"epsilon": "rms_norm_eps"},
        "skip": [r"rotary_emb\.inv_freq$", r"extra\.weight$"],
        "params": {
            "embed": [r"embed_tokens\.weight$", ["v", "d"]],
            "norm1": [r"layers\.$i\.input_layernorm\.weight$", ["d"]],
            "q": [r"layers\.$i\.self_attn\.q_proj\.weight$", ["n h", "d"],
                  {"optional_bias": ["n h"]}],
            "k": [r"layers\.$i\.self_attn\.k_proj\.weight$", ["k h", "d"]],
            "v": [r"layers\.$i\.self_attn\.v_proj\.weight$", ["k h", "d"]],
            "o": [r"layers\.$i\.self_attn\.o_proj\.weight$", ["d", "n h"]],
            "norm2": [r"layers\.$i\.post_attention_layernorm\.weight$", ["d"]],
            "gate": [r"layers\.$i\.mlp\.gate_proj\.weight$", ["f", "d"]],
            "up": [r"layers\.$i\.mlp\.up_proj\.weight$", ["f", "d"]],
            "down": [r"layers\.$i\.mlp\.down_proj\.weight$", ["d", "f"]],
            "norm": [r"(^|model\.)norm\.weight$", ["d"]],
            "head": [r"lm_head\.weight$", ["v", "d"], {"tied": "embed"}]},
        "begin": ["x = lookup(embed, ids) @resid"],
        "blocks": {
            "mixer": ["y = rmsnorm(x, norm1) @normed", "q = linear(y, q) @q",
                      "k = linear(y, k) @k", "w = linear(y, v) @k",
                      "q = rope(q)", "k = rope(k)",
                      "a = attention(q, k, w) @attn_out", "a = linear(a, o)",
                      "x = add(x, a) @resid"],
            "mlp": ["y = rmsnorm(x, norm2) @normed",
                    "m = gated(y, gate, up) @mlp", "m = linear(m, down)",
                    "x = add(x, m) @resid"]},
        "layer": ["mixer", "mlp"],
        "end": ["y = rmsnorm(x, norm) @normed", "logits = linear(y, head)"]}}
PROJECT = {"version": 1, "targets": {"base": {
    "mesh": "mesh.yaml", "rules": ["rules.yaml"], "manifest": "manifest.json",
    "model": "config.json", "batch": 4, "plan": "locked.json"}}}
PROFILE = {
    "schema": "shardc.profile/v1", "name": "mine",
    "memory": {"bytes": "80GiB", "bandwidth": 3e12}, "peaks": {"bf16": 9e14},
    "chips": {"fabric": "switch", "links": 18, "per_host": 8},
    "links": {"near": {"bandwidth": 4e11}, "far": {"bandwidth": 5e10}},
    "sources": {"peaks": ["a table"]}}
INPUTS = {"config.json": CONFIG, "mesh.yaml": MESH, "rules.yaml": RULES,
          "manifest.json": MANIFEST, "shardc.yaml": PROJECT,
          "profile.yaml": PROFILE}


def text_places(value, at=()):
    """The path of every string of a document, and of every key of an object;
    of a list of many identical elements the first two."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*at, ("key", key))
            yield from text_places(inner, (*at, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from text_places(inner, (*at, i))
    elif isinstance(value, str):
        yield at


def with_text(document, place, change):
    """A copy of the document in which `change` was applied to a text."""
    out = copy.deepcopy(document)
    inner = out
    for step in place[:-1]:
        inner = inner[step]
    last = place[-1]
    if isinstance(last, tuple):
        pairs = [(change(k) if k == last[1] else k, v)
                 for k, v in inner.items()]
        inner.clear()
        inner.update(pairs)
    else:
        inner[last] = change(inner[last])
    return out


FLAGS = ["--no-project", "--mesh", "mesh.yaml", "--rules", "rules.yaml",
         "--manifest", "manifest.json", "--model", "config.json"]
STAGES = ["--no-project", "--mesh", "pp:2,fsdp:1,tp:2", *FLAGS[3:],
          "--stages", "pp", "--microbatches", "2"]
STEP = ["--batch", "4", "--seq", "32"]
Q = "model.layers.0.self_attn.q_proj.weight"
EXPORTS = ["jax", "jax-json", "shardy", "hlo", "orbax", "dtensor", "eformer",
           "hf-tp-plan", "maxtext", "megatron", "vllm", "torchtitan",
           "deepspeed", "accelerate", "sglang", "csv", "markdown",
           "tree", "dot"]
STAGED_EXPORTS = ["torch-pipeline", "megatron-pipeline", "maxtext-pipeline",
                  "vllm-pipeline"]
# Formats of the model's step.
STEP_EXPORTS = ["program"]
# Formats of a traced program, whose texts are in tests/cli/program_test.py.
PROGRAM_EXPORTS = ["constraints"]
SEARCH = ["--prove", "0", "--seconds", "1"]
# What each command prints of the inputs, each line in all formats that the
# command offers. The first four are run with every hostile text by itself.
COMMANDS = [
    ["check", *FLAGS, "--notes"],
    ["cost", *FLAGS, *STEP, "--explain"],
    ["verify", "step", *FLAGS, *STEP, "--mode", "train"],
    ["check", "--statistics"],
    ["check", "--locked"], ["check", *FLAGS, "--diff"],
    ["plan", *FLAGS, "--keep-going"], ["plan", "--diff"],
    ["plan", "--write-locked"],
    ["explain", Q, *FLAGS], ["explain", Q, *FLAGS, "--ops", "train"],
    ["explain", "model.layers.0.extra.weight", *FLAGS],
    ["resolve", "Columns", *FLAGS[:5]], ["resolve", "attention", *FLAGS[:5]],
    ["show", "mesh", "--mesh", "mesh.yaml"], ["show", "manifest", "--manifest",
                                      "manifest.json"],
    ["show", "rules", "--no-project", "--rules", "rules.yaml"],
    ["show", "rules", "--no-project", "--rules", "rules.yaml", "--all-names"],
    ["cost", *FLAGS, *STEP, "--mode", "decode", "--kv-len", "64"],
    ["cost", *FLAGS, *STEP, "--profile", "profile.yaml"],
    ["cost", *STAGES, *STEP, "--explain"],
    ["search", "--all", "--no-project", *FLAGS[3:], "--devices", "4", *STEP],
    ["search", *FLAGS, *STEP, *SEARCH],
    ["diff", "base.json", *FLAGS],
    ["kv", "--from", "base.json", "--to", "base.json", "--tokens", "8"],
    ["show", "rules", *FLAGS], ["show", "mesh", "--mesh", "mesh.yaml"],
    ["show", "layout", Q, *FLAGS], ["show", "memory", *FLAGS, *STEP],
    ["show", "kv", *FLAGS, *STEP, "--kv-len", "64"],
    ["report", *FLAGS, *STEP],
    ["suggest", *FLAGS[:3], *FLAGS[5:], "--force"],
    ["init", "manifest.json", "--folder", "new", "--mesh", "mesh.yaml",
     "--model", "config.json"],
    ["calibrate", "--profile", "h100-sxm", "--run", "run.yaml"],
    *(["export", name, *FLAGS] for name in EXPORTS),
    *(["export", name, *STAGES] for name in STAGED_EXPORTS),
    *(["export", name, *FLAGS[:1], *FLAGS[3:], *STEP] for name in STEP_EXPORTS),
    ["audit", "program.txt", "--mesh", "fsdp:2,tp:2"],
    ["audit", "program.txt", *FLAGS[:1], "--mesh", "fsdp:2,tp:2", "--by",
     "scope"],
    ["checkpoint", "split", "--plan", "base.json", "--checkpoint", "no.safetensors", "--output",
     "pieces"],
    ["verify", *FLAGS[:5], "--model", "config.json", "--mode", "train",
     "--dtype", "float32", "--operation", "vanilla"],
    ["schedule", "1f1b", "--ranks", "2", "--microbatches", "2"],
]
FIRST = 4
# Commands that read a traced program.
PROGRAMS = [
    ["verify", "step", "--no-project", "--mesh", "fsdp:2,tp:4", "--rules",
     "all.yaml", "--program", "own.json"],
    ["verify", "step", "--no-project", "--mesh", "fsdp:2,tp:4", "--rules",
     "all.yaml", "--program", "own.json", "--reference", "own.json"],
    ["explain", "--program", "own.json"],
    ["suggest", "--no-project", "--mesh", "fsdp:2,tp:4", "--program",
     "own.json"],
    ["check", *FLAGS, "--program", "own.json", "--fail-on", "never"],
]
# Commands whose outputs hold no text of an input, or only of tensors' names,
# which escapes_test.py covers.
OTHER = {"example", "import", "lsp", "eval", "schema", "completion"}


def listed(text, start):
    """The words that begin the indented lines after a heading of a help."""
    lines = text.split(start)[1].splitlines()[1:]
    return re.findall(r"^  ([a-z-]+)", "\n".join(lines), re.MULTILINE)


class HostileNames(Case):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.formats = {}
        self.put(INPUTS)
        self.put({"run.yaml": {
            "schema": "shardc.run/v1", "name": HOSTILE[1], "mesh": "fsdp:4",
            "rules": "rules.yaml", "manifest": "manifest.json",
            "model": "config.json", "batch": 4, "seq": 32, "step_s": 0.5}})
        with gzip.open(os.path.join(TESTDATA, "audit", "executed",
                                    "bf16.hlo.txt.gz"), "rt",
                       encoding="utf-8") as file:
            program = file.read()
        for member in ("op_name", "source_file"):
            program = program.replace(f'{member}="',
                                      f'{member}="{HOSTILE[1]}\x1b[31m')
        with open(os.path.join(self.folder, "program.txt"), "w",
                  encoding="utf-8") as file:
            file.write(program)
        self.assertEqual(self.go("plan", *FLAGS, "-o", "base.json"), 0)

    def put(self, documents):
        for name, document in documents.items():
            with open(os.path.join(self.folder, name), "w",
                      encoding="utf-8") as file:
                json.dump(document, file)

    def go(self, *args):
        done = subprocess.run([BIN, *args], cwd=self.folder, timeout=60,
                              stdin=subprocess.DEVNULL, capture_output=True)
        self.assertIn(done.returncode, (0, 1, 2), done)
        for stream in (done.stdout, done.stderr):
            text = stream.decode("utf-8")  # strictly
            if args[:2] == ("export", "csv"):
                text = text.replace("\r\n", "\n")  # its line ends
            wild = WILD.search(text)
            if wild:
                self.fail(f"{args}: {text[:wild.end()][-400:]!r}")
        return done.returncode

    def formats_of(self, command):
        """The flags for each format that the help of a command names."""
        name = command[0]
        if command[:2] == ["verify", "step"]:
            name = "verify step"
        if name not in self.formats:
            done = subprocess.run([BIN, *name.split(), "--help"],
                                  capture_output=True, check=True, text=True)
            found = re.search(r"--format ([a-z|]+)", done.stdout)
            self.formats[name] = [
                ["--format", one]
                for one in found.group(1).split("|")] if found else [[]]
        return self.formats[name]

    def go_in_all_formats(self, command):
        for flags in self.formats_of(command):
            self.go(*command, *flags)

    def test_every_command_and_export_is_listed_here(self):
        help_of = [subprocess.run([BIN, *args, "--help"], capture_output=True,
                                  check=True, text=True).stdout
                   for args in ([], ["export"])]
        commands = {command[0] for command in COMMANDS} | OTHER
        self.assertEqual(set(driver.commands()), commands)
        about = re.sub(r"\s+", " ", help_of[1].split("FORMAT ", 1)[1].split(
            "(required)")[0])
        self.assertEqual(set(re.findall(r"(?:^|; ) ?([a-z0-9-]+):", about)),
                         {*EXPORTS, *STAGED_EXPORTS, *STEP_EXPORTS,
                          *PROGRAM_EXPORTS})

    def test_each_text_of_each_input_by_itself(self):
        """Alone, and after the text that was there; either may be refused."""
        changes = (lambda text: HOSTILE[0],
                   lambda text: text + "|" + HOSTILE[0],
                   lambda text: text + HOSTILE[1])
        for name, document in INPUTS.items():
            # The parameters of the manifest are the same.
            places = [place for place in text_places(document)
                      if name != "manifest.json" or place[:1] != ("params",)
                      or place[1] == 1]
            # Four and three have no common factor, so that each of the three
            # changes is among the cases of an ordinary run.
            for place, change in part_of(itertools.product(places, changes), 4):
                self.put({name: with_text(document, place, change)})
                for command in COMMANDS[:FIRST]:
                    self.go(*command)
            self.put({name: document})

    def test_texts_of_traced_programs(self):
        """Each kind of text by itself, then all that are accepted together."""
        for folder, name in (("regions", "mlp"), ("programs", "mqa")):
            with gzip.open(os.path.join(TESTDATA, folder, name +
                                        ".program.json.gz")) as file:
                program = json.load(file)
            program["unknown"] = [{"primitive": "own", "count": 1}]
            program["assumptions"] = ["a branch is taken"]
            self.put({"all.yaml": {"version": 1, "rules": [
                {"match": ".", "spec": ["fsdp"], "illegal": "shrink"}]}})
            accepted, seen = program, set()
            for place in text_places(program):
                kind = tuple(one if isinstance(one, (str, tuple)) else 0
                             for one in place)
                if kind in seen and (name == "mqa" or not driver.COMPLETE):
                    continue
                seen.add(kind)
                for end in HOSTILE:
                    def change(text, end=end):
                        return text + "|" + end
                    self.put({"own.json": with_text(program, place, change)})
                    if self.go(*PROGRAMS[0]) != 2:
                        with_it = with_text(accepted, place, change)
                        self.put({"own.json": with_it})
                        if self.go(*PROGRAMS[0]) != 2:
                            accepted = with_it
                            break
            self.put({"own.json": accepted})
            parameter = next(one["name"] for one in accepted["inputs"]
                             if one["kind"] == "param")
            for command in [*PROGRAMS, ["explain", parameter, "--program",
                                        "own.json"]]:
                self.go_in_all_formats(command)
            self.assertIn("|", accepted["files"][0] + parameter)

    def test_all_texts_that_are_accepted_together(self):
        """Every command in every format, with a hostile end of each text that
        the inputs may have."""
        accepted = 0
        for name, document in INPUTS.items():
            places = sorted(text_places(document), key=lambda place: (
                isinstance(place[-1], tuple), -len(place)))
            for place in places:
                for end in HOSTILE:
                    changed = with_text(
                        document, place,
                        lambda text, end=end: text + "|" + end)
                    self.put({name: changed})
                    if self.go(*COMMANDS[0]) == 0 and self.go(
                            *COMMANDS[1]) == 0 and self.go("check") == 0:
                        document = changed
                        accepted += 1
                        break
            self.put({name: document})
        self.assertGreater(accepted, 30)
        for command in COMMANDS:
            self.go_in_all_formats(command)


if __name__ == "__main__":
    unittest.main()
