"""The formats of findings, read back by their own readers, with names that
try to break out of them."""

import json
import os
import re
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

from driver import Case, ROOT, run

try:
    import jsonschema
except ImportError:  # a development dependency
    jsonschema = None

SCHEMA = os.path.join(ROOT, "testdata", "schemas", "sarif-2.1.0-rtm.6.json")

HOSTILE = [
    "<script>alert(1)</script>/kernel",
    "a]]>&amp;\"'/kernel",
    "100%/::error file=x,line=1::/kernel",
    "pipe|`tick`|[link](http://x)/kernel",
    "odd`tick/kernel",
    "rtl\u202e\u2066/kernel",
    "$(x);*_~#!@/kernel",
]
# What may stand in no format raw.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u202a-\u202e"
                     "\u2066-\u2069\ufffe\uffff]")
FORMATS = ("text", "concise", "json", "sarif", "github", "junit", "markdown")


class Formats(Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.write("m.json", json.dumps({
            "schema": "shardc.manifest/v1", "separator": "/", "params": {
                name: {"shape": [6 + 4 * i, 6], "dtype": "F32"}
                for i, name in enumerate(HOSTILE)}}))  # each its finding
        cls.write("r a,b:%.yaml", "version: 1\nrules:\n"
                  "  - match: 'no <such> & \"thing\"'\n    spec: []\n"
                  "  - match: 'kernel'\n    spec: [TP, null]\n")
        cls.found = json.loads(cls.lint("json").out)

    @classmethod
    def write(cls, name, text):
        with open(os.path.join(cls.folder.name, name), "w",
                  encoding="utf-8") as file:
            file.write(text)

    @classmethod
    def lint(cls, form, *args):
        return run("check", "--no-project", "--mesh", "tp:4", "--rules",
                   "r a,b:%.yaml", "--manifest", "m.json", "--format", form,
                   "--color", "never", *args, cwd=cls.folder.name)

    def test_the_names_are_in_the_findings(self):
        names = {p for f in self.found for p in f["params"]}
        self.assertEqual(names, set(HOSTILE))
        levels = {f["level"] for f in self.found}
        self.assertEqual(levels, {"error", "warning"})

    def test_nothing_drives_a_terminal_or_turns_the_text(self):
        for form in FORMATS:
            with self.subTest(form=form):
                result = self.check(self.lint(form), 1)
                out = result.out
                if form == "json":  # JSON escapes, and its reader unescapes
                    out = json.dumps(json.loads(out))
                self.assertIsNone(CONTROL.search(out.replace("\n", "")))

    def test_every_format_is_the_same_every_time(self):
        for form in FORMATS:
            self.assertEqual(self.lint(form).out, self.lint(form).out)

    def test_json(self):
        keys = {"code", "name", "level", "message", "file", "line", "column",
                "end_line", "end_column", "help", "params"}
        for finding in self.found:
            self.assertEqual(set(finding), keys)
        self.assertEqual({f["file"] for f in self.found}, {"r a,b:%.yaml"})

    def test_concise(self):
        lines = self.lint("concise").out.splitlines()
        self.assertEqual(len(lines), len(self.found))
        for line, finding in zip(lines, self.found):
            self.assertRegex(
                line, r"^r a,b:%\.yaml:\d+:\d+: (error|warning|note): .+"
                      r" \[SHD\d{3}\]$")
            self.assertIn(f":{finding['line']}:{finding['column']}: ", line)

    def test_sarif(self):
        log = json.loads(self.lint("sarif").out)
        run_ = log["runs"][0]
        rules = run_["tool"]["driver"]["rules"]
        ids = [rule["id"] for rule in rules]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertGreater(len(ids), 80)
        results = run_["results"]
        self.assertEqual(len(results), len(self.found))
        for result, finding in zip(results, self.found):
            self.assertEqual(result["ruleId"], finding["code"])
            self.assertEqual(ids[result["ruleIndex"]], finding["code"])
            self.assertEqual(result["level"], finding["level"])
            place = result["locations"][0]["physicalLocation"]
            self.assertEqual(place["artifactLocation"]["uri"],
                             "r%20a,b%3A%25.yaml")
            self.assertEqual(place["region"]["startLine"], finding["line"])
            self.assertNotRegex(result["message"]["text"],
                                r"[^\\]\]\(http")
        prints = [r["partialFingerprints"]["shardc/v1"] for r in results]
        self.assertEqual(len(prints), len(set(prints)))
        self.assertEqual(run_["columnKind"], "unicodeCodePoints")

    @unittest.skipIf(jsonschema is None, "needs the jsonschema package")
    def test_sarif_is_valid(self):
        with open(SCHEMA, encoding="utf-8") as file:
            schema = json.load(file)
        validator = jsonschema.validators.validator_for(schema)(
            schema, format_checker=jsonschema.FormatChecker())
        logs = [json.loads(self.lint("sarif").out),
                json.loads(self.lint("sarif", "--select", "SHD4").out)]
        for log in logs:
            self.assertEqual([e.message for e in validator.iter_errors(log)],
                             [])
        # The schema does refuse.
        logs[0]["runs"][0]["results"][0]["level"] = "loud"
        self.assertNotEqual(list(validator.iter_errors(logs[0])), [])

    def test_sarif_fingerprints_survive_a_move_of_lines(self):
        def prints():
            results = json.loads(self.lint("sarif").out)["runs"][0]["results"]
            return {r["partialFingerprints"]["shardc/v1"] for r in results}
        before = prints()
        path = os.path.join(self.folder.name, "r a,b:%.yaml")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.write("r a,b:%.yaml", "# one\n# two\n" + text)
        try:
            self.assertEqual(prints(), before)
        finally:
            self.write("r a,b:%.yaml", text)

    def test_github(self):
        def unescape(text):
            for code, char in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"),
                               ("%0D", "\r"), ("%25", "%")):
                text = text.replace(code, char)
            return text
        commands = []
        for line in self.lint("github").out.splitlines():
            match = re.fullmatch(r"::(error|warning|notice) ([^:]*)::(.*)",
                                 line)
            self.assertIsNotNone(match, line)
            level, properties, message = match.groups()
            values = dict(p.split("=", 1) for p in properties.split(","))
            commands.append((level, {k: unescape(v)
                                     for k, v in values.items()},
                             unescape(message)))
        order = [level for level, _, _ in commands]
        self.assertEqual(order, sorted(order))  # error, then warning
        key = {"error": "error", "warning": "warning", "note": "notice"}
        want = sorted((key[f["level"]], str(f["line"]), f["code"])
                      for f in self.found)
        got = sorted((level, v["line"], v["title"].split()[0])
                     for level, v, _ in commands)
        self.assertEqual(got, want)
        for _, values, _ in commands:
            self.assertEqual(values["file"], "r a,b:%.yaml")

    def test_junit(self):
        root = ElementTree.fromstring(self.lint("junit").out)
        self.assertEqual(root.tag, "testsuites")
        cases = root.findall("./testsuite/testcase")
        self.assertEqual(len(cases), len(self.found))
        self.assertEqual(int(root.get("tests")), len(cases))
        failures = root.findall(".//failure")
        errors = [f for f in self.found if f["level"] == "error"]
        self.assertEqual(len(failures), len(errors))
        self.assertEqual(int(root.get("failures")), len(errors))
        text = "".join(f.get("message") for f in failures)
        told = [name for name in HOSTILE if "\u202e" not in name
                and any(name in f["message"] for f in errors)]
        self.assertGreater(len(told), 2)
        for name in told:
            self.assertIn(name, text)
        empty = ElementTree.fromstring(
            self.lint("junit", "--select", "SHD4").out)
        self.assertEqual(empty.get("failures"), "0")

    def test_markdown(self):
        lines = self.lint("markdown").out.splitlines()
        rows = [line for line in lines if line.startswith("| ")][1:]
        self.assertEqual(len(rows), len(self.found))
        for row in rows:
            bars = re.findall(r"(?<!\\)(?:\\\\)*\|", row)
            self.assertEqual(len(bars), 6, row)
            outside = re.sub(r"`[^`]*`", "", re.sub(r"\\`", "", row))
            self.assertNotIn("<", outside)
            self.assertNotRegex(outside, r"(?<!\\)\]\(")

    def test_formats_for_programs_are_not_given_text(self):
        for option, form in (("--statistics", "sarif"),
                             ("--statistics", "junit"), ("--diff", "json"),
                             ("--diff", "sarif"), ("--diff", "junit")):
            result = self.check(self.lint(form, option), 2)
            self.assertEqual(result.out, "")
            self.assertIn(f"`--format {form}` does not apply to `{option}`",
                          result.err)

    def test_a_baseline_is_written_without_printing_findings(self):
        for option in (["--output", "out.txt"], ["--statistics"], ["--diff"]):
            result = self.check(self.lint("text", *option, "--write-baseline",
                                          "b.json"), 2)
            self.assertEqual(result.out, "")
            self.assertIn(
                f"`{option[0]}` does not apply to `--write-baseline`, which "
                "prints no findings", result.err)
            for name in ("out.txt", "b.json"):
                self.assertFalse(os.path.exists(os.path.join(
                    self.folder.name, name)))


