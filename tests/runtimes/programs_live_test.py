"""Programs against JAX's own values: what they compute, and what they name."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "tests", "traced"), os.path.join(ROOT, "python")]

# The package and the models must be found first.
# pylint: disable=wrong-import-position
import jax
import numpy as np

import record
from forms import FORMS
from interpreter import Interpreter
from models import FORWARD, MODELS
from shardc import manifest, program


def drawn(tree, high, seed, state=False):
    """A tree of arrays in place of their types. Integers are below `high`; those of
    a state are 3, and its other numbers are positive."""
    draws = np.random.default_rng(seed)

    def draw(x):
        if not hasattr(x, "dtype"):
            return x
        if str(x.dtype).startswith("key<"):
            return jax.random.key(seed)
        if np.issubdtype(x.dtype, np.integer):
            top = 127 if x.dtype == np.int8 else high
            data = np.full(x.shape, 3) if state else draws.integers(0, top, x.shape)
        elif x.dtype == bool:
            data = draws.integers(0, 2, x.shape)
        else:
            data = draws.uniform(0.01, 0.2, x.shape) if state else \
                draws.normal(0, 0.4, x.shape)
        return jax.numpy.asarray(data, x.dtype)

    graph, tree = program.split(tree)
    return program._merged(graph, jax.tree.map(draw, tree))


def arrays_of(tree):
    return [x for x in jax.tree.leaves(program.split(tree)[1]) if hasattr(x, "dtype")]


class Live(unittest.TestCase):
    def compare(self, fn, arguments, high=4, tolerance=1e-4, eager=False):
        """Runs the function and its program on the same numbers; returns the largest
        difference, in parts of the largest number of a result. A larger one than the
        tolerance is no more than JAX's own results change by with inputs that are
        one ulp larger, as much as 1e-4 (dit)."""
        made = program.traced(fn, arguments, "test")
        params, *state, batch = arguments
        given = [drawn(params, high, 1), *(drawn(one, high, 2, True) for one in state),
                 drawn(batch, high, 3)]
        flat = [x for one in given for x in arrays_of(one)]
        got = Interpreter(made.program, made.constants).run(flat)
        if eager:
            result = fn(*given)
            changed = [one for one in given if program.split(one)[0] is not None]
            want = [x for one in (result, *changed) for x in arrays_of(one)]
        else:
            want = jax.jit(made.function)(*flat)
        worst = self.difference(got, want)
        if worst >= tolerance and not eager:
            larger = [jax.numpy.nextafter(x, jax.numpy.inf)
                      if np.issubdtype(x.dtype, np.floating) else x for x in flat]
            tolerance = self.difference(jax.jit(made.function)(*larger), want)
        self.assertLess(worst, tolerance)
        return worst

    def difference(self, got, want):
        self.assertEqual(len(got), len(want))
        worst = 0.0
        for x, y in zip(map(np.asarray, got), map(np.asarray, want)):
            self.assertEqual(x.shape, y.shape)
            self.assertEqual(x.dtype, y.dtype)
            x, y = (one.astype(np.float64) for one in (x, y))
            self.assertTrue(np.isfinite(y).all())
            scale = max(np.abs(y).max(initial=0), 1e-3)
            worst = max(worst, np.abs(x - y).max(initial=0) / scale)
        return worst

    def test_programs_compute_what_jax_does(self):
        for name, build in MODELS.items():
            with self.subTest(name):
                model = build()
                fn, params, batch, *state = model.call()
                worst = self.compare(fn, (params, *state, batch), model.high,
                                     eager=name == "gpt_fused")
                print(name, f"{worst:.1e}")

    def test_training_steps_compute_what_jax_does(self):
        for name, build in MODELS.items():
            if name in FORWARD:
                continue
            with self.subTest(name):
                model = build()
                fn, params, batch, state = model.step()
                worst = self.compare(fn, (params, state, batch), model.high,
                                     eager=name == "gpt_fused")
                print(name, "step", f"{worst:.1e}")

    def test_forms_compute_what_jax_does(self):
        for name, (fn, params, batch) in FORMS.items():
            with self.subTest(name):
                tolerance = 2e-2 if name == "mixed" else 1e-4
                self.compare(fn, (params, batch), tolerance=tolerance)

    def test_parameters_are_those_of_the_manifest(self):
        for name, build in MODELS.items():
            with self.subTest(name):
                model = build()
                fn, params, batch, *state = model.call()
                made = program.traced(fn, (params, *state, batch), name).program
                found = {one["name"]: made["values"][one["value"]]
                         for one in made["inputs"] if one["kind"] == "param"}
                self.assertEqual(found, manifest.manifest(params)["params"])

    def test_recorded_programs_are_those_of_today(self):
        """Where the versions are those of the record, to the byte. Lines too, so that
        a change of the models is followed by record.py."""
        record.compared(self)

    def test_a_wrong_operation_is_detected(self):
        """A fault in each of ten operations of a program changes its results."""
        model = MODELS["llama"]()
        fn, params, batch = model.call()
        made = program.traced(fn, (params, batch), "test")
        flat = [x for one in (drawn(params, 112, 1), drawn(batch, 112, 2))
                for x in arrays_of(one)]
        (want,) = Interpreter(made.program, made.constants).run(flat)
        faults = 0
        for op in made.program["ops"]:
            if op["op"] == "map" and op["fn"] == "mul" and faults < 10:
                fn, op["fn"] = op["fn"], "sub"
                if "integers" not in made.program["values"][op["out"][0]]:
                    (got,) = Interpreter(made.program, made.constants).run(flat)
                    self.assertGreater(np.abs(got - want).max(), 1e-3, op)
                    faults += 1
                op["fn"] = fn
        self.assertEqual(faults, 10)


STEP = """
    import jax, jax.numpy as jnp, numpy as np, optax
    import flax.linen as nn
    from flax import nnx
    BIG = np.ones((600, 600), np.float32)
    X = jax.ShapeDtypeStruct((2, 600), jnp.float32)

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.up = nnx.Linear(600, 8, rngs=rngs)
            self.drop = nnx.Dropout(0.1, rngs=rngs)
        def __call__(self, x):
            h = jax.nn.silu(self.up(x))
            return self.drop(
                jax.nn.silu(h))

    def step():
        net = Net(nnx.Rngs(0))
        tx = nnx.Optimizer(net, optax.adam(1e-3), wrt=nnx.Param)
        def step(net, tx, x):
            loss, g = nnx.value_and_grad(lambda net: net(x).mean())(net)
            tx.update(net, g)
            return loss
        return step, net, X, tx

    def module():
        return Net(nnx.Rngs(0)), X

    class Old(nn.Module):
        @nn.compact
        def __call__(self, x, train=True):
            x = nn.BatchNorm(use_running_average=not train)(x)
            return nn.Dense(4)(x)

    def linen():
        return Old(), (X,), {"train": False}

    def odd():
        table = jnp.arange(12.0)
        def fn(p, x):
            return jnp.fft.fft(x).real @ BIG @ p["w"] * table
        return fn, {"w": jnp.ones((600, 12))}, X

    def wrong():
        return lambda p, x: p @ x, jnp.ones((3, 4)), X
