"""`illegal: pad`: axes that do not divide a dimension, through every command that
reads shards. The expected shards are lists of elements, divided as torch.chunk
divides them, one axis after the other."""

import importlib.util
import itertools
import json
import math
import os
import random
import re
import shutil
import sys

from driver import MODELS, ROOT, FolderCase, run

sys.path.insert(0, os.path.join(ROOT, "python"))

import shardc  # noqa: E402
from checkpoint_case import read_safetensors, write_safetensors  # noqa: E402

SIZES = {"F32": 4, "BF16": 2, "F16": 2, "U8": 1, "Q8_0": None}

EXAMPLE = os.path.join(ROOT, "examples", "python", "slices.py")
SPEC = importlib.util.spec_from_file_location("slices", EXAMPLE)
EXAMPLE_MODULE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(EXAMPLE_MODULE)

# The model of a report, over fsdp:32: (shape, dtype, shard, shards with
# elements).
REPORT = {
    "mixer.A_log": ([8], "F32", [1], 8),
    "mixer.conv1d.weight": ([8, 128], "BF16", [1, 128], 8),
    "mixer.gate.weight": ([18, 1024], "BF16", [1, 1024], 18),
    "mlp.w1.weight": ([4100, 1024], "BF16", [129, 1024], 32),
    "mlp.w2.weight": ([1024, 4100], "BF16", [32, 4100], 32),
    "norm.weight": ([1024], "BF16", [32], 32),
    "embed.weight": ([32001, 1024], "BF16", [1001, 1024], 32),
    "step": ([], "F32", [], 1),
}
UNEVEN = {name for name in REPORT if name not in
          ("mlp.w2.weight", "norm.weight", "step")}


def group_of(spec, dim):
    entry = spec[dim] if dim < len(spec) else None
    return [entry] if isinstance(entry, str) else list(entry or ())


def chunks(elements, parts):
    """As torch.chunk: shards of the rounded-up size until none are left."""
    share = math.ceil(len(elements) / parts)
    return [elements[i * share:(i + 1) * share] for i in range(parts)]


def shard_of(shape, spec, sizes, at):
    """The elements of each dimension that the device at these coordinates has."""
    out = []
    for dim, size in enumerate(shape):
        elements = list(range(size))
        for axis in group_of(spec, dim):
            elements = chunks(elements, sizes[axis])[at[axis]]
        out.append(elements)
    return out


def places(sizes):
    for at in itertools.product(*(range(size) for size in sizes.values())):
        yield dict(zip(sizes, at))


def size_of(elements, dtype):
    return math.prod(map(len, elements)) * SIZES[dtype]


def taken(data, shape, elements, width):
    """The bytes of the elements of a tensor, one run of the last dimension after
    the other."""
    if not shape:
        return data
    strides = [width * math.prod(shape[d + 1:]) for d in range(len(shape))]
    out = b""
    for at in itertools.product(*elements[:-1]):
        begin = sum(i * stride for i, stride in zip(at, strides))
        for i in elements[-1]:
            out += data[begin + i * width:begin + (i + 1) * width]
    return out


class Inputs(FolderCase):
    def inputs(self, mesh, params, specs, policy="{illegal: pad}"):
        """params: name -> (shape, dtype); specs: name -> spec, in rules of one
        name each."""
        rules = "version: 1\nseparator: '.'\npolicy: %s\nrules:\n" % policy
        for name, spec in specs.items():
            rules += "  - {match: '^%s$', spec: %s}\n" % (
                name.replace(".", r"\."), json.dumps(spec))
        return ["--no-project", "--mesh", mesh,
                "--rules", self.write("r.yaml", rules),
                "--manifest", self.write("m.json", json.dumps(
                    {"schema": "shardc.manifest/v1", "params": [
                        {"name": name, "shape": shape, "dtype": dtype}
                        for name, (shape, dtype) in params.items()]}))]

    def report(self):
        params = {name: row[:2] for name, row in REPORT.items()}
        specs = {name: ["fsdp"] for name in REPORT if name != "step"}
        return self.inputs("fsdp:32", params, specs)

    def plan(self, *inputs):
        path = self.path("plan.json")
        self.check(run("plan", *inputs, "-o", path, "--quiet"), 0)
        with open(path, encoding="utf-8") as file:
            return json.load(file)


