"""Plans with stages of a small model and of Llama 3 8B, for tests of what reads
them."""

import json
import os

from driver import MODELS, TESTDATA, FolderCase, run

LLAMA = ["--manifest", os.path.join(MODELS, "llama-3-8b.hf.manifest.json"),
         "--model", os.path.join(TESTDATA, "configs",
                                 "llama-3-8b.config.json")]
# Bytes of Llama 3 8B on pp:4,tp:2 with eight layers on each rank: layers and
# their norms, the embedding on the first rank, the last norm and the head on
# the last.
LAYER = 8 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 14336 * 4096 + 2 * 2 * 4096)
EMBEDDING, NORM = 128256 * 4096, 2 * 4096
BY_RANK = [LAYER + EMBEDDING, LAYER, LAYER, LAYER + EMBEDDING + NORM]

RULES = """version: 1
stages: {stages}
rules:
# shardc: ignore[SHD207] some of these trees have no other parameters
- {{match: 'up', spec: {up}}}
- {{match: '.*', spec: []}}
"""


class StagedCase(FolderCase):
    def plan(self, mesh, stages, manifest, name="plan.json", up="[null, tp]"):
        """Writes a plan of a small model; returns its path and JSON."""
        rules = self.write("rules.yaml", RULES.format(stages=stages, up=up))
        tree = self.write("tree.json", json.dumps(
            {"schema": "shardc.manifest/v1", "params": {
                key: {"shape": shape, "dtype": "F32"}
                for key, shape in manifest.items()}}))
        done = run("plan", "--no-project", "--mesh", mesh, "--rules", rules,
                   "--manifest", tree, "-o", self.path(name))
        self.assertEqual(done.rc, 0, done)
        with open(self.path(name), encoding="utf-8") as file:
            return self.path(name), json.load(file)

    def llama(self, stages, mesh="pp:4,tp:2", name="llama.json"):
        rules = self.write(
            "llama.yaml",
            f"version: 1\nextends: builtin:llama/hf\nstages: {stages}\n")
        done = run("plan", "--no-project", "--mesh", mesh, "--rules", rules,
                   *LLAMA, "-o", self.path(name))
        self.assertEqual(done.rc, 0, done)
        with open(self.path(name), encoding="utf-8") as file:
            return self.path(name), json.load(file)
