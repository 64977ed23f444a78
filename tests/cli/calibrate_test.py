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
