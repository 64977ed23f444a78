"""Audits from Python: programs that JAX compiled, recorded in testdata/audit. A
stand-in has the methods of JAX's compiled and lowered steps."""

import ast
import gzip
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))
os.environ["SHARDC"] = os.environ.get(
    "SHARDC_BIN", os.path.join(ROOT, "build", "src", "cli", "shardc"))
sys.path[:0] = [os.path.join(ROOT, "python")]

import shardc  # noqa: E402
import shardc.testing  # noqa: E402

FOLDER = os.path.join(ROOT, "testdata", "audit")
MESH = {"dp": 2, "fsdp": 2, "tp": 2}
LAYERS = os.path.join(FOLDER, "layers.hlo.txt.gz")
SENT = {"all_gather": {"fsdp": 163840},
        "all_reduce": {"fsdp": 131072, "dp": 65536, "tp": 65536,
                       "dp+fsdp": 1544}}


def text_of(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read()


class Audits(unittest.TestCase):
    def test_every_form_of_a_program_is_read(self):
        text = text_of(LAYERS)
        compiled = types.SimpleNamespace(as_text=lambda: text)
        lowered = types.SimpleNamespace(as_text=lambda: "module {}",
                                        compile=lambda: compiled)
        traced = types.SimpleNamespace(jaxpr=None, lower=lambda: lowered)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "step.hlo.txt")
            file.write_text(text, encoding="utf-8")
            for program in (LAYERS, file, text, compiled, lowered,
                            traced):
                with self.subTest(type(program)):
                    got = shardc.audit(program, mesh=MESH)
                    self.assertEqual(got.totals.bytes_per_device, 427528)

    def test_every_form_of_a_mesh_is_read(self):
        axes = tuple(shardc.Axis(*item) for item in MESH.items())
        for mesh in ("dp:2,fsdp:2,tp:2", MESH, shardc.Mesh(axes, 8),
                     types.SimpleNamespace(shape=MESH)):
            with self.subTest(type(mesh)):
                got = shardc.audit(LAYERS, mesh=mesh)
                self.assertEqual(
                    {over for _, over in got.bytes_by_route},
                    {"dp", "fsdp", "tp", "dp+fsdp"})

    def test_recorded_programs_send_what_was_recorded(self):
        with open(os.path.join(FOLDER, "EXPECT.json"), encoding="utf-8") as file:
            expected = json.load(file)
        for one in expected:
            with self.subTest(one["program"]):
                got = shardc.audit(
                    os.path.join(FOLDER, one["program"] + ".hlo.txt.gz"),
                    mesh=one["mesh"])
                self.assertEqual(
                    got.totals,
                    shardc.audits.Totals(one["bytes"], one["calls"], None,
                                         one["bound"]))
                self.assertEqual(sum(got.bytes_by_route.values()), one["bytes"])
                self.assertIn(got.program, repr(got))

    def test_collectives_have_their_lines_and_parameters(self):
        got = shardc.audit(LAYERS, mesh=MESH, profile="h100-sxm")
        first = got.of_parameter("up")[0]
        self.assertEqual((first.axes, first.over, first.moved, first.line.line),
                         (("fsdp",), "fsdp", "up", 21))
        self.assertEqual(first.stack[0], first.line)
        self.assertGreater(first.seconds, 0)
        self.assertIn("gradient of norm", {o.moved for o in got.collectives})
        self.assertEqual(str(got).splitlines()[0],
                         "jit_step on 8 devices, dp=2 fsdp=2 tp=2: 41 collectives"
                         " per device")
        bare = shardc.audit(LAYERS)
        self.assertEqual({o.over for o in bare.collectives},
                         {"groups of 2", "groups of 4"})

    def test_findings_are_returned_and_raise_nothing(self):
        path = os.path.join(FOLDER, "mistake.gathered_twice.hlo.txt.gz")
        got = shardc.audit(path, mesh=MESH, fail_on="warning")
        found = {one.code: one for one in got.findings}
        self.assertEqual(sorted(found), ["SHD603", "SHD609"])
        self.assertEqual((found["SHD603"].params, found["SHD603"].line),
                         (("w",), 64))
        self.assertEqual(
            shardc.audit(path, mesh=MESH, ignore=["SHD603", "SHD609"]).findings,
            ())

    def test_growth_names_what_is_sent_more(self):
        before = shardc.audit(LAYERS, mesh=MESH)
        after = os.path.join(FOLDER, "grad_accum.after_spmd.hlo.txt.gz")
        self.assertEqual(
            shardc.audit(LAYERS, mesh=MESH, against=before).growth, ())
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "audit.json")
            before.save(file)
            for against in (before, file):
                got = shardc.audit(after, mesh=MESH, against=against)
                self.assertEqual(
                    {(o["collective"], o["over"], o["before"], o["after"])
                     for o in got.growth},
                    {(kind, over, size, 3 * size)
                     for kind, sizes in SENT.items()
                     for over, size in sizes.items() if size > 4096})

    def test_a_plan_names_the_axes_and_the_drift(self):
        program = os.path.join(FOLDER, "mistake.gathered_twice.hlo.txt.gz")
        manifest = {"schema": "shardc.manifest/v1",
                    "params": {"w": {"shape": [64, 128], "dtype": "F32"}}}
        with tempfile.TemporaryDirectory() as folder:
            for spec, drifts in (("[fsdp]", 0), ("[tp]", 1)):
                rules = os.path.join(folder, "rules.yaml")
                with open(rules, "w", encoding="utf-8") as file:
                    file.write("version: 1\nrules:\n- match: w\n"
                               f"  spec: {spec}\n")
                plan = shardc.compile(mesh="dp:2,fsdp:2,tp:2", rules=rules,
                                      manifest=manifest)
                got = shardc.audit(program, plan=plan)
                self.assertEqual({o.over for o in got.collectives}, {"fsdp"})
                self.assertEqual([o["parameter"] for o in got.drift],
                                 ["w"] * drifts)

    def test_what_is_no_program_is_refused(self):
        with self.assertRaisesRegex(TypeError, "not int"):
            shardc.audit(3)
        with self.assertRaisesRegex(TypeError, "mesh is a file"):
            shardc.audit(LAYERS, mesh=3)
        for bad in ("no/such/file", "HloModule"):
            with self.assertRaises(shardc.ShardcError) as raised:
                shardc.audit(bad)
            self.assertEqual(raised.exception.returncode, 2)
            self.assertTrue(raised.exception.findings)

    def test_errors_in_json_carry_the_findings(self):
        for call in (lambda: shardc.verify(mesh="tp:4"),
                     lambda: shardc.check(mesh="tp:4",
                                          arguments=["--no-such"])):
            with self.assertRaises(shardc.ShardcError) as raised:
                call()
            self.assertEqual([f.code for f in raised.exception.findings],
                             ["SHD001"])
            self.assertIn("error[SHD001 usage]", str(raised.exception))

    def test_a_notebook_shows_the_table_and_escapes_it(self):
        text = text_of(LAYERS).replace("jit_step", "jit_<b>")
        html = shardc.audit(text, mesh=MESH)._repr_html_()
        self.assertIn("progs.py:22 layer", html)
        self.assertIn("jit_&lt;b&gt;", html)
        self.assertNotIn("jit_<b>", html)
        self.assertEqual(html.count("<tr>"), html.count("</tr>"))


