"""Names that drive terminals, turn text round or hide in it are shown escaped:
in files, folders, parameters, axes, targets and flags, by every command."""

import csv
import io
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

from driver import BIN, ROOT, Case

# Controls, marks of direction, tags, fillers and variation selectors.
WILD = ("\x1b[31m\u202e\u200b\x7f\x85\n\u2066\ufeff\u2028\u3164\u115f\u034f"
        "\u2800\ufe0f\uffa0\U000e0041\U000e0100\U0001d173")
# The same in the name of a parameter, where control characters are refused.
WILD_NAME = re.sub("[\x00-\x1f\x7f-\x9f]", "", WILD)
# The ranges that the program escapes, with their source.
RANGES = [(int(first, 16), int(last, 16)) for first, last in re.findall(
    r"\{0x([0-9A-F]+), 0x([0-9A-F]+)\}",
    open(os.path.join(ROOT, "src", "source", "utf8.cc"),
         encoding="utf-8").read())]
HIDDEN = re.compile("[%s]" % "".join(
    f"{chr(first)}-{chr(last)}" for first, last in RANGES
    if first > 0x1f) + "|[\x00-\x08\x0b-\x1f]")
# The same in the escapes of YAML and JSON.
IN_YAML = ("\\e[31m\\u202e\\u200b\\x7f\\N", "\u202e\u200b")
IN_JSON = ("\\u001b[31m\\u202e\\u200b\\u007f", "\u202e\u200b")
MESHES = ['axes: {"t%s": 2}', 'axes: {tp: "%s"}', '"%s": 1',
          'axes: {tp: 2}\ndevice: "%s"', 'axes: {tp: 2}\naxis_types: "%s"']
RULES = ['rules: [{match: "%s(", spec: []}]',
         'rules: [{match: a, spec: ["%s"]}]', 'bundles: {"%s": [X]}',
         'axes: {"%s": tp}', 'register: {"%s": {rule: x}}', 'extends: ["%s"]',
         'policy: {illegal: "%s"}', 'rules: [{match: a, spec: {like: "%s"}}]',
         'separator: "%s"',
         'rules: [{match: a, spec: [], place: {axis: "%s", index: "%s", '
         'count: 2}}]']
MANIFESTS = ['{"params": [{"name": "%s", "shape": [1], "dtype": "F32"}]}',
             '{"schema": "%s", "params": []}',
             '{"params": [{"name": "a", "shape": [1], "dtype": "%s"}]}',
             '{"%s": {"shape": [1], "dtype": "F32"}}',
             '{"params": [], "separator": "%s"}',
             '{"params": [], "model": "%s"}',
             '{"weight_map": {"%s": "model-00001-of-00002.safetensors"}}',
             '{"weight_map": {"a": "%s"}}']


