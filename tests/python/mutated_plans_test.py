"""Plans that were changed at random: the Python package and every command that
reads a plan refuse them with a place, and refuse the same ones.

SHARDC_MUTATED_PLANS=30000 gives the number of plans, for Python and for the
program; without it a sample is run."""

import copy
import json
import os
import random
import re
import struct
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

import shardc  # noqa: E402

COUNT = int(os.environ.get("SHARDC_MUTATED_PLANS", "0"))
PYTHON, PROGRAM = COUNT or 600, COUNT or 80
SEED = int(os.environ.get("SHARDC_MUTATED_SEED", "1"))

RULES = """version: 1
axes: {decode_head: null}
weight_decay: {exclude: ['norm']}
rules:
  - {match: 'experts\\.(\\d+)\\.', spec: [tp, null],
     place: {axis: ep, index: 'experts\\.(\\d+)\\.', count: 2}}
  - {match: 'up$', spec: [[fsdp, tp], null], modes: {decode: [null, tp]}}
  - {match: 'odd$', spec: [tp], illegal: drop}
  - {match: 'padded$', spec: [tp, fsdp], illegal: pad}
  - {match: 'qkv$', spec: [tp], parts: [[16, 4, 4]]}
  - {match: 'fused$', spec: [null, tp], parts: [null, 2]}
  - {match: 'norm$', spec: []}
"""
MESH = """axes: {ep: 2, fsdp: 2, tp: 4}
axis_types: {tp: explicit}
processes: 2
slices: 2
dcn: {ep: 2}
"""
TENSORS = {"l.0.up": ([16, 8], "F32"), "l.1.up": ([16, 8], "F32"),
           "odd": ([7], "BF16"), "padded": ([7, 3], "BF16"), "norm": ([8], "F32"), "s": ([], "F32"),
           "qkv": ([24, 2], "F32"), "fused": ([2, 16], "F32"),
           "experts.0.w": ([8, 4], "F32"), "experts.1.w": ([8, 4], "F32")}

# Members that neither the fingerprint nor the other members determine.
FREE = re.compile(
    r"^(rules\[\d+\]\.(match|source|matched)$|params\.[^/]*/corrections|"
    r"(attention|activation)_corrections|diagnostics|summary\.corrected$)")

ODD = [None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, 10**30, 1.5, 1e300,
       "", "tp", "nope", "sha256:0", "train", "\u202e", "x" * 300, [], [[]],
       {}, {"": None}, [None], ["tp"], [["tp", "tp"]], [0], [8, 8], [2**62, 4],
       {"spec": []}, {"train": {}}, [{}]]


def spots(value):
    """Every container with each of its keys."""
    keys = list(value) if isinstance(value, dict) else (
        range(len(value)) if isinstance(value, list) else ())
    for key in keys:
        yield value, key
        yield from spots(value[key])


def change(rng, value):
    """Another value, often a near one."""
    if isinstance(value, bool) or value is None or rng.random() < 0.4:
        return copy.deepcopy(rng.choice(ODD))
    if isinstance(value, (int, float)):
        return value + rng.choice([-1, 1, 2, value, 2**40])
    if isinstance(value, str):
        at = rng.randrange(len(value) + 1)
        return value[:at] + rng.choice(["", "x", "0", "\n"]) + value[at + 1:]
    if isinstance(value, list):
        out = list(value)
        rng.shuffle(out)
        return rng.choice([out, value + value, value[:-1], value + [None]])
    return rng.choice([{}, {**value, "more": 1}, list(value), [value]])


def mutant(rng, plan, text):
    """The text of a changed plan."""
    kind = rng.random()
    if kind < 0.15:  # the text
        data = bytearray(text.encode())
        for _ in range(rng.choice([1, 1, 2, 8])):
            at = rng.randrange(len(data))
            how = rng.randrange(4)
            if how == 0:
                data[at] = rng.randrange(256)
            elif how == 1:
                del data[at:at + rng.choice([1, 5, 400])]
            elif how == 2:
                data[at:at] = rng.choice([b'"', b"{", b"]", b",", b"\\u00",
                                          b"\x00", b"\xff", b"NaN"])
            else:
                data = data[:at + 1]
            if not data:
                break
        return bytes(data)
    if kind < 0.22:  # a key twice
        keys = [m.start() for m in re.finditer(r'"[a-z_]+": ', text)]
        at = rng.choice(keys)
        key = text[at:text.index(":", at)]
        return (text[:at] + key + ": 0, " + text[at:]).encode()
    data = copy.deepcopy(plan)
    for _ in range(rng.choice([1, 1, 1, 1, 2, 3])):
        holder, key = rng.choice(list(spots(data)))
        how = rng.random()
        if how < 0.15:
            del holder[key]
        elif how < 0.25 and isinstance(holder, dict):
            holder["more"] = holder[key]
        elif how < 0.3 and isinstance(holder, dict):
            holder[str(key) + "x"] = holder.pop(key)
        else:
            holder[key] = change(rng, holder[key])
    return json.dumps(data, ensure_ascii=rng.random() < 0.5,
                      indent=rng.choice([None, 2])).encode()


