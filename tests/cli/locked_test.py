"""Committed plans: `check --locked`, `plan --write-locked`, `plan --diff`."""

import json
import os
import shutil
import unittest

import jsonschema

from check_case import MANIFEST, Folder
from driver import TESTDATA


class Locked(Folder):
    def setUp(self):
        super().setUp()
        self.write("r.yaml", "version: 1\nrules:\n"
                   "  - match: 'kernel'\n    spec: ColumnWise\n"
                   "  - match: 'scale'\n    spec: Replicated\n")
        self.write("shardc.yaml", """\
version: 1
targets:
  one:
    mesh: fsdp:2,tp:4
    rules: [r.yaml]
    manifest: m.json
    plan: one.plan.json
""")

    def test_the_committed_plan(self):
        self.check(self.shardc("check", "--locked"), 2)  # not there yet
        self.check(self.shardc("plan", "--write-locked"), 0)
        self.check(self.shardc("check", "--locked"), 0)
        rules = self.read("r.yaml")
        self.write("r.yaml", rules.replace("ColumnWise", "RowWise"))
        self.check(self.shardc("check"), 0)  # only when asked
        result = self.check(
            self.shardc("check", "--locked", "--format", "json"), 1)
        found = result.json()
        self.assertEqual({f["code"] for f in found}, {"SHD195"})
        self.assertEqual({p for f in found for p in f["params"]},
                         {"layers/0/wide/kernel", "layers/0/narrow/kernel"})
        self.assertIn('was [["fsdp", "sp"], "tp"] and is ["tp", ["fsdp", '
                      '"sp"]]'.replace('["fsdp", "sp"]', '"fsdp"'),
                      found[0]["message"])
        # The same meaning in another place of the file is a note.
        self.write("r.yaml", "# moved\n" + rules)
        found = self.check(
            self.shardc("check", "--locked", "--format", "json"), 0).json()
        self.assertEqual([f["level"] for f in found], ["note"])
        self.assertIn("in another spelling", found[0]["message"])

    def test_folders_of_committed_files_are_made(self):
        self.write("shardc.yaml", self.read("shardc.yaml").replace(
            "one.plan.json", "plans/of/one.plan.json"))
        self.check(self.shardc("plan", "--write-locked"), 0)
        self.check(self.shardc("check", "--locked"), 0)

    def test_a_new_rule_changes_only_what_it_matches(self):
        self.check(self.shardc("plan", "--write-locked"), 0)
        before = self.committed()
        rules = self.read("r.yaml")
        self.write("r.yaml", rules.replace(
            "rules:\n", "rules:\n  - match: 'narrow'\n    spec: RowWise\n"))
        self.check(self.shardc("plan", "--write-locked"), 0)
        after = self.committed()
        self.assertEqual(
            [name for name in after["params"]
             if after["params"][name] != before["params"][name]],
            ["layers/0/narrow/kernel"])
        self.assertEqual({name: one["rule"]
                          for name, one in after["params"].items()},
                         {"layers/0/wide/kernel": "kernel",
                          "layers/0/narrow/kernel": "narrow",
                          "layers/0/norm/scale": "scale"})

    def test_a_plan_with_indices_of_rules_is_read(self):
        """As earlier versions wrote them."""
        self.check(self.shardc("plan", "--write-locked"), 0)
        new = self.read("one.plan.json")
        shown = self.check(self.shardc(
            "show", "rules", "--plan", "one.plan.json"), 0).out
        plan = json.loads(new)
        names = [rule["match"] for rule in plan["rules"]]
        for param in plan["params"].values():
            param["rule"] = names.index(param["rule"])
        self.write("one.plan.json", json.dumps(plan))
        self.write("new.json", new)
        self.assertEqual([f["level"] for f in self.found()], ["note"])
        self.assertEqual(self.check(self.shardc(
            "show", "rules", "--plan", "one.plan.json"), 0).out, shown)
        self.assertEqual(self.check(self.shardc(
            "diff", "one.plan.json", "new.json"), 0).out, "no difference\n")
        plan["params"]["layers/0/norm/scale"]["rule"] = "gone"
        self.write("one.plan.json", json.dumps(plan))
        self.assertIn("the plan has no such rule", self.check(self.shardc(
            "diff", "one.plan.json", "new.json"), 2).err)

    def test_findings_that_differ_in_a_number_are_one(self):
        """The size of the mesh differs between targets, and the axis that does
        not divide the parameter is the same."""
        self.write("r.yaml", "version: 1\nrules:\n"
                   "  - match: 'kernel'\n    spec: [tp]\n"
                   "  - match: 'scale'\n    spec: Replicated\n")
        self.write("shardc.yaml", "version: 1\ntargets:\n" + "".join(
            f"  {name}:\n    mesh: tp:{size}\n    rules: [r.yaml]\n"
            "    manifest: m.json\n"
            for name, size in (("a", 7), ("b", 11), ("c", 11))))
        done = self.shardc("check", "--format", "json")
        found = done.json()
        joined = [one for one in found if "`b`, `c`" in one["message"]]
        self.assertTrue(joined, found)
        for one in joined:
            self.assertEqual(one["targets"], ["a", "b", "c"])
        places = [(one["code"], one["file"], one["line"], one["column"],
                   *one["params"]) for one in found]
        self.assertEqual(len(places), len(set(places)), found)

    def test_a_committed_plan_that_is_not_selected(self):
        self.check(self.shardc("plan", "--write-locked"), 0)
        self.write("r.yaml",
                   self.read("r.yaml").replace("ColumnWise", "RowWise"))
        for flags, rc in ((("--ignore", "SHD195"), 0),
                          (("--select", "SHD105"), 0),
                          (("--select", "SHD1"), 1),
                          (("--select", "plan-out-of-date"), 1)):
            done = self.check(self.shardc("check", "--locked", *flags,
                                          "--format", "json"), rc)
            self.assertEqual("SHD195" in done.out, rc == 1, flags)

    def committed(self):
        return json.loads(self.read("one.plan.json"))

    def found(self, *flags):
        return self.shardc("check", "--locked", "--format", "json",
                           *flags).json()

    def test_a_plan_edited_by_hand(self):
        """Nothing in the file is believed, not even its fingerprint."""
        self.check(self.shardc("plan", "--write-locked"), 0)
        name = "layers/0/wide/kernel"

        def param(key, value):
            def edit(plan):
                plan["params"][name][key] = value
            return edit

        def member(*path, value):
            def edit(plan):
                for key in path[:-1]:
                    plan = plan[key]
                if value is None:
                    del plan[path[-1]]
                else:
                    plan[path[-1]] = value
            return edit

        edits = {
            "the spec of": param("spec", [None, "tp"]),
            "the shape of": param("shape", [8, 8]),
            "the dtype of": param("dtype", "F64"),
            "`shard_shape` of": param("shard_shape", [1, 1]),
            "`bytes_per_device` of": param("bytes_per_device", 7),
            "the rule of": param("rule", 1),
            "the decode spec of": param("modes", {"decode": {"spec": []}}),
            "`placement` of": param("placement",
                                    {"axis": "tp", "coordinate": 1}),
            "the weight decay of": param("weight_decay", False),
            "`extra` of": param("extra", 1),
            "is no longer in the plan": member("params", "gone", value={}),
            "is new": member("params", name, value=None),
            "attention tensor `key`": member(
                "attention", "decode", "key", value=["tp"]),
            "the type of mesh axis": member(
                "mesh", "axes", 1, "type", value="manual"),
            "the mesh was": member("mesh", "axes", 1, "size", value=8),
            "the mesh's `processes`": member("mesh", "processes", value=2),
            "the mesh's `slices`": member("mesh", "slices", value=2),
            "the mesh's `dcn`": member("mesh", "dcn", value={"fsdp": 2}),
            "the modes were": member("modes", value=["train"]),
            "the rule \"kernel\" is new": member("rules", 0, "match",
                                                value="colonel"),
            "`params` of the rule": member("rules", 0, "params", value=5),
            "the summary's `bytes`": member("summary", "bytes", value=5),
            "the fingerprint was": member("fingerprint", value="sha256:0"),
            "`diagnostics` is no longer in the plan": member("diagnostics", value=[]),
            "`attention` is new in the plan": member("attention", value=None),
        }
        for words, edit in edits.items():
            with self.subTest(words):
                plan = self.committed()
                edit(plan)
                self.write("one.plan.json", json.dumps(plan))
                messages = [f["message"] for f in self.found()
                            if f["level"] == "error"]
                self.assertTrue(any(words in m for m in messages), messages)
                self.check(self.shardc("check", "--locked"), 1)
                self.check(self.shardc("plan", "--write-locked"), 0)

    def test_the_same_in_other_words_is_a_note(self):
        self.check(self.shardc("plan", "--write-locked"), 0)
        plan = self.committed()
        plan["params"] = dict(reversed(plan["params"].items()))
        for rule in plan["rules"]:
            rule["source"] = "elsewhere.yaml:1"
        self.write("one.plan.json", json.dumps(plan, indent=7))
        found = self.found()
        self.assertEqual([f["level"] for f in found], ["note"])

    def test_differences_are_folded_over_layers(self):
        params = {f"layers/{i}/wide/kernel":
                  {"shape": [64, 64], "dtype": "F32"} for i in range(40)}
        self.write("m.json", json.dumps({"schema": "shardc.manifest/v1",
                                         "params": params}))
        self.check(self.shardc("plan", "--write-locked"), 0)
        self.write("r.yaml", self.read("r.yaml").replace("ColumnWise",
                                                         "RowWise"))
        found = self.found("--select", "SHD195")
        self.assertEqual(len(found), 1, found)
        self.assertIn("`layers/*/wide/kernel` (40 parameters)",
                      found[0]["message"])
        self.assertEqual(len(found[0]["params"]), 40)

    def test_attention_tensors_with_one_change_are_reported_once(self):
        self.check(self.shardc("plan", "--write-locked"), 0)
        self.write("r.yaml", self.read("r.yaml").replace(
            "version: 1", "version: 1\naxes: {batch: tp, decode_batch: tp}"))
        found = [f["message"] for f in self.found("--select", "SHD195")
                 if "attention" in f["message"]]
        whole = [m for m in found if "dimension 0 was" in m]
        self.assertEqual(len(whole), 1, found)
        for tensor in ("query", "key", "value", "output", "mask"):
            self.assertIn(f"`{tensor}`", whole[0])
        self.assertTrue(whole[0].startswith(
            "the train, prefill, decode, insert specs of attention tensors"),
            whole)

    def test_what_the_digest_left_out_is_locked(self):
        project = self.read("shardc.yaml")
        mesh = ("{axes: {fsdp: 2, tp: 4}, axis_types: explicit, "
                "processes: 2, slices: 2, dcn: {fsdp: 2}}")
        changes = {
            "attention tensor": ("r.yaml", "version: 1",
                                 "version: 1\naxes: {decode_head: []}"),
            "the type of mesh axis": ("shardc.yaml", "fsdp:2,tp:4", mesh),
            "weight decay of": ("shardc.yaml", "    plan:",
                                "    weight_decay: {exclude: [scale]}\n"
                                "    plan:"),
        }
        self.check(self.shardc("plan", "--write-locked"), 0)
        digests = {self.committed()["fingerprint"]}
        for words, (file, old, new) in changes.items():
            before = self.read(file)
            self.write(file, before.replace(old, new))
            text = " ".join(f["message"] for f in self.found())
            self.assertIn(words, text)
            plan = self.shardc("plan", "-q").json()
            digests.add(plan["fingerprint"])
            self.write(file, before)
        self.assertEqual(len(digests), 1 + len(changes))
        self.assertEqual(self.read("shardc.yaml"), project)

    def test_weight_decay_of_files(self):
        """The flag wins over the project, that over the rules files."""
        def excluded(*flags):
            plan = self.check(self.shardc("plan", "-q", *flags), 0).json()
            return {name for name, param in plan["params"].items()
                    if not param.get("weight_decay", True)}

        self.assertEqual(excluded(), set())
        rules = self.read("r.yaml")
        self.write("base.yaml", "version: 1\nweight_decay: {exclude: wide}\n")
        self.write("r.yaml", rules + "extends: [base.yaml]\n")
        self.assertEqual(excluded(), {"layers/0/wide/kernel"})
        self.write("r.yaml", rules + "extends: [base.yaml]\n"
                   "weight_decay: {exclude: [narrow]}\n")
        self.assertEqual(excluded(), {"layers/0/narrow/kernel"})
        project = self.read("shardc.yaml")
        self.write("shardc.yaml", project +
                   "weight_decay: {exclude: ['wide']}\n")
        self.assertEqual(excluded(), {"layers/0/wide/kernel"})
        self.write("shardc.yaml", project +
                   "    weight_decay: {exclude: []}\n")
        self.assertEqual(excluded(), set())
        self.assertEqual(excluded("--weight-decay-exclude", "narrow"),
                         {"layers/0/narrow/kernel"})
        self.write("shardc.yaml", project +
                   "    weight_decay: {exclude: ['(']}\n")
        self.check(self.shardc("plan"), 2)
        self.write("shardc.yaml", project +
                   "    weight_decay: {exclud: ['a']}\n")
        self.assertIn("exclude", self.check(self.shardc("plan"), 2).err)

    def test_parameters_that_come_and_go_and_the_mesh(self):
        self.check(self.shardc("plan", "--write-locked"), 0)
        params = dict(MANIFEST["params"])
        del params["layers/0/narrow/kernel"]
        params["layers/1/wide/kernel"] = params["layers/0/wide/kernel"]
        self.write("m.json", json.dumps({"schema": "shardc.manifest/v1",
                                         "params": params}))
        self.write("shardc.yaml",
                   self.read("shardc.yaml").replace("fsdp:2", "fsdp:4"))
        found = self.shardc("check", "--locked", "--format", "json").json()
        messages = "\n".join(f["message"] for f in found)
        self.assertIn("`layers/0/narrow/kernel` is no longer in the plan", messages)
        self.assertIn("`layers/1/wide/kernel` is new", messages)
        self.assertIn("the mesh was fsdp=2 tp=4 and is fsdp=4 tp=4", messages)

    def test_one_that_is_missing_names_its_command(self):
        """The target's other lints are reported as well."""
        self.write("r.yaml", self.read("r.yaml") +
                   "  - match: 'absent'\n    spec: []\n")
        result = self.check(
            self.shardc("check", "--locked", "--format", "json"), 2)
        found = {f["code"]: f for f in result.json()}
        self.assertEqual(set(found), {"SHD002", "SHD105"})
        self.assertIn("`one.plan.json`", found["SHD002"]["message"])
        self.assertIn("`shardc plan --write-locked --target one`",
                      found["SHD002"]["help"])
        self.assertEqual(found["SHD002"]["file"], "shardc.yaml")
        self.check(self.shardc("plan", "--write-locked", "--target", "one"),
                   0)
        self.check(self.shardc("check", "--locked"), 0)

    def several(self):
        self.write("shardc.yaml", """\
version: 1
targets:
  one: {mesh: "fsdp:2,tp:4", rules: [r.yaml], manifest: m.json,
        plan: plans/one.plan.json}
  bare: {mesh: "fsdp:2", rules: [r.yaml], manifest: m.json}
  two: {mesh: "fsdp:4,tp:4", rules: [r.yaml], manifest: m.json,
        plan: plans/two.plan.json}
  three: {mesh: "tp:3", rules: [r.yaml], manifest: m.json,
          plan: plans/three.plan.json}
""")
        os.mkdir(self.path("plans"))

    def test_all_targets_are_written(self):
        self.several()
        result = self.check(self.shardc("plan", "--write-locked"), 1)
        self.assertIn("target `bare` has no `plan`: skipped", result.err)
        # What is illegal in one keeps no other from being written.
        self.assertIn("(in target `three`)", result.err)
        self.assertEqual(sorted(os.listdir(self.path("plans"))),
                         ["one.plan.json", "two.plan.json"])
        for name, axes in (("one", 2), ("two", 4)):
            plan = json.loads(self.read(f"plans/{name}.plan.json"))
            self.assertEqual(plan["mesh"]["axes"][0]["size"], axes)
        self.check(self.shardc("check", "--locked", "--target", "one,two"), 0)

    def test_several_targets_are_written(self):
        self.several()
        for args in (("--target", "one,two"),
                     ("--target", "one", "--target", "two")):
            self.check(self.shardc("plan", "--write-locked", *args), 0)
            for name in ("one", "two"):
                os.remove(self.path(f"plans/{name}.plan.json"))
            self.assertEqual(os.listdir(self.path("plans")), [])
        self.check(self.shardc("plan", "--write-locked", "--target",
                               "one,bare"), 2)
        self.check(self.shardc("plan", "--write-locked", "--target",
                               "one,four"), 2)
        self.assertEqual(os.listdir(self.path("plans")), [])
        self.check(self.shardc("plan", "--target", "one,two"), 2)
        self.check(self.shardc("plan"), 2)

    def test_diff_shows_what_would_change(self):
        self.check(self.shardc("plan", "--diff"), 2)
        self.check(self.shardc("plan", "--write-locked"), 0)
        self.assertEqual(self.check(self.shardc("plan", "--diff"), 0).out, "")
        before = self.read("one.plan.json")
        self.write("r.yaml", self.read("r.yaml").replace("ColumnWise",
                                                         "RowWise"))
        result = self.check(self.shardc("plan", "--diff"), 1)
        self.assertIn(
            "one.plan.json\n"
            "~ layers/0/wide/kernel [128, 256] BF16\n"
            "    spec   [\"fsdp\", \"tp\"] -> [\"tp\", \"fsdp\"]", result.out)
        self.assertIn("    moves  all_to_all over `fsdp`, `tp`, ", result.out)
        self.assertEqual(self.read("one.plan.json"), before)
        self.check(self.shardc("plan", "--diff", "--write-locked"), 2)
        self.check(self.shardc("plan", "--diff", "-o", "x.json"), 2)

    def test_diff_folds_layers_and_names_the_plans(self):
        self.several()
        self.check(self.shardc("plan", "--write-locked", "--target",
                               "one,two"), 0)
        params = {f"layers/{i}/wide/kernel":
                  {"shape": [64, 64], "dtype": "F32"} for i in range(40)}
        self.write("m.json", json.dumps({"schema": "shardc.manifest/v1",
                                         "params": params}))
        out = self.check(self.shardc("plan", "--diff", "--target",
                                     "one,two"), 1).out
        self.assertIn("+ layers/*/wide/kernel [64, 64] F32, 39 of them", out)
        self.assertLess(out.index("plans/one.plan.json"),
                        out.index("plans/two.plan.json"))

    def test_the_stages_of_a_plan_edited_by_hand(self):
        self.write("r.yaml", "version: 1\nrules:\n"
                   "  # shardc: ignore[SHD207] only the stages matter\n"
                   "  - {match: '.*', spec: []}\n"
                   "stages: {axis: pp, assign: [2, 2]}\n")
        self.write("m.json", json.dumps({
            "schema": "shardc.manifest/v1", "params": {
                name: {"shape": [8, 8], "dtype": "F32"} for name in (
                    "embed", *(f"layers.{i}.up" for i in range(4)), "head")}}))
        self.write("shardc.yaml", self.read("shardc.yaml").replace(
            "fsdp:2", "pp:2"))
        self.check(self.shardc("plan", "--write-locked"), 0)
        text = self.read("one.plan.json")
        for edit, said in (
                (lambda of: of[0].update(parts=[]), "`of` of the stages was"),
                (lambda of: of[1].update(note=1), "`of` of the stages was"),
                (lambda of: of[1].update(ranks=[0]),
                 "layers 2-3 move from stage 1 on rank 0 to stage 1 on rank 1"),
                (lambda of: (of[0].update(layers=[0, 3]),
                             of[1].update(layers=[3, 4])),
                 "layer 2 moves from stage 0 on rank 0 to stage 1 on rank 1")):
            plan = json.loads(text)
            edit(plan["stages"]["of"])
            self.write("one.plan.json", json.dumps(plan))
            self.assertIn(said, self.check(self.shardc("check", "--locked"),
                                           1).out)
            self.check(self.shardc("plan", "--diff"), 1)

    def test_what_is_no_plan(self):
        for text in ("{}", "[", '{"schema": "shardc.manifest/v1"}'):
            self.write("one.plan.json", text)
            self.check(self.shardc("check", "--locked"), 2)

    def test_a_project_without_plans(self):
        self.write("shardc.yaml", self.read("shardc.yaml").replace(
            "    plan: one.plan.json\n", ""))
        self.check(self.shardc("check", "--locked"), 2)


