"""Logical axis rules: what `export maxtext` writes, read by flax's rule apart
from shardc, is the plan wherever an order of rules can say it; and `import
levanter` gives the specs that Levanter's own code gave (testdata/runtimes)."""

import itertools
import json
import os
import random
import re
import sys
import tempfile
import unittest

from driver import ROOT, TESTDATA, Case, run

sys.path.insert(0, os.path.join(ROOT, "tests", "runtimes"))

import records  # noqa: E402

AXES = {"data": 2, "fsdp": 4, "tensor": 2, "expert": 2}
NAMES = ["embed", "mlp", "heads", "kv", "vocab", "exp"]


def groups(spec, rank):
    """A list of axes per dimension. `{axis: x}` of a rule is the axis x."""
    spec = [[e] if isinstance(e, (str, dict)) else e or [] for e in spec]
    spec = [[a["axis"] if isinstance(a, dict) else a for a in group]
            for group in spec]
    return spec + [[]] * (rank - len(spec))


def uses_mesh(params, axes):
    """Whether a spec of {name: (shape, spec)} has an axis larger than 1. A plan
    of a model that is replicated over the mesh is an error."""
    return any(axes[axis] > 1 for _, spec in params.values()
               for group in spec for axis in group)


def flax(rules, names):
    """flax.linen's logical_to_mesh_axes: the first rule that still fits."""
    answer = {}
    for name, axes in rules:
        if name in names and name not in answer and not (
                set(axes) & {a for given in answer.values() for a in given}):
            answer[name] = axes
    return [answer.get(name, []) for name in names]


def random_rules(rng):
    return [(rng.choice(NAMES), rng.sample(list(AXES), rng.choice(
        [0, 1, 1, 1, 2]))) for _ in range(rng.randint(1, 10))]


