"""MaxText asked again for the specs of its models' parameters, and for what
the rules that `export maxtext` writes come to by its own function; its own
base.yml is imported as it stands."""

import collections
import contextlib
import io
import json
import os
import random
import re
import sys
import tempfile
import unittest

import maxtext_answers
import records
import shardc_answers

import jax
import numpy as np
import yaml
from maxtext.utils import sharding


NEW_SETTINGS = int(os.environ.get("SHARDC_CASES", "8"))


def drawn_settings(rng):
    """A model of MaxText's list and parallelism of it over all devices."""
    folder = os.path.join(os.path.dirname(maxtext_answers.base()), "models")
    model = rng.choice(sorted(name.removesuffix(".yml")
                              for name in os.listdir(folder)
                              if name.endswith(".yml")))
    left, sizes = maxtext_answers.DEVICES, {"data": 1, "fsdp": 1}
    for axis in rng.sample(["tensor", "data", "context", "fsdp_transpose",
                            "tensor_sequence", "expert"], rng.randrange(0, 4)):
        size = rng.choice([2, 4])
        sizes[axis], left = size, left // size
    sizes["fsdp"] = left
    return model, [f"ici_{axis}_parallelism={size}"
                   for axis, size in sizes.items()] + (
                       ["scan_layers=false"] if rng.random() < 0.2 else [])


def groups(spec, rank, mesh):
    """Axes of more than one device, per dimension."""
    spec = [[e] if isinstance(e, str) else e or [] for e in spec]
    spec += [[]] * (rank - len(spec))
    return [[axis for axis in group if mesh[axis] > 1] for group in spec]


def mesh_of(sizes):
    return jax.sharding.Mesh(np.array(jax.devices()).reshape(
        tuple(sizes.values())), tuple(sizes))


