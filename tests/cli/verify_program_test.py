"""`verify step --program`: the proof of a user's traced program under a plan."""

import concurrent.futures
import copy
import gzip
import json
import math
import os
import subprocess
import tempfile
import unittest

from driver import ROOT, TESTDATA, Case, FolderCase, one_in, part_of, run

PROGRAMS = os.path.join(TESTDATA, "programs")
STEPS = os.path.join(TESTDATA, "steps")
REGIONS = os.path.join(TESTDATA, "regions")
OPAQUE = os.path.join(TESTDATA, "opaque")
EVERY = one_in(0) == 1
MESHES = ("fsdp:2,tp:2", "tp:2", "fsdp:4", "dp:2,fsdp:2,tp:2", "tp:4")
ODD = {"fsdp": "rows", "tp": "columns"}


def load(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def names_of(folder):
    """The programs of a folder."""
    ending = ".program.json.gz"
    return sorted(one[:-len(ending)] for one in os.listdir(folder) if one.endswith(ending))


def manifest_of(program):
    values = program["values"]
    return {one["name"]: {"shape": values[one["value"]]["shape"],
                          "dtype": values[one["value"]]["dtype"]}
            for one in program["inputs"] if one["kind"] == "param"}


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text if isinstance(text, str) else json.dumps(text))
    return path


def plan_of(folder, name, manifest, mesh, rules):
    """The path of a plan of these rules; unmatched and illegal specs are
    replicated."""
    plan = os.path.join(folder, name + ".plan.json")
    done = run("plan", "--no-project", "--mesh", mesh, "--rules", rules, "--manifest",
               write(folder, name + ".manifest.json", manifest), "-o", plan)
    if done.rc:
        raise AssertionError(repr(done))
    return plan


def prove(program, plan, *options):
    return run("verify", "step", "--program", program, "--plan", plan, "--format",
               "json", *options)


class Programs(Case):
    """Every recorded program equals the dense one under the plans that `suggest`
    makes of it."""

    def proved(self, record, name, mesh, folder, odd):
        path = os.path.join(record, name + ".program.json.gz")
        program = name
        # Each has files of its own, since several run at the same time.
        name = ".".join((os.path.basename(record), name,
                         mesh.replace(":", "").replace(",", ".") + ".odd" * odd))
        rules = os.path.join(folder, name + ".yaml")
        done = run("suggest", "--no-project", "--mesh", mesh, "--program", path, "-o",
                   rules)
        if done.rc:
            return name, repr(done)
        if odd:
            # The same plan on axes whose names say nothing, without rules for
            # batches.
            plan = plan_of(folder, name, manifest_of(load(path)), mesh, rules)
            with open(plan, encoding="utf-8") as file:
                params = json.load(file)["params"]
            lines = [f"  - match: '^{param}$'\n    spec: " + json.dumps(
                [[ODD[axis] for axis in axes] if isinstance(axes, list)
                 else ODD.get(axes) for axes in one["spec"]])
                     for param, one in params.items()]
            rules = write(folder, name + ".odd.yaml",
                          "rules:\n" + "\n".join(lines) + "\n")
            for axis, other in ODD.items():
                mesh = mesh.replace(axis, other)
        plan = plan_of(folder, name, manifest_of(load(path)), mesh, rules)
        # The recorded numbers are those of the traced sizes.
        done = prove(path, plan, "--full")
        if done.rc:
            return name, repr(done)[:2000]
        report = done.json()
        if report["status"] != "equal" or not report["complete"]:
            return name, "the verdict is " + report["status"]
        if not report["collectives"]:
            return name, "nothing is sent"
        if off(record, program, report) > 5e-5:
            return name, "JAX computes other values"
        # `cost` walks the program without its numbers, and must send the same.
        done = run("cost", "--program", path, "--plan", plan, "--format", "json")
        if done.rc:
            return name, repr(done)[:2000]
        sent = [{key: value for key, value in one.items() if key != "seconds"}
                for one in done.json()["collectives"]]
        if name.startswith("programs.generate."):
            # A turn of a loop that runs until texts end.
            (unknown,) = done.json()["not_known"]
            if not unknown["what"].startswith("how often the loop at "):
                return name, f"what is not known is {unknown}"
            for one in (*sent, *report["collectives"]):
                one["count"] = one["bytes_per_device"] = 0
        if sent != report["collectives"]:
            return name, "`cost --program` sends something else"
        return name, ""

    def test_recorded_programs_equal_the_dense_ones(self):
        jobs = []
        for record, count in ((PROGRAMS, 43), (STEPS, 33)):
            names = names_of(record)
            self.assertEqual(len(names), count)
            for i, name in enumerate(names):
                meshes = MESHES if EVERY else (MESHES[i % len(MESHES)],)
                jobs += [(record, name, mesh, False) for mesh in meshes]
                if EVERY or i % 6 == 0:
                    jobs.append((record, name, MESHES[0], True))
        with tempfile.TemporaryDirectory() as folder, \
                concurrent.futures.ThreadPoolExecutor(2) as pool:
            made = [pool.submit(self.proved, record, name, mesh, folder, odd)
                    for record, name, mesh, odd in part_of(jobs, 3)]
            for one in made:
                name, fault = one.result()
                with self.subTest(name):
                    self.assertEqual(fault, "")


