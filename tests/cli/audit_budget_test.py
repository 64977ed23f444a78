"""Budgets of compiled programs in shardc.yaml, and their committed summaries.

The programs are those of testdata/audit: what a step was before a change, and
after it.
"""

import gzip
import json
import os
import shutil
import tempfile
import unittest

import jsonschema

from driver import TESTDATA, Case, run
from lsp_client import Client

FOLDER = os.path.join(TESTDATA, "audit")
PROJECT = """version: 1
targets:
  small:
    mesh: dp:2,fsdp:2,tp:2
    rules: rules.yaml
    manifest: manifest.json
    audit:
      program: step.hlo.txt.gz
"""


def sums(lock):
    """Bytes of a summary by kind and axes."""
    out = {}
    for one in lock["collectives"]:
        key = (one["collective"], "+".join(one["axes"]))
        out[key] = out.get(key, 0) + one["bytes_per_device"]
    return out


class Budget(Case):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = made.name
        self.write("rules.yaml", "version: 1\nrules:\n"
                   "  - {match: up, spec: ['fsdp', 'tp']}\n")
        self.write("manifest.json", json.dumps({
            "schema": "shardc.manifest/v1",
            "params": {"up": {"shape": [64, 128], "dtype": "F32"}}}))
        self.program("layers")

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w",
                  encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def program(self, name):
        shutil.copy(os.path.join(FOLDER, name + ".hlo.txt.gz"),
                    os.path.join(self.folder, "step.hlo.txt.gz"))

    def audit(self, *lines):
        self.write("shardc.yaml", PROJECT + "".join(
            f"      {line}\n" for line in lines))

    def shardc(self, *args):
        return run(*args, cwd=self.folder)

    def found(self, *args, status=None):
        done = self.shardc("check", *args, "--select", "SHD6", "--format",
                           "json")
        if status is not None:
            self.check(done, status)
        return json.loads(done.out)["findings"] if done.out.startswith(
            "{") else json.loads(done.out)

    def test_a_limit_that_is_exceeded_is_found_at_its_line(self):
        self.audit("budget:", "  total: 400KiB", "  all_gather: {fsdp: 160KiB}",
                   "  all_reduce:", "    tp: 0", "    fsdp+dp: 1KiB",
                   "  activations_gathered: 0")
        found = self.found(status=1)
        self.assertEqual([(one["code"], one["line"]) for one in found],
                         [("SHD611", 10), ("SHD611", 13), ("SHD611", 14)])
        total, over_tp, both = (one["message"] for one in found)
        self.assertIn("sends 417.5 KiB per device, and the budget is 400 KiB",
                      total)
        self.assertIn("at progs.py:22", total)
        self.assertIn("all_reduce over `tp` sends 64 KiB", over_tp)
        self.assertIn("all_reduce over `fsdp+dp` sends 1.51 KiB", both)
        self.audit("budget:", "  total: 418KiB", "  all_gather: 160KiB")
        self.assertEqual(self.found(status=0), [])
        # An axis of size 1, or none of the mesh, makes no difference.
        for over in ("ep+fsdp", "fsdp+x", "fsdp+fsdp", "x+ep"):
            self.audit("budget:", f"  all_gather: {{{over}: 0}}")
            self.write("shardc.yaml", self.read("shardc.yaml").replace(
                "tp:2", "tp:2,x:1"))
            self.assertEqual([one["code"] for one in self.found()],
                             [] if over == "x+ep" else ["SHD611"], over)

    def test_a_finding_that_is_not_selected_is_left_out(self):
        self.program("layers.after_spmd")
        self.audit("locked: step.audit.json", "budget: {total: 0}")
        self.check(self.shardc("plan", "--write-locked"), 0)
        self.program("grad_accum.after_spmd")
        for options, codes in (
                (["--ignore", "SHD611"], ["SHD612"]),
                (["--ignore", "traffic-grew"], ["SHD611"]),
                (["--ignore", "SHD6"], []),
                (["--select", "SHD101"], []),
                (["--select", "SHD612"], ["SHD612"])):
            with self.subTest(options):
                done = self.check(self.shardc(
                    "check", "--locked", "--format", "json", *options),
                    1 if codes else 0)
                found = {one["code"] for one in done.json()}
                self.assertEqual([code for code in sorted(found)
                                  if code.startswith("SHD61")], codes)

    def test_a_program_that_is_not_compiled_yet_is_no_failure(self):
        self.audit("budget: {total: 0}")
        done = self.check(self.shardc("plan", "-o", "plan.json"), 0)
        self.assertRegex(done.err, "check .*, without the compiled program")
        os.remove(os.path.join(self.folder, "step.hlo.txt.gz"))
        done = self.check(self.shardc("plan", "-o", "plan.json"), 0)
        self.assertNotIn("the compiled program", done.err)
        self.assertEqual(self.found(status=0), [])
        done = self.shardc("check", "--locked")
        self.assertEqual(done.rc, 2, done.err)
        self.assertIn("the compiled program `step.hlo.txt.gz` is not there",
                      done.out + done.err)

    def test_growth_beyond_the_committed_summary_is_named(self):
        self.program("layers.after_spmd")
        self.audit("locked: step.audit.json")
        done = self.shardc("check", "--locked")
        self.assertEqual(done.rc, 2)
        self.assertIn("the committed summary `step.audit.json` is not there",
                      done.out + done.err)
        self.check(self.shardc("plan", "--write-locked"), 0)
        lock = json.loads(self.read("step.audit.json"))
        schema = json.loads(run("schema", "audit-lock").out)
        jsonschema.validate(lock, schema)
        self.assertEqual(lock["stage"], "partitioned")
        text = self.read("step.audit.json")
        self.check(self.shardc("plan", "--write-locked"), 0)
        self.assertEqual(self.read("step.audit.json"), text)
        self.assertNotIn("progs.py", text)
        self.assertEqual(self.found("--locked", status=0), [])
        self.program("grad_accum.after_spmd")
        found = self.found("--locked", status=1)
        self.assertEqual({one["code"] for one in found}, {"SHD612"})
        self.assertEqual({os.path.basename(one["file"]) for one in found},
                         {"progs.py"})
        self.assertTrue(any(
            "all_gather over `fsdp` sends 480 KiB per device, and 160 KiB in "
            "the committed summary" in one["message"] for one in found), found)
        # Without --locked only the budget is checked.
        self.assertEqual(self.found(status=0), [])

    def test_findings_of_the_committed_summary_are_not_reported_again(self):
        self.program("findings/weight_hoisted.after_spmd")
        self.audit()
        self.assertEqual([one["code"] for one in self.found()], ["SHD604"])
        self.audit("locked: step.audit.json")
        self.check(self.shardc("plan", "--write-locked"), 0)
        self.assertEqual(self.found("--locked", status=0), [])
        self.program("findings/activation_gathered.after_spmd")
        self.assertLessEqual(
            {"SHD601", "SHD602", "SHD612"},
            {one["code"] for one in self.found("--locked", status=1)})

    def test_a_gradient_of_the_summary_is_that_of_its_parameter(self):
        program = (
            "HloModule jit_step, num_partitions=8\n\n"
            "%add (a: f32[], b: f32[]) -> f32[] {\n"
            "  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n"
            "  ROOT %s = f32[] add(%a, %b)\n}\n\n"
            "ENTRY %main (w: f32[16,4], x: f32[16,8]) -> f32[16,4] {\n"
            "  %w = f32[16,4]{1,0} parameter(0), sharding={devices=[1,2,4]"
            "<=[8] last_tile_dim_replicate}, metadata={op_name="
            '"p[\\\'w\\\']"}\n'
            "  %x = f32[16,8]{1,0} parameter(1), sharding={devices=[2,1,4]"
            '<=[8] last_tile_dim_replicate}, metadata={op_name="x"}\n'
            "  %y = f32[4,8]{1,0} dot(%w, %x)\n  %zero = s32[] constant(0)\n"
            "  %made = f32[16,8]{1,0} negate(%x)\n"
            "  %sum = f32[16,8]{1,0} all-reduce(%made), channel_id=1, "
            "replica_groups={{0,4},{1,5},{2,6},{3,7}}, "
            "use_global_device_ids=true, to_apply=%add, metadata={op_name="
            '"jit(step)/transpose(jvp(f))/dot_general"}\n'
            "  %square = f32[16,8]{1,0} multiply(%sum, %sum)\n"
            "  %part = f32[16,4]{1,0} dynamic-slice(%square, %zero, %zero)\n"
            "  ROOT %new = f32[16,4]{1,0} subtract(%w, %part)\n}\n")
        with gzip.open(os.path.join(self.folder, "step.hlo.txt.gz"), "wt",
                       encoding="utf-8") as file:
            file.write(program)
        self.audit("locked: step.audit.json")
        self.check(self.shardc("plan", "--write-locked"), 0)
        lock = json.loads(self.read("step.audit.json"))
        entry, = (one for one in lock["findings"] if one["code"] == "SHD605")
        self.assertEqual(entry["parameter"], "w")
        for given, codes in (("w", []), ("another", ["SHD605"]),
                             (None, [])):  # written by an earlier version
            with self.subTest(parameter=given):
                entry["parameter"] = given
                self.write("step.audit.json", json.dumps(lock))
                self.assertEqual([one["code"] for one in self.found("--locked")
                                  if one["code"] == "SHD605"], codes)

    def test_an_unused_axis_of_the_summary_is_that_axis_alone(self):
        def program(batch, weight):
            with gzip.open(os.path.join(self.folder, "step.hlo.txt.gz"), "wt",
                           encoding="utf-8") as file:
                file.write(
                    "HloModule m, num_partitions=8\n\nENTRY %main {\n"
                    f"  %x = f32[4,8] parameter(0), sharding={batch}, "
                    "metadata={op_name=\"batch['x']\"}\n"
                    f"  %w = f32[4,8] parameter(1), sharding={weight}, "
                    "metadata={op_name=\"p['up']\"}\n"
                    "  ROOT %g = f32[4,8] all-reduce(%x), "
                    "replica_groups={{0,2},{1,3},{4,6},{5,7}}\n}\n")

        over = {axis: f"{{devices=[2,1,4]<=[2,2,2]T({order}) "
                      "last_tile_dim_replicate}"
                for axis, order in (("dp", "0,1,2"), ("fsdp", "1,0,2"),
                                    ("tp", "2,0,1"))}
        select = ("check", "--select", "SHD609", "--format", "json")
        self.audit("locked: step.audit.json")
        program(over["fsdp"], over["tp"])
        self.check(self.shardc("plan", "--write-locked"), 0)
        lock = json.loads(self.read("step.audit.json"))
        jsonschema.validate(lock, json.loads(run("schema", "audit-lock").out))
        self.assertEqual(lock["findings"], [
            {"code": "SHD609", "parameter": None, "function": None,
             "axis": "dp"}])
        self.assertEqual(self.shardc(*select, "--locked").json(), [])
        program(over["fsdp"], over["dp"])
        (found,) = self.shardc(*select, "--locked").json()
        self.assertIn("mesh axis `tp` shards no argument", found["message"])
        # A summary of an earlier version names no axis.
        del lock["findings"][0]["axis"]
        self.write("step.audit.json", json.dumps(lock))
        self.assertEqual(self.shardc(*select, "--locked").json(), [])

    def test_a_summary_of_another_stage_or_file_is_refused(self):
        self.program("layers.after_spmd")
        self.audit("locked: step.audit.json")
        self.check(self.shardc("plan", "--write-locked"), 0)
        self.program("layers")
        done = self.shardc("check", "--locked")
        self.assertEqual(done.rc, 2)
        self.assertIn("is the summary of the partitioned program of 8 devices",
                      done.out + done.err)
        self.write("step.audit.json", self.read("manifest.json"))
        done = self.shardc("check", "--locked")
        self.assertEqual(done.rc, 2)
        self.assertIn("this is no summary of an audit", done.out + done.err)
        done = self.shardc("plan", "--write-locked")
        self.assertEqual(done.rc, 2)
        self.assertIn("is there and is no `shardc.audit-lock`", done.err)
        self.assertEqual(self.read("step.audit.json"),
                         self.read("manifest.json"))

    def test_an_edited_summary_is_refused_at_its_place(self):
        self.program("layers.after_spmd")
        self.audit("locked: step.audit.json")
        self.check(self.shardc("plan", "--write-locked"), 0)
        lock = json.loads(self.read("step.audit.json"))
        for edit, said in (
                ({"schema": "shardc.audit-lock/v9"},
                 "this is no summary of an audit"),
                ({"stage": "linked"},
                 "the summary's `stage` is missing or unknown"),
                ({"findings": 1},
                 "the summary's list `findings` is missing")):
            with self.subTest(edit):
                self.write("step.audit.json", json.dumps({**lock, **edit}))
                done = self.shardc("check", "--locked")
                self.assertEqual(done.rc, 2)
                text = done.out + done.err
                self.assertIn(said, text)
                self.assertIn("step.audit.json:1:", text)
                self.assertIn("`shardc plan --write-locked` writes it", text)

    def test_a_difference_to_the_committed_summary_is_printed(self):
        self.program("findings/weight_hoisted.after_spmd")
        self.audit("locked: step.audit.json")
        self.write("shardc.yaml", self.read("shardc.yaml").replace(
            "    audit:", "    plan: small.plan.json\n    audit:"))
        self.check(self.shardc("plan", "--write-locked"), 0)
        done = self.check(self.shardc("plan", "--diff"), 0)
        self.assertEqual(done.out, "")
        self.assertIn("step.audit.json: no changes", done.err)
        before = json.loads(self.read("step.audit.json"))
        self.program("findings/activation_gathered.after_spmd")
        done = self.check(self.shardc("plan", "--diff"), 1)
        first, *lines = done.out.splitlines()
        self.assertEqual(first, "step.audit.json")
        self.assertIn("  SHD604 of up in weight_hoisted.<locals>.loss is gone", lines)
        self.assertTrue(any(line.startswith("  SHD601 ") and
                            line.endswith(" is new") for line in lines), lines)
        self.check(self.shardc("plan", "--write-locked"), 0)
        after = json.loads(self.read("step.audit.json"))
        self.assertEqual({line.split(":")[0].strip() for line in lines
                          if " over " in line and " -> " in line}, {
            kind + " over " + axes
            for kind, axes in sums(before).keys() | sums(after).keys()
            if sums(before).get((kind, axes)) != sums(after).get((kind, axes))})
        # Another function that sends the same bytes is in the summary, too.
        with gzip.open(os.path.join(self.folder, "step.hlo.txt.gz"), "rt",
                       encoding="utf-8") as file:
            text = file.read()
        with gzip.open(os.path.join(self.folder, "step.hlo.txt.gz"), "wt",
                       encoding="utf-8") as file:
            file.write(text.replace('"layer"', '"block"'))
        done = self.check(self.shardc("plan", "--diff"), 1)
        self.assertRegex(done.out, "over .*: other tensors or functions send "
                         r".* per device\n")
        self.program("findings/activation_gathered")
        done = self.check(self.shardc("plan", "--diff"), 1)
        self.assertIn("  stage: partitioned -> optimised", done.out)
        os.remove(os.path.join(self.folder, "step.audit.json"))
        done = self.shardc("plan", "--diff")
        self.assertEqual(done.rc, 2)
        self.assertIn("the committed summary `step.audit.json` is not there",
                      done.err)

    def test_an_editor_shows_a_limit_that_is_exceeded(self):
        """Of the file on disk, read again when it has changed."""
        self.audit("budget:", "  all_reduce: {tp: 0}")
        client = Client(cwd=self.folder)
        self.addCleanup(client.end)
        uri = client.open(os.path.join(self.folder, "shardc.yaml"))
        (found,) = [one for one in client.findings(uri)
                    if one["code"].startswith("SHD6")]
        self.assertEqual((found["code"], found["range"]["start"]["line"]),
                         ("SHD611", 9))
        self.assertIn("all_reduce over `tp` sends 64 KiB", found["message"])
        client.replace(uri, "tp: 0", "tp: 64KiB")
        self.assertNotIn("SHD611", client.codes(uri))
        client.replace(uri, "tp: 64KiB", "tp: 63KiB")
        self.assertIn("SHD611", client.codes(uri))
        self.program("findings/ring")
        client.replace(uri, "tp: 63KiB", "tp: 62KiB")
        self.assertNotIn("SHD611", client.codes(uri))

    def test_a_wrong_entry_of_the_project_is_refused_at_its_place(self):
        for lines, said in (
                (["budget: {totl: 1}"], "`budget` has no entry `totl`"),
                (["budget: [1]"], "`budget` is a list, not a mapping"),
                (["budget: {total: -1}"], "a budget"),
                (["budget: {all_gather: {tp: much}}"], "a budget"),
                (["budget: {all_gather: {tpp: 0}}"],
                 "names `tpp`, which is no axis of the mesh"),
                (["budget: {all_gather: {'dp,tp': 0}}"],
                 "names `dp,tp`, which is no axis of the mesh"),
                (["locked: ''"], "`locked` is empty"),
                (["locked: ../../x.json"], "leads out of the project"),
                (["locked: step.hlo.txt.gz"], "another file of the target")):
            with self.subTest(lines):
                self.audit(*lines)
                done = self.shardc("check")
                self.assertEqual(done.rc, 2, done.out)
                self.assertIn(said, done.out + done.err)
                self.assertIn("shardc.yaml:", done.out + done.err)
        self.write("shardc.yaml", PROJECT.replace(
            "program: step.hlo.txt.gz", "budget: {total: 1}"))
        done = self.shardc("check")
        self.assertEqual(done.rc, 2)
        self.assertIn("`audit` names no program", done.out + done.err)

    def test_a_summary_holds_for_another_version_of_the_compiler(self):
        self.write("shardc.yaml", PROJECT.replace(
            "dp:2,fsdp:2,tp:2", "dp:2,sp:4").replace(
                "program:", "locked: step.audit.json\n      program:"))
        self.write("rules.yaml", "version: 1\nrules:\n"
                   "  - {match: up, spec: ['dp', 'sp']}\n")
        self.program("ring_attention")
        self.check(self.shardc("plan", "--write-locked"), 0)
        self.program("ring_attention.jax062")
        done = self.shardc("check", "--locked", "--select", "SHD612")
        # The older text does not say that it is scheduled otherwise.
        self.check(done, 0)


if __name__ == "__main__":
    unittest.main()
