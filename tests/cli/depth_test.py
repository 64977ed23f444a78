"""No reader goes deeper than its stack, however deep or long a text is."""

import json
import os
import shutil
import tempfile
import unittest

from driver import MODELS, ROOT, TESTDATA, Case, run

TIMES = 100000
# What opens or stands before, and what closes it again.
FORMS = {
    "parentheses": ("(", "1", ")"), "lists": ("[", "", "]"),
    "mappings": ("{1: ", "1", "}"), "braces": ("{", "", "}"),
    "calls": ("f(", "1", ")"), "keywords": ("f(a=", "1", ")"),
    "signs": ("- ", "1", ""), "not": ("not ", "1", ""),
    "inverse": ("~", "1", ""), "lambdas": ("lambda: ", "1", ""),
    "choices": ("1 if 1 else ", "1", ""), "sums": ("1 + ", "1", ""),
    "powers": ("2**", "1", ""), "and": ("1 and ", "1", ""),
    "compared": ("1 < ", "1", ""), "members": ("a.", "a", ""),
    "indices": ("a[", "1", "]"), "items": ("1, ", "1", ""),
    "texts": ("'a' ", "'a'", ""), "alternatives": ("a|", "a", ""),
    "groups": ("(?:a|", "a", ")"), "repeats": ("(?:", "a", ")*"),
    "classes": ("[^a]", "a", ""), "flags": ("(?i)", "a", ""),
    "escapes": ("\\\\", "a", ""), "anchors": ("&a ", "1", ""),
    "keys": ("? ", "1", ""), "tags": ("!a ", "1", ""),
}
PLAN = ["plan", "--no-project", "--mesh", "dp:2,tp:4", "--manifest",
        "manifest.json", "-o", "plan.json"]
CHECK = ["check", "--no-project", "--mesh", "fsdp:2", "--manifest",
         os.path.join(MODELS, "llama-3-8b.hf.manifest.json"), "--model",
         os.path.join(TESTDATA, "configs", "llama-3-8b.config.json")]
RULE = "version: 1\nrules:\n  - {match: %s, spec: %s}\n"
SHARDY = ('module {\n  sdy.mesh @mesh = <["tp"=2]>\n  func.func public @main('
          '%%arg0: tensor<64x1xf32> {jax.arg_info = "a", sdy.sharding = '
          '#sdy.sharding<@mesh, [%s]>}) {\n }\n}\n')
# What is run, and the file that it reads, with the text in it.
READERS = [
    ([*PLAN, "--rules", "deep.yaml"], "deep.yaml",
     lambda text: RULE % (json.dumps(text), "[]")),
    ([*PLAN, "--rules", "deep.yaml"], "deep.yaml",
     lambda text: RULE % ("'.*'", json.dumps(text))),
    ([*PLAN, "--rules", "deep.yaml"], "deep.yaml", lambda text: text),
    (["show", "mesh", "--no-project", "--mesh", "deep.yaml"], "deep.yaml",
     lambda text: "axes: " + json.dumps(text)),
    ([*PLAN, "--rules", "rules.yaml", "--model", "deep.json"], "deep.json",
     lambda text: '{"a": ' + text),
    (["import", "dtensor", "deep.json"], "deep.json", lambda text: text),
    (["import", "python", "deep.py"], "deep.py",
     lambda text: f"from jax.sharding import PartitionSpec as P\n"
                  f"R = [('a', P({text}))]\n"),
    (["import", "flax", "deep.py"], "deep.py", lambda text: f"R = {text}\n"),
    (["import", "hlo", "deep.hlo", "--mesh", "mesh.yaml"], "deep.hlo",
     lambda text: '"a": {devices=[' + text),
    (["import", "shardy", "deep.mlir"], "deep.mlir",
     lambda text: SHARDY % text),
    ([*CHECK, "--rules", "deep.yaml"], "deep.yaml",
     lambda text: MODEL.replace(SIZE, f"    f: {json.dumps(text)}\n")),
    ([*CHECK, "--rules", "deep.yaml"], "deep.yaml",
     lambda text: MODEL + f"    - {json.dumps('x = add(' + text + ')')}\n"),
]
with open(os.path.join(ROOT, "rules", "llama.hf.yaml"),
          encoding="utf-8") as rules:
    MODEL = rules.read()
SIZE = "    f: intermediate_size\n"
assert SIZE in MODEL


class Depth(Case):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.write("manifest.json", json.dumps({
            "schema": "shardc.manifest/v1", "params": [
                {"name": "a", "shape": [8], "dtype": "F32"}]}))
        self.write("mesh.yaml", "axes: {dp: 2, tp: 4}\n")
        self.write("rules.yaml", RULE % ("'.*'", "[]"))

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w",
                  encoding="utf-8") as file:
            file.write(text)

    def test_every_reader_of_every_form(self):
        for command, file, around in READERS:
            for name, (opens, middle, closes) in FORMS.items():
                self.write(file, around(opens * TIMES + middle
                                        + closes * TIMES))
                with self.subTest(command=command, form=name):
                    result = run(*command, cwd=self.folder, timeout=20)
                    self.assertIn(result.rc, (0, 1, 2), result.rc)


if __name__ == "__main__":
    unittest.main()