def off(record, program, report):
    """How far the dense results are from those of JAX for the same inputs
    (tests/traced/record_values.py): of the sum and of the sum of the squares, in parts of
    the largest that the sum could be. JAX computes in float32."""
    with open(os.path.join(record, "VALUES.json"), encoding="utf-8") as file:
        values = json.load(file)["values"][program]
    results = report["results"]
    assert len(values) == len(results)
    worst = 0
    for (total, squares), one in zip(values, results):
        size = math.prod(one["shape"])
        most = math.sqrt(size * max(squares, one["sum_of_squares"])) + 1e-9
        worst = max(worst, abs(one["sum"] - total) / most,
                    abs(one["sum_of_squares"] - squares) / (squares + 1e-12))
    return worst


def bodies(ops):
    for op in ops:
        yield op
        for key in ("body", "condition"):
            if key in op:
                yield from bodies(op[key]["ops"])
        for branch in op.get("branches", ()):
            yield from bodies(branch["ops"])


# What another function does in place of one. A running maximum may be anything, and
# so may the numbers with which sums begin that are multiplied by 0 first: these are
# left out, as the last step of the ring is, whose block a causal mask hides.
NEUTRAL = ([0.0], [100000000.0])
OTHERS = {"mul": "add", "sub": "mul", "div": "mul", "exp": "abs", "sin": "cos",
          "sqrt": "abs", "ge": "lt", "square": "abs", "rem": "max", "tanh": "sin",
          "rsqrt": "sqrt"}


def faults(program):
    """Programs with one fault each in a manual region, with what was changed and its
    line."""
    places = [i for i, op in enumerate(bodies(program["ops"]))]
    inside = {id(one) for op in program["ops"] if op["op"] == "manual"
              for one in bodies(op["body"]["ops"])}
    inside = [i for i, op in enumerate(bodies(program["ops"])) if id(op) in inside]
    assert len(places) > len(inside) > 0
    values = program["values"]
    for i in inside:
        op = list(bodies(program["ops"]))[i]
        changes = []
        begins = any(values[one].get("floats") in NEUTRAL for one in op["in"])
        if op["op"] == "map" and op["fn"] in OTHERS and not begins:
            changes.append({"fn": OTHERS[op["fn"]]})
        if op["op"] == "collective" and op["kind"] == "psum":
            changes += [{"kind": "pmax"}, {"axes": ["tp" if op["axes"] == ["fsdp"]
                                                    else "fsdp"]},
                        {"op": "map", "fn": "convert", "kind": None, "axes": None}]
        if op["op"] == "collective" and op["kind"] == "ppermute":
            changes += [{"perm": [[b, a] for a, b in op["perm"]]},
                        {"perm": [[a, a] for a, _ in op["perm"]]},
                        {"perm": op["perm"][1:]}]
        if op["op"] == "collective" and op["kind"] == "all_to_all" and \
                values[op["in"][0]]["shape"] == values[op["out"][0]]["shape"]:
            changes.append({"op": "map", "fn": "convert", **dict.fromkeys(
                ("kind", "axes", "split_dim", "concat_dim", "tiled"))})
        if op["op"] == "collective" and op["kind"] == "axis_index":
            changes.append({"axes": ["fsdp"]})
        if op["op"] == "scan":
            changes.append({"reverse": True})
        if op["op"] == "const" and values[op["out"][0]].get("floats") in (
                [0.25], [0.5], [4.0]):
            changes.append({"floats": [3.0]})
        if op["op"] == "reduce" and op["fn"] == "sum":
            changes.append({"fn": "max"})
        for change in changes:
            made = copy.deepcopy(program)
            target = list(bodies(made["ops"]))[i]
            if "floats" in change:
                made["values"][op["out"][0]].update(change)
            else:
                target.update(change)
                for key in [key for key, value in change.items() if value is None]:
                    del target[key]
            yield (f"{op['op']} {op.get('fn', op.get('kind', ''))} {change}", made,
                   op["at"][1])


