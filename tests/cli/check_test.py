"""`shardc check`: selection, baselines, projects, explained codes."""

import json
import os
import unittest

from check_case import RULES, Folder
from driver import Case, ROOT, TESTDATA, run


class Selection(Folder):
    def test_all(self):
        self.assertEqual(self.codes(rc=1), ["SHD105", "SHD107", "SHD109"])

    def test_select_and_ignore_take_codes_names_and_families(self):
        for text in ("SHD109", "109", "catch-all-not-last"):
            self.assertEqual(self.codes("--select", text, rc=1), ["SHD109"])
        self.assertEqual(self.codes("--select", "SHD2", rc=0), [])
        self.assertEqual(self.codes("--select", "SHD107,dead-rule", rc=0),
                         ["SHD105", "SHD107"])
        self.assertEqual(self.codes("--ignore", "SHD109", rc=0),
                         ["SHD105", "SHD107"])
        self.assertEqual(self.codes("--ignore", "SHD1", rc=0), [])

    def test_a_wrong_code_is_a_usage_error(self):
        result = self.check(self.lint("--select", "dead-rules"), 2)
        self.assertIn("did you mean `dead-rule`?", result.err)
        self.check(self.lint("--severity", "SHD105=loud"), 2)
        self.check(self.lint("--fail-on", "sometimes"), 2)

    def test_a_code_of_the_project_that_is_none_is_reported_at_its_line(self):
        self.write("shardc.yaml", """\
version: 1
targets:
  t: {mesh: 'fsdp:2,tp:4', rules: r.yaml, manifest: m.json}
lint:
  ignore: [SHD101, dead-rules]
  severity: {SHD888: note}
""")
        result = self.check(self.shardc("check", "--format", "json"), 2)
        self.assertEqual(
            [(one["code"], os.path.basename(one["file"]), one["line"],
              one["column"], one["message"]) for one in result.json()],
            [("SHD061", "shardc.yaml", 5, 20,
              "`dead-rules` in `ignore` is no diagnostic"),
             ("SHD061", "shardc.yaml", 6, 14,
              "`SHD888` in `severity` is no diagnostic")])

    def test_severity_and_fail_on_decide_the_exit_status(self):
        quiet = ("--ignore", "SHD109")
        self.check(self.lint(*quiet, "--severity", "dead-rule=error"), 1)
        self.check(self.lint(*quiet, "--fail-on", "warning"), 1)
        self.check(self.lint("--severity", "SHD109=warning"), 0)
        self.check(self.lint("--fail-on", "never"), 0)
        # The level of a code overrides that of its family, however it is named.
        for code in ("105", "SHD105", "dead-rule"):
            with self.subTest(code=code):
                self.check(self.lint(*quiet, "--severity", f"{code}=error",
                                     "--severity", "SHD1=note"), 1)
        self.check(self.lint("--select", "SHD2", "--fail-on", "note"), 0)

    def test_preview(self):
        self.write("r.yaml", RULES.replace("'narrow/", "'.*narrow/"))
        self.assertNotIn("SHD117", self.codes())
        self.assertIn("SHD117", self.codes("--preview"))
        self.assertEqual(self.codes("--select", "SHD117"), ["SHD117"])

    def test_notes_are_counted_and_shown_on_request(self):
        self.write("r.yaml", RULES.replace("w_qkv/kernel", "w_qkv/bias"))
        shown = "note[SHD105 dead-rule]"
        result = self.lint("--ignore", "SHD109")
        self.assertNotIn(shown, result.out)
        self.assertIn("1 note (--notes shows them)", result.err)
        result = self.lint("--notes")
        self.assertIn(shown, result.out)
        self.assertNotIn("--notes", result.err)
        # A note that fails the check is shown, and programs get all.
        self.assertIn(shown, self.lint("--fail-on", "note").out)
        self.assertIn("SHD105", self.lint("--format", "concise").out)

    def test_skipped_lints_are_listed(self):
        result = self.lint()
        self.assertRegex(result.err, r"\d+ lints not run: pass .*--batch N")
        result = self.lint("--attention",
                           "heads=32,kv_heads=8,head_dim=128", "--batch", "3",
                           "--kv-len", "128", "--memory", "80GiB")
        self.assertNotIn("not run", result.err)
        self.assertIn("SHD408", result.out)

    def test_a_pattern_of_three_rules_is_reported_at_each_later_one(self):
        self.write("r.yaml", "version: 1\nrules:\n" + "".join(
            f"  - {{match: 'wide/kernel', spec: {spec}}}\n"
            for spec in ("ColumnWise", "RowWise", "Replicated")) +
            "  - {match: '.*', spec: Replicated}\n")
        found = [one for one in self.lint("--format", "json").json()
                 if one["code"] == "SHD108"]
        self.assertEqual([one["line"] for one in found], [4, 5])
        for one in found:
            self.assertEqual(
                one["message"], "pattern `wide/kernel` is that of an earlier "
                "rule with another spec: this rule is never used")
            self.assertEqual(one["help"], "keep the rule with the correct "
                             "spec, and remove the other")

    def test_a_repetition_that_re2_matches_literally_is_explained(self):
        self.write("r.yaml", "version: 1\nrules:\n"
                   "  - {match: 'wid[e]{,2}/kernel', spec: ColumnWise}\n"
                   "  - {match: 'narrow/kernel', spec: RowWise}\n"
                   "  - {match: '.', spec: Replicated}\n")
        found = [one for one in self.lint(
            "--format", "json", "--select", "SHD105").json()]
        self.assertEqual([one["help"] for one in found],
                         ["RE2 matches a repetition without a lower bound "
                          "literally, unlike Python's `re`: write "
                          "`wid[e]{0,2}/kernel`"])

    def test_an_unknown_name_is_reported_once_for_all_modes(self):
        self.write("r.yaml", "version: 1\nrules:\n  - {match: 'wide/kernel', "
                   "spec: [nowhere], modes: {decode: [fsdp]}}\n"
                   "  - {match: '.*', spec: Replicated}\n")
        result = self.check(self.lint("--format", "json"), 2)
        self.assertEqual([one["code"] for one in result.json()], ["SHD028"])

    def test_experts_beyond_the_limit_are_reported(self):
        model = os.path.join(TESTDATA, "configs", "mixtral-8x7b.config.json")
        tree = self.check(self.shardc(
            "show", "manifest", "--no-project", "--model", model, "--naming",
            "hf-files", "--format", "json"), 0).out
        for number in ("100000", "99999999999"):
            self.write("m.json", tree.replace(
                ".layers.0.block_sparse_moe.experts.7.",
                f".layers.0.block_sparse_moe.experts.{number}."))
            found = self.shardc(
                "check", "--no-project", "--rules", "auto", "--mesh", "fsdp:2",
                "--manifest", "m.json", "--model", model, "--format", "json")
            messages = [one["message"] for one in found.json()
                        if one["code"] == "SHD233"]
            self.assertEqual(len(messages), 1, found)
            self.assertIn("have an expert numbered above 99,999, the largest "
                          "number that is supported", messages[0])

    def test_statistics(self):
        result = self.lint("--statistics")
        self.assertIn("SHD107 duplicate-rule: 1 finding\n", result.out)
        counts = self.lint("--statistics", "--format", "json").json()
        self.assertEqual([c["code"] for c in counts],
                         ["SHD105", "SHD107", "SHD109"])

    def test_a_family_that_does_not_exist_is_refused(self):
        result = self.check(self.lint("--select", "SHD9"), 2)
        self.assertIn("`SHD9` in `select` is no diagnostic", result.err)

    def test_missing_inputs_are_reported_at_the_command(self):
        result = self.check(self.shardc("check", "--no-project", "--mesh",
                                        "tp:2"), 2)
        self.assertIn("no rules and no manifest given\n  --> "
                      "<command line>:1:8\n", result.out)

    def test_reading_errors_take_the_format_and_exit_2(self):
        self.write("r.yaml", "version: 1\nrules: [{match: '(', spec: []}]\n")
        result = self.check(self.lint("--format", "json"), 2)
        self.assertEqual([f["code"] for f in result.json()], ["SHD030"])


