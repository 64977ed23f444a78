"""`verify step` over the bundled configs, each with the tree that its
family builds: which models are proved, and why others are not.

docs/guides/step.md has the table, and one of attention's operations;
`step_models_test.py --write` writes both.
"""

import collections
import json
import os
import sys
import tempfile
import unittest

from driver import ROOT, TESTDATA, run

sys.path.insert(0, os.path.join(ROOT, "tests", "runtimes"))

import page_tables  # noqa: E402

CONFIGS = os.path.join(TESTDATA, "configs")
# Attention by each operation: on this mesh, in these models.
SPLIT = "sp:2,tp:2"
ATTENDING = ("llama-3-8b", "t5-small")
MODES = ("train", "prefill", "decode")
# Sections describe the model that is trained, whose weights are no blocks.
UNQUANTISED = ("--weights-dtype", "bfloat16")
MESH, EXPERTS = "dp:2,fsdp:2,tp:2", "fsdp:2,ep:2,tp:2"
EXPERT_KEYS = ("num_local_experts", "num_experts", "n_routed_experts")
# Model types that no section describes, and why.
NOT_DESCRIBED = {
    "clip": "two towers, one of which begins with a convolution",
    "clip_text_model": "a part of two towers; no family builds its tree",
    "mixformer-sequential": "names of an older form, of which there is no "
                            "family",
    "nemotron_h": "state-space layers",
    "vit": "this config is the body alone, which has no loss",
}
# Configs, by name, of what is no whole model.
NOT_WHOLE = {"t5-v1.1-xxl": "another config is the encoder alone, which has "
                            "no loss"}
# Of several models in one tree the one that is described.
PARTS = {"gemma3": "its text model", "llama4": "its text model",
         "qwen2_vl": "its text model"}


def configs():
    """(name, path, content), sorted."""
    for name in sorted(os.listdir(CONFIGS)):
        path = os.path.join(CONFIGS, name)
        with open(path, encoding="utf-8") as file:
            yield name[:-len(".config.json")], path, json.load(file)


def has_experts(config):
    text = config.get("text_config", config)
    return any(text.get(key) for key in EXPERT_KEYS)


def asked(path, mesh, mode, *more):
    """The report of a config; None where there is none."""
    tree = run("show", "manifest", "--model", path, "--naming", "hf",
               "--format", "json", *UNQUANTISED)
    if tree.rc:
        return None
    with tempfile.TemporaryDirectory() as folder:
        manifest = os.path.join(folder, "manifest.json")
        with open(manifest, "w", encoding="utf-8") as file:
            file.write(tree.out)
        done = run("verify", "step", "--no-project", "--mode", mode,
                   "--mesh", mesh, "--rules", "auto", "--model", path, "--manifest", manifest,
                   "--batch", "16", "--format", "json", *more)
    try:
        (step,) = json.loads(done.out)["steps"]
    except (KeyError, TypeError, ValueError):
        return None
    return step


def proved(path, mesh):
    """The status of a training step, and what is wrong."""
    step = asked(path, mesh, "train")
    return step and (step["status"], step["reason"] or step["problems"])


class Models(unittest.TestCase):
    def test_all_that_are_described_are_proved(self):
        for name, path, config in configs():
            kind = config["model_type"]
            for mesh in [MESH] + [EXPERTS] * has_experts(config):
                with self.subTest(model=name, mesh=mesh):
                    apart = kind in NOT_DESCRIBED or name in NOT_WHOLE
                    wanted = None if apart else ("pass", [])
                    self.assertEqual(proved(path, mesh), wanted)

    def test_decoding_moves_tokens_by_cost_and_gathers_weights_as_published(self):
        # tp cuts the tokens' width and fsdp the weights': they have to agree
        # on an order, and what is small gives way.
        path = os.path.join(CONFIGS, "gemma-2-9b.config.json")
        gathered = {}
        for policy in ("cost", "published"):
            step = asked(path, EXPERTS, "decode", "--policy", policy)
            gathered[policy] = {op["result"][:3] for op in step["ops"]
                                if op["collective"] == "all_gather"}
        self.assertEqual(gathered["cost"], {"[b,"})
        self.assertLessEqual({"[d,", "[f,", "[v,"}, gathered["published"])

    def test_a_side_of_three_buckets_has_two_of_several_distances(self):
        """The dense step and the program find a key's bucket by code of their
        own."""
        for name, path, config in configs():
            if name != "t5-small":
                continue
            config["relative_attention_num_buckets"] = 6
            with tempfile.TemporaryDirectory() as folder:
                small = os.path.join(folder, "config.json")
                with open(small, "w", encoding="utf-8") as file:
                    json.dump(config, file)
                self.assertEqual(proved(small, MESH), ("pass", []))

    def test_the_tables_are_of_these(self):
        page = the_page()
        self.assertEqual(page.made(), page.read(),
                         "tests/cli/step_models_test.py --write writes it")

    def test_every_reason_is_needed(self):
        kinds = {config["model_type"] for _, _, config in configs()}
        self.assertLessEqual(set(NOT_DESCRIBED), kinds)


def table():
    counts, experts = collections.Counter(), set()
    parts = {kind: ": " + what for kind, what in PARTS.items()}
    for name, _, config in configs():
        counts[config["model_type"]] += 1
        if name in NOT_WHOLE:
            parts[config["model_type"]] = "; " + NOT_WHOLE[name]
        if has_experts(config):
            experts.add(config["model_type"])
    lines = [["model type", "configs", MESH, EXPERTS],
             ["---", "--:", "---", "---"]]
    for kind in sorted(counts, key=str.lower):
        why = NOT_DESCRIBED.get(kind)
        part = parts.get(kind, "")
        lines.append([f"`{kind}`", str(counts[kind]),
                      f"not described: {why}" if why else "proved" + part,
                      "proved" if kind in experts and not why else ""])
    return text_of(lines)


def text_of(lines):
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def told(step):
    """`proved`, or why it is unsupported, without the operation's name."""
    if step["status"] == "pass":
        return "proved"
    return step["reason"].split(": ", 1)[1]


def operations():
    """Each operation inside a step of each model; modes with the same result share
    a cell."""
    listed = json.loads(run("verify", "--list", "--format", "json").out)
    lines = [["operation", *(f"`{name}` on {SPLIT}" for name in ATTENDING)],
             ["---"] * (1 + len(ATTENDING))]
    for operation in listed["operations"]:
        line = [f"`{operation['name']}`"]
        for name in ATTENDING:
            path = os.path.join(CONFIGS, name + ".config.json")
            fares = {}
            for mode in MODES:
                step = asked(path, SPLIT, mode, "--operation",
                             operation["name"])
                fares.setdefault(told(step), []).append(mode)
            line.append("; ".join(
                fare if len(modes) == len(MODES)
                else ", ".join(modes) + ": " + fare
                for fare, modes in fares.items()))
        lines.append(line)
    return text_of(lines)


def the_page():
    return page_tables.Page(
        os.path.join(ROOT, "docs", "guides", "step.md"), models=table,
        operations=operations)


if __name__ == "__main__":
    the_page().main()
