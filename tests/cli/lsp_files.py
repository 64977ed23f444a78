"""The small project over which tests of `shardc lsp` start a server."""

import json
import os
import tempfile

import driver
from lsp_client import Client

PROJECT = """version: 1
targets:
  small:
    mesh: mesh.yaml
    rules: [rules.yaml]
    manifest: manifest.json
"""
MESH = "axes: {dp: 2, fsdp: 4, tp: 2}\n"
RULES = """# \U0001F600 rules \u00e9
version: 1
extends: [./base.yaml]
bundles:
  COLUMN: [FSDP, TP]
register:
  WIDE: {rule: [fsdp, tp]}
rules:
  - match: 'q_proj/kernel$'  # \U0001F600
    spec: COLUMN
  - match: 'mlp/up/kernel'
    spec: [FSDP, TP]
  - match: 'embed$'
    spec: [VOCAB, WIDE]
    note: '\U0001F600'
"""
BASE = """version: 1
axes: {vocab: [dp], decode_kv_head: []}
rules:
  - match: 'norm$'
    spec: [null]
  - match: 'up/kernel$'
    spec: [TP, FSDP]
"""


def manifest():
    params = [{"name": f"layers/{i}/{name}", "shape": shape, "dtype": "BF16"}
              for i in range(4)
              for name, shape in (("q_proj/kernel", [64, 64]),
                                  ("mlp/up/kernel", [64, 256]),
                                  ("norm", [64]))]
    params.append({"name": "embed", "shape": [512, 64], "dtype": "BF16"})
    return json.dumps({"schema": "shardc.manifest/v1", "params": params})


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    return path


class Files(driver.Case):
    """A project in a folder of its own, and a server."""

    client = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)
        self.write("shardc.yaml", PROJECT)
        self.write("mesh.yaml", MESH)
        self.write("rules.yaml", RULES)
        self.write("base.yaml", BASE)
        self.write("manifest.json", manifest())

    def tearDown(self):
        if self.client is None:
            return
        status, words = self.client.end()
        self.assertEqual((status, words), (0, ""))

    def write(self, name, text):
        return write(self.folder, name, text)

    def start(self, **how):
        self.client = Client(**how)
        return self.client

    def open(self, name, text=None):
        return self.client.open(os.path.join(self.folder, name), text)
