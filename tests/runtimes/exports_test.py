"""What `shardc export` writes, read by device lists without shardc, is what
the plan gives every device; and a change in it would be seen."""

import json
import os
import random
import sys
import tempfile
import unittest

import device_lists
import random_shardings
import shardc_answers

MESHES = int(os.environ.get("SHARDC_EXPORT_MESHES", "60"))
PARAMS = 12


def export(name, plan, *more):
    return shardc_answers.run("export", name, "--plan", plan, *more).stdout


def random_plans(seed, count):
    """(folder, mesh, cases, plan) of plans with several parameters each."""
    rng = random.Random(seed)
    for _ in range(count):
        mesh = random_shardings.random_mesh(rng)
        cases = [random_shardings.random_case(rng, mesh)
                 for _ in range(PARAMS)]
        with tempfile.TemporaryDirectory() as folder:
            yield mesh, cases, shardc_answers.plan(folder, mesh, cases)


class Exports(unittest.TestCase):
    def test_texts_read_by_device_lists_are_the_plan(self):
        compared = 0
        for mesh, cases, plan in random_plans(21, MESHES):
            count = 1
            for size in mesh.values():
                count *= size
            texts = {form: json.loads(export("hlo", plan, "--format", "json",
                                             "--form", form))["params"]
                     for form in ("iota", "list", "mesh")}
            shardy = json.loads(export("shardy", plan, "--format", "json"))
            module = export("shardy", plan)
            dtensor = json.loads(export("dtensor", plan, "--format", "json"))
            self.assertEqual(dtensor["mesh"], {
                "mesh_dim_names": list(mesh), "shape": list(mesh.values())})
            for i, case in enumerate(cases):
                name, shape = f"w{i}", case["shape"]
                held = device_lists.of_spec(mesh, shape, case["spec"])
                self.assertEqual(held, device_lists.of_hlo(
                    texts["iota"][name], count, shape), case)
                self.assertEqual(held, device_lists.of_hlo(
                    texts["list"][name], count, shape), case)
                self.assertEqual(held, device_lists.of_hlo_mesh(
                    texts["mesh"][name], shape), case)
                self.assertEqual(held, device_lists.of_shardy(
                    shardy["mesh"], shardy["params"][name], shape), case)
                self.assertIn(
                    f'"{name}", sdy.sharding = {shardy["params"][name]}}}',
                    module)
                self.assertEqual(held, device_lists.of_dtensor(
                    list(mesh.values()), dtensor["params"][name], shape),
                    case)
                compared += 1
        self.assertEqual(compared, MESHES * PARAMS)

    def test_another_text_would_be_seen(self):
        mesh, shape = {"a": 2, "b": 4}, [8, 8]
        held = device_lists.of_spec(mesh, shape, [["b", "a"]])
        self.assertNotEqual(held, device_lists.of_hlo(
            "{devices=[8,1]<=[8]}", 8, shape))
        self.assertEqual(held, device_lists.of_hlo(
            "{devices=[8,1]<=[2,4]T(1,0)}", 8, shape))
        self.assertEqual(held, device_lists.of_dtensor(
            [2, 4], ["_S(0, 4)", "S(0)"], shape))
        self.assertNotEqual(held, device_lists.of_dtensor(
            [2, 4], ["S(0)", "S(0)"], shape))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
