"""Names that drive terminals, turn text round or hide in it are shown escaped:
in files, folders, parameters, axes, targets and flags, by every command."""

import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

from driver import BIN, Case

WILD = "\x1b[31m\u202e\u200b\x7f\x85\n\u2066\ufeff\u2028"
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f"
                    "\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
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
        header = json.dumps({
            f"a/{WILD}{i}": {"dtype": "F32", "shape": [8, 4],
                             "data_offsets": [i * 128, i * 128 + 128]}
            for i in range(3)}).encode()
        self.write(self.manifest, struct.pack("<Q", len(header)) + header
                   + bytes(3 * 128))
        self.write(self.rules, 'version: 1\nrules:\n  - {match: "a/.*0", '
                   'spec: ["tp"]}\n  - {match: ".*", spec: []}\n')
        self.runs = 0

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
        self.assertEqual(self.go("manifest", "--manifest", self.manifest), 0)
        self.go("manifest", "--manifest", self.manifest, "--format", "json")
        self.go("rules", "--rules", self.rules)
        self.go("plan", *base, "--keep-going")
        self.assertEqual(self.go("plan", *good), 0)
        self.go("plan")
        for name in ("text", "concise", "json", "sarif", "github", "junit",
                     "markdown"):
            self.go("check", *base, "--format", name)
            self.go("check", "--format", name)
        self.assertEqual(self.go("explain", f"a/{WILD}0", *good), 0)
        self.go("explain", "no" + WILD, *good)
        self.assertEqual(self.go("plan", *good, "-o", "plan.json"), 0)
        split = ["split", "--plan", "plan.json", "--checkpoint", self.manifest,
                 "--out"]
        self.assertEqual(self.go(*split, "o" + WILD), 0)
        self.go(*split, "o" + WILD, "--dry-run")
        self.assertEqual(self.go("merge", "o" + WILD, "--out",
                                 f"w{WILD}.safetensors"), 0)
        for flag, value in (("--dtype", WILD), ("--select", "(" + WILD),
                            ("--per", WILD), ("--mode", WILD),
                            ("--processes", WILD), ("--process-count", WILD)):
            self.go(*split, "p", flag, value)

    def test_files_that_are_refused(self):
        for text in MESHES:
            for wild in IN_YAML:
                self.write("w.yaml", text.replace("%s", wild))
                self.go("mesh", "--mesh", "w.yaml")
        for text in RULES:
            for wild in IN_YAML:
                self.write("w.yaml",
                           "version: 1\n" + text.replace("%s", wild))
                self.go("rules", "--rules", "w.yaml")
                self.go("check", "--no-project", "--mesh", "tp:2", "--rules",
                        "w.yaml", "--manifest", self.manifest)
        for text in MANIFESTS:
            for wild in IN_JSON:
                self.write("w.json", text.replace("%s", wild))
                self.go("manifest", "--manifest", "w.json")

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
                     ["mesh", "--mesh", f"t{WILD}:2"],
                     ["mesh", "--mesh", f"no{WILD}.yaml"],
                     ["resolve", WILD], ["resolve", f"[{WILD}]"],
                     ["attention", "--layout", WILD], ["schema", WILD],
                     ["completion", WILD], ["import", WILD, "x"],
                     ["import", "eformer", self.manifest], ["explain", WILD],
                     ["verify", "--mesh", WILD],
                     ["verify", "--mesh", "tp:2", "--attention", WILD],
                     ["verify", "--mesh", "tp:2", "--operation", WILD],
                     ["split", "--plan", WILD, "--checkpoint", "x", "--out",
                      "o"],
                     ["merge", "no" + WILD, "--out", "x.safetensors"],
                     ["merge", "no", "--out", WILD],
                     ["merge", "no", "--out", "x", "--max-shard-size", WILD]):
            self.assertEqual(self.go(*args), 2, args)


if __name__ == "__main__":
    unittest.main()
