"""`cost --engine` against published steps of serving engines.

`testdata/serving/points.csv` has measured times of a token and, of servers that
prefill and decode, of the first token with the settings of their schedulers. A
sample of them is run, and the limits of errors are those of the sample. With
SHARDC_ALL_POINTS=1, all points are run, and the limits are tighter. With
SHARDC_POINTS_TABLE=1, the errors of each model, device and engine are printed.
"""

import collections
import csv
import math
import os
import statistics
import tempfile
import unittest

from driver import TESTDATA, run
from serving_layouts import Folder

ALL = bool(os.environ.get("SHARDC_ALL_POINTS"))
STRIDE = 1 if ALL else 12
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
        cls.stated = []  # with the settings of the scheduler
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
                command = [
                    "cost", "--mode", "decode", *inputs,
                    "--profile", point["device"], "--engine", point["engine"],
                    "--slots", point["slots"], "--isl", point["isl"],
                    "--osl", point["osl"], "--kv-dtype", KV[point["kv"]],
                    "--served-dtype", point["linear"] + "," + point["experts"],
                    "--format", "json"]
                value = run(*command).json()
                if value["time"] is None:
                    cls.untimed += 1
                    continue
                cls.results.append((point, value))
                if point["ttft_ms"]:
                    stated = [word for setting in point["settings"].split()
                              for word in ("--set", setting)]
                    cls.stated.append((point, run(*command, *stated).json()))

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
        if os.environ.get("SHARDC_POINTS_TABLE"):
            self.table()
        # The settings of the scheduler are those of the engine's file, or are
        # stated where they are known.
        unknown = [one for one in self.results if not one[0]["ttft_ms"]]
        for results, median, ninth in (
                (self.results, 0.12, 0.36),
                (self.stated + unknown, *((0.103, 0.313) if ALL
                                          else (0.12, 0.36)))):
            ratios = [self.tpot(*one) for one in results]
            errors = [abs(ratio[1] - 1) for ratio in ratios]
            self.assertLess(statistics.median(errors), median)
            self.assertLess(of(errors, 0.9), ninth)
            inside = sum(least <= 1 <= most for least, _, most in ratios)
            self.assertGreater(inside / len(ratios), 0.88)
            above = sum(least > 1 for least, _, _ in ratios)
            self.assertLess(above / len(ratios), 0.03)

    def first_tokens(self, results):
        """The least, expected and most time to the first token, over the real
        one, where it is known."""
        out = []
        for point, value in results:
            times = value["time"]["ttft_s"]
            if times is not None and point["ttft_ms"]:
                real = float(point["ttft_ms"]) / 1e3
                out.append([times[key] / real
                            for key in ("least", "expected", "most")])
        return out

    def test_first_tokens_with_stated_settings(self):
        ratios = self.first_tokens(self.stated)
        errors = [abs(ratio[1] - 1) for ratio in ratios]
        if os.environ.get("SHARDC_POINTS_TABLE"):
            print(f"ttft stated {len(errors)} median "
                  f"{100 * statistics.median(errors):.1f} p90 "
                  f"{100 * of(errors, 0.9):.1f}")
        self.assertLess(statistics.median(errors), 0.15 if ALL else 0.16)
        self.assertLess(of(errors, 0.9), 0.5 if ALL else 0.52)
        inside = sum(least <= 1 <= most for least, _, most in ratios)
        self.assertGreater(inside / len(ratios), 0.9 if ALL else 0.89)
        for _, value in self.stated:
            times = value["time"]["ttft_s"]
            if times is not None:
                self.assertAlmostEqual(times["most"], 2 * times["expected"])

    def test_first_tokens_with_the_defaults_of_engines(self):
        ratios = self.first_tokens(self.results)
        errors = [abs(ratio[1] - 1) for ratio in ratios]
        bias = statistics.median(ratio[1] for ratio in ratios) - 1
        if os.environ.get("SHARDC_POINTS_TABLE"):
            print(f"ttft defaults {len(errors)} median "
                  f"{100 * statistics.median(errors):.1f} p90 "
                  f"{100 * of(errors, 0.9):.1f} bias {100 * bias:.1f}")
        self.assertLess(abs(bias), 0.06 if ALL else 0.1)
        inside = sum(least <= 1 <= most for least, _, most in ratios)
        self.assertGreater(inside / len(ratios), 0.93 if ALL else 0.9)

    def test_tokens_of_short_outputs(self):
        ratios = [self.tpot(*one) for one in self.stated
                  if int(one[0]["osl"]) <= 150]
        errors = [abs(ratio[1] - 1) for ratio in ratios]
        self.assertLess(statistics.median(errors), 0.08)
        self.assertLess(of(errors, 0.9), 0.22 if ALL else 0.25)

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

    def test_the_list_of_a_search_has_a_layout_near_the_best_measured(self):
        """Targets between the floors of measured layouts."""
        cases = near = first = 0
        with tempfile.TemporaryDirectory() as path:
            for family, curves in families():
                floors = [min(curve)[0] for curve in curves.values()]
                for share in (0.2, 0.5, 0.8):
                    target = min(floors) + share * (max(floors) - min(floors))
                    real = {shape: value for shape, curve in curves.items()
                            if (value := at(curve, target)) is not None}
                    rates = searched(Folder(path), family, target)
                    rates = {shape: rate for shape, rate in rates.items()
                             if shape in curves}
                    if len(real) < 2:
                        continue
                    cases += 1
                    if not rates:
                        continue  # no expected time meets the target
                    best = max(rates.values())
                    listed = [shape for shape, rate in rates.items()
                              if rate >= 0.85 * best]
                    winner = max(rates, key=rates.get)
                    most = max(real.values())
                    near += any(real.get(shape, 0) >= 0.9 * most
                                for shape in listed)
                    first += real.get(winner, 0) >= 0.9 * most
        if os.environ.get("SHARDC_POINTS_TABLE"):
            print(f"searches {cases}: the list {near}, its first {first} are "
                  "within 10 % of the best measured")
        self.assertGreater(near, 0.86 * cases)


