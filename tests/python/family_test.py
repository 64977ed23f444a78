"""What describes a family from its class, without PyTorch: values that remember their
expressions, conditions that are found, and expressions that the program reads as they
are meant."""

import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))
BIN = os.environ.get("SHARDC_BIN",
                     os.path.join(ROOT, "build", "src", "cli", "shardc"))
sys.path.insert(0, os.path.join(ROOT, "python"))

from shardc import family_trace as trace  # noqa: E402
from shardc.family_expressions import (  # noqa: E402
    placed, shown, simplified, value_of, without_indices)
from shardc.family_facts import Finder, compared  # noqa: E402
from shardc.family_fit import Table, fit_let, grown, Fitter  # noqa: E402
from shardc.family_subject import Built  # noqa: E402
from shardc.family_text import Writer  # noqa: E402

NAMES = {"a": 12, "b": 5, "c": 3, "kinds": ["x", "y", "x"]}


def drawn(random_, depth):
    """An expression whose value is positive and small."""
    if depth == 0 or random_.random() < 0.2:
        return random_.choice([("name", "a"), ("name", "b"), ("name", "c"), 2, 7])
    sign = random_.choice(["+", "*", "//", "%", "-", "if", "default"])
    left, right = drawn(random_, depth - 1), drawn(random_, depth - 1)
    if sign == "if":
        return ("if", left, (random_.choice(["==", "<", ">="]), right, ("name", "b")),
                right)
    if sign == "default":
        return ("default", ("name", random_.choice(["a", "absent"])), left)
    return (sign, left, right)


