"""`shardc audit`: the findings of compiled programs, and their formats."""

import gzip
import json
import os
import shutil
import tempfile
import unittest

from audited import FOLDER, MESH, AuditCase, path, text
from driver import run


class AuditFindings(AuditCase):
    def test_each_mistake_is_found_at_its_line_and_no_other(self):
        folder = os.path.join(FOLDER, "findings")
        with open(os.path.join(folder, "EXPECT.json"),
                  encoding="utf-8") as file:
            expected = json.load(file)
        self.assertEqual(set(expected), {
            name.removesuffix(".hlo.txt.gz") for name in os.listdir(folder)
            if name.endswith(".gz")})
        for name, findings in expected.items():
            with self.subTest(name):
                program = os.path.join(folder, name + ".hlo.txt.gz")
                out = self.audit(program, *MESH)
                found = [[one["code"], one["line"]
                          if one["file"] == "audit_programs.py" else None]
                         for one in out["findings"]]
                self.assertEqual(sorted(found), sorted(findings))
        self.assertEqual(
            {code for found in expected.values() for code, _ in found},
            {f"SHD{number}" for number in range(601, 611)})
        self.assertGreaterEqual(
            sum(not found for found in expected.values()), 10)

    def test_steps_whose_batch_is_a_dictionary(self):
        """The recorded steps take `data['ids']`. Those with a constraint on each
        activation have no finding, whatever the plan has of tp."""
        folder = os.path.join(FOLDER, "steps")
        for name, count in {
                "llama_dp2_fsdp2_tp2.after_spmd": 0,
                "llama_dp2_fsdp2_tp2_residual_over_tp": 0,
                "llama_dp2_fsdp2_tp2_scanned_remat": 0,
                "llama_dp2_fsdp2_tp2_activations_free.after_spmd": 11}.items():
            with self.subTest(name):
                program = os.path.join(folder, name + ".hlo.txt.gz")
                found = self.audit(program, *MESH)["findings"]
                self.assertEqual(len(found), count, found)
        self.assertTrue(any("f32[8,128,1024]" in one["message"] and
                            one["line"] == 148 for one in found))

    def test_two_positions_of_tokens_are_no_weight_gathered_twice(self):
        program = os.path.join(FOLDER, "steps",
                               "llama_fsdp2_sp2_tp4.hlo.txt.gz")
        out = self.audit(program, "--mesh", "fsdp:2,sp:2,tp:4")
        self.assertEqual(out["findings"], [])
        self.assertIn(("positions", "input"),
                      {(one["parameter"], one["what"])
                       for one in out["collectives"]})

    def test_whole_training_states(self):
        """Steps of tests/runtimes/audit_train_states.py. EXPECT.json has each
        mistake that was made, at its line and with its parameter; the steps
        without one have no finding. Names of parameters and gradients are
        compared with the scopes that Flax gives to operations."""
        folder = os.path.join(FOLDER, "states")
        with open(os.path.join(folder, "EXPECT.json"),
                  encoding="utf-8") as file:
            expected = json.load(file)
        for name, mistakes in expected.items():
            with self.subTest(name):
                out = self.audit(os.path.join(folder, name + ".hlo.txt.gz"),
                                 *MESH)
                found = [[one["code"], one["line"]
                          if one["file"] == "audit_train_states.py" else None,
                          *one["params"]] for one in out["findings"]]
                for mistake in mistakes:
                    self.assertIn(mistake, found)
                if not mistakes:
                    self.assertEqual(found, [])
                named = 0
                for row in out["collectives"]:
                    module = (row["parameter"] or "").split("params/")[
                        -1].rpartition("/")[0]
                    scope = row["scope"] or ""
                    if row["what"] not in ("gradient", "parameter") or (
                            not module or "/" not in scope):
                        continue
                    named += 1
                    self.assertIn(module, scope)
                if name != "nnx_adam":  # NNX gives no scopes
                    self.assertGreater(named, 40)

    def test_an_axis_that_only_stores_parameters(self):
        """fsdp shards `w`, and each of its devices computes with all of `w` and
        the same rows. Where it shards the rows too, there is no finding."""
        program = (
            "HloModule jit_step, num_partitions=4\n\n"
            "ENTRY %main {\n"
            "  %w = f32[2,8]{1,0} parameter(0), sharding={devices=[2,1,2]<="
            "[2,2]T(1,0) last_tile_dim_replicate}, metadata={op_name="
            "\"p['w']\"}\n"
            "  %x = s32[4,4]{1,0} parameter(1), sharding=ROWS, "
            "metadata={op_name=\"x\"}\n"
            "  %f = f32[4,4]{1,0} convert(%x)\n"
            "  %g = f32[4,8]{1,0} all-gather(%w), replica_groups={{0,1},{2,3}},"
            " dimensions={0}, metadata={op_name=\"jit(step)/dot_general\" "
            "source_file=\"model.py\" source_line=3}\n"
            "  ROOT %d = f32[4,8]{1,0} dot(%f, %g), lhs_contracting_dims={1}, "
            "rhs_contracting_dims={0}\n}\n")
        for rows, axes in (("{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
                            [["w"]]), ("{devices=[4,1]<=[4]}", [])):
            with self.subTest(rows):
                out = self.audit("-", "--mesh", "dp:2,fsdp:2",
                                 stdin=program.replace("ROWS", rows))
                found = [one["message"] for one in out["findings"]
                         if one["code"] == "SHD609"]
                self.assertEqual(len(found), len(axes), found)
                for message in found:
                    self.assertIn("`fsdp` shards no input", message)

    def test_a_batch_that_lacks_an_axis_of_the_plan(self):
        with tempfile.TemporaryDirectory() as folder:
            rules, manifest, plan, program = (
                os.path.join(folder, name) for name in
                ("rules.yaml", "manifest.json", "plan.json", "step.hlo.txt"))
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\nrules:\n- {match: w, spec: "
                           "[FSDP, null]}\n")
            with open(manifest, "w", encoding="utf-8") as file:
                json.dump({"schema": "shardc.manifest/v1", "params": {
                    "w": {"shape": [4, 8], "dtype": "F32"}}}, file)
            self.check(run("plan", "--mesh", "dp:2,fsdp:2", "--rules", rules,
                           "--manifest", manifest, "-q", "-o", plan), 0)
            for rows, count in (
                    ("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", 1),
                    ("{devices=[4,1]<=[4]}", 0), ("{replicated}", 1)):
                with open(program, "w", encoding="utf-8") as file:
                    file.write(
                        "HloModule jit_step, num_partitions=4\n\n"
                        "ENTRY %main {\n"
                        "  %w = f32[2,8]{1,0} parameter(0), sharding={devices="
                        "[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}, "
                        "metadata={op_name=\"p['w']\"}\n"
                        "  ROOT %x = s32[4,4]{1,0} parameter(1), sharding="
                        f"{rows}, metadata={{op_name=\"batch['tokens']\"}}\n"
                        "}\n")
                with self.subTest(rows):
                    out = json.loads(self.check(run(
                        "audit", program, "--plan", plan, "--format", "json"),
                        0).out)
                    found = [one for one in out["findings"]
                             if one["params"] == ["tokens"]]
                    self.assertEqual(len(found), count, out["findings"])

    def test_a_helper_of_a_helper_leads_to_its_caller(self):
        """`constrain` calls `keep`. The gathered residual is reported where it
        is constrained, and both helpers are shown."""
        program = os.path.join(FOLDER, "states", "residual_gathered.hlo.txt.gz")
        printed = self.check(run("audit", program, *MESH, "--select", "SHD601"),
                             0).out
        self.assertRegex(printed, r"--> audit_train_states\.py:52:1")
        self.assertRegex(printed,
                         r"::: audit_train_states\.py:35:1: constrained here")
        self.assertRegex(printed, r"::: audit_programs\.py:\d+:1: constrained")

    def test_a_helper_that_constrains_leads_to_its_caller(self):
        program = os.path.join(FOLDER, "states", "cast_after_gather.hlo.txt.gz")
        lines = {row["line"]["function"] for row in
                 self.audit(program, *MESH)["collectives"]}
        self.assertNotIn("keep", lines)
        printed = self.check(run("audit", program, *MESH), 0).out
        self.assertRegex(printed, r"--> audit_train_states\.py:70:1")
        self.assertRegex(printed, r"::: audit_programs\.py:\d+:1: constrained")

    def test_each_axis_has_its_own_count(self):
        program = os.path.join(FOLDER, "states",
                               "outputs_replicated.hlo.txt.gz")
        messages = {one["params"][0]: one["message"]
                    for one in self.audit(program, *MESH)["findings"]}
        self.assertIn("over `fsdp` 1 time and over `tp` 1 time",
                      messages["params/block_0/down/kernel"])
        self.assertIn("over `fsdp` 1 time:", messages["params/head/kernel"])

    def test_findings_have_every_format_and_can_be_left_out(self):
        program = os.path.join(FOLDER, "findings",
                               "wider_dtype.after_spmd.hlo.txt.gz")
        sarif = json.loads(self.check(run("audit", program, *MESH, "--format",
                                          "sarif"), 0).out)
        results = sarif["runs"][0]["results"]
        self.assertEqual(
            [(one["ruleId"], one["locations"][0]["physicalLocation"]["region"]
              ["startLine"]) for one in results],
            [("SHD607", 58), ("SHD607", 59)])
        for form in ("concise", "github", "junit", "markdown", "text"):
            out = self.check(run("audit", program, *MESH, "--format", form),
                             0).out
            self.assertIn("SHD607", out)
            self.assertIn("programs.py", out)
        out = self.check(run("audit", program, *MESH, "--fail-on", "warning"),
                         1).out
        self.assertIn("after a cast from `bf16`", out)
        for flags in (["--ignore", "SHD607"], ["--ignore", "SHD6"],
                      ["--select", "SHD601"]):
            out = self.check(run("audit", program, *MESH, "--fail-on",
                                 "warning", *flags), 0).out
            self.assertNotIn("SHD607", out)
        self.refused(program, "--ignore", "SHD6077", said="SHD6077")

    def test_a_program_of_another_machine_names_files_of_this_repository(self):
        program = os.path.join(FOLDER, "slow_step", "step.hlo.txt.gz")
        with gzip.open(program, "rt", encoding="utf-8") as file:
            compiled = file.read()
        for named, found in (
                ("/home/ci/build-7/repo/src/net/model.py", "src/net/model.py"),
                ("src/net/model.py", "src/net/model.py"),
                # One name alone is of no folder, and none is left.
                ("/home/ci/model.py", None), ("/../src/model.py", None)):
            with self.subTest(named), tempfile.TemporaryDirectory() as repo:
                inner = os.path.join(repo, "src", "net")
                os.makedirs(inner)
                os.mkdir(os.path.join(repo, ".git"))
                shutil.copy(os.path.join(FOLDER, "slow_step", "model.py"),
                            inner)
                shutil.copy(os.path.join(inner, "model.py"), repo)
                text_here = compiled.replace('"model.py"', f'"{named}"')
                for folder in (repo, os.path.join(repo, "src")):
                    def printed(form, folder=folder, text_here=text_here):
                        return self.check(run(
                            "audit", "-", *MESH, "--select", "SHD601",
                            "--format", form, stdin=text_here, cwd=folder),
                            0).out
                    (one, *_) = json.loads(printed("sarif"))["runs"][0][
                        "results"]
                    place = one["locations"][0]["physicalLocation"]
                    region = place["region"]
                    uri = place["artifactLocation"]["uri"]
                    if found is None:
                        self.assertTrue(uri.startswith("file:///"), uri)
                        continue
                    self.assertEqual(uri, found)
                    self.assertEqual(
                        (region["startLine"], region["startColumn"]), (51, 5))
                    self.assertIn(f"file={found},line=51", printed("github"))
                    self.assertIn("gate = jax.nn.silu", printed("text"))

    def test_markdown_has_no_folder_of_the_machine(self):
        program = os.path.join(FOLDER, "slow_step", "step.hlo.txt.gz")
        with gzip.open(program, "rt", encoding="utf-8") as file:
            compiled = file.read()
        with tempfile.TemporaryDirectory() as repo:
            repo = os.path.realpath(repo)
            os.mkdir(os.path.join(repo, ".git"))
            model = os.path.join(repo, "model.py")
            shutil.copy(os.path.join(FOLDER, "slow_step", "model.py"), model)
            out = self.check(run(
                "audit", "-", *MESH, "--format", "markdown", cwd=repo,
                stdin=compiled.replace('"model.py"', f'"{model}"')), 0).out
            self.assertIn("| model.py:51:5 |", out)
            self.assertNotIn(repo, out)

    def test_a_finding_in_a_helper_names_the_call(self):
        program = os.path.join(FOLDER, "findings",
                               "weight_hoisted.after_spmd.hlo.txt.gz")
        out = self.check(run("audit", program, *MESH), 0).out
        self.assertRegex(out, r"audit_programs\.py:1[0-9]{2}")
        self.assertIn("called from here", out)

    def test_a_line_number_beyond_any_file_is_no_failure(self):
        program = os.path.join(FOLDER, "findings",
                               "wider_dtype.after_spmd.hlo.txt.gz")
        with gzip.open(program, "rt", encoding="utf-8") as file:
            hostile = file.read().replace("line=58", "line=99999999999999")
        out = self.audit("-", *MESH, stdin=hostile)
        self.assertEqual([one["line"] for one in out["findings"]], [None, 59])

    def test_the_gradient_of_an_activation_is_no_weights(self):
        """The sum over tp has the shape of the weight's gradient, and is of the
        gradient of an activation; over the batch's axis it is the weight's."""
        program = (
            "HloModule jit_step, num_partitions=4\n\n"
            "%add (a: f32[], b: f32[]) -> f32[] {\n"
            "  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n"
            "  ROOT %s = f32[] add(%a, %b)\n}\n\n"
            "ENTRY %main (w: f32[16,4], x: f32[16,8]) -> f32[16,8] {\n"
            "  %w = f32[16,4]{1,0} parameter(0), sharding={devices=[1,2,2]"
            "<=[WEIGHT] last_tile_dim_replicate}, metadata={op_name="
            '"p[\\\'w\\\']"}\n'
            "  %x = f32[16,8]{1,0} parameter(1), sharding={devices=[2,1,2]"
            '<=[4] last_tile_dim_replicate}, metadata={op_name="x"}\n'
            "  ROOT %sum = f32[16,8]{1,0} all-reduce(%x), channel_id=1, "
            "replica_groups=GROUPS, use_global_device_ids=true, "
            "to_apply=%add, metadata={op_name=\"jit(step)/transpose(jvp(f))/"
            "dot_general\"}\n}\n")
        for weight, groups, codes in (
                ("2,2]T(1,0", "{{0,1},{2,3}}", []),
                ("4", "{{0,2},{1,3}}", ["SHD605"])):
            with self.subTest(groups=groups):
                text = program.replace("<=[WEIGHT]", f"<=[{weight}" + (
                    ")" if "T" in weight else "]")).replace("GROUPS", groups)
                out = self.audit("-", "--mesh", "dp:2,tp:2", stdin=text)
                self.assertEqual([one["code"] for one in out["findings"]
                                  if one["code"] == "SHD605"], codes)

    def test_gradients_of_one_line_are_those_of_their_parameters(self):
        def parameter(name, number, rows):
            return (f"  %{name} = f32[{rows},4]{{1,0}} parameter({number}), "
                    "sharding={devices=[1,2,2]<=[4] last_tile_dim_replicate}, "
                    f"metadata={{op_name=\"p[\\'{name}\\']\"}}\n")

        def reduction(name, number, rows):
            return (f"  %made{rows} = f32[{rows},8]{{1,0}} negate(%x{rows})\n"
                    f"  %{name} = f32[{rows},8]{{1,0}} all-reduce(%made{rows}), "
                    f"channel_id={number}, replica_groups={{{{0,2}},{{1,3}}}}, "
                    "use_global_device_ids=true, to_apply=%add, metadata="
                    "{op_name=\"jit(step)/transpose(jvp(f))/dot_general\" "
                    "source_file=\"model.py\" source_line=7}\n")

        def rows(name, number, count):
            return (f"  %{name} = f32[{count},8]{{1,0}} parameter({number}), "
                    "sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}, "
                    f"metadata={{op_name=\"{name}\"}}\n")

        def update(name, rows):
            """The model multiplies by the parameter, and the update squares the
            entire gradient."""
            return (f"  %y{rows} = f32[{rows},{rows}]{{1,0}} dot(%{name}, "
                    f"%{name})\n"
                    f"  %square{rows} = f32[{rows},8]{{1,0}} multiply("
                    f"%sum{rows}, %sum{rows})\n"
                    f"  %part{rows} = f32[{rows},4]{{1,0}} dynamic-slice("
                    f"%square{rows}, %zero, %zero)\n"
                    f"  %new{rows} = f32[{rows},4]{{1,0}} subtract(%{name}, "
                    f"%part{rows})\n")

        program = (
            "HloModule jit_step, num_partitions=4\n\n"
            "%add (a: f32[], b: f32[]) -> f32[] {\n"
            "  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n"
            "  ROOT %s = f32[] add(%a, %b)\n}\n\n"
            "ENTRY %main (w: f32[16,4], v: f32[32,4], x16: f32[16,8], "
            "x32: f32[32,8]) -> (f32[16,4], f32[32,4]) {\n"
            + parameter("w", 0, 16) + parameter("v", 1, 32)
            + rows("x16", 2, 16) + rows("x32", 3, 32)
            + "  %zero = s32[] constant(0)\n"
            + reduction("sum16", 1, 16) + reduction("sum32", 2, 32)
            + update("w", 16) + update("v", 32)
            + "  ROOT %all = (f32[16,4]{1,0}, f32[32,4]{1,0}) "
            "tuple(%new16, %new32)\n}\n")
        out = self.audit("-", "--mesh", "dp:2,tp:2", stdin=program)
        found = {tuple(one["params"]): one["message"]
                 for one in out["findings"] if one["code"] == "SHD605"}
        self.assertEqual(set(found), {("w",), ("v",)})
        self.assertIn("the gradient of `w` `f32[16,8]`", found[("w",)])
        self.assertIn("the gradient of `v` `f32[32,8]`", found[("v",)])
        # Without its update, the parameter of a gradient is not known.
        other = program.replace("subtract(%w, %part16)", "negate(%part16)")
        out = self.audit("-", "--mesh", "dp:2,tp:2", stdin=other)
        found = {tuple(one["params"]): one["message"]
                 for one in out["findings"] if one["code"] == "SHD605"}
        self.assertEqual(set(found), {(), ("v",)})
        self.assertIn("the gradient `f32[16,8]` of a sharded parameter",
                      found[()])


if __name__ == "__main__":
    unittest.main()