class Sizes(Folder):
    """A size means the same in a file and as a flag."""

    READ = {"1KiB": 1024, "1.5KiB": 1536, "2 KB": 2000, "0.5KB": 500,
            "1048576": 1048576, "4096B": 4096, "80K": 81920, "2Ki": 2048, "1.5 MB": 1500000,
            "1.5GiB": 1610612736}
    REFUSED = {**dict.fromkeys(["80 gigs", "1.5", "-1", "1.0000001GB", "GiB"],
                               "not a size in bytes"),
               "0": "and a size is at least one byte",
               "9EiB": "which does not fit in 64 bits"}

    def over(self, *args, mesh):
        """The memory that SHD501 reports, or the error for a refused one."""
        result = self.lint("--format", "json", "--select", "SHD501,SHD502",
                           *args, mesh=mesh)
        return [(f["code"], f["message"], f["help"]) for f in result.json()]

    def test_files_and_flags_read_the_same(self):
        # The parameters take 128 KiB on one device.
        for text, size in self.READ.items():
            self.write("mesh.yaml", "axes: {tp: 1}\n"
                       f"device: {{memory: '{text}'}}\n")
            by_flag = self.over("--memory", text, mesh="tp:1")
            self.assertEqual(by_flag, self.over(mesh="mesh.yaml"), text)
            self.assertEqual(len(by_flag), 1 if size < 1 << 17 else 0, text)
            self.assertEqual(
                by_flag, self.over("--memory", f"{size}B", mesh="tp:1"), text)

    def test_a_profile_has_its_memory(self):
        # 80 GiB of parameters: more than an H100's, and an H200 holds it.
        self.write("m.json", json.dumps(
            {"w": {"shape": [1 << 20, 40960], "dtype": "BF16"}}))
        self.write("r.yaml", "rules:\n  - {match: w, spec: []}\n")
        for device, codes in (
                ("h100-80gb", ["SHD501"]), ("h200-sxm", []),
                ("{profile: h100-sxm, memory: 100GiB}", []),
                ("{profile: h200-sxm, memory: 79GiB}", ["SHD501"])):
            self.write("mesh.yaml", f"axes: {{tp: 1}}\ndevice: {device}\n")
            found = self.over(mesh="mesh.yaml")
            self.assertEqual([code for code, _, _ in found], codes, device)
        self.write("mesh.yaml", "axes: {tp: 1}\ndevice: h100-sxm\n")
        self.assertIn("79.65 GiB", self.over(mesh="mesh.yaml")[0][1])
        shown = self.shardc("show", "mesh", "--mesh", "mesh.yaml")
        self.assertIn("\ndevice: h100-sxm, 79.65 GiB\n", shown.out)
        shown = self.shardc("show", "mesh", "--mesh", "mesh.yaml", "--format", "json")
        self.assertEqual(shown.json()["device"],
                         {"profile": "h100-sxm", "memory": 85520809984})
        self.assertEqual(self.over("--memory", "100GiB", mesh="mesh.yaml"), [])

    def test_memory_is_that_of_the_mode_without_train(self):
        """A rule that replicates in decode counts without train too."""
        self.write("m.json", json.dumps(
            {"w": {"shape": [1024, 1024], "dtype": "BF16"}}))
        self.write("r.yaml", "rules:\n  - {match: w, spec: [TP, null], "
                   "modes: {decode: [null, null]}}\n")
        for modes in ("train,decode", "decode"):
            found = self.over("--memory", "1MiB", "--modes", modes,
                              mesh="tp:4")
            self.assertEqual(
                [message for _, message, _ in found],
                ["a device needs 2 MiB in decode and has 1 MiB: 2 MiB of "
                 "parameters"], modes)
        self.assertEqual(self.over("--memory", "1MiB", "--modes", "train",
                                   mesh="tp:4"), [])

    def test_unknown_profiles_are_refused(self):
        self.write("mesh.yaml", "axes: {tp: 1}\ndevice: h100-80g\n")
        self.assertEqual(
            self.over(mesh="mesh.yaml"),
            [("SHD061", "no accelerator is called `h100-80g`",
              "did you mean `h100-80gb`?")])
        for command in (["show", "mesh"], ["resolve", "attention"]):
            self.check(self.shardc(*command, "--no-project", "--mesh",
                                   "mesh.yaml"), 2)

    def test_files_and_flags_refuse_in_the_same_words(self):
        for text, reason in self.REFUSED.items():
            self.write("mesh.yaml", "axes: {tp: 1}\n"
                       f"device: {{memory: '{text}'}}\n")
            self.assertEqual(
                self.over(mesh="mesh.yaml"),
                [("SHD023", f"`memory` is `{text}`, {reason}",
                  "write a number and a unit, such as `80GiB`")])
            for flag, result in {
                    "memory": self.lint("--memory", text),
                    "max-shard-size": self.shardc(
                        "checkpoint", "merge", "shards", "--output", "out",
                        "--max-shard-size", text)}.items():
                self.check(result, 2)
                self.assertIn(f"`--{flag}` is `{text}`, {reason}\n",
                              result.err)
                self.assertIn("= help: write a number and a unit, such as"
                              " `80GiB`\n", result.err)


