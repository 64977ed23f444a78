"""JAX asked again: its records hold, and shardc agrees with it on cases that
are in no record."""

import collections
import json
import math
import os
import random
import re
import subprocess
import sys
import unittest

import jax_answers
import random_shardings
import records
import shardc_answers
import slices

NEW_CASES = 400
COMPILED = 40

# Compiles each case's identity under XLA's option that names axes, and
# prints the parameter's sharding and its bytes on a device.
COMPILE = """
import json, re, sys
import jax_answers, jax, numpy
for case in json.load(sys.stdin):
    sharding = jax_answers.named_sharding(case)
    argument = jax.ShapeDtypeStruct(tuple(case["shape"]), numpy.float32,
                                    sharding=sharding)
    compiled = jax.jit(lambda x: x + 1).lower(argument).compile()
    text = re.search(r"parameter\\(0\\), sharding=(\\{.*?\\}), (?:met|fro)",
                     compiled.as_text())
    size = compiled.memory_analysis().argument_size_in_bytes
    print(json.dumps([text and text.group(1), size]))
"""


def without_ones(text):
    """The dimensions of a text that names axes, less its axes of size 1."""
    mesh, dims = text.split("], [")
    ones = re.findall(r"('\w+')=1(?!\d)", mesh)
    kept = [", ".join(a for a in group.split(", ") if a and a not in ones)
            for group in re.findall(r"\{(.*?)\}", dims)]
    return mesh + "], [" + ", ".join("{" + g + "}" for g in kept) + "]}"


class Jax(unittest.TestCase):
    maxDiff = None

    def again(self, name, answers, count):
        record = records.load(name)
        self.assertEqual(record["versions"],
                         records.versions(*record["versions"]))
        self.assertEqual(len(record["cases"]), count)
        for case in record["cases"]:
            now = answers(case)
            recorded = {key: case[key] for key in now}
            self.assertEqual(now, recorded, case)
        print(f"{name}: {count} recorded answers are JAX's")

    def test_recorded_shardings(self):
        self.again("jax/shardings", jax_answers.answer, 1000)

    def test_recorded_refusals(self):
        self.again("jax/refusals", jax_answers.refusal, 120)

    def test_recorded_meshes_of_slices(self):
        self.again("jax/slice_meshes", jax_answers.device_grid, 60)

    def test_new_cases_are_split_as_jax_splits_them(self):
        seed = int(os.environ.get("SHARDC_SEED", "77"))
        rng = random.Random(seed)
        by_mesh = collections.defaultdict(list)
        for _ in range(NEW_CASES // 10):
            mesh = random_shardings.random_mesh(rng)
            for _ in range(10):
                case = random_shardings.random_case(rng, mesh)
                by_mesh[json.dumps(mesh)].append(case)
        compared = 0
        for mesh, cases in by_mesh.items():
            held = shardc_answers.local_tensors(json.loads(mesh), cases)
            for case, tensors in zip(cases, held):
                answer = jax_answers.answer(case)
                self.assertEqual(
                    slices.disagreements(case, answer, tensors), [],
                    (seed, case))
                compared += 1
        print(f"{compared} new cases: shardc's pieces are JAX's")

    def test_compiled_programs_name_axes_as_recorded(self):
        cases = [case for case in records.load("jax/shardings")["cases"]
                 if case["shape"] != case["shard_shape"]][:COMPILED]
        done = subprocess.run(
            [sys.executable, "-c", COMPILE], input=json.dumps(cases),
            env={**os.environ,
                 "XLA_FLAGS": "--xla_enable_hlo_sharding_v3=true"},
            stdout=subprocess.PIPE, check=True, encoding="utf-8",
            cwd=records.HERE, timeout=300)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        for case, (text, size) in zip(cases, answers, strict=True):
            self.assertEqual(size, 4 * math.prod(case["shard_shape"]), case)
            self.assertEqual(text, without_ones(case["hlo_named"]))
        self.assertEqual(len(cases), COMPILED)
        print(f"{COMPILED} compiled programs name axes as recorded and hold "
              "the recorded bytes per device")


if __name__ == "__main__":
    unittest.main()
