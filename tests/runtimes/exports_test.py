"""What `shardc export` writes, read by device lists without shardc, is what
the plan gives every device; and a change in it would be seen."""

import base64
import json
import math
import os
import random
import sys
import tempfile
import unittest

import device_lists
import random_shardings
import records
import shardc_answers

MESHES = int(os.environ.get("SHARDC_EXPORT_MESHES", "60"))
PARAMS = 12
SLICED = int(os.environ.get("SHARDC_EXPORT_SLICED", "4"))
# The keys of orbax's `_sharding`.
ORBAX_NAMES = [base64.urlsafe_b64encode(f"w{i}".encode()).decode()
               for i in range(PARAMS)]


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

    def test_every_format_has_the_devices_of_several_slices(self):
        """The meshes are those whose device order JAX gave."""
        for case in records.load("jax/slice_meshes")["cases"]:
            inner, outer = case["inner"], case["outer"]
            axes = {f"a{i}": a * b for i, (a, b) in
                    enumerate(zip(inner, outer))}
            slices = math.prod(outer)
            if slices == 1:
                continue
            with tempfile.TemporaryDirectory() as folder:
                path = {name: os.path.join(folder, name) for name in (
                    "mesh.json", "rules.json", "tree.json", "plan.json")}
                for name, value in (
                        ("mesh.json", {
                            "axes": axes, "slices": slices,
                            "dcn": dict(zip(axes, outer)),
                            "processes": slices}),
                        ("rules.json", {"version": 1, "rules": [
                            {"match": "w", "spec": [list(axes)]}]}),
                        ("tree.json", {
                            "schema": "shardc.manifest/v1", "params": {
                                "w": {"shape": [math.prod(axes.values())],
                                      "dtype": "F32"}}})):
                    with open(path[name], "w", encoding="utf-8") as file:
                        json.dump(value, file)
                shardc_answers.run(
                    "plan", "--no-project", "--quiet", "--mesh",
                    path["mesh.json"], "--rules", path["rules.json"],
                    "--manifest", path["tree.json"], "-o", path["plan.json"])
                self.same_devices(path["plan.json"], case["devices"])

    def test_devices_of_several_slices_hold_the_plans_shards(self):
        """Texts are read by device lists, imported again, and the mesh and the
        rules that come back give the same plan."""
        rng = random.Random(63)
        compared = 0
        for _ in range(SLICED):
            mesh, outer = random_shardings.random_sliced_mesh(rng)
            cases = [random_shardings.random_case(rng, mesh)
                     for _ in range(PARAMS)]
            with tempfile.TemporaryDirectory() as folder:
                plan = shardc_answers.plan(folder, mesh, cases,
                                           slices=outer)
                compared += self.check_sliced(folder, mesh, outer, cases, plan)
        self.assertEqual(compared, SLICED * PARAMS)

    def check_sliced(self, folder, mesh, outer, cases, plan):
        devices = device_lists.sliced_order(mesh, outer)
        texts = {form: json.loads(export("hlo", plan, "--format", "json",
                                         "--form", form))
                 for form in ("iota", "list", "mesh")}
        shardy = json.loads(export("shardy", plan, "--format", "json"))
        dtensor = json.loads(export("dtensor", plan, "--format", "json"))
        of_jax = json.loads(export("jax-json", plan))
        of_orbax = json.loads(export("orbax", plan))
        for i, case in enumerate(cases):
            name, shape = f"w{i}", case["shape"]
            held = device_lists.by_device(device_lists.of_spec(
                mesh, shape, case["spec"]), devices)
            found = {
                "iota": device_lists.of_hlo(
                    texts["iota"]["params"][name], len(devices), shape),
                "list": device_lists.of_hlo(
                    texts["list"]["params"][name], len(devices), shape),
                "mesh": device_lists.of_hlo_mesh(
                    texts["mesh"]["params"][name], shape),
                "shardy": device_lists.of_shardy(
                    shardy["mesh"], shardy["params"][name], shape),
                "dtensor": device_lists.by_device(device_lists.of_dtensor(
                    list(mesh.values()), dtensor["params"][name], shape),
                    dtensor["mesh"].get("devices")),
                "jax-json": device_lists.by_device(device_lists.of_spec(
                    mesh, shape, of_jax["params"][name]["partition_spec"]),
                    of_jax["mesh"].get("devices")),
                "orbax": device_lists.of_orbax(
                    json.loads(of_orbax[ORBAX_NAMES[i]]), shape)}
            for form, one in found.items():
                self.assertEqual(one, held, (form, mesh, outer, case))
        for form, more in (("hlo", ("--form", "iota")),
                           ("hlo", ("--form", "mesh")), ("hlo", ()),
                           ("shardy", ()), ("dtensor", ())):
            kinds = ("json",) if form == "dtensor" else ("json", "text")
            for kind in kinds:
                self.comes_back(folder, plan, (form, kind, *more),
                                mesh, cases, devices)
        return len(cases)

    def comes_back(self, folder, plan, how, mesh, cases, devices):
        form, kind, *more = how
        given, rules, made = (os.path.join(folder, name) for name in (
            "given", "back.yaml", "back-mesh.yaml"))
        with open(given, "w", encoding="utf-8") as file:
            file.write(export(form, plan, "--format", kind, *more))
        # Lines of iotas have no mesh.
        own = form == "hlo" and kind == "text"
        told = ("--mesh", os.path.join(folder, "mesh.yaml")) if own else ()
        shardc_answers.run("import", form, given, "-o", rules,
                           "--mesh-output", made, *told)
        again = os.path.join(folder, "again.json")
        shardc_answers.run(
            "plan", "--no-project", "-q", "--mesh", made, "--rules", rules,
            "--manifest", os.path.join(folder, "model.safetensors"), "-o",
            again)
        back = json.loads(export("jax-json", again))
        self.assertEqual(back["mesh"].get("devices", sorted(devices)),
                         devices, (how, mesh))
        for i, case in enumerate(cases):
            self.assertEqual(
                device_lists.of_spec(mesh, case["shape"], back["params"][
                    f"w{i}"]["partition_spec"]),
                device_lists.of_spec(mesh, case["shape"], case["spec"]),
                (how, case))

    def same_devices(self, plan, devices):
        usual = devices == sorted(devices)
        for name in ("jax-json", "dtensor"):
            mesh = json.loads(export(name, plan, "--format", "json"))["mesh"]
            self.assertEqual(mesh.get("devices", sorted(devices)), devices)
        (text,) = json.loads(export("orbax", plan)).values()
        grid = json.loads(text).get("device_mesh", {}).get("mesh")
        while grid and isinstance(grid[0], list):
            grid = [one for part in grid for one in part]
        self.assertEqual(devices, [one["id"] for one in grid])
        numbers = ", ".join(map(str, devices))
        module = export("dtensor", plan, "--format", "text")
        self.assertEqual(f"DEVICES = [{numbers}]" in module, not usual)

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
