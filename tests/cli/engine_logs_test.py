"""`cost --engine` against what engines log when they start.

`testdata/serving/logs.csv` has the weights of a rank and the tokens for which
its cache has room, each with its source."""

import csv
import os
import unittest

from driver import TESTDATA, run

GIB = 2 ** 30
TOLERANCE = 0.02


class EngineLogs(unittest.TestCase):
    def test_weights_and_cache_are_those_that_engines_log(self):
        path = os.path.join(TESTDATA, "serving", "logs.csv")
        with open(path, encoding="utf-8") as file:
            logs = list(csv.DictReader(file))
        for log in logs:
            with self.subTest(source=log["source"]):
                config = os.path.join(TESTDATA, "configs",
                                      log["model"] + ".config.json")
                memory = run(
                    "cost", "--no-project", "--mode", "decode", "--engine",
                    log["engine"], "--slots", "1", "--isl", "1024", "--osl",
                    "1024", "--mesh", f"tp:{log['tp']}", "--rules", "auto",
                    "--model", config, "--weights-dtype", "bfloat16",
                    "--served-dtype", log["weights"], "--profile",
                    "h200-sxm", "--format", "json").json()["memory"]
                if log["weights_gib"]:
                    ratio = memory["weights"] / GIB / float(log["weights_gib"])
                    self.assertLess(abs(ratio - 1), TOLERANCE, log)
                if log["cache_tokens"]:
                    logged = float(log["cache_gib"]) * GIB
                    tokens = logged / memory["cache_of_token"]
                    ratio = tokens / int(log["cache_tokens"])
                    self.assertLess(abs(ratio - 1), TOLERANCE, log)


if __name__ == "__main__":
    unittest.main()
