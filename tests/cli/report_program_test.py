"""`shardc report --program`: the page has what `shardc audit` prints of the same
program, plan and step, and no name of the program gets out of its text."""

import gzip
import json
import os
import re
import shutil
import tempfile
import unittest

from audited import FOLDER, MESH, path, text
from driver import run
from reported import HOSTILE, MOST, Page, ReportCase, inputs_of_steps

STEPS = os.path.join(FOLDER, "steps")


def shown(size):
    """Bytes as the page has them."""
    for unit, count in (("MiB", 2 ** 20), ("KiB", 2 ** 10)):
        if size >= count:
            number = f"{size / count:.2f}".rstrip("0").rstrip(".")
            return f"{number}\u00a0{unit}"
    return f"{size}\u00a0B"


def rows(page_text, name):
    """The cells of each row of the table of this name."""
    table = page_text.split(f'aria-label="{name}">', 1)[1]
    body = re.search(r"<tbody.*?>\n(.*?)</tbody>", table, re.S)[1]
    return [[re.sub("<[^>]*>", "", cell).strip() for cell in
             re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)]
            for row in body.split("</tr>\n") if row]


class Program(ReportCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, data):
        at = os.path.join(self.folder, name)
        with open(at, "w", encoding="utf-8") as file:
            file.write(data if isinstance(data, str) else json.dumps(data))
        return at

    def small(self, up="[null, fsdp, tp]"):
        """Inputs for the parameters of `layers`."""
        rules = self.write("small.yaml", "version: 1\nrules:\n"
                           f"  - {{match: 'up$', spec: {up}}}\n"
                           "  - {match: 'down$', spec: [null, tp, fsdp]}\n"
                           "  - {match: 'norm$', spec: []}\n")
        manifest = self.write("small.json", {
            "schema": "shardc.manifest/v1", "params": {
                name: {"shape": shape, "dtype": "F32"} for name, shape in (
                    ("up", [4, 64, 128]), ("down", [4, 128, 64]),
                    ("norm", [4, 64]))}})
        return ["--no-project", *MESH, "--rules", rules, "--manifest", manifest]

    def test_the_table_is_that_of_the_command(self):
        inputs = self.small()
        html = self.report(*inputs, "--compiled", path("layers"), "--profile",
                           "h100-sxm")
        audited = run("audit", path("layers"), *MESH, "--profile", "h100-sxm",
                   "--format", "json").json()
        found = rows(html, "What the program sends")
        printed = run("audit", path("layers"), *MESH, "--profile", "h100-sxm")
        lines = [re.split(r"\s{2,}", line.strip()) for line in
                 printed.out.splitlines()[2:] if "progs.py" in line]
        self.assertEqual(
            [[cells[1], cells[2].replace(", ", "+"), cells[5],
              cells[6].replace("\u00a0", " "), cells[8], cells[3],
              *cells[4].rsplit(" ", 1), cells[0]] for cells in found], lines)
        self.assertEqual(sum(int(row[5]) for row in found),
                         sum(one["times"] for one in audited["collectives"]))
        page = Page(html)
        self.assertIn("41 collectives per device send 417.5\u00a0KiB",
                      page.texts["program"])
        self.assertIn("3 of 4 arguments compared with the plan, 3 sharded as "
                      "planned", page.texts["program"])

    def test_findings_are_those_of_the_command(self):
        program = os.path.join(FOLDER, "findings",
                               "activation_gathered.after_spmd.hlo.txt.gz")
        inputs = self.small()
        audited = run("audit", program, *MESH, "--format", "json").json()
        self.assertTrue(audited["findings"])
        page = self.page(*inputs, "--compiled", program)
        for one in audited["findings"]:
            self.assertIn(one["code"], page.texts["findings"])
            self.assertIn(f"audit_programs.py:{one['line']}",
                          page.texts["findings"])
        self.assertIn(f"{len(audited['findings'])} findings",
                      self.report(*inputs, "--compiled", program))

    def test_the_difference_is_that_of_the_command(self):
        inputs, step = inputs_of_steps(self.folder)
        for name, rc in (("llama_dp2_fsdp2_tp2", 0),
                         ("llama_dp2_fsdp2_tp2_activations_free.after_spmd",
                          1)):
            program = os.path.join(STEPS, name + ".hlo.txt.gz")
            html = self.report(*inputs, "--compiled", program, "--step", step,
                               rc=rc)
            audited = run("audit", program, "--step", step, "--format", "json")
            self.check(audited, rc)
            difference = audited.json()["difference"]
            found = rows(html, "Compared with the plan’s step")
            self.assertEqual(
                [[one["collective"], one["over"], str(one["planned_times"]),
                  shown(one["planned_bytes_per_device"]), str(one["times"]),
                  shown(one["bytes_per_device"]), one["status"],
                  ", ".join(one["rewrites"])] for one in difference["routes"]],
                [[*row[:6], row[6].split(" ")[1], row[7]] for row in found])
            for key, title in (("extra", "Compiled, not planned"),
                               ("missing", "Planned, not compiled")):
                if not difference[key]:
                    self.assertNotIn(title, html)
                    continue
                self.assertEqual(
                    [(one["what"], one["over"], shown(one["bytes_per_device"]))
                     for one in difference[key]],
                    [(row[0].replace("&#39;", "'"), row[2], row[5])
                     for row in rows(html, title)])
            self.assertIn("✓ equal", html)
            if rc == 0:
                self.assertIn("the program sends what is planned", html)
                self.assertIn("as planned", html.split("<nav")[0])
            else:
                self.assertIn("sends what is not planned", html)

    def test_arguments_that_are_sharded_otherwise_are_listed(self):
        html = self.report(*self.small("[null, null, [fsdp, tp]]"), "--compiled",
                           path("layers"), rc=1)
        self.assertEqual(rows(html, "Sharded in another way than planned"),
                         [["up", "[null, null, [fsdp, tp]]",
                           "[null, fsdp, tp]"]])
        self.assertIn("1 argument sharded in another way", html)
        self.assertIn("2 sharded as planned", html)

    def test_a_plan_file_serves_as_well_as_its_inputs(self):
        inputs = self.small()
        plan = os.path.join(self.folder, "p.json")
        self.check(run("plan", *inputs, "-q", "-o", plan), 0)
        sections = [re.search(r"<section id=program.*?</section>", html, re.S)[0]
                    for html in (
                        self.report(*inputs, "--compiled", path("layers")),
                        self.report("--plan", plan, "--compiled",
                                    path("layers")))]
        self.assertEqual(*sections)

    def test_a_project_may_ignore_findings_of_a_program_with_a_plan(self):
        plan = os.path.join(self.folder, "p.json")
        self.check(run("plan", *self.small(), "-q", "-o", plan), 0)
        for ignored in ([], ["SHD603"]):
            project = self.write("shardc.yaml", {
                "version": 1, "lint": {"ignore": ignored}, "targets": {}})
            html = self.report("--plan", plan, "--project", project,
                               "--compiled", path("mistake.gathered_twice"), rc=1)
            self.assertEqual("SHD603" in html, not ignored)
        done = run("report", "--plan", plan, "--project", project)
        self.assertIn("`--project` has no effect", self.check(done, 2).err)

    def test_the_targets_program_is_shown_once_it_is_compiled(self):
        self.small()
        self.write("shardc.yaml", {"version": 1, "targets": {"t": {
            "mesh": MESH[1], "rules": ["small.yaml"], "manifest": "small.json",
            "audit": {"program": "step.hlo.txt"}}}})
        before = self.report("--target", "t", cwd=self.folder)
        self.assertNotIn("<section id=program", before)
        self.write("step.hlo.txt", text("layers"))
        page = self.page("--project", os.path.join(self.folder, "shardc.yaml"),
                         "--target", "t")
        self.assertIn("step.hlo.txt", page.texts["program"])
        self.assertNotIn(self.folder, self.report(
            "--target", "t", cwd=self.folder))

    def test_a_budget_of_the_target_that_is_exceeded_is_a_finding(self):
        self.small()
        self.write("step.hlo.txt", text("layers"))
        for budget, ignored, rc in (
                ({"total": "418KiB"}, [], 0), ({"total": "400KiB"}, [], 1),
                ({"total": "400KiB"}, ["SHD611"], 0),
                ({"all_gather": {"tpp": 0}}, [], 2)):
            with self.subTest(budget=budget, ignored=ignored):
                self.write("shardc.yaml", {
                    "version": 1, "lint": {"ignore": ignored}, "targets": {
                        "t": {"mesh": MESH[1], "rules": ["small.yaml"],
                              "manifest": "small.json", "audit": {
                                  "program": "step.hlo.txt",
                                  "budget": budget}}}})
                self.check(run("check", "--target", "t", cwd=self.folder), rc)
                done = run("report", "--target", "t", cwd=self.folder)
                self.check(done, rc)
                self.assertEqual("SHD611" in done.out, rc == 1)

    def test_controls_have_names_and_tables_headings(self):
        inputs, step = inputs_of_steps(self.folder)
        page = self.page(*inputs, "--compiled", os.path.join(
            STEPS, "llama_dp2_fsdp2_tp2_activations_free.after_spmd.hlo.txt.gz"),
            "--step", step, rc=1)
        labels = {values.get("for") for tag, values in page.tags
                  if tag == "label"}
        for tag, values in page.tags:
            if tag == "input":
                self.assertIn(values["id"], labels)
            if values.get("role") == "group":
                self.assertTrue(values["aria-label"])
            if tag == "th":
                self.assertIn(values["scope"], ("row", "col"))
        rows_of = {values["data-rows"] for tag, values in page.tags
                   if "data-rows" in values}
        self.assertEqual(rows_of, {"rows", "sent"})
        self.assertLessEqual(rows_of, set(page.ids))

    def test_hostile_names_stay_text(self):
        inputs = self.small()
        program = text("layers")
        for at, name in enumerate(HOSTILE):
            bad = name.replace("\\", "").replace('"', '\\"').replace("'", "\\'")
            hostile = program.replace("p[\\'up\\']", f"p[\\'{bad}\\']")
            hostile = hostile.replace('"progs.py"', f'"{bad}"')
            hostile = hostile.replace('"layer"', f'"{bad}"')
            self.assertNotEqual(hostile, program)
            at = self.write(f"h{at}.txt", hostile)
            # Whether the name suits a parameter of the plan makes no
            # difference.
            html = self.report(*inputs, "--compiled", at)
            self.assertEqual(Page(html).wrong, [])
            self.assertEqual(html.count("<script"), 1)
            self.assertEqual(html.count("<img"), 0)
            for mark in "\u202e\u200b\u2028\x1b":
                self.assertNotIn(mark, html)
            self.assertLess(len(html.encode()), MOST)
        self.page(*inputs, "--compiled", os.path.join(self.folder, "h2.txt"))

    def test_a_long_program_stays_under_the_ceiling(self):
        """Many thousand collectives, each of a name of its own."""
        lines = ["HloModule m, num_partitions=8", "", "ENTRY %main {"]
        for i in range(20000):
            lines += [f'  %x{i} = f32[{i + 1}] parameter({i}), '
                      f'metadata={{op_name="p[\'{"<&" * 40}{i}\']"}}',
                      f"  %g{i} = f32[{2 * i + 2}] all-gather(%x{i}), "
                      "replica_groups={{0,1},{2,3},{4,5},{6,7}}, "
                      "dimensions={0}"]
        at = self.write("long.txt", "\n".join(
            [*lines, "  ROOT %end = () tuple()", "}", ""]))
        html = self.report(*self.small(), "--compiled", at, rc=1)  # none compared
        self.assertLess(len(html.encode()), MOST)
        self.assertRegex(html, r"and [\d,]+ more rows")
        self.assertEqual(Page(html).wrong, [])

    def test_what_is_not_comparable_makes_no_page(self):
        inputs = self.small()
        step = self.write("s.json", {"schema": "shardc.step/v1", "steps": [{
            "mode": "train", "status": "pass", "batch": 8, "length": 16,
            "mesh": {"axes": [{"name": "tp", "size": 8}]}, "element_bytes": 4,
            "keep_gathered": False, "ops": []}]})
        other = self.write("other.txt", "HloModule m, num_partitions=4\n\n"
                           "ENTRY %main {\n  ROOT %end = () tuple()\n}\n")
        out = os.path.join(self.folder, "r.html")
        for flags, words in (
                (["--step", step], "none is given"),
                (["--compiled", path("layers"), "--step", step],
                 "the mesh of the step of `--step` is tp=8"),
                (["--compiled", path("layers"), "--mode", "decode", "--step",
                  step], "decode"),
                (["--compiled", path("layers"), "--mode", "sleep"], "sleep"),
                (["--compiled", other], "4 devices"),
                (["--compiled", step], "HloModule"),
                (["--compiled", os.path.join(self.folder, "gone")], "gone")):
            done = run("report", *inputs, *flags, "-o", out)
            self.check(done, 2)
            self.assertIn(words, done.err)
            self.assertFalse(os.path.exists(out))

    def test_a_gzipped_program_makes_the_same_bytes_twice(self):
        inputs = self.small()
        first = self.report(*inputs, "--compiled", path("layers"))
        self.assertEqual(first, self.report(*inputs, "--compiled",
                                            path("layers"), "--threads", "1"))
        with gzip.open(path("layers"), "rt", encoding="utf-8") as file:
            plain = self.write("layers.hlo.txt.gz", file.read())
        self.assertEqual(first, self.report(*inputs, "--compiled", plain))


if __name__ == "__main__":
    unittest.main()
