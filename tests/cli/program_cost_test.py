"""`cost --program`: what a user's traced program costs under a plan."""

import copy
import gzip
import collections
import json
import os
import tempfile
import unittest

import xla_rules
from driver import TESTDATA, Case, FolderCase, run

PROGRAMS = os.path.join(TESTDATA, "programs")
COSTS = os.path.join(TESTDATA, "program_costs")
LLAMA = os.path.join(COSTS, "llama3_8b.program.json.gz")


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text if isinstance(text, str) else json.dumps(text))
    return path


def costed(program, mesh, rules, *options):
    return run("cost", "--no-project", "--program", program, "--mesh", mesh, "--rules",
               rules, *options)


def report_of(*arguments):
    done = costed(*arguments, "--format", "json")
    assert done.rc == 0, done
    return done.json()


class ByXla(Case):
    """The recorded programs and XLA's figures (tests/traced/record_costs.py). The
    rules that make both comparable have names; a program without its rule fails."""

    # XLA removes labels that the program does not read.
    UNREAD = {"llama": 40, "int8": 36}
    # XLA counts the body of a loop once; its CPU lowering of a ragged matmul
    # multiplies the rows with all experts.
    LOOPS = {"scan_llama.step", "mamba2.step", "gdn.step"}
    RAGGED = {"moe_ragged.step"}
    @classmethod
    def setUpClass(cls):
        cls.cases = xla_rules.recorded()["cases"]
        cls.reports = {}
        for one in cls.cases:
            program = os.path.join(PROGRAMS, one["name"] + ".program.json.gz")
            cls.reports[one["name"]] = [
                xla_rules.report_of(program, mesh, one["rules"])
                for mesh in (one["mesh"], "tp:1")]

    def each(self):
        self.assertEqual(len(self.cases), 20)
        return [(one, *self.reports[one["name"]]) for one in self.cases]

    def test_arguments_are_those_of_xla(self):
        for one, sharded, _ in self.each():
            with self.subTest(one["name"]):
                memory = sharded["memory"]
                self.assertEqual(
                    memory["parameters"] + memory["state"] + memory["data"],
                    one["arguments"] + self.UNREAD.get(one["name"], 0))

    def test_operations_are_those_of_xla(self):
        """XLA counts an operation for each element of most other ops; what differs is
        how it writes softmax, Adam and integer powers."""
        for one, _, whole in self.each():
            with self.subTest(one["name"]):
                flops = whole["flops"]
                ours = flops["program"] + flops["masked"] + flops["device_elements"]
                if one["name"] in self.LOOPS:
                    self.assertGreater(ours, one["flops"])
                elif one["name"] in self.RAGGED:
                    self.assertLess(ours, one["flops"])
                else:
                    self.assertAlmostEqual(ours / one["flops"], 1, delta=0.03)

    def test_peaks_are_near_those_of_xla(self):
        """XLA chooses the shardings of the results. Its compiler for CPUs copies
        operands of matmuls and windows to other layouts, and keeps dequantised weights,
        which are computed where they are used here. Without gradients and gathered
        weights, these copies are most of what is temporary."""
        for one, sharded, _ in self.each():
            with self.subTest(one["name"]):
                memory = sharded["memory"]
                ratio = (memory["results"] + memory["temporaries"]) / (
                    one["results"] + one["temporaries"])
                least = 0.6 if one["name"].endswith(".step") else 0.45
                self.assertTrue(least < ratio < 1.2, ratio)


    def test_functions_without_gradients_send_what_xla_sends(self):
        """A few tokens stay on all devices of fsdp, which reduce partial sums: what is
        gathered are indices, and small values that XLA exchanges in another way."""
        checked = 0
        for one, report, _ in self.each():
            if one["name"].endswith(".step"):
                continue
            with self.subTest(one["name"]):
                sent = collections.Counter()
                for each in report["collectives"]:
                    key = " ".join([each["collective"], *each["axes"]])
                    sent[key] += each["bytes_per_device"]
                for axis in ("fsdp", "tp"):
                    key = "all_reduce " + axis
                    self.assertAlmostEqual(sent[key] / one["sent"][key], 1, delta=0.1)
                rest = [sum(of.values()) - of["all_reduce fsdp"] - of["all_reduce tp"]
                        for of in (sent, one["sent"])]
                self.assertLess(max(rest), 0.05 * sum(sent.values()))
                checked += 1
        self.assertEqual(checked, 3)