class Memory(FolderCase):
    def peak(self, layers):
        """The memory of a proof at the traced sizes of a chain of products, in MiB."""
        size = 256
        values = [{"shape": [size, size], "dtype": "F32"} for _ in range(1 + 2 * layers)]
        dot = {"op": "dot", "at": [0, 1], "lhs_contract": [1], "rhs_contract": [0],
               "lhs_batch": [], "rhs_batch": []}
        program = write(self.folder, f"{layers}.json", {
            "schema": "shardc.program/v1", "files": ["own.py"],
            "traced": {"by": "test", "function": "own:f"}, "values": values,
            "ops": [{**dot, "in": [i, layers + 1 + i], "out": [i + 1]}
                    for i in range(layers)],
            "inputs": [{"value": 0, "kind": "data", "name": "x"}] + [
                {"value": layers + 1 + i, "kind": "param", "name": f"w{i}"}
                for i in range(layers)],
            "outputs": [layers], "assumptions": [], "unknown": []})
        rules = write(self.folder, "rules.yaml",
                      "rules:\n  - match: w\n    spec: [dp, tp]\n")
        child = subprocess.Popen(
            [os.environ["SHARDC_BIN"], "verify", "step", "--no-project", "--full",
             "--program", program, "--rules", rules, "--mesh", "dp:2,tp:2"],
            stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, 0)
        return used.ru_maxrss / 1024

    def test_values_are_freed_that_no_later_op_reads(self):
        """Each layer has two values of 0.5 MiB, and their shards."""
        self.assertLess(self.peak(60), self.peak(4) + 20)


