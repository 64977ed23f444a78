"""The expected time of `shardc cost` against published training runs: dense
models on 4 to 2,240 GPUs and TPUs, without pipelines."""

import collections
import json
import statistics
import tempfile
import unittest

from driver import Case, run
from published_steps import Steps

# Runs of 2021 with a network and matmuls of their own, and one row from
# memory of a paper.
APART = ("megatron-vs-zero", "singles")


class Published(Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.steps = Steps(cls.folder.name)
        cls.rows = cls.steps.rows

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def time(self, row):
        done = run("cost", *self.steps.model(row), *self.steps.arguments(row),
                   "--format", "json")
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