"""


class Command(unittest.TestCase):
    def run_command(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "own.py"), "w", encoding="utf-8") as file:
                file.write(textwrap.dedent(STEP).lstrip())
            out = os.path.join(folder, "out.json.gz")
            done = subprocess.run(
                [sys.executable, "-m", "shardc.program", *arguments, "-o", out],
                cwd=folder, capture_output=True, text=True, check=False,
                env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")})
            if done.returncode:
                return done, None
            with gzip.open(out, "rt", encoding="utf-8") as file:
                return done, json.load(file)

    def inputs(self, made, kind):
        return {one["name"] for one in made["inputs"] if one["kind"] == kind}

    def test_a_step_of_nnx_updates_its_module_and_optimizer(self):
        _, made = self.run_command("own:step")
        self.assertEqual(self.inputs(made, "param"), {"up/kernel", "up/bias"})
        self.assertLessEqual(
            {"drop/rngs/key", "opt_state/0/mu/up/kernel", "opt_state/0/nu/up/bias",
             "step"}, self.inputs(made, "state"))
        # The loss, two parameters, the random state's count and key, the optimizer.
        self.assertEqual(len(made["outputs"]), 1 + 4 + 6)
        self.assertEqual(made["files"], ["own.py"])
        lines = STEP.strip("\n").splitlines()
        phases = {"backward": set(), "optimizer": set(), None: set()}
        for op in made["ops"]:
            phases[op.get("phase")].add(lines[op["at"][1] - 1].strip())
        self.assertEqual(phases["optimizer"], {"tx.update(net, g)"})
        # Both calls of a cached function, each at its own line.
        for line in ("h = jax.nn.silu(self.up(x))", "jax.nn.silu(h))"):
            self.assertIn(line, phases[None])
            self.assertIn(line, phases["backward"])

    def test_modules_are_called_with_their_examples(self):
        _, made = self.run_command("own:module")
        self.assertEqual(self.inputs(made, "param"), {"up/kernel", "up/bias"})
        self.assertEqual(self.inputs(made, "data"), {"0"})
        _, made = self.run_command("own:linen")
        self.assertEqual(self.inputs(made, "state"), {
            "batch_stats/BatchNorm_0/mean", "batch_stats/BatchNorm_0/var"})
        self.assertEqual(self.inputs(made, "param"), {
            f"params/{one}" for one in ("BatchNorm_0/scale", "BatchNorm_0/bias",
                                        "Dense_0/kernel", "Dense_0/bias")})

    def test_what_is_not_known_and_large_constants_are_reported(self):
        done, made = self.run_command("own:odd")
        self.assertEqual([(one["primitive"], one["count"]) for one in made["unknown"]],
                         [("fft", 1)])
        self.assertIn("fft", done.stderr)
        (assumption,) = made["assumptions"]
        self.assertIn("F32[600, 600] of 1440000 bytes", assumption)
        self.assertIn(" at own.py:", assumption)
        self.assertIn("fft", {op.get("primitive") for op in made["ops"]})

    def test_errors_name_the_function_and_the_reason(self):
        done, _ = self.run_command("own:wrong")
        self.assertEqual(done.returncode, 2)
        self.assertIn("own:wrong cannot be traced with these arguments: dot_general",
                      done.stderr)
        self.assertNotIn("Traceback", done.stderr)


class Plans(unittest.TestCase):
    """shardc.testing.assert_plan of functions."""

    def setUp(self):
        os.environ.setdefault("SHARDC", os.environ.get(
            "SHARDC_BIN", os.path.join(ROOT, "build", "src", "cli", "shardc")))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_the_guides_test_prints_what_the_guide_reports(self):
        with open(os.path.join(ROOT, "docs", "guides", "program.md"),
                  encoding="utf-8") as file:
            guide = file.read()
        code, after = guide.split("# test_plan.py\n")[1].split("```", 1)
        said = after.split("```text\n")[1].split("```")[0]
        rules = guide.split("cat > mlp.yaml <<'END'\n")[1].split("END\n")[0]
        self.write("mlp.yaml", rules)
        self.write("test_plan.py", code)
        done = subprocess.run(
            [sys.executable, "-c",
             "import test_plan; test_plan.test_the_plan_computes_the_gradients()"],
            cwd=self.folder, capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")})
        self.assertEqual((done.stdout, done.returncode), (said, 0), done.stderr)

    def test_a_fault_in_a_region_is_named_with_its_line(self):
        import regions
        import shardc.testing

        fn, reference, params, batch = regions.REGIONS["mlp"]
        rules = self.write("rules.yaml", "rules:\n  - match: scale\n    spec: []\n"
                           "  - match: '.*'\n    spec: [fsdp, tp]\n")
        plan = shardc.compile(mesh="fsdp:2,tp:4", rules=rules,
                              manifest=manifest.manifest(params))
        self.assertTrue(shardc.testing.assert_plan(fn, plan, params, batch,
                                                   reference=reference))

        def wrong(params, batch):
            return 1.5 * fn(params, batch)

        with self.assertRaises(AssertionError) as raised:
            shardc.testing.assert_plan(wrong, plan, params, batch, reference=reference)
        self.assertIn(" from that of the reference", str(raised.exception))
        # A kernel of its own is not proved.
        from jax.experimental import pallas

        def with_kernel(params, batch):
            def kernel(x, y):
                y[...] = x[...] * 2
            y = fn(params, batch)
            return pallas.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(
                y.shape, y.dtype), interpret=True)(y)

        with self.assertRaises(AssertionError) as raised:
            shardc.testing.assert_plan(with_kernel, plan, params, batch)
        self.assertRegex(str(raised.exception),
                         r"not proved at .*programs_live_test.py:\d+: nothing is known "
                         r"of `pallas_call`")
        self.assertFalse(shardc.testing.assert_plan(with_kernel, plan, params, batch,
                                                    stand_ins=True))


if __name__ == "__main__":
    unittest.main()