class Baselines(Folder):
    def test_known_findings_are_left_out_by_code_and_parameter(self):
        self.check(self.lint("--write-baseline", "b.json"), 0)
        baseline = json.loads(self.read("b.json"))
        self.assertEqual(sorted(baseline["findings"]),
                         ["SHD105", "SHD107", "SHD109"])
        # Lines may move.
        self.write("r.yaml", "# one\n# two\n" + RULES)
        self.assertEqual(self.codes("--baseline", "b.json", rc=0), [])
        # What is new is found.
        self.write("r.yaml", RULES + "  - match: 'other'\n    spec: []\n")
        found = self.lint("--baseline", "b.json", "--format", "json").json()
        self.assertEqual([f["code"] for f in found], ["SHD105"])
        self.assertIn("`other`", found[0]["message"])

    def test_parameters_count_one_by_one(self):
        self.write("r.yaml", "version: 1\nrules:\n"
                   "  - {match: 'kernel', spec: [null, TP]}\n"
                   "  - {match: 'scale', spec: []}\n")
        mesh = "tp:3"
        self.assertEqual(self.codes(rc=1, mesh=mesh), ["SHD202", "SHD202"])
        self.write("b.json", json.dumps({
            "schema": "shardc.baseline/v1",
            "findings": {"SHD202": ["layers/0/wide/kernel"]}}))
        found = self.lint("--format", "json", "--baseline", "b.json",
                          mesh=mesh).json()
        self.assertEqual([f["params"] for f in found],
                         [["layers/0/narrow/kernel"]])

    def test_names_are_folded_over_layers_and_experts(self):
        def manifest(layers, experts):
            self.write("m.json", json.dumps({
                "schema": "shardc.manifest/v1", "params": {
                    f"layers.{i}.experts.{k}.up.weight":
                    {"shape": [7, 7], "dtype": "F32"}
                    for i in range(layers) for k in range(experts)}}))

        self.write("r.yaml", "version: 1\nrules:\n"
                   "  - {match: 'weight', spec: [TP, null]}\n")
        manifest(8, 16)
        self.check(self.lint("--write-baseline", "b.json"), 0)
        known = json.loads(self.read("b.json"))["findings"]
        self.assertEqual(known["SHD202"],
                         ["layers.*.experts.*.up.weight"])
        manifest(9, 17)
        self.assertEqual(self.codes("--baseline", "b.json", rc=0), [])
        # Files of before have each name by itself.
        known["SHD202"] = [f"layers.{i}.experts.{k}.up.weight"
                           for i in range(8) for k in range(16)]
        self.write("old.json", json.dumps(
            {"schema": "shardc.baseline/v1", "findings": known}))
        manifest(8, 16)
        self.assertEqual(self.codes("--baseline", "old.json", rc=0), [])
        manifest(9, 16)
        (left,) = self.lint("--baseline", "old.json", "--select", "SHD202",
                            "--format", "json").json()
        self.assertEqual(len(left["params"]), 16)

    def test_the_project_names_its_baseline(self):
        os.mkdir(self.path(".git"))  # the project's paths stay below it
        self.write("sub/shardc.yaml", """\
version: 1
targets:
  one: {mesh: "fsdp:2,tp:4", rules: [../r.yaml], manifest: ../m.json}
lint: {baseline: known.json}
""")
        where = {"cwd": self.path("sub")}
        args = ("check", "--format", "json")
        result = self.check(run(*args, **where), 2)  # not there yet
        self.assertIn("known.json", result.out)
        self.check(run("check", "--write-baseline", "known.json", **where), 0)
        result = self.check(run(*args, **where), 0)
        self.assertEqual(result.json(), [])
        self.assertIn("in the baseline", result.err)
        # Written again it holds what is known, too.
        before = self.read("sub/known.json")
        self.check(run("check", "--write-baseline", "known.json", **where), 0)
        self.assertEqual(self.read("sub/known.json"), before)
        self.write("none.json", json.dumps(
            {"schema": "shardc.baseline/v1", "findings": {}}))
        result = run(*args, "--baseline", "../none.json", **where)
        self.assertGreater(len(result.json()), 0)

    def test_a_file_that_is_no_baseline(self):
        for text in ("{}", "[]", "{", '{"schema": "shardc.baseline/v1"}',
                     '{"schema": "shardc.baseline/v1", "findings": [1]}'):
            self.write("b.json", text)
            self.check(self.lint("--baseline", "b.json"), 2)
        self.check(self.lint("--baseline", "absent.json"), 2)


