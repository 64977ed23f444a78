"""examples/python/slices.py reads plans as shardc-plan(5) describes, and computes
the shards of a device that shardc itself reports."""

import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

from driver import Case, ROOT, run

EXAMPLE = os.path.join(ROOT, "examples", "python", "slices.py")
SPEC = importlib.util.spec_from_file_location("slices", EXAMPLE)
EXAMPLE_MODULE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(EXAMPLE_MODULE)

RULES = """version: 1
rules:
  - match: '^a$'
    spec: [[tp, dp], fsdp]
    modes: {decode: [null, [fsdp, tp]]}
  - match: 'experts/(\\d+)/w$'
    spec: [tp, null]
    place: {axis: fsdp, index: 'experts/(\\d+)/', count: 4}
  - match: '.*'
    spec: []
"""
PARAMS = {"a": [64, 64], "b": [3], **{f"experts/{i}/w": [8, 5]
                                     for i in range(4)}}


class Consumer(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name, text=None):
        path = os.path.join(self.folder.name, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def inputs(self, axes, slices, dcn, processes):
        return ["--mesh", self.path("mesh.yaml", json.dumps(
            {"axes": axes, "slices": slices, "dcn": dcn,
             "processes": processes})),
                "--rules", self.path("rules.yaml", RULES),
                "--manifest", self.path("manifest.json", json.dumps(
                    {"schema": "shardc.manifest/v1",
                     "params": {name: {"shape": shape, "dtype": "F32"}
                                for name, shape in PARAMS.items()}}))]

    def test_slices_are_those_that_shardc_prints(self):
        chance = random.Random(7)
        for _ in range(12):
            axes = {name: chance.choice([1, 2, 4])
                    for name in chance.sample(["dp", "fsdp", "tp"], 3)}
            dcn = {name: chance.choice([d for d in (1, 2) if size % d == 0])
                   for name, size in axes.items()}
            slices = 1
            for factor in dcn.values():
                slices *= factor
            devices = 1
            for size in axes.values():
                devices *= size
            inputs = self.inputs(axes, slices, dcn if slices > 1 else {},
                                 slices)
            plan = self.check(run("plan", *inputs), 0).json()
            for _ in range(3):
                device = chance.randrange(devices)
                name = chance.choice(list(PARAMS))
                told = self.check(run("explain", name, *inputs, "--device",
                                      device, "--format", "json"), 0).json()
                self.assertEqual(
                    EXAMPLE_MODULE.coordinates(plan["mesh"], device),
                    told["device"]["coordinates"])
                for mode in plan["modes"]:
                    mine = EXAMPLE_MODULE.slices(plan, name, device, mode)
                    self.assertEqual(mine is not None, told["holds"])
                    if mine is not None:
                        self.assertEqual([list(each) for each in mine],
                                         told["modes"][mode]["slices"])

    def test_all_devices_together_hold_every_element(self):
        plan = self.check(run("plan", *self.inputs(
            {"dp": 2, "fsdp": 2, "tp": 2}, 2, {"tp": 2}, 4)), 0).json()
        for mode in plan["modes"]:
            for name, shape in PARAMS.items():
                seen = set()
                for device in range(8):
                    held = EXAMPLE_MODULE.slices(plan, name, device, mode)
                    if held is not None:
                        seen.add(tuple(held))
                count = 0
                for piece in seen:
                    size = 1
                    for begin, end in piece:
                        size *= end - begin
                    count += size
                whole = 1
                for length in shape:
                    whole *= length
                self.assertEqual(count, whole, (mode, name))

    def test_as_a_program(self):
        plan = self.path("plan.json")
        self.check(run("plan", *self.inputs({"fsdp": 2, "tp": 2}, 1, {}, 1),
                       "-o", plan), 0)
        done = subprocess.run([sys.executable, EXAMPLE, plan, "3", "decode"],
                              check=True, capture_output=True, text=True)
        self.assertIn("a [(0, 64), (48, 64)]\n", done.stdout)
        self.assertIn("experts/0/w None\n", done.stdout)

    def test_a_plan_with_stages_is_refused(self):
        rules = self.path("rules.yaml", "stages: {axis: pp}\n"
                          "rules: [{match: '.*', spec: [tp]}]\n")
        manifest = self.path("manifest.json", json.dumps(
            {f"layers.{i}.up.weight": {"shape": [8, 8], "dtype": "F32"}
             for i in range(2)}))
        plan = self.path("plan.json")
        self.check(run("plan", "--mesh", "pp:2,tp:2", "--rules", rules,
                       "--manifest", manifest, "-o", plan), 0)
        done = subprocess.run([sys.executable, EXAMPLE, plan, "0"],
                              check=False, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("a plan with stages", done.stderr)

    def test_one_device_of_a_mesh(self):
        mesh = self.path("mesh.yaml", "axes: {dp: 2, tp: 4}\nslices: 2\n"
                         "dcn: {tp: 2}\nprocesses: 4\n")
        told = self.check(run("show", "mesh", "--mesh", mesh, "--device", 4), 0).out
        self.assertIn("device 4: dp=0 tp=2, process 2, slice 1, position 2\n",
                      told)
        grid = self.check(run("show", "mesh", "--mesh", mesh, "--format", "json"),
                          0).json()["grid"]
        for device in range(8):
            place = self.check(run("show", "mesh", "--mesh", mesh, "--device", device,
                                   "--format", "json"), 0).json()["place"]
            at = place["coordinates"]
            self.assertEqual(grid[at["dp"]][at["tp"]], device)
        for wrong in ("8", "-1", "x"):
            self.check(run("show", "mesh", "--mesh", mesh, "--device", wrong), 2)
        # Too many to list, and asked for one it still answers.
        large = ["show", "mesh", "--mesh", "dp:65536,tp:65536"]
        self.assertLess(len(self.check(run(*large, "--by-process"), 0).out), 1500)
        self.assertIsNone(self.check(run(*large, "--by-process", "--format",
                                         "json"), 0).json()["ranks"])
        self.assertIn("device 4294967295: dp=65535 tp=65535",
                      self.check(run(*large, "--device", 4294967295), 0).out)

    def test_a_pack_to_start_from(self):
        for pack in ("llama/hf", "gpt2/flax"):
            text = self.check(run("show", "rules", "--rules", "builtin:" + pack,
                                  "--format", "yaml"), 0).out
            with open(os.path.join(ROOT, "rules",
                                   pack.replace("/", ".") + ".yaml"),
                      encoding="utf-8") as file:
                self.assertEqual(text, file.read())
            mine = self.path("mine.yaml", text)
            theirs = run("show", "rules", "--rules", "builtin:" + pack, "--resolved")
            self.assertEqual(self.check(run("show", "rules", "--rules", mine,
                                            "--resolved"), 0).json(),
                             theirs.json())
        self.assertIn("--resolved", self.check(
            run("show", "rules", "--rules", mine, "--rules", "builtin:gpt2/hf",
                "--format", "yaml"), 2).err)


if __name__ == "__main__":
    unittest.main()
