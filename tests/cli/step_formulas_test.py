"""`cost` counts what the program of a step does.

The matmuls by the roles of parameters are those of the step that `verify step`
runs, and the bytes by formulas, without a `model:` section, those of the
program: testdata/tables lists them where they differ.
"""

import collections
import itertools
import json
import os
import re
import tempfile
import unittest

from agreeing import CASES, CostCase, inputs, tree
from driver import ROOT, TESTDATA, part_of, run

# Models of which `cost` and `verify step` count the same matmuls.
PRODUCTS = [
    ("llama-3-8b", "hf", "fsdp:2,tp:2"),
    ("llama-3.2-1b", "flax", "dp:2,tp:4"),
    ("qwen2-7b", "hf", "fsdp:4,tp:4"),
    ("devstral-small-24b", "flax", "fsdp:4,tp:2"),
    ("gemma-2-9b", "hf", "fsdp:8"),
]

# The configurations whose matmuls differ, by the reason.
VOCABULARY = ("gpt2", "gpt2-xl")
PLACES = ("deepseek-v3", "deepseek-v3.1", "gpt-oss-120b", "gpt-oss-20b",
          "granite-3.1-1b-a400m", "llama-4-maverick", "mixtral-8x22b",
          "mixtral-8x7b", "qwen3-235b-a22b", "qwen3-30b-a3b")
OTHER_PRODUCTS = (
    {(model, "train") for model in (*VOCABULARY, *PLACES)} |
    {(model, "decode") for model in PLACES})
PRODUCTS_HEAD = """\
# Matmuls of `cost` as a fraction of those of the step of `verify step`, of 16 rows
# of 32 tokens on fsdp:2,tp:2. The reasons for more than 0.005 in training and 0.0005
# in decoding:
# - gpt2, granite: tp does not divide the vocabulary. The step computes one of the two
#   gradients of the head on every device of tp, where `cost` counts a part.
# - experts: the step has queues with places for more tokens than there are, of which
#   `cost` counts those of the router's choices.
# model, mode, ratio
"""

MODES = ("train", "prefill", "decode")
SECTIONS_HEAD = """\
# Bytes that a device sends in a step by the program of a pack's `model:` section
# and by the formulas without it, their ratio, and where they differ by more than a
# hundredth, the collective that differs most: bytes of the program less those of
# the formulas. The reasons:
# - decode and prefill: logits stay sharded in a program.
# - train, backward all_gather over tp: a program gathers the sharded input of each
#   half of a layer again for the gradients of its weights, the formulas once.
# - forward all_reduce over tp (Gemma): a norm after a half of a layer reads the
#   complete sum, so that a program all-reduces it instead of reduce-scattering.
# model, naming, mesh, mode, program, formulas, ratio, largest difference
"""


def pack_of(case):
    name = next((name for name in ("mixtral", "gemma", "gpt2")
                 if case[0].startswith(name)), "llama")
    return f"{name}.{case[1]}.yaml"


