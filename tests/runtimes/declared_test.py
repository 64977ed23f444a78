"""The rules that live models declared, compiled by the program: each parameter has
the shard that the model's own library computed."""

import json
import os
import re
import subprocess
import tempfile
import unittest

import folding
import records

BIN = os.environ.get("SHARDC_BIN", os.path.join(
    records.ROOT, "build", "src", "cli", "shardc"))
RECORDS = ("declared/torch", "declared/jax")


def planned(case):
    """The shapes of shards in the plan of a case's rules, by parameter."""
    params = {one["name"]: one for one in folding.unfold(case["params"])
              if "shard" in one}
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: os.path.join(folder, name) for name in
                 ("rules.yaml", "manifest.json", "plan.json")}
        with open(paths["rules.yaml"], "w", encoding="utf-8") as file:
            # Some libraries declare that almost nothing is sharded.
            file.write(re.sub(r"^( *)- ", r"\1# shardc: ignore[SHD207] declared"
                              r"\n\1- ", case["rules"], flags=re.M))
        with open(paths["manifest.json"], "w", encoding="utf-8") as file:
            json.dump({"schema": "shardc.manifest/v1",
                       "separator": case["separator"],
                       "params": {name: {"shape": one["shape"], "dtype": "F32"}
                                  for name, one in params.items()}}, file)
        mesh = ",".join(f"{axis}:{size}" for axis, size in case["axes"].items())
        done = subprocess.run(
            [BIN, "plan", "--no-project", "--quiet", "--modes", "train",
             "--mesh", mesh, "--rules", paths["rules.yaml"], "--manifest",
             paths["manifest.json"], "-o", paths["plan.json"]],
            check=False, capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(done.stderr)
        with open(paths["plan.json"], encoding="utf-8") as file:
            plan = json.load(file)["params"]
    return params, {name: one["shard_shape"] for name, one in plan.items()}


def differences(case):
    params, found = planned(case)
    return [name for name, one in params.items() if found[name] != one["shard"]]


class Declared(unittest.TestCase):
    def test_shards_are_those_of_the_libraries(self):
        models = 0
        for name in RECORDS:
            for case in records.load(name)["cases"]:
                with self.subTest(library=case["library"], model=case["model"]):
                    self.assertEqual(differences(case), [])
                    self.assertEqual(case["different"], 0)
                    models += 1
        self.assertGreater(models, 100)

    def test_another_shard_is_detected(self):
        case = records.load("declared/torch")["cases"][0]
        for one in case["params"]:
            if one.get("shard") != one["shape"]:
                one["shard"] = one["shape"]
                break
        self.assertNotEqual(differences(case), [])


if __name__ == "__main__":
    unittest.main()
