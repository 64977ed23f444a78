"""What is exported and imported again gives the same plan: every format that
goes both ways, over random meshes and plans."""

import json
import math
import os
import random
import re
import sys
import tempfile
import unittest

from driver import ROOT, Case, run
from python_rules import imported

sys.path.insert(0, os.path.join(ROOT, "tests", "runtimes"))

import random_shardings  # noqa: E402

PLANS = int(os.environ.get("SHARDC_ROUND_TRIPS", "25"))
# Formats by their export, with flags, and their import: (export, import,
# more, whether the source has no mesh of its own, whether axes of size 1 and
# the order of devices are all that is lost).
FORMATS = [
    ("hlo", "hlo", ["--form", "iota"], [], True),
    ("hlo", "hlo", ["--form", "list"], [], True),
    ("hlo", "hlo", ["--form", "mesh"], [], False),
    ("shardy", "shardy", [], [], False),
    ("dtensor", "dtensor", ["--format", "json"], [], False),
    ("maxtext", "maxtext", [], [], True),
    ("jax", "python", [], ["--symbol", "SPECS"], False),
]


def back(form, *flags):
    """Imports what was exported; Python source is read by the package."""
    return imported(*flags) if form == "python" else run(
        "import", form, *flags)


def groups(spec, rank, mesh):
    """Axes per dimension; those of size 1 cut nothing."""
    spec = [[e] if isinstance(e, str) else e or [] for e in spec]
    spec += [[]] * (rank - len(spec))
    return [[a for a in group if mesh[a] > 1] for group in spec]