class Escapes(Case):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        os.mkdir(os.path.join(self.folder, "d" + WILD))
        self.manifest = os.path.join("d" + WILD, f"m{WILD}.safetensors")
        self.rules = os.path.join("d" + WILD, f"r{WILD}.yaml")
        self.write(self.manifest, self.tensors(WILD_NAME))
        self.write(self.rules, 'version: 1\nrules:\n  - {match: "a/.*0", '
                   'spec: ["tp"]}\n  - {match: ".*", spec: []}\n')
        self.runs = 0

    @staticmethod
    def tensors(wild):
        header = json.dumps({
            f"a/{wild}{i}": {"dtype": "F32", "shape": [8, 4],
                             "data_offsets": [i * 128, i * 128 + 128]}
            for i in range(3)}).encode()
        return struct.pack("<Q", len(header)) + header + bytes(3 * 128)

    def write(self, name, data):
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        return name

    def go(self, *args):
        done = subprocess.run([BIN, *args], cwd=self.folder, timeout=60,
                              stdin=subprocess.DEVNULL, capture_output=True)
        self.assertIn(done.returncode, (0, 1, 2), done)
        self.runs += 1
        for stream in (done.stdout, done.stderr):
            text = stream.decode("utf-8")  # strictly
            if args[:2] == ("export", "csv"):
                text = text.replace("\r\n", "\n")  # its line ends
            wild = HIDDEN.search(text)
            self.assertIsNone(wild, f"{args}: {text!r}")
        return done.returncode

    def test_inputs_that_are_read(self):
        files = ["--rules", self.rules, "--manifest", self.manifest]
        base = ["--no-project", "--mesh", "tp:3", *files]
        good = ["--no-project", "--mesh", "tp:2", *files]
        self.write("shardc.yaml", json.dumps({"version": 1, "targets": {
            "t" + WILD: {"mesh": "tp:3", "rules": [self.rules],
                         "manifest": self.manifest}}}))
        self.assertEqual(self.go("show", "manifest", "--manifest", self.manifest), 0)
        self.go("show", "manifest", "--manifest", self.manifest, "--format", "json")
        refused = self.write("refused.safetensors", self.tensors(WILD))
        self.assertEqual(self.go("show", "manifest", "--manifest", refused), 2)
        self.go("show", "rules", "--rules", self.rules)
        self.go("plan", *base, "--keep-going")
        self.assertEqual(self.go("plan", *good), 0)
        self.go("plan")
        for name in ("text", "concise", "json", "sarif", "github", "junit",
                     "markdown"):
            self.go("check", *base, "--format", name)
            self.go("check", "--format", name)
        self.assertEqual(self.go("explain", f"a/{WILD_NAME}0", *good), 0)
        self.go("explain", "no" + WILD, *good)
        self.assertEqual(self.go("plan", *good, "-o", "plan.json"), 0)
        split = ["checkpoint", "split", "--plan", "plan.json", "--checkpoint", self.manifest,
                 "--output"]
        self.assertEqual(self.go(*split, "o" + WILD), 0)
        self.go(*split, "o" + WILD, "--dry-run")
        self.assertEqual(self.go("checkpoint", "merge", "o" + WILD, "--output",
                                 f"w{WILD}.safetensors"), 0)
        for flag, value in (("--dtype", WILD), ("--select", "(" + WILD),
                            ("--per", WILD), ("--mode", WILD),
                            ("--processes", WILD), ("--process-count", WILD)):
            self.go(*split, "p", flag, value)

    def test_files_that_are_refused(self):
        for text in MESHES:
            for wild in IN_YAML:
                self.write("w.yaml", text.replace("%s", wild))
                self.go("show", "mesh", "--mesh", "w.yaml")
        for text in RULES:
            for wild in IN_YAML:
                self.write("w.yaml",
                           "version: 1\n" + text.replace("%s", wild))
                self.go("show", "rules", "--rules", "w.yaml")
                self.go("check", "--no-project", "--mesh", "tp:2", "--rules",
                        "w.yaml", "--manifest", self.manifest)
        for text in MANIFESTS:
            for wild in IN_JSON:
                self.write("w.json", text.replace("%s", wild))
                self.go("show", "manifest", "--manifest", "w.json")

    @unittest.skipUnless(shutil.which("perl"), "perl has Unicode's tables")
    def test_the_ranges_are_those_of_unicode(self):
        done = subprocess.run(["perl", "-e", r"""
            use Unicode::UCD;
            print Unicode::UCD::UnicodeVersion(), "\n";
            for my $c (0 .. 0xD7FF, 0xE000 .. 0x10FFFF) {
              my $h = chr $c;
              print "$c\n" if $c == 0x2800 || $h =~
                /\p{Cc}|\p{DI}|\p{Bidi_C}|\p{Zl}|\p{Zp}/ ||
                $h =~ /\p{Cf}/ && $h !~ /\p{Prepended_Concatenation_Mark}/;
            }"""], capture_output=True, check=True, encoding="ascii")
        version, *points = done.stdout.split()
        ours = {c for first, last in RANGES
                for c in range(first, last + 1)}
        if version == "14.0.0":
            self.assertEqual(ours, set(map(int, points)))
        else:  # later versions add some
            self.assertLess(len(ours ^ set(map(int, points))), 100)

    def test_every_export_and_page_escapes_names(self):
        base = ["--no-project", "--mesh", "tp:2", "--rules", self.rules,
                "--manifest", self.manifest]
        names = ("csv", "dot", "dtensor", "hlo", "jax", "markdown", "shardy",
                 "tree", "hf-tp-plan", "maxtext", "flax")
        for name in names:
            self.assertIn(self.go("export", name, *base), (0, 1, 2))
        self.go("show", "layout", f"a/{WILD_NAME}0", *base)
        self.go("show", "rules", *base)
        self.assertIn(self.go("report", *base, "-o", "page.html"), (0, 1))
        with open(os.path.join(self.folder, "page.html"),
                  encoding="utf-8") as file:
            self.assertIsNone(HIDDEN.search(file.read()))

    def test_cells_that_a_spreadsheet_would_evaluate(self):
        names = ["=1+1", "+a", "-a", "@a", "a=1", "=a,\"b"]
        self.write("m.json", json.dumps({"params": [
            {"name": name, "shape": [2], "dtype": "F32"} for name in names]}))
        self.write("r.yaml", "version: 1\nseparator: '/'\n"
                   "rules: [{match: '.*', spec: []}]\n")
        done = subprocess.run(
            [BIN, "export", "csv", "--no-project", "--mesh", "tp:2",
             "--rules", "r.yaml", "--manifest", "m.json"], cwd=self.folder,
            capture_output=True, check=True)
        rows = list(csv.reader(io.StringIO(done.stdout.decode(), newline="")))
        self.assertEqual([row[0] for row in rows[1:]], [
            "'=1+1", "'+a", "'-a", "'@a", "a=1",
            "'=a,\"b"])
        for row in rows:
            for cell in row:
                self.assertNotIn(cell[:1], tuple("=+-@\t\r"))

    def test_axes_of_fit_are_refused_as_those_of_a_mesh(self):
        base = ["--no-project", "--rules", self.rules, "--manifest",
                self.manifest]
        for name in ("t\x1b[31mp", "t\u202ep", "t\U000e0041p", "1p"):
            self.assertEqual(self.go("show", "mesh", "--mesh", name + ":2"), 2)
            self.assertEqual(self.go("search", "--all", *base, "--axes", name), 2)

    def test_words_of_the_command_line(self):
        base = ["--no-project", "--mesh", "tp:2", "--rules", self.rules,
                "--manifest", self.manifest]
        for args in ([WILD], ["plan", "--" + WILD], ["plan", WILD],
                     ["plan", "--target", WILD], ["check", "--select", WILD],
                     ["check", *base, "--severity", WILD],
                     ["check", *base, "--fail-on", WILD],
                     ["check", *base, "--format", WILD],
                     ["check", *base, "--memory", WILD],
                     ["check", *base, "--attention", WILD],
                     ["check", *base, "--baseline", WILD],
                     ["plan", *base, "--modes", WILD],
                     ["plan", *base, "--illegal", WILD],
                     ["plan", *base, "--unmatched", WILD],
                     ["plan", *base, "--threads", WILD],
                     ["plan", *base, "--devices", WILD],
                     ["plan", *base, "-o", f"no{WILD}/x"],
                     ["plan", *base, "--weight-decay-exclude", "(" + WILD],
                     ["show", "mesh", "--mesh", f"t{WILD}:2"],
                     ["show", "mesh", "--mesh", f"no{WILD}.yaml"],
                     ["resolve", WILD], ["resolve", f"[{WILD}]"],
                     ["resolve", "attention", "--layout", WILD], ["schema", WILD],
                     ["completion", WILD], ["import", WILD, "x"],
                     ["import", "eformer", self.manifest], ["explain", WILD],
                     ["verify", "--mesh", WILD],
                     ["verify", "--mesh", "tp:2", "--attention", WILD],
                     ["verify", "--mesh", "tp:2", "--operation", WILD],
                     ["checkpoint", "split", "--plan", WILD, "--checkpoint", "x", "--output",
                      "o"],
                     ["checkpoint", "merge", "no" + WILD, "--output", "x.safetensors"],
                     ["checkpoint", "merge", "no", "--output", WILD],
                     ["checkpoint", "merge", "no", "--output", "x", "--max-shard-size", WILD]):
            self.assertEqual(self.go(*args), 2, args)


if __name__ == "__main__":
    unittest.main()
