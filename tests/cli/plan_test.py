"""`shardc plan`: what it writes, warns of and refuses."""

import json
import os
import re
import subprocess
import tempfile
import unittest

from driver import ROOT, Case, run
from plan_case import LLAMA, MESH, write


class Plan(Case):
    def test_llama_on_64_devices(self):
        result = self.check(run("plan", *MESH, "--rules", "builtin:llama",
                                "--manifest", LLAMA), 0)
        plan = result.json()
        self.assertEqual(plan["schema"], "shardc.plan/v1")
        self.assertEqual(plan["mesh"]["devices"], 64)
        self.assertEqual(plan["summary"]["params"], 291)
        self.assertEqual(plan["summary"]["elements"], 8030261248)
        sizes = {axis["name"]: axis["size"] for axis in plan["mesh"]["axes"]}
        for name, param in plan["params"].items():
            for dim, shard in enumerate(param["shard_shape"]):
                entry = (param["spec"] + [None] * 8)[dim] or []
                axes = [entry] if isinstance(entry, str) else entry
                for axis in axes:
                    shard *= sizes[axis]
                self.assertEqual(shard, param["shape"][dim], name)
        self.assertIn("291", result.err)
        self.assertIn("largest replicated", result.err)

    def test_rules_count_what_they_won_and_what_their_patterns_match(self):
        patterns = ["layers.0", "mlp", "^model", "proj/kernel$", "gone"]
        with tempfile.TemporaryDirectory() as folder:
            rules = write(folder, "r.yaml", json.dumps(
                {"version": 1, "policy": {"unmatched": "replicate"},
                 "rules": [{"match": one, "spec": []} for one in patterns]})
                          + "  # shardc: ignore[SHD207] only counts matter\n")
            plan = self.check(run("plan", *MESH, "--rules", rules,
                                  "--manifest", LLAMA), 0).json()
        for one, rule in zip(patterns, plan["rules"]):
            found = [name for name in plan["params"] if re.search(one, name)]
            won = [name for name, param in plan["params"].items()
                   if param["rule"] == one]
            self.assertEqual((rule["matched"], rule["params"]),
                             (len(found), len(won)), one)
        self.assertGreater(plan["rules"][3]["matched"],
                           plan["rules"][3]["params"])

    def test_a_wrong_manifest_is_reported_alone(self):
        """Not after what follows from it."""
        config = os.path.join(ROOT, "testdata", "configs",
                              "llama-3-8b.config.json")
        with tempfile.TemporaryDirectory() as folder:
            broken = write(folder, "broken.json", "{")
            rules = write(folder, "r.yaml", "version: 1\nrules: []\n")
            for manifest, code in ((config, "SHD022"), (broken, "SHD016"),
                                   (broken + ".absent", "SHD002")):
                for command in ("plan", "check"):
                    for named in ("auto", rules):
                        result = self.check(run(
                            command, "--no-project", "--mesh", "tp:2",
                            "--rules", named, "--manifest", manifest), 2)
                        text = result.out + result.err
                        self.assertEqual(text.count("error["), 1, text)
                        self.assertIn(f"error[{code} ", text)
            result = run("plan", *MESH, "--rules", "auto", "--manifest",
                         config)
            self.assertIn("this is a config.json: pass it as `--model`",
                          result.err)
            other = write(folder, "c.json", '{"architectures": ["X"]}')
            self.assertIn("this is a config.json", run(
                "show", "manifest", "--manifest", other).err)
            # A tree may have such a branch.
            tree = write(folder, "t.json", json.dumps(
                {"model_type": {"w": {"shape": [4], "dtype": "F32"}}}))
            self.check(run("show", "manifest", "--manifest", tree), 0)

    def test_the_last_line_counts_what_check_has(self):
        with tempfile.TemporaryDirectory() as folder:
            write(folder, "m.json", json.dumps({
                "schema": "shardc.manifest/v1", "params": {
                    f"layers/{i}/{n}/kernel": {"shape": [512, 512],
                                               "dtype": "BF16"}
                    for i in range(3) for n in ("wide", "narrow")}}))
            write(folder, "r.yaml", "version: 1\nrules:\n"
                  "  - match: 'wide/kernel'\n    spec: ColumnWise\n"
                  "  - match: 'narrow/kernel'\n    spec: RowWise\n"
                  "  - match: 'absent'\n    spec: []\n")
            args = ("--mesh", "fsdp:2,tp:4", "--rules", "r.yaml",
                    "--manifest", "m.json")

            def last(*more):
                result = self.check(run("plan", *args, *more, cwd=folder), 0)
                json.loads(result.out)
                return result.err.splitlines()[-1]

            self.assertEqual(last(), "check       0 errors, 1 warning, "
                             "0 notes: run `shardc check` to list them")
            project = ("version: 1\ntargets: {}\n"
                       "lint: {baseline: b.json}\n")
            write(folder, "b.json", json.dumps({
                "schema": "shardc.baseline/v1",
                "findings": {"SHD105": ["absent"]}}))
            write(folder, "shardc.yaml", project)
            self.assertEqual(last(), "check       nothing found")
            # `check` prints notes on request only.
            write(folder, "shardc.yaml", "version: 1\ntargets: {}\n"
                  "lint: {severity: {SHD105: note}}\n")
            self.assertEqual(last(), "check       0 errors, 0 warnings, "
                             "1 note: run `shardc check --notes` to list them")
            write(folder, "shardc.yaml",
                  "version: 1\nlint: {severity: {SHD105: error}}\n")
            self.assertIn("1 error, 0 warnings", last())
            quiet = run("plan", *args, "-q", cwd=folder)
            self.assertEqual(quiet.err, "")

    def test_a_model_that_is_mostly_replicated_is_reported(self):
        with tempfile.TemporaryDirectory() as folder:
            write(folder, "m.json", json.dumps({
                "schema": "shardc.manifest/v1", "params": {
                    **{f"layers/{i}/wide/kernel": {"shape": [64, 64],
                                                   "dtype": "BF16"}
                       for i in range(3)},
                    "head/kernel": {"shape": [64, 64], "dtype": "BF16"}}}))

            def plan(spec, mesh="tp:4", rest="[]", rc=0):
                write(folder, "r.yaml", "version: 1\nrules:\n"
                      f"  - match: 'wide/kernel'\n    spec: {spec}\n"
                      f"  - match: '.*'\n    spec: {rest}\n")
                return self.check(run(
                    "plan", "--no-project", "--mesh", mesh, "--rules",
                    "r.yaml", "--manifest", "m.json", "-q", cwd=folder), rc)

            whole = plan("[]", rc=1)
            self.assertEqual(whole.out, "")
            self.assertIn(
                "the whole model, 4 parameters of 32 KiB, is replicated on "
                "each of 4 devices", whole.err)
            self.assertIn("24 KiB (75.0 % of the model)",
                          plan("[]", rest="[tp]").err)
            self.assertEqual(plan("[tp]").err, "")
            self.assertEqual(plan("[]", mesh="tp:1").err, "")

    def test_a_code_has_the_level_that_check_gives_it(self):
        """A plan that is written only names what `check` reports as an error."""
        with tempfile.TemporaryDirectory() as folder:
            write(folder, "r.yaml", "version: 1\nrules:\n"
                  "  - match: 'q_proj'\n    spec: [null, tp]\n"
                  "  - match: '.*'\n    spec: []\n")
            inputs = ["--no-project", "--mesh", "tp:4", "--rules", "r.yaml",
                      "--manifest", LLAMA]
            err = self.check(run("plan", *inputs, "-o", "p.json", cwd=folder),
                             0).err
            self.assertIn("warning[SHD207 large-replicated]", err)
            self.assertIn("reports the cause as an error (SHD101)", err)
            self.assertNotIn("[SHD101", err)
            checked = self.check(run("check", *inputs, cwd=folder), 1).out
            self.assertIn("error[SHD101 catch-all-replicates]", checked)
            # Ignored there, it is no cause here.
            ignored = "  # shardc: ignore[SHD101] small devices\n"
            write(folder, "r.yaml", "version: 1\nrules:\n"
                  "  - match: 'q_proj'\n    spec: [null, tp]\n" + ignored +
                  "  - match: '.*'\n    spec: []\n")
            err = self.check(run("plan", *inputs, "-o", "p.json", cwd=folder),
                             0).err
            self.assertNotIn("SHD101", err)

    def test_the_same_bytes_whatever_the_surroundings(self):
        args = ["plan", *MESH, "--rules", "builtin:llama", "--quiet"]
        first = self.check(run(*args, "--manifest", LLAMA), 0).out
        with tempfile.TemporaryDirectory() as folder:
            relative = os.path.relpath(LLAMA, folder)
            others = [
                run(*args, "--manifest", LLAMA, "--threads", 8),
                run(*args, "--manifest", relative, cwd=folder),
                run(*args, "--manifest", LLAMA,
                    env={"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}),
                run(*args, "--manifest", LLAMA, env={"LC_ALL": "C"}),
            ]
            for other in others:
                self.assertEqual(first, self.check(other, 0).out)

    def test_a_large_plan_is_the_same_however_it_is_written(self):
        # Its digest is computed in parallel, where there is a second thread and
        # a file.
        with tempfile.TemporaryDirectory() as folder:
            manifest = write(folder, "m.json", json.dumps(
                {f"layers.{i}.{name}": {"shape": [8, 4], "dtype": "F32"}
                 for i in range(4000) for name in ("c", "a", "b")}))
            args = ["plan", "--no-project", "--mesh", "tp:2", "--rules",
                    write(folder, "r.yaml", "version: 1\nrules:\n"
                          "- {match: 'a$', spec: [tp]}\n"
                          "- {match: '.*', spec: []}\n"),
                    "--manifest", manifest, "--quiet"]
            first = self.check(run(*args, "--threads", 1), 0).out
            out = os.path.join(folder, "plan.json")
            for threads in 1, 2, 8, 2:
                self.check(run(*args, "-o", out, "--threads", threads), 0)
                with open(out, encoding="utf-8") as file:
                    self.assertEqual(first, file.read())

    def test_one_run_names_one_nearest_rule(self):
        # Words of [0] are found in both names, path parts of [2] and [1].
        rules = ["mlp/up/kernel", "kernel/up/moe", "moe/(up|down)/kernel",
                 "norm/scale"]
        names = ["layers/7/moe/gate/kernel", "moe/up/x/bias"]
        with tempfile.TemporaryDirectory() as folder:
            file = write(folder, "r.yaml", json.dumps({
                "version": 1,
                "rules": [{"match": one, "spec": []} for one in rules]},
                indent=1))
            model = write(folder, "m.json", json.dumps({
                "schema": "shardc.manifest/v1",
                "params": {name: {"shape": [4], "dtype": "F32"}
                           for name in [*names, "norm/scale"]}}))
            inputs = ["--mesh", "tp:2", "--rules", file, "--manifest", model]
            plan = self.check(run("plan", *inputs), 1).err
            self.assertEqual(
                plan.count("the nearest rule has"), len(names), plan)
            for name in names:
                reported = re.search(
                    rf"^ +{name}  \(nearest: \[(\d+)\]", plan, re.M)
                self.assertIsNotNone(reported, plan)
                found = plan.partition(f"no rule matches `{name}`")[2]
                line = int(re.search(r"r\.yaml:(\d+):", found).group(1))
                with open(file, encoding="utf-8") as text:
                    pattern = json.loads(
                        "{" + text.read().splitlines()[line - 1].strip(" ,")
                        + "}")["match"]
                self.assertEqual(rules.index(pattern), int(reported.group(1)))
                explain = self.check(run("explain", name, *inputs), 0).out
                self.assertIn(f"nearest   [{reported.group(1)}]", explain)

    def test_rules_are_named_from_their_own_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            write(folder, "base.yaml",
                  "rules: [{match: '.*', spec: Replicated}]\n")
            rules = write(folder, "ours.yaml",
                          "extends: [./base.yaml]\nrules:\n"
                          "  - match: q_proj\n    spec: [fsdp, tp]\n")
            plan = self.check(run("plan", *MESH, "--rules", rules,
                                  "--manifest", LLAMA), 0).json()
            self.assertEqual([r["source"] for r in plan["rules"]],
                             ["ours.yaml:3", "base.yaml:1"])

    def test_an_index_without_its_files_gives_names_only_with_a_note(self):
        with tempfile.TemporaryDirectory() as folder:
            index = os.path.join(folder, "model.safetensors.index.json")
            with open(index, "w", encoding="utf-8") as file:
                json.dump({"weight_map": {"a.w": "one.safetensors"}}, file)
            for manifest in (index, folder):
                result = self.check(run(
                    "plan", "--no-project", "--mesh", "tp:2", "--rules", "-",
                    "--manifest", manifest,
                    stdin="rules: [{match: w, spec: [tp]}]\n"), 0)
                self.assertIn("\nnote        names only: none of the index's "
                              "1 file is present\n", result.err)
                self.assertIsNone(result.json()["params"]["a.w"]["shape"])

    def test_findings_write_nothing_unless_asked(self):
        with tempfile.TemporaryDirectory() as folder:
            rules = write(folder, "r.yaml",
                          "rules: [{match: q_proj, spec: [fsdp, tp]}]\n")
            out = os.path.join(folder, "plan.json")
            args = ["plan", *MESH, "--rules", rules, "--manifest", LLAMA,
                    "-o", out]
            result = self.check(run(*args), 1)
            self.assertFalse(os.path.exists(out))
            self.assertIn("unmatched", result.err)
            self.check(run(*args, "--keep-going"), 1)
            with open(out, encoding="utf-8") as file:
                plan = json.load(file)
            self.assertGreater(len(plan["diagnostics"]), 0)
            self.assertEqual(plan["summary"]["unmatched"], 291 - 32)
            self.check(run(*args, "--unmatched", "replicate"), 0)

    def test_illegal_specs_are_kept_for_people_only(self):
        with tempfile.TemporaryDirectory() as folder:
            manifest = write(folder, "m.json", json.dumps(
                {"schema": "shardc.manifest/v1", "params": {
                    "w": {"shape": [8, 6], "dtype": "F32"}}}))
            plan = os.path.join(folder, "p.json")
            for spec, code in (("[HEAD, KV_HEAD]", "SHD203"),
                               ("[null, tp]", "SHD202"),
                               ("[tp, null, dp]", "SHD204")):
                rules = write(folder, "r.yaml",
                              "rules: [{match: w, spec: %s}]\n" % spec)
                self.check(run("plan", "--mesh", "dp:2,tp:4", "--rules", rules,
                               "--manifest", manifest, "--keep-going", "-q",
                               "-o", plan), 1)
                for words in (["export", "csv"], ["export", "tree"],
                              ["show", "rules"], ["show", "mesh"]):
                    self.check(run(*words, "--plan", plan), 0)
                for words in (["export", "jax"], ["export", "dtensor"],
                              ["export", "hlo"],
                              ["show", "layout", "w"], ["show", "memory"],
                              ["report"],
                              ["cost", "--batch", "4", "--seq", "8"]):
                    result = self.check(run(*words, "--plan", plan), 1)
                    self.assertEqual(result.out, "")
                    self.assertRegex(
                        result.err, code + r".*\n  --> .*p\.json:\d+:\d+")

    def test_illegal_policies(self):
        with tempfile.TemporaryDirectory() as folder:
            manifest = write(folder, "m.json", json.dumps(
                {"schema": "shardc.manifest/v1", "params": {
                    "wte": {"shape": [50257, 768], "dtype": "F32"},
                    "wte.odd": {"shape": [50257, 769], "dtype": "F32"}}}))
            rules = write(folder, "r.yaml",
                          "rules: [{match: wte, spec: [tp, fsdp]}]\n")
            args = ["plan", "--mesh", "fsdp:8,tp:4", "--rules", rules,
                    "--manifest", manifest, "--quiet"]
            result = self.check(run(*args), 1)
            self.assertIn("50257 % 4 = 1", result.err)
            for policy in ("drop", "shrink"):
                plan = self.check(run(*args, "--illegal", policy), 0).json()
                param = plan["params"]["wte"]
                self.assertEqual(param["spec"], [None, "fsdp"])
                self.assertEqual(param["corrections"], [{
                    "dim": 0, "from": "tp", "to": None,
                    "reason": "indivisible",
                    "bytes_per_device_added": 14474016}])
                # The cost of several is reported once, with the last.
                whole = 50257 * 769 * 4
                self.assertEqual(
                    [(edit["dim"], edit["bytes_per_device_added"])
                     for edit in plan["params"]["wte.odd"]["corrections"]],
                    [(0, 0), (1, whole - whole // 32)])

    def test_attention_specs_are_judged_as_parameters_are(self):
        """An axis rule that breaks attention alone: nothing else uses it."""
        rows = [  # axes, code, words, policy that mends it, its corrections
            ("{key_sequence: spp}", "SHD201", ["`spp`", "`key`", "`value`",
             "train, prefill, decode and insert", "r.yaml:2:8"], "drop", 4),
            ("{attention_dim: tp}", "SHD203", ["`tp`", "`query`", "`output`",
                                          "r.yaml:2:8"], "shrink", 4),
            ("{decode_attention_dim: [tp]}", "SHD203", ["(in decode and insert)"],
             "shrink", 2),
            ("{batch: [dp, rows]}", "SHD201", ["`rows`", "`query`"],
             "shrink", 4),
        ]
        with tempfile.TemporaryDirectory() as folder:
            manifest = write(folder, "m.json", json.dumps(
                {"schema": "shardc.manifest/v1",
                 "params": {"w": {"shape": [8, 8], "dtype": "F32"}}}))
            for axes, code, words, policy, corrected in rows:
                with self.subTest(axes):
                    write(folder, "r.yaml", "version: 1\naxes: " + axes +
                          "\nrules: [{match: w, spec: [tp]}]\n")
                    args = ["--mesh", "dp:2,tp:4", "--rules", "r.yaml",
                            "--manifest", manifest]
                    refused = self.check(run("plan", *args, cwd=folder), 1)
                    self.assertEqual(refused.out, "")
                    for word in [code, *words]:
                        self.assertIn(word, refused.err)
                    found = self.check(run("check", *args, "--format", "json",
                                           cwd=folder), 1).json()
                    self.assertEqual(
                        [f["code"] for f in found if f["level"] == "error"],
                        [code])
                    plan = self.check(run("plan", *args, "--illegal", policy,
                                          "-q", cwd=folder), 0).json()
                    modes = {c["mode"] for c in plan["attention_corrections"]}
                    self.assertEqual(len(modes), corrected)
                    for specs in plan["attention"].values():
                        for spec in specs.values():
                            flat = [a for entry in spec if entry for a in
                                    ([entry] if isinstance(entry, str)
                                     else entry)]
                            self.assertEqual(len(flat), len(set(flat)))
                            self.assertLessEqual(set(flat), {"dp", "tp"})
                    warned = self.check(run("check", *args, "--illegal",
                                            policy, "--format", "json",
                                            cwd=folder), 0).json()
                    self.assertIn(
                        "; the policy makes it ",
                        " ".join(f["message"] for f in warned
                                 if f["code"] == code))

    def test_plan_is_complete_or_absent(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "no", "plan.json")
            result = self.check(run("plan", *MESH, "--rules", "builtin:llama",
                                    "--manifest", LLAMA, "-o", out), 2)
            self.assertIn(out, result.err)
            self.assertEqual(os.listdir(folder), [])

    def test_a_full_standard_output_is_an_error(self):

        from driver import BIN
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(
                [BIN, "plan", *MESH, "--rules", "builtin:llama", "--manifest",
                 LLAMA, "--quiet"], stdout=full, stderr=subprocess.PIPE,
                check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"standard output", done.stderr)


class BadInput(Case):
    """Each cause: status 2, one finding that names it, nothing on stdout."""

    def test_table(self):
        with tempfile.TemporaryDirectory() as folder:
            good = write(folder, "good.yaml",
                         "rules: [{match: '.*', spec: Replicated}]\n")
            one = write(folder, "one.yaml", "extends: [./two.yaml]\n")
            write(folder, "two.yaml", "extends: [./one.yaml]\n")
            broken = write(folder, "broken.json", "{\"params\": ")
            empty = write(folder, "empty.json", "")
            circle = write(folder, "circle.yaml",
                           "register:\n  A: {rule: __B__}\n"
                           "  B: {rule: __A__}\n"
                           "rules: [{match: '.*', spec: [A]}]\n")
            regex = write(folder, "regex.yaml",
                          "rules: [{match: 'a(?=b)', spec: [tp]}]\n")
            token = write(folder, "token.yaml",
                          "rules: [{match: '.*', spec: [FSPD]}]\n")
            cases = [
                ([], "no mesh"),
                (["--mesh", "dp:2"], "no manifest"),
                (["--mesh", os.path.join(folder, "none.yaml"), "--rules",
                  good, "--manifest", LLAMA], "none.yaml"),
                (["--mesh", folder, "--rules", good, "--manifest", LLAMA],
                 "director"),
                (["--mesh", "dp:0", "--rules", good, "--manifest", LLAMA],
                 "0"),
                (["--mesh", "dp:-1,tp:-1", "--devices", "8", "--rules", good,
                  "--manifest", LLAMA], "-1"),
                (["--mesh", "dp:-1,tp:2", "--rules", good, "--manifest",
                  LLAMA], "device"),
                (["--mesh", "dp:-1,tp:3", "--devices", "8", "--rules", good,
                  "--manifest", LLAMA], "8"),
                (["--mesh", "dp:2,dp:4", "--rules", good, "--manifest",
                  LLAMA], "dp"),
                (["--mesh", "dp:9223372036854775807,tp:4", "--rules", good,
                  "--manifest", LLAMA], "64 bits"),
                (["--mesh", "dp:2", "--rules", one, "--manifest", LLAMA],
                 "extends itself"),
                (["--mesh", "dp:2", "--rules", circle, "--manifest", LLAMA],
                 "circle"),
                (["--mesh", "dp:2", "--rules", regex, "--manifest", LLAMA],
                 "look-ahead"),
                (["--mesh", "dp:2", "--rules", token, "--manifest", LLAMA],
                 "`FSDP`"),
                (["--mesh", "dp:2", "--rules", good, "--manifest", broken],
                 "broken.json"),
                (["--mesh", "dp:2", "--rules", good, "--manifest", empty],
                 "empty.json"),
                (["--mesh", "dp:2", "--rules", "builtin:lama", "--manifest",
                  LLAMA], "llama"),
                (["--mesh", "dp:2", "--rules", good, "--manifest", LLAMA,
                  "--modes", "trian"], "`train`"),
                (["--mesh", "dp:2", "--rules", good, "--manifest", LLAMA,
                  "--illegal", "shrnk"], "`shrink`"),
                (["--mesh", "dp:2", "--rules", good, "--manifest", LLAMA,
                  "--min-size", "-1"], "--min-size"),
                (["--mesh", "dp:2", "--rules", good, "--manifest", LLAMA,
                  "--no-such-flag"], "no-such-flag"),
            ]
            for args, word in cases:
                with self.subTest(args=args):
                    result = self.check(run("plan", *args), 2)
                    self.assertEqual(result.out, "")
                    self.assertIn(word, result.err)
                    self.assertEqual(result.err.count("error["), 1,
                                     repr(result))

    def test_every_error_of_every_file_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            mesh = write(folder, "m.yaml", "axes: {dp: 0, tp: x}\n")
            rules = write(folder, "r.yaml",
                          "rulez: []\nrules: [{match: a, spec: {}}]\n")
            result = self.check(run("plan", "--mesh", mesh, "--rules", rules,
                                    "--manifest", "none.json"), 2)
            self.assertGreaterEqual(result.err.count("error["), 5,
                                    repr(result))

    def test_rules_report_keys_names_and_patterns_together(self):
        with tempfile.TemporaryDirectory() as folder:
            args = ["plan", "--mesh", "fsdp:2", "--manifest", LLAMA,
                    "--rules"]
            names = write(folder, "names.yaml",
                          "rules:\n  - match: 'a(?=b)'\n    spec: [FSPD]\n")
            result = self.check(run(*args, names), 2)
            self.assertIn("look-ahead", result.err)
            self.assertIn("`FSPD`", result.err)
            keys = write(folder, "keys.yaml",
                         "rulez: []\n"
                         "rules:\n  - match: 'a(?=b)'\n    spec: [fsdp]\n")
            result = self.check(run(*args, keys), 2)
            self.assertIn("look-ahead", result.err)
            self.assertIn("`rulez`", result.err)

    def test_unknown_command(self):
        result = self.check(run("plam"), 2)
        self.assertIn("`plan`", result.err)


if __name__ == "__main__":
    unittest.main()
