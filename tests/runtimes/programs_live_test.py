"""Programs against JAX's own values: what they compute, and what they name."""

import os
import sys
import unittest

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "tests", "traced"), os.path.join(ROOT, "python")]

# The package and the models must be found first.
# pylint: disable=wrong-import-position
import jax
import numpy as np

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

    graph, tree = program._split(tree)
    return program._merged(graph, jax.tree.map(draw, tree))


def arrays_of(tree):
    return [x for x in jax.tree.leaves(program._split(tree)[1]) if hasattr(x, "dtype")]


class Live(unittest.TestCase):
    def compare(self, fn, arguments, high=4, tolerance=1e-4, eager=False):
        """Runs the function and its program on the same numbers; returns the largest
        difference, in parts of the largest number of a result. With inputs that are
        one ulp larger, JAX's own results differ by as much as 1e-4 (dit)."""
        made = program.traced(fn, arguments, "test")
        params, *state, batch = arguments
        given = [drawn(params, high, 1), *(drawn(one, high, 2, True) for one in state),
                 drawn(batch, high, 3)]
        flat = [x for one in given for x in arrays_of(one)]
        got = Interpreter(made.program, made.constants).run(flat)
        if eager:
            result = fn(*given)
            changed = [one for one in given if program._split(one)[0] is not None]
            want = [x for one in (result, *changed) for x in arrays_of(one)]
        else:
            want = jax.jit(made.function)(*flat)
        self.assertEqual(len(got), len(want))
        worst = 0.0
        for x, y in zip(got, map(np.asarray, want)):
            self.assertEqual(x.shape, y.shape)
            self.assertEqual(x.dtype, y.dtype)
            x, y = (one.astype(np.float64) for one in (x, y))
            self.assertTrue(np.isfinite(y).all())
            scale = max(np.abs(y).max(initial=0), 1e-3)
            worst = max(worst, np.abs(x - y).max(initial=0) / scale)
        self.assertLess(worst, tolerance)
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


if __name__ == "__main__":
    unittest.main()