class Regions(FolderCase):
    """Functions with shard_map against the same functions without it."""

    def given(self, name):
        path = os.path.join(REGIONS, name + ".program.json.gz")
        program = load(path)
        rules = write(self.folder, name + ".yaml",
                      "rules:\n  - match: '(scale)$'\n    spec: []\n"
                      "  - match: '.*'\n    spec: [fsdp, tp]\n")
        plan = plan_of(self.folder, name, manifest_of(program), "fsdp:2,tp:4", rules)
        return path, program, plan, os.path.join(
            REGIONS, name + "_reference.program.json.gz")

    def test_regions_equal_their_references(self):
        names = [one for one in names_of(REGIONS) if not one.endswith("_reference")]
        self.assertEqual(len(names), 13)
        for name in names:
            with self.subTest(name):
                path, _, plan, reference = self.given(name)
                done = prove(path, plan, "--reference", reference)
                self.assertEqual(done.rc, 0, done)
                report = done.json()
                self.assertEqual(report["status"], "equal")
                # A training step has one for the gradients as well.
                self.assertEqual(report["manual_regions"], 2 if "step" in name else 1)
                self.assertLess(off(PROGRAMS, name, report), 1e-5)

    # Of the faults of a region: how many there are, how many are found at their line,
    # and how many change no result. Others are found at another line of the region,
    # which has the first value that the reference lacks: a ring goes round in a loop,
    # rows of experts travel, a pipeline's values are of several microbatches, and whole
    # numbers occur in many values. The pipeline does not need what leaves its last turns.
    FAULTS = {"ring": (23, 0, 0), "mlp": (14, 14, 0), "ulysses": (6, 6, 0),
              "vocabulary": (13, 9, 0), "flash_decode": (12, 11, 0),
              "experts": (3, 1, 0), "scattered": (9, 9, 0), "stages": (29, 2, 2)}

    def test_faults_are_detected_at_lines_of_the_region(self):
        """Each fault is detected, either since devices disagree or by the
        reference."""
        with open(os.path.join(ROOT, "tests", "traced", "regions.py"),
                  encoding="utf-8") as file:
            lines = file.read().splitlines()
        for name, want in self.FAULTS.items():
            _, program, plan, reference = self.given(name)
            begin = lines.index(f"def {name}(p, b):") + 1
            end = begin + next(i for i, line in enumerate(lines[begin:])
                               if line.startswith("def "))
            counts = [0, 0, 0]
            for what, made, at in faults(program):
                with self.subTest(name, what=what):
                    counts[0] += 1
                    done = prove(write(self.folder, "wrong.json", made), plan,
                                 "--reference", reference)
                    if done.rc == 0:
                        counts[2] += 1
                        continue
                    self.assertEqual(done.rc, 1, done)
                    failure = done.json()["failure"]
                    file, line = failure["line"].split(":")
                    self.assertEqual(file, "tests/traced/regions.py")
                    self.assertTrue(begin < int(line) < end, failure)
                    counts[1] += int(line) == at
            with self.subTest(name):
                self.assertEqual(tuple(counts), want)

    # Of 512 rows and 256 columns that are reduced to 4, or to other numbers.
    ROWS, COLUMNS = 512, 256

    def divided(self, by):
        """A function that divides a product by a number: one that it counts, of the
        ones along `rows` or `columns`, or of the numbers of an input that are
        themselves, or a constant."""
        values, ops = [], []

        def value(*shape, **more):
            values.append({"shape": list(shape), "dtype": "F32", **more})
            return len(values) - 1

        def write(op, ins, shape, **more):
            ops.append({"op": op, "in": ins, "out": [value(*shape)],
                        "at": [0, len(ops) + 1], **more})
            return ops[-1]["out"][0]

        def constant(number):
            ops.append({"op": "const", "in": [], "out": [value(floats=[number])],
                        "at": [0, len(ops) + 1]})
            return ops[-1]["out"][0]

        shape = (self.ROWS, self.COLUMNS)
        x, w = value(*shape), value(self.COLUMNS, 2 * self.COLUMNS)
        y = write("dot", [x, w], (self.ROWS, 2 * self.COLUMNS), lhs_contract=[1],
                  rhs_contract=[0], lhs_batch=[], rhs_batch=[])
        for what in by:
            if isinstance(what, (int, float)):
                number = constant(float(what))
            else:
                of, side = what.split()
                if of == "ones":
                    own = write("broadcast", [constant(1.0)], shape, dims=[])
                else:
                    own = write("map", [x, x], shape, fn="eq")
                    values[own]["dtype"] = "BOOL"
                    own = write("map", [own], shape, fn="convert")
                axis = 0 if side == "rows" else 1
                number = write("reduce", [own], (shape[1 - axis],), axes=[axis],
                               fn="sum")
                number = write("reduce", [number], (), axes=[0], fn="max")
            number = write("broadcast", [number], (self.ROWS, 2 * self.COLUMNS), dims=[])
            y = write("map", [y, number], (self.ROWS, 2 * self.COLUMNS), fn="div")
        return {"schema": "shardc.program/v1",
                "traced": {"by": "test", "function": "own:f"}, "files": ["own.py"],
                "values": values, "ops": ops, "outputs": [y], "assumptions": [],
                "unknown": [],
                "inputs": [{"value": x, "kind": "data", "name": "x"},
                           {"value": w, "kind": "param", "name": "w"}]}

    def test_numbers_that_equal_reduced_sizes_by_chance(self):
        """A function with a number that is right only where its size is as small as in
        the proof, of which either one is the reference."""
        rules = write(self.folder, "rules.yaml", "rules:\n  - match: w\n    spec: []\n")

        def status(one, other):
            paths = [write(self.folder, name, self.divided(by))
                     for name, by in (("one.json", one), ("other.json", other))]
            done = run("verify", "step", "--no-project", "--program", paths[0], "--rules",
                       rules, "--mesh", "dp:2", "--reference", paths[1], "--format", "json")
            self.assertIn(done.rc, (0, 1), done)
            return done.json()["status"]

        for of in ("ones", "same"):
            rows, columns = of + " rows", of + " columns"
            wrong = [([rows], [number]) for number in (4, 5, 6, 8, 10, 12, 16, 256)]
            wrong += [([columns], [number]) for number in (4, 5, 6, 8, 10, 14, 512)]
            wrong += [([rows], [columns]), ([rows, columns], [16]),
                      ([rows, columns], [36]), ([rows, columns], [rows, rows]),
                      ([rows, 0.25], [1]), ([rows, 4], [columns, 4])]
            for one, other in wrong:
                with self.subTest(one=one, other=other):
                    self.assertEqual(status(one, other), "differs")
                    self.assertEqual(status(other, one), "differs")
            for one, other in (([rows], [512]), ([columns], [256]),
                               ([rows, columns], [columns, rows]),
                               ([rows, columns], [1 << 17]), ([rows, 1 / 512], [1])):
                with self.subTest(one=one, other=other):
                    self.assertEqual(status(one, other), "equal")

    def test_the_mesh_must_have_the_axes_of_the_region(self):
        path, program, _, _ = self.given("mlp")
        rules = os.path.join(self.folder, "mlp.yaml")
        plan = plan_of(self.folder, "small", manifest_of(program), "fsdp:2,tp:2", rules)
        done = prove(path, plan)
        self.assertEqual((done.rc, done.out), (2, ""))
        self.assertIn("runs over `tp` of size 4, and the mesh has size 2", done.err)


