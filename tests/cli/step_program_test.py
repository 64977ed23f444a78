"""`export program`: the step of a `model:` section as a traced program, which the
commands with `--program` read."""

import json
import os
import tempfile
import unittest

import jsonschema

from driver import ROOT, TESTDATA, Case, run

CONFIGS = os.path.join(TESTDATA, "configs")
TORCH = os.path.join(TESTDATA, "torch_programs")
TRACED = os.path.join(TESTDATA, "program_costs", "llama3_8b.program.json.gz")

LLAMA = {"model_type": "llama", "vocab_size": 160, "hidden_size": 48,
         "intermediate_size": 112, "num_hidden_layers": 2, "num_attention_heads": 6,
         "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "torch_dtype": "bfloat16"}
MIXTRAL = dict(LLAMA, model_type="mixtral", num_local_experts=4,
               num_experts_per_tok=2)


def exported(folder, config, *options):
    """The path of the program of a config, which may be a path."""
    if isinstance(config, dict):
        path = os.path.join(folder, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        config = path
    out = os.path.join(folder, "program.json")
    done = run("export", "program", "--no-project", "--rules", "auto", "--model", config,
               *options, "-o", out)
    assert done.rc == 0, done
    return out


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class Exported(Case):
    def test_each_mode_fits_the_schema_of_programs(self):
        check = jsonschema.Draft7Validator(
            load(os.path.join(ROOT, "schemas", "program.schema.json")))
        for config in (LLAMA, MIXTRAL):
            for mode in ("train", "prefill", "decode"):
                with self.subTest(model=config["model_type"], mode=mode), \
                        tempfile.TemporaryDirectory() as folder:
                    program = load(exported(folder, config, "--mode", mode, "--batch", "2",
                                            "--seq", "8"))
                    self.assertEqual([e.message for e in check.iter_errors(program)], [])
                    self.assertEqual(program["traced"],
                                     {"by": "shardc", "function": mode})
                    kinds = {one["kind"] for one in program["inputs"]}
                    self.assertEqual("state" in kinds, mode != "prefill")

    def test_facts_have_the_lines_of_the_section(self):
        with tempfile.TemporaryDirectory() as folder:
            program = exported(folder, LLAMA, "--batch", "2", "--seq", "8")
            done = run("explain", "model.layers.0.self_attn.q_proj.weight", "--program",
                       program, "--no-project")
            self.assertEqual(done.rc, 0)
            self.assertIn("48 = kv_heads 2 x group 3 x (head_dim 4 | head_dim 4)", done.out)
            with open(os.path.join(ROOT, "rules", "llama.hf.yaml"),
                      encoding="utf-8") as file:
                lines = file.read().split("\n")
            number = next(i for i, line in enumerate(lines, 1)
                          if "q = linear(y, q)" in line)
            self.assertIn(f"a dot with a weight produces it (builtin:llama/hf:{number}",
                          done.out)

    def test_its_rules_plans_and_proof_are_those_of_a_program(self):
        with tempfile.TemporaryDirectory() as folder:
            program = exported(folder, LLAMA, "--batch", "4", "--seq", "8")
            rules = os.path.join(folder, "rules.yaml")
            self.assertEqual(run("suggest", "--program", program, "--mesh", "dp:2,tp:2",
                                 "--no-project", "-o", rules).rc, 0)
            for source in (rules, "auto"):
                done = run("verify", "step", "--program", program, "--mesh", "dp:2,tp:2",
                           "--rules", source, "--no-project")
                self.assertEqual(done.rc, 0, done)
                self.assertIn("equal:", done.out)
            done = run("search", "--program", program, "--devices", "4", "--profile",
                       "h100-sxm", "--no-project")
            self.assertEqual(done.rc, 0, done)
            self.assertIn("equal:", done.out)

    def test_it_has_the_operations_of_the_section(self):
        """Exactly, where attention has no window. The queues of experts have free
        places in decoding, which count in the program."""
        for name in ("llama-3-8b", "gpt2", "falcon-7b", "gemma-2b", "bloom-176b", "opt-1.3b",
                     "mixtral-8x7b", "qwen3-30b-a3b", "llama-4-maverick"):
            config = os.path.join(CONFIGS, name + ".config.json")
            queues = name.startswith(("mixtral", "qwen3", "llama-4"))
            for mode, length in (("train", "--seq"), ("prefill", "--seq"),
                                 ("decode", "--kv-len")):
                if queues and mode == "decode":
                    continue
                with self.subTest(model=name, mode=mode), \
                        tempfile.TemporaryDirectory() as folder:
                    program = exported(folder, config, "--mode", mode, "--batch", "2",
                                       "--seq", "512")
                    shared = ("--no-project", "--mesh", "dp:1", "--rules", "auto",
                              "--profile", "h100-sxm", "--format", "json")
                    counted = run("cost", "--program", program, *shared)
                    section = run("cost", "--model", config, "--mode", mode, "--batch", "2",
                                  length, "512", *shared)
                    self.assertEqual(counted.json()["flops"]["program"],
                                     section.json()["time"]["flops"])

    def same_operations(self, folder, *programs):
        rules = os.path.join(folder, "rules.yaml")
        with open(rules, "w", encoding="utf-8") as file:
            file.write("version: 1\nrules:\n  - match: '.*'\n    spec: Replicated\n")
        flops = [run("cost", "--no-project", "--mesh", "dp:1", "--rules", rules, "--format",
                     "json", "--program", one).json()["flops"] for one in programs]
        for key in ("program", "masked"):
            self.assertEqual(flops[0][key], flops[1][key])
            self.assertGreater(flops[0][key], 0)

    def test_the_traced_llama_has_the_same_operations(self):
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(CONFIGS, "llama-3-8b.config.json")
            self.same_operations(
                folder, exported(folder, config, "--batch", "8", "--seq", "8192"), TRACED)

    def test_the_steps_of_pytorch_have_the_same_operations(self):
        configs = load(os.path.join(TORCH, "CONFIGS.json"))
        for name in ("llama.step", "mistral.step", "olmo.step"):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                traced = os.path.join(TORCH, name + ".program.json.gz")
                # The recorded rows have 7 tokens.
                program = exported(folder, configs[name], "--batch", "2", "--seq", "7",
                                   "--manifest", traced)
                self.same_operations(folder, program, traced)

    def test_what_it_does_not_take_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = os.path.join(folder, "plan.json")
            done = run("export", "program", "--plan", plan)
            self.assertEqual(done.rc, 2)
            self.assertIn("`program` writes the step of a `model:` section, and a plan has "
                          "none", done.err)
            done = run("export", "program", "--no-project", "--modes", "train",
                       "--illegal", "drop")
            self.assertEqual(done.rc, 2)
            for option in ("--modes", "--illegal"):
                self.assertIn(f"`{option}` has no effect on the program of a step, which has "
                              "no plan", done.err)
            done = run("export", "csv", "--no-project", "--batch", "2")
            self.assertEqual(done.rc, 2)
            self.assertIn("`--batch` does not apply to the format `csv`", done.err)
            bert = dict(model_type="bert", vocab_size=16, hidden_size=8,
                        intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                        max_position_embeddings=16)
            config = os.path.join(folder, "config.json")
            with open(config, "w", encoding="utf-8") as file:
                json.dump(bert, file)
            done = run("export", "program", "--no-project", "--rules", "auto", "--model",
                       config, "--mode", "decode")
            self.assertEqual(done.rc, 2)
            self.assertIn("the model has no step of the mode decode", done.err)


if __name__ == "__main__":
    unittest.main()
