"""The Python package: plans read, models compared, the program called. What
JAX and PyTorch recorded judges slices and placements; they are not needed."""

import ast
import collections
import copy
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
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
import shardc.__main__  # noqa: E402
import shardc.manifest  # noqa: E402
from shardc.placement import splits_of  # noqa: E402

PLAN = os.path.join(ROOT, "examples", "llama3-8b", "v5e-64.plan.json")
MODELS = os.path.join(ROOT, "testdata", "models")
LLAMA = os.path.join(MODELS, "llama-3-8b.hf.manifest.json")


def array(*shape, dtype="float32"):
    """What a framework's array shows of itself."""
    return types.SimpleNamespace(
        shape=shape, dtype=types.SimpleNamespace(name=dtype))


def plan_of(axes, params, **mesh):
    sizes = list(axes.values())
    devices = 1
    for size in sizes:
        devices *= size
    return shardc.Plan({
        "schema": "shardc.plan/v1", "fingerprint": "sha256:" + "0" * 64,
        "mesh": {"axes": [{"name": name, "size": size, "type": "auto"}
                          for name, size in axes.items()],
                 "devices": devices, **mesh},
        "modes": ["train"], "rules": [], "params": params, "attention": {},
        "summary": {"params": len(params), "elements": 0, "bytes": 0,
                    "bytes_per_device": 0, "unmatched": 0, "corrected": 0}})


def param(shape, spec, shard_shape, **more):
    return {"shape": list(shape), "dtype": "F32", "spec": spec, "rule": 0,
            "shard_shape": list(shard_shape), "bytes_per_device": 0, **more}



class Names(unittest.TestCase):
    def test_a_name_that_the_package_lacks_leads_to_what_is_there(self):
        # pylint: disable-next=protected-access
        for name, written in shardc._WRITTEN.items():
            with self.assertRaisesRegex(AttributeError, re.escape(written)):
                getattr(shardc, name)
            owner, _, attribute = written.split("(")[0].rpartition(".")
            of = {"plan": shardc.Plan, "shardc": shardc,
                  "shardc.Plan": shardc.Plan}.get(owner)
            if of is None:
                of = getattr(shardc, owner.split(".")[1])
            self.assertTrue(callable(getattr(of, attribute)), written)
        with self.assertRaisesRegex(AttributeError, "no attribute 'foo'$"):
            shardc.foo  # pylint: disable=pointless-statement,no-member


    def test_arguments_that_do_not_fit_lead_to_what_does(self):
        for call, words in (
                (lambda: shardc.compile(mesh="tp:2", batch=8), "plan.cost(batch=8)"),
                (lambda: shardc.compile("fsdp:4", "rules.yaml", LLAMA),
                 "rules=\"rules.yaml\""),
                (lambda: shardc.compile(rule="rules.yaml"), "did you mean rules?"),
                (lambda: shardc.check("rules.yaml"), "shardc.check(mesh=")):
            with self.assertRaisesRegex(TypeError, re.escape(words)):
                call()
        with self.assertRaisesRegex(KeyError, "the plan's names are such as w"):
            _ = plan_of({"tp": 2}, {"w": param([4], [], [4])})["nope"]


