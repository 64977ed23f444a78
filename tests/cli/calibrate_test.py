"""`shardc calibrate`: profiles from measured steps."""

import csv
import json
import os
import statistics
import tempfile
import unittest

import yaml

from driver import MODELS, TESTDATA, Case, run
from published_models import Models

PUBLISHED = os.path.join(TESTDATA, "published")
CONFIG = os.path.join(TESTDATA, "configs", "llama-3-8b.config.json")
EXPERTS = os.path.join(TESTDATA, "configs", "qwen3-30b-a3b.config.json")
# Pipelines of Llama 3 8B: mesh, virtual stages, micro-batches and length.
PIPELINES = (("pp:4,tp:2", 1, 16, 4096), ("pp:8,fsdp:8", 4, 32, 8192),
             ("pp:2,tp:8", 2, 8, 2048), ("pp:4,tp:4", 2, 8, 8192))
MANIFEST = os.path.join(MODELS, "llama-3-8b.hf.manifest.json")


class Calibrate(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, **values):
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump({"schema": "shardc.run/v1", **values}, file)
        return self.path(name)

    def run_of(self, name, mesh="fsdp:8", batch=16, seq=4096, **more):
        return self.write(name, mesh=mesh, rules="builtin:llama/hf",
                          manifest=MANIFEST, model=CONFIG, batch=batch,
                          seq=seq, stack="compiled", **more)

    def expected(self, profile, mesh="fsdp:8", batch=16, seq=4096):
        done = run(
            "cost", "--no-project", "--rules", "builtin:llama/hf",
            "--manifest", MANIFEST, "--model", CONFIG, "--mesh", mesh,
            "--batch", str(batch), "--seq", str(seq), "--stack", "compiled",
            "--profile", profile, "--format", "json")
        self.assertIn(done.rc, (0, 1), done.err)
        return done.json()["time"]["expected_s"]

    def calibrate(self, *runs, rc=0):
        out = self.path("own.yaml")
        self.check(run("calibrate", "--profile", "h100-sxm", "--run", *runs,
                       "-o", out), rc)
        with open(out, encoding="utf-8") as file:
            return out, yaml.safe_load(file)

    def test_steps_of_a_known_device_give_its_figures_back(self):
        truth = self.path("truth.yaml")
        with open(truth, "w", encoding="utf-8") as file:
            file.write("schema: shardc.profile/v1\nbase: h100-sxm\n"
                       "efficiency: {matmul: {bf16: 0.43}, attention: "
                       "{flash_attn2: 0.21}}\nscale: 0.02\n")
        steps = [("a", "fsdp:8", 16, 2048), ("b", "fsdp:8", 8, 32768),
                 ("c", "fsdp:512", 512, 4096)]
        own, found = self.calibrate(*(
            self.run_of(name, mesh, batch, seq,
                        step_s=self.expected(truth, mesh, batch, seq))
            for name, mesh, batch, seq in steps))
        efficiency = found["efficiency"]
        self.assertAlmostEqual(efficiency["matmul"]["bf16"], 0.43, 3)
        self.assertAlmostEqual(
            efficiency["attention"]["flash_attn2"], 0.21, 3)
        self.assertAlmostEqual(found["scale"], 0.02, 3)
        for _, mesh, batch, seq in steps:
            self.assertAlmostEqual(
                self.expected(own, mesh, batch, seq) /
                self.expected(truth, mesh, batch, seq), 1, 3)

    def truth(self, **efficiency):
        path = self.path("truth.yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schema": "shardc.profile/v1", "base": "h100-sxm",
                       "efficiency": efficiency}, file)
        return path

    def times(self, profile, inputs, **keys):
        """The time of `cost`, whose options have the names of a run's keys."""
        flags = [text for key, value in {**inputs, **keys}.items() for text in
                 ("--" + key.replace("_", "-"), str(value))]
        done = run("cost", "--no-project", *flags, "--profile", profile,
                   "--format", "json")
        self.assertIn(done.rc, (0, 1), done.err)
        time = done.json()["time"]
        return time["step"] if "step" in time else time["expected_s"]

    def recovered(self, truth, inputs, measured, other):
        """The profile that steps on the device `truth` give, and the error of
        the time of another step with it."""
        own, profile = self.calibrate(*(
            self.write(f"run-{i}", **inputs, **keys,
                       step_s=self.times(truth, inputs, **keys))
            for i, keys in enumerate(measured)))
        return profile, (self.times(own, inputs, **other) /
                         self.times(truth, inputs, **other) - 1)

    def test_pipelines_of_a_known_device_give_its_figures_back(self):
        truth = self.truth(matmul={"bf16": 0.5}, messages=0.6)
        inputs = {"rules": "builtin:llama/hf", "manifest": MANIFEST,
                  "model": CONFIG, "stack": "megatron", "batch": 256,
                  "stages": "pp", "schedule": "interleaved",
                  "assign": "even", "p2p": "exposed"}
        keys = [{"mesh": mesh, "virtual": virtual, "microbatches": parts,
                 "seq": seq} for mesh, virtual, parts, seq in PIPELINES]
        keys[0]["schedule"] = "1f1b"
        inputs.pop("schedule")
        for one in keys[1:]:
            one["schedule"] = "interleaved"
        profile, error = self.recovered(truth, inputs, keys[:3], keys[3])
        self.assertLess(abs(error), 0.01)
        matmul = profile["efficiency"]["matmul"]["bf16"]
        self.assertLess(abs(matmul / 0.5 - 1), 0.02)
        self.assertLess(profile["efficiency"]["messages"], 1)
        self.assertEqual([one["stages"] for one in profile["measured"]],
                         [4, 8, 2])

    def test_a_measured_pipeline_is_divided_evenly_and_sends_exposed(self):
        inputs = {"rules": "builtin:llama/hf", "manifest": MANIFEST,
                  "model": CONFIG, "batch": 64, "seq": 4096, "mesh": "pp:4,tp:2",
                  "microbatches": 16, "stages": "pp"}
        before = self.check(run(
            "calibrate", "--profile", "h100-sxm", "--run",
            self.write("one", **inputs, step_s=1), "--format", "json"),
            0).json()["runs"][0]["before_s"]
        self.assertAlmostEqual(before / self.times(
            "h100-sxm", inputs, assign="even", p2p="exposed"), 1, 6)

    def test_experts_of_a_known_device_give_its_figures_back(self):
        truth = self.truth(experts={"compute": 0.75, "dispatch": 0.8,
                                    "host": 0.85})
        inputs = {"rules": "builtin:qwen_moe/hf", "model": EXPERTS,
                  "stack": "megatron", "seq": 4096}
        steps = [{"mesh": mesh, "batch": batch, "graphs": graphs,
                  "dispatcher": dispatcher} for mesh, batch, graphs, dispatcher
                 in (("ep:8", 8, "none", "alltoall"), ("ep:8", 32, "step",
                      "hybridep"), ("dp:2,ep:16", 64, "partial", "deepep"),
                     ("dp:2,ep:8", 64, "partial", "hybridep"))]
        profile, error = self.recovered(truth, inputs, steps[:3], steps[3])
        self.assertLess(abs(error), 0.03)
        for name, value in profile["efficiency"]["experts"].items():
            with self.subTest(name):
                self.assertLess(value, 1)

    def test_steps_that_contradict_each_other_change_little(self):
        """Three steps of one configuration, of which one is twice as slow."""
        inputs = {"rules": "builtin:qwen_moe/hf", "model": EXPERTS, "seq": 4096,
                  "stack": "megatron", "mesh": "ep:8", "batch": 32}
        step = self.times("h100-sxm", inputs)
        _, profile = self.calibrate(*(
            self.write(f"run-{factor}", **inputs, step_s=factor * step)
            for factor in (0.98, 1.02, 2)))
        for value in profile["efficiency"]["experts"].values():
            self.assertLess(abs(value - 1), 0.1)

    def test_what_a_measured_pipeline_cannot_state(self):
        inputs = {"rules": "builtin:llama/hf", "manifest": MANIFEST,
                  "model": CONFIG, "batch": 64, "seq": 4096, "mesh": "pp:4,tp:2",
                  "step_s": 1}
        for keys, words in (
                ({"assign": "even"}, "`--assign` has an effect only if"),
                ({"stages": "pp", "p2p": "hidden"},
                 "`hidden` is none of: overlapped, exposed"),
                ({"stages": "pp", "schedule": "diagonal", "microbatches": 8},
                 "`diagonal`"),
                ({"stages": "pp", "assign": "8,8"},
                 "`--assign` has 16 layers in 2 stages"),
                ({"stages": "ep"}, "`ep`"),
                ({"stages": "pp", "microbatches": 3},
                 "a batch of 64 is not divided by 3 micro-batches"),
                ({"matmul_dtype": "nvfp4"},
                 "the profile has no rate of matmuls in 4 bits")):
            with self.subTest(keys):
                done = self.check(run(
                    "calibrate", "--profile", "h100-sxm", "--run",
                    self.write("one", **{**inputs, **keys})), 2)
                self.assertIn(words, done.err)
                self.assertIn("one:1:", done.err)

    def test_times_state_the_measured_steps_of_a_profile(self):
        own, _ = self.calibrate(self.run_of("a", step_s=3.5))
        done = run("cost", "--no-project", "--rules", "builtin:llama/hf",
                   "--manifest", MANIFEST, "--model", CONFIG, "--mesh", "fsdp:8",
                   "--batch", "16", "--seq", "4096", "--profile", own,
                   "--explain")
        self.assertIn("the figures were fitted to 1 measured step, whose expected "
                      "times differ by at most 1 %", done.out)

    def test_the_json_has_what_the_message_has(self):
        step = self.run_of("a", "fsdp:8", 16, 2048, step_s=3.5)
        found = self.check(run("calibrate", "--profile", "h100-sxm", "--run",
                               step, "--format", "json"), 0)
        self.assertEqual(found.err, "")
        own, profile = self.calibrate(step)
        value = found.json()
        self.assertEqual((value["base"], value["profile"]),
                         ("h100-sxm", profile["name"]))
        self.assertAlmostEqual(value["figures"][0]["after"],
                               profile["efficiency"]["matmul"]["bf16"], 5)
        self.assertAlmostEqual(value["runs"][0]["measured_s"], 3.5)
        self.assertAlmostEqual(value["runs"][0]["after_s"],
                               self.expected(own, "fsdp:8", 16, 2048), 3)

    def test_tokens_are_another_form_of_seconds(self):
        step = self.expected("h100-sxm") * 1.5
        texts = []
        for time in ({"step_s": step}, {
                "tokens_per_second_per_device": 16 * 4096 / 8 / step}):
            _, found = self.calibrate(self.run_of("same", **time))
            texts.append(found["efficiency"])
        self.assertEqual(*texts)

    def test_one_step_near_the_base_keeps_it(self):
        for factor, kept in ((1.05, True), (0.95, True), (1.2, False)):
            _, found = self.calibrate(self.run_of(
                "one", step_s=factor * self.expected("h100-sxm")))
            self.assertEqual("efficiency" not in found, kept, factor)
            self.assertEqual(len(found["measured"]), 1)

    def test_published_runs_that_were_not_fitted(self):
        """Three runs on H100s of 500 W; the other runs on such devices."""
        own, _ = self.calibrate(*(
            os.path.join(PUBLISHED, name + ".run.yaml")
            for name in ("short", "short-fp8", "long-fp8")))
        with open(os.path.join(PUBLISHED, "runs.csv"),
                  encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file)
                    if row["device"] == "h100-500w" and row["id"] not in (
                        "titan-h100-01", "titan-h100-03", "titan-h100-08")]
        models = Models(self.folder.name)
        errors = {"h100-sxm": [], own: []}
        policies = {"full": "nothing_saveable", "sac_op":
                    "save_only_these_names(q_proj,v_proj,context,gate_proj,"
                    "down_proj)"}
        for row in rows:
            rows_of_batch = float(row["mbs"]) * int(row["fsdp"])
            # TorchTitan counts the devices of context parallelism in FSDP's.
            fsdp = int(row["fsdp"]) // int(row["cp"])
            flags = ["--mesh", f"fsdp:{fsdp},sp:{row['cp']},"
                     f"tp:{row['tp']}", "--batch",
                     str(max(1, round(rows_of_batch))), "--seq", row["seq"],
                     "--remat", policies[row["remat"]], "--stack", "compiled",
                     "--grad-dtype", "float32"]
            if row["prec"] == "fp8":
                flags += ["--matmul-dtype", "float8_e4m3fn"]
            if row["tpmode"] == "async":
                flags.append("--overlap-tp")
            if row["cp"] != "1":
                flags += ["--operation", "ring"]
            for profile, own_errors in errors.items():
                done = run("cost", "--no-project", "--rules",
                           "builtin:llama/hf", *models.arguments(row), *flags,
                           "--profile", profile, "--format", "json")
                self.assertIn(done.rc, (0, 1), done.err)
                tokens = rows_of_batch * int(row["seq"]) / int(row["n"])
                own_errors.append(abs(
                    tokens / float(row["tps"]) /
                    json.loads(done.out)["time"]["expected_s"] - 1))
        self.assertGreater(len(rows), 6)
        before, after = (statistics.median(one) for one in errors.values())
        self.assertGreater(before, 0.15)
        self.assertLess(after, 0.5 * before, errors)

    def test_a_base_is_an_accelerator_with_a_name(self):
        one = self.run_of("one", step_s=1)
        file = self.path("file.yaml")
        with open(file, "w", encoding="utf-8") as out:
            out.write("schema: shardc.profile/v1\nbase: h100-sxm\n")
        done = self.check(run("calibrate", "--profile", file, "--run", one), 2)
        self.assertIn("not a file", done.err)
        self.assertIn("is none of", self.check(run(
            "calibrate", "--profile", "h1000", "--run", one), 2).err)

    def test_inputs_that_make_no_plan(self):
        one = self.run_of("one", mesh="tp:3", step_s=1)
        done = self.check(run("calibrate", "--profile", "h100-sxm", "--run",
                              one), 2)
        self.assertIn("the inputs of this run make no plan, so that its time "
                      "cannot be compared", done.err)
        self.assertEqual(done.out, "")

    def test_more_runs_than_are_read(self):
        one = self.run_of("one", step_s=1)
        done = self.check(run("calibrate", "--profile", "h100-sxm", "--run",
                              *([one] * 1001)), 2)
        self.assertIn("more than 1,000 runs are given", done.err)


if __name__ == "__main__":
    unittest.main()