class LockedStep(Folder):
    """A committed step program: review shows a new collective."""

    def setUp(self):
        super().setUp()
        self.write("r.yaml", "version: 1\nextends: [builtin:llama]\n"
                   "rules: []\n")
        self.project()

    def project(self, *, mesh="fsdp:2,tp:2", more=""):
        for name in ("models/llama-3-8b.hf.manifest.json",
                     "configs/llama-3-8b.config.json"):
            shutil.copy(os.path.join(TESTDATA, name), self.folder.name)
        self.write("shardc.yaml", f"""\
version: 1
targets:
  one:
    mesh: {mesh}
    rules: [r.yaml]
    manifest: llama-3-8b.hf.manifest.json
    model: llama-3-8b.config.json
    batch: 8
    step: one.step.json
{more}""")

    def messages(self, *flags, rc=1):
        found = self.check(self.shardc("check", "--locked", "--format",
                                       "json", *flags), rc).json()
        return sorted(f["message"].removesuffix(" (in target `one`)")
                      for f in found if f["code"] == "SHD195")

    def test_a_new_collective(self):
        result = self.check(self.shardc("check", "--locked"), 2)
        self.assertIn("step program `one.step.json` is not there", result.out)
        self.check(self.shardc("plan", "--write-locked"), 0)
        self.assertEqual(os.listdir(self.folder.name).count("one.plan.json"), 0)
        steps = json.loads(self.read("one.step.json"))
        jsonschema.validate(steps, json.loads(self.shardc("schema",
                                                          "step").out))
        self.assertEqual([(s["mode"], s["batch"], s["proof"])
                          for s in steps["steps"]],
                         [(m, 8, None)
                          for m in ("train", "prefill", "decode")])
        self.assertEqual(self.messages(rc=0), [])
        self.check(self.shardc("plan", "--diff"), 0)
        self.write("r.yaml", self.read("r.yaml") +
                   "axes: {hidden_state: []}\n")
        self.assertEqual(len(self.messages()), 21)  # and one that counts
        shown = self.check(self.shardc("plan", "--diff"), 1).out
        self.assertTrue(shown.startswith("one.step.json\n+ decode, "), shown)
        lines = [line for line in shown.splitlines() if " train, " in line]
        new = [line[2:] for line in lines if line.startswith("+ ")]
        gone = [line[2:] for line in lines if line.startswith("- ")]
        lines = [line[2:] for line in lines]
        self.assertEqual(lines, new + gone)
        self.assertIn("train, layer 0-31, add: all_reduce tp of [b,t,d] "
                      "b:fsdp pending tp -> b:fsdp is new, 512 MiB a device",
                      new)
        self.assertIn("train, layer 0-31, linear q: all_gather tp of [b,t,d] "
                      "b:fsdp d:tp -> b:fsdp is no longer in the step program",
                      gone)
        self.check(self.shardc("plan", "--write-locked"), 0)
        self.assertEqual(self.messages(rc=0), [])

    def test_settings_and_bytes(self):
        self.project(more="    modes: [train]\n")
        self.check(self.shardc("plan", "--write-locked"), 0)
        steps = json.loads(self.read("one.step.json"))
        (step,) = steps["steps"]
        step["ops"][3]["bytes_per_device"] += 1024
        self.write("one.step.json", json.dumps(steps))
        (said,) = self.messages()
        self.assertRegex(said, r"^train, .* sent .* a device and sends ")
        step["ops"][3]["bytes_per_device"] -= 1024
        self.write("one.step.json", json.dumps(steps))
        (said,) = self.messages(rc=0)
        self.assertIn("the committed step program has the meaning", said)
        self.project(more="    modes: [train]\n", mesh="fsdp:4")
        found = self.messages()
        self.assertTrue(any(m.startswith("train: `mesh` was ")
                            for m in found), found)
        self.project(more="    modes: [decode]\n")
        self.assertEqual(self.messages(),
                         ["mode decode is new",
                          "mode train is no longer in the step program"])

    def test_what_is_no_step(self):
        for text in ('{"schema": "shardc.plan/v1"}', "[]", "{"):
            self.write("one.step.json", text)
            self.check(self.shardc("check", "--locked"), 2)
        self.write("r.yaml", "version: 1\nrules:\n  - match: '.*'\n"
                   "    spec: [[fsdp]]\n")
        self.assertIn("none of the rules files describes the model",
                      self.check(self.shardc("plan", "--write-locked"),
                                 2).err)


if __name__ == "__main__":
    unittest.main()