def families():
    """The measured (tpot, rate) of the layouts of each family."""
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for point in points():
        shape = tuple(int(point[key]) for key in ("tp", "dp", "ep"))
        n = shape[0] * shape[1]
        if point["mode"] == "d" or n > 8 or n != int(point["ep"]) * int(
                point["moe_tp"]) and (shape[1] > 1 or shape[2] > 1):
            continue
        family = tuple(point[key] for key in (
            "model", "linear", "experts", "kv", "device", "engine", "isl",
            "osl"))
        groups[family][shape].append((float(point["tpot_ms"]),
                                      float(point["tokens_s_device"])))
    out = []
    for family, curves in sorted(groups.items()):
        curves = {shape: sorted(curve) for shape, curve in curves.items()
                  if len(curve) >= 3}
        if len(curves) >= 2:
            out.append((family, curves))
    return out[::1 if STRIDE == 1 else 6]


def at(curve, target):
    """The rate at a target, interpolated in logarithms; None below the floor."""
    if target < curve[0][0]:
        return None
    best = None
    for (x, y), (x2, y2) in zip(curve, curve[1:]):
        if x <= target <= x2:
            share = math.log(target / x) / math.log(x2 / x) if x2 > x else 1
            best = y * (y2 / y)**share
    return best or max(rate for _, rate in curve)


def searched(folder, family, target):
    """The predicted rates of layouts."""
    model, linear, experts, kv, device, engine, isl, osl = family
    inputs = folder.inputs(model, (1, 1, 1, 1))
    value = run("search", "--serve", "--aggregated", "--prove", "0",
                "--no-project", *inputs[inputs.index("--model"):],
                "--devices", "8", "--profile", device, "--engine", engine,
                "--isl", isl, "--osl", osl, "--kv-dtype", KV[kv],
                "--served-dtype", linear + "," + experts, "--ttft", "1000s",
                "--tpot", f"{target}ms", "--format", "json").json()
    if not value["layouts"]:
        return {}
    best = 1 / value["layouts"][0]["tokens_s_device"]
    out = {}
    for one in value["layouts"] + value["others"]:
        side = one["sides"][0]
        shape = (side["tp"], side["attention_dp"], side["ep"])
        if "tokens_s_device" in one:
            out[shape] = one["tokens_s_device"]
        elif one["shortfall"] == "rate":
            out[shape] = 1 / (best + one["value"])
    return out


if __name__ == "__main__":
    unittest.main()
