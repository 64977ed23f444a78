"""`verify step --program` of training steps in unusual styles, of width 256 with 16 x 64
tokens (tests/traced/styled_models.py): each is proved, since its sizes are reduced."""

import os
import tempfile
import unittest

from driver import TESTDATA, Case, part_of, run

STYLES = os.path.join(TESTDATA, "styles")
ENDING = ".program.json.gz"
MESHES = ("fsdp:2,tp:4", "dp:2,fsdp:2,tp:2", "fsdp:8")
# A region has the mesh for which it was traced.
OWN = {"region": MESHES[:1]}


class Styles(Case):
    def test_steps_in_unusual_styles_are_proved(self):
        names = sorted(one[:-len(ENDING)] for one in os.listdir(STYLES))
        self.assertEqual(len(names), 13)
        jobs = [(name, mesh) for name in names for mesh in OWN.get(name, MESHES)]
        with tempfile.TemporaryDirectory() as folder:
            for name, mesh in part_of(jobs, 3):
                with self.subTest(name, mesh=mesh):
                    program = os.path.join(STYLES, name + ENDING)
                    rules = os.path.join(folder, f"{name}.{MESHES.index(mesh)}.yaml")
                    given = ("--no-project", "--mesh", mesh, "--program", program)
                    self.assertEqual(run("suggest", *given, "-o", rules).rc, 0)
                    done = run("verify", "step", *given, "--rules", rules, "--format",
                               "json")
                    self.assertEqual(done.rc, 0, done)
                    report = done.json()
                    self.assertEqual(report["status"], "equal")
                    self.assertTrue(report["complete"])
                    self.assertTrue(report["reduced"])
                    self.assertGreater(report["values"], 300)


if __name__ == "__main__":
    unittest.main()