class Verdicts(Case):
    """The verdict where nothing is known of an op."""

    PROGRAM = {
        "schema": "shardc.program/v1", "traced": {"by": "test", "function": "own:f"},
        "files": ["own.py"], "assumptions": [], "unknown": [],
        "values": [{"shape": [4, 8], "dtype": "F32"}, {"shape": [8, 4], "dtype": "F32"},
                   {"shape": [4, 4], "dtype": "F32"}, {"shape": [4, 4], "dtype": "F32"},
                   {"shape": [4, 4], "dtype": "F32"}],
        "inputs": [{"value": 0, "kind": "data", "name": "x"},
                   {"value": 1, "kind": "param", "name": "w"}],
        "ops": [{"op": "dot", "in": [0, 1], "out": [2], "at": [0, 3],
                 "lhs_contract": [1], "rhs_contract": [0], "lhs_batch": [],
                 "rhs_batch": []},
                {"op": "opaque", "in": [2], "out": [3], "at": [0, 4],
                 "primitive": "fft", "reason": "it is no op of the format"},
                {"op": "random", "in": [], "out": [4], "at": [0, 5],
                 "fn": "random_bits"}],
        "outputs": [3, 4]}

    def proved(self, program, mesh="fsdp:2,tp:2", *options):
        with tempfile.TemporaryDirectory() as folder:
            rules = write(folder, "rules.yaml",
                          "rules:\n  - match: w\n    spec: [fsdp, tp]\n")
            plan = plan_of(folder, "plan", manifest_of(program), mesh, rules)
            return run("verify", "step", "--plan", plan, "--program",
                       write(folder, "own.json", program), *options)

    def test_unknown_ops_are_named_with_their_line(self):
        done = self.proved(self.PROGRAM)
        self.assertEqual(done.rc, 0, done)
        self.assertIn("not proved at own.py:4: nothing is known of `fft`", done.out)
        self.assertIn("not proved at own.py:5: random numbers", done.out)
        self.assertIn("\nequal but for stand-ins: ", done.out)
        self.assertTrue(done.out.endswith(
            "; not proved: `fft` at own.py:4 and `random numbers` at own.py:5\n"), done)
        report = self.proved(self.PROGRAM, "fsdp:2,tp:2", "--format", "json").json()
        self.assertFalse(report["complete"])
        self.assertEqual([(one["line"], one["what"], one["drawn"])
                          for one in report["not_proved"]],
                         [("own.py:4", "fft", False),
                          ("own.py:5", "random numbers", True)])

    def test_what_a_stand_in_makes_of_numbers_is_no_difference(self):
        """The square root of numbers that were drawn."""
        program = copy.deepcopy(self.PROGRAM)
        program["values"].append({"shape": [4, 4], "dtype": "F32"})
        program["ops"].append({"op": "map", "fn": "sqrt", "in": [4], "out": [5],
                               "at": [0, 6]})
        program["outputs"] = [3, 5]
        done = self.proved(program)
        self.assertEqual(done.rc, 1, done)
        self.assertNotIn("differs", done.out)
        self.assertTrue(done.out.endswith(
            "not proved at own.py:6: result 1 is not a number in the dense run as well, "
            "since it is computed from the numbers of `random numbers` at own.py:5, which "
            "is a stand-in\n"), done)
        report = self.proved(program, "fsdp:2,tp:2", "--format", "json").json()
        self.assertEqual(report["status"], "not proved")

    def test_constants_that_a_trace_left_out_are_no_difference_from_a_reference(self):
        """Two programs of one function have the same numbers for such a constant.
        Where only one of them states it, nothing is shown."""
        def scaled(stated, before=0):
            made = copy.deepcopy(self.PROGRAM)
            made["values"] = made["values"][:3]
            made["ops"] = made["ops"][:1]
            for _ in range(before):
                made["ops"].append({"op": "const", "in": [], "at": [0, 2],
                                    "out": [len(made["values"])]})
                made["values"].append({"shape": [], "dtype": "F32", "floats": [1.0]})
            table, out = len(made["values"]), len(made["values"]) + 1
            made["values"] += [{"shape": list(made["values"][2]["shape"]),
                                "dtype": "F32"} for _ in range(2)]
            if stated:
                shape = made["values"][table]["shape"]
                made["values"][table]["floats"] = [2.0] * (shape[0] * shape[1])
            made["ops"] += [{"op": "const", "in": [], "out": [table], "at": [0, 6]},
                            {"op": "map", "fn": "mul", "in": [2, table], "out": [out],
                             "at": [0, 7]}]
            made["outputs"] = [out]
            return made

        named = "`constant [4, 4]`{} at own.py:6"
        for other, rc, said in (
                (scaled(False, 2), 0, "; not proved: " + named.format("")),
                (scaled(True), 1, "numbers of " + named.format("") +
                 ", which is a stand-in")):
            with tempfile.TemporaryDirectory() as folder, self.subTest(said):
                done = self.proved(scaled(False), "fsdp:2,tp:2", "--reference",
                                   write(folder, "other.json", other))
                self.assertEqual(done.rc, rc, done)
                self.assertTrue(done.out.endswith(said + "\n"), done)
                self.assertNotIn("\ndiffers", done.out)
        with tempfile.TemporaryDirectory() as folder:
            done = self.proved(scaled(True), "fsdp:2,tp:2", "--reference",
                               write(folder, "other.json", scaled(False)))
        self.assertEqual(done.rc, 1, done)
        self.assertTrue(done.out.endswith(
            "numbers of " + named.format(" of the reference") +
            ", which is a stand-in\n"), done)

    def test_kernels_and_foreign_calls_are_never_proved_in_silence(self):
        """Programs of tests/traced/opaque_models.py. Outside of regions the operand,
        which both axes shard, is gathered."""
        with open(os.path.join(ROOT, "tests", "traced", "opaque_models.py"),
                  encoding="utf-8") as file:
            lines = file.read().splitlines()
        calls = {"pallas_call": ("pallas_call", "pallas.pallas_call(halves"),
                 "ffi_call": ("ffi_call a_library_of_theirs", "jax.ffi.ffi_call("),
                 "invented": ("frobnicate", "frobnicate.bind(h)"),
                 "kernel_in_region": ("pallas_call", "pallas.pallas_call(halves"),
                 "kernel_in_scan": ("pallas_call", "pallas.pallas_call(halves")}
        self.assertEqual(names_of(OPAQUE), sorted(calls))
        for name, (what, code) in calls.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(OPAQUE, name + ".program.json.gz")
                plan = plan_of(folder, "plan", manifest_of(load(path)), "fsdp:2,tp:2",
                               write(folder, "rules.yaml", "rules:\n"
                                     "  - match: up\n    spec: [fsdp, tp]\n"
                                     "  - match: down\n    spec: [tp, fsdp]\n"))
                report = self.check(prove(path, plan), 0).json()
                self.assertFalse(report["complete"])
                (one,) = report["not_proved"]
                self.assertEqual(one["what"], what)
                file, line = one["line"].split(":")
                self.assertEqual(file, "tests/traced/opaque_models.py")
                self.assertIn(code, lines[int(line) - 1])
                said = self.check(run("verify", "step", "--plan", plan, "--program",
                                      path), 0).out
                self.assertIn(f"not proved at {one['line']}: nothing is known of "
                              f"`{what}`; ", said)
                self.assertIn("\nequal but for stand-ins: ", said)
                self.assertNotIn("\nequal: ", said)
                gathered = {(other["dim"], *other["axes"]) for other in report["gathered"]
                            if other["line"] == one["line"]}
                if name == "kernel_in_region":
                    self.assertEqual(gathered, set())
                    self.assertIn("a stand-in runs on each device's shards", said)
                else:
                    self.assertLessEqual(gathered, {(0, "fsdp"), (1, "tp")})
                    self.assertIn((1, "tp"), gathered)
                    self.assertIn("its operands are gathered", said)

    def test_invented_words_are_refused_or_named(self):
        """Each word of a program in turn becomes one that no release knows."""
        refused, named = set(), set()
        for folder_of, name in ((PROGRAMS, "moe_ragged"), (PROGRAMS, "mamba2"),
                                (REGIONS, "mlp")):
            original = load(os.path.join(folder_of, name + ".program.json.gz"))
            seen = set()
            for i, op in enumerate(bodies(original["ops"])):
                for key in {"op", "fn", "kind"} & set(op):
                    if (key, op["op"], op.get("fn")) in seen:
                        continue
                    seen.add((key, op["op"], op.get("fn")))
                    made = copy.deepcopy(original)
                    list(bodies(made["ops"]))[i][key] = "frobnicate"
                    with self.subTest(name, op=op["op"], key=key):
                        self.tried(made, f"{op['op']} {key}", refused, named)
        self.assertGreaterEqual(len(refused), 18)
        self.assertEqual(named, {"map fn", "reduce fn", "scatter fn"})

    def tried(self, made, what, refused, named):
        with tempfile.TemporaryDirectory() as folder:
            done = run("verify", "step", "--no-project", "--mesh", "fsdp:2,tp:4",
                       "--program", write(folder, "own.json", made), "--format", "json",
                       "--rules", write(folder, "rules.yaml", "rules:\n  - match: '.*'\n"
                                        "    spec: [fsdp]\n"))
        if done.rc == 2:
            self.assertRegex(done.out + done.err,
                             "frobnicate|regions.py:[0-9]+ is of a kind that is not known")
            refused.add(what)
        else:
            report = done.json()
            self.assertFalse(report["complete"])
            self.assertIn("frobnicate", {one["what"] for one in report["not_proved"]})
            named.add(what)

    def test_what_an_op_needs_entirely_is_gathered_and_reported(self):
        done = self.proved(self.PROGRAM)
        self.assertIn("gathered at own.py:4: `opaque` needs all of dimension", done.out)

    def test_an_unknown_op_may_have_an_empty_result(self):
        """As PyTorch's embedding bags have. The other result is computed all the
        same."""
        program = copy.deepcopy(self.PROGRAM)
        program["values"].append({"shape": [0], "dtype": "I64"})
        program["ops"][1]["out"] = [3, 5]
        done = self.proved(program)
        self.assertEqual(done.rc, 0, done)
        self.assertIn("\nequal but for stand-ins: ", done.out)

    def test_constraints_over_other_axes_are_noted(self):
        """A constraint that the mesh can follow reshards its operand."""
        program = copy.deepcopy(self.PROGRAM)
        program["values"].append({"shape": [4, 4], "dtype": "F32"})
        program["ops"] = [program["ops"][0], {
            "op": "constraint", "in": [2], "out": [5], "at": [0, 6],
            "spec": [[], ["rows"]]}]
        program["outputs"] = [5]
        note = "the constraint at own.py:6 is not followed, since the mesh lacks one"
        self.assertIn(note, self.proved(program).out)
        program["ops"][1]["spec"] = [["tp"], None]
        done = self.proved(program)
        self.assertNotIn(note, done.out)
        self.assertIn("own.py:6  forward  constraint  all_to_all", done.out)
        self.assertEqual(done.rc, 0, done)

    def test_a_step_on_64_devices_takes_seconds(self):
        """Those of the recorded programs that take longest."""
        for folder_of, name in (("programs", "dit.step"), ("programs", "llama.step"),
                                ("torch_programs", "qwen3_next")):
            path = os.path.join(TESTDATA, folder_of, name + ".program.json.gz")
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                rules = os.path.join(folder, "rules.yaml")
                self.check(run("suggest", "--no-project", "--mesh", "fsdp:8,tp:8",
                               "--program", path, "-o", rules), 0)
                begin = os.times()
                done = run("verify", "step", "--no-project", "--mesh", "fsdp:8,tp:8",
                           "--program", path, "--rules", rules)
                end = os.times()
                self.check(done, 0)
                self.assertIn("equal: ", done.out)
                self.assertLess(end.children_user - begin.children_user, 5)

    def test_what_cannot_be_used_is_refused(self):
        """Exit status 2, one message and no output."""
        program = os.path.join(REGIONS, "mlp.program.json.gz")
        large = ["--rules", "rules.yaml", "--mesh", "dp:128"]
        with tempfile.TemporaryDirectory() as folder:
            write(folder, "rules.yaml", "rules:\n  - match: '.*'\n    spec: [fsdp]\n")
            for options, message in (
                    (["--batch", "4"], "`--batch` has no effect on a traced program, which has "
                     "its own sizes and ops"),
                    (["--mode", "train,decode"],
                     "a traced program is proved in one mode, and `--mode` names 2"),
                    (large, "128 devices, and a program is proved on 64 at most")):
                with self.subTest(message):
                    done = run("verify", "step", "--program", program, *options,
                               cwd=folder)
                    self.assertEqual((done.rc, done.out), (2, ""), done)
                    self.assertIn(message, done.err)
            done = run("verify", "step", "--reference", program, cwd=folder)
            self.assertEqual((done.rc, done.out), (2, ""), done)
            self.assertIn("`--reference` has an effect only with `--program`", done.err)

    def test_malformed_attributes_are_refused(self):
        region = load(os.path.join(REGIONS, "ring.program.json.gz"))

        def first(kind, made):
            return next(op for op in bodies(made["ops"]) if op["op"] == kind)

        def floats(made, value):
            next(one for one in made["values"] if "floats" in one)["floats"] = value

        def gather(mode):
            made = copy.deepcopy(self.PROGRAM)
            made["values"] += [{"shape": [2, 1], "dtype": "I32"},
                               {"shape": [2, 4], "dtype": "F32"}]
            made["inputs"].append({"value": 5, "kind": "data", "name": "i"})
            made["ops"].append({
                "op": "gather", "in": [3, 5], "out": [6], "offset_dims": [1],
                "collapsed_dims": [0], "operand_batch_dims": [],
                "indices_batch_dims": [], "start_index_map": [0],
                "slice_sizes": [1, 4], "mode": mode})
            return made

        changes = (
            (lambda made: floats(made, ["x"]), "an element is a number, `nan`, `inf` or `-inf`"),
            (lambda made: floats(made, []), "`floats` must have the 1 elements"),
            (lambda made: first("collective", made).update(axes={}),
             "`axes` must be a list"),
            (lambda made: first("collective", made).update(axes=[1]),
             "an axis must be a name"),
            (lambda made: first("manual", made).update(in_specs=[[["tp"]], ["tp"], []]),
             "axes must be a list of names"),
            (lambda made: first("manual", made).update(in_specs=[1, 2, 3]),
             "a spec is a list of lists of axis names"),
            (lambda made: next(op for op in bodies(made["ops"]) if op.get("perm") and
                               op["op"] == "collective").update(perm=[1]),
             "`perm` must have pairs"),
        )
        with tempfile.TemporaryDirectory() as folder:
            for change, message in changes:
                with self.subTest(message):
                    made = copy.deepcopy(region)
                    change(made)
                    done = run("verify", "step", "--program",
                               write(folder, "own.json", made), "--mesh", "tp:4",
                               "--rules", "builtin:llama")
                    self.assertEqual((done.rc, done.out), (2, ""), done)
                    self.assertIn(message, done.err)
            done = run("verify", "step", "--mesh", "tp:4", "--rules", "builtin:llama",
                       "--program", write(folder, "own.json", gather("wrap")))
            self.assertEqual((done.rc, done.out), (2, ""), done)
            self.assertIn("a mode is `promise_in_bounds`, `clip` or `fill`", done.err)
            made = copy.deepcopy(self.PROGRAM)
            made["values"].append({"shape": [4, 4], "dtype": "F32"})
            made["ops"].append({"op": "constraint", "in": [2], "out": [5],
                                "spec": [["tp"], [], []]})
            done = run("verify", "step", "--mesh", "tp:4", "--rules", "builtin:llama",
                       "--program", write(folder, "own.json", made))
            self.assertEqual((done.rc, done.out), (2, ""), done)
            self.assertIn("`spec` must be a list with an entry for each dimension at most",
                          done.err)

    def large(self, rows):
        large = copy.deepcopy(self.PROGRAM)
        shapes = ([rows, 8192], [8192, 4096], [rows, 4096])
        for value, shape in zip(large["values"], (*shapes, shapes[2], shapes[2])):
            value["shape"] = shape
        return large

    def test_large_programs_are_proved_at_reduced_sizes(self):
        done = self.proved(self.large(4096))
        self.assertEqual(done.rc, 0, done)
        self.assertIn("\nreduced sizes: 4096 as 4 (6 factors), 8192 as 4; --full proves "
                      "those of the trace\n", done.out)
        # The bytes are those of the traced sizes.
        self.assertIn("own.py:3  forward  dot  ", done.out)
        self.assertRegex(done.out, "at the traced sizes: [0-9.]+ MiB")
        report = self.proved(self.large(4096), "fsdp:2,tp:2", "--format", "json").json()
        self.assertTrue(report["reduced"])
        self.assertEqual({(one["traced"], one["run"]) for one in report["sizes"]},
                         {(4096, 4), (8192, 4)})
        self.assertEqual({tuple(one["shape"]) for one in report["results"]},
                         {(4096, 4096)})

    def test_what_no_memory_holds_is_refused_with_a_way_out(self):
        done = self.proved(self.large(1 << 24), "fsdp:2,tp:2", "--full")
        self.assertEqual((done.rc, done.out), (2, ""))
        self.assertIn("at the traced sizes its values need more memory than is free",
                      done.err)
        self.assertIn("leave out `--full`", done.err)


if __name__ == "__main__":
    unittest.main()
