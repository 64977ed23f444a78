"""`shardc import` of other systems' own texts: what `export` writes comes back
as the plan, in every form, and errors of broken texts have a place."""

import json
import os
import random
import sys
import tempfile
import time
import unittest

from driver import ROOT, TESTDATA, Case, run
from python_rules import imported

sys.path.insert(0, os.path.join(ROOT, "tests", "runtimes"))

import random_shardings  # noqa: E402

FORMS = (("hlo", ["--form", "iota"], True), ("hlo", ["--form", "list"], True),
         ("hlo", ["--form", "mesh"], False),
         ("hlo", ["--form", "iota", "--format", "json"], False),
         ("shardy", [], False), ("shardy", ["--open", "--replicated"], False),
         ("shardy", ["--priorities", "a", "--format", "json"], False),
         ("dtensor", ["--format", "json"], False))


def groups(spec, rank):
    """Without redundant axes: those of size 1 are left to the caller."""
    spec = [[e] if isinstance(e, str) else e or [] for e in spec]
    return spec + [[]] * (rank - len(spec))


class Texts(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name, text=None):
        path = os.path.join(self.folder.name, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text if isinstance(text, str)
                           else json.dumps(text))
        return path

    def plan(self, mesh, rules, manifest, out):
        self.check(run("plan", "--no-project", "-q", "--mesh", mesh, "--rules",
                       rules, "--manifest", manifest, "-o", self.path(out)),
                   0)
        with open(self.path(out), encoding="utf-8") as file:
            return json.load(file)

    def random_plan(self, rng, separator):
        mesh = random_shardings.random_mesh(rng)
        names = ["a", "b", "expert", "head", "data"][:len(mesh)]
        rename = dict(zip(mesh, names))
        mesh = dict(zip(names, mesh.values()))
        params, rules = [], []
        for i in range(8):
            case = random_shardings.random_case(
                rng, dict(zip(rename, mesh.values())))
            spec = [[rename[a] for a in e] if isinstance(e, list)
                    else e and rename[e] for e in case["spec"]]
            for layer in range(2):
                name = separator.join(["m", str(layer), f"w{i}"])
                params.append({"name": name, "shape": case["shape"],
                               "dtype": "F32"})
            rules.append({"match": f"w{i}$", "spec": spec})
        manifest = self.path("m.json", {"schema": "shardc.manifest/v1",
                                        "params": params})
        axes = {rule: axis for rule, axis in (
            ("expert", "expert"), ("head", "head"), ("decode_head", "head"))
            if axis in mesh}
        rules = self.path("r.yaml", {"version": 1, "separator": separator,
                                     "axes": axes, "rules": rules})
        return self.path("mesh.yaml", {"axes": mesh}), rules, manifest, mesh

    def test_what_is_exported_comes_back(self):
        rng, compared = random.Random(51), 0
        for number in range(12):
            mesh, rules, manifest, axes = self.random_plan(
                rng, "./"[number % 2])
            first = self.plan(mesh, rules, manifest, "first.json")
            for form, flags, needs_mesh in FORMS:
                if number % 3 and form != "dtensor" and flags != []:
                    continue
                text = self.path("exported." + form)
                self.check(run("export", form, "--plan",
                               self.path("first.json"), "-o", text, *flags),
                           0)
                out = ["--mesh-output", self.path("mesh2.yaml"), "-o",
                       self.path("r2.yaml"), "--manifest", manifest]
                self.check(run("import", form, text, *out,
                               *(["--mesh", mesh] if needs_mesh else [])), 0)
                second = self.plan(self.path("mesh2.yaml"),
                                   self.path("r2.yaml"), manifest,
                                   "second.json")
                self.assertEqual(first["mesh"], second["mesh"])
                for name, param in first["params"].items():
                    other = second["params"][name]
                    rank = len(param["shape"])
                    wanted, given = (
                        [[a for a in g if axes[a] > 1]
                         for g in groups(p["spec"], rank)]
                        for p in (param, other))
                    self.assertEqual(wanted, given, (form, flags, name))
                    self.assertEqual(param["shard_shape"],
                                     other["shard_shape"])
                    compared += 1
        self.assertGreater(compared, 500)

    def test_a_compiled_program_is_read(self):
        text = """HloModule jit_f, entry_computation_layout={(f32[8,4])->f32[]}

ENTRY %main (p: f32[2,4]) -> f32[] {
  %p = f32[2,4]{1,0} parameter(0), sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}, metadata={op_name="params[\\'h\\'][0][\\'up\\']"}
  %q = f32[4]{0} parameter(1), sharding={replicated}
  ROOT %r = f32[] constant(0)
}
"""
        out = self.check(run("import", "hlo", "-", "--mesh", "dp:2,tp:4",
                             stdin=text), 0).out
        self.assertIn("'^h/[0-9]+/up$'\n    spec: [tp, null]", out)
        self.assertIn("'^q$'\n    spec: []", out)
        self.assertIn("no order of the axes", self.check(
            run("import", "hlo", "-", "--mesh", "a:8", stdin=text), 2).err)
        # XLA writes bytes above 127 in octal.
        out = self.check(run(
            "import", "hlo", "-", "--mesh", "dp:2,tp:4",
            stdin=text.replace("\\'up\\'", r"\'gr\303\266\303\237e\'")), 0).out
        self.assertIn("'^h/[0-9]+/gr\u00f6\u00dfe$'", out)

    def rules_of(self, form, text, *flags):
        """Spec by pattern."""
        out = self.check(run("import", form, "-", *flags, stdin=text), 0).out
        lines = out[out.index("rules:"):].split("\n")[1:]
        return {match.split("'")[1]: spec.split("spec: ")[1]
                for match, spec in zip(lines[::2], lines[1::2])}

    def test_arguments_that_jax_lowered_have_their_names(self):
        """A step of JAX 0.10.2 over two trees with the same names."""
        record = os.path.join(TESTDATA, "runtimes", "jax", "lowered_step.")
        with open(record + "mlir", encoding="utf-8") as file:
            lowered = file.read()
        with open(record + "hlo", encoding="utf-8") as file:
            compiled = file.read()
        want = {"^x$": "[dp, null]"}
        for tree in "p", "m":
            want |= {f"^{tree}/layer_0/kernel$": "[dp, tp]",
                     f"^{tree}/layer_0/bias$": "[tp]",
                     f"^{tree}/layers/0/w$": "[tp, null]",
                     f"^{tree}/layers/1/w$": "[null, [dp, tp]]"}
        self.assertEqual(self.rules_of("shardy", lowered), want)
        self.assertEqual(
            self.rules_of("hlo", compiled, "--mesh", "dp:2,tp:4"), want)

    def test_names_of_arguments_are_those_of_their_locations(self):
        mesh = '#loc3 = loc("p[\'b\']")\nsdy.mesh @mesh = <["a"=2]>\n'
        argument = ": tensor<8xf32> {sdy.sharding = " \
            '#sdy.sharding<@mesh, [{"a"}]>}'
        for places, names in (
                (("\"p['w']\"", "\"p['v']\""), ("w", "v")),
                (('"first"("step.py":1:2)', "#loc3"), ("first", "b")),
                (('"step.py":1:2', "unknown"), ("arg0", "arg1")),
                (('"f"', '"f"'), ("arg0", "arg1")),
                (("#loc9", 'fused["v", "w"]'), ("arg0", "arg1"))):
            text = mesh + "func.func @main(" + ", ".join(
                f"%arg{i}{argument} loc({place})"
                for i, place in enumerate(places)) + ")"
            found = self.rules_of("shardy", text)
            self.assertEqual(
                [list(found), set(found.values())],
                [[f"^{name}$" for name in names], {"[a]"}], places)
        self.refused("shardy", mesh + "func.func @main(%x" + argument +
                     ' loc("p"', "never ends")

    def refused(self, form, text, said, *flags, line=None):
        result = self.check(run("import", form, "-", *flags, stdin=text), 2)
        self.assertEqual(result.out, "")
        self.assertIn(said, result.err)
        if line:
            self.assertRegex(result.err, rf"--> -:{line}:")

    def test_errors_of_broken_texts_have_a_place(self):
        mesh = ["--mesh", "a:2,b:2"]
        for text, said in (
                ('"w": {devices=[2,2]<=[4', "malformed"),
                ('"w": {devices=[2,2]<=[4]', "should end"),
                ('"w": {devices=[2,2]<=[2,2]T(1,1)}', "no order of"),
                ('"w": {devices=[4,4]<=[16]}', "has 4 devices"),
                ('"w": {devices=[2,2]0,1,2}', "has 4 devices"),
                ('"w": {devices=[2,2]0,1,2,9}', "no order of the axes"),
                ('"w": {devices=[99999999999999999999]<=[4]}', "malformed"),
                ('"w": {devices=[1]<=[9999999999]}', "no number"),
                ('"w": {manual}', "`manual`"),
                ('"w": {maximal device=0}', "`maximal`"),
                ('"w": {devices=[2,2]<=[4] last_tile_dims={manual}}',
                 "subgroups"),
                ('"w" {replicated}', "colon"),
                ("\"w\": {mesh['a'=2,'b'=2], [{'c'}]}", "no whole axis"),
                ("\"w\": {mesh['a'=2], [{'a'}]}", "not a=2 b=2")):
            self.refused("hlo", text, said, *mesh, line=1)
        self.refused("hlo", '"w": {devices=[4]<=[4]}', "--mesh", line=1)
        self.refused("hlo", "", "no sharding", *mesh)
        self.refused("hlo", '{"params": {"w": 3}}', "text", *mesh, line=1)
        self.refused("hlo", '{"params": {"w": "{x"', "error", *mesh, line=1)
        head = 'sdy.mesh @mesh = <["a"=2, "b"=2]>\nfunc.func @main('
        for text, said in (
                ("", "sdy.mesh"), ("sdy.mesh @m = <", "axes of the mesh"),
                ('sdy.mesh @m = <["a"=2, "a"=2]>', "name of its own"),
                ('sdy.mesh @m = <["a"=2], device_ids=[1, 0]>',
                 "no mesh of slices has its devices in this order"),
                ('sdy.mesh @m = <["a"=2], device_ids=[0]>', "no mesh of"),
                ('sdy.mesh @m = <["a"=2], device_ids=[0, x]>',
                 "number of a device is missing"),
                ('sdy.mesh @m = <["a"=2], devices=[0, 1]>',
                 "devices of the mesh are missing"),
                ('sdy.mesh @m = <["a"=2] x', "mesh should end here"),
                (head + "%x: i32)", "type"),
                (head + "%x: tensor<8xf32> {a = \"", "never ends"),
                (head + "%x: tensor<8xf32> {sdy.sharding = "
                 "#sdy.sharding<@m, [{}]>})", "no sharding over"),
                (head + "%x: tensor<8xf32> {sdy.sharding = "
                 "#sdy.sharding<@mesh, [{\"c\"}]>})", "no whole axis"),
                (head + "%x: tensor<8xf32> {sdy.sharding = "
                 "#sdy.sharding<@mesh, [{\"a\":(1)2}]>})", "no whole axis"),
                (head + "%x: tensor<8xf32>", "argument")):
            self.refused("shardy", text, said)
        mesh = '{"mesh": {"mesh_dim_names": ["a", "b"], "shape": [2, 2]}, '
        for text, said in (
                ("{}", "mesh_dim_names"), (mesh[:-2] + "}", "no `params`"),
                (mesh + '"params": {"w": ["R"]}}', "one placement"),
                (mesh + '"params": {"w": ["R", "X"]}}', "no placement"),
                (mesh + '"params": {"w": ["R", "S(-1)"]}}', "no placement"),
                (mesh + '"params": {"w": ["R", "P(sum)"]}}', "sums"),
                (mesh + '"params": {"w": ["_S(0, 3)", "S(0)"]}}', "so many blocks"),
                (mesh + '"params": {"w": ["_S(0, 3)", "_S(0, 2)"]}}',
                 "so many blocks"),
                (mesh + '"params": {"w": ["R", 3]}}', "text"),
                (mesh.replace("2]", "0]") + '"params": {}}', "1 or more"),
                (mesh.replace("2]", '2], "devices": [0, 1, 2]')
                 + '"params": {}}', "no mesh of slices"),
                (mesh.replace("2]", '2], "devices": [0, 1, 3, 2]')
                 + '"params": {}}', "remove `devices`"),
                (mesh.replace("2]", '2], "devices": [0, 1, 2, "x"]')
                 + '"params": {}}', "`devices` is a list of numbers"),
                (mesh.replace("2]", '2], "devices": 4')
                 + '"params": {}}', "`devices` is a list of numbers")):
            self.refused("dtensor", text, said, line=1)

    def test_devices_of_several_slices(self):
        """They are in the order of the mesh, wherever a text lists them."""
        ids = "0, 1, 4, 5, 2, 3, 6, 7"
        dtensor = ('{"mesh": {"mesh_dim_names": ["a", "b"], "shape": [2, 4], '
                   f'"devices": [{ids}]}}, "params": {{"w": ["R", "S(0)"]}}}}')
        axes = '{"axes": [{"name": "a", "size": 2}, {"name": "b", "size": 4}]'
        tiles = '"params": {"w": "{devices=[4,1,2]<=[2,2,2]T(0,2,1) ' \
            'last_tile_dim_replicate}"}}'
        shardy = f'sdy.mesh @mesh = <["a"=2, "b"=4], device_ids=[{ids}]>\n' \
            "func.func @main(%arg0: tensor<8x2xf32> {sdy.sharding = " \
            '#sdy.sharding<@mesh, [{"b"}, {}]>} loc("w"))'
        named = "\"w\": {mesh['a'=2,'b'=4], device_ids=(%s), [{'b'}, {}]}"
        for form, text in (
                ("dtensor", dtensor), ("shardy", shardy),
                ("hlo", '{"mesh": ' + axes + ', "dcn": [1, 2]}, ' + tiles),
                ("hlo", named % ids), ("hlo", named % "[2,2,2]T(1,0,2)")):
            out = self.path("mesh.yaml")
            rules = self.check(run("import", form, "-", "--mesh-output", out,
                                   stdin=text), 0).out
            self.assertRegex(rules, r"spec: \[b(, null)?\]")
            with open(out, encoding="utf-8") as file:
                self.assertEqual(file.read(), "axes: {a: 2, b: 4}\ndevices: 8\n"
                                 "slices: 2\ndcn: {a: 1, b: 2}\n", text)
        for dcn in ("[1]", "[1, 3]", "[0, 2]", "2", '["x", 2]'):
            self.refused("hlo", '{"mesh": ' + axes + f', "dcn": {dcn}}}, '
                         + tiles, "`dcn` has a factor of each axis, which divides its size", line=1)
        self.refused("hlo", named % "[2,2,2]T(1,0,2", "should end")
        self.refused("hlo", named.replace("),", ") ") % ids, "should end")
        self.refused("hlo", named % "0, 1", "no mesh of slices", line=1)
        many = '{"mesh": {"axes": [{"name": "a", "size": 2097152}], ' \
            '"dcn": [2]}, "params": {"w": "{replicated}"}}'
        self.refused("hlo", many, "a mesh of several slices has more than 1,048,576 devices", line=1)

    def test_placements_in_every_spelling(self):
        mesh = '{"mesh": {"mesh_dim_names": ["a", "b"], "shape": [2, 4]}, '
        for one, two in (("_S(0, 4)", "S(0)"),
                         ("_StridedShard(dim=0, sf=4)", "Shard(dim=0)"),
                         ("_StridedShard(0, split_factor=4)", "Shard(0)")):
            text = self.check(run("import", "dtensor", "-", stdin=mesh +
                                  f'"params": {{"w": ["{one}", "{two}"]}}}}'),
                              0).out
            self.assertIn("spec: [[b, a]]", text)

    def logical_cases(self):
        with open(os.path.join(TESTDATA, "vectors", "logical_rules.json"),
                  encoding="utf-8") as file:
            return json.load(file)["cases"]

    def name(self, path):
        for old in ("['", "']", "["):
            path = path.replace(old, "")
        return path.replace("]", "").removeprefix(".").replace("/.", "/")

    def test_logical_rules_give_the_recorded_specs(self):
        compared = 0
        for case in self.logical_cases():
            mesh = {axis["name"]: axis["size"]
                    for axis in case["mesh"]["axes"]}
            mesh_file = self.path("mesh.yaml", {"axes": mesh})
            names = self.path("logical_shardings.json", {
                p["name"]: {"partition_spec": p["logical"],
                            "shape": p["shape"]} for p in case["params"]})
            pairs = "".join(f"  ({name!r}, {tuple(axes)!r}),\n"
                            for name, axes in case["rules"])
            yaml = "logical_axis_rules: [\n" + "".join(
                f"  ['{name}', {json.dumps(axes)}],\n"
                for name, axes in case["rules"]) + "]\n"
            dump = {p["name"]: {
                "mesh": {"axis_names": list(mesh), "shape": mesh},
                "partition_spec": p["spec"], "shape": p["shape"]}
                for p in case["params"]}
            manifest = self.path("m.json", {
                "schema": "shardc.manifest/v1", "separator": "/",
                "params": [{"name": self.name(p["name"]), "shape": p["shape"],
                            "dtype": "F32"} for p in case["params"]]})
            for form, text, flags in (
                    ("flax", "RULES = [\n" + pairs + "]\n", True),
                    ("t5x", "def rules():\n  return (\n" + pairs + ")\n",
                     True),
                    ("maxtext", yaml, True),
                    ("maxtext-dump", json.dumps(dump), False)):
                more = ["--names", names, "--mesh", mesh_file] if flags else []
                source = [self.path("source", text), "--manifest", manifest,
                          "-o", self.path("r.yaml"), "--mesh-output",
                          self.path("mesh2.yaml"), *more]
                self.check(imported(*source, "--logical")
                           if form in ("flax", "t5x") else
                           run("import", form, *source), 0)
                plan = self.plan(self.path("mesh2.yaml"), self.path("r.yaml"),
                                 manifest, "plan.json")
                for p in case["params"]:
                    self.assertEqual(
                        groups(plan["params"][self.name(p["name"])]["spec"],
                               len(p["shape"])),
                        groups(p["spec"], len(p["shape"])),
                        (case["id"], form, p["name"]))
                    compared += 1
        self.assertEqual(compared, 4 * 588)

    def test_large_shardings_take_no_time(self):
        """On meshes of many devices, equal or all different, and of far more
        dimensions than a tensor has."""
        mesh = ["--mesh", "a:256,b:256"]
        alike = "".join(f'"w{i}": {{devices=[256,256]<=[65536]}}\n'
                        for i in range(1000))
        begin = time.monotonic()
        done = self.check(run("import", "hlo", "-", *mesh, stdin=alike,
                              timeout=60), 0)
        self.assertEqual(done.out.count("spec: [a, b]\n"), 1000)
        different = "".join(
            f'"w{i}": {{devices=[256,{"1," * (i % 60)}256]<=['
            f'{"1," * (i // 60)}65536]}}\n' for i in range(3000))
        ones = '"w": {devices=[65536]<=[' + "1," * 600_000 + "65536]}\n"
        for text, line in ((different, 133), (ones, 1)):
            self.refused("hlo", text, "tiles times dimensions", *mesh,
                         line=line)
        self.assertLess(time.monotonic() - begin, 60)

    def test_known_shardings_are_distinguished_from_similar_ones(self):
        text = ('"a": {devices=[2,1,2]<=[4] last_tile_dim_replicate}\n'
                '"b": {devices=[2,1,2]<=[4] last_tile_dims={replicated}}\n'
                '"c": {devices=[2,1,2]<=[4]}\n'
                '"d": {devices=[2,1,2]<=[4] last_tile_dims={replicated}}\n'
                '"e": {devices=[2,2]<=[4]}\n"f": {devices=[2,2]<=[4]}\n'
                '"g": {replicated}\n"h": {replicated}\n')
        done = self.check(run("import", "hlo", "-", "--mesh", "x:2,y:2",
                              "--format", "json", stdin=text), 0)
        self.assertEqual(
            [groups(rule["spec"], 3) for rule in done.json()["rules"]],
            [[["x"], [], []], [["x"], [], []], [["x"], [], ["y"]],
             [["x"], [], []], *[[["x"], ["y"], []]] * 2,
             *[[[], [], []]] * 2])

    def test_logical_rules_that_cannot_be_read(self):
        self.refused("maxtext", "a: 1\n", "logical_axis_rules", line=1)
        self.refused("maxtext", "logical_axis_rules: [[a]]\n", "no pair",
                     line=1)
        self.refused("maxtext", "logical_axis_rules: [[a, b]]\n", "--names")
        self.refused("maxtext", "logical_axis_rules: [[a, b]\n", "error")
        names = self.path("n.json", {"w": ["a", "a"]})
        for source, said in (("R = [('a', 'b'), 3]", "no pair"),
                             ("x = 1", "no such list"),
                             ("R = [('a', 'b')]", "one logical name")):
            done = imported(self.path("m.py", source), "--logical", "--names",
                            names, "--mesh", "b:2")
            self.check(done, 2)
            self.assertIn(said, done.err)
            self.assertEqual(done.out, "")
        self.refused("maxtext-dump", "[]", "no parameters", line=1)
        self.refused("maxtext-dump", '{"w": {"partition_spec": []}}', "mesh",
                     line=1)
        self.refused("maxtext-dump", '{"w": {"mesh": {"axis_names": ["a"], '
                     '"shape": {"a": 2}}, "partition_spec": ["b"]}}',
                     "no axis `b`", line=1)


if __name__ == "__main__":
    unittest.main()
