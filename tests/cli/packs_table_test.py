"""Every pack on the meshes that people use, with every published model that it
serves: docs/packs.md, which `packs_table_test.py --write` writes.
"""

import collections
import glob
import json
import os
import re
import sys
import tempfile
import unittest

import pack_table
from driver import ROOT, Case, run
from pack_table import records

PAGE = os.path.join(ROOT, "docs", "packs.md")
TESTDATA = os.path.join(ROOT, "testdata")
BEGIN, END = "<!-- table -->\n", "<!-- /table -->\n"
# That have a pack, themselves or their kin.
ASKED = ["llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen2_moe",
         "qwen3_moe", "gemma2", "gemma3", "phi3", "gpt2", "gpt_neox", "gptj",
         "opt", "falcon", "bloom", "deepseek_v3", "gpt_oss", "glm4", "cohere",
         "stablelm", "olmo", "t5", "whisper", "vit", "clip", "bert",
         "gpt_neo", "gpt_bigcode", "phimoe", "distilbert", "nemotron", "dbrx",
         "mpt", "granitemoe", "xlm-roberta"]


def page(rows):
    head = ["model", "tree", "pack", *(f"`{m}`" for m in pack_table.MESHES)]
    lines = [head, ["---"] * len(head)]
    for tree, pack, _, cells in sorted(
            rows, key=lambda row: (row[1], row[0].model_type, row[0].model,
                                   row[0].naming)):
        lines.append([tree.model, tree.naming, f"`{pack}`",
                      *(word for word, _ in cells)])
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def with_table(text, table):
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:begin] + table + text[end:]


def with_packs(text):
    begin = text.index("$ shardc show rules\n") + len("$ shardc show rules\n")
    shown = run("show", "rules", "--no-project").out
    return text[:begin] + shown + text[text.index("```", begin):]


def read_page():
    with open(PAGE, encoding="utf-8") as file:
        return file.read()


def all_rows():
    with tempfile.TemporaryDirectory() as folder:
        return pack_table.rows(folder)


def real_manifests():
    """Trees of published files, with and without a pack."""
    for path in ([os.path.join(TESTDATA, "stacks", "maxtext.json")]
                 + glob.glob(os.path.join(TESTDATA, "models", "*.manifest*"))
                 + glob.glob(os.path.join(TESTDATA, "corpus", "manifests",
                                          "*.hf*.manifest*"))):
        yield path