class Plans(unittest.TestCase):
    def test_a_plan_as_people_read_it(self):
        plan = shardc.Plan.load(PLAN)
        self.assertEqual(len(plan), 291)
        self.assertEqual(plan.mesh.shape, (2, 8, 4))
        self.assertEqual(repr(plan),
                         "Plan(dp=2 fsdp=8 tp=4; 291 parameters)")
        self.assertEqual(plan.summary.params, 291)
        q = plan["model.layers.0.self_attn.q_proj.weight"]
        self.assertEqual(q.spec("decode"), ("tp", "fsdp"))
        self.assertEqual(q.shape, (4096, 4096))
        self.assertEqual(q.shard_shape, (1024, 512))
        self.assertEqual(q.bytes_per_device, 1024 * 512 * 2)
        self.assertEqual(q.slices(5), (slice(1024, 2048), slice(512, 1024)))
        self.assertEqual(plan.rules[q.rule]["match"],
                         "self_attn\\.q_proj\\.weight$")
        self.assertEqual(plan.attention("decode")["query"][2], "tp")
        self.assertEqual(plan, shardc.Plan.load(PLAN))
        self.assertEqual(len({plan, shardc.Plan.load(PLAN)}), 1)

    def test_layers_are_folded(self):
        folded = {f.template: f for f in shardc.Plan.load(PLAN).folded()}
        self.assertEqual(len(folded), 12)
        up = folded["model.layers.*.mlp.up_proj.weight"]
        self.assertEqual(len(up.names), 32)
        self.assertEqual(up.parameter.name, up.names[0])
        self.assertEqual(shardc.fold("h.10/w2.3b/4"), "h.*/w2.3b/*")

    def test_an_error_is_reported(self):
        plan = shardc.Plan.load(PLAN)
        with self.assertRaisesRegex(KeyError, "did you mean model.norm.weight"):
            plan["model.nrm.weight"]
        with self.assertRaisesRegex(ValueError, "'serve' is no mode: train"):
            plan["model.norm.weight"].spec("serve")
        with self.assertRaisesRegex(IndexError, "device 64 of 64"):
            plan["model.norm.weight"].slices(64)
        with self.assertRaisesRegex(shardc.PlanError, "is no plan"):
            shardc.Plan.load(LLAMA)
        with self.assertRaisesRegex(shardc.PlanError, "is no JSON"):
            shardc.Plan.load(os.path.join(ROOT, "README.md"))
        with self.assertRaises(KeyError):
            plan.mesh.size("ep")
        with self.assertRaises(KeyError):
            plan[3]
        self.assertIsNone(plan.get("model.nrm.weight"))
        with self.assertRaisesRegex(IndexError, "tp 4 of 4"):
            plan.mesh.device_at({"dp": 0, "fsdp": 0, "tp": 4})
        for text in ("", "{", "\xff", "[" * 100000, "[]", "null", "{}"):
            with self.assertRaisesRegex(shardc.PlanError, "this is no"):
                shardc.Plan.loads(text)
        whole = {key: plan.data[key] for key in plan.data}
        for key in ("mesh", "modes", "rules", "params", "summary"):
            for broken in ({}, {key: 3}):
                with self.assertRaisesRegex(shardc.PlanError, "this is no"):
                    rest = {k: v for k, v in whole.items() if k != key}
                    shardc.Plan({**rest, **broken})
        nameless = plan_of({"tp": 2}, {"w": param([4], ["tp"], [2])})
        nameless._params["w"]["shard_shape"] = None
        with self.assertRaisesRegex(shardc.PlanError, "knows no shape of w"):
            nameless["w"].slices(0)

    def test_a_mode_that_was_not_planned_has_no_spec(self):
        """Not that of training, which a decoding program would then use."""
        plan = plan_of({"tp": 2}, {"w": param([4], ["tp"], [2])})
        for ask in (plan["w"].spec, plan["w"].shard_shape_in,
                    plan["w"].bytes_per_device_in, plan.attention,
                    lambda mode: plan["w"].slices(0, mode)):
            with self.assertRaisesRegex(shardc.PlanError,
                                        "no mode 'decode': train"):
                ask("decode")

    def test_slices_are_those_that_jax_recorded(self):
        cases = records.load("jax/shardings")["cases"]
        self.assertGreater(len(cases), 500)
        for case in cases:
            plan = plan_of(case["mesh"], {
                "w": param(case["shape"], case["spec"], case["shard_shape"])})
            w = plan["w"]
            got = [[part.start for part in w.slices(device)]
                   for device in range(plan.mesh.devices)]
            self.assertEqual(got, case["offsets"], case)

    def test_placements_are_those_that_pytorch_recorded(self):
        cases = records.load("dtensor/shardings")["cases"]
        self.assertGreater(len(cases), 500)
        for case in cases:
            plan = plan_of(case["mesh"], {
                "w": param(case["shape"], case["spec"], case["shard_shape"])})
            got = []
            for split in splits_of(plan["w"].spec(), plan.mesh):
                if split is None:
                    got.append("R")
                else:
                    got.append(f"S({split[0]})" if split[1] == 1
                               else f"_S({split[0]}, {split[1]})")
            self.assertEqual(got, case["placements"], case)

    def test_devices_of_several_slices_are_where_jax_puts_them(self):
        for case in records.load("jax/slice_meshes")["cases"]:
            outer, shape = case["outer"], case["shape"]
            slices = 1
            for factor in outer:
                slices *= factor
            axes = {f"x{i}": size for i, size in enumerate(shape)}
            mesh = plan_of(axes, {}, slices=slices, dcn=outer).mesh
            for place, device in enumerate(case["devices"]):
                at, rest = {}, place
                for name, size in reversed(list(axes.items())):
                    at[name], rest = rest % size, rest // size
                self.assertEqual(mesh.device_at(at), device)
                self.assertEqual(mesh.coordinates(device), at)

    def test_a_placed_parameter_is_on_its_coordinate_alone(self):
        plan = plan_of({"ep": 2, "tp": 2}, {"w": param(
            [4], ["tp"], [2], placement={"axis": "ep", "coordinate": 1})})
        self.assertEqual([plan["w"].slices(d) for d in range(4)],
                         [None, None, (slice(0, 2),), (slice(2, 4),)])
        self.assertEqual(plan["w"].placement, shardc.Placement("ep", 1))

    def test_parts_of_a_dimension_are_no_slice(self):
        plan = plan_of({"tp": 2}, {
            "w": param([16, 4], ["tp"], [8, 4], parts=[[8, 4, 4], 2]),
            "v": param([4, 16], [None, "tp"], [4, 8], parts=[None, 2])})
        self.assertEqual(plan["w"].parts_in(), {0: (8, 4, 4)})
        self.assertEqual(plan["v"].parts_in(), {1: 2})
        with self.assertRaisesRegex(
                shardc.PlanError, r"a range of each of the parts \(8, 4, 4\) of "
                "dimension 0 of w, which is no slice"):
            plan["w"].slices(0)
        with self.assertRaisesRegex(shardc.PlanError, "of 2 parts of dimension 1"):
            plan["v"].slices(0)