class Plans(Inputs):
    def test_the_plan_of_the_report(self):
        plan = self.plan(*self.report())
        total = 0
        for name, (shape, dtype, shard, full) in REPORT.items():
            entry = plan["params"][name]
            with self.subTest(name):
                self.assertEqual(entry["spec"], ["fsdp"] if shape else [])
                self.assertEqual(entry["shard_shape"], shard)
                self.assertEqual(entry["bytes_per_device"],
                                 math.prod(shard) * SIZES[dtype])
                self.assertEqual(entry.get("uneven"),
                                 True if name in UNEVEN else None)
                self.assertNotIn("corrections", entry)
                held = [shard_of(shape, entry["spec"], {"fsdp": 32}, at)
                        for at in places({"fsdp": 32})]
                if shape:
                    self.assertEqual(sum(1 for one in held if one[0]), full)
            total += entry["bytes_per_device"]
        self.assertEqual(plan["summary"]["bytes_per_device"], total)
        self.assertEqual(plan["summary"]["corrected"], 0)
        # Without the policy, each of these parameters is reported.
        result = self.check(run("check", *self.report(), "--illegal", "error"), 1)
        for name in UNEVEN:
            folded = re.sub(r"(?<=\.)\d+(?=\.)", "*", name)
            self.assertIn("`%s`" % folded, result.out)
        self.check(run("check", *self.report()), 0)

    def test_the_vocabulary_of_gpt2(self):
        manifest = os.path.join(MODELS, "gpt2.hf.manifest.json.gz")
        plan = self.plan("--mesh", "tp:8", "--rules", "builtin:gpt2",
                         "--manifest", manifest, "--illegal", "pad")
        entry = plan["params"]["transformer.wte.weight"]
        self.assertEqual(entry["spec"], ["tp", None])
        self.assertEqual(entry["shard_shape"], [6283, 768])
        self.assertEqual(entry["bytes_per_device"], 19301376)

    def test_the_key_of_a_rule_and_of_the_file_and_the_flag(self):
        params = {"w": ([10], "F32")}
        rows = [("{}", ["--illegal", "pad"]), ("{illegal: pad}", []),
                ("{illegal: drop}", ["--illegal", "pad"])]
        for policy, flags in rows:
            with self.subTest(policy):
                plan = self.plan(*self.inputs("tp:4", params, {"w": ["tp"]},
                                              policy), *flags)
                self.assertEqual(plan["params"]["w"]["shard_shape"], [3])
        own = self.write("own.yaml", "version: 1\nseparator: '.'\n"
                         "rules: [{match: w, spec: [tp], illegal: pad}]\n")
        plan = self.plan(*self.inputs("tp:4", params, {"w": ["tp"]}),
                         "--rules", own)
        self.assertTrue(plan["params"]["w"]["uneven"])

    def test_other_faults_stay(self):
        rows = [
            (([8], "F32"), ["tp", None, None], "SHD204"),
            # A block of 32 elements has one scale: half a block is no shard.
            (([8, 96], "Q8_0"), [None, "tp"], "SHD202"),
        ]
        for param, spec, code in rows:
            with self.subTest(spec):
                result = self.check(run("plan", *self.inputs(
                    "tp:2", {"w": param}, {"w": spec})), 1)
                self.assertIn(code, result.err)
                self.assertIn("`w`", result.err)
        # Other dimensions of such a tensor are split between elements.
        plan = self.plan(*self.inputs("tp:2", {"w": ([7, 96], "Q8_0")},
                                      {"w": ["tp"]}))
        self.assertEqual(plan["params"]["w"]["shard_shape"], [4, 96])
        self.assertEqual(plan["params"]["w"]["bytes_per_device"], 4 * 3 * 34)

    def test_every_reader_agrees_on_random_cases(self):
        chance = random.Random(11)
        for case in range(25):
            sizes = {name: chance.choice([1, 2, 3, 4, 5])
                     for name in ("dp", "fsdp", "tp")[:chance.randint(1, 3)]}
            params, specs = {}, {}
            for number in range(chance.randint(1, 4)):
                rank = chance.randint(0, 3)
                name = "t%d.weight" % number
                params[name] = ([chance.randint(0 if d else 1, 13)
                                 for d in range(rank)],
                                chance.choice(["F32", "BF16", "U8"]))
                spec = [[] for _ in range(rank)]
                for axis in chance.sample(list(sizes), len(sizes)):
                    if rank and chance.random() < 0.8:
                        chance.choice(spec).append(axis)
                if rank:
                    specs[name] = spec
            if not specs:
                continue
            mesh = ",".join("%s:%d" % one for one in sizes.items())
            with self.subTest(case=case, mesh=mesh, params=params, specs=specs):
                self.check_case(sizes, params,
                                self.inputs(mesh, params, specs))

    def check_case(self, sizes, params, inputs):
        plan = self.plan(*inputs)
        loaded = shardc.Plan.load(self.path("plan.json"))
        held = [0] * math.prod(sizes.values())
        for name, (shape, dtype) in params.items():
            entry = plan["params"][name]
            elements, shards = 0, []
            for device, at in enumerate(places(sizes)):
                shard = shard_of(shape, entry["spec"], sizes, at)
                shards.append(list(map(len, shard)))
                held[device] += size_of(shard, dtype)
                ranges = [(one.start, one.stop)
                          for one in loaded[name].slices(device)]
                self.assertEqual([list(range(*one)) for one in ranges], shard)
                self.assertEqual(
                    EXAMPLE_MODULE.slices(plan, name, device), ranges)
            largest = [max(one) for one in zip(*shards)]
            self.assertEqual(entry["shard_shape"], largest)
            self.assertEqual(shards[0], largest)
            uneven = any(shard != largest for shard in shards)
            self.assertEqual(entry.get("uneven", False), uneven)
            self.assertEqual(bool(loaded[name].uneven_in()), uneven)
            # Each element is on as many devices as hold copies of a shard.
            copies = math.prod(sizes.values()) // math.prod(
                sizes[axis] for dim in range(len(shape))
                for axis in group_of(entry["spec"], dim))
            elements = sum(math.prod(shard) for shard in shards)
            self.assertEqual(elements, copies * math.prod(shape))
        fullest = plan["summary"]["bytes_per_device"]
        self.assertEqual(fullest, max(held))
        self.assertEqual(held[0], fullest)
        costs = self.check(run("cost", *inputs, "--mode", "decode", "--format",
                               "json"), 0).json()
        costs = costs[0] if isinstance(costs, list) else costs
        self.assertEqual(costs["memory"]["parameters"], fullest)
        least = costs["memory"]["least"]["parameters"]
        self.assertEqual(least, fullest if len(set(held)) == 1 and not any(
            "uneven" in one for one in plan["params"].values()) else None)


