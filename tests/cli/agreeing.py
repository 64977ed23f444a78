"""Models, meshes and steps with which several commands are compared."""

import json
import os
import re
import tempfile

from driver import MODELS, TESTDATA, Case, run

# Model, naming, mesh, batch, length, policy.
CASES = [
    ("llama-3-8b", "hf", "dp:2,fsdp:4,tp:2", 32, 4096, "nothing_saveable"),
    ("llama-3-8b", "flax", "fsdp:8,tp:4", 64, 8192, "everything_saveable"),
    ("mixtral-8x7b", "hf", "fsdp:4,ep:2,tp:2", 32, 2048, "nothing_saveable"),
    ("gemma-2-9b", "hf", "fsdp:8,tp:2", 32, 4096, "dots_saveable"),
    ("gpt2", "hf", "dp:4,tp:2", 16, 1024, "everything_saveable"),
    ("qwen3-8b", "hf", "fsdp:16", 32, 4096, "nothing_saveable"),
    ("llama-3.2-1b", "hf", "dp:2,fsdp:2,tp:2", 16, 2048, "nothing_saveable"),
    ("llama-3.2-1b", "flax", "fsdp:4,tp:4", 64, 1024, "dots_saveable"),
    ("devstral-small-24b", "hf", "dp:4,fsdp:4", 64, 2048, "nothing_saveable"),
    ("devstral-small-24b", "flax", "fsdp:2,tp:8", 32, 4096, "dots_saveable"),
    ("qwen2-7b", "hf", "fsdp:4,tp:4", 32, 4096, "nothing_saveable"),
    ("qwen2-0.5b", "hf", "dp:8,tp:2", 64, 512, "everything_saveable"),
    ("gemma-2b", "hf", "fsdp:8", 16, 2048, "nothing_saveable"),
    ("gemma-3-1b", "hf", "dp:2,fsdp:4", 16, 1024, "dots_saveable"),
    ("gemma-3-27b", "hf", "fsdp:8,tp:8", 64, 8192, "nothing_saveable"),
    ("llama-2-7b", "hf", "fsdp:4,tp:8", 32, 4096, "everything_saveable"),
    ("llama-2-70b", "hf", "fsdp:16,tp:8", 128, 4096, "nothing_saveable"),
    ("mixtral-8x22b", "hf", "fsdp:8,ep:4,tp:2", 64, 4096, "nothing_saveable"),
    ("qwen3-32b", "hf", "dp:2,fsdp:8,tp:4", 64, 4096, "nothing_saveable"),
    ("gpt2-xl", "flax", "dp:2,fsdp:2,tp:1", 16, 1024, "dots_saveable"),
]


def tree(model, naming):
    """The parameters of a model and its configuration, without rules."""
    path = os.path.join(MODELS, f"{model}.{naming}.manifest.json")
    return ["--manifest", path if os.path.exists(path) else path + ".gz",
            "--model", os.path.join(TESTDATA, "configs",
                                    f"{model}.config.json"), "--no-project"]


def inputs(model, naming):
    return [*tree(model, naming), "--rules", "auto"]


class CostCase(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def of_both(self, rules, *arguments):
        """The costs by the program of these rules, and by the formulas for them
        without their `model:` section."""
        bare = re.sub(r"(?ms)^model:\n.*?(?=^\S|\Z)", "", rules)
        self.assertNotEqual(rules, bare)
        path = os.path.join(self.folder.name, "rules.yaml")
        for text in (rules, bare):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            yield self.cost(*arguments, "--rules", path)

    def cost(self, *arguments):
        words = [word for one in arguments
                 for word in (one if isinstance(one, list) else [one])]
        got = run("cost", *words, "--format", "json")
        self.assertIn(got.rc, (0, 1), got.err)
        return json.loads(got.out)
