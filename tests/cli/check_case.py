"""A folder with a manifest and rules, for tests of `shardc check`."""

import json
import os
import tempfile

from driver import Case, run

MANIFEST = {"schema": "shardc.manifest/v1", "params": {
    "layers/0/wide/kernel": {"shape": [128, 256], "dtype": "BF16"},
    "layers/0/narrow/kernel": {"shape": [256, 128], "dtype": "BF16"},
    "layers/0/norm/scale": {"shape": [1024], "dtype": "BF16"}}}

# A duplicate, a dead rule and a catch-all that is not last.
RULES = """\
version: 1
# what the team agreed on
rules:
  - match: 'wide/kernel'   # wide
    spec: ColumnWise
  - match: 'wide/kernel'
    spec: ColumnWise
  - match: '.*'          # the rest
    spec: [[FSDP, SP]]

  - match: 'narrow/kernel'
    spec: RowWise
    note: "narrow"
  - match: 'w_qkv/kernel'
    spec: ColumnWise
"""


class Folder(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.write("m.json", json.dumps(MANIFEST))
        self.write("r.yaml", RULES)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def shardc(self, *args, **kwargs):
        return run(*args, cwd=self.folder.name, **kwargs)

    def lint(self, *args, mesh="fsdp:2,tp:4"):
        return self.shardc("check", "--no-project", "--mesh", mesh, "--rules",
                           "r.yaml", "--manifest", "m.json", *args)

    def codes(self, *args, rc=None, **kwargs):
        result = self.lint("--format", "json", *args, **kwargs)
        if rc is not None:
            self.check(result, rc)
        return sorted(f["code"] for f in result.json())