class Commands(Inputs):
    def test_explain(self):
        inputs = self.report()
        text = self.check(run("explain", "mixer.gate.weight", *inputs,
                              "--device", "18", "--modes", "train"), 0).out
        self.assertIn("shard     [1, 1024], 2 KiB per device", text)
        self.assertIn('uneven    dimension 0 is 18, which "fsdp" splits into 32 '
                      "shards of at most 1, the last of 0", text)
        self.assertIn("device 18  [18:18, 0:1024]", text)
        found = self.check(run("explain", "embed.weight", *inputs, "--device",
                               "31", "--format", "json"), 0).json()
        self.assertEqual(found["modes"]["train"]["slices"],
                         [[31031, 32001], [0, 1024]])
        self.assertTrue(found["modes"]["train"]["uneven"])

    def test_summary(self):
        text = self.check(run("plan", *self.report(), "-o",
                              self.path("p.json")), 0).err
        self.assertIn("uneven shards\n", text)
        self.assertIn('1  dimension 0 is 32001, which "fsdp" splits into 32 '
                      "shards of at most 1001, the last of 970 in train, "
                      "prefill, decode, insert, +1.94 KiB per device, such as "
                      "embed.weight", text)

    def test_diff_names_what_moves(self):
        """From one axis to both, nothing moves; back, what a device lacks."""
        params = {"w": ([10, 3], "F32")}
        one = self.inputs("a:2,b:4", params, {"w": ["a"]})
        self.plan(*one)
        os.rename(self.path("plan.json"), self.path("one.json"))
        both = self.inputs("a:2,b:4", params, {"w": [["a", "b"]]})
        self.plan(*both)
        rows = [("one.json", "plan.json", None, None),
                ("plan.json", "one.json", "all_gather", ["b"])]
        sizes = {"a": 2, "b": 4}
        for before, after, kind, axes in rows:
            found = self.check(run("diff", self.path(before), self.path(after),
                                   "--format", "json"), 1).json()
            text = json.dumps(found)
            with self.subTest(before):
                if kind is None:
                    self.assertNotIn("all_gather", text)
                    continue
                self.assertIn(kind, text)
                # The rows of the shard over `a` that the others hold are sent
                # to each of the four devices that share it.
                lacked = 0
                for at in places(sizes):
                    needs = shard_of([10], ["a"], sizes, at)[0]
                    has = shard_of([10], [["a", "b"]], sizes, at)[0]
                    lacked += len(set(needs) - set(has))
                self.assertEqual(lacked, 30)
                # Holders of 2, 2 and 1 rows send each to three devices.
                self.assertIn('"bytes_per_device": %d' % (2 * 3 * 3 * 4),
                              text)

    def test_diff_of_two_meshes(self):
        params = {"w": ([10], "F32")}
        self.plan(*self.inputs("a:2,b:4", params, {"w": [["a", "b"]]}))
        os.rename(self.path("plan.json"), self.path("one.json"))
        self.plan(*self.inputs("fsdp:8", params, {"w": ["fsdp"]}))
        text = self.check(run("diff", self.path("one.json"),
                              self.path("plan.json"), "--format", "json"),
                          1).out
        self.assertIn("ppermute", text)

    def test_show(self):
        inputs = self.inputs("tp:4", {"w": ([10, 4], "F32")}, {"w": ["tp"]})
        text = self.check(run("show", "layout", "w", *inputs), 0).out
        self.assertIn("10 / 4, at most 3", text)
        self.check(run("report", *inputs, "-o", self.path("r.html")), 0)

    def test_lints_of_blocks_and_heads_speak_of_uneven_shards(self):
        """129 rows of a shard are one block of 128 and a part of another."""
        params = {"layers.0.mlp.up_proj.weight": ([4224, 256], "F8_E4M3"),
                  "layers.0.mlp.up_proj.weight_scale_inv": ([33, 2], "F32")}
        inputs = self.inputs("tp:32", params, {
            "layers.0.mlp.up_proj.weight": ["tp"],
            "layers.0.mlp.up_proj.weight_scale_inv": ["tp"]})
        result = run("check", *inputs)
        self.assertIn("SHD222", result.err + result.out)
        self.assertIn("a shard is 132", result.err + result.out)

    def test_resolve(self):
        out = self.check(run("resolve", "[TP, _]", "--mesh", "tp:8", "--shape",
                             "50257,768", "--illegal", "pad"), 0).out
        self.assertEqual(json.loads(out), ["tp", None])
        self.check(run("resolve", "[TP, TP]", "--mesh", "tp:8", "--shape",
                       "9,9", "--illegal", "pad"), 1)

    def test_verify_refuses_an_uneven_step(self):
        config = os.path.join(ROOT, "testdata", "configs", "gpt2.config.json")
        manifest = os.path.join(MODELS, "gpt2.hf.manifest.json.gz")
        rules = self.write("pad.yaml", "version: 1\nextends: builtin:gpt2\n"
                           "separator: '.'\nrules: [{match: 'wte\\.weight$', "
                           "spec: [VOCAB, null], illegal: pad}]\n")
        result = run("verify", "step", "--no-project", "--mesh", "tp:2",
                     "--rules", rules, "--manifest", manifest, "--model",
                     config)
        self.assertNotEqual(result.rc, 0, repr(result))
        self.assertIn("50257", result.out + result.err)


