"""`verify step --program` of loops that were unrolled: their layers are folded, the
report is that of all layers, and a fault or another plan of one layer is found as by
`--full`."""

import copy
import json
import os
import tempfile
import unittest

from driver import Case, run

LAYERS, ROWS = 12, 128


def layered(change=None, odd=7, numbers=None):
    """A program of LAYERS layers, each with a product that the compiler shards and a
    region with a sum over `tp`. `change(body)` gives the region of layer `odd` other
    operations. `numbers` are constants of the layers: the region of one of 5 or more
    does not sum."""
    values, ops, inputs = [], [], []

    def value(*shape, **more):
        values.append({"shape": list(shape), "dtype": "F32", **more})
        return len(values) - 1

    def write(op, ins, shape, line, into=ops, **more):
        out = value(*shape)
        into.append({"op": op, "in": ins, "out": [out], "at": [0, line], **more})
        return out

    def given(kind, name, *shape):
        out = value(*shape)
        inputs.append({"value": out, "kind": kind, "name": name})
        return out

    dot = {"lhs_contract": [1], "rhs_contract": [0], "lhs_batch": [], "rhs_batch": []}
    x = given("data", "x", ROWS, 256)
    weights = [[given("param", f"layer{i}/{name}", *shape) for name, shape in (
        ("mix", (256, 256)), ("up", (256, 512)), ("down", (512, 256)))]
        for i in range(LAYERS)]
    for i, (mix, up, down) in enumerate(weights):
        h = write("dot", [x, mix], (ROWS, 256), 3, **dot)
        h = write("map", [h], (ROWS, 256), 3, fn="tanh")
        ins = [value(ROWS // 2, 256), value(256, 128), value(128, 256)]
        body = []
        y = write("dot", ins[:2], (ROWS // 2, 128), 5, body, **dot)
        y = write("map", [y], (ROWS // 2, 128), 5, body, fn="tanh")
        y = write("dot", [y, ins[2]], (ROWS // 2, 256), 6, body, **dot)
        y = write("collective", [y], (ROWS // 2, 256), 6, body, kind="psum", axes=["tp"])
        if i == odd and change is not None:
            change(body)
        given_in, specs = [h, up, down], [[["fsdp"]], [[], ["tp"]], [["tp"]]]
        if numbers is not None:
            n, limit = value(floats=[float(numbers[i])]), value(floats=[5.0])
            ops.append({"op": "const", "in": [], "out": [n], "at": [0, 4]})
            given_in, specs, ins = given_in + [n], specs + [[]], ins + [value()]
            body.append({"op": "const", "in": [], "out": [limit], "at": [0, 6]})
            below = write("map", [ins[3], limit], (), 6, body, fn="lt")
            values[below]["dtype"] = "BOOL"
            y = write("map", [below, body[2]["out"][0], y], (ROWS // 2, 256), 6, body,
                      fn="select")
        y = write("manual", given_in, (ROWS, 256), 4, mesh={"fsdp": 2, "tp": 4},
                  in_specs=specs, out_specs=[[["fsdp"]]],
                  body={"in": ins, "ops": body, "out": [y]})
        x = write("map", [x, y], (ROWS, 256), 7, fn="add")
    return {"schema": "shardc.program/v1", "traced": {"by": "test", "function": "own:f"},
            "files": ["own.py"], "values": values, "inputs": inputs, "ops": ops,
            "outputs": [x], "assumptions": [], "unknown": []}


def without_sum(body):
    body[3] = {"op": "map", "in": body[3]["in"], "out": body[3]["out"], "at": [0, 6],
               "fn": "neg"}


def over_other_axis(body):
    body[3]["axes"] = ["fsdp"]


def maximum(body):
    body[3]["kind"] = "pmax"


def of(report, *keys):
    return [report[key] for key in keys]


class Folded(Case):
    RULES = """rules:
  - match: 'mix$'
    spec: [fsdp, tp]
  - match: 'up$'
    spec: [null, tp]
  - match: 'down$'
    spec: [tp, null]
"""

    def proved(self, program, *options, rules=RULES):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name, text in (("own.json", json.dumps(program)), ("own.yaml", rules)):
                paths.append(os.path.join(folder, name))
                with open(paths[-1], "w", encoding="utf-8") as file:
                    file.write(text)
            return run("verify", "step", "--no-project", "--program", paths[0], "--rules",
                       paths[1], "--mesh", "fsdp:2,tp:4", *options)

    def both(self, program, **more):
        """The reports at the chosen and at the traced sizes."""
        options = ("--format", "json")
        return [self.proved(program, *options, *full, **more)
                for full in ((), ("--full",))]

    KEYS = ("status", "complete", "values", "ops", "manual_regions", "collectives",
            "gathered", "inputs")

    def test_layers_of_an_unrolled_loop_are_folded(self):
        small, full = self.both(layered())
        self.assertEqual((small.rc, full.rc), (0, 0), small)
        small, full = small.json(), full.json()
        # A layer has four ops.
        self.assertEqual((small["ops"], small["ops_run"]), (4 * LAYERS, 4))
        self.assertEqual(full["ops_run"], 4 * LAYERS)
        self.assertEqual(of(small, *self.KEYS), of(full, *self.KEYS))
        self.assertEqual(len(small["results"]), len(full["results"]))
        self.assertIn("folded: 4 of 48 ops run; each other one has the operation, line, "
                      "sizes and sharding of one that does", self.proved(layered()).out)

    def test_a_fault_of_one_layer_is_found(self):
        for change in (without_sum, over_other_axis, maximum):
            for layer in (0, 1, 7, LAYERS - 1):
                with self.subTest(change.__name__, layer=layer):
                    small, full = (one.json() for one in self.both(layered(change, layer)))
                    self.assertEqual(small["status"], full["status"])
                    self.assertEqual(small["failure"] and small["failure"]["line"],
                                     full["failure"] and full["failure"]["line"])
                    if change is not maximum:  # every device has the largest number
                        self.assertEqual(full["status"], "differs")

    def test_a_fault_of_a_number_of_one_layer_is_found(self):
        """A region that has a number as an operand sums only where it is below 5: what
        the number is decides whether devices agree."""
        for numbers in ([1] * LAYERS, [1] * 7 + [8] + [1] * 4, list(range(LAYERS)),
                        [9] + [1] * (LAYERS - 1)):
            with self.subTest(numbers=numbers):
                small, full = (one.json() for one in self.both(layered(numbers=numbers)))
                self.assertEqual(small["status"], full["status"])
                self.assertEqual(full["status"], "equal" if max(numbers) < 5 else "differs")

    def test_a_layer_with_another_plan_is_not_folded_with_others(self):
        """Of the parameters of one layer, an axis shards other dimensions."""
        rules = self.RULES.replace("rules:\n", """rules:
  - match: '^layer7/mix$'
    spec: [tp, fsdp]
""")
        small, full = (one.json() for one in self.both(layered(), rules=rules))
        self.assertEqual(small["status"], "equal")
        self.assertEqual(of(small, *self.KEYS), of(full, *self.KEYS))
        plain = self.both(layered())[0].json()
        self.assertNotEqual(small["collectives"], plain["collectives"])
        self.assertGreater(small["ops_run"], 4)

    def test_ops_with_equal_operands_are_kept_apart(self):
        """The difference of the results of two layers is not that of one with itself."""
        program = layered()
        parts = [op["out"][0] for op in program["ops"] if op.get("fn") == "add"]
        for one, other in ((3, 4), (2, 9)):
            program["values"].append({"shape": [ROWS, 256], "dtype": "F32"})
            program["outputs"].append(len(program["values"]) - 1)
            program["ops"].append({"op": "map", "fn": "sub", "at": [0, 9],
                                   "in": [parts[one], parts[other]],
                                   "out": program["outputs"][-1:]})
        small, full = (one.json() for one in self.both(program))
        self.assertEqual(of(small, *self.KEYS), of(full, *self.KEYS))
        self.assertLess(small["ops_run"], 20)
        for result in small["results"]:
            self.assertGreater(result["sum_of_squares"], 1e-3)

    def test_a_join_of_all_layers(self):
        program = copy.deepcopy(layered())
        parts = [op["out"][0] for op in program["ops"] if op.get("fn") == "add"]
        program["values"].append({"shape": [ROWS * LAYERS, 256], "dtype": "F32"})
        program["ops"].append({"op": "concat", "in": parts, "dim": 0, "at": [0, 9],
                               "out": [len(program["values"]) - 1]})
        program["outputs"] = program["ops"][-1]["out"]
        small, full = (one.json() for one in self.both(program))
        self.assertEqual(of(small, *self.KEYS), of(full, *self.KEYS))

    def test_steps_of_many_layers_are_reported_as_in_full(self):
        """Training steps with AdamW that were exported, of eight layers."""
        config = {"hidden_size": 128, "num_hidden_layers": 8, "num_attention_heads": 8,
                  "num_key_value_heads": 4, "intermediate_size": 256, "vocab_size": 256,
                  "max_position_embeddings": 64, "rms_norm_eps": 1e-5}
        for kind in ("llama", "qwen3"):
            with self.subTest(kind), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "config.json")
                with open(path, "w", encoding="utf-8") as file:
                    json.dump({**config, "model_type": kind, "head_dim": 16,
                               "architectures": [kind.title() + "ForCausalLM"]}, file)
                program = os.path.join(folder, "program.json")
                given = ("--no-project", "--rules", "auto")
                done = run("export", "program", *given, "--mode", "train", "--model", path,
                           "--batch", "4", "--seq", "32", "-o", program)
                self.assertEqual(done.rc, 0, done)
                given += ("--mesh", "fsdp:2,tp:2", "--program", program, "--format",
                          "json")
                done = [run("verify", "step", *given, *full)
                        for full in ((), ("--full",))]
                self.assertEqual([one.rc for one in done], [0, 0], done)
                small, full = (one.json() for one in done)
                self.assertLess(4 * small["ops_run"], small["ops"])
                keys = self.KEYS[:-1]  # tokens are below the size of the vocabulary
                self.assertEqual(of(small, *keys), of(full, *keys))
                self.assertEqual(len(small["results"]), len(full["results"]))


if __name__ == "__main__":
    unittest.main()