class Logical(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name, value):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(value if isinstance(value, str) else json.dumps(value))
        return path

    def plan(self, mesh, params, rules):
        """The plan's path and its parameters; {name: (shape, spec)}."""
        manifest = self.path("m.json", {
            "schema": "shardc.manifest/v1", "separator": "/",
            "params": [{"name": name, "shape": shape, "dtype": "F32"}
                       for name, (shape, _) in params.items()]})
        plan = os.path.join(self.folder.name, "plan.json")
        self.check(run("plan", "--no-project", "-q", "--mesh", mesh, "--rules",
                       rules, "--manifest", manifest, "-o", plan), 0)
        with open(plan, encoding="utf-8") as file:
            return plan, json.load(file)["params"]

    def planned(self, mesh, params):
        rules = self.path("r.yaml", {
            "version": 1, "separator": "/", "axes": {"expert": "expert"},
            "rules": [
                {"match": "^" + re.escape(name) + "$", "spec": spec}
                for name, (_, spec) in params.items()]})
        return self.plan(mesh, params, rules)[0]

    def export(self, plan, names):
        """(the rules, what is reported)"""
        done = self.check(run("export", "maxtext", "--plan", plan, "--names",
                              names, "--format", "json"), 0)
        text = self.check(run("export", "maxtext", "--plan", plan, "--names",
                              names), 0).out
        said = done.json()
        self.assertTrue(said["override_logical_axis_rules"])
        for name, axes in said["logical_axis_rules"]:
            self.assertIn(f"  - {json.dumps([name, axes])}\n", text)
        return said["logical_axis_rules"], text, done.err

    def comes_back(self, mesh, params, text, names):
        rules = os.path.join(self.folder.name, "back.yaml")
        self.check(run("import", "maxtext", self.path("maxtext.yml", text),
                       "--names", names, "--mesh", mesh, "-o", rules), 0)
        _, back = self.plan(mesh, params, rules)
        for name, (shape, spec) in params.items():
            self.assertEqual(groups(back[name]["spec"], len(shape)),
                             groups(spec, len(shape)), name)

    def test_what_rules_made_is_exported_whole(self):
        rng, compared = random.Random(7), 0
        mesh = self.path("mesh.yaml", {"axes": AXES})
        for _ in range(60):
            made = random_rules(rng)
            params, logical = {}, {}
            for i in range(10):
                dims = rng.sample(NAMES, rng.randint(0, 4))
                logical[f"m/w{i}"] = dims
                params[f"m/w{i}"] = ([32] * len(dims), flax(made, dims))
            if not uses_mesh(params, AXES):
                continue
            names = self.path("names.json", logical)
            rules, text, told = self.export(self.planned(mesh, params), names)
            self.assertEqual(told, "", made)
            for name, (_, spec) in params.items():
                self.assertEqual(flax(rules, logical[name]), spec, made)
                compared += 1
            self.comes_back(mesh, params, text, names)
        self.assertGreater(compared, 500)

    def test_what_no_order_gives_is_listed(self):
        rng, listed, whole = random.Random(9), 0, 0
        mesh = self.path("mesh.yaml", {"axes": AXES})
        for _ in range(240):
            params, logical = {}, {}
            for i in range(3):
                dims = rng.sample(NAMES[:3], rng.randint(1, 3))
                used = rng.sample(list(AXES)[:3], rng.randint(0, 2))
                spec = [[] for _ in dims]
                for axis in used:
                    rng.choice(spec).append(axis)
                logical[f"m/w{i}"] = dims
                params[f"m/w{i}"] = ([32] * len(dims), spec)
            if not uses_mesh(params, AXES):
                continue
            rules, _, told = self.export(
                self.planned(mesh, params), self.path("n.json", logical))
            wrong = [name for name, (_, spec) in params.items()
                     if flax(rules, logical[name]) != spec]
            self.assertEqual(bool(wrong), "warning" in told)
            for name in wrong:
                self.assertTrue(f"`{name}`" in told or " more" in told, told)
            pairs = sorted({(name, tuple(group))
                            for p, (_, spec) in params.items()
                            for name, group in zip(logical[p], spec) if group})
            possible = any(
                all(flax(order, logical[p]) == [tuple(g) or [] for g in spec]
                    for p, (_, spec) in params.items())
                for order in itertools.permutations(pairs))
            self.assertEqual(possible, not wrong, (params, logical))
            listed += bool(wrong)
            whole += not wrong
        self.assertGreater(listed, 20)
        self.assertGreater(whole, 20)

    def test_maxtexts_own_specs_have_rules(self):
        with open(os.path.join(TESTDATA, "vectors", "logical_rules.json"),
                  encoding="utf-8") as file:
            cases = json.load(file)["cases"]
        compared = 0
        for case in cases:
            mesh = self.path("mesh.yaml", {"axes": {
                axis["name"]: axis["size"] for axis in case["mesh"]["axes"]}})
            params = {f"m/w{i}": (p["shape"], p["spec"])
                      for i, p in enumerate(case["params"])}
            logical = {f"m/w{i}": p["logical"]
                       for i, p in enumerate(case["params"])}
            names = self.path("names.json", logical)
            rules, text, told = self.export(self.planned(mesh, params), names)
            self.assertEqual(told, "", case["id"])
            for name, (shape, spec) in params.items():
                self.assertEqual(
                    flax(rules, [g[0] if g else None for g in
                                 groups(logical[name], len(shape))]),
                    groups(spec, len(shape)), (case["id"], name))
                compared += 1
            self.comes_back(mesh, params, text, names)
        self.assertEqual(compared, 588)

    def test_maxtexts_models_come_out(self):
        """Of MaxText itself: its specs by its rules, there and back."""
        record, compared, listed = records.load("maxtext/models"), 0, 0
        for case in record["cases"]:
            mesh, params = case["mesh"], case["params"]
            mesh_file = self.path("mesh.yaml", {"axes": mesh})
            names = self.path("names.json", {
                name: p["logical"] for name, p in params.items()})
            text = "logical_axis_rules: [\n" + "".join(
                f"  {json.dumps(rule)},\n"
                for rule in record["rules"][case["rules"]]) + "]\n"
            read = self.check(run(
                "import", "maxtext", self.path("base.yml", text), "--names",
                names, "--mesh", mesh_file, "--format", "json"), 0).json()

            def cut(spec, rank):
                return [[a for a in group if mesh[a] > 1]
                        for group in groups(spec, rank)]
            ranks = [len(p["shape"]) for p in params.values()]
            wanted = [cut(p["spec"], rank)
                      for p, rank in zip(params.values(), ranks)]
            # One rule may match several names, such as wi_0 and wi_1.
            first = [next(rule for rule in read["rules"]
                          if re.search(rule["match"], name))
                     for name in params]
            self.assertEqual([cut(rule["spec"], rank) for rule, rank in
                              zip(first, ranks)], wanted, case)
            plan = self.planned(mesh_file, {
                name: ([4096] * rank, spec) for name, rank, spec in
                zip(params, ranks, wanted)})
            rules, _, told = self.export(plan, names)
            for (name, p), spec in zip(params.items(), wanted):
                if f"`{name}`" in told:
                    listed += 1
                else:
                    self.assertEqual(cut(flax(rules, p["logical"]),
                                         len(spec)), spec, (case, name))
                compared += 1
        self.assertGreater(compared, 800)
        self.assertLess(listed, compared // 20)

    def test_why_a_parameter_is_left(self):
        mesh = self.path("mesh.yaml", {"axes": AXES})
        params = {"m/a": ([8, 8], [["fsdp"], []]), "m/b": ([8], [["fsdp"]]),
                  "m/c": ([8, 8], [["fsdp"], []]), "m/d": ([8], []),
                  "m/e": ([8], [["tensor"]])}
        logical = {"m/a": [None, "mlp"], "m/c": ["mlp"], "m/e": ["mlp"]}
        _, _, told = self.export(self.planned(mesh, params),
                                 self.path("n.json", logical))
        for name, reason in (("a", "dimension 0 is sharded and has no logical"),
                             ("b", "`--names` does not list it"),
                             ("c", "lists 1 dimension of it, and it has 2")):
            self.assertRegex(told, f"`m/{name}` as the plan does: .*{reason}")
        self.assertNotIn("`m/d`", told)
        plan = self.planned(mesh, params)
        self.assertIn("--names", self.check(
            run("export", "maxtext", "--plan", plan), 2).err)
        other = self.check(run("export", "maxtext", "--plan", plan, "--names",
                               self.path("n.json", {"x": []})), 2)
        self.assertEqual(other.out, "")
        self.assertIn("none of the plan's parameters", other.err)

    def levanter(self, trainer, params, rc=0):
        logical = {f"w{'xyzuvw'[i]}": p["names"] for i, p in enumerate(params)}
        return self.check(run(
            "import", "levanter", "-", "--names",
            self.path("names.json", logical), "--mesh",
            "replica:2,data:4,model:2", "--format", "json",
            stdin=json.dumps({"data": {"id": "x"}, "trainer": trainer})), rc)

    def test_levanters_specs_are_its_own(self):
        compared = refused = 0
        for name in ("trainer", "mesh"):
            for case in records.load("levanter/" + name)["cases"]:
                config = case["config"]
                trainer = {"mesh": config} if name == "mesh" else config

                def once(param):
                    used = [a for g in groups(param["spec"], 0) for a in g]
                    return len(used) == len(set(used))
                good = [p for p in case["params"] if once(p)]
                rules = self.levanter(trainer, good).json()["rules"]
                self.assertEqual(
                    [groups(rule["spec"], 0) for rule in rules],
                    [groups(p["spec"], 0) for p in good], config)
                compared += len(good)
                # A spec with an axis twice, which JAX refuses.
                for param in [p for p in case["params"] if not once(p)][:1]:
                    self.assertIn("Levanter refuses", self.levanter(
                        trainer, [param], 2).err)
                    refused += 1
        self.assertGreater(compared, 3000)
        self.assertGreater(refused, 100)

    def test_levanter_that_cannot_be_read(self):
        one = [{"names": ["embed"]}]
        for trainer, said in (
                ({}, "versions differ"), (3, "no mapping `trainer`"),
                ({"mesh": {}, "fsdp_axis": "embed"}, "older ones"),
                ({"axis_resources": ["a"]}, "mapping of names"),
                ({"axis_resources": {"a": {}}}, "an axis, a list of axes"),
                ({"fsdp_axis": {"a": "b"}}, "a name or a list"),
                ({"mesh": 3}, "`mesh` is a mapping"),
                ({"mesh": {"axes": [1]}}, "axes to sizes"),
                ({"mesh": {"axes": {"data": "x"}}}, "`data`"),
                ({"mesh": {"axes": {"data": 2}}}, "`data` is 2 here"),
                ({"model_axis_size": 4}, "`model` is 4 here"),
                ({"replica_ici_axis_size": 3}, "`replica` is 3 here"),
                ({"replica_ici_axis_size": 1 << 62,
                  "replica_dcn_axis_size": 4}, "64 bits"),
                ({"axis_resources": {"embed": "nowhere"}, "fsdp_axis": None},
                 "which the mesh lacks")):
            result = self.levanter(trainer, one, 2)
            self.assertEqual(result.out, "")
            self.assertIn(said, result.err, trainer)
            self.assertRegex(result.err, r"\"line\": \d+")
        self.assertIn("--names", self.check(
            run("import", "levanter", "-", stdin="trainer: {mesh: {}}"),
            2).err)


class UnmappedTest(Case):
    """What an import cannot map is a warning, and not silently replicated."""

    NAMES = {"a/kernel": ["embed", "mlp"], "b/kernel": ["mlp", "embed"],
             "c/kernel": ["other", "embed"], "d": [None]}

    def warnings(self, text, mesh):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, content in (("base.yml", text),
                              ("names.json", json.dumps(self.NAMES))):
            with open(os.path.join(folder.name, name), "w",
                      encoding="utf-8") as out:
                out.write(content)
        got = run("import", "maxtext", "base.yml", "--names", "names.json",
                  "--mesh", mesh, cwd=folder.name)
        self.assertEqual(got.rc, 0, got)
        return [line for line in got.err.splitlines()
                if line.startswith("warning")]

    RULES = "[['embed', ['fsdp', 'context']], ['mlp', ['tensor']]]"

    def test_axes_and_names_are_listed_once_each(self):
        found = self.warnings(f"logical_axis_rules: {self.RULES}\n", "fsdp:2")
        self.assertEqual(len(found), 3, found)
        for one, count in (("`context`", 2), ("`tensor`", 1)):
            line, = (line for line in found if one in line)
            self.assertIn("fsdp=2) lacks the axis", line)
            self.assertIn(f"and of {count} more parameter", line)
        self.assertIn("no logical axis rule has the name `other`",
                      "".join(found))

    def test_declared_axes_have_size_1_where_the_mesh_lacks_them(self):
        found = self.warnings(
            "mesh_axes: [fsdp, context]\n"
            f"logical_axis_rules: {self.RULES}\n", "fsdp:2")
        self.assertEqual(len(found), 2, found)
        self.assertNotIn("context", "".join(found))

    def test_complete_rules_have_none(self):
        self.assertEqual(self.warnings(
            "logical_axis_rules: [['embed', fsdp], ['mlp', null], "
            "['other', null]]\n", "fsdp:2"), [])


if __name__ == "__main__":
    unittest.main()
