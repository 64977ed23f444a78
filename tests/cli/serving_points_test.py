"""`cost --engine` against published steps of serving engines.

`testdata/serving/points.csv` has measured times of a token. A sample of them is
run, all of them with SHARDC_ALL_POINTS=1, and with SHARDC_POINTS_TABLE=1 the
errors of each model, device and engine are printed.
"""

import collections
import csv
import os
import statistics
import tempfile
import unittest

from driver import TESTDATA, run
from serving_layouts import Folder

STRIDE = 1 if os.environ.get("SHARDC_ALL_POINTS") else 12
KV = {"bf16": "bfloat16", "fp8": "float8_e4m3fn"}


def points():
    with open(os.path.join(TESTDATA, "serving", "points.csv"),
              encoding="utf-8") as file:
        return list(csv.DictReader(file))


def of(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


class ServingPoints(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.results = []
        cls.untimed = 0
        with tempfile.TemporaryDirectory() as path:
            folder = Folder(path)
            for point in points()[::STRIDE]:
                shape = [int(point[key]) for key in ("tp", "dp", "ep",
                                                     "moe_tp")]
                inputs = folder.inputs(point["model"], shape)
                if inputs is None:
                    cls.untimed += 1
                    continue
                done = run("cost", "--mode", "decode", *inputs,
                           "--profile", point["device"],
                           "--engine", point["engine"],
                           "--slots", point["slots"], "--isl", point["isl"],
                           "--osl", point["osl"], "--kv-dtype",
                           KV[point["kv"]], "--served-dtype",
                           point["linear"] + "," + point["experts"],
                           "--format", "json")
                value = done.json()
                if value["time"] is None:
                    cls.untimed += 1
                    continue
                cls.results.append((point, value))

    @staticmethod
    def tpot(point, value):
        """The least, expected and most time of a token, over the real one."""
        times = value["time"]
        real = float(point["tpot_ms"]) / 1e3
        # Disaggregated decoding has no prefill between its steps.
        scale = (times["step_s"] / times["tpot_s"]["expected"]
                 if point["mode"] == "d" else 1)
        return [times["tpot_s"][key] * scale / real
                for key in ("least", "expected", "most")]

    def test_errors_are_those_that_the_guide_states(self):
        ratios = [self.tpot(*one) for one in self.results]
        errors = [abs(ratio[1] - 1) for ratio in ratios]
        if os.environ.get("SHARDC_POINTS_TABLE"):
            self.table()
        self.assertLess(statistics.median(errors), 0.14)
        self.assertLess(of(errors, 0.9), 0.45)
        inside = sum(least <= 1 <= most for least, _, most in ratios)
        self.assertGreater(inside / len(ratios), 0.88)
        above = sum(least > 1 for least, _, _ in ratios)
        self.assertLess(above / len(ratios), 0.03)

    def table(self):
        for key in ("mode", "model", "device", "engine", "tp", "slots"):
            groups = collections.defaultdict(list)
            for point, value in self.results:
                groups[point[key]].append(self.tpot(point, value))
            for name, ratios in sorted(groups.items()):
                errors = [abs(one[1] - 1) for one in ratios]
                print(f"{key:8} {name:18} {len(ratios):5}"
                      f"  median {100 * statistics.median(errors):5.1f}"
                      f"  p90 {100 * of(errors, 0.9):5.1f}  bias "
                      f"{100 * (statistics.median(r[1] for r in ratios) - 1):+.1f}"
                      f"  inside "
                      f"{sum(a <= 1 <= b for a, _, b in ratios) / len(ratios):.2f}"
                      f"  above {sum(a > 1 for a, _, _ in ratios) / len(ratios):.3f}")
        ratios = [self.tpot(*one) for one in self.results]
        errors = [abs(one[1] - 1) for one in ratios]
        print(f"all {len(ratios)} untimed {self.untimed} median "
              f"{100 * statistics.median(errors):.1f} p90 "
              f"{100 * of(errors, 0.9):.1f} inside "
              f"{sum(a <= 1 <= b for a, _, b in ratios) / len(ratios):.3f} above "
              f"{sum(a > 1 for a, _, _ in ratios) / len(ratios):.3f}")
        print("real / expected: " + ", ".join(
            f"{share}: {of([1 / one[1] for one in ratios], share):.2f}"
            for share in (0.01, 0.02, 0.05, 0.1, 0.5, 0.9, 0.95, 0.98)))


if __name__ == "__main__":
    unittest.main()