class Compiled(Case):
    """20 functions with constraints on their activations, as users write them, next to
    what XLA compiled for 8 devices."""

    def test_each_difference_from_xla_has_a_rule(self):
        """Matmuls and arguments are equal, and what is sent is equal but for rules with
        exact amounts."""
        cases = xla_rules.recorded()["costed"]
        self.assertEqual(len(cases), 20)
        exact = 0
        for one in cases:
            with self.subTest(one["name"]):
                rules, unexplained, report = xla_rules.compared(one)
                self.assertEqual(unexplained, {})
                exact += not rules["sent"]
                self.assertLess(sum(rules["sent"].values()),
                                0.2 * report["communication_bytes"])
        self.assertGreaterEqual(exact, 13)

    def test_a_wrong_figure_is_unexplained(self):
        case = xla_rules.recorded()["costed"][2]
        right = xla_rules.compared(case)[1]
        for key in ("products", "arguments", "results"):
            with self.subTest(key):
                wrong = xla_rules.compared({**case, key: case[key] + 12})[1]
                self.assertEqual((right, list(wrong)), ({}, [key]))
        for key in case["sent"]:
            if key.startswith("again"):
                continue
            with self.subTest(key):
                sent = {**case["sent"], key: case["sent"][key] * 2}
                self.assertEqual(list(xla_rules.compared({**case, "sent": sent})[1]),
                                 [key])


class ByTheFamily(Case):
    def test_operations_of_llama_3_8b_are_those_of_its_family(self):
        """The layers are scanned, the parameters have other names, and the masked half
        of attention is not counted by either."""
        config = os.path.join(TESTDATA, "configs", "llama-3-8b.config.json")
        rules = ("rules:\n  - match: 'emb$'\n    spec: [TP, FSDP]\n"
                 "  - match: 'head$'\n    spec: [FSDP, TP]\n"
                 "  - match: '/(q|k|v|gate|up)$'\n    spec: [null, FSDP, TP]\n"
                 "  - match: '/(o|down)$'\n    spec: [null, TP, FSDP]\n"
                 "  - match: 'norm'\n    spec: Replicated\n")
        for mesh in ("fsdp:8", "fsdp:4,tp:2", "fsdp:2,tp:8"):
            with self.subTest(mesh), tempfile.TemporaryDirectory() as folder:
                made = report_of(LLAMA, mesh, write(folder, "rules.yaml", rules))
                done = run("cost", "--no-project", "--mesh", mesh, "--rules", "auto",
                           "--model", config, "--batch", "8", "--seq", "8192",
                           "--format", "json")
                self.check(done, 0)
                family = done.json()
                self.assertAlmostEqual(
                    made["flops"]["device"] / family["time"]["flops"], 1, delta=1e-12)
                self.assertAlmostEqual(made["flops"]["program"] / 3373.16e12, 1,
                                       delta=1e-5)
                # 2 * 8 * 8192 ** 2 * 4096 for each of the two matmuls of a layer, of
                # which half is masked, and twice that in the backward pass.
                self.assertEqual(made["flops"]["masked"],
                                 32 * 3 * 2 * 8 * 8192 ** 2 * 4096)
                self.assertEqual(made["memory"]["parameters"],
                                 family["memory"]["parameters"])