class Places(Case):
    """Every finding is in a file that the repository has, and names its
    targets; what the services read does not depend on where it was made."""

    RULES = ("version: 1\nrules:\n  - match: 'kernel'\n    spec: [TP]\n"
             "  - match: 'absent'\n    spec: []\n")
    PROJECT = """\
version: 1
targets:
  one: {mesh: "tp:3", rules: [rules/r.yaml], manifest: m.json}
  two: {mesh: "tp:5", rules: [rules/r.yaml], manifest: m.json}
  pack: {mesh: "fsdp:3,tp:3", rules: ["builtin:llama/flax"], manifest: p.json}
"""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = os.path.realpath(self.folder.name)
        for name in ("repo/.git", "repo/jobs/rules", "repo/jobs/deep"):
            os.makedirs(os.path.join(self.root, name))
        self.write("repo/jobs/rules/r.yaml", self.RULES)
        self.write("repo/jobs/shardc.yaml", self.PROJECT)
        self.write("repo/jobs/m.json", json.dumps({
            "schema": "shardc.manifest/v1", "separator": "/", "params": {
                f"layers/{i}/kernel": {"shape": [8, 8], "dtype": "F32"}
                for i in range(3)}}))
        self.write("repo/jobs/p.json", json.dumps({
            "schema": "shardc.manifest/v1", "separator": "/", "params": {
                "model/layers/0/mlp/up_proj/kernel":
                {"shape": [8, 16], "dtype": "F32"}}}))

    def write(self, name, text):
        with open(os.path.join(self.root, name), "w",
                  encoding="utf-8") as file:
            file.write(text)

    def lint(self, form, *args, cwd="repo/jobs", **env):
        return run("check", "--format", form, *args,
                   cwd=os.path.join(self.root, cwd), env=env)

    def uris(self, *args, **where):
        log = json.loads(self.lint("sarif", *args, **where).out)
        results = log["runs"][0]["results"]
        self.assertGreater(len(results), 0)
        uris = set()
        for result in results:
            (place,) = result["locations"]
            uris.add(place["physicalLocation"]["artifactLocation"]["uri"])
        return uris

    def files(self, form, **where):
        out = self.lint(form, **where).out
        if form == "junit":
            return {c.get("classname") for c in
                    ElementTree.fromstring(out).iter("testcase")}
        return set(re.findall(r" file=([^,]*),", out))

    def test_paths_are_relative_to_the_repository(self):
        want = {"jobs/rules/r.yaml", "jobs/shardc.yaml"}
        for cwd in ("repo/jobs", "repo/jobs/deep"):
            self.assertEqual(self.uris(cwd=cwd), want)
            for form in ("github", "junit"):
                self.assertEqual(self.files(form, cwd=cwd), want)
        logs = [json.loads(self.lint("sarif", cwd=cwd).out)["runs"][0]
                for cwd in ("repo/jobs", "repo/jobs/deep")]
        here, below = [sorted(map(json.dumps, log["results"]))
                       for log in logs]
        self.assertEqual(here, below)
        here, below = [
            sorted(ElementTree.tostring(case) for case in ElementTree.fromstring(
                self.lint("junit", cwd=cwd).out).iter("testcase"))
            for cwd in ("repo/jobs", "repo/jobs/deep")]
        self.assertEqual(here, below)

    def test_the_workspace_wins_and_links_are_followed(self):
        self.assertEqual(self.uris(GITHUB_WORKSPACE=self.root),
                         {"repo/jobs/rules/r.yaml", "repo/jobs/shardc.yaml"})
        link = os.path.join(self.root, "link")
        os.symlink(os.path.join(self.root, "repo"), link)
        self.assertEqual(self.uris(GITHUB_WORKSPACE=link),
                         {"jobs/rules/r.yaml", "jobs/shardc.yaml"})
        # A file outside has its full path.
        self.assertEqual(
            self.uris(GITHUB_WORKSPACE=os.path.join(self.root, "repo",
                                                    "jobs", "rules")),
            {"r.yaml", "file://" + self.root + "/repo/jobs/shardc.yaml"})

    def test_what_is_in_no_file_falls_back(self):
        # A pack and a mesh of the command line: the manifest.
        args = ("--no-project", "--mesh", "fsdp:3,tp:3", "--rules",
                "builtin:llama/flax", "--manifest", "p.json")
        self.assertEqual(self.uris(*args), {"jobs/p.json"})
        text = self.lint("sarif", *args).out
        self.assertIn("builtin:llama/flax:", text)
        self.assertNotIn(" file=builtin", self.lint("github", *args).out)
        for finding in self.lint("json", *args).json():
            self.assertTrue(finding["file"])

    def test_every_format_names_the_targets(self):
        for form in FORMATS:
            with self.subTest(form):
                out = self.lint(form).out
                for name in ("one", "two", "pack"):
                    self.assertRegex(out, rf"in targets? [`\\one, w]*`{name}`")
        for found in self.lint("json").json():
            self.assertTrue(found["targets"])
            self.assertLessEqual(set(found["targets"]),
                                 {"one", "two", "pack"})
        (only,) = self.lint("json", "--select", "SHD202", "--target",
                            "one").json()
        self.assertEqual(only["targets"], ["one"])
        self.assertIn("(in target `one`)", only["message"])

    def test_junit_names_are_unique(self):
        rule = "  - match: 'absent'\n    spec: []\n"
        self.write("repo/jobs/rules/r.yaml", self.RULES + 2 * rule)
        names = [c.get("name") for c in ElementTree.fromstring(
            self.lint("junit").out).iter("testcase")]
        self.assertGreater(len(names), 4)
        self.assertEqual(len(names), len(set(names)), names)


if __name__ == "__main__":
    unittest.main()
