"""`shardc verify step`: what is proved of a step: pipeline stages,
one part of a step, real sizes, and the tensors that --dump writes."""

import json
import os
import struct
import tempfile
import unittest

import numpy as np

from driver import run
from verify_step_case import CONFIGS, GEMMA, LLAMA, StepCase


class ProvedStep(StepCase):
    def test_stages(self):
        """Proved under each schedule, with what the table's own proofs find."""
        args = ("--mesh", "pp:4,fsdp:2,tp:2", *LLAMA, "--batch", "64",
                "--mode", "train", "--stages", "pp")
        names = ("gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2",
                 "interleaved-zb", "zbv", "dualpipe", "dualpipev")
        for name in names:
            with self.subTest(name):
                (step,) = self.steps(*args, "--schedule", name,
                                     "--microbatches", "16")
                stages = step["stages"]
                self.assertEqual(step["status"], "pass")
                self.assertIsNone(step["memory"])
                self.assertEqual(stages["schedule"], name)
                self.assertEqual((stages["ranks"], stages["microbatches"]),
                                 (4, 16))
                self.assertEqual(sum(stages["layers"]), 32)
                self.assertEqual(len(stages["layers"]),
                                 4 * stages["virtual_stages"])
                self.assertEqual(len(stages["held"]), 4)
                proof = stages["proof"]
                self.assertGreaterEqual(proof["microbatches"], 2)
                self.assertGreater(proof["messages"], 0)
                self.assertGreaterEqual(
                    len(step["proof"]["layers"]),
                    proof["ranks"] * proof["virtual_stages"])
        (step,) = self.steps(*args, "--assign", "0,16,16,0",
                             "--microbatches", "8", "--remat",
                             "nothing_saveable", "--reduce", "once")
        self.assertEqual(step["stages"]["layers"], [0, 16, 16, 0])
        self.assertEqual(step["status"], "pass")

    def test_a_rank_adds_both_gradients_of_a_tied_embedding(self):
        """In any order of the weight tasks of its first and its last stage."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "steps.csv")
            for tasks in ("2W0,0W0,2W1,0W1", "0W0,2W0,0W1,2W1",
                          "2W0,2W1,0W0,0W1", "0W0,0W1,2W1,2W0"):
                with open(path, "w", encoding="utf-8") as file:
                    file.write("1F0,1F1,1B0,1B1\n0F0,2F0,0F1,2F1,2I0,0I0,2I1,"
                               f"0I1,{tasks}\n")
                with self.subTest(tasks):
                    (step,) = self.steps(
                        *GEMMA, "--mesh", "pp:2,tp:2", "--stages", "pp",
                        "--schedule", path, "--microbatches", "2", "--batch",
                        "4", "--seq", "64", "--mode", "train")
                    self.assertEqual(step["status"], "pass", step["reason"])

    def test_stages_that_overflow(self):
        """Numbers that float16 does not hold make a step unsupported."""
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "config.json")
            manifest = os.path.join(folder, "manifest.json")
            with open(config, "w", encoding="utf-8") as file:
                json.dump({"model_type": "olmo2", "vocab_size": 160,
                           "hidden_size": 48, "intermediate_size": 112,
                           "num_hidden_layers": 8, "num_attention_heads": 6,
                           "num_key_value_heads": 2, "rms_norm_eps": 1e-5,
                           "tie_word_embeddings": True}, file)
            with open(manifest, "w", encoding="utf-8") as file:
                file.write(self.check(run(
                    "show", "manifest", "--no-project", "--model", config, "--format",
                    "json"), 0).out)
            statuses = set()
            for seed in range(12):
                got = run("verify", "step", "--no-project", "--mesh", "pp:2",
                          "--stages", "pp", "--rules", "auto", "--manifest",
                          manifest, "--model", config, "--batch", "4", "--seq",
                          "24", "--microbatches", "4", "--dtype", "float16",
                          "--seed", str(seed), "--format", "json")
                self.assertIn(got.rc, (0, 1), got)
                (step,) = got.json()["steps"]
                statuses.add(step["status"])
                if step["status"] == "unsupported":
                    self.assertIn("F16 does not hold its numbers on one device",
                                  step["reason"])
            self.assertEqual(statuses, {"pass", "unsupported"})

    def test_stages_that_cannot_be_proved(self):
        base = ("verify", "step", "--no-project", *LLAMA, "--batch", "64",
                "--mesh", "pp:4,tp:2", "--stages", "pp")
        for more, rc, words in (
                (("--full",), 2, "`--full` has no meaning for the stages of a "
                                 "pipeline, which are proved together at "
                                 "reduced sizes"),
                (("--part", "layer 0"), 2, "`--part` has no meaning"),
                (("--mode", "decode"), 2, "`--stages` has an effect only in a "
                                          "training step"),
                (("--schedule", "zbx"), 2, "there is no schedule `zbx`"),
                (("--schedule", "dualpipe", "--microbatches", "4"), 1,
                 "dualpipe"),
                (("--assign", "33,1,1,1"), 1, "layers")):
            with self.subTest(more):
                got = run(*base, *more)
                self.assertEqual(got.rc, rc, got.err)
                self.assertIn(words, got.err)
                self.assertEqual(got.out, "")

    def test_one_part(self):
        args = ("--mesh", "dp:2,fsdp:2,tp:2", *LLAMA, "--batch", "16",
                "--mode", "train")
        (whole,) = self.steps(*args)
        parts = ("model", "optimizer", "layer 0", "layer 31")
        steps = {part: self.steps(*args, "--part", part)[0] for part in parts}
        for part, step in steps.items():
            self.assertEqual(step["status"], "pass")
            self.assertEqual(step["part"], part)
            self.assertEqual(step["program"], whole["program"])
            self.assertEqual({op["part"] for op in step["ops"]}, {part})
        self.assertEqual(steps["layer 31"]["proof"]["layers"], [31])
        self.assertEqual(steps["model"]["proof"]["layers"], [0, 1])
        # The parts together are the step.
        for phase in ("forward", "backward", "optimizer"):
            told = {part: step["totals"][phase]
                    for part, step in steps.items()}
            self.assertEqual(
                told["model"] + told["optimizer"] + 32 * told["layer 0"],
                whole["totals"][phase])
        text = self.check(run("verify", "step", "--no-project", *args, "--part",
                              "layer 3"), 0).out
        self.assertIn("  part layer 3\n", text)
        self.assertNotIn("layer 0", text)

    def tiny(self, folder):
        config = os.path.join(folder, "config.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"model_type": "llama", "vocab_size": 96,
                       "hidden_size": 48, "intermediate_size": 80,
                       "num_hidden_layers": 3, "num_attention_heads": 4,
                       "num_key_value_heads": 2, "rms_norm_eps": 1e-5}, file)
        manifest = os.path.join(folder, "manifest.json")
        with open(manifest, "w", encoding="utf-8") as file:
            file.write(self.check(run(
                "show", "manifest", "--no-project", "--model", config, "--naming",
                "hf", "--format", "json"), 0).out)
        return ("--mesh", "fsdp:2,tp:2", "--rules", "auto", "--manifest",
                manifest, "--model", config, "--batch", "4", "--seq", "12")

    def test_rotated_fractions(self):
        """A reduced head rotates at least one pair, and only complete pairs."""
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "config.json")
            manifest = os.path.join(folder, "manifest.json")
            for rotated in (2, 4, 14, 30, 46, 60, 62, 64):
                with open(config, "w", encoding="utf-8") as file:
                    json.dump({"model_type": "gptj", "vocab_size": 96,
                               "n_embd": 256, "n_layer": 2, "n_head": 4,
                               "layer_norm_epsilon": 1e-5,
                               "rotary_dim": rotated}, file)
                with open(manifest, "w", encoding="utf-8") as file:
                    file.write(self.check(run(
                        "show", "manifest", "--no-project", "--model", config,
                        "--format", "json"), 0).out)
                (step,) = self.steps(
                    "--mesh", "dp:2", "--rules", "auto", "--manifest", manifest,
                    "--model", config, "--batch", "4", "--seq", "12")
                with self.subTest(rotated):
                    self.assertEqual((step["status"], step["problems"]),
                                     ("pass", []))

    def test_rope_scalings(self):
        """Scaled frequencies are those of the dense step; those that a step
        cannot compute are not scaled."""
        with tempfile.TemporaryDirectory() as folder:
            args = self.tiny(folder)
            config = args[args.index("--model") + 1]
            with open(config, encoding="utf-8") as file:
                given = json.load(file)
            for scaling, length in (
                    ({"type": "dynamic", "factor": 2}, 4),
                    ({"type": "dynamic", "factor": 2}, 2048),
                    ({"type": "yarn", "factor": 2}, 64),
                    ({"type": "yarn", "factor": 2}, None),
                    ({"type": "su", "factor": 2}, 64),
                    ({"rope_type": "longrope", "short_factor": [1] * 6,
                      "long_factor": [2] * 6, "factor": 2}, 64),
                    ({"rope_type": "llama3", "factor": 2, "low_freq_factor": 4,
                      "high_freq_factor": 4}, 64)):
                with open(config, "w", encoding="utf-8") as file:
                    json.dump({**given, "max_position_embeddings": length,
                               "rope_scaling": scaling}, file)
                for more in ((), ("--full",)):
                    with self.subTest((scaling, length, more)):
                        (step,) = self.steps(*args, "--mode", "train", *more)
                        self.assertEqual((step["status"], step["problems"]),
                                         ("pass", []))

    def test_rounding_grows(self):
        """Rounding errors of a deep model at real sizes are no failure."""
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "config.json")
            manifest = os.path.join(folder, "manifest.json")
            with open(config, "w", encoding="utf-8") as file:
                json.dump({"model_type": "xlm-roberta",
                           "architectures": ["XLMRobertaForMaskedLM"],
                           "vocab_size": 320, "hidden_size": 48,
                           "num_hidden_layers": 6, "num_attention_heads": 6,
                           "intermediate_size": 112, "hidden_act": "gelu",
                           "max_position_embeddings": 144,
                           "type_vocab_size": 4, "layer_norm_eps": 1e-12,
                           "tie_word_embeddings": False}, file)
            with open(manifest, "w", encoding="utf-8") as file:
                file.write(self.check(run(
                    "show", "manifest", "--no-project", "--model", config, "--format",
                    "json"), 0).out)
            for mesh, seed in (("dp:1", "0"), ("fsdp:2,tp:4", "0"),
                               ("fsdp:2,tp:4", "2"), ("fsdp:2,tp:4", "4")):
                (step,) = self.steps(
                    "--mesh", mesh, "--rules", "auto", "--manifest", manifest,
                    "--model", config, "--batch", "32", "--seq", "12", "--full",
                    "--mode", "prefill", "--seed", seed)
                with self.subTest((mesh, seed)):
                    self.assertEqual((step["status"], step["problems"]),
                                     ("pass", []))
                    self.assertLess(step["proof"]["allowed"], 1e-9)

    def test_in_full(self):
        with tempfile.TemporaryDirectory() as folder:
            args = self.tiny(folder)
            for mode in ("train", "prefill", "decode"):
                (step,) = self.steps(*args, "--mode", mode, "--full")
                self.assertEqual((step["status"], step["problems"]),
                                 ("pass", []))
                proof = step["proof"]
                self.assertTrue(proof["full"])
                self.assertEqual(proof["layers"], [0, 1, 2])
                sizes = proof["sizes"]
                self.assertEqual((sizes["d"], sizes["v"], sizes["b"]),
                                 (48, 96, 4))
            (step,) = self.steps(*args, "--mode", "train", "--full",
                                 "--part", "layer 1")
            self.assertEqual(step["proof"]["layers"], [1])
            text = self.check(run("verify", "step", "--no-project", *args, "--mode",
                                  "train", "--full"), 0).out
            self.assertIn("proved in full on fsdp=2 tp=2 with b 4 t 12", text)
        # What does not fit is refused before anything is made.
        for mesh, words in (("dp:2,fsdp:2,tp:2", "of memory, and "),
                            ("dp:16,fsdp:8", "for 64 devices at most")):
            done = run("verify", "step", "--no-project", "--mesh", mesh, *LLAMA,
                       "--mode", "train", "--full")
            self.assertEqual((done.rc, done.out), (2, ""))
            self.assertIn(words, done.err)

    def test_dump(self):
        with tempfile.TemporaryDirectory() as folder:
            args = self.tiny(folder)
            dump = os.path.join(folder, "dump")
            for dtype, kind, allowed in (("float64", np.float64, 1e-12),
                                         ("float32", np.float32, 1e-4)):
                (step,) = self.steps(*args, "--mode", "train", "--dtype",
                                     dtype, "--dump", dump)
                with open(os.path.join(dump, "case-0000.json"),
                          encoding="utf-8") as file:
                    told = json.load(file)
                self.assertEqual(told["step"], step)
                self.assertEqual(told["settings"]["seed"], "0")
                self.compare(os.path.join(dump, "case-0000.safetensors"),
                             told, kind, allowed)
            # It is written over, but never what is read.
            name = os.path.join(dump, "case-0000.json")
            os.remove(name)
            os.link(os.path.join(folder, "manifest.json"), name)
            with open(name, "rb") as file:
                before = file.read()
            done = run("verify", "step", "--no-project", *args, "--mode", "train",
                       "--dump", dump)
            self.assertEqual(done.rc, 2)
            with open(name, "rb") as file:
                self.assertEqual(file.read(), before)

    def compare(self, path, told, kind, allowed):
        kinds = {"F64": np.float64, "F32": np.float32, "I32": np.int32}
        with open(path, "rb") as file:
            data = file.read()
        (size,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + size])
        tensors = {
            name: np.frombuffer(
                data[8 + size:][slice(*entry["data_offsets"])],
                kinds[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()}
        self.assertEqual(len(tensors), 2 * len(told["tensors"]))
        by_op = {}
        for one in told["tensors"]:
            made = tensors[one["name"] +
                           (".input" if one["input"] else ".output")]
            reference = tensors[one["name"] + ".reference"]
            self.assertEqual(reference.dtype, np.float64)
            self.assertIn(made.dtype, (kind, np.int32))
            finite = np.isfinite(reference)
            np.testing.assert_allclose(
                made[finite], reference[finite], rtol=0,
                atol=allowed * max(1, np.abs(reference[finite]).max(
                    initial=0)))
            by_op[one["part"], one["phase"], one["op"]] = made, reference
        # What is written can be computed again.
        table, _ = by_op["model", "forward", "embed"]
        ids, _ = by_op["model", "forward", "ids"]
        _, x = by_op["model", "forward", "lookup embed"]
        np.testing.assert_allclose(table[ids], x, atol=1e-6)

    def test_layers_that_would_take_a_gibibyte_are_refused(self):
        with open(os.path.join(CONFIGS, "llama-3-8b.config.json"),
                  encoding="utf-8") as file:
            config = json.load(file)
        for layers, refused in ((3, False), (2308, True), (10000, True)):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "config.json")
                with open(path, "w", encoding="utf-8") as file:
                    json.dump({**config, "num_hidden_layers": layers}, file)
                result = run("verify", "step", "--no-project", "--mesh",
                             "dp:2,tp:2", "--rules", "auto", "--model", path)
                self.check(result, 2 if refused else 0)
                if refused:
                    self.assertRegex(
                        result.err, r"SHD005 limit.*\d lines of ops, and a "
                        r"step has at most 30,000\n +--> builtin:llama")


if __name__ == "__main__":
    unittest.main()