class Audited(Case):
    """What XLA sends, next to what the program needs, by lines."""

    def test_a_compiled_step_by_lines(self):
        hlo = os.path.join(COSTS, "step.hlo.txt.gz")
        program = os.path.join(COSTS, "step.program.json.gz")
        case = next(one for one in xla_rules.recorded()["costed"]
                    if one["name"] == "step")
        with gzip.open(program, "rt") as file:
            values = json.load(file)
        tree = {one["name"]: values["values"][one["value"]] for one in values["inputs"]
                if one["kind"] == "param"}
        with tempfile.TemporaryDirectory() as folder:
            rules = write(folder, "rules.yaml", case["rules"])
            plan, text = (os.path.join(folder, one) for one in ("plan.json", "hlo.txt"))
            self.check(run("plan", "--no-project", "--mesh", case["mesh"], "--rules",
                           rules, "--manifest", write(folder, "tree.json", tree), "-o",
                           plan), 0)
            with gzip.open(hlo, "rb") as packed, open(text, "wb") as file:
                file.write(packed.read())
            done = run("audit", text, "--plan", plan, "--program", program, "--fail-on",
                       "never", "--format", "json")
            shown = run("audit", text, "--plan", plan, "--program", program)
            needs = report_of(program, case["mesh"], rules)
            alone = run("audit", text, "--program", program)
        made = done.json()
        rows = made["needs"]
        self.assertEqual(sum(one["needed_bytes"] for one in rows),
                         needs["communication_bytes"])
        self.assertEqual(sum(one["sent_bytes"] for one in rows),
                         made["total"]["bytes_per_device"])
        off = [abs(one["sent_bytes"] - one["needed_bytes"]) for one in rows]
        self.assertEqual(off, sorted(off, reverse=True))
        # Tensor parallelism sums each projection back to the width, at its own line.
        equal = {(one["line"].split(":")[0], one["axes"]) for one in rows
                 if one["needed_bytes"] == one["sent_bytes"]}
        self.assertIn(("tests/traced/costed.py", "tp"), equal)
        # Most bytes are sent at a line that needs some over these axes.
        needed = {(one["line"], one["axes"]) for one in rows if one["needed_bytes"]}
        there = sum(one["sent_bytes"] for one in rows
                    if (one["line"], one["axes"]) in needed)
        self.assertGreater(there, 0.9 * made["total"]["bytes_per_device"])
        self.assertIn("compared with the traced program", shown.out)
        self.assertEqual((alone.rc, alone.out), (2, ""))
        self.assertIn("what a traced program needs depends on the plan", alone.err)


