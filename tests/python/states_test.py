"""The Python package without the frameworks: owners of the arrays of recorded
train states, manifests of stand-ins, and what the program computes of a plan."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import types
import unittest
from html.parser import HTMLParser
from unittest import mock

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))
os.environ["SHARDC"] = os.environ.get(
    "SHARDC_BIN", os.path.join(ROOT, "build", "src", "cli", "shardc"))
sys.path[:0] = [os.path.join(ROOT, "python"),
                os.path.join(ROOT, "tests", "runtimes")]

import records  # noqa: E402
import shardc  # noqa: E402
from shardc.arrays import Array, Arrays, check_mesh, nested  # noqa: E402
from shardc.manifest import ManifestError, from_model, manifest  # noqa: E402

PLAN = os.path.join(ROOT, "examples", "llama3-8b", "v5e-64.plan.json")
LLAMA = os.path.join(ROOT, "testdata", "models", "llama-3-8b.hf.manifest.json")


def array(*shape, dtype="float32"):
    return types.SimpleNamespace(
        shape=shape, dtype=types.SimpleNamespace(name=dtype))


def owners(params, arrays, **more):
    return Arrays(params, "/").owners(
        [Array(tuple(path.split("/")), tuple(shape)) for path, shape
         in arrays.items()], **more)


class Owners(unittest.TestCase):
    def check_recorded(self, recorded):
        compared = 0
        for case in recorded["cases"]:
            found = Arrays(case["params"], "/").owners([
                Array(tuple(one["path"]), tuple(one["shape"]),
                      one["dtype"] != "uint32") for one in case["arrays"]])
            for one, owner in zip(case["arrays"], found):
                name = owner.name if owner else None
                size = 1
                for n in one["shape"]:
                    size *= n
                # optax counts placeholders of size 1 as their parameter's.
                if name is not None or size > 1:
                    self.assertEqual(name, one["owner"],
                                     (case["system"], one))
                    compared += 1
        return compared

    def test_recorded_states_belong_to_the_parameters_that_optax_names(self):
        recorded = records.load("states/optax")
        self.assertGreater(len(recorded["cases"]), 40)
        self.assertGreater(self.check_recorded(recorded), 700)

    def test_another_owner_is_detected(self):
        recorded = records.load("states/optax")
        one = recorded["cases"][0]["arrays"][-1]
        one["owner"] = recorded["cases"][0]["arrays"][0]["owner"]
        with self.assertRaises(AssertionError):
            self.check_recorded(recorded)

    def test_dimensions_of_factored_moments_and_histories(self):
        params = {"w": (8, 16), "s": (8, 8), "e": (4, 8, 16)}
        for shape, name, spec in (
                ((8, 16), "w", ("a", "b")), ((8,), "w", ("a",)),
                ((16,), "w", ("b",)), ((8, 1), "w", ("a", None)),
                ((3, 8, 16), "w", (None, "a", "b")), ((5,), "w", ()),
                ((8,), "s", ()), ((4, 16), "e", ("a", "c"))):
            (_, owner) = owners(params, {"p/w": (8, 16), "o/v/" + name: shape})
            spec_of = {"w": ("a", "b"), "s": ("a", "b"), "e": ("a", "b", "c")}
            found = owner.spec(spec_of[owner.name]) if owner else ()
            self.assertEqual(found, spec, (shape, name))
        # Where both dimensions have one sharding, the way does not matter.
        (_, owner) = owners(params, {"p/w": (8, 16), "o/v/s": (8,)})
        self.assertEqual(owner.spec(("a", "a")), ("a",))

    def test_the_longest_name_that_a_path_ends_with(self):
        (one, other) = owners({"kernel": (4,), "up/kernel": (4,)},
                              {"mu/up/kernel": (4,), "mu/kernel": (4,)})
        self.assertEqual((one.name, other.name), ("up/kernel", "kernel"))

    def test_state_next_to_the_parameters_is_replicated(self):
        found = owners({"up/kernel": (4, 4)}, {
            "params/up/kernel": (4, 4), "batch_stats/up/mean": (4,),
            "step": ()})
        self.assertEqual([owner and owner.name for owner in found],
                         ["up/kernel", None, None])

    def test_what_the_parameters_lack_is_an_error(self):
        params = {"up/kernel": (4, 4), "up/bias": (4,)}
        for arrays, said in (
                ({"up/kernel": (4, 4), "up/bia": (4,)}, "no parameter up/bia"),
                ({"p/up/kernel": (4, 4), "p/up/bia": (4,)},
                 "no parameter p/up/bia"),
                ({"up/kernel": (4, 3)}, r"up/kernel is \[4, 4\] in the plan"),
                ({"up/kernel": ()}, r"and \[\] here"),
                ({"p/up/kernel": (4, 4), "p/up/bias": (3,)}, r"and \[3\] here"),
                ({"v": (1,)}, "no parameter v"),
                ({"v": (3,)}, "no parameter v")):
            with self.assertRaisesRegex((KeyError, ValueError), said):
                owners(params, arrays)
        self.assertEqual(owners(params, {"v": (3,)}, replicate=True), [None])
        with self.assertRaises(ValueError):
            owners(params, {"up/kernel": (4, 3)}, replicate=True)

    def test_the_mesh_is_the_plans(self):
        def mesh(**axes):
            return types.SimpleNamespace(shape=axes)

        check_mesh(mesh(dp=2, tp=4), {"dp": 2, "tp": 4})
        check_mesh(mesh(x=1, dp=2, tp=1), {"dp": 2, "tp": 1})
        for wrong in (mesh(dp=4, tp=2), mesh(tp=4, dp=2), mesh(dp=8),
                      mesh(dp=2, tp=4, x=2), mesh()):
            with self.assertRaisesRegex(ValueError, "the plan's is dp=2 tp=4"):
                check_mesh(wrong, {"dp": 2, "tp": 4})


class Manifests(unittest.TestCase):
    def test_no_parameter_is_lost(self):
        with self.assertRaisesRegex(ManifestError, "'a/b', at the paths"):
            manifest({"a/b": array(2), "a": {"b": array(3)}})
        made = manifest({"a/b": array(2), "a": {"b": array(3)}}, separator=":")
        self.assertEqual(list(made["params"]), ["a/b", "a:b"])

        class Plain:
            def __init__(self):
                self.layers = [{"w": array(2)}]

        for model in (Plain(), {"x": Plain()}, [1, Plain()]):
            with self.assertRaisesRegex(ManifestError, "no tree of JAX"):
                manifest(model)
        for model in ({}, {"step": 3}, "text"):
            with self.assertRaisesRegex(ManifestError, "gives no arrays"):
                manifest(model)

    def test_inputs_may_be_a_tuple_as_in_a_call(self):
        """(module, x), (module, (x, y)), (module, (x,), {...}), (module, pair)."""
        module = sys.modules["shardc.manifest"]

        def initialised(one, args, kwargs):
            if (len(args), sorted(kwargs)) not in one:
                raise module.ManifestError("wrong inputs")
            return args, kwargs

        kept, module._initialised = module._initialised, initialised
        self.addCleanup(setattr, module, "_initialised", kept)
        made = module._with_inputs
        self.assertEqual(made([(1, [])], ("x",)), (("x",), {}))
        self.assertEqual(made([(2, [])], (("x", "y"),)), (("x", "y"), {}))
        self.assertEqual(made([(1, ["train"])], (("x",), {"train": False})),
                         (("x",), {"train": False}))
        self.assertEqual(made([(1, [])], (("x", "y"),)), ((("x", "y"),), {}))
        with self.assertRaisesRegex(module.ManifestError, "wrong inputs"):
            made([(3, [])], (("x", "y"),))

    def test_of_a_train_state_the_parameters(self):
        params = {"up": {"w": array(2)}}
        for state in (types.SimpleNamespace(params=params, opt_state=(),
                                            step=0),
                      {"params": params, "opt_state": {"m": array(2)}},
                      {"params": params, "tx": None, "step": 3}):
            self.assertEqual(list(manifest(state)["params"]), ["up/w"])
        self.assertEqual(list(manifest(
            {"params": params, "batch_stats": {"up": {"mean": array(2)}},
             "adapters": {"w": array(2)}})["params"]),
            ["params/up/w", "adapters/w"])

    def test_a_class_of_pytorch_is_built_on_the_meta_device(self):
        torch = types.ModuleType("torch")
        entered = []

        class Device:
            def __init__(self, name):
                self.name = name

            def __enter__(self):
                entered.append(self.name)

            def __exit__(self, *_):
                entered.append("left")

        class Module:
            def named_parameters(self):
                yield "up.weight", array(self.width, 2)

        Module.__module__ = "torch.nn"
        torch.device = Device

        class Net(Module):
            def __init__(self, width):
                self.width = width

        with mock.patch.dict(sys.modules, {"torch": torch}):
            made = from_model(Net, 3)
            self.assertEqual(made["params"], {
                "up.weight": {"shape": [3, 2], "dtype": "F32"}})
            self.assertEqual(entered, ["meta", "left"])
            with self.assertRaisesRegex(ManifestError, r"Net\(width=...\)"):
                from_model(Net)

    def test_a_manifest_is_compiled_as_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            rules = os.path.join(folder, "rules.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\nrules:\n- match: w$\n  spec: [tp]\n")
            inputs = {"mesh": "tp:2", "rules": iter([rules]),
                      "manifest": manifest({"w": array(4)})}
            plan = shardc.compile(**inputs)
            self.assertEqual(plan["w"].spec(), ("tp",))
            self.assertEqual(plan.explain("w")["rule"], 0)
            inputs["rules"] = rules
            self.assertEqual([f.name for f in shardc.check(**inputs)],
                             ["tiny-sharded"])


class Page(HTMLParser):
    """The texts of a page, whose elements must be closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.texts = [], []

    def handle_starttag(self, tag, attrs):
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