class Formulas(CostCase):
    def largest_difference(self, program, formulas):
        less = collections.Counter()
        for cost, sign in ((program, 1), (formulas, -1)):
            for one in cost["communication"]:
                less[f"{one['phase']} {one['collective']} "
                     f"{','.join(one['axes'])}"] += (
                         sign * one["bytes_per_device"])
        name = max(sorted(less), key=lambda one: abs(less[one]))
        return f"{name} {less[name]:+d}"

    def test_the_head_of_roberta_is_the_embedding(self):
        """Its lm_head.dense, from the width to the width, is none: it has the
        logits of a BERT of the same sizes."""
        config = {"vocab_size": 1000, "hidden_size": 64,
                  "num_hidden_layers": 2, "num_attention_heads": 4,
                  "intermediate_size": 128, "max_position_embeddings": 66}
        logits, flops = {}, {}
        for kind in ("bert", "roberta"):
            with tempfile.TemporaryDirectory() as folder:
                model = os.path.join(folder, "config.json")
                with open(model, "w", encoding="utf-8") as file:
                    json.dump({"model_type": kind, **config}, file)
                names = os.path.join(folder, "tree.json")
                self.check(run("show", "manifest", "--model", model, "--format",
                               "json", "-o", names), 0)
                value = self.check(run(
                    "cost", "--batch", "4", "--seq", "64", "--profile",
                    "h100-sxm", "--manifest", names, "--model", model,
                    "--rules", "auto", "--no-project", "--mesh", "fsdp:2",
                    "--format", "json"), 0).json()
            logits[kind] = value["memory"]["logits"]
            flops[kind] = value["time"]["flops"]
        self.assertEqual(logits["roberta"], logits["bert"])
        # RoBERTa's dense layer is counted as well.
        self.assertGreaterEqual(flops["roberta"], flops["bert"])
        self.assertLess(flops["roberta"], 1.1 * flops["bert"])

    def test_products_of_the_step_are_those_of_the_cost_model(self):
        """`cost` counts matmuls by the roles of parameters, `verify step` by
        the ops of the step. They agree where a query attends to every key (in
        decoding), or where attention is little (32 tokens): `cost` counts half
        of the keys under a causal mask, the step all of them. They do not
        agree, and are not compared here, where heads or the vocabulary do not
        divide, where experts have more places than tokens, and for an encoder,
        whose input has a length of its own."""
        for model, naming, mesh in PRODUCTS:
            step = [*inputs(model, naming), "--batch", "16", "--mesh", mesh]
            for mode, within in (("train", 0.005), ("decode", 0.0005)):
                with self.subTest(model=model, mode=mode):
                    cost = self.cost(*step, "--mode", mode, "--seq", "32",
                                     "--kv-len", "32")
                    got = run("verify", "step", *step, "--mode", mode, "--seq",
                              "32", "--format", "json")
                    self.assertEqual(got.rc, 0, got.err)
                    (one,) = json.loads(got.out)["steps"]
                    flops = one["flops"]
                    self.assertLess(
                        abs(cost["time"]["flops"] / flops["matmuls"] - 1),
                        within, flops)
                    # The rest is norms, functions, sums and the optimizer.
                    whole = sum(flops[phase] for phase in
                                ("forward", "backward", "optimizer"))
                    self.assertLess(1 - flops["matmuls"] / whole, 0.02)
                    self.assertEqual(flops["backward"] > 0, mode == "train")

    def test_products_of_all_configurations(self):
        """The matmuls of `cost` and of the step, of every configuration that
        has both. testdata/tables/matmuls.txt lists their ratios; those that
        differ have their reason in OTHER_PRODUCTS."""
        lines, models = [], set()
        folder = os.path.join(TESTDATA, "configs")
        writes = os.environ.get("SHARDC_WRITE_TABLES")
        files = sorted(os.listdir(folder))
        for file in files if writes else part_of(files, 3):
            model = file.removesuffix(".config.json")
            models.add(model)
            config = ["--model", os.path.join(folder, file), "--no-project"]
            # The step of a model is described with unquantised weights.
            made = run("show", "manifest", *config, "--weights-dtype", "bfloat16",
                       "--format", "json")
            if made.rc != 0:
                continue
            path = os.path.join(self.folder.name, "manifest.json")
            with open(path, "w", encoding="utf-8") as out:
                out.write(made.out)
            for mode in ("train", "decode"):
                step = [*config, "--manifest", path, "--rules", "auto",
                        "--mesh", "fsdp:2,tp:2", "--batch", "16", "--mode",
                        mode, "--seq", "32"]
                got = run("verify", "step", *step, "--format", "json")
                if got.rc not in (0, 1):
                    continue
                (one,) = json.loads(got.out)["steps"]
                if not one["flops"]:
                    continue
                # The step leaves out axes that do not divide the heads.
                cost = self.cost(*step, "--kv-len", "32", "--illegal", "drop")
                ratio = cost["time"]["flops"] / one["flops"]["matmuls"]
                lines.append(f"{model} {mode} {ratio:.4f}\n")
                within = 0.005 if mode == "train" else 0.0005
                if abs(ratio - 1) > within:
                    with self.subTest(model=model, mode=mode):
                        self.assertIn((model.split(".alt-")[0], mode),
                                      OTHER_PRODUCTS, ratio)
        path = os.path.join(TESTDATA, "tables", "matmuls.txt")
        if writes:
            with open(path, "w", encoding="utf-8") as out:
                out.write(PRODUCTS_HEAD + "".join(lines))
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text.startswith(PRODUCTS_HEAD))
        listed = text.removeprefix(PRODUCTS_HEAD).splitlines(keepends=True)
        self.assertEqual(
            [line for line in listed if line.split(" ")[0] in models], lines)
        self.assertLessEqual({line.split(" ")[0] for line in listed},
                             {file.removesuffix(".config.json")
                              for file in files})

    def test_cost_with_and_without_a_model_section(self):
        """Memory is the same; where a program sends other bytes than the
        formulas, both are listed in testdata/tables/model_sections.txt."""
        lines = []
        for case, mode in itertools.product(CASES, MODES):
            model, naming, mesh, batch, length, remat = case
            with open(os.path.join(ROOT, "rules", pack_of(case)),
                      encoding="utf-8") as file:
                section = file.read()
            program, formulas = costs = list(self.of_both(
                section, *tree(model, naming), "--mesh", mesh, "--mode", mode,
                "--batch", str(batch), "--seq", str(length), "--kv-len",
                str(length), *(["--remat", remat] if mode == "train" else [])))
            with self.subTest(case=case, mode=mode):
                self.assertEqual(program["memory"], formulas["memory"])
                self.assertEqual(program["activations"],
                                 formulas["activations"])
                self.assertEqual(formulas["communication_from"], "formulas")
            sent = [one["communication_bytes"]["total"] for one in costs]
            known = None not in sent
            ratio = sent[0] / sent[1] if known else 1
            line = [model, naming, mesh, mode,
                    *(str(n) if n is not None else "not_known" for n in sent),
                    f"{ratio:.3f}" if known else "-"]
            if abs(ratio - 1) > 0.01:
                line.append(self.largest_difference(program, formulas))
            lines.append(" ".join(line) + "\n")
        path = os.path.join(TESTDATA, "tables", "model_sections.txt")
        if os.environ.get("SHARDC_WRITE_TABLES"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(SECTIONS_HEAD + "".join(lines))
        with open(path, encoding="utf-8") as file:
            listed = file.read()
        self.assertEqual(listed.split("\n"),
                         (SECTIONS_HEAD + "".join(lines)).split("\n"))

    def test_formulas_and_programs_gather_the_same_parameters(self):
        """On one axis, where only parameters are gathered: with a head of its
        own, with a head that is the embedding, and with learned positions."""
        for model, naming in (("llama-3-8b", "hf"), ("qwen3-8b", "hf"),
                              ("llama-3.2-1b", "hf"), ("gemma-2b", "hf"),
                              ("gpt2-xl", "flax")):
            with open(os.path.join(ROOT, "rules", pack_of((model, naming))),
                      encoding="utf-8") as file:
                section = file.read()
            gathered = [
                {phase: sum(one["bytes_per_device"]
                            for one in cost["communication"]
                            if one["phase"] == phase and
                            one["collective"] == "all_gather")
                 for phase in ("forward", "backward")}
                for cost in self.of_both(
                    section, *tree(model, naming), "--mesh", "fsdp:2",
                    "--mode", "train", "--batch", "16", "--seq", "64")]
            with self.subTest(model=model):
                self.assertEqual(gathered[0], gathered[1])
                self.assertGreater(gathered[0]["backward"], 0)

    def test_formulas_gather_no_experts(self):
        """Experts in one tensor, whose axis shards the batch too."""
        path = os.path.join(self.folder.name, "experts.json")
        model = ["--model", os.path.join(TESTDATA, "configs",
                                         "mixtral-8x7b.config.json")]
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.check(run(
                "show", "manifest", "--no-project", *model, "--naming", "hf",
                "--format", "json"), 0).out)
        with open(os.path.join(ROOT, "rules", "mixtral.hf.yaml"),
                  encoding="utf-8") as file:
            section = file.read().replace(
                "rules:\n", "axes: {batch: [fsdp, dp, ep]}\nrules:\n", 1)
        program, formulas = self.of_both(
            section, "--no-project", *model, "--manifest", path, "--mesh",
            "fsdp:2,ep:4", "--mode", "prefill", "--batch", "64", "--seq",
            "2048")
        self.assertEqual(program["communication_from"], "program")
        self.assertEqual(formulas["communication_from"], "formulas")
        self.assertEqual(self.sent_by(formulas), self.sent_by(program))
        self.assertEqual(formulas["memory"], program["memory"])

    def sent_by(self, cost):
        out = collections.Counter()
        for one in cost["communication"]:
            out[one["collective"], tuple(one["axes"])] += one[
                "bytes_per_device"]
        return out


if __name__ == "__main__":
    unittest.main()
