"""What `check` reports for every pack, on the meshes that people use, with the
published models that the pack serves: the table of docs/packs.md.

The trees are those that `manifest --model` builds of recorded config.json
files, which tests/runtimes compares with transformers' own.
"""

import concurrent.futures
import json
import os
import re
import sys

from driver import COMPLETE, ROOT, run

sys.path.insert(0, os.path.join(ROOT, "tests", "runtimes"))

import records  # noqa: E402

MESHES = ["tp:8", "fsdp:16,tp:4", "dp:4,fsdp:16,tp:4", "fsdp:8,ep:8"]
EXPERTS = "fsdp:8,ep:8"  # for models that have some
# What a user adds to a pack if a model's heads do not divide, the smallest
# change first, with the name of each in the table.
AXES = [("`kv_head: null`", "{kv_head: null}"),
        ("`kv_head: tp`", "{kv_head: tp}"),
        ("`head: null`", "{head: null, kv_head: null}")]
# Families whose pack knows the names of their Flax classes.
FLAX = {"bert", "clip", "gpt2", "gptj", "llama", "mistral", "gemma", "mt5",
        "opt", "roberta", "t5", "vit", "whisper"}
# Whose heads are wider than the Flax class can say.
NOT_FLAX = {"devstral-small-24b", "mistral-nemo-12b"}
# Codes that a change of axes may mend, or that say that tp fits no heads.
HEADS = {"SHD220", "SHD207", "SHD405"}
# What a model's sizes do not let a mesh do, as docs/packs.md explains it: the
# word, the codes, and what the message is about.
EXCUSES = [("blocks", {"SHD222"}, r"in blocks of 128"),
           ("blocks", {"SHD202", "SHD207"}, r"_scale_inv|_(blocks|scales)`"),
           ("vocabulary", {"SHD202", "SHD207"},
            r"^(dimension 0 of )?`[^`]*(embed|wte)[^`]*`(,| is \d)"),
           ("experts", {"SHD202", "SHD210"},
            r"\.experts\..* is \d+, axis `ep`|of axis `ep`")]


def described():
    return {name[:-len(".yaml")]
            for name in os.listdir(os.path.join(ROOT, "families"))}


def models():
    """(model, model type) of the recorded models with a description."""
    known = described()
    return [(entry["model"], entry["model_type"])
            for entry in records.load("transformers/index")["models"]
            if entry["model_type"] in known]


# More layers than any period of layers has: what follows repeats them.
LAYERS = 12


def with_fewer_layers(config):
    """The config with at most LAYERS layers if it has experts, of which the files
    have tens of thousands of tensors. That changes no cell of the table;
    tests/bootstrap `long` has all layers."""
    layers = config.get("num_hidden_layers", 0)
    if not any("experts" in key for key in config):
        return config
    by_layer = {key: value for key, value in config.items()
                if isinstance(value, (list, str)) and len(value) == layers}
    if layers <= LAYERS or any(isinstance(v, str) for v in by_layer.values()):
        return config
    return {**config, "num_hidden_layers": LAYERS,
            **{key: value[:LAYERS] for key, value in by_layer.items()}}


def config_of(model):
    record = records.load("transformers/known/" + model)
    config = record["given"] if record["source"] else record["config"]
    return config if COMPLETE else with_fewer_layers(config)


class Tree:
    """A model's tree in one naming, and its config, as files."""

    def __init__(self, folder, model, model_type, naming):
        self.model, self.model_type, self.naming = model, model_type, naming
        self.config = os.path.join(folder, model + ".config.json")
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump(config_of(model), file)
        self.manifest = os.path.join(folder, f"{model}.{naming}.json")
        built = run("show", "manifest", "--no-project", "--model", self.config,
                    "--naming", naming, "--format", "json")
        self.names = [p["name"] for p in built.json()["params"]]
        with open(self.manifest, "w", encoding="utf-8") as file:
            file.write(built.out)

    def has_experts(self):
        return any(re.search(r"[./](experts|input_linear)[./]", name)
                   for name in self.names)


def trees(folder, chosen=None):
    """Every tree once: the files' names only where they differ."""
    for model, model_type in chosen or models():
        built = Tree(folder, model, model_type, "hf")
        yield built
        files = Tree(folder, model, model_type, "hf-files")
        if files.names != built.names:
            yield files
        if model_type in FLAX and model not in NOT_FLAX:
            yield Tree(folder, model, model_type, "flax")


def pack_of(tree):
    """The pack that `auto` picks; nothing where it knows none."""
    shown = run("plan", "--no-project", "--mesh", "tp:1", "--rules", "auto",
                "--manifest", tree.manifest, "--model", tree.config,
                "--modes", "train")
    if shown.rc != 0:
        return None, shown.err
    rules = shown.json()["rules"]
    packs = list(dict.fromkeys(re.sub(r":\d+$", "", rule["source"])
                               for rule in rules))
    return packs[0], [rule for rule in rules if rule["params"]]


def axes_file(folder, axes):
    return os.path.join(folder, re.sub(r"\W+", "_", axes) + ".yaml")


def found(folder, tree, mesh, axes):
    """Errors and warnings of a check, as (code, message)."""
    rules = ["--rules", "auto"]
    if axes:
        rules = ["--rules", axes_file(folder, axes), *rules]
    shown = run("check", "--no-project", "--mesh", mesh, *rules, "--manifest",
                tree.manifest, "--model", tree.config, "--format", "json",
                "--fail-on", "never")
    findings = json.loads(shown.out)
    if isinstance(findings, dict):
        findings = findings["findings"]
    return [(f["code"], f["message"]) for f in findings
            if f["level"] != "note"]


def excuse(code, message):
    """The word for a finding that follows from the model's sizes."""
    for word, codes, about in EXCUSES:
        if code in codes and re.search(about, message):
            return word
    return None


def split(findings):
    """The words of those that have one, and the others."""
    words = {excuse(*finding) for finding in findings} - {None}
    return sorted(words), [f for f in findings if not excuse(*f)]


def heads_word(folder, tree, mesh, left):
    """The word for findings about heads, and what it does not excuse."""
    if {code for code, _ in left} <= HEADS:
        for word, axes in AXES:
            if not split(found(folder, tree, mesh, axes))[1]:
                return [word], []
        if any(code == "SHD220" for code, _ in left):
            return ["heads"], []
        # The queries of all heads in one matrix with one key and one value,
        # which a pack replicates over tp on purpose.
        if all(code == "SHD207" and ".c_attn." in message
               for code, message in left):
            return ["c_attn"], []
    return ["no"], left


def cell(folder, tree, mesh):
    """The words for the table, and what is found that no word excuses."""
    if mesh == EXPERTS and not tree.has_experts():
        return "", []
    words, left = split(found(folder, tree, mesh, ""))
    if left:
        more, left = heads_word(folder, tree, mesh, left)
        words += more
    return ", ".join(words) or "yes", left


def rows(folder, chosen=None):
    """(tree, pack, its rules that won, cells) of every tree."""
    all_trees = list(trees(folder, chosen))
    for _, axes in AXES:
        with open(axes_file(folder, axes), "w", encoding="utf-8") as file:
            file.write(f"version: 1\naxes: {axes}\n")

    def row(tree):
        pack, won = pack_of(tree)
        cells = [cell(folder, tree, mesh) for mesh in MESHES] if pack else []
        return tree, pack, won, cells

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(row, all_trees))
