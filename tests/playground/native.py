"""Runs the native program on the same inputs as the playground."""

import base64
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("SHARDC_SOURCE_ROOT", os.path.join(HERE, "..", ".."))
OUT = os.environ.get("SHARDC_PLAYGROUND",
                     os.path.join(ROOT, "build-playground"))
PROGRAM = os.environ.get("SHARDC_BIN",
                         os.path.join(ROOT, "build", "src", "cli", "shardc"))
sys.path.insert(0, os.path.join(ROOT, "playground"))
sys.dont_write_bytecode = True

import build  # noqa: E402

MODELS, PACKS = build.models()


def inputs(model="llama-3-8b.hf", rules=None, config=True):
    """The files that the page makes for a bundled model."""
    found = MODELS[model]
    files = {"rules.yaml": (rules or PACKS[found["pack"]]).encode(),
             "model.json.gz": base64.b64decode(found["manifest"])}
    if config and found["config"]:
        files["config.json"] = found["config"].encode()
    return files


def arguments(files, mesh):
    """The arguments that give these files to a command."""
    out = ["--mesh", mesh, "--rules", "rules.yaml", "--manifest",
           "model.json.gz"]
    if "config.json" in files:
        out += ["--model", "config.json"]
    return out + ["--no-project"]


class Folder:
    """A folder that holds the files until a test ends, and runs programs there.
    """

    def __init__(self, test, files):
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        self.path = folder.name
        for name, content in files.items():
            with open(os.path.join(self.path, name), "wb") as file:
                file.write(content)

    def native(self, *command):
        done = subprocess.run(
            [os.path.abspath(PROGRAM), *command], cwd=self.path,
            capture_output=True, text=True, check=False,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"})
        return done.returncode, done.stdout, done.stderr

    def compiled(self, *command):
        done = subprocess.run(
            ["node", os.path.join(HERE, "run.js"),
             os.path.join(OUT, "shardc.wasm"), self.path, *command],
            capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr
