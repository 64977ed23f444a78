"""`shardc diff` prints the differences that the JSON of the two plans has."""

import json
import os
import random
import unittest

import jsonschema
from driver import MODELS, ROOT, FolderCase, run

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


class Diff(FolderCase):
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
bytes per device 8 KiB -> 16 KiB, +8 KiB (+100.0 %), in every mode
~ layers.*.w [64, 32] F32, 4 of them
    spec   ["tp", "fsdp"] -> [null, "fsdp"], in every mode
    holds  2 KiB -> 4 KiB per device of each, 8 KiB -> 16 KiB of all
    moves  all_gather over `tp`, 2 KiB sent per device, of each
4 parameters resharded
""")
        # The other way nothing moves: each has what it needs.
        back = self.diff(new, old, "--format", "json").json()["params"]
        self.assertEqual([entry["collective"] for entry in back], [None])
        self.assertEqual(self.diff(old, new, "--format", "markdown").out, """\
**Sharding**: 4 parameters resharded

| | before | after | change |
|---|--:|--:|--:|
| bytes per device | 8 KiB | 16 KiB | +8 KiB (+100.0 %) |

| what | of | before | after | moves |
|---|--:|---|---|---|
| `layers.*.w` | 4 | `["tp", "fsdp"]` 2 KiB | `[null, "fsdp"]` 4 KiB in every mode | all_gather over `tp`, 2 KiB sent per device |
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
bytes per device 32 B -> 48 B, +16 B (+50.0 %), in every mode
~ b/w [16] F32
    type   [8] F32 -> [16] F32
~ a/w [8] F32
    rule   w$ -> ^a