class Table(Case):
    @classmethod
    def setUpClass(cls):
        cls.all_rows = all_rows()
        cls.rows = [row for row in cls.all_rows if row[1]]

    def test_every_family_asked_for_has_a_pack(self):
        served = {tree.model_type for tree, *_ in self.rows}
        self.assertLessEqual(set(ASKED), served)
        # No pack has rules for state-space layers and linear attention.
        self.assertEqual({tree.model_type for tree, pack, *_ in self.all_rows
                          if not pack}, {"nemotron_h", "jamba", "qwen3_next",
                                         "mamba", "falcon_mamba"})

    def test_the_page_has_the_table(self):
        self.assertEqual(with_packs(with_table(read_page(), page(self.rows))),
                         read_page(),
                         "tests/cli/packs_table_test.py --write writes it")

    def test_nothing_is_found_that_no_word_excuses(self):
        for tree, pack, _, cells in self.rows:
            for mesh, (word, left) in zip(pack_table.MESHES, cells):
                with self.subTest(model=tree.model, tree=tree.naming,
                                  pack=pack, mesh=mesh):
                    self.assertEqual(left, [])
                    self.assertNotIn("no", word.split(", "))

    def test_most_need_only_the_pack(self):
        words = collections.Counter(
            word for *_, cells in self.rows for word, _ in cells if word)
        self.assertGreater(words["yes"], 300)
        self.assertGreater(words["yes"], 0.8 * words.total())

    def test_each_pack_passes_whole_with_a_model(self):
        """Every column that the model has is a plain yes."""
        best = collections.defaultdict(bool)
        for _, pack, _, cells in self.rows:
            best[pack] |= all(word in ("yes", "") for word, _ in cells)
        for pack, whole in best.items():
            # Or the file states what has to divide.
            if not whole:
                self.assertRegex(self.text_of(pack),
                                 r"(tp|axis) has to\s+(# )?divide|"
                                 r"needs tp to\s+# divide", pack)

    def text_of(self, pack):
        name = pack[len("builtin:"):].replace("/", ".") + ".yaml"
        with open(os.path.join(ROOT, "rules", name), encoding="utf-8") as file:
            return file.read()

    def test_no_rule_is_dead(self):
        """On real trees and on generated ones together."""
        used, known = set(), set()

        def note(rules):
            for rule in rules:
                pack = re.sub(r":\d+$", "", rule["source"])
                if rule["params"]:
                    used.add((pack, rule["match"]))
                known.add((pack, rule["match"]))

        for *_, won, _ in self.rows:
            note(won)
        for path in [*real_manifests(), *self.small_trees(),
                     *self.unrecorded_trees()]:
            shown = run("plan", "--no-project", "--mesh", "tp:1", "--rules",
                        "auto", "--modes", "train", "--manifest", path,
                        # Small ones have switches that nobody published.
                        "--unmatched", "replicate")
            if shown.rc == 0:
                note(shown.json()["rules"])
        for name in sorted(os.listdir(os.path.join(ROOT, "rules"))):
            if not name.endswith(".yaml"):
                continue
            pack = "builtin:" + name[:-len(".yaml")].replace(".", "/")
            shown = run("show", "rules", "--no-project", "--rules", pack, "--format",
                        "json").json()
            for rule in shown["rules"]:
                known.add((re.sub(r":\d+$", "", rule["source"]),
                           rule["match"]))
        self.assertEqual(sorted(known - used), [])

    def test_a_bias_is_split_where_the_outputs_of_its_weight_are(self):
        """Except for GPT-2, whose weights are [in, out] in these names. A tree
        is of several models, so a bias may be of another one than its weight.
        """
        for path in self.small_trees():
            shown = run("plan", "--no-project", "--mesh", "tp:2", "--rules",
                        "auto", "--modes", "train", "--manifest", path,
                        "--unmatched", "replicate", "--illegal", "shrink")
            if shown.rc != 0 or "/gpt2." in path or ".flax." in path:
                continue
            params = shown.json()["params"]
            for name, bias in params.items():
                weight = params.get(re.sub(r"\.bias$", ".weight", name))
                if weight in (None, bias) or len(weight["spec"]) != 2:
                    continue
                if bias["rule"] is None:  # No pack is for this model.
                    continue
                if bias["shape"] == weight["shape"][:1]:
                    with self.subTest(tree=os.path.basename(path), bias=name):
                        self.assertEqual(bias["spec"], weight["spec"][:1])

    def small_trees(self):
        """Of each family all that any of its small models holds."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        flax = records.load("flax/small")["cases"]
        for family in sorted(pack_table.described()
                             & set(records.load("transformers/index")
                                   ["families"])):
            cases = records.load("transformers/small/" + family)["cases"]
            yield self.union(folder.name, family, ".", cases)
            if family in pack_table.FLAX:
                yield self.union(
                    folder.name, family, "/",
                    [case for case in flax if case["model_type"] == family])

    def unrecorded_trees(self):
        """Of published configs whose family transformers has not, of a Llama
        with all biases in EasyDeL's names, and of a LLaVA with SigLIP's tower.
        """
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        sizes = {"hidden_size": 32, "intermediate_size": 48,
                 "num_hidden_layers": 2, "num_attention_heads": 4}
        siglip = {"model_type": "siglip_vision_model", "image_size": 32,
                  "patch_size": 8, **sizes}
        for naming, config in (
                ("easydel", {"model_type": "llama", "vocab_size": 64, **sizes,
                             "attention_bias": True, "mlp_bias": True}),
                ("hf", {"model_type": "llava", "vision_config": siglip,
                        "text_config": {"vocab_size": 64, **sizes}})):
            model = os.path.join(folder.name, naming + ".config.json")
            with open(model, "w", encoding="utf-8") as file:
                json.dump(config, file)
            path = os.path.join(folder.name, naming + ".json")
            self.check(run("show", "manifest", "--no-project", "--model", model,
                           "--naming", naming, "--format", "json", "-o", path),
                       0)
            yield path
        left = pack_table.described() - set(
            records.load("transformers/index")["families"])
        for config in glob.glob(os.path.join(TESTDATA, "configs", "*.json")):
            with open(config, encoding="utf-8") as file:
                if json.load(file)["model_type"] not in left:
                    continue
            built = run("show", "manifest", "--no-project", "--model", config,
                        "--naming", "hf", "--format", "json")
            path = os.path.join(folder.name, os.path.basename(config))
            with open(path, "w", encoding="utf-8") as file:
                file.write(built.out)
            yield path

    def union(self, folder, family, separator, cases):
        params = {p["name"]: p for case in cases
                  for p in case.get("params", [])}
        name = family + (".json" if separator == "." else ".flax.json")
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schema": "shardc.manifest/v1", "model": family,
                       "separator": separator,
                       "params": list(params.values())}, file)
        return path


def write():
    table = page([row for row in all_rows() if row[1]])
    text = with_packs(with_table(read_page(), table))
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
    else:
        unittest.main()
