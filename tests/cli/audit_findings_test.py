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
            return (f"  %{name} = f32[{rows},8]{{1,0}} all-reduce(%x{rows}), "
                    f"channel_id={number}, replica_groups={{{{0,2}},{{1,3}}}}, "
                    "use_global_device_ids=true, to_apply=%add, metadata="
                    "{op_name=\"jit(step)/transpose(jvp(f))/dot_general\" "
                    "source_file=\"model.py\" source_line=7}\n")

        def rows(name, number, count):
            return (f"  %{name} = f32[{count},8]{{1,0}} parameter({number}), "
                    "sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}, "
                    f"metadata={{op_name=\"{name}\"}}\n")

        program = (
            "HloModule jit_step, num_partitions=4\n\n"
            "%add (a: f32[], b: f32[]) -> f32[] {\n"
            "  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n"
            "  ROOT %s = f32[] add(%a, %b)\n}\n\n"
            "ENTRY %main (w: f32[16,4], v: f32[32,4], x16: f32[16,8], "
            "x32: f32[32,8]) -> (f32[16,8], f32[32,8]) {\n"
            + parameter("w", 0, 16) + parameter("v", 1, 32)
            + rows("x16", 2, 16) + rows("x32", 3, 32)
            + reduction("sum16", 1, 16) + reduction("sum32", 2, 32)
            + "  ROOT %all = (f32[16,8]{1,0}, f32[32,8]{1,0}) "
            "tuple(%sum16, %sum32)\n}\n")
        out = self.audit("-", "--mesh", "dp:2,tp:2", stdin=program)
        found = {tuple(one["params"]): one["message"]
                 for one in out["findings"] if one["code"] == "SHD605"}
        self.assertEqual(set(found), {("w",), ("v",)})
        self.assertIn("the gradient of `w` `f32[16,8]`", found[("w",)])
        self.assertIn("the gradient of `v` `f32[32,8]`", found[("v",)])


if __name__ == "__main__":
    unittest.main()