class Projects(Folder):
    def project(self, count):
        targets = "".join(
            f"  t{i:02}:\n    mesh: fsdp:{2 + i % 3},tp:{1 + i % 4}\n"
            f"    rules: [r{i % 2}.yaml]\n    manifest: m.json\n"
            for i in range(count))
        self.write("shardc.yaml", "version: 1\ntargets:\n" + targets)
        self.write("r0.yaml", RULES)
        self.write("r1.yaml", RULES.replace("wide/kernel", "kernel"))

    def test_50_targets_give_the_same_bytes_on_any_number_of_threads(self):
        self.project(50)
        for form in ("text", "json", "sarif"):
            outs = {self.shardc("check", "--format", form, "--threads",
                                str(n)).out for n in (1, 2, 7)}
            self.assertEqual(len(outs), 1)
            self.assertGreater(len(outs.pop()), 100)

    def test_a_finding_of_several_targets_is_reported_once(self):
        self.project(6)
        found = self.shardc("check", "--format", "json").json()
        duplicates = [f for f in found if f["code"] == "SHD107"]
        self.assertEqual([f["file"] for f in duplicates],
                         ["r0.yaml", "r1.yaml"])
        uneven = [f for f in found if f["code"] == "SHD202"]
        self.assertGreater(len(uneven), 0)
        for finding in uneven:
            self.assertRegex(finding["message"], r"\(in targets? `t0")

    def test_a_shared_rule_is_dead_only_when_no_target_uses_it(self):
        self.project(2)
        self.write("other.json", json.dumps({
            "schema": "shardc.manifest/v1", "params": {
                "attn/w_qkv/kernel": {"shape": [64, 64], "dtype": "BF16"}}}))
        self.write("shardc.yaml", """\
version: 1
targets:
  a: {mesh: "fsdp:2", rules: [r.yaml], manifest: m.json}
  b: {mesh: "fsdp:2", rules: [r.yaml], manifest: other.json}
""")
        found = self.shardc("check", "--format", "json").json()
        self.assertNotIn("SHD105", {f["code"] for f in found})
        result = self.shardc("check", "--target", "a", "--format", "json")
        self.assertIn("SHD105", {f["code"] for f in result.json()})

    def test_the_project_sets_the_lint(self):
        self.project(2)
        self.write("shardc.yaml", self.read("shardc.yaml") +
                   "lint: {ignore: [SHD109], severity: {SHD105: error}}\n")
        found = self.shardc("check", "--format", "json")
        self.check(found, 1)
        self.assertEqual({f["level"] for f in found.json()
                          if f["code"] == "SHD105"}, {"error"})
        self.assertNotIn("SHD109", {f["code"] for f in found.json()})

    def test_levels_of_flags_win_over_the_project(self):
        self.project(2)
        before = self.read("shardc.yaml")
        for own in ("SHD105", "dead-rule", "SHD1"):
            self.write("shardc.yaml", before +
                       f"lint: {{severity: {{{own}: note}}}}\n")
            for flag in ("SHD105", "dead-rule", "SHD1"):
                found = self.shardc("check", "--format", "json", "--severity",
                                    flag + "=error").json()
                self.assertEqual({f["level"] for f in found
                                  if f["code"] == "SHD105"}, {"error"})

    def test_operations_and_their_settings_are_read(self):
        for line, message in (
                ("operations: {train: [rnig]}", "SHD061 no operation is "
                 "called `rnig`"),
                ("settings: {defaults: {drop: 1}}", "SHD021 unknown key"),
                ("settings: none.yaml", "SHD002 there is no file")):
            self.write("shardc.yaml", (
                "version: 1\ntargets:\n  a:\n    mesh: 'tp:4'\n"
                "    rules: [r.yaml]\n    manifest: m.json\n    %s\n" % line))
            with self.subTest(line):
                found = [one["code"] + " " + one["message"]
                         for one in self.check(self.shardc(
                             "check", "--format", "json"), 2).json()]
                self.assertEqual(
                    sum(one.startswith(message) for one in found), 1, found)

    def test_one_broken_target_is_exit_2_and_the_others_are_reported(self):
        self.project(2)
        self.write("shardc.yaml", self.read("shardc.yaml") +
                   '  bad: {mesh: "fsdp:2", rules: [absent.yaml],'
                   ' manifest: m.json}\n')
        result = self.check(self.shardc("check", "--format", "json"), 2)
        codes = {f["code"] for f in result.json()}
        self.assertIn("SHD002", codes)
        self.assertIn("SHD109", codes)
        text = self.check(self.shardc("check"), 2).out
        self.assertRegex(text, r"shardc\.yaml:11:33: the project names it here")

    def test_a_catch_all_above_another_file_that_it_does_not_extend(self):
        self.write("r.yaml", "version: 1\nrules:\n"
                   "  - {match: 'wide', spec: [TP]}\n"
                   "  - {match: '.*', spec: [FSDP]}\n")
        self.write("more.yaml", "version: 1\nrules:\n"
                   "  - {match: 'narrow', spec: [TP]}\n")
        result = self.check(self.lint("--rules", "more.yaml", "--select",
                                      "SHD109", "--format", "json"), 0)
        self.assertEqual([f["message"] for f in result.json()],
                         ["the catch-all `.*` is above 1 rule of other files, "
                          "which it makes dead"])


