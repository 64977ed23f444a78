"""Recorded programs of JAX (testdata/programs) and of PyTorch (testdata/torch_programs):
their form, and that the answers about them fit. Neither is imported."""

import functools
import gzip
import json
import math
import os
import re
import sys
import unittest

import jsonschema

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(ROOT, "tests", "cli")]

# The package must be found first.
# pylint: disable=wrong-import-position
from driver import part_of
from shardc import program, program_ops, program_places

FOLDER = os.path.join(ROOT, "testdata", "programs")
TORCH = os.path.join(ROOT, "testdata", "torch_programs")
ENDING = ".program.json.gz"
FILES = sorted(name for name in os.listdir(FOLDER) if name.endswith(ENDING))


@functools.cache
def load(name):
    """The tests read it and change nothing."""
    opened = gzip.open if name.endswith(".gz") else open
    with opened(os.path.join(FOLDER, name), "rt", encoding="utf-8") as file:
        return json.load(file)


with open(os.path.join(ROOT, "schemas", "program.schema.json"),
          encoding="utf-8") as opened_schema:
    SCHEMA = json.load(opened_schema)


class Places(unittest.TestCase):
    def test_installed_packages_of_any_environment_are_not_the_user_s(self):
        """Also where only the path of modules leads to them."""
        places = program_places.Places()
        for file, own in (("/home/me/model.py", True), ("model.py", True),
                          ("/other/lib/python3/site-packages/jax/_src/core.py", False),
                          ("/usr/lib/python3/dist-packages/flax/linen.py", False),
                          (os.__file__, False), ("<string>", False)):
            with self.subTest(file):
                # pylint: disable-next=protected-access
                self.assertIs(places._is_own(file), own)


class Summary(unittest.TestCase):
    def test_it_states_what_was_found_and_what_is_unknown(self):
        unknown = [{"primitive": "fft", "count": 2, "at": 0},
                   {"primitive": "my_kernel", "count": 1}]
        for name, made in [
                *((name, load(name)) for name in FILES),
                ("unknown", {**load(FILES[0]), "unknown": unknown})]:
            found, *lines = program.summary(made)
            with self.subTest(name):
                params = sum(one["kind"] == "param" for one in made["inputs"])
                self.assertTrue(found.startswith(f"found {params:,} parameter"))
                self.assertIn(f" {len(made['ops']):,} op", found)
                self.assertEqual("no op is unknown" in found,
                                 not made["unknown"])
                self.assertEqual(
                    [line.split()[1] for line in lines
                     if line.startswith("unknown: ")],
                    [one["primitive"] for one in made["unknown"]])
                self.assertEqual(lines[len(made["unknown"]):],
                                 made["assumptions"])