class MaxText(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name, value=None):
        path = os.path.join(self.folder.name, name)
        if value is not None:
            with open(path, "w", encoding="utf-8") as file:
                json.dump(value, file)
        return path

    def test_its_models(self):
        record = records.load("maxtext/models")
        self.assertEqual(json.loads(json.dumps(maxtext_answers.answers())),
                         record)
        print(f"{sum(len(case['params']) for case in record['cases'])} specs "
              "of parameters are MaxText's")

    def test_the_rules_of_one_command(self):
        """`python -m shardc.rules --maxtext` declares the recorded specs."""
        sys.path.insert(0, os.path.join(records.ROOT, "python"))
        from shardc.declared import declarations
        from shardc.frameworks import maxtext
        case = next(case for case in records.load("maxtext/models")["cases"]
                    if "ici_tensor_parallelism=4" in case["settings"])
        made = declarations(maxtext([
            maxtext_answers.base(), "model_name=" + case["model"],
            *case["settings"]], maxtext_answers.DEVICES))
        found = {one.name: one.spec for one in made.parameters}
        for name, param in case["params"].items():
            spec = [tuple(e) if isinstance(e, list) else e
                    for e in param["spec"]]
            while spec and spec[-1] is None:
                spec.pop()
            self.assertEqual(found[name], tuple(spec), name)

    def test_new_settings_by_one_command(self):
        """Of models and meshes that are in no record, the plans of the rules that
        one command writes have the shardings of the state that MaxText's
        trainer makes."""
        sys.path.insert(0, os.path.join(records.ROOT, "python"))
        rng = random.Random(os.environ.get("SHARDC_SEED", "71"))
        counts = collections.Counter()
        while counts["settings"] < NEW_SETTINGS:
            model, more = drawn_settings(rng)
            try:
                theirs = maxtext_answers.trained(model, more)
            except Exception as error:  # a model that needs other settings
                counts["refused by MaxText"] += 1
                print(f"{model} {more}: {error!r}"[:300])
                continue
            counts["settings"] += 1
            status, ours = self.by_one_command(model, more, {
                name: param[0] for name, param in theirs.items()})
            self.assertEqual(status, 0 if all(
                legal for *_, legal in theirs.values()) else 1)
            self.assertEqual(set(theirs), set(ours), (model, more))
            for name, (shape, spec, mesh, legal) in theirs.items():
                if not legal:
                    counts["illegal in JAX"] += 1
                    continue
                self.assertEqual(groups(ours[name]["spec"], len(shape), mesh),
                                 groups(spec, len(shape), mesh),
                                 (model, more, name))
                counts["specs"] += 1
        print(f"new settings: {dict(counts)}")

    def by_one_command(self, model, more, shapes):
        from shardc import rules
        files = [self.path(name) for name in ("one.yaml", "one-mesh.yaml")]
        with contextlib.redirect_stderr(io.StringIO()) as said:
            status = rules.main([
                "--maxtext", maxtext_answers.base(), "model_name=" + model, *more,
                "-o", files[0], "--mesh-out", files[1], "--devices",
                str(maxtext_answers.DEVICES)])
        self.assertIn("0 different", said.getvalue())
        shardc_answers.run(
            "plan", "--no-project", "-q", "--illegal", "drop", "--unmatched",
            "replicate", "--rules", files[0], "--mesh", files[1], "--manifest",
            self.path("one-manifest.json", {
                "schema": "shardc.manifest/v1", "separator": "/",
                "params": [{"name": name, "shape": shape, "dtype": "F32"}
                           for name, shape in shapes.items()]}),
            "-o", self.path("one-plan.json"))
        with open(self.path("one-plan.json"), encoding="utf-8") as file:
            return status, json.load(file)["params"]

    def planned(self, case, params):
        """A plan with the case's specs."""
        self.path("m.json", {
            "schema": "shardc.manifest/v1", "separator": "/",
            "params": [{"name": name, "shape": param["shape"],
                        "dtype": "F32"} for name, param in params.items()]})
        self.path("r.yaml", {
            "version": 1, "separator": "/", "policy": {"illegal": "shrink"},
            "axes": {"expert": "expert"}, "rules": [
                {"match": "^" + re.escape(name) + "$", "spec": param["spec"]}
                for name, param in params.items()]})
        self.path("mesh.yaml", {"axes": case["mesh"]})
        shardc_answers.run(
            "plan", "--no-project", "-q", "--mesh", self.path("mesh.yaml"),
            "--rules", self.path("r.yaml"), "--manifest", self.path("m.json"),
            "-o", self.path("plan.json"))
        with open(self.path("plan.json"), encoding="utf-8") as file:
            return json.load(file)["params"]

    def test_exported_rules_are_read_by_it(self):
        compared = 0
        for case in records.load("maxtext/models")["cases"]:
            mesh = case["mesh"]
            on = mesh_of(mesh)
            plan = self.planned(case, case["params"])
            names = self.path("names.json", {
                name: param["logical"]
                for name, param in case["params"].items()})
            done = shardc_answers.run(
                "export", "maxtext", "--plan", self.path("plan.json"),
                "--names", names, "--format", "json")
            rules = json.loads(done.stdout)["logical_axis_rules"]
            for name, param in case["params"].items():
                rank = len(param["shape"])
                said = maxtext_answers.entries(sharding.logical_to_mesh_axes(
                    tuple(param["logical"]), on, rules=rules))
                if f"`{name}`" in done.stderr:
                    continue
                self.assertEqual(groups(said, rank, mesh),
                                 groups(plan[name]["spec"], rank, mesh),
                                 (case["model"], case["settings"], name))
                compared += 1
        print(f"{compared} specs by exported rules are the plans'")
        self.assertGreater(compared, 400)

    def test_its_own_file(self):
        """Read as it stands; a model's own file may change a rule of it."""
        with open(maxtext_answers.base(), encoding="utf-8") as file:
            rules = yaml.safe_load(file)["logical_axis_rules"]
        compared = 0
        for case in records.load("maxtext/models")["cases"]:
            mesh = case["mesh"]
            if len(mesh) < 12:  # of another file
                continue
            names = self.path("names.json", {
                name: param["logical"]
                for name, param in case["params"].items()})
            done = shardc_answers.run(
                "import", "maxtext", maxtext_answers.base(), "--names", names,
                "--mesh", self.path("mesh.yaml", {"axes": mesh}), "--format",
                "json")
            for rule, param in zip(json.loads(done.stdout)["rules"],
                                   case["params"].values()):
                said = maxtext_answers.entries(sharding.logical_to_mesh_axes(
                    tuple(param["logical"]), mesh_of(mesh), rules=rules))
                self.assertEqual(groups(rule["spec"], 6, mesh),
                                 groups(said, 6, mesh), param)
                compared += 1
        print(f"{compared} specs by MaxText's own file are its function's")
        self.assertGreater(compared, 1000)


if __name__ == "__main__":
    unittest.main()
