"""`shardc diff` reports exactly the differences of the plans' own JSON."""

import json
import os
import random
import tempfile
import unittest

import jsonschema
from driver import MODELS, ROOT, Case, run

LLAMA = os.path.join(MODELS, "llama-3-8b.hf.manifest.json")
MODES = ["train", "prefill", "decode", "insert"]
AXES = ["dp", "fsdp", "tp"]


with open(os.path.join(ROOT, "schemas", "diff.schema.json"),
          encoding="utf-8") as schema_file:
    SCHEMA = jsonschema.Draft7Validator(json.load(schema_file))


def spec_of(param, mode):
    spec = param.get("modes", {}).get(mode, param)["spec"]
    rank = len(param["shape"])
    return spec + [None] * (rank - len(spec))


def held_of(param, mode):
    return param.get("modes", {}).get(mode, param)["bytes_per_device"]


class Diff(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def plan(self, name, rules, mesh="dp:2,fsdp:2,tp:2", manifest=LLAMA):
        out = self.path(name)
        self.check(run("plan", "--no-project", "--mesh", mesh, "--rules",
                       *rules, "--manifest", manifest, "-o", out), 0)
        with open(out, encoding="utf-8") as file:
            return out, json.load(file)

    def diff(self, *arguments, rc=1):
        return self.check(run("diff", *arguments), rc)

    def rules(self, name, lines, more=""):
        return self.path(name, "version: 1\n" + more + "rules:\n" + "".join(
            f"  - match: '{match}'\n    spec: {json.dumps(spec)}\n"
            for match, spec in lines))

    def random_rules(self, chance, name):
        lines = []
        for number in range(6):
            axes = chance.sample(AXES, 3)
            spec = [[axes.pop() for _ in range(chance.randint(0, 1))] or None
                    for _ in range(2)]
            lines.append((f"w{number}$", spec))
        return self.rules(name, lines)

    def test_equal_plans(self):
        one, _ = self.plan("a.json", ["builtin:llama"])
        self.assertEqual(self.diff(one, one, rc=0).out, "no difference\n")
        self.assertEqual(self.diff(one, "--no-project", "--mesh",
                                   "dp:2,fsdp:2,tp:2", "--rules",
                                   "builtin:llama", "--manifest", LLAMA,
                                   rc=0).out, "no difference\n")

    def test_json_is_what_the_two_files_say(self):
        chance = random.Random(11)
        for _ in range(12):
            params = {f"layers/{layer}/w{number}":
                      {"shape": [8 * chance.randint(1, 3), 16],
                       "dtype": chance.choice(["F32", "BF16"])}
                      for layer in range(3) for number in range(6)}
            plans = []
            for name in ("a", "b"):
                kept = {key: value for key, value in params.items()
                        if chance.random() > 0.1}
                manifest = self.path(f"{name}.manifest.json", json.dumps(
                    {"schema": "shardc.manifest/v1", "params": kept}))
                plans.append(self.plan(
                    name + ".json", [self.random_rules(chance, name + ".yaml")],
                    manifest=manifest))
            (old_path, old), (new_path, new) = plans
            result = run("diff", old_path, new_path, "--format", "json")
            self.assertIn(result.rc, (0, 1))
            told = result.json()
            SCHEMA.validate(told)
            want = {}
            both = [n for n in new["params"] if n in old["params"]]
            for name in both:
                was, now = old["params"][name], new["params"][name]
                for mode in MODES:
                    a, b = spec_of(was, mode), spec_of(now, mode)
                    if a != b:
                        want[name, mode] = (a, b, held_of(was, mode),
                                            held_of(now, mode))
            got = {}
            for entry in told["params"]:
                self.assertEqual(entry["mode"], entry["modes"][0])
                for name in entry["names"]:
                    for mode in entry["modes"]:
                        self.assertNotIn((name, mode), got)
                        got[name, mode] = (
                            entry["before"], entry["after"],
                            entry["held_before"], entry["held_after"])
                if entry["bytes_per_device"] is not None:
                    self.assertGreater(entry["bytes_per_device"], 0)
                    self.assertIsNotNone(entry["collective"])
            self.assertEqual(got, want)
            for key, here, there in (("added", new, old),
                                     ("removed", old, new)):
                names = [n for group in told[key] for n in group["names"]]
                self.assertEqual(sorted(names), sorted(
                    n for n in here["params"] if n not in there["params"]))
            self.assertEqual(result.rc, 1 if any(
                told[key] for key in told if key != "schema") else 0)

    def test_what_moves_and_what_it_costs(self):
        manifest = self.path("m.json", json.dumps(
            {"schema": "shardc.manifest/v1", "params": {
                f"layers.{i}.w": {"shape": [64, 32], "dtype": "F32"}
                for i in range(4)}}))
        old, _ = self.plan("a.json", [self.rules("a.yaml", [
            ("w$", ["tp", "fsdp"])])], manifest=manifest)
        new, _ = self.plan("b.json", [self.rules("b.yaml", [
            ("w$", [None, "fsdp"])])], manifest=manifest)
        # Each of two lacks half of what its part of fsdp holds: it is sent
        # what the other of tp has, 32 x 16 floats.
        self.assertEqual(self.diff(old, new).out, f"""\
~ layers.*.w [64, 32] F32, 4 of them
    spec   ["tp", "fsdp"] -> [null, "fsdp"], in train, prefill, decode and insert
    holds  2 KiB -> 4 KiB per device, of each
    moves  all_gather over `tp`, 2 KiB sent per device, of each
4 respecified
""")
        # The other way nothing moves: each has what it needs.
        back = self.diff(new, old, "--format", "json").json()["params"]
        self.assertEqual([entry["collective"] for entry in back], [None])
        self.assertEqual(self.diff(old, new, "--format", "markdown").out, """\
**Sharding**: 4 respecified

| what | of | before | after | moves |
|---|--:|---|---|---|
| `layers.*.w` | 4 | `["tp", "fsdp"]` 2 KiB | `[null, "fsdp"]` 4 KiB in train, prefill, decode and insert | all_gather over `tp`, 2 KiB sent per device |
""")

    def test_rules_that_change_hands_and_types(self):
        names = {"schema": "shardc.manifest/v1", "params": {
            "a/w": {"shape": [8], "dtype": "F32"},
            "b/w": {"shape": [8], "dtype": "F32"}}}
        one = self.path("m.json", json.dumps(names))
        old, _ = self.plan("a.json", [self.rules("a.yaml", [
            ("w$", ["tp"])])], manifest=one)
        names["params"]["b/w"]["shape"] = [16]
        other = self.path("n.json", json.dumps(names))
        new, _ = self.plan("b.json", [self.rules("b.yaml", [
            ("^a", ["tp"]), ("w$", ["tp"])])], manifest=other)
        SCHEMA.validate(self.diff(old, new, "--format", "json").json())
        self.assertEqual(self.diff(old, new).out, """\
~ b/w [16] F32
    type   [8] F32 -> [16] F32
~ a/w [8] F32
    rule   w$ -> ^a
1 of another type, 1 under another rule
""")

    def test_another_mesh_and_attention(self):
        old, _ = self.plan("a.json", ["builtin:llama"])
        new, _ = self.plan("b.json", ["builtin:llama"], "dp:4,fsdp:1,tp:2")
        text = self.diff(old, new).out
        self.assertTrue(text.startswith(
            "mesh dp=2 fsdp=2 tp=2 -> dp=4 fsdp=1 tp=2\n"), text)
        rules = self.path("r.yaml", "version: 1\nextends: [builtin:llama]\n"
                          "axes: {kv_head: []}\nrules: []\n")
        other, _ = self.plan("c.json", [rules])
        SCHEMA.validate(self.diff(old, new, "--format", "json").json())
        told = self.diff(old, other, "--format", "json").json()
        SCHEMA.validate(told)
        self.assertEqual({entry["tensor"] for entry in told["attention"]},
                         {"key", "value"})
        self.assertEqual(told["attention"][0]["modes"], MODES)

    def test_two_modes_of_one_plan(self):
        rules = self.path("r.yaml", """version: 1
axes: {batch: dp, query_sequence: fsdp, decode_query_sequence: []}
rules:
  - match: 'embed'
    spec: [tp, null]
    modes: {decode: [[tp, fsdp], null]}
  - match: '.*'
    spec: []
""")
        plan, _ = self.plan("a.json", [rules])
        text = self.diff("--between", "prefill,decode", plan).out
        self.assertIn("~ model.embed_tokens.weight [128256, 4096] BF16\n"
                      '    spec   ["tp", null] -> [["tp", "fsdp"], null], '
                      "in decode\n", text)
        self.assertIn("~ attention's query\n"
                      '    spec   ["dp", "fsdp", "tp", null] -> '
                      '["dp", null, "tp", null], in decode\n', text)
        back = self.diff("--between", "decode,prefill", plan).out
        self.assertIn("moves  all_gather over `fsdp`", back)
        self.diff("--between", "train,train", plan, rc=0)

    def test_mistakes(self):
        plan, data = self.plan("a.json", ["builtin:llama"])
        for arguments, said in (
                (["--between", "train", plan], "two modes"),
                (["--between", "train,decode", plan, plan], "two modes"),
                (["--between", "train,serve", plan], "serve"),
                ([plan, self.path("none.json")], "none.json"),
                ([plan, LLAMA], "not a plan"),
                ([plan, "--no-project"], "--mesh")):
            result = self.diff(*arguments, rc=2)
            self.assertIn(said, result.err)
            self.assertEqual(result.out, "")
        for key, value in (("rules", {}), ("attention", []),
                           ("attention", {"serve": {}}),
                           ("attention", {"train": {"query": 3}})):
            broken = self.path("x.json", json.dumps({**data, key: value}))
            self.assertEqual(self.diff(plan, broken, rc=2).out, "")
        name = next(iter(data["params"]))
        data["params"][name]["rule"] = 99
        broken = self.path("x.json", json.dumps(data))
        self.assertIn("no such rule", self.diff(plan, broken, rc=2).err)


if __name__ == "__main__":
    unittest.main()