class Results(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plan = shardc.Plan.load(PLAN)

    def test_cost(self):
        cost = self.plan.cost()
        self.assertEqual(cost["memory"]["parameters"],
                         self.plan.summary.bytes_per_device)
        self.assertIn("bytes per device", str(cost))
        more = self.plan.cost(batch=64, seq=4096, profile="h100-sxm",
                              optimizer="sgd")
        self.assertLess(more["memory"]["optimizer"],
                        cost["memory"]["optimizer"])
        with self.assertRaisesRegex(shardc.ShardcError, "did you mean") as it:
            self.plan.cost(bath=64)
        self.assertEqual(it.exception.findings[0].name, "usage")

    def test_diff(self):
        self.assertEqual(self.plan.diff(self.plan)["params"], [])
        self.assertEqual(self.plan.diff(PLAN)["params"], [])
        other = shardc.compile(mesh="fsdp:8,tp:8", rules="builtin:llama",
                               manifest=LLAMA)
        change = self.plan.diff(other)
        self.assertEqual(change["schema"], "shardc.diff/v1")
        self.assertIn("dp=2 fsdp=8 tp=4 -> fsdp=8 tp=8", str(change))

    def test_explain(self):
        """By the rules that the file names, or by others if they agree."""
        name = "model.norm.weight"
        found = self.plan.explain(name)
        self.assertEqual(found["param"], name)
        self.assertIn("rules tried, the first match wins", str(found))
        self.assertEqual(self.plan.explain(
            name, mesh="dp:2,fsdp:8,tp:4", manifest=LLAMA,
            rules="builtin:llama").data, found.data)
        with tempfile.TemporaryDirectory() as folder:
            rules = os.path.join(folder, "rules.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\nrules:\n- match: .*\n  spec: [tp]\n")
            with self.assertRaisesRegex(shardc.PlanError, "another|the spec"):
                self.plan.explain(name, rules=rules)
            made = shardc.compile(mesh="tp:8", rules=rules, manifest=LLAMA)
            self.assertEqual(made.explain(name)["rule"], 0)
            loaded = shardc.Plan.loads(json.dumps(made.data))
        with self.assertRaisesRegex(shardc.PlanError, "pass `rules=`"):
            loaded.explain(name)
        with self.assertRaisesRegex(KeyError, "did you mean"):
            self.plan.explain("model.nrm.weight")

    def test_report(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "report.html")
            page = self.plan.report(file, base=self.plan, batch=64)
            with open(file, encoding="utf-8") as written:
                self.assertEqual(written.read(), page)
        self.assertTrue(page.startswith("<!doctype html>") or
                        page.startswith("<!DOCTYPE html>"), page[:40])

    def test_a_notebook_shows_the_plan(self):
        page = Page()
        page.feed(self.plan._repr_html_())
        self.assertEqual(page.open, [])
        text = "".join(page.texts)
        self.assertIn("dp 2", text)
        self.assertIn("64 devices, 291 parameters (15 GiB), 479 MiB per device",
                      text)
        self.assertIn("model.layers.*.mlp.up_proj.weight", text)
        with tempfile.TemporaryDirectory() as folder:
            rules = os.path.join(folder, "rules.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\nrules:\n- match: w$\n  spec: []\n")
            made = shardc.compile(mesh="tp:1", rules=rules, manifest=manifest(
                {"<script>": {"w": array(2)}}))
        self.assertNotIn("<script", made._repr_html_())
        self.assertIn("1 device, 1 parameter (8 B)", made._repr_html_())

    def test_the_version_is_the_programs(self):
        self.assertEqual(shardc.run(["--version"]).stdout.split()[-1],
                         shardc.__version__)
        with self.assertRaises(AttributeError):
            shardc.nothing


class Exported(unittest.TestCase):
    def test_modules_hold_the_packages_source(self):
        """`shardc export jax` copies shardc/arrays.py, so one is tested."""
        text = shardc.run(["export", "jax", "--plan", PLAN]).stdout
        with open(os.path.join(ROOT, "python", "shardc", "arrays.py"),
                  encoding="utf-8") as file:
            imports, code = file.read().split(
                "# Copied into exported modules from here on.\n")
        self.assertIn(code, text)
        self.assertIn(imports[imports.index("\nimport ") + 1:], text)
        compile(text, "exported.py", "exec")
        self.assertEqual(len(re.findall(r"^SHAPES = ", text, re.M)), 1)

    def test_names_below_other_names_have_no_tree(self):
        self.assertEqual(nested({"a/b": 1, "a/c": 2, "d": 3}, "/", "no"),
                         {"a": {"b": 1, "c": 2}, "d": 3})
        for names, said in ((("a", "a/b"), "a/b is below a parameter: no"),
                            (("a/b", "a"), "other parameters are below a: no")):
            with self.assertRaisesRegex(ValueError, said):
                nested(dict.fromkeys(names), "/", "no")
        # The same in an exported module, here with stand-ins for JAX.
        modules = {name: mock.MagicMock()
                   for name in ("jax", "jax.sharding", "numpy")}
        modules["jax.sharding"].PartitionSpec = lambda *axes: axes
        for names in (("a", "a/b"), ("a/b", "a"), ("a/b", "c")):
            with tempfile.TemporaryDirectory() as folder:
                file = os.path.join(folder, "m.json")
                with open(file, "w", encoding="utf-8") as out:
                    json.dump({"schema": "shardc.manifest/v1", "params": [
                        {"name": name, "shape": [8], "dtype": "F32"}
                        for name in names]}, out)
                rules = os.path.join(folder, "r.yaml")
                with open(rules, "w", encoding="utf-8") as out:
                    out.write("rules:\n  - {match: '.', spec: [tp]}\n")
                text = shardc.run([
                    "export", "jax", "--no-project", "--mesh", "tp:2",
                    "--rules", rules, "--manifest", file]).stdout
            module = {}
            with mock.patch.dict(sys.modules, modules):
                exec(compile(text, "exported.py", "exec"), module)
            if "c" in names:
                self.assertEqual(module["tree"](),
                                 {"a": {"b": ("tp",)}, "c": ("tp",)})
            else:
                with self.assertRaisesRegex(ValueError, "below.*use specs"):
                    module["tree"]()

    def test_the_manifest_runs_as_a_program_after_the_package(self):
        """`shardc.manifest` is loaded by name without an import of its own."""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "shardc.manifest", "--help"],
            env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python")),
            capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(callable(shardc.manifest.from_model))
        self.assertIsNotNone(importlib.util.find_spec("shardc.manifest"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
