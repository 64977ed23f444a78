"""`shardc.testing.assert_plan` on recorded programs. JAX is not imported: the live test
(tests/runtimes/programs_live_test.py) traces functions."""

import copy
import gzip
import json
import os
import sys
import tempfile
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
os.environ["SHARDC"] = os.environ["SHARDC_BIN"]
sys.path.insert(0, os.path.join(ROOT, "python"))

# The package must be found first.
# pylint: disable=wrong-import-position
import shardc
from shardc.testing import Proof, assert_plan

FOLDER = os.path.join(ROOT, "testdata", "regions")
MLP, REFERENCE = (os.path.join(FOLDER, f"mlp{one}.program.json.gz")
                  for one in ("", "_reference"))


def load(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def plan_of(program, spec, mesh="fsdp:2,tp:4"):
    values = program["values"]
    params = {one["name"]: values[one["value"]] for one in program["inputs"]
              if one["kind"] == "param"}
    with tempfile.TemporaryDirectory() as folder:
        rules = os.path.join(folder, "rules.yaml")
        with open(rules, "w", encoding="utf-8") as file:
            file.write("rules:\n  - match: scale\n    spec: []\n"
                       f"  - match: '.*'\n    spec: {spec}\n")
        return shardc.compile(mesh=mesh, rules=rules, manifest=params)


class Proofs(unittest.TestCase):
    def setUp(self):
        self.program = load(MLP)
        self.plan = plan_of(self.program, "[fsdp, tp]")

    def failure(self, *arguments, **named):
        with self.assertRaises(AssertionError) as raised:
            assert_plan(*arguments, **named)
        return str(raised.exception).splitlines()

    def test_a_file_a_program_and_a_plan_of_a_file_are_proved(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(self.plan.data, file)
            for fn, plan in ((MLP, self.plan), (self.program, self.plan), (MLP, path)):
                proof = assert_plan(fn, plan, reference=REFERENCE)
                self.assertIsInstance(proof, Proof)
                self.assertTrue(proof)
                self.assertRegex(str(proof), r"^regions:mlp on fsdp=2 tp=4\n"
                                 r"  equal: \d+ values? and 1 results; the busiest "
                                 r"device sends \d+ B$")

    def test_a_fault_has_its_line(self):
        made = copy.deepcopy(self.program)
        body = next(op for op in made["ops"] if op["op"] == "manual")["body"]
        next(op for op in body["ops"] if op.get("fn") == "sin")["fn"] = "cos"
        lines = self.failure(made, self.plan, reference=REFERENCE)
        self.assertEqual(lines[0],
                         "the plan does not prove regions:mlp on fsdp=2 tp=4")
        self.assertRegex(lines[1], r"^  differs at tests/traced/regions.py:\d+: result 0 ")

    def test_opaque_ops_are_named_and_fail_unless_accepted(self):
        made = {
            "schema": "shardc.program/v1",
            "traced": {"by": "test", "function": "own:f"}, "files": ["own.py"],
            "assumptions": [], "unknown": [],
            "values": [{"shape": [4, 8], "dtype": "F32"},
                       {"shape": [4, 8], "dtype": "F32"}],
            "inputs": [{"value": 0, "kind": "param", "name": "w"}],
            "ops": [{"op": "opaque", "in": [0], "out": [1], "at": [0, 7],
                     "primitive": "pallas_call", "reason": "a kernel"}],
            "outputs": [1]}
        plan = plan_of(made, "[fsdp, tp]")
        line = "  not proved at own.py:7: nothing is known of `pallas_call`"
        self.assertIn(line, self.failure(made, plan))
        proof = assert_plan(made, plan, stand_ins=True)
        self.assertFalse(proof)
        self.assertIn(line, str(proof))
        self.assertIn("equal but for stand-ins", str(proof))

    def test_what_cannot_be_proved_is_an_error_of_the_program(self):
        plan = plan_of(self.program, "[fsdp, tp]", "fsdp:2,tp:2")
        with self.assertRaises(shardc.ShardcError) as raised:
            assert_plan(MLP, plan)
        self.assertIn("runs over `tp` of size 4", str(raised.exception))
        with self.assertRaises(TypeError):
            assert_plan(lambda params, batch: 0, plan, {})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