class Expressions(unittest.TestCase):
    def test_the_program_reads_what_is_written(self):
        random_ = random.Random(4)
        wanted, lines = {}, []
        while len(wanted) < 150:
            x = drawn(random_, 4)
            value = value_of(x, NAMES, ())
            parts = [y for y in _all(x) if y[0] in ("//", "%")]
            if value is None or not 0 < value < 10**6 or any(
                    (value_of(y[2], NAMES, ()) or 0) <= 0 for y in parts):
                continue
            name = f"t{len(wanted)}"
            wanted[name] = [value]
            lines.append(f"  {name}: tensor({shown(x)})")
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "made.yaml"), "w", encoding="utf-8") as file:
                file.write("version: 1\nmodels: M\ntree:\n" + "\n".join(lines) + "\n")
            path = os.path.join(folder, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"model_type": "made", **NAMES}, file)
            ran = subprocess.run(
                [BIN, "show", "manifest", "--no-project", "--families", folder, "--model", path,
                 "--format", "json"], capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        found = {x["name"]: x["shape"] for x in json.loads(ran.stdout)["params"]}
        self.assertEqual(found, wanted)

    def test_simplified_expressions_have_the_same_value(self):
        for sign, left, right in itertools.product(
                ("+", "-", "*", "//"), (1, 2, ("name", "a"), ("*", 2, ("name", "a"))),
                (1, 3, ("name", "a"))):
            x = (sign, left, right)
            with self.subTest(x=x):
                self.assertEqual(value_of(simplified(x), NAMES, ()),
                                 value_of(x, NAMES, ()))

    def test_an_object_of_the_library_is_no_value(self):
        for x in (("==", ("name", "a"), object()), ("+", ("name", "a"), object())):
            self.assertIsNone(value_of(x, NAMES, ()))


def _all(x):
    if isinstance(x, tuple):
        yield x
        for part in x[1:]:
            yield from _all(part)


class Values(unittest.TestCase):
    def test_arithmetic_is_remembered(self):
        a, b = (trace.Integer(NAMES[x], ("name", x)) for x in "ab")
        cases = [
            a + b, a - b, a * b, a // b, a % b, 2 * a + 1, 100 - a, 100 // b, a**2,
            round(a / 3), trace._Int(2 * a / 3), trace._Int(a * 1.5), -(-a // b),
            trace._Int(trace.Real(0.5) * a)]
        for x in cases:
            with self.subTest(x=x.expression):
                self.assertEqual(value_of(x.expression, NAMES, ()), int(x))
                self.assertNotEqual(x.expression, int(x))

    def test_comparisons_and_loops_are_recorded(self):
        count = trace.Integer(3, ("name", "c"))
        kinds = trace.traced(["x", "y", "x"], ("name", "kinds"))
        with trace.recording([]) as recorder:
            found = [kinds[i] == "x" for i in trace._range(count)]
        self.assertEqual(found, [True, False, True])
        self.assertEqual(list(recorder.loops), [("name", "c")])
        self.assertEqual(
            {without_indices(x) for x in recorder.conditions},
            {("==", ("item", ("name", "kinds"), ("counter", -1)), "x")})

    def test_a_number_of_a_loop_is_the_counter_that_has_it(self):
        x = ("item", ("name", "kinds"), ("loop", ("name", "c"), 2))
        self.assertEqual(placed(x, (2, 0))[0],
                         ("item", ("name", "kinds"), ("counter", 0)))


def built(values, stated, tensors, conditions, set_up=()):
    return Built({}, stated, values, {name: x for name, x in values.items()},
                 tensors, None, conditions, list(set_up), [("name", "layers")], [])


class Facts(unittest.TestCase):
    """Factors that programs show become names of the config's values."""

    def stated(self, other=None, left_open=()):
        """The keys `let` and `factors` of a layer with a fused matrix, from programs of
        three configs of (layers, heads, KV heads, head size, width, inner)."""
        samples, found = [], {}
        for at, (layers, heads, kv, head, width, inner) in enumerate((
                (2, 6, 2, 8, 24, 40), (3, 8, 4, 10, 36, 56), (2, 12, 4, 6, 30, 44))):
            values = {"layers": layers, "heads": heads, "kv": kv, "head": head,
                      "width": width, "inner": inner}
            names = {name: ("name", name) for name in values}
            size = ("+", ("*", names["heads"], names["head"]),
                    ("*", 2, ("*", names["kv"], names["head"])))
            tensors, dims = [], {}
            for i in range(layers):
                def leaf(role, factor, layer=i, values=values, heads=heads, kv=kv):
                    number = 0 if role in ("stream", "head_dim") else 10 * layer + 1
                    return {"role": role, "factor": number + (role == "group"),
                            "size": heads // kv if factor == "group" else values[factor]}
                key = [leaf("kv_heads", "kv"), leaf("head_dim", "head")]
                queries = [key[0], leaf("group", "group"), key[1]]
                for name, shape, expressions, products in (
                        ("qkv", ((heads + 2 * kv) * head, width), (size, names["width"]),
                         ([{"parts": [queries, key, key]}], [leaf("stream", "width")])),
                        ("up", (2 * inner, width),
                         (("*", 2, names["inner"]), names["width"]),
                         ([{"parts": [[leaf("inner", "inner")]] * 2}],
                          [leaf(other or "stream", "width")])),
                        # As the class computes it.
                        ("norm", (head,), (("//", ("*", names["kv"], names["head"]),
                                            names["kv"]),), (key[1:],))):
                    tensors.append(trace.Tensor(f"layers.{i}.{name}", shape, "F32",
                                                expressions))
                    dims[tensors[-1].name] = list(products)
            samples.append(built(values, dict(values), tensors, []))
            found[at] = dims
        table = Table(samples)
        root = grown([x.tensors for x in samples])
        Fitter(table, ["F32"] * 3).fit(root)
        writer = Writer(table, "made", "Made", {})
        Finder(table, writer, found).state(root, left_open)
        made = writer.text(root, None, "Made.")
        return made[made.index("let:"):made.index("tree:")], made[made.index("tree:"):]

    def test_a_size_in_the_order_of_its_elements_stays_as_it_is(self):
        keys, tree = self.stated()
        self.assertEqual(keys[keys.index("  group"):], """\
  group: heads // kv
factors:
  kv: kv_heads
  group: group
  head: head_dim
  heads: kv * group
  width: stream
  inner: inner
""")
        self.assertIn("qkv: tensor(heads * head + 2 * (kv * head), width)", tree)
        self.assertIn("up: tensor(2 * inner, width)", tree)

    def test_a_factor_by_itself_is_written_by_its_name(self):
        keys, tree = self.stated()
        self.assertIn("norm: tensor(head)", tree)
        self.assertNotIn("size", keys)

    def test_only_a_dimension_that_is_left_open_is_unknown(self):
        keys, tree = self.stated(left_open=[("layers.0.up", 0)])
        self.assertIn("  unknown: 2 * inner\n", keys)
        self.assertIn("  unknown: unknown\n", keys)
        self.assertIn("  head: head_dim\n", keys)
        self.assertNotIn("  inner: inner\n", keys)
        self.assertIn("up: tensor(unknown, width)", tree)
        self.assertIn("qkv: tensor(heads * head + 2 * (kv * head), width)", tree)

    def test_a_value_that_counts_two_things_has_two_names(self):
        keys, tree = self.stated(other="channels")
        self.assertIn("  channels: width\n", keys)
        self.assertIn("  channels: channels\n", keys)
        self.assertRegex(tree, r"up: tensor\(2 \* inner, size\w*\)|channels")

    def test_facts_are_compared_by_factors_and_by_boundaries(self):
        def dims(factor, second=1):
            return {"a": [[{"role": "inner", "size": 4, "factor": factor}]],
                    "b": [[{"role": "inner", "size": 4, "factor": second}]]}
        self.assertEqual(compared(dims(7, 7), dims(1, 1))[0], {"right": 2})
        self.assertEqual(compared(dims(7, 8), dims(1, 1))[0], {"wrong": 2})
        self.assertEqual(compared({"a": [None], "b": [None]}, dims(1))[0], {"unknown": 2})
        parts = {"a": [[{"parts": [dims(1)["a"][0], dims(1)["a"][0]]}]]}
        whole = {"a": [[{"role": "inner", "size": 8, "factor": 1}]]}
        self.assertEqual(compared(whole, parts)[0], {"wrong": 1})
        self.assertEqual(compared(parts, parts)[0], {"right": 1})


class Fits(unittest.TestCase):
    def test_counts_conditions_and_sizes_are_found(self):
        samples = []
        for layers, every, width in ((2, 1, 8), (3, 2, 10), (5, 2, 14), (6, 3, 6)):
            values = {"layers": layers, "every": every, "width": width}
            tensors, conditions = [], []
            for i in range(layers):
                loop = ("loop", ("name", "layers"), i)
                conditions.append(("==", ("%", ("+", loop, 1), ("name", "every")), 0))
                if (i + 1) % every == 0:
                    tensors.append(trace.Tensor(
                        f"layers.{i}.w", (2 * width,), "F32",
                        (("*", 2, ("name", "width")),)))
                tensors.append(trace.Tensor(f"layers.{i}.n", (width,), "F32",
                                            (("name", "width"),)))
            samples.append(built(values, dict(values), tensors, conditions))
        root = grown([x.tensors for x in samples])
        fitter = Fitter(Table(samples), ["F32"] * 4)
        fitter.fit(root)
        self.assertEqual(fitter.failed, [])
        layer = root.children["layers"].children["#"]
        self.assertEqual(layer.count, ("name", "layers"))
        self.assertEqual(shown(layer.children["w!"].condition),
                         "(i + 1) % every == 0")
        self.assertEqual(layer.children["w!"].sizes, (("*", 2, ("name", "width")),))
        self.assertIsNone(layer.children["n!"].condition)

    def test_a_default_that_follows_from_other_keys(self):
        samples = []
        for hidden, heads, stated in ((32, 4, None), (48, 2, 10), (60, 6, None),
                                      (64, 2, None)):
            given = {"hidden": hidden, "heads": heads}
            if stated:
                given["head"] = stated
            one = built({**given, "head": stated or hidden // heads}, given, [], [])
            if not stated:
                one.origin["head"] = ("//", ("name", "hidden"), ("name", "heads"))
            samples.append(one)
        let = fit_let(Table(samples), "head")
        self.assertEqual(shown(let.value), "head ?? hidden // heads")

    def test_a_flag_with_which_no_model_was_built_is_refused(self):
        samples = [
            built({"width": width}, {"width": width},
                  [trace.Tensor("w", (width,), "F32", (("name", "width"),))], [])
            for width in (4, 6)]
        root, table = grown([x.tensors for x in samples]), Table(samples)
        Fitter(table, ["F32"] * 2).fit(root)
        text = Writer(table, "made", "Made", {}).text(
            root, None, "Made.", [("experts", True), ("gated", False)])
        for given, rc in (({}, 0), ({"experts": False, "gated": True}, 0),
                          ({"experts": None}, 0), ({"experts": True}, 2),
                          ({"gated": False}, 2)):
            with self.subTest(given=given), tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, "made.yaml"), "w", encoding="utf-8") as file:
                    file.write(text)
                path = os.path.join(folder, "config.json")
                with open(path, "w", encoding="utf-8") as file:
                    json.dump({"model_type": "made", "width": 8, **given}, file)
                ran = subprocess.run(
                    [BIN, "show", "manifest", "--no-project", "--families", folder,
                     "--model", path], capture_output=True, text=True, check=False)
                self.assertEqual(ran.returncode, rc, ran.stderr)
                if rc:
                    self.assertIn("with experts or without gated has was not seen",
                                  ran.stderr)


class Messages(unittest.TestCase):
    def run_it(self, *arguments):
        return subprocess.run(
            [sys.executable, "-m", "shardc.family", *arguments], text=True,
            capture_output=True, check=False,
            env={**os.environ, "SHARDC": BIN, "PYTHONPATH": os.path.join(ROOT, "python")})

    def test_code_is_not_run_unless_it_is_trusted(self):
        ran = self.run_it("my_models:Acme")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("--trust-code", ran.stderr)
        self.assertEqual(ran.stderr.count("\n"), 1)

    def test_an_example_config_that_is_not_there(self):
        ran = self.run_it("my_models:Acme", "--trust-code", "--config", "nowhere.json")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("nowhere.json", ran.stderr)

    def test_without_the_library_the_message_states_what_to_install(self):
        try:
            import transformers  # noqa: F401
        except ImportError:
            ran = self.run_it("lfm2")
            self.assertEqual(ran.returncode, 2)
            self.assertIn("pip install", ran.stderr)
        else:
            self.skipTest("transformers is installed")


if __name__ == "__main__":
    unittest.main()