def differing(a, b, path=""):
    """The paths at which two values differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in {**a, **b}:
            inner = ("params." + key + "/" if path == "params" else
                     path + ("" if not path or path.endswith("/") else ".")
                     + key)
            if key in a and key in b:
                yield from differing(a[key], b[key], inner)
            else:
                yield inner
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        # Parameters name their rule, so the order of the rules is free.
        if path == "rules" and all(isinstance(one, dict) for one in b):
            a, b = (sorted(of, key=lambda one: str(one["match"]))
                    for of in (a, b))
        for number, (one, other) in enumerate(zip(a, b)):
            yield from differing(one, other, f"{path}[{number}]")
    elif not same(a, b):
        yield path


def same(a, b):
    """Equal JSON: true is not 1, and 1.0 is not 1."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


class MutatedPlans(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.plans = []
        for name, text in (("rules.yaml", RULES), ("mesh.yaml", MESH)):
            cls.write(name, text.encode())
        for number, params in enumerate((
                TENSORS, {**TENSORS, "l.2.up": ([9, 8], "F32"),
                          "free": ([4], "F16")},
                {**TENSORS, "later": (None, None)})):
            cls.write("m.json", json.dumps({
                "schema": "shardc.manifest/v1", "params": [
                    {"name": name, "shape": shape, "dtype": dtype}
                    for name, (shape, dtype) in params.items()]}).encode())
            done = cls.run_program(
                "plan", "-q", "--no-project", "--mesh", "mesh.yaml", "--rules",
                "rules.yaml", "--manifest", "m.json", "--keep-going",
                "--unmatched", "replicate" if number else "error")
            cls.plans.append((json.loads(done.stdout),
                              done.stdout.decode()))
        cls.write("base.json", cls.plans[0][1].encode())
        header, at = {}, 0
        for name, (shape, dtype) in TENSORS.items():
            size = {"F32": 4, "BF16": 2}[dtype]
            for length in shape:
                size *= length
            header[name] = {"dtype": dtype, "shape": shape,
                            "data_offsets": [at, at + size]}
            at += size
        packed = json.dumps(header).encode()
        cls.write("c.safetensors",
                  struct.pack("<Q", len(packed)) + packed + bytes(at))

    @classmethod
    def write(cls, name, data):
        with open(os.path.join(cls.folder, name), "wb") as file:
            file.write(data)

    @classmethod
    def run_program(cls, *args):
        return subprocess.run([BIN, *args], cwd=cls.folder, timeout=600,
                              stdin=subprocess.DEVNULL, capture_output=True)

    def mutants(self, count, seed):
        rng = random.Random(seed)
        while count > 0:
            plan, text = rng.choice(self.plans)
            data = mutant(rng, plan, text)
            try:
                if same(json.loads(data), plan):
                    continue  # such as a change of spaces
            except (ValueError, RecursionError):
                pass
            count -= 1
            yield plan, data

    def refused(self, data):
        """The message of PlanError, or None; no other exception."""
        try:
            plan = shardc.Plan.loads(data)
        except shardc.PlanError as error:
            return str(error)
        for name in plan:
            plan[name].spec(), plan[name].shard_shape
        return None

    def test_plans_as_written_are_read(self):
        for plan, text in self.plans:
            self.assertEqual(shardc.Plan.loads(text).data, plan)
            self.write("p.json", text.encode())
            for args in (["show", "mesh", "--plan", "p.json"],
                         ["export", "csv", "--plan", "p.json"],
                         ["diff", "p.json", "p.json"]):
                done = self.run_program(*args)
                self.assertEqual(done.returncode, 0, done)

    def test_python_refuses_changed_plans(self):
        accepted = 0
        for plan, data in self.mutants(PYTHON, SEED):
            message = self.refused(data)
            if message is None:
                accepted += 1
                for path in differing(plan, json.loads(data)):
                    self.assertRegex(path, FREE, data)
                continue
            self.assertRegex(message, r"line \d+|position \d+|this is no JSON|"
                             "its schema is not")
            try:  # edited plans that are allowed do not end in other errors
                plan = shardc.Plan.loads(data, allow_edited=True)
                for name in plan:
                    plan[name].spec(), plan[name].shape
            except shardc.PlanError:
                pass
        self.assertLess(accepted, PYTHON / 5)

    def test_commands_refuse_changed_plans(self):
        readers = [["show", "mesh", "--plan"], ["show", "rules", "--plan"],
                   ["export", "csv", "--plan"], ["export", "tree", "--plan"],
                   ["cost", "--plan"], ["diff", "base.json"],
                   ["checkpoint", "split", "--checkpoint", "c.safetensors", "--output", "out",
                    "--dry-run", "--plan"],
                   ["report", "-o", "page.html", "--plan"]]
        for number, (_, data) in enumerate(self.mutants(PROGRAM, SEED + 1)):
            reader = readers[number % len(readers)]
            with self.subTest(reader=reader[:2], number=number):
                self.write("p.json", data)
                done = self.run_program(*reader, "p.json")
                said = done.stderr.decode()
                self.assertIn(done.returncode, (0, 1, 2), data)
                if self.refused(data) is None:
                    if reader[0] != "checkpoint":  # the tensors may not fit
                        self.assertNotEqual(done.returncode, 2, (said, data))
                else:
                    self.assertEqual(done.returncode, 2, (said, data))
                    self.assertRegex(said, r"p\.json(:\d+:\d+|\b)")

    def test_diff_reports_a_change_of_any_member(self):
        for _, data in self.mutants(PROGRAM, SEED + 2):
            self.write("p.json", data)
            done = self.run_program("diff", "base.json", "p.json",
                                    "--allow-edited", "--format", "json")
            try:
                now = json.loads(data)
            except (ValueError, RecursionError):
                self.assertEqual(done.returncode, 2, data)
                continue
            self.assertIn(done.returncode, (0, 1, 2), data)
            if done.returncode == 0:
                base = copy.deepcopy(self.plans[0][0])
                for one in (base, now):
                    for rule in one["rules"]:
                        rule.pop("source", None)
                # Plans of earlier versions have no member `matched`.
                for rule, other in zip(base["rules"], now["rules"]):
                    if "matched" not in other:
                        rule.pop("matched")
                self.assertTrue(same(base, now), data)

    def test_an_edited_plan_is_allowed_on_request(self):
        plan = copy.deepcopy(self.plans[0][0])
        plan["params"]["l.0.up"]["spec"] = [None, None]
        self.write("p.json", json.dumps(plan, indent=2).encode())
        for args in (["show", "mesh", "--plan", "p.json"],
                     ["show", "layout", "l.0.up", "--plan", "p.json"],
                     ["export", "csv", "--plan", "p.json"],
                     ["cost", "--plan", "p.json"],
                     ["diff", "base.json", "p.json"],
                     ["diff", "p.json", "base.json"],
                     ["checkpoint", "split", "--plan", "p.json", "--checkpoint",
                      "c.safetensors", "--output", "out", "--dry-run"],
                     ["report", "--plan", "p.json", "-o", "page.html"],
                     ["report", "--plan", "base.json", "--base", "p.json",
                      "-o", "page.html"]):
            with self.subTest(args=args):
                done = self.run_program(*args)
                said = done.stderr.decode()
                self.assertEqual(done.returncode, 2, done)
                self.assertRegex(said, r"p\.json:\d+:\d+")
                self.assertIn("the plan was edited", said)
                self.assertIn("--allow-edited", said)
                done = self.run_program(*args, "--allow-edited")
                self.assertIn(done.returncode, (0, 1), done)
        text = json.dumps(plan)
        with self.assertRaisesRegex(shardc.PlanError, "edited: line 1, column"):
            shardc.Plan.loads(text)
        edited = shardc.Plan.loads(text, allow_edited=True)
        self.assertEqual(edited["l.0.up"].spec(), (None, None))

    def test_wrong_shard_shapes_duplicate_keys_and_fifos(self):
        plan, text = self.plans[0]
        wrong = text.replace('"shard_shape": [2, 8]', '"shard_shape": [4, 8]')
        twice = text.replace('"modes": [', '"modes": [], "modes": [', 1)
        self.assertNotEqual(wrong, text)
        for data, said in ((wrong, "shard_shape"), (twice, "modes")):
            with self.assertRaisesRegex(shardc.PlanError, said):
                shardc.Plan.loads(data)
            self.write("p.json", data.encode())
            done = self.run_program("show", "mesh", "--plan", "p.json")
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(said, done.stderr.decode())
        fifo = os.path.join(self.folder, "fifo")
        os.mkfifo(fifo)
        for path in (fifo, self.folder, "/dev/zero"):
            with self.assertRaisesRegex(shardc.PlanError, "not a regular file"):
                shardc.Plan.load(path)
        done = self.run_program("show", "mesh", "--plan", "fifo")
        self.assertEqual(done.returncode, 2, done)


if __name__ == "__main__":
    unittest.main()