class RoundTrips(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name, value=None):
        path = os.path.join(self.folder.name, name)
        if value is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(value if isinstance(value, str)
                           else json.dumps(value))
        return path

    def plan(self, mesh, rules, manifest, out):
        if isinstance(rules, str):
            rules = [rules]
        flags = [word for one in rules for word in ("--rules", one)]
        self.check(run("plan", "--no-project", "-q", "--mesh", mesh, *flags,
                       "--manifest", manifest, "-o", self.path(out)), 0)
        with open(self.path(out), encoding="utf-8") as file:
            return json.load(file)

    def manifest(self, params, separator="."):
        return self.path("m.json", {
            "schema": "shardc.manifest/v1", "separator": separator,
            "params": [{"name": name, "shape": shape, "dtype": "F32"}
                       for name, (shape, _) in params.items()]})

    def rules(self, params, separator="."):
        return self.path("r.yaml", {
            "version": 1, "separator": separator, "rules": [
                {"match": "^" + re.escape(name) + "$", "spec": spec}
                for name, (_, spec) in params.items()]})

    def same(self, first, second, mesh, what):
        self.assertEqual(list(first["params"]), list(second["params"]))
        for name, param in first["params"].items():
            other, rank = second["params"][name], len(param["shape"])
            self.assertEqual(groups(param["spec"], rank, mesh),
                             groups(other["spec"], rank, mesh), (what, name))
            for key in ("shard_shape", "bytes_per_device"):
                self.assertEqual(param[key], other[key], (what, name))
        return len(first["params"])

    def random_params(self, rng, mesh, separator):
        params, logical = {}, {}
        for i in range(8):
            case = random_shardings.random_case(rng, mesh)
            for layer in range(rng.randint(1, 2)):
                name = separator.join(["m", str(layer), f"w{i}", "kernel"])
                params[name] = (case["shape"], case["spec"])
                # A name for every dimension of every kind: any plan has rules.
                logical[name] = [f"n{i}_{d}" for d in range(len(
                    case["shape"]))]
        return params, logical

    def test_every_format_over_random_plans(self):
        rng, compared = random.Random(160), dict.fromkeys(
            (f[0] + " ".join(f[2]) for f in FORMATS), 0)
        for number in range(PLANS):
            mesh = random_shardings.random_mesh(rng)
            separator = "./"[number % 2]
            params, logical = self.random_params(rng, mesh, separator)
            manifest = self.manifest(params, separator)
            mesh_file = self.path("mesh.yaml", {"axes": mesh})
            first = self.plan(mesh_file, self.rules(params, separator),
                              manifest, "first.json")
            names = ["--names", self.path("names.json", logical)]
            for out, into, flags, more, needs_mesh in FORMATS:
                named = names if out == "maxtext" else []
                text = self.path("exported")
                self.check(run("export", out, "--plan",
                               self.path("first.json"), "-o", text, *flags,
                               *named), 0)
                self.check(back(
                    into, text, "-o", self.path("back.yaml"),
                    "--manifest", manifest, *more, *named,
                    *(["--mesh", mesh_file] if needs_mesh else [])), 0)
                second = self.plan(mesh_file, self.path("back.yaml"), manifest,
                                   "second.json")
                compared[out + " ".join(flags)] += self.same(
                    first, second, mesh, (out, flags))
        for form, count in compared.items():
            self.assertGreater(count, 8 * PLANS, form)

    def test_names_that_look_like_paths(self):
        names = ("0", "[0]", "[1][2]", "['a']", '["a"]', ".a", "a[0].b",
                 "x['y", "value", "[0].value", "\U0001f600")
        params = {name: ([4, 2 * i + 2], [["x"], None])
                  for i, name in enumerate(names)}
        manifest = self.manifest(params)
        first = self.plan("x:2", self.rules(params), manifest, "first.json")
        for out, into, flags, more, needs_mesh in FORMATS:
            if out == "maxtext":
                continue  # its file has paths of a tree
            with self.subTest(out, flags=flags):
                text = self.path("exported")
                self.check(run("export", out, "--plan",
                               self.path("first.json"), "-o", text, *flags), 0)
                self.check(back(
                    into, text, "-o", self.path("back.yaml"),
                    "--manifest", manifest, *more,
                    *(["--mesh", "x:2"] if needs_mesh else [])), 0)
                second = self.plan("x:2", self.path("back.yaml"), manifest,
                                   "second.json")
                self.same(first, second, {"x": 2}, out)

    def test_shapes_of_transformers_plans(self):
        """Modules whose cuts have a style come back along its one axis."""
        rng, compared = random.Random(161), 0
        for _ in range(PLANS):
            tp = rng.choice([1, 2, 4])
            params = {}
            for i, kind in enumerate(rng.choices(
                    ("colwise", "rowwise", "whole", "embed", "lm_head",
                     "experts"), k=8)):
                params.update(self.module(rng, kind, i))
            manifest, mesh = self.manifest(params), f"dp:2,tp:{tp}"
            first = self.plan(mesh, self.rules(params), manifest, "first.json")
            done = self.check(run(
                "export", "hf-tp-plan", "--plan", self.path("first.json"),
                "-o", self.path("tp.json")), 0)
            self.assertEqual(done.err, "")
            self.check(run("import", "hf-tp-plan", self.path("tp.json"),
                           "--contiguous", "-o", self.path("back.yaml"), "--manifest",
                           manifest), 0)
            second = self.plan(mesh, self.path("back.yaml"), manifest,
                               "second.json")
            compared += self.same(first, second, {"dp": 2, "tp": tp}, "hf")
        self.assertGreater(compared, 15 * PLANS)

    def module(self, rng, kind, i):
        """Its parameters in two layers."""
        # Names of modules of transformers: those of others have no style.
        module = {"colwise": f"mlp.{i}.up_proj", "whole": f"mlp.{i}.gate_proj",
                  "rowwise": f"mlp.{i}.down_proj"}.get(kind, f"{kind}{i}")
        out = {}
        for layer in range(2):
            stem = f"model.layers.{layer}.{module}"
            if kind == "embed":
                cut = rng.choice([["tp", None], [None, "tp"]]
                                 ) if layer == 0 else cut
                out[f"{stem}.weight"] = ([16, 8], cut)
                continue
            if kind == "experts":
                cut = rng.choice([[None, "tp", None], [None, None, "tp"]]
                                 ) if layer == 0 else cut
                out[f"model.layers.{layer}.moe{i}.experts.down_proj"] = (
                    [4, 8, 16], cut)
                continue
            if kind == "lm_head":
                if layer == 0:
                    out["lm_head.weight"] = ([16, 8], ["tp", None])
                continue
            weight, bias = {"colwise": (["tp", None], ["tp"]),
                            "rowwise": ([None, "tp"], []),
                            "whole": ([], [])}[kind]
            out[f"{stem}.weight"] = ([16, 8], weight)
            if i % 2:
                out[f"{stem}.bias"] = ([16], bias)
        return out

    def test_axes_of_eformer_come_back(self):
        rng, compared = random.Random(162), 0
        tokens = ["BATCH", "HEAD", "KV_HEAD", "MLP_INTERMEDIATE", "VOCAB",
                  "EMBED", "EXPERT", "KV_LENGTH", "[FSDP, SP]", "TP"]
        rule_names = ["head", "kv_head", "mlp_intermediate", "vocab",
                      "hidden_state", "expert", "batch", "key_sequence",
                      "decode_head", "decode_batch"]
        mesh = {"dp": 2, "fsdp": 2, "tp": 2, "sp": 2, "ep": 2}
        mesh_text = ",".join(f"{axis}:{n}" for axis, n in mesh.items())
        for _ in range(PLANS):
            axes = {name: rng.choice([None, rng.choice(list(mesh)),
                                      rng.sample(list(mesh), 2)])
                    for name in rng.sample(rule_names, rng.randint(1, 6))}
            params = {f"w{i}": ([32, 32], f"[{rng.choice(tokens)}, null]")
                      for i in range(len(tokens))}
            manifest = self.manifest(params, "/")
            rules = self.path("rules.yaml", "version: 1\nseparator: '/'\n"
                              "policy: {illegal: shrink}\nrules:\n" + "".join(
                                  f"  - match: '^{name}$'\n    spec: {spec}\n"
                                  for name, (_, spec) in params.items()))
            own = self.path("own.yaml", {"version": 1, "axes": axes,
                                         "rules": []})
            inputs = ["--mesh", mesh_text, "--rules", own, "--rules", rules,
                      "--manifest", manifest, "--no-project"]
            first = self.plan(mesh_text, [own, rules], manifest, "a.json")
            self.check(run("export", "eformer", *inputs, "-o",
                           self.path("e.json")), 0)
            self.check(run("import", "eformer", self.path("e.json"), "-o",
                           self.path("axes.yaml")), 0)
            second = self.plan(mesh_text, [self.path("axes.yaml"), rules],
                               manifest, "b.json")
            self.assertEqual(
                {n: (p["spec"], p.get("modes"))
                 for n, p in first["params"].items()},
                {n: (p["spec"], p.get("modes"))
                 for n, p in second["params"].items()}, axes)
            compared += len(params)
        self.assertEqual(compared, PLANS * len(tokens))

    def test_a_wrong_way_back_would_be_seen(self):
        params = {"a": ([8, math.prod([2, 4])], [None, ["x", "y"]])}
        manifest, mesh = self.manifest(params), {"x": 2, "y": 4}
        first = self.plan("x:2,y:4", self.rules(params), manifest, "a.json")
        params = {"a": (params["a"][0], [None, ["y", "x"]])}
        second = self.plan("x:2,y:4", self.rules(params), manifest, "b.json")
        with self.assertRaises(AssertionError):
            self.same(first, second, mesh, "turned")


if __name__ == "__main__":
    unittest.main()
