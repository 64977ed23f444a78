"""The expected time of `shardc cost` against published training runs: dense
models on 4 to 2,240 GPUs and TPUs, without pipelines."""

import collections
import csv
import json
import os
import statistics
import tempfile
import unittest

from driver import TESTDATA, Case, run
from published_models import Models

RUNS = os.path.join(TESTDATA, "published", "runs.csv")
STACKS = {"compiled": "compiled", "eager": "eager", "eager_pure": "eager-bf16",
          "deepspeed": "deepspeed-2021", "xla": "xla", "fused": "megatron"}
DEVICES = {"a100-80": "a100-80-sxm", "a100-40": "a100-40-sxm",
           "h100": "h100-sxm", "b200": "b200-hgx"}
# The H100 of torchtitan's runs: 500 W, slower memory.
H100_500W = """schema: shardc.profile/v1
base: h100-sxm
name: h100-500w
memory: {bandwidth: 2.4e12}
efficiency:
  matmul: {bf16: 0.52, fp8: 0.49}
  attention: {flash_attn1: 0.1318, flash_attn2: 0.2197, cudnn: 0.498}
"""
POLICIES = {
    "none": "everything_saveable", "full": "nothing_saveable",
    "minimal": "dots_with_no_batch_dims_saveable",
    # Every second product is kept.
    "sac_op": "save_only_these_names(q_proj,v_proj,context,gate_proj,"
              "down_proj)",
    # Scores are recomputed, which no policy of names states.
    "attn": "everything_saveable"}
# Runs of 2021 with a network and products of their own, and one row from
# memory of a paper.
APART = ("megatron-vs-zero", "singles")


class Published(Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.profile = cls.write("h100-500w.yaml", H100_500W)
        with open(RUNS, encoding="utf-8") as file:
            cls.rows = list(csv.DictReader(file))
        cls.models = Models(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def write(cls, name, text):
        path = os.path.join(cls.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def arguments(self, row):
        stack = STACKS[row["sw"]]
        if row["sw"] == "fused" and row["attn"] == "unfused":
            stack = "megatron-2021"
        dp, fsdp, tp, cp, zero = (
            int(row[key]) for key in ("dp", "fsdp", "tp", "cp", "zero"))
        out = ["--stack", stack, "--seq", row["seq"],
               "--microbatches", row["ga"],
               "--profile", self.profile if row["device"] == "h100-500w"
               else DEVICES.get(row["device"], row["device"])]
        # DeepSpeed divides flat tensors, and ZeRO 2 no parameters.
        if zero == 2 or stack == "deepspeed-2021":
            dp, fsdp = dp * fsdp, 1
        if zero in (1, 2) or stack == "deepspeed-2021":
            out += ["--zero", row["zero"]]
        batch = float(row["mbs"]) * int(row["ga"]) * dp * fsdp
        out += ["--mesh", f"dp:{dp},fsdp:{fsdp},sp:{cp},tp:{tp}",
                "--batch", str(max(1, round(batch)))]
        policy = POLICIES[row["remat"]]
        # These rows ran with offloaded projections.
        if row["model"] == "mxt-128b" and row["device"] == "tpu-v5e":
            policy = "save_only_these_names(q_proj,k_proj,v_proj)"
        out += ["--remat", policy]
        if row["tpmode"] == "async":
            out.append("--overlap-tp")
        if row["prec"] == "fp8":
            out += ["--matmul-dtype", "float8_e4m3fn"]
        if row["sw"] == "compiled" or (row["sw"] == "fused" and zero > 0):
            out += ["--grad-dtype", "float32"]
        if cp > 1:
            out += ["--operation", "ring"]
        elif row["attn"] == "flash2" and row["sw"] == "eager":
            out += ["--operation", "flash_attn2"]
        return out

    def time(self, row):
        done = run("cost", "--no-project", "--rules", "builtin:llama/hf",
                   "--illegal", "drop", *self.models.arguments(row),
                   *self.arguments(row), "--format", "json")
        self.assertIn(done.rc, (0, 1), row["id"] + done.err)
        return json.loads(done.out)["time"]

    def test_the_times_of_published_runs(self):
        families = collections.defaultdict(list)
        inside = 0
        for row in self.rows:
            time = self.time(row)
            tokens = (float(row["mbs"]) * int(row["ga"]) * int(row["seq"])
                      * int(row["dp"]) * int(row["fsdp"]) / int(row["n"]))
            real = tokens / float(row["tps"])
            inside += time["least_s"] <= real <= time["most_s"]
            families[row["family"]].append(
                abs(real / time["expected_s"] - 1))
        errors = sorted(sum(families.values(), []))
        self.assertGreater(len(errors), 200)
        self.assertLess(statistics.median(errors), 0.05)
        self.assertLess(errors[int(0.9 * len(errors))], 0.13)
        self.assertGreater(inside, 0.97 * len(errors))
        for family, own in families.items():
            if family not in APART:
                self.assertLess(statistics.median(own), 0.10, family)

    def test_order_of_published_runs(self):
        """Pairs of the same model, device, length and dtype on other meshes
        whose speeds differ by more than 5 %."""
        groups = collections.defaultdict(list)
        for row in self.rows:
            if row["family"].startswith("llmf"):
                continue
            key = tuple(row[k] for k in ("model", "device", "seq", "prec"))
            speed = self.time(row)["tokens_per_second_per_device"]
            mesh = [row[k] for k in ("n", "fsdp", "dp", "tp", "cp", "tpmode")]
            groups[key].append((mesh, float(row["tps"]), speed))
        right = pairs = 0
        for own in groups.values():
            for i, (mesh, real, speed) in enumerate(own):
                for other, real2, speed2 in own[:i]:
                    if mesh == other or abs(real / real2 - 1) <= 0.05:
                        continue
                    pairs += 1
                    right += (real > real2) == (speed > speed2)
        self.assertGreater(pairs, 20)
        self.assertGreaterEqual(right, 0.85 * pairs, f"{right} of {pairs}")


if __name__ == "__main__":
    unittest.main()