class Exports(Inputs):
    REFUSED = ["jax", "jax-json", "shardy", "hlo", "orbax"]
    OF_AXIS = ["megatron", "vllm", "hf-tp-plan"]
    WRITTEN = ["dtensor", "csv", "markdown", "tree", "dot"]

    def test_formats_refuse_or_write_uneven_shards(self):
        inputs = self.inputs("fsdp:4,tp:2", {
            "model.odd.weight": ([7, 6], "F32"),
            "model.even.weight": ([8, 6], "F32")},
            {"model.odd.weight": ["fsdp", "tp"],
             "model.even.weight": ["fsdp", "tp"]})
        for name in self.REFUSED + ["eformer"]:
            with self.subTest(name):
                result = self.check(run("export", name, *inputs), 2)
                self.assertEqual(result.out, "")
                self.assertIn("SHD062", result.err)
                self.assertIn("`model.odd.weight`", result.err)
                self.assertIn("of different sizes", result.err)
                self.assertNotIn("model.even", result.err)
        for name in self.WRITTEN:
            with self.subTest(name):
                self.check(run("export", name, *inputs), 0)
        for name in self.OF_AXIS:
            with self.subTest(name):
                # tp divides 6: what fsdp shards is not exported.
                self.check(run("export", name, *inputs, "--format", "json"), 0)
                result = self.check(run("export", name, *inputs, "--axis",
                                        "fsdp", "--format", "json"), 2)
                self.assertIn("`model.odd.weight`", result.err)
        table = self.check(run("export", "csv", *inputs), 0).out
        self.assertIn('"[7, 6]",F32,"[""fsdp"", ""tp""]","[2, 3]",24,', table)

    def test_maxtext(self):
        names = self.write("names.json", json.dumps({}))
        inputs = self.inputs("tp:2", {"w": ([7], "F32")}, {"w": ["tp"]})
        result = self.check(run("export", "maxtext", *inputs, "--names", names),
                            2)
        self.assertIn("`maxtext` cannot express shards of different sizes",
                      result.err)

    def test_dtensor_refuses_uneven_strided_shards(self):
        params = {"w": ([10], "F32")}
        ordered = self.inputs("a:2,b:4", params, {"w": [["a", "b"]]})
        out = self.check(run("export", "dtensor", *ordered, "--format",
                             "json"), 0).json()
        self.assertEqual(out["params"]["w"], ["S(0)", "S(0)"])
        other = self.inputs("a:2,b:4", params, {"w": [["b", "a"]]})
        result = self.check(run("export", "dtensor", *other), 2)
        self.assertIn(
            "`w` do not divide its dimension 0 and are not in the order of the "
            "mesh: the parts of a `_StridedShard` have other sizes than those of "
            "the plan", result.err)
        even = self.inputs("a:2,b:4", {"w": ([16], "F32")}, {"w": [["b", "a"]]})
        self.check(run("export", "dtensor", *even), 0)