class Modules(unittest.TestCase):
    def test_no_module_imports_itself_through_others(self):
        imports = {}
        folder = os.path.dirname(shardc.__file__)
        for file in sorted(os.listdir(folder)):
            if file.endswith(".py") and not file.startswith("__"):
                with open(os.path.join(folder, file), encoding="utf-8") as text:
                    tree = ast.parse(text.read())
                # Imports inside functions and for type checkers count too.
                imports[f"shardc.{file[:-3]}"] = set(self.imported(tree))
        done = set()
        while len(done) < len(imports):
            free = {name for name, used in imports.items()
                    if name not in done and not used & imports.keys() - done}
            self.assertTrue(free, imports.keys() - done)
            done |= free
        for name in ("jax", "torch"):
            self.assertNotIn("shardc.plan", imports[f"shardc.{name}"])

    @staticmethod
    def imported(tree):
        """The names of modules, and of what is imported from them."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield node.module
                yield from (f"{node.module}.{alias.name}"
                            for alias in node.names)


class Models(unittest.TestCase):
    def setUp(self):
        self.plan = plan_of({"tp": 2}, {
            "layers/0/w": param([4, 2], ["tp"], [2, 2]),
            "layers/1/w": param([4, 2], ["tp"], [2, 2]),
            "norm": param([2], [None], [2])})

    def differences(self, model, **more):
        return [str(d) for d in self.plan.check(model, **more)]

    def test_trees_of_any_make(self):
        nested = {"layers": [{"w": array(4, 2)}, {"w": array(4, 2)}],
                  "norm": array(2)}
        for model in (nested, {"params": nested},
                      {"layers/0/w": array(4, 2), "layers/1/w": array(4, 2),
                       "norm": array(2)},
                      {"layers": {"0": {"w": {"value": array(4, 2)}},
                                  "1": {"w": {"value": array(4, 2)}}},
                       "norm": {"value": array(2)}}):
            self.assertEqual(self.differences(model), [])

    def test_a_module_of_pytorch(self):
        class Module:
            def named_parameters(self):
                yield "layers.0.w", array(4, 2)
                yield "layers.1.w", array(4, 2)
                yield "norm", array(2)
        self.assertEqual(self.differences(Module()), [])
        made = shardc.manifest.manifest(Module())
        self.assertEqual(list(made["params"]),
                         ["layers.0.w", "layers.1.w", "norm"])

    def test_buffers_and_second_names_count_where_the_plan_has_them(self):
        class Module:
            def named_parameters(self, remove_duplicate=True):
                yield "layers.0.w", array(4, 2)
                if not remove_duplicate:
                    yield "layers.1.w", array(4, 2)
                    yield "tied.w", array(4, 2)
            def named_buffers(self, remove_duplicate=True):
                yield "norm", array(3)
                yield "mask", array(9)

        self.assertEqual(self.differences(Module()), [
            "norm: shape [2] in the plan, [3] in the model"])

    def test_the_separator_is_the_one_of_most_names(self):
        def plan_with(*names):
            return plan_of({"tp": 2}, {n: param([2], [], [2]) for n in names})
        for names, separator in ((("a.b", "c.d", "x/y"), "."),
                                 (("a/b", "c/d", "x.y"), "/"),
                                 (("a/b", "c.d"), "/"), (("w",), "/")):
            self.assertEqual(plan_with(*names).separator, separator, names)
        plan = plan_with("up.weight", "up.bias", "in/out")
        model = {"up": {"weight": array(2), "bias": array(2)},
                 "in/out": array(2)}
        self.assertEqual(plan.check(model), [])

    def test_named_tuples(self):
        pair = collections.namedtuple("Model", ["layers", "norm"])
        self.assertEqual(self.differences(
            pair([{"w": array(4, 2)}, {"w": array(4, 2)}], array(2))), [])

    def test_a_large_model_is_compared_in_one_pass(self):
        """Names are read once, and of identical layers one is looked up."""
        count = 3000
        plan = plan_of({"tp": 2}, {
            f"layers.{i}.{name}": param([2], [], [2])
            for i in range(count) for name in ("w", "b")})
        model = {f"layers.{i}.weigth": array(2) for i in range(count)}
        with mock.patch("shardc.names.separator_of",
                        wraps=shardc.names.separator_of) as separators, \
                mock.patch("difflib.get_close_matches",
                           return_value=["layers.*.w"]) as close:
            found = plan.check(model)
        self.assertEqual((separators.call_count, close.call_count), (1, 1))
        self.assertEqual(str(found[7]), "layers.7.weigth: in the model, not "
                         "in the plan; did you mean layers.7.w?")
        self.assertEqual(len(found), 3 * count)
        # Where nothing folds, only so many are looked up.
        plan = plan_of({"tp": 2}, {f"w{i}x": param([2], [], [2])
                                   for i in range(count)})
        with mock.patch("difflib.get_close_matches",
                        return_value=[]) as close:
            plan.check({f"v{i}y": array(2) for i in range(count)})
        self.assertLess(close.call_count, 10)

    def test_differences(self):
        model = {"layers": [{"w": array(4, 3)}], "nrm": array(2),
                 "norm": array(2, dtype="bfloat16"), "step": 3, "none": None}
        self.assertEqual(self.differences(model), [
            "layers/0/w: shape [4, 2] in the plan, [4, 3] in the model",
            "nrm: in the model, not in the plan; did you mean norm?",
            "norm: dtype F32 in the plan, BF16 in the model",
            "layers/1/w: in the plan, not in the model"])
        self.assertEqual(len(self.differences(model, dtypes=False)), 3)


class Program(unittest.TestCase):
    def test_compile_check_and_verify(self):
        inputs = {"mesh": "fsdp:8,tp:4", "rules": "builtin:llama",
                  "manifest": LLAMA}
        plan = shardc.compile(**inputs, arguments=["--modes", "train,decode"])
        self.assertEqual(plan.modes, ("train", "decode"))
        self.assertEqual(shardc.check(**inputs), [])
        inputs["mesh"] = "fsdp:8,tp:6"
        errors = [f for f in shardc.check(**inputs) if f.level == "error"]
        self.assertTrue(errors)
        self.assertRegex(str(errors[0]), r"^builtin:llama/hf:\d+:\d+: error\[")
        self.assertTrue(errors[0].help)
        verified = shardc.verify(
            mesh="dp:2,tp:2", attention="heads=4,kv_heads=2,head_dim=16",
            arguments=["--operation", "vanilla", "--mode", "train"])
        self.assertTrue(verified)
        self.assertEqual(verified.failed, 0)

    def test_inputs_in_the_terms_of_a_framework(self):
        jax_mesh = types.SimpleNamespace(
            axis_names=("fsdp", "tp"), shape={"fsdp": 4, "tp": 2},
            axis_types=(types.SimpleNamespace(name="Auto"),) * 2)
        torch_mesh = types.SimpleNamespace(
            mesh_dim_names=("fsdp", "tp"), shape=(4, 2))
        tree = {"layers": [
            {"up": array(64, 256), "down": array(256, 64)} for _ in range(2)]}
        rules = [("/up$", ("fsdp", "tp")), ("/down$", [("tp", "fsdp")]),
                 (".*", ())]
        plans = [shardc.compile(tree, mesh=mesh, rules=rules)
                 for mesh in (jax_mesh, torch_mesh, {"fsdp": 4, "tp": 2},
                              "fsdp:4,tp:2")]
        for plan in plans:
            self.assertEqual(
                [plan[f"layers/1/{name}"].spec() for name in ("up", "down")],
                [("fsdp", "tp"), (("tp", "fsdp"), None)])
            self.assertEqual(plan.mesh, plans[0].mesh)
        several = shardc.compile(tree, rules=rules, mesh={
            "axes": {"fsdp": 4, "tp": 2}, "slices": 2, "dcn": {"fsdp": 2},
            "axis_types": {"tp": "explicit"}, "processes": 2})
        again = shardc.compile(tree, mesh=several.mesh, rules=rules)
        self.assertEqual(again.mesh, several.mesh)
        self.assertEqual(again.mesh.slices, 2)
        manual = types.SimpleNamespace(
            axis_names=("x",), shape=(2,),
            axis_types=(types.SimpleNamespace(name="Explicit"),))
        self.assertEqual(
            [axis.type for axis in shardc.compile(
                tree, mesh=manual, rules=[(".*", ("x",))]).mesh.axes],
            ["explicit"])
        for wrong, kind in (({"mesh": 3, "rules": rules}, "mesh"),
                            ({"mesh": "tp:2", "rules": [("a", 1, 2)]}, "pair"),
                            ({"mesh": "tp:2", "rules": [("a", (3,))]}, "axis")):
            with self.assertRaisesRegex(TypeError, kind):
                shardc.compile(tree, **wrong)

    def test_errors_name_the_callers_arguments(self):
        """Not a file of a folder that is gone."""
        tree = {"up": array(64, 256)}
        pairs = [(re.compile("/down$"), ("tp",)), ("up(", ("fsdp", "tp"))]
        for call in (lambda: shardc.compile(tree, mesh="fsdp:4,tp:2",
                                            rules=pairs),
                     lambda: shardc.check(mesh="fsdp:4,tp:2", rules=pairs,
                                          manifest=LLAMA)):
            try:
                found = call()
            except shardc.ShardcError as error:
                found = error.findings
                self.assertNotIn(tempfile.gettempdir(), str(error))
            self.assertEqual([one.file for one in found], ["rules[1]"])
        with self.assertRaisesRegex(shardc.ShardcError, "argument `mesh`"):
            shardc.compile(tree, mesh={"axes": {"tp": 2}, "device": "nope"},
                           rules=[(".*", ())])
        for rules, said in (
                ([("a", ()), ("b", None)], r"rules\[1\] \('b'\) is None"),
                ([("a", ()), 7], r"rules\[1\] is 7"),
                ([(3, ())], r"pattern of rules\[0\] is 3"),
                (7, "not 7")):
            with self.assertRaisesRegex(TypeError, said):
                shardc.compile(tree, mesh="tp:2", rules=rules)
        plan = plan_of({"tp": 2}, {})
        for call in (plan.diff, shardc.cost):
            with self.assertRaisesRegex(TypeError, "None is no plan"):
                call(None)

    def test_rules_are_suggested_for_a_model_of_ones_own(self):
        config = {"model_type": "llama", "hidden_size": 64,
                  "intermediate_size": 128, "num_hidden_layers": 2,
                  "num_attention_heads": 4, "num_key_value_heads": 2,
                  "vocab_size": 256}
        plan = shardc.compile(config, mesh={"tp": 2}, rules="auto")
        self.assertEqual(
            plan["model.layers.1.mlp.up_proj.weight"].spec()[0], "tp")
        tree = {"blocks": [{"fc_in": {"kernel": array(64, 256)},
                            "fc_out": {"kernel": array(256, 64)}}
                           for _ in range(3)]}
        own = shardc.compile(tree, mesh={"fsdp": 2, "tp": 2}, rules="auto")
        self.assertEqual(own["blocks/2/fc_in/kernel"].spec(), ("fsdp", "tp"))
        self.assertIn("fc_in", shardc.suggest(tree, mesh="fsdp:2,tp:2"))
        self.assertEqual(shardc.resolve(["BATCH", "_"], "decode"),
                         (("fsdp", "dp"), None))
        given = {"batch": 8, "seq": 64, "profile": "h100-sxm"}
        cost = shardc.cost(config, mesh={"dp": 2}, **given)
        found = shardc.search(config, devices=2, prove=0, **given)
        self.assertGreater(cost["memory"]["total"], 0)
        self.assertIn(found["winner"]["mesh"], ({"dp": 2}, {"fsdp": 2},
                                                {"tp": 2}))

    def test_findings_name_their_targets(self):
        with tempfile.TemporaryDirectory() as folder:
            project = os.path.join(folder, "shardc.yaml")
            with open(project, "w", encoding="utf-8") as file:
                file.write("version: 1\ntargets:\n  one: {mesh: 'tp:6', rules: "
                           f"auto, manifest: '{LLAMA}'}}\n")
            found = shardc.check(project=project,
                                 arguments=["--allow-outside"])
            self.assertEqual({f.targets for f in found}, {("one",)})

    def test_errors_carry_the_findings(self):
        with tempfile.TemporaryDirectory() as folder:
            rules = os.path.join(folder, "rules.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\nrules:\n  - match: 'a('\n    spec: []\n")
            for call in (shardc.compile, shardc.check):
                with self.assertRaises(shardc.ShardcError) as caught:
                    call(mesh="tp:4", rules=[rules], manifest=LLAMA)
                finding = caught.exception.findings[0]
                self.assertEqual((finding.code, finding.name, finding.level),
                                 ("SHD030", "regex-syntax", "error"))
                self.assertEqual((finding.file, finding.line), (rules, 3))
                self.assertIn("close the group", finding.help)
                self.assertEqual(caught.exception.returncode, 2)

    def test_the_program_runs_as_a_module(self):
        env = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"))
        done = subprocess.run([sys.executable, "-m", "shardc", "--version"],
                              env=env, capture_output=True, text=True,
                              check=True)
        self.assertRegex(done.stdout, r"\d+\.\d+\.\d+")
        self.assertEqual(shardc.run(["--version"]).stdout, done.stdout)
        env.update(SHARDC="", PATH="")
        done = subprocess.run([sys.executable, "-m", "shardc"], env=env,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("neither next to this Python nor on PATH", done.stderr)

    def test_the_program_is_found_where_pip_puts_it(self):
        """By --target next to the package, by --prefix three folders up."""
        with tempfile.TemporaryDirectory() as folder:
            folder = os.path.realpath(folder)
            for package, up in (("", ""), ("lib/python3/site-packages",
                                           "../../..")):
                home = os.path.join(folder, package)
                shutil.copytree(os.path.join(ROOT, "python", "shardc"),
                                os.path.join(home, "shardc"))
                program = os.path.normpath(
                    os.path.join(home, up, "bin", "shardc"))
                os.makedirs(os.path.dirname(program), exist_ok=True)
                os.symlink(os.environ["SHARDC"], program)
                done = subprocess.run(
                    [sys.executable, "-m", "shardc", "--version"],
                    env={"PYTHONPATH": home, "PATH": ""}, check=False,
                    capture_output=True, text=True)
                self.assertEqual(done.stdout, shardc.run(["--version"]).stdout,
                                 done.stderr)
                os.remove(program)

    def test_nothing_is_imported_that_is_not_used(self):
        code = ("import sys, shardc; shardc.Plan.load(sys.argv[1]);"
                "print([m for m in ('jax', 'torch', 'numpy', 'flax') "
                "if m in sys.modules])")
        done = subprocess.run(
            [sys.executable, "-c", code, PLAN], check=True, text=True,
            capture_output=True,
            env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python")))
        self.assertEqual(done.stdout, "[]\n")

    def test_every_listed_name_exists(self):
        for name in shardc.__all__:
            self.assertTrue(hasattr(shardc, name), name)
        with open(os.path.join(ROOT, "pyproject.toml"),
                  encoding="utf-8") as file:
            self.assertRegex(file.read(), re.escape('name = "shardc"'))


class Manifest(unittest.TestCase):
    def test_a_factory_is_written_out(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "models.py"), "w",
                      encoding="utf-8") as file:
                file.write(
                    "from types import SimpleNamespace as N\n"
                    "def array(*s):\n"
                    "    return N(shape=s, dtype=N(name='bfloat16'))\n"
                    "def build():\n"
                    "    return {'layers': [{'w': array(4, 2)}]}\n"
                    "def nothing():\n    return {}\n"
                    "def init(key):\n    return {}\n")
            out = os.path.join(folder, "manifest.json")

            def main(*arguments, status=0):
                done = subprocess.run(
                    [sys.executable, "-m", "shardc.manifest", *arguments],
                    cwd=folder, capture_output=True, text=True, check=False,
                    env=dict(os.environ,
                             PYTHONPATH=os.path.join(ROOT, "python")))
                self.assertEqual(done.returncode, status, done.stderr)
                return done

            main("models:build", "-o", out)
            with open(out, encoding="utf-8") as file:
                made = json.load(file)
            self.assertEqual(made["params"], {
                "layers/0/w": {"shape": [4, 2], "dtype": "BF16"}})
            self.assertEqual(json.loads(main("models:build").stdout), made)
            plan = shardc.compile(
                mesh="tp:2", manifest=out, rules=self.rules(folder))
            self.assertEqual(plan["layers/0/w"].spec(), ("tp", None))
            for wrong, said in (("models", "write MODULE:FACTORY"),
                                ("models:none", "`models` has no `none`; it "
                                 "defines `array`, `build`, `nothing`, `init`"),
                                ("models:biuld", "did you mean `build`?"),
                                ("models.py:build", "write the module's name: "
                                 "models:build"),
                                ("models:init", "is called without arguments: "),
                                ("models:init", "`(function, params, batch)` "
                                 "for shardc.program, a model"),
                                ("nowhere:build", "nowhere"),
                                ("models:nothing", "gives no arrays")):
                self.assertIn(said, main(wrong, status=2).stderr)

    @staticmethod
    def rules(folder):
        path = os.path.join(folder, "rules.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("version: 1\nrules:\n  - match: 'w$'\n"
                       "    spec: [tp, null]\n")
        return path


class Installed(unittest.TestCase):
    def test_every_source_is(self):
        folder = os.path.join(ROOT, "python")
        with open(os.path.join(folder, "meson.build"),
                  encoding="utf-8") as file:
            listed = set(re.findall(r"'(shardc/[\w.]+)'", file.read()))
        self.assertEqual(listed, {
            "shardc/" + name
            for name in os.listdir(os.path.join(folder, "shardc"))
            if name != "__pycache__"})


    def test_the_oldest_python_that_is_promised_reads_it(self):
        with open(os.path.join(ROOT, "pyproject.toml"),
                  encoding="utf-8") as file:
            oldest = re.search(r'requires-python = ">=3\.(\d+)"', file.read())
        folder = os.path.join(ROOT, "python", "shardc")
        for name in os.listdir(folder):
            if name.endswith(".py"):
                with open(os.path.join(folder, name),
                          encoding="utf-8") as file:
                    tree = ast.parse(file.read(), name, feature_version=(
                        3, int(oldest.group(1))))
                # Annotations stay texts: `X | None` is of 3.10.
                if any(isinstance(node, ast.BinOp)
                       and isinstance(node.op, ast.BitOr)
                       for node in ast.walk(tree)):
                    self.assertIn("annotations", [
                        name.name for node in tree.body
                        if isinstance(node, ast.ImportFrom)
                        and node.module == "__future__"
                        for name in node.names], name)


class Typed(unittest.TestCase):
    """Where they are installed, as `pip install mypy ruff` does."""

    def tool(self, name, *arguments):
        if importlib.util.find_spec(name) is None:
            self.skipTest(f"no {name}")
        done = subprocess.run([sys.executable, "-m", name, *arguments],
                              cwd=ROOT, capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_mypy(self):
        self.tool("mypy", "python/shardc")

    def test_ruff(self):
        self.tool("ruff", "check", "python")
        self.tool("ruff", "format", "--check", "python")


class Mistakes(unittest.TestCase):
    """What a beginner writes first: each error states what to write."""

    def test_modules_are_no_functions(self):
        for module, written in ((shardc.plan, r"shardc\.Plan\.load\(path\)"),
                                (shardc.mesh, "a mapping of sizes"),
                                (shardc.__getattr__("manifest"), "from_model"),
                                (shardc.__getattr__("rules"), "rules=")):
            with self.assertRaisesRegex(TypeError, "is a module and no function; "
                                        f"write .*{written}"):
                module("plan.json")

    def test_a_plan_is_loaded(self):
        with self.assertRaisesRegex(shardc.PlanError, "write Plan.load"):
            shardc.Plan("plan.json")
        with self.assertRaisesRegex(shardc.PlanError, "`shardc plan -o` writes"):
            shardc.Plan.loads("version: 1")

    def test_attributes_that_are_not_there(self):
        plan = shardc.Plan.load(PLAN)
        name = next(iter(plan))
        for thing, attribute, written in (
                (plan, "spec", r"plan\[name\]\.spec\(mode\)"),
                (plan, "shardings", "named_shardings"),
                (plan[name], "sharding", r"parameter\.spec\(mode\)")):
            with self.assertRaisesRegex(AttributeError, f"{attribute}'; write "
                                        f".*{written}"):
                getattr(thing, attribute)
            self.assertFalse(hasattr(thing, "no_such"))
        self.assertEqual(len(copy.deepcopy(plan)), len(plan))
        self.assertEqual(copy.copy(plan[name]).spec(), plan[name].spec())

    def test_a_name_without_some_of_its_parts(self):
        plan = plan_of({"tp": 2}, {
            f"layers.{i}.{part}.weight": param([4, 4], [None, "tp"], [4, 2])
            for i in range(2) for part in ("attn.q_proj", "mlp.up_proj")})
        with self.assertRaisesRegex(
                KeyError, r"did you mean layers\.1\.attn\.q_proj\.weight"):
            plan["layers.1.q_proj"]

    def test_a_framework_that_is_not_there(self):
        for module, framework in (("torch", "PyTorch"), ("jax", "JAX")):
            done = subprocess.run(
                [sys.executable, "-c", f"""
import sys
sys.path.insert(0, {os.path.join(ROOT, "python")!r})
sys.modules[{module!r}] = None
import shardc.{module}
"""], capture_output=True, text=True, check=False)
            self.assertIn(f"shardc.{module} needs {framework}", done.stderr)

    def test_meshes_and_rules_in_other_forms(self):
        for values, wanted in (
                ({"mesh": (4, 2), "rules": "auto"}, "write mesh={'fsdp': 4"),
                ({"mesh": {"tp": 2}, "rules": ["q_proj", "k_proj"]},
                 "write its spec too"),
                ({"mesh": {"tp": 2}, "rules": {"q_proj": "tp"}},
                 r"write them as pairs, such as rules=\[\('q_proj'")):
            with self.assertRaisesRegex(TypeError, wanted):
                shardc.compile(manifest=LLAMA, **values)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