class Packs(Case):
    def test_a_pack_has_no_finding_but_what_its_mesh_gives(self):
        models = os.path.join(ROOT, "testdata", "models")
        checked = 0
        for name in sorted(os.listdir(models)):
            if ".manifest.json" not in name:
                continue
            result = run("check", "--no-project", "--mesh",
                         "dp:2,fsdp:2,tp:2", "--rules", "auto", "--manifest",
                         os.path.join(models, name), "--format", "json", "-q",
                         # Vocabularies of odd size, which packs may shrink.
                         "--ignore", "SHD202")
            with self.subTest(model=name):
                self.check(result, 0)
                self.assertEqual([f["message"] for f in result.json()
                                  if f["level"] != "note"], [])
                checked += 1
        self.assertGreater(checked, 10)


class Explain(Case):
    def test_every_code_that_check_knows(self):
        text = self.check(run("explain", "SHD101"), 0).out
        self.assertTrue(text.startswith(
            "SHD101 catch-all-replicates (error): "))
        for part in ("What it does\n", "Why that is bad\n", "Example\n",
                     "What to write instead\n", "block_sparse_moe"):
            self.assertIn(part, text)
        self.assertEqual(run("explain", "catch-all-replicates").out, text)
        self.assertIn("cannot be ignored", run("explain", "SHD030").out)
        for line in text.split("\n")[1:]:
            if not line.startswith("    "):
                self.assertLessEqual(len(line), 80)


    def test_explain_needs_something_to_explain(self):
        self.check(run("explain"), 2)


if __name__ == "__main__":
    unittest.main()
