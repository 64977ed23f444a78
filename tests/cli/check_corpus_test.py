"""`check` over every public pair of rules and parameters: the errors are
exactly those that Python finds with `re` and arithmetic, so no recorded bug
is missed and none is invented."""

import collections
import json
import os
import tempfile
import unittest

import corpus_rules as corpus
from driver import Case, run

# fsdp=4 and tp=8, then fsdp=16 and tp=16; `mp` is EasyLM's name for tp.
MESHES = [
    {"dp": 1, "fsdp": 4, "mp": 8, "ep": 1, "tp": 8, "sp": 1},
    {"dp": 1, "fsdp": 16, "mp": 1, "ep": 1, "tp": 16, "sp": 1},
]
# Errors that need the model's config.json, or that Python does not redo.
STRUCTURE = {"SHD220", "SHD221", "SHD409"}


def quoted(message):
    return message.split("`")[1]


class Corpus(Case):
    def found(self, result):
        out = {code: set() for code in
               ("SHD101", "SHD108", "SHD109", "SHD202", "SHD204")}
        for finding in result:
            if finding["level"] != "error" or finding["code"] in STRUCTURE:
                continue
            code = finding["code"]
            if code in ("SHD108", "SHD109"):
                out[code].add(quoted(finding["message"]))
            else:
                out.setdefault(code, set()).update(finding["params"])
        return out

    def test_errors_are_those_that_python_finds(self):
        counts = collections.Counter()
        with tempfile.TemporaryDirectory() as folder:
            for pair in corpus.some_pairs():
                manifest = corpus.find(pair["manifest"])
                params = corpus.load(pair["manifest"])["params"]
                rules = corpus.Rules(corpus.load(pair["ruleset"]), params)
                path = os.path.join(folder, "rules.yaml")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(rules.text)
                for mesh in MESHES:
                    axes = ",".join(f"{k}:{v}" for k, v in mesh.items())
                    result = run("check", "--no-project", "--mesh", axes,
                                 "--rules", path, "--manifest", manifest,
                                 "--format", "json", "-q")
                    with self.subTest(pair=pair["pair"], mesh=axes):
                        want, maybe = corpus.expected(rules, params, mesh)
                        found = self.found(result.json())
                        if found.pop("SHD102", None) is not None:
                            self.assertIn(pair["pair"], OTHER_NAMING)
                        found["SHD101"] -= maybe
                        self.assertEqual(found, want)
                        failed = any(want.values()) or \
                            pair["pair"] in OTHER_NAMING
                        if not maybe:
                            self.check(result, 1 if failed else 0)
                        counts.update({k: 1 for k, v in want.items() if v})
        # The corpus holds defects of these kinds, so the test can fail.
        for code in ("SHD101", "SHD108", "SHD202"):
            self.assertGreater(counts[code], 0, counts)

    def test_experts_that_fell_to_the_catch_all_are_one_error(self):
        pair = next(p for p in corpus.pairs()
                    if "qwen3_moe" in p["pair"] and "30b-a3b.easydel" in
                    p["pair"])
        params = corpus.load(pair["manifest"])["params"]
        rules = corpus.Rules(corpus.load(pair["ruleset"]), params)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rules.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(rules.text)
            arguments = ["check", "--no-project", "--mesh", "fsdp:8,tp:4",
                         "--rules", path, "--manifest",
                         corpus.find(pair["manifest"])]
            errors = [f for f in run(*arguments, "--format", "json").json()
                      if f["level"] == "error"]
            text = self.check(run(*arguments), 1).out
        self.assertEqual([f["code"] for f in errors], ["SHD101"])
        self.assertIn("54.02 GiB (95.0 % of the model)",
                      errors[0]["message"])
        self.assertEqual(len(errors[0]["params"]), 48 * 4)
        self.assertIn("mlp/experts/(gate_proj|up_proj)/kernel",
                      errors[0]["help"])
        self.assertIn("the rule has `block_sparse_moe` where the tree has `mlp`",
                      text)

    def test_order_and_repetition_in_rule_sets_without_a_tree(self):
        """Patterns alone: conflicts, duplicates and catch-alls not last."""
        counts = collections.Counter()
        with tempfile.TemporaryDirectory() as folder:
            tree = os.path.join(folder, "m.json")
            with open(tree, "w", encoding="utf-8") as file:
                json.dump({"schema": "shardc.manifest/v1", "separator": "/",
                           "params": {"x": {"shape": [], "dtype": "F32"}}},
                          file)
            path = os.path.join(folder, "rules.yaml")
            for name in sorted(os.listdir(corpus.find("rules"))):
                rule_set = corpus.load("rules/" + name)
                if any("pattern" not in rule for rule in rule_set["rules"]):
                    continue
                rules = corpus.Rules(rule_set, [])
                with open(path, "w", encoding="utf-8") as file:
                    file.write(rules.text)
                result = run("check", "--no-project", "--mesh",
                             "dp:2,fsdp:2,ep:2,tp:2,sp:2,mp:2", "--rules",
                             path, "--manifest", tree, "--format", "json",
                             "--select", "SHD108,SHD109", "-q")
                want, _ = corpus.expected(rules, [], {})
                found = self.found(result.json())
                with self.subTest(rules=name):
                    for code in ("SHD108", "SHD109"):
                        self.assertEqual(found[code], want[code])
                        counts[code] += bool(want[code])
        self.assertGreater(counts["SHD108"], 0)

    def test_structure_errors_are_true(self):
        """Heads of the model's config.json against the axis sizes."""
        checked = 0
        with tempfile.TemporaryDirectory() as folder:
            for pair in corpus.some_pairs():
                config = corpus.config_of(pair["manifest"])
                if config is None:
                    continue
                with open(config, encoding="utf-8") as file:
                    model = json.load(file)
                model = model.get("text_config") or model
                heads = model.get("num_attention_heads") or \
                    model.get("n_head") or model.get("encoder_attention_heads")
                params = corpus.load(pair["manifest"])["params"]
                rules = corpus.Rules(corpus.load(pair["ruleset"]), params)
                path = os.path.join(folder, "rules.yaml")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(rules.text)
                result = run("check", "--no-project", "--mesh",
                             "fsdp:4,mp:2,tp:8,sp:1", "--rules", path,
                             "--manifest", corpus.find(pair["manifest"]),
                             "--model", config, "--format", "json", "-q",
                             "--select", "SHD2,SHD4")
                for finding in result.json():
                    if finding["level"] != "error" or \
                            finding["code"] not in STRUCTURE:
                        continue
                    checked += 1
                    with self.subTest(pair=pair["pair"], finding=finding):
                        self.assertIn(finding["code"], ("SHD220", "SHD409"))
                        self.assertIsNotNone(heads)
                        self.assertNotEqual(heads % 8, 0)
        self.assertGreater(checked, 0)


# Plans for stacked experts against a checkpoint of single ones.
OTHER_NAMING = {"hf-ep-v5-qwen2_moe--real-qwen3.5-25b-reap-a3b.hf"}


if __name__ == "__main__":
    unittest.main()
