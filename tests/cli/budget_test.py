"""The budget of a target's step: `check`, `check --locked`, `--write-locked`."""

import json
import os
import shutil
import unittest

import jsonschema

from check_case import Folder
from driver import ROOT, TESTDATA

PROJECT = """\
version: 1
targets:
  llama:
    mesh: {axes: {dp: 2, fsdp: 8, tp: 4}, device: h100-sxm}
    rules: [rules.yaml]
    manifest: manifest.json
    model: config.json
    plan: plans/new/llama.plan.json
    batch: 64
    seq: 4096
    remat: nothing_saveable
"""


class Budget(Folder):
    def setUp(self):
        super().setUp()
        shutil.copy(os.path.join(ROOT, "examples", "llama3-8b", "rules.yaml"),
                    self.path("rules.yaml"))
        for name, path in (("manifest.json", ("models", "llama-3-8b.hf.manifest.json")),
                           ("config.json", ("configs", "llama-3-8b.config.json"))):
            shutil.copy(os.path.join(TESTDATA, *path), self.path(name))

    def project(self, budget, text=PROJECT):
        self.write("shardc.yaml", text + (f"    budget: {budget}\n"
                                          if budget else ""))

    def over(self, *args, rc=1):
        """The budget findings of a check, which must be its only errors."""
        found = self.check(self.shardc("check", "--format", "json", *args),
                           rc).json()
        errors = [one for one in found if one["level"] == "error"]
        self.assertEqual({one["code"] for one in errors},
                         {"SHD615"} if rc == 1 else set(), errors)
        return errors

    def cost(self, *args):
        return json.loads(self.shardc("cost", "--format", "json", *args).out)

    def memory(self, *args):
        return self.cost(*args)["memory"]["peak"]["expected"]

    def test_the_figures_are_those_of_cost(self):
        self.project("")
        flags = ("--batch", "64", "--seq", "4096", "--remat",
                 "nothing_saveable")
        given = self.cost(*flags)
        self.assertEqual(self.cost(), given)
        self.assertNotEqual(self.cost("--seq", "2048"), given)
        memory = self.memory()
        sent = sum(one["bytes_per_device"] for one in given["communication"])
        seconds = given["time"]["expected_s"]
        limits = {"memory": ("B", memory), "sent": ("B", sent),
                  "time": ("s", seconds)}
        for name, (unit, value) in limits.items():
            below = int(value) - 1 if unit == "B" else value * 0.99
            above = int(value) if unit == "B" else value * 1.01
            self.project(f"{{{name}: {above:.9g}{unit}}}" if unit == "s" else
                         f"{{{name}: {above}B}}")
            self.over(rc=0)
            self.project(f"{{{name}: {below:.9g}{unit}}}" if unit == "s" else
                         f"{{{name}: {below}B}}")
            found, = self.over()
            self.assertEqual(found["targets"], ["llama"])
            self.assertIn("and the budget is", found["message"])
            self.assertIn("most of it is", found["message"])
            self.assertEqual(found["line"], 12)

    def test_growth_fails_a_pull_request(self):
        """More tokens take 70 % more memory; the plan is the same."""
        self.project("{growth: 5%}")
        self.over(rc=0)  # nothing is committed yet
        self.assertIn(", with which `growth` compares, are not there",
                      self.shardc("check", "--locked").out)
        self.check(self.shardc("check", "--locked"), 2)
        self.check(self.shardc("plan", "--write-locked"), 0)
        lock = json.loads(self.read("plans/new/llama.cost.json"))
        with open(os.path.join(ROOT, "schemas", "cost-lock.schema.json"),
                  encoding="utf-8") as file:
            jsonschema.validate(lock, json.load(file))
        memory = self.memory()
        self.assertEqual(lock["memory"]["value"], memory)
        self.over("--locked", rc=0)
        changed = PROJECT.replace("remat: nothing_saveable",
                                  "remat: everything_saveable")
        self.project("{growth: 5%}", changed)
        self.assertGreater(self.memory(), 1.7 * memory)
        found = self.over("--locked")
        self.assertEqual(self.over(), found)  # without --locked too
        text = "\n".join(one["message"] for one in found)
        self.assertIn("the memory of a step grew by", text)
        self.assertIn("and the budget allows 5.0 %", text)
        self.assertIn("most of the growth is activations", text)
        done = self.check(self.shardc("plan", "--diff", "-q"), 1)
        self.assertIn("the memory of a step: ", done.out)
        # A limit of 1000 % allows it, and writing the figures accepts it.
        self.project("{growth: 1000 %}", changed)
        self.over("--locked", rc=0)
        self.project("{growth: 5%}", changed)
        self.check(self.shardc("plan", "--write-locked"), 0)
        self.over("--locked", rc=0)
        self.check(self.shardc("plan", "--diff", "-q"), 0)

    def test_figures_of_another_plan_are_refused(self):
        self.project("{growth: 5%}")
        self.check(self.shardc("plan", "--write-locked"), 0)
        path = "plans/new/llama.cost.json"
        lock = self.read(path)
        other = json.loads(lock)
        other["plan"] = "sha256:" + 64 * "0"
        for text, message in (
                (json.dumps(other), "were not written together with"),
                (lock.replace('"train"', '"decode"'), "of another mode"),
                (lock.replace('"at_least": false', '"at_least": 0'),
                 "`memory` is missing or of the wrong type"),
                (lock.replace("cost-lock/v1", "cost/v1"),
                 "no committed cost of a step"),
                ("{", "")):
            self.write(path, text)
            done = self.check(self.shardc("check", "--locked"), 2)
            self.assertIn(message, done.out)
        # A file that is none is not overwritten.
        self.write(path, "notes")
        self.check(self.shardc("plan", "--write-locked"), 2)
        self.assertEqual(self.read(path), "notes")

    def test_what_is_not_known_does_not_pass(self):
        without = PROJECT.replace("    seq: 4096\n", "")
        self.project("{memory: 1TiB, time: 1000s}", without)
        found = self.over()
        self.assertEqual(len(found), 2)
        for one in found:
            self.assertIn("not known", one["message"])
            self.assertIn("seq", one["message"] + one["help"])
        self.project("{time: 1000s}", PROJECT.replace(", device: h100-sxm", ""))
        found, = self.over()
        self.assertIn("names a profile", found["message"])
        # A lower bound beyond the limit is no less beyond it.
        self.project("{memory: 1GiB}", without)
        found, = self.over()
        self.assertIn("is at least", found["message"])
        self.assertIn("and the budget is 1 GiB", found["message"])
        # The growth of a figure that was not known is not known.
        self.project("{growth: 5%}", without)
        self.check(self.shardc("plan", "--write-locked"), 0)
        self.project("{growth: 5%}")
        self.assertIn("was not known when the plan was committed",
                      self.over("--locked")[0]["message"])

    def test_other_modes_and_stages(self):
        self.project("{mode: decode, memory: 1MiB}",
                     PROJECT.replace("    seq: 4096\n", "    kv_len: 4096\n"))
        found, = self.over()
        self.assertIn("kv_cache", found["message"])
        stages = PROJECT.replace("fsdp: 8", "pp: 8") + (
            "    stages: {axis: pp}\n    microbatches: 16\n")
        rules = self.read("rules.yaml").replace("FSDP, ", "").replace(
            ", FSDP", "").replace("fsdp", "dp")
        self.write("rules.yaml", rules)
        self.project("{memory: 1MiB, sent: 0, time: 1ms}", stages)
        self.assertEqual(len(self.over()), 3)
        self.project("{memory: 1TiB, sent: 10TiB, time: 1000s}", stages)
        self.over(rc=0)

    def test_wrong_keys(self):
        for budget, message in (
                ("{growth: 5}", "not a percentage such as `5%`"),
                ("{growth: -5%}", "not a percentage such as `5%`"),
                ("{growth: 5.%}", "not a percentage such as `5%`"),
                ("{time: 5}", "not a time such as `900ms` or `1.5s`"),
                ("{memory: 80}", "of what unit"),
                ("{memery: 1GiB}", "memery"),
                ("{mode: [train, decode]}", "a budget is for one mode"),
                ("{mode: decode}\n    modes: [prefill]",
                 "`modes` of the target lacks the budget's mode"),
                ("{mode: eval, memory: 1GiB}", "a mode is the string `eval`"),
                ("[1GiB]", "`budget` is")):
            self.project(budget)
            done = self.check(self.shardc("check"), 2)
            self.assertIn(message, done.out + done.err, budget)
        self.project("{growth: 5%}",
                     PROJECT.replace("plan: plans/new/llama.plan.json\n", "#\n"))
        self.assertIn("the target has no `plan`", self.shardc("check").err)
        for key, value in (("zero", "7"), ("remat", "all"),
                           ("optimizer", "adam"), ("seq", "many")):
            self.project("", PROJECT.replace(
                "    seq: 4096\n    remat: nothing_saveable\n",
                f"    {key}: {value}\n"))
            for command in ("check", "cost"):
                done = self.check(self.shardc(command), 2)
                self.assertIn("shardc.yaml:10:", done.out + done.err)


if __name__ == "__main__":
    unittest.main()