class OwnPrograms(FolderCase):
    """Small programs, whose figures are counted by hand."""

    # y = x w; on dp=2 fsdp=2 tp=2 a device has [2, 4] of x and [2, 3] of w.
    PRODUCT = {
        "schema": "shardc.program/v1", "traced": {"by": "test", "function": "own:f"},
        "files": ["own.py"], "assumptions": [], "unknown": [],
        "values": [{"shape": [8, 4], "dtype": "BF16"}, {"shape": [4, 6], "dtype": "BF16"},
                   {"shape": [8, 6], "dtype": "BF16"}],
        "inputs": [{"value": 0, "kind": "data", "name": "x"},
                   {"value": 1, "kind": "param", "name": "w"}],
        "ops": [{"op": "dot", "in": [0, 1], "out": [2], "at": [0, 3],
                 "lhs_contract": [1], "rhs_contract": [0], "lhs_batch": [],
                 "rhs_batch": []}],
        "outputs": [2]}
    MESH = "dp:2,fsdp:2,tp:2"

    def setUp(self):
        super().setUp()
        self.rules = write(self.folder, "rules.yaml",
                           "rules:\n  - match: w\n    spec: [fsdp, tp]\n")

    def cost(self, program, *options, mesh=MESH):
        return costed(write(self.folder, "own.json", program), mesh, self.rules, *options)

    def figures(self, program, *options):
        done = self.cost(program, "--format", "json", *options)
        self.check(done, 0)
        return done.json()

    def test_a_cache_is_sharded_as_what_it_has_in_common_with_data_and_weights(self):
        """y [8, 6] = x w is added to a cache: its rows are those of the batch, and its
        columns those of w over tp. Another state has no such dimension."""
        made = json.loads(json.dumps(self.PRODUCT))
        shape = [8, 6]
        made["values"] += [{"shape": shape, "dtype": "F32"}, {"shape": shape, "dtype": "F32"},
                           {"shape": [16], "dtype": "F32"}]
        cache, after, other = range(len(made["values"]) - 3, len(made["values"]))
        made["inputs"] += [{"value": cache, "kind": "state", "name": "cache"},
                           {"value": other, "kind": "state", "name": "other"}]
        made["ops"].append({"op": "map", "fn": "add", "in": [made["outputs"][0], cache],
                            "out": [after], "at": [0, 4]})
        made["outputs"] = [after]
        self.assertEqual(self.figures(made)["memory"]["state"], 8 * 6 * 4 // 8 + 16 * 4)

    def test_a_product(self):
        made = self.figures(self.PRODUCT, "--profile", "h100-sxm")
        self.assertEqual(made["flops"], {
            "program": 2 * 8 * 4 * 6, "device": 2 * 2 * 4 * 3, "masked": 0,
            "device_masked": 0, "device_elements": 0})
        # The gathered [4, 3] of w exists at the same time as the result.
        self.assertEqual(
            {key: made["memory"][key] for key in
             ("parameters", "state", "data", "results", "temporaries", "total")},
            {"parameters": 12, "state": 0, "data": 16, "results": 12, "temporaries": 24,
             "total": 64})
        self.assertEqual(made["memory"]["capacity"], 85520809984)
        self.assertIs(made["memory"]["fits"], True)
        sent = made["collectives"][0]
        self.assertEqual(
            (len(made["collectives"]), sent["line"], sent["op"], sent["collective"],
             sent["axes"], sent["count"], sent["bytes_per_device"]),
            (1, "own.py:3", "dot", "all_gather", ["fsdp"], 1, 12))
        # x, the gathered w and y, of which a device moves its own bytes.
        self.assertAlmostEqual(made["time"]["memory_s"], (16 + 12 + 12) / 3.35e12)
        self.assertAlmostEqual(made["time"]["compute_s"], 48 / 989e12)
        self.assertIn("exceeded by 44 B", self.cost(self.PRODUCT, "--memory", "20B").out)
        self.check(self.cost(self.PRODUCT, "--memory", "20B"), 1)

    def test_a_loop_counts_for_each_turn(self):
        """The body of a scan of 5 turns is the matmul above, without its result."""
        program = copy.deepcopy(self.PRODUCT)
        values = program["values"]
        values[1]["shape"] = [4, 4]
        values[2]["shape"] = [8, 4]
        values += copy.deepcopy(values)
        body = {"in": [4, 3], "ops": [dict(program["ops"][0], **{"in": [3, 4],
                                                                 "out": [5]})],
                "out": [5]}
        program["ops"] = [{"op": "scan", "in": [1, 0], "out": [2], "at": [0, 2],
                           "consts": 1, "carry": 1, "length": 5, "body": body}]
        made = self.figures(program)
        self.assertEqual(made["flops"]["program"], 5 * 2 * 8 * 4 * 4)
        counts = {one["line"]: one["count"] for one in made["collectives"]}
        self.assertEqual(counts["own.py:3"], 5)

    def test_a_loop_without_a_length_is_a_lower_bound(self):
        program = copy.deepcopy(self.PRODUCT)
        program["values"] += [{"shape": [], "dtype": "BOOL"}, {"shape": [8, 6],
                              "dtype": "BF16"}, {"shape": [8, 6], "dtype": "BF16"},
                              {"shape": [], "dtype": "BOOL"}, {"shape": [], "dtype": "BOOL"},
                              {"shape": [], "dtype": "BOOL"}, {"shape": [8, 6],
                              "dtype": "BF16"}, {"shape": [8, 6], "dtype": "BF16"},
                              {"shape": [], "dtype": "BOOL"}]
        program["inputs"].append({"value": 3, "kind": "data", "name": "go"})
        program["ops"].append({
            "op": "while", "in": [2, 3], "out": [10, 11], "at": [0, 7],
            "condition_consts": 0, "body_consts": 0,
            "condition": {"in": [4, 6], "ops": [], "out": [6]},
            "body": {"in": [5, 7], "ops": [
                {"op": "map", "fn": "neg", "in": [5], "out": [9], "at": [0, 8]}],
                "out": [9, 7]}})
        program["values"][11] = {"shape": [], "dtype": "BOOL"}
        program["values"][10] = {"shape": [8, 6], "dtype": "BF16"}
        program["outputs"] = [10]
        made = self.figures(program)
        self.assertTrue(made["at_least"])
        self.assertIn("how often the loop at own.py:7 runs",
                      made["not_known"][0]["what"])

    def test_opaque_ops_are_named_and_make_lower_bounds(self):
        program = copy.deepcopy(self.PRODUCT)
        program["values"].append({"shape": [8, 6], "dtype": "BF16"})
        program["ops"].append({"op": "opaque", "in": [2], "out": [3], "at": [0, 4],
                               "primitive": "pallas_call", "reason": "a kernel"})
        program["outputs"] = [3]
        done = self.cost(program)
        self.check(done, 0)
        self.assertIn("not known: the operations of `pallas_call` at own.py:4, and the "
                      "memory that it needs", done.out)
        self.assertRegex(done.out, r"total +at least ")
        for options in (["--profile", "h100-sxm"], ["--memory", "80GiB"]):
            self.check(self.cost(program, *options), 1)
        made = self.cost(program, "--profile", "h100-sxm", "--format", "json").json()
        self.assertEqual((made["time"], made["memory"]["fits"]), (None, None))
        self.assertIn("other facts", made["time_not_known"])
        # Bytes that do not fit are no question of what is not known.
        made = self.cost(program, "--memory", "8B", "--format", "json").json()
        self.assertIs(made["memory"]["fits"], False)

    def test_products_without_a_rate_have_no_time(self):
        program = copy.deepcopy(self.PRODUCT)
        for value in program["values"]:
            value["dtype"] = "F32"
        done = self.cost(program, "--profile", "h100-sxm")
        self.check(done, 1)
        self.assertIn("not known: the time of a step: h100-sxm has no rate", done.out)
        self.assertNotIn("at least", done.out)

    def test_donated_inputs_hold_the_results(self):
        program = os.path.join(PROGRAMS, "llama.step.program.json.gz")
        rules = write(self.folder, "all.yaml", "rules:\n  - match: '.*'\n    spec: []\n")
        kept = report_of(program, "tp:1", rules)["memory"]
        given = report_of(program, "tp:1", rules, "--donate")["memory"]
        # All but the loss.
        self.assertEqual(kept["results"], kept["parameters"] + kept["state"] + 4)
        self.assertEqual(given["results"], 4)
        self.assertLess(given["total"], kept["total"])

    def test_the_mask_is_only_that_of_attention(self):
        """Models without a causal mask, and matmuls outside of attention, are counted
        entirely."""
        rules = write(self.folder, "all.yaml", "rules:\n  - match: '.*'\n    spec: []\n")
        for name, masked in (("dit", False), ("vit", False), ("llama", True),
                             ("scan_llama.step", True), ("gpt_fused.step", True)):
            made = report_of(os.path.join(PROGRAMS, name + ".program.json.gz"), "tp:1",
                             rules)["flops"]
            self.assertEqual(made["masked"] > 0, masked, name)
        # llama: 2 layers of 2 rows, 6 heads of 8, 10 queries and keys.
        made = report_of(os.path.join(PROGRAMS, "llama.program.json.gz"), "tp:1", rules)
        self.assertEqual(made["flops"]["masked"], 2 * 2 * (2 * 2 * 6 * 10 * 10 * 8) / 2)

    def test_what_cannot_be_used_is_refused(self):
        """Exit status 2, one message and no output."""
        region = os.path.join(TESTDATA, "regions", "mlp.program.json.gz")
        for arguments, message in (
                (["--program", region, "--batch", "4"],
                 "`--batch` has no effect on a traced program"),
                (["--program", region, "--stages", "pp"],
                 "`--stages` has no effect on a traced program"),
                (["--program", region, "--zero", "1"],
                 "`--zero` has no effect on a traced program"),
                (["--program", region], "runs over `tp` of size 4"),
                (["--donate"], "`--donate` has an effect only with `--program`")):
            with self.subTest(message):
                done = run("cost", "--no-project", "--mesh", "fsdp:2,tp:2", "--rules",
                           write(self.folder, "r.yaml",
                                 "rules:\n  - match: '.*'\n    spec: []\n"), *arguments)
                self.assertEqual((done.rc, done.out), (2, ""), done)
                self.assertIn(message, done.err)
                self.assertEqual(done.err.count("error["), 1, done.err)

    def test_a_search_lists_each_mesh_as_cost_does(self):
        program = os.path.join(PROGRAMS, "llama.program.json.gz")
        done = run("search", "--no-project", "--program", program, "--devices", "4",
                   "--format", "json")
        self.check(done, 0)
        made = done.json()
        self.assertEqual({one["mesh"] for one in made["meshes"]}, {
            f"dp={dp} fsdp={fsdp} tp={4 // dp // fsdp}"
            for dp in (1, 2, 4) for fsdp in (1, 2, 4) if 4 % (dp * fsdp) == 0})
        self.assertRegex(made["proof"], r"^equal: \d+ values$")
        order = []
        for one in made["meshes"]:
            with self.subTest(one["mesh"]):
                mesh = one["mesh"].replace("=", ":").replace(" ", ",")
                rules = os.path.join(self.folder, mesh + ".suggested.yaml")
                done = run("suggest", "--no-project", "--program", program, "--mesh",
                           mesh, "-o", rules)
                self.assertEqual(done.rc == 0, one["why_not"] is None, one)
                if done.rc == 0:
                    cost = report_of(program, mesh, rules)
                    self.assertEqual(
                        (one["bytes_per_device"], one["sent_per_device"],
                         one["device_flops"]),
                        (cost["memory"]["total"], cost["communication_bytes"],
                         cost["flops"]["device"]))
                    order.append((one["device_flops"], one["sent_per_device"]))
        self.assertGreater(len(order), 3)
        self.assertEqual(order, sorted(order))

    def test_a_search_of_a_program_with_given_rules(self):
        program = write(self.folder, "own.json", self.PRODUCT)
        done = run("search", "--no-project", "--program", program, "--devices", "8",
                   "--rules", self.rules, "--profile", "h100-sxm")
        self.check(done, 0)
        self.assertRegex(done.out, r"^own:f on 8 devices\nmesh +bytes per device")
        self.assertRegex(done.out, r"\ncheapest: [^,]*, equal: 1 value\n$")
        # tp=8 does not divide 6 columns.
        self.assertIn("left out: dp=1 fsdp=1 tp=8: ", done.out)
        self.check(run("search", "--no-project", "--program", program, "--devices", "8",
                       "--rules", self.rules, "--memory", "8B"), 1)
        for arguments, message in (
                (["--devices", "8", "--batch", "4"], "`--batch` has no effect"),
                (["--devices", "8", "--format", "html"], "has no page"),
                ([], "no number of devices is given"),
                (["--devices", "9999999"], "are too many to search")):
            with self.subTest(message):
                done = run("search", "--program", program, "--no-project", *arguments)
                self.assertEqual((done.rc, done.out), (2, ""), done)
                self.assertIn(message, done.err)

    def test_a_plan_file_gives_the_same_figures_as_its_rules(self):
        tree = write(self.folder, "tree.json", {"w": {"shape": [4, 6], "dtype": "BF16"}})
        plan = os.path.join(self.folder, "plan.json")
        self.check(run("plan", "--no-project", "--mesh", self.MESH, "--rules", self.rules,
                       "--manifest", tree, "-o", plan), 0)
        program = write(self.folder, "own.json", self.PRODUCT)
        done = run("cost", "--program", program, "--plan", plan, "--format", "json")
        self.check(done, 0)
        self.assertEqual(done.json(), self.figures(self.PRODUCT))


if __name__ == "__main__":
    unittest.main()