class Programs(unittest.TestCase):
    def each(self):
        self.assertGreaterEqual(len(FILES), 32)
        for name in FILES:
            with self.subTest(name):
                yield name, load(name)

    def each_of_both(self):
        yield from self.each()
        files = sorted(name for name in os.listdir(TORCH) if name.endswith(ENDING))
        self.assertGreaterEqual(len(files), 18)
        for name in files:
            with self.subTest(name):
                yield name, load(os.path.join(TORCH, name))

    def test_recorded_programs_are_of_their_schema(self):
        check = jsonschema.Draft7Validator(SCHEMA)
        for _, program in part_of(self.each_of_both(), 3):
            self.assertEqual(
                [error.message[:200] for error in check.iter_errors(program)], [])

    def test_operations_of_pytorch_have_modules_and_lines_of_models(self):
        for name, program in self.each_of_both():
            if "modules" not in program:
                continue
            self.assertEqual(program["unknown"], [], name)
            for file in program["files"]:
                self.assertRegex(file, r"^(transformers|tests/traced)/\S+\.py$")
            phases = {op.get("phase") for op in program["ops"]}
            step = {None, "backward", "optimizer"}
            self.assertEqual(phases, step if ".step" in name else {None})
            parameters = {one["name"] for one in program["inputs"]
                          if one["kind"] == "param"}
            for op in program["ops"]:
                self.assertIn("at", op)
                if "module" in op:
                    module = program["modules"][op["module"]]
                    self.assertTrue(module)
            owners = {one.rpartition(".")[0] for one in parameters}
            self.assertGreaterEqual(len(owners & set(program["modules"])),
                                    len(owners) // 2)

    def test_each_value_is_made_once_before_it_is_read_in_its_own_body(self):
        for _, program in self.each_of_both():
            made = []

            def visit(inputs, ops, outputs, made=made):
                known = set(inputs)
                made += inputs
                for op in ops:
                    self.assertLessEqual(set(op["in"]), known, op)
                    for body in program_places.bodies_of(op):
                        visit(body["in"], body["ops"], body["out"])
                    known.update(op["out"])
                    made.extend(op["out"])
                self.assertLessEqual(set(outputs), known)

            visit([one["value"] for one in program["inputs"]], program["ops"],
                  program["outputs"])
            self.assertEqual(sorted(made), list(range(len(program["values"]))))

    def test_shapes_follow_from_operations(self):
        """Of reshape, transpose, dot, reduce and map, by the rules of the schema."""
        for _, program in self.each_of_both():
            shapes = [one["shape"] for one in program["values"]]

            def check(ops, shapes=shapes):
                for op in ops:
                    ins = [shapes[one] for one in op["in"]]
                    outs = [shapes[one] for one in op["out"]]
                    want = None
                    if op["op"] == "reshape":
                        self.assertEqual(math.prod(ins[0]), math.prod(outs[0]))
                    elif op["op"] == "transpose":
                        want = [ins[0][d] for d in op["perm"]]
                    elif op["op"] == "reduce":
                        want = [n for d, n in enumerate(ins[0]) if d not in op["axes"]]
                    elif op["op"] == "dot":
                        a, b = ins
                        want = [a[d] for d in op["lhs_batch"]]
                        for side, of in (("lhs", a), ("rhs", b)):
                            gone = op[side + "_contract"] + op[side + "_batch"]
                            want += [n for d, n in enumerate(of) if d not in gone]
                    elif op["op"] == "map":
                        full = [one for one in ins if one]
                        want = [max(sizes) for sizes in zip(*full)]
                    if want is not None:
                        self.assertEqual(outs, [want], op)
                    for body in program_places.bodies_of(op):
                        check(body["ops"])

            check(program["ops"])

    def test_steps_have_three_phases_and_models_one(self):
        for name, program in self.each():
            phases = {op.get("phase") for op in program["ops"]}
            kinds = {one["kind"] for one in program["inputs"]}
            if ".step." in name:
                self.assertEqual(phases, {None, "backward", "optimizer"})
                self.assertIn("state", kinds)
            else:
                self.assertEqual(phases, {None})
            self.assertEqual(program["unknown"], [])
            self.assertEqual(program["assumptions"], [])

    def test_operations_come_from_lines_of_the_models(self):
        for _, program in self.each():
            self.assertTrue(all(
                name.startswith("tests/traced/") for name in program["files"]))
            counts = []
            for name in program["files"]:
                with open(os.path.join(ROOT, name), encoding="utf-8") as file:
                    counts.append(len(file.readlines()))
            for op in program["ops"]:
                self.assertLessEqual(op["at"][1], counts[op["at"][0]])

    def test_answers_give_the_size_of_each_dimension(self):
        sizes = load("SIZES.json")
        for name, program in self.each():
            model = name.split(".")[0]
            answers = load(f"{model}.answers.json")
            params = {one["name"]: program["values"][one["value"]]["shape"]
                      for one in program["inputs"] if one["kind"] == "param"}
            self.assertEqual(set(answers), set(params))
            for param, shape in params.items():
                self.assertEqual([size_of(text, sizes[model]) for text in answers[param]],
                                 shape, (param, answers[param]))

    def test_functions_are_those_of_the_schema(self):
        self.assertEqual(sorted(set(program_ops.MAPS.values())),
                         SCHEMA["definitions"]["function"]["enum"])


def size_of(text, sizes):
    """The size of a dimension by its answer, in the language of README.md."""
    tokens = re.findall(r"[a-z_]+[0-9]?|[0-9]+|[*+(),]", text)

    def total(ends):
        size = product()
        while tokens and tokens[0] in ends:
            tokens.pop(0)
            size += product()
        return size

    def product():
        size = factor()
        while tokens and tokens[0] == "*":
            tokens.pop(0)
            size *= factor()
        return size

    def factor():
        one = tokens.pop(0)
        if one == "sum":
            tokens.pop(0)
            size = total(",")
            assert tokens.pop(0) == ")"
            return size
        if one == "(":
            size = total("+")
            assert tokens.pop(0) == ")"
            return size
        return int(one) if one.isdigit() else sizes[one]

    return product()


if __name__ == "__main__":
    unittest.main()