~ the rule "^a" is new
1 parameter of another type, 1 parameter under another rule, 1 other field
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

    def test_a_mode_of_one_plan_is_not_compared(self):
        rules = self.path("r.yaml", "version: 1\nrules:\n  - match: w$\n"
                          "    spec: [tp]\n    modes: {decode: []}\n")
        manifest = self.path("m.json", json.dumps(
            {"schema": "shardc.manifest/v1", "params": {
                "w": {"shape": [8], "dtype": "F32"}}}))
        for modes in ("train", "train,decode"):
            self.check(run("plan", "--no-project", "-q", "--mesh", "tp:2",
                           "--rules", rules, "--manifest", manifest,
                           "--modes", modes, "-o", self.path(modes)), 0)
        one, two = self.path("train"), self.path("train,decode")
        words = ['["train"]', '["train", "decode"]']
        for old, new in ((one, two), (two, one)):
            self.assertEqual(self.diff(old, new).out, (
                f"~ the modes were {words[0]} and are {words[1]}\n"
                "1 other field\n"))
            words.reverse()

    def test_a_mesh_alone_moves_parameters(self):
        manifest = self.path("m.json", json.dumps(
            {"schema": "shardc.manifest/v1", "params": {
                f"layers.{i}.w": {"shape": [64, 32], "dtype": "F32"}
                for i in range(4)}}))
        rules = [self.rules("r.yaml", [("w$", [["fsdp"], "tp"])])]
        old, _ = self.plan("a.json", rules, "dp:2,fsdp:4,tp:2", manifest)
        new, _ = self.plan("b.json", rules, "fsdp:8,tp:2", manifest)
        # Device 2 * (4 * d + f) + t has rows 16 f to 16 f + 15 and needs eight
        # rows from 8 (4 d + f): only d = f = 0 and d = 1, f = 3 have theirs.
        # Each block is held by two devices, which send it in turns.
        self.assertEqual(self.diff(old, new).out, """\
mesh dp=2 fsdp=4 tp=2 -> fsdp=8 tp=2
bytes per device 4 KiB -> 2 KiB, -2 KiB (-50.0 %), in every mode
~ layers.*.w [64, 32] F32, 4 of them
    spec   ["fsdp", "tp"], unchanged, in every mode
    holds  1 KiB -> 512 B per device of each, 4 KiB -> 2 KiB of all
    moves  ppermute over `dp`, `fsdp`, 512 B sent per device, of each
""" + self.attention_lines(old, new) +
            "4 parameters resharded, 9 attention specs, 4 activations\n")
        data = self.diff(old, new, "--format", "json").json()
        SCHEMA.validate(data)
        self.assertEqual(data["bytes_per_device"]["before"], 4096)
        self.assertEqual(data["bytes_per_device"]["after"], 2048)
        text = self.diff(old, new, "--format", "markdown").out
        self.assertIn("| bytes per device | 4 KiB | 2 KiB | -2 KiB (-50.0 %) |",
                      text)
        more, _ = self.plan("c.json", rules, "fsdp:16,tp:2", manifest)
        text = self.diff(old, more).out
        self.assertIn("the meshes have 16 and 32 devices: parameters move "
                      "through a checkpoint", text)
        self.assertNotIn("moves ", text)

    def test_slices_along_another_axis_move_parameters(self):
        manifest = self.path("m.json", json.dumps(
            {"schema": "shardc.manifest/v1", "params": {
                "w": {"shape": [8], "dtype": "F32"}}}))
        rules = [self.rules("r.yaml", [("w$", ["tp"])])]
        sliced = self.path("mesh.yaml", "axes: {fsdp: 2, tp: 2}\n"
                           "slices: 2\ndcn: {tp: 2}\n")
        old, _ = self.plan("a.json", rules, "fsdp:2,tp:2", manifest)
        new, _ = self.plan("b.json", rules, sliced, manifest)
        # Devices 1 and 2 exchange their coordinates (0, 1) and (1, 0).
        self.assertIn('    spec   ["tp"], unchanged, in every mode\n'
                      "    moves  ppermute over `tp`, 16 B sent per device\n",
                      self.diff(old, new).out)
        first = self.path("first.yaml", "axes: {fsdp: 2, tp: 2}\n"
                          "slices: 2\ndcn: {fsdp: 2}\n")
        new, _ = self.plan("c.json", rules, first, manifest)
        self.assertNotIn("moves ", self.diff(old, new).out)
        new, _ = self.plan("d.json", [self.rules("s.yaml", [("w$", [])])],
                           first, manifest)
        self.assertIn("all_gather over `tp`", self.diff(old, new).out)

    def test_parameters_of_other_types_before_are_apart(self):
        def manifest(name, first):
            return self.path(name, json.dumps(
                {"schema": "shardc.manifest/v1", "params": {
                    f"layers.{i}.w": {"shape": [64, 32], "dtype":
                                      "BF16" if i else first}
                    for i in range(3)}}))

        old, _ = self.plan("a.json", [self.rules("a.yaml", [
            ("w$", ["tp", None])])], "tp:2", manifest("m.json", "F32"))
        new, _ = self.plan("b.json", [self.rules("b.yaml", [
            ("w$", [None, "tp"])])], "tp:2", manifest("n.json", "BF16"))
        data = self.diff(old, new, "--format", "json").json()["params"]
        self.assertEqual(
            [(len(one["names"]), one["held_before"], one["group_held_before"])
             for one in data], [(1, 4096, 4096), (2, 2048, 4096)])

    def attention_lines(self, old, new):
        """What the JSON has of attention specs and other activations, as text."""
        data = self.diff(old, new, "--format", "json").json()
        return "".join(
            f"~ {owner} {one['tensor']}\n    spec   "
            f"{json.dumps(one['before'])} -> {json.dumps(one['after'])}, in "
            "every mode\n"
            for owner, key in (("attention's", "attention"), ("activation", "activations"))
            for one in data[key])

    def test_every_member_of_a_plan_counts(self):
        """A difference of any member exits with 1 and is printed."""
        path, data = self.plan("a.json", ["builtin:llama"])
        name = "model.norm.weight"

        def edited(edit):
            copy = json.loads(json.dumps(data))
            edit(copy)
            return self.path("b.json", json.dumps(copy))

        for words, edit in (
                ("the weight decay of `model.norm.weight` was absent",
                 lambda plan: plan["params"][name].update(weight_decay=False)),
                ("`corrections` of `model.norm.weight`",
                 lambda plan: plan["params"][name].update(corrections=[])),
                ("the mesh's `processes` was 1 and is 2",
                 lambda plan: plan["mesh"].update(processes=2)),
                ("the type of mesh axis \"dp\"",
                 lambda plan: plan["mesh"]["axes"][0].update(type="manual")),
                ("the summary's `bytes`",
                 lambda plan: plan["summary"].update(bytes=1)),
                ("the fingerprint was",
                 lambda plan: plan.update(fingerprint="sha256:0")),
                ("`extra` is new in the plan",
                 lambda plan: plan.update(extra=1))):
            with self.subTest(words):
                other = edited(edit)
                self.diff(path, other, rc=2)
                allow = (path, other, "--allow-edited")
                self.assertIn(words, self.diff(*allow).out)
                SCHEMA.validate(self.diff(*allow, "--format", "json").json())

    def random_plan(self, chance, name):
        """The files of a target, with rules, a mesh and weight decay drawn."""
        params = {f"layers/{layer}/w{number}":
                  {"shape": [8 * (1 + number % 3), 16], "dtype": "F32"}
                  for layer in range(3) for number in range(4)
                  if chance.random() > 0.1}
        manifest = self.path(f"{name}.manifest.json", json.dumps(
            {"schema": "shardc.manifest/v1", "params": params}))
        more = ""
        if chance.random() < 0.3:
            more += "weight_decay: {exclude: [w1]}\n"
        if chance.random() < 0.3:
            more += "axes: {head: [], kv_head: []}\n"
        lines = [(f"w{number}$", [chance.choice(["tp", "fsdp", None]), None])
                 for number in range(4)]
        if chance.random() < 0.3:
            lines.reverse()
        rules = self.rules(f"{name}.yaml", lines, more)
        mesh = chance.choice(["dp:2,fsdp:2,tp:2"] * 3 +
                             ["fsdp:4,tp:2", "fsdp:2,dp:2,tp:2", "dp:4,tp:4"])
        return rules, mesh, manifest

    def test_three_commands_find_the_same_differences(self):
        """`diff`, `plan --diff` and `check --locked` over random plans."""
        chance = random.Random(5)
        some = 0
        for turn in range(14):
            rules, mesh, manifest = self.random_plan(chance, "a")
            old, _ = self.plan("a.json", [rules], mesh, manifest)
            if turn % 7:
                rules, mesh, manifest = self.random_plan(chance, "b")
            new, _ = self.plan("b.json", [rules], mesh, manifest)
            project = self.path("shardc.yaml", json.dumps({
                "version": 1, "targets": {"one": {
                    "mesh": mesh, "rules": [rules], "manifest": manifest,
                    "plan": old}}}))
            flags = ("--project", project, "--target", "one")
            diff = run("diff", old, new)
            data = run("diff", old, new, "--format", "json").json()
            shown = run("plan", "--diff", "-q", *flags)
            locked = run("check", "--locked", "--select", "SHD195",
                         "--format", "json", *flags)
            self.assertEqual(diff.rc, shown.rc)
            self.assertEqual(diff.rc, locked.rc)
            some += diff.rc
            if diff.rc == 0:
                self.assertEqual(diff.out, "no difference\n")
                self.assertEqual(locked.json(), [])
                continue
            self.assertEqual(shown.out.split("\n", 1)[1], diff.out)
            # A parameter that moves without a change of its entry is the
            # change of the mesh.
            names = {name for key in ("params", "added", "removed", "reshaped",
                                      "rules", "fields")
                     for entry in data.get(key, []) for name in entry["names"]
                     if key != "params" or entry["before"] != entry["after"] or
                     entry["held_before"] != entry["held_after"]}
            found = locked.json()
            messages = [one["message"] for one in found]
            self.assertFalse(any("more difference" in m for m in messages))
            self.assertEqual(names, {name for one in found
                                     for name in one["params"]})
            self.assertEqual("mesh" in data,
                             any(m.startswith("the mesh was ")
                                 for m in messages))
            self.assertEqual(bool(data["attention"]), any(
                "attention tensor" in m for m in messages))
        self.assertGreater(some, 10)

    def test_two_step_programs(self):
        rules = self.path("r.yaml", "version: 1\nextends: [builtin:llama]\n"
                          "rules: []\n")
        configs = os.path.join(MODELS, "..", "configs")
        project = self.path("shardc.yaml", json.dumps({
            "version": 1, "targets": {"one": {
                "mesh": "fsdp:2,tp:2", "rules": [rules], "manifest": LLAMA,
                "model": os.path.join(configs, "llama-3-8b.config.json"),
                "modes": ["decode"], "batch": 8,
                "step": self.path("one.step.json")}}}))
        write = ("plan", "--write-locked", "-q", "--project", project,
                 "--allow-outside")
        self.check(run(*write), 0)
        old = self.path("one.step.json")
        with open(old, encoding="utf-8") as file:
            before = self.path("before.step.json", file.read())
        self.diff(before, old, rc=0)
        with open(rules, "a", encoding="utf-8") as file:
            file.write("axes: {hidden_state: []}\n")
        self.check(run(*write), 0)
        self.assertIn("+ decode, ", self.diff(before, old).out)
        self.assertIn("- `decode, ",
                      self.diff(before, old, "--format", "markdown").out)
        SCHEMA.validate(self.diff(before, old, "--format", "json").json())

    def test_mistakes(self):
        plan, data = self.plan("a.json", ["builtin:llama"])
        train = self.path("train.json")
        self.check(run("plan", "--no-project", "-q", "--mesh", "fsdp:2",
                       "--rules", "builtin:llama", "--manifest", LLAMA,
                       "--modes", "train", "-o", train), 0)
        for arguments, said in (
                (["--between", "train", plan], "two modes"),
                (["--between", "train,decode", plan, plan], "two modes"),
                (["--between", "train,serve", plan], "serve"),
                (["--between", "train,decode", train], "no mode `decode`"),
                ([plan, self.path("none.json")], "none.json"),
                ([plan, LLAMA], "is a manifest, and `AFTER` takes a plan"),
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

    def test_standard_input_is_one_side_only(self):
        path, plan = self.plan("a.json", ["builtin:llama"])
        for sides in (["-", path], [path, "-"]):
            done = run("diff", *sides, stdin=json.dumps(plan))
            self.assertEqual(self.check(done, 0).out, "no difference\n")
        done = run("diff", "-", "-", stdin=json.dumps(plan))
        self.assertIn("both sides are `-`, and standard input has the text of "
                      "one file", self.check(done, 2).err)


if __name__ == "__main__":
    unittest.main()