class Edited(Inputs):
    def test_a_plan_cannot_gain_or_lose_the_mark(self):
        plan = self.plan(*self.report())
        rows = [("mixer.A_log", None, "shard_shape"),
                ("norm.weight", True, "uneven"),
                ("norm.weight", False, "uneven")]
        for name, mark, word in rows:
            with self.subTest(name=name, mark=mark):
                other = json.loads(json.dumps(plan))
                if mark is None:
                    del other["params"][name]["uneven"]
                else:
                    other["params"][name]["uneven"] = mark
                path = self.write("edited.json", json.dumps(other))
                result = self.check(run("export", "csv", "--plan", path), 2)
                self.assertIn("`%s`" % word, result.err)
                with self.assertRaises(shardc.PlanError):
                    shardc.Plan.load(path)


class Checkpoints(Inputs):
    def split(self, tensors, per):
        out = self.path("pieces")
        shutil.rmtree(out, ignore_errors=True)
        self.check(run("checkpoint", "split", "--plan", self.path("plan.json"), "--checkpoint",
                       self.path("m.safetensors"), "--output", out, "--per", per,
                       "--verify"), 0)
        with open(os.path.join(out, "shards.json"), encoding="utf-8") as file:
            index = json.load(file)
        return out, index

    def random_case(self, chance, number):
        sizes = {name: chance.choice([1, 2, 3, 4]) for name in ("a", "b")}
        tensors, specs = {}, {}
        for i in range(3):
            rank = chance.randint(1, 3)
            shape = [chance.randint(1, 9) for _ in range(rank)]
            dtype = chance.choice(["F32", "BF16", "U8"])
            data = chance.randbytes(math.prod(shape) * SIZES[dtype])
            tensors["t%d" % i] = (dtype, shape, data)
            spec = [[] for _ in range(rank)]
            for axis in chance.sample(list(sizes), 2):
                chance.choice(spec).append(axis)
            specs["t%d" % i] = spec
        mesh = ",".join("%s:%d" % one for one in sizes.items())
        inputs = self.inputs(mesh, {name: (shape, dtype) for name, (
            dtype, shape, _) in tensors.items()}, specs)
        return sizes, tensors, inputs

    def test_split_merge_and_reshard_give_back_the_bytes(self):
        chance = random.Random(3)
        for number in range(12):
            sizes, tensors, inputs = self.random_case(chance, number)
            write_safetensors(self.path("m.safetensors"), tensors)
            plan = self.plan(*inputs)
            for per in ("device", "process", "shard"):
                with self.subTest(number=number, per=per, sizes=sizes):
                    out, index = self.split(tensors, per)
                    if per == "device":
                        self.check_devices(plan, sizes, tensors, out)
                    self.check_devices_listed(index, sizes, tensors)
                    back = self.path("back.safetensors")
                    self.check(run("checkpoint", "merge", out, "--output", back), 0)
                    self.assertEqual(read_safetensors(back)[0], tensors)
            other = self.inputs(
                ",".join("%s:%d" % (name, size + 1)
                         for name, size in sizes.items()),
                {name: (shape, dtype) for name, (dtype, shape, _) in
                 tensors.items()},
                {name: plan["params"][name]["spec"][::-1] for name in tensors})
            self.plan(*other)
            again = self.path("again")
            shutil.rmtree(again, ignore_errors=True)
            self.check(run("checkpoint", "reshard", out, "--plan", self.path("plan.json"),
                           "--output", again), 0)
            self.check(run("checkpoint", "merge", again, "--output", back), 0)
            self.assertEqual(read_safetensors(back)[0], tensors)

    def check_devices(self, plan, sizes, tensors, out):
        for device, at in enumerate(places(sizes)):
            held, _ = read_safetensors(
                os.path.join(out, "device-%05d.safetensors" % device))
            for name, (dtype, shape, data) in tensors.items():
                shard = shard_of(shape, plan["params"][name]["spec"], sizes, at)
                want = (dtype, list(map(len, shard)),
                        taken(data, shape, shard, SIZES[dtype]))
                self.assertEqual(held[name], want)

    def check_devices_listed(self, index, sizes, tensors):
        """Each device finds one piece of each tensor."""
        seen = []
        for file in index["files"]:
            for key, piece in file["params"].items():
                for device in piece.get("devices", file["devices"]):
                    seen.append((device, piece.get("param", key)))
        self.assertEqual(sorted(seen), sorted(itertools.product(
            range(math.prod(sizes.values())), tensors)))

    def test_trees(self):
        """DCP stores any chunks; orbax records a sharding that JAX refuses."""
        tensors = {"odd": ("F32", [10, 3], os.urandom(120)),
                   "even": ("F32", [8], os.urandom(32))}
        write_safetensors(self.path("m.safetensors"), tensors)
        self.plan(*self.inputs("a:2,b:4", {
            name: (shape, dtype) for name, (dtype, shape, _) in
            tensors.items()}, {"odd": [["a", "b"]], "even": ["b"]}))
        args = ["checkpoint", "split", "--plan", self.path("plan.json"), "--checkpoint",
                self.path("m.safetensors")]
        self.check(run(*args, "--as", "dcp", "--output", self.path("dcp")), 0)
        back = self.path("back.safetensors")
        self.check(run("checkpoint", "merge", self.path("dcp"), "--output", back), 0)
        found = read_safetensors(back)[0]
        self.assertEqual({name: found[name] for name in tensors}, tensors)
        result = self.check(run(*args, "--as", "orbax", "--output",
                                self.path("orbax")), 2)
        self.assertIn(
            "of `odd` does not divide [10, 3], and orbax records a NamedSharding, "
            "which divides a dimension into equal parts", result.err)
        self.assertFalse(os.path.exists(self.path("orbax")))


if __name__ == "__main__":
    import unittest
    unittest.main()