class Assertions(unittest.TestCase):
    def differences(self, expected, **settings):
        with self.assertRaises(AssertionError) as raised:
            shardc.testing.assert_collectives(LAYERS, expected, mesh=MESH,
                                              **settings)
        return str(raised.exception).splitlines()

    def test_expected_collectives_pass(self):
        overs = {kind: list(sizes) for kind, sizes in SENT.items()}
        got = shardc.audit(LAYERS, mesh=MESH)
        for expected in (
                SENT, overs,
                {"all_gather": {"fsdp": "160 KiB"},
                 "all_reduce": ["tp", "fsdp+dp", "dp", "fsdp"]},
                {**SENT, "all_to_all": {"tp": 0}}):
            self.assertIs(shardc.testing.assert_collectives(got, expected), got)
        near = {**SENT, "all_gather": {"fsdp": 163000}}
        self.differences(near)
        shardc.testing.assert_collectives(got, near, tolerance=0.01)

    def test_a_difference_names_the_lines_that_send(self):
        lines = self.differences({**SENT, "all_gather": {"fsdp": "100 KiB"}})
        self.assertEqual(lines[:3], [
            "the collectives of jit_step are not the expected ones:",
            "  all_gather over fsdp: 163840 bytes (160 KiB), expected 102400"
            " bytes (100 KiB)",
            "    all_gather over fsdp, up f32[32,64], 4x, 32 KiB,"
            " progs.py:21 layer"])
        self.assertIn("    and 2 more", lines)

    def test_missing_and_unexpected_collectives_are_differences(self):
        lines = self.differences({"all_gather": ["fsdp"], "all_to_all": ["tp"],
                                  "all_reduce": ["dp", "fsdp", "dp+fsdp"]})
        self.assertIn("  all_to_all over tp: expected, but the program has none",
                      lines)
        self.assertIn("  all_reduce over tp: 65536 bytes (64 KiB), not expected",
                      lines)

    def test_the_message_ends_with_what_to_expect_instead(self):
        lines = self.differences({})
        start = lines.index("the program sends:") + 1
        # A literal of Python.
        self.assertEqual(ast.literal_eval("\n".join(lines[start:]).strip()), SENT)

    def test_an_invalid_expectation_is_refused(self):
        for expected, error in (({"allgather": ["dp"]}, ValueError),
                                ({"all_gather": "dp"}, TypeError),
                                ({"all_gather": {"dp": "3 kB"}}, ValueError)):
            with self.assertRaises(error):
                shardc.testing.assert_collectives(LAYERS, expected)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
