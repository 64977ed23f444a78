"""Families described from their classes, with PyTorch and transformers: the example's
description is made again, a type of transformers comes out equal, and a class whose
sizes the language cannot say is refused with nothing written."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))
BIN = os.environ.get("SHARDC_BIN",
                     os.path.join(ROOT, "build", "src", "cli", "shardc"))
EXAMPLE = os.path.join(ROOT, "examples", "own-class")

ROOTED = """import math
import dataclasses
from torch import nn

@dataclasses.dataclass
class RootedConfig:
    hidden_size: int = 64
    num_hidden_layers: int = 2

class Rooted(nn.Module):
    def __init__(self, config: RootedConfig):
        super().__init__()
        self.up = nn.Linear(config.hidden_size, math.isqrt(config.hidden_size))
"""

NOT_ON_META = """import torch
from torch import nn

class Config:
    def __init__(self, hidden_size=64):
        self.hidden_size = hidden_size

class Loaded(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.size = nn.Parameter(torch.zeros(int(torch.ones(config.hidden_size).sum())))
"""

WITH_KINDS = {
    "model_type": "lfm2_moe", "architectures": ["Lfm2MoeForCausalLM"], "hidden_size": 64,
    "num_attention_heads": 8, "num_key_value_heads": 4, "num_hidden_layers": 4,
    "num_dense_layers": 1, "intermediate_size": 96, "moe_intermediate_size": 48,
    "num_experts": 4, "num_experts_per_tok": 2, "vocab_size": 128,
    "layer_types": ["conv", "full_attention", "conv", "full_attention"]}

# 16 GiB for each column.
LARGE = """import torch
from torch import nn

class Config:
    def __init__(self, hidden_size=64, vocab_size=128):
        self.hidden_size, self.vocab_size = hidden_size, vocab_size

class Large(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.table = nn.Embedding(config.vocab_size, config.hidden_size)
        self.up = nn.Parameter(torch.empty(1 << 16, 1 << 16, config.hidden_size))

    def forward(self, tokens):
        x = self.table(tokens)
        return torch.relu(x @ self.up[0].T) @ self.up[1]
"""


class Families(unittest.TestCase):
    def run_it(self, folder, *arguments):
        return subprocess.run(
            [sys.executable, "-B", "-m", "shardc.family", *arguments], cwd=folder,
            text=True, capture_output=True, check=False,
            env={**os.environ, "SHARDC": BIN, "HF_HUB_OFFLINE": "1",
                 "PYTHONPATH": os.path.join(ROOT, "python")})

    def test_the_examples_description_is_made_again(self):
        with tempfile.TemporaryDirectory() as out:
            ran = self.run_it(EXAMPLE, "nimbus:NimbusLM", "--trust-code", "-o", out)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            with open(os.path.join(out, "nimbus.yaml"), encoding="utf-8") as file:
                made = file.read()
        with open(os.path.join(EXAMPLE, "families", "nimbus.yaml"),
                  encoding="utf-8") as file:
            self.assertEqual(made, file.read())

    def test_types_of_transformers_come_out_equal(self):
        # With the second seed, configs of the comparison take part in another fit.
        for model_type, seed in (("lfm2", "7"), ("lfm2", "1"), ("mimo_v2_flash", "7")):
            with self.subTest(model_type=model_type, seed=seed), \
                    tempfile.TemporaryDirectory() as out:
                ran = self.run_it(out, model_type, "-o", out, "--seed", seed)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                self.assertIn("equal to", ran.stdout)

    def test_a_config_that_the_class_saves_otherwise_is_compared(self):
        """Dory's class halves the number of layers of the config.json that it writes."""
        with tempfile.TemporaryDirectory() as out:
            ran = self.run_it(out, "dory", "-o", os.path.join(out, "made"))
            self.assertEqual(ran.returncode, 1)
            self.assertIn("as the class saves it", ran.stderr)

    def test_facts_are_read_by_the_program(self):
        with tempfile.TemporaryDirectory() as out:
            ran = self.run_it(out, "lfm2_moe", "-o", out, "--config",
                              self.written(out, WITH_KINDS))
            self.assertEqual(ran.returncode, 0, ran.stderr)
            shown = subprocess.run(
                [BIN, "explain", "--no-project", "--facts", "--families", out, "--model",
                 os.path.join(out, "config.json")], text=True, capture_output=True,
                check=False)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertIn("kv_heads 4", shown.stdout)

    def written(self, folder, config):
        path = os.path.join(folder, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        return path

    def test_a_type_without_defaults_has_an_example(self):
        """Its kinds of layers are known from the example alone."""
        with tempfile.TemporaryDirectory() as out:
            ran = self.run_it(out, "lfm2_moe", "-o", out, "--config",
                              self.written(out, WITH_KINDS))
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn("factors as in 4 programs", ran.stdout)
            with open(os.path.join(out, "lfm2_moe.yaml"), encoding="utf-8") as file:
                self.assertIn("layers[i < num_hidden_layers]", file.read())

    def test_a_type_that_its_default_config_does_not_build_needs_an_example(self):
        """Only models without experts can be drawn of this one."""
        with tempfile.TemporaryDirectory() as out:
            ran = self.run_it(out, "dots1", "-o", os.path.join(out, "made"))
            self.assertEqual(ran.returncode, 2)
            self.assertIn("is not built from its default config", ran.stderr)
            self.assertIn("--config", ran.stderr)
            self.assertFalse(os.path.exists(os.path.join(out, "made")))

    def test_what_the_language_cannot_say_is_not_written(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "rooted.py"), "w", encoding="utf-8") as file:
                file.write(ROOTED)
            ran = self.run_it(folder, "rooted:Rooted", "--trust-code", "-o", "made")
            self.assertEqual(ran.returncode, 1)
            self.assertIn("`up.weight`", ran.stderr)
            self.assertIn("--draft", ran.stderr)
            self.assertFalse(os.path.exists(os.path.join(folder, "made")))
            ran = self.run_it(folder, "rooted:Rooted", "--trust-code", "-o", "made",
                              "--draft")
            self.assertEqual(ran.returncode, 1)
            with open(os.path.join(folder, "made", "rooted.yaml"),
                      encoding="utf-8") as file:
                self.assertTrue(file.read().startswith("# A draft:"))

    def test_a_class_without_meta_support(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "loaded.py"), "w", encoding="utf-8") as file:
                file.write(NOT_ON_META)
            ran = self.run_it(folder, "loaded:Loaded", "--trust-code", "-o", "made")
            self.assertEqual(ran.returncode, 2)
            self.assertIn("meta device", ran.stderr)
            self.assertFalse(os.path.exists(os.path.join(folder, "made")))

    def test_a_class_that_no_memory_holds_has_factors(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "large.py"), "w", encoding="utf-8") as file:
                file.write(LARGE)
            ran = self.run_it(folder, "large:Large", "--trust-code", "-o", "made")
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn("factors as in 4 programs", ran.stdout)

    def test_a_type_that_the_library_does_not_have(self):
        with tempfile.TemporaryDirectory() as folder:
            ran = self.run_it(folder, "no_such_type")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("MODULE:CLASS", ran.stderr)


if __name__ == "__main__":
    unittest.main()
