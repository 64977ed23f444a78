"""The examples of `shardc explain CODE` for input errors, run as they are
printed: the first reports the code and no other, the second reports nothing.
The examples of lints are transcripts of their own (code_examples.py)."""

import os
import re
import subprocess
import tempfile
import unittest

import code_examples
from driver import BIN, Case, run

HEADINGS = ["What it means", "Why that is bad", "How to fix it", "Example",
            "Fixed"]


def parts(text):
    """The text under each heading."""
    split = re.split(r"\n\n(%s)\n" % "|".join(HEADINGS), text)
    return dict(zip(split[1::2], split[2::2]))


def run_example(text):
    """(exit status, everything printed) of an example in an empty folder."""
    files = code_examples.inputs(text)
    script = files.pop("command")
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            with open(os.path.join(folder, name), "w",
                      encoding="utf-8") as file:
                file.write(content)
        done = subprocess.run(
            ["sh", "-c", script], cwd=folder, check=False, timeout=60,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=dict(os.environ, TERM="dumb",
                     PATH=os.path.dirname(BIN) + ":" + os.environ["PATH"]))
    return done.returncode, done.stdout.decode("utf-8", "replace")


class Explain(Case):
    def pages(self):
        for code in code_examples.codes(BIN):
            if not code_examples.is_lint(code):
                yield code, parts(code_examples.said(BIN, code))

    def test_every_input_error_has_a_page(self):
        for code, page in self.pages():
            with self.subTest(code):
                self.assertEqual(list(page), HEADINGS)
                texts = [" ".join(page[name].split())
                         for name in HEADINGS[:3]]
                for text in texts:
                    self.assertRegex(text, r"^[A-Z`].{30,}\.$")
                self.assertEqual(len(set(texts)), 3)

    def test_the_example_reports_the_code_and_no_other(self):
        for code, page in self.pages():
            with self.subTest(code):
                status, out = run_example(page["Example"])
                self.assertEqual(status, 2 if code < "SHD100" else 1, out)
                self.assertEqual(
                    set(re.findall(r"\[(SHD\d{3})[ \]]", out)), {code}, out)

    def test_the_fixed_example_reports_nothing(self):
        for code, page in self.pages():
            with self.subTest(code):
                status, out = run_example(page["Fixed"])
                self.assertEqual(status, 0, out)
                self.assertNotRegex(out, r"\[SHD\d{3}")

    def test_the_json_of_a_code_has_the_text_of_its_explanation(self):
        every = self.check(run("explain", "--codes", "--format", "json"),
                           0).json()
        self.assertEqual([one["code"] for one in every],
                         list(code_examples.codes(BIN)))
        for one in every:
            with self.subTest(one["code"]):
                self.assertEqual(
                    f"{one['code']} {one['name']} ({one['level']}): "
                    f"{one['meaning']}\n\n{one['explanation']}",
                    self.check(run("explain", one["code"]), 0).out)
                self.assertEqual("\nIn preview:" in "\n" + one["explanation"],
                                 one["preview"])
        for word in ("SHD105", "dead-rule", "shd105"):
            one = self.check(run("explain", word, "--format", "json"), 0)
            self.assertEqual(one.json()["code"], "SHD105")
            self.assertIn(one.json(), every)


class Parameters(Case):
    def test_an_axis_that_is_twice_in_one_dimension(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "r.yaml"), "w",
                      encoding="utf-8") as file:
                file.write("rules:\n- {match: w, spec: [[HEAD, TP]],"
                           " illegal: shrink}\n"
                           "- {match: v, spec: [HEAD, TP], illegal: shrink}\n")
            with open(os.path.join(folder, "m.json"), "w",
                      encoding="utf-8") as file:
                file.write('{"w": {"shape": [4, 4], "dtype": "F32"},'
                           ' "v": {"shape": [4, 4], "dtype": "F32"}}')
            for name, reason in (("w", "`tp` is twice in this dimension"),
                                 ("v", "`tp` shards an earlier dimension")):
                out = self.check(run(
                    "explain", name, "--no-project", "--mesh", "tp:2",
                    "--rules", "r.yaml", "--manifest", "m.json", cwd=folder),
                    0).out
                self.assertIn(reason, out)


if __name__ == "__main__":
    unittest.main()
