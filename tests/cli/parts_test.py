"""Dimensions of several parts (`parts` of a rule), equal ones or of stated sizes:
each part is divided, in plans, checkpoints, differences and exports, compared with
an enumeration of the indices that each device holds."""

import collections
import itertools
import json
import math
import os
import random
import struct
import subprocess
import sys
import unittest

from checkpoint_case import Base, read_safetensors, write_safetensors
from driver import BIN, ROOT

sys.path.insert(0, os.path.join(ROOT, "tests", "runtimes"))

import records  # noqa: E402

# A program of two devices without a collective.
PROGRAM = """HloModule step, num_partitions=2

ENTRY main {
  x = f32[4,6]{1,0} parameter(0), sharding={devices=[2,1]<=[2]}
  ROOT y = f32[4,6]{1,0} add(x, x)
}
"""
DRAWS = int(os.environ.get("SHARDC_PARTS_DRAWS", "30"))


def coordinates(axes):
    """The coordinates of each device, in row-major order of the mesh."""
    return [dict(zip((name for name, _ in axes), at)) for at in
            itertools.product(*(range(size) for _, size in axes))]


def sizes_of(size, parts):
    """The sizes of a dimension's parts: a list of them, or a number of equal ones."""
    return parts if isinstance(parts, list) else [size // parts] * parts


def indices(size, parts, group, axes, at):
    """The indices of one dimension that a device holds: of each part, the range
    of its place along the axes."""
    sizes = dict(axes)
    out = []
    begin = 0
    for part in sizes_of(size, parts):
        own = list(range(begin, begin + part))
        begin += part
        for axis in group:
            share = len(own) // sizes[axis]
            own = own[at[axis] * share:(at[axis] + 1) * share]
        out += own
    return out


def numbers(shape, held):
    """The row-major numbers of the elements at these indices."""
    out = [0]
    for size, one in zip(shape, held):
        out = [number * size + index for number in out for index in one]
    return out


def drawn(rng, listed=False):
    """A mesh, and tensors with a spec and parts that are legal on it. With
    `listed`, the sizes of some parts are stated."""
    axes = [(name, rng.choice([1, 2, 2, 3]))
            for name in rng.sample(["dp", "fsdp", "tp"], rng.randint(1, 3))]
    sizes = dict(axes)
    tensors = {}
    for number in range(rng.randint(1, 4)):
        rank = rng.randint(1, 3)
        spec = [[] for _ in range(rank)]
        for axis in rng.sample(list(sizes), rng.randint(0, len(sizes))):
            spec[rng.randrange(rank)].append(axis)
        parts = [rng.choice([1, 1, 2, 3]) for _ in range(rank)]
        shape = []
        for dim, (group, count) in enumerate(zip(spec, parts)):
            shards = math.prod(sizes[axis] for axis in group)
            if listed and rng.random() < .7:
                parts[dim] = [shards * rng.randint(1, 4)
                              for _ in range(rng.randint(2, 5))]
                shape.append(sum(parts[dim]))
                continue
            shape.append(count * rng.randint(1, 2) * shards)
        tensors[f"w.{number}"] = (shape, spec, parts)
    # A plan that shards nothing is refused.
    every = list(sizes)
    rng.shuffle(every)
    tensors["all"] = ([math.prod(sizes.values()) * 6], [every], [3])
    return axes, tensors


class Parts(Base):
    def files(self, axes, tensors, parts=True, status=0):
        """The rules, and the tensors, whose elements are their numbers."""
        self.mesh = ",".join(f"{name}:{size}" for name, size in axes)
        rules = []
        for name, (_, spec, count) in tensors.items():
            rule = {"match": "^" + name.replace(".", "[.]") + "$",
                    "spec": [group or None for group in spec]}
            if parts and any(one != 1 for one in count):
                rule["parts"] = [one if one != 1 else None for one in count]
            rules.append(rule)
        with open(self.path("rules.json"), "w") as file:
            json.dump({"version": 1, "separator": ".", "rules": rules}, file)
        self.data = {}
        for name, (shape, _, _) in tensors.items():
            count = 1
            for size in shape:
                count *= size
            self.data[name] = ("F32", shape, struct.pack(
                f"<{count}I", *range(count)))
        write_safetensors(self.path("w.safetensors"), self.data)
        self.shardc("plan", "--no-project", "--quiet", "--mesh", self.mesh,
                    "--rules", self.path("rules.json"), "--manifest",
                    self.path("w.safetensors"), *(
                        ["--keep-going"] if status else []), "-o",
                    self.path("plan.json"), status=status)
        with open(self.path("plan.json")) as file:
            return json.load(file)

    def test_each_device_has_the_enumerated_elements_of_every_part(self):
        self.enumerated(random.Random(7), listed=False)

    def test_each_device_has_its_share_of_parts_of_stated_sizes(self):
        self.enumerated(random.Random(8), listed=True)

    def enumerated(self, rng, listed):
        several = 0
        for draw in range(DRAWS):
            axes, tensors = drawn(rng, listed)
            plan = self.files(axes, tensors)
            out = self.path(f"out{draw}")
            self.shardc("checkpoint", "split", "--plan", self.path("plan.json"),
                        "--checkpoint", self.path("w.safetensors"), "--output",
                        out)
            for device, at in enumerate(coordinates(axes)):
                held, _ = read_safetensors(
                    os.path.join(out, f"device-{device:05}.safetensors"))
                self.assertEqual(set(held), set(tensors))
                for name, (shape, spec, parts) in tensors.items():
                    want = [indices(size, count if group else 1, group, axes,
                                    at)
                            for size, count, group in zip(shape, parts, spec)]
                    values = numbers(shape, want)
                    several += any(
                        group and (isinstance(count, list) if listed else
                                   count > 1)
                        for group, count in zip(spec, parts))
                    self.assertEqual(held[name][1],
                                     [len(one) for one in want])
                    self.assertEqual(
                        list(struct.unpack(f"<{len(values)}I",
                                           held[name][2])), values,
                        (axes, name, tensors[name]))
                    self.assertEqual(plan["params"][name]["shard_shape"],
                                     [len(one) for one in want])
            self.covered(axes, tensors)
            self.explained(axes, tensors, rng)
            if not listed:
                self.placed(axes, tensors)
            self.moved_and_merged(out, draw, rng)
        self.assertGreater(several, 100)

    def covered(self, axes, tensors):
        """The devices together have each index of a dimension, and each as often."""
        for shape, spec, parts in tensors.values():
            for size, count, group in zip(shape, parts, spec):
                held = collections.Counter(
                    index for at in coordinates(axes)
                    for index in indices(size, count if group else 1, group,
                                         axes, at))
                self.assertEqual(sorted(held), list(range(size)))
                self.assertEqual(len(set(held.values())), 1)

    def explained(self, axes, tensors, rng):
        """`explain` prints the ranges of a device."""
        device = rng.randrange(len(coordinates(axes)))
        at = coordinates(axes)[device]
        for name, (shape, spec, parts) in tensors.items():
            said = json.loads(self.shardc(
                "explain", name, "--no-project", "--mesh", self.mesh,
                "--rules", self.path("rules.json"), "--manifest",
                self.path("w.safetensors"), "--device", str(device),
                "--format", "json").stdout)["modes"]["train"]["slices"]
            for dim, (size, group, count) in enumerate(
                    zip(shape, spec, parts)):
                ranges = said[dim]
                if not isinstance(ranges[0], list):
                    ranges = [ranges]
                self.assertEqual(
                    [i for begin, end in ranges for i in range(begin, end)],
                    indices(size, count if group else 1, group, axes, at))

    def placed(self, axes, tensors):
        """DTensor's placements, applied one after the other, give the same."""
        placements = json.loads(self.shardc(
            "export", "dtensor", "--plan", self.path("plan.json"), "--format",
            "json").stdout)["params"]
        for at in coordinates(axes):
            for name, (shape, spec, parts) in tensors.items():
                held = [list(range(size)) for size in shape]
                for (axis, size), text in zip(axes, placements[name]):
                    if text == "R":
                        continue
                    dim, _, factor = text.strip("_S()").partition(", ")
                    factor = int(factor or 1)
                    own = held[int(dim)]
                    block = len(own) // factor
                    share = block // size
                    held[int(dim)] = [
                        own[first * block + at[axis] * share + i]
                        for first in range(factor) for i in range(share)]
                self.assertEqual(held, [
                    indices(size, count if group else 1, group, axes, at)
                    for size, count, group in zip(shape, parts, spec)],
                    (axes, tensors[name], placements[name]))

    def moved_and_merged(self, out, draw, rng):
        """The split checkpoint is resharded by the same plan, one part a file,
        and merged again."""
        per = rng.choice(["device", "process", "shard"])
        again = self.path(f"again{draw}")
        self.shardc("checkpoint", "reshard", out, "--plan", self.path("plan.json"),
                    "--output", again, "--per", per)
        merged = self.path(f"merged{draw}.safetensors")
        self.shardc("checkpoint", "merge", again, "--output", merged)
        held, _ = read_safetensors(merged)
        self.assertEqual(held, {name: ("F32", shape, data) for
                                name, (_, shape, data) in self.data.items()})

    def test_a_split_is_resharded_to_parts_and_from_them(self):
        """Also where a piece of one is several pieces of the other."""
        tensors = {"w.0": ([8, 6], [["tp"], []], [2, 1])}
        self.files([("tp", 2)], tensors)
        self.shardc("checkpoint", "split", "--plan", self.path("plan.json"), "--checkpoint",
                    self.path("w.safetensors"), "--output", self.path("packed"))
        whole = {"w.0": ([8, 6], [[], ["tp"]], [1, 1])}
        self.files([("tp", 2)], whole)
        self.shardc("checkpoint", "reshard", self.path("packed"), "--plan",
                    self.path("plan.json"), "--output", self.path("columns"))
        self.shardc("checkpoint", "split", "--plan", self.path("plan.json"),
                    "--checkpoint", self.path("w.safetensors"), "--output",
                    self.path("from_whole"))
        for name in ("device-00000.safetensors", "device-00001.safetensors"):
            self.assertEqual(
                read_safetensors(self.path("columns", name))[0],
                read_safetensors(self.path("from_whole", name))[0])
        # A tree is written from ranges of complete dimensions.
        said = self.shardc("checkpoint", "reshard", self.path("packed"), "--plan",
                           self.path("plan.json"), "--as", "dcp", "--output",
                           self.path("tree"), status=2).stderr
        self.assertIn("`w.0` was split in parts [2]", said)
        self.assertIn("`shardc checkpoint merge`", said)
        self.assertFalse(os.path.exists(self.path("tree")))
        # The other way, each piece is within one part.
        self.files([("tp", 2)], {"w.0": ([8, 6], [["tp"], []], [1, 1])})
        self.shardc("checkpoint", "split", "--plan", self.path("plan.json"), "--checkpoint",
                    self.path("w.safetensors"), "--output", self.path("whole"))
        self.files([("tp", 2)], tensors)
        self.shardc("checkpoint", "reshard", self.path("whole"), "--plan",
                    self.path("plan.json"), "--output", self.path("repacked"))
        for name in ("device-00000.safetensors", "device-00001.safetensors"):
            self.assertEqual(
                read_safetensors(self.path("packed", name))[0],
                read_safetensors(self.path("repacked", name))[0])

    def test_a_split_is_resharded_to_and_from_parts_of_stated_sizes(self):
        """Between every two layouts of one tensor, directly and by a plan on
        another mesh: the files are those of a split of the whole tensor."""
        sizes = ([8, 4, 4], [4, 12], [4] * 4, 1, 2)
        every = [(axes, dim, parts) for axes in ([("tp", 2)], [("tp", 4)],
                                                 [("dp", 2), ("tp", 2)])
                 for dim in (0, 1) for parts in sizes]
        split = []
        for number, (axes, dim, parts) in enumerate(every):
            spec = [[], []]
            spec[dim] = ["tp"]
            count = [1, 1]
            count[dim] = parts
            self.files(axes, {"w.0": ([16, 16], spec, count)})
            os.rename(self.path("plan.json"), self.path(f"plan{number}.json"))
            split.append(self.path(f"split{number}"))
            self.shardc("checkpoint", "split", "--plan",
                        self.path(f"plan{number}.json"), "--checkpoint",
                        self.path("w.safetensors"), "--output", split[-1])
        rng = random.Random(9)
        pairs = [(one, other) for one in range(len(every))
                 for other in range(len(every))
                 if one != other]
        for draw, (one, other) in enumerate(rng.sample(pairs, 60)):
            out = self.path(f"moved{draw}")
            self.shardc("checkpoint", "reshard", split[one], "--plan",
                        self.path(f"plan{other}.json"), "--output", out)
            for name in os.listdir(split[other]):
                if name.endswith(".safetensors"):
                    self.assertEqual(
                        read_safetensors(os.path.join(out, name))[0],
                        read_safetensors(os.path.join(split[other], name))[0],
                        (every[one], every[other]))

    def test_elements_of_other_types_are_split_in_stated_parts(self):
        """Bytes of BF16, cast to F32, in rows of several dimensions."""
        shape, sizes = [3, 10, 2], [4, 2, 4]
        data = struct.pack("<60H", *range(0x3f80, 0x3f80 + 60))
        write_safetensors(self.path("w.safetensors"), {
            "w": ("BF16", shape, data)})
        with open(self.path("rules.json"), "w") as file:
            json.dump({"version": 1, "rules": [
                {"match": "w", "spec": [None, "tp"], "parts": [None, sizes]}]},
                file)
        self.shardc("plan", "--no-project", "--quiet", "--mesh", "tp:2", "--rules",
                    self.path("rules.json"), "--manifest",
                    self.path("w.safetensors"), "-o", self.path("plan.json"))
        for cast in ((), ("--cast", "f32")):
            out = self.path("out" + str(len(cast)))
            self.shardc("checkpoint", "split", "--plan", self.path("plan.json"),
                        "--checkpoint", self.path("w.safetensors"), "--output", out,
                        *cast)
            for device in range(2):
                rows = [begin + device * size // 2 + i
                        for begin, size in ((0, 4), (4, 2), (6, 4))
                        for i in range(size // 2)]
                want = [(x * 10 + y) * 2 + z for x in range(3) for y in rows
                        for z in range(2)]
                held, _ = read_safetensors(
                    os.path.join(out, f"device-{device:05}.safetensors"))
                kept = struct.unpack(
                    "<30I" if cast else "<30H", held["w"][2])
                self.assertEqual(
                    [value >> 16 for value in kept] if cast else list(kept),
                    [0x3f80 + index for index in want])
            self.shardc("checkpoint", "merge", out, "--output", out + ".safetensors")
            merged, _ = read_safetensors(out + ".safetensors")
            if not cast:
                self.assertEqual(merged["w"], ("BF16", shape, data))

    def test_the_styles_of_transformers_keep_their_meaning(self):
        """Imported, split and exported again: packed_colwise of [8, 2] gives the
        first of two devices rows 0, 1, 4 and 5."""
        write_safetensors(self.path("w.safetensors"), {
            "model.layers.0.mlp.gate_up_proj.weight": (
                "F32", [8, 2], struct.pack("<16I", *range(16))),
            "model.layers.0.mlp.down_proj.weight": (
                "F32", [2, 4], struct.pack("<8I", *range(8)))})
        styles = {"model.layers.*.mlp.gate_up_proj": "packed_colwise",
                  "model.layers.*.mlp.down_proj": "rowwise"}
        with open(self.path("tp.json"), "w") as file:
            json.dump(styles, file)
        for more in ((), ("--manifest", self.path("w.safetensors"))):
            self.shardc("import", "hf-tp-plan", self.path("tp.json"), "-o",
                        self.path("r.yaml"), *more)
            self.shardc("plan", "--no-project", "--quiet", "--mesh", "tp:2",
                        "--rules", self.path("r.yaml"), "--manifest",
                        self.path("w.safetensors"), "-o", self.path("p.json"))
            out = self.path("out" + str(len(more)))
            self.shardc("checkpoint", "split", "--plan", self.path("p.json"),
                        "--checkpoint", self.path("w.safetensors"), "--output",
                        out)
            for device, rows in enumerate(([0, 1, 4, 5], [2, 3, 6, 7])):
                held, _ = read_safetensors(
                    os.path.join(out, f"device-{device:05}.safetensors"))
                dtype, shape, data = held[
                    "model.layers.0.mlp.gate_up_proj.weight"]
                self.assertEqual((dtype, shape), ("F32", [4, 2]))
                self.assertEqual(struct.unpack("<8I", data), tuple(
                    2 * row + column for row in rows for column in (0, 1)))
            exported = json.loads(self.shardc(
                "export", "hf-tp-plan", "--plan",
                self.path("p.json")).stdout)
            self.assertEqual(exported, styles)

    def test_splits_are_those_that_transformers_and_pytorch_make(self):
        made = [records.load("transformers/" + name)
                for name in ("packed", "packed-4.57")]
        cases = [case for record in made for case in record["cases"]]
        for number, case in enumerate(cases):
            dim, parts = case["dim"], case["parts"]
            spec = [[] for _ in case["shape"]]
            spec[dim] = ["tp"]
            counts = [1] * len(spec)
            counts[dim] = parts
            self.files([("tp", case["devices"])],
                       {"w.0": (case["shape"], spec, counts)})
            out = self.path(f"out{number}")
            self.shardc("checkpoint", "split", "--plan", self.path("plan.json"),
                        "--checkpoint", self.path("w.safetensors"), "--output",
                        out)
            for device, want in enumerate(case["held"]):
                held, _ = read_safetensors(
                    os.path.join(out, f"device-{device:05}.safetensors"))
                data = held["w.0"][2]
                self.assertEqual(list(struct.unpack(f"<{len(want)}I", data)),
                                 want, case)
        self.assertGreater(len(cases), 20)
        print(f"{len(cases)} tensors split as "
              f"{[record['versions'] for record in made]}")

    def test_a_change_of_parts_is_a_difference_of_unknown_cost(self):
        tensors = {"w.0": ([8, 6], [["tp"], []], [2, 1])}
        self.files([("tp", 2)], tensors)
        os.rename(self.path("plan.json"), self.path("packed.json"))
        self.files([("tp", 2)], tensors, parts=False)
        self.shardc("diff", self.path("packed.json"),
                    self.path("packed.json"))
        done = self.shardc("diff", self.path("packed.json"),
                           self.path("plan.json"), "--format", "json",
                           status=1)
        (change,) = json.loads(done.stdout)["params"]
        self.assertEqual((change["before"], change["after"]),
                         (change["after"], change["before"]))
        self.assertEqual((change["parts_before"], change["parts_after"]),
                         ([2], []))
        self.assertEqual((change["collective"], change["bytes_per_device"]),
                         ("ppermute", None))
        text = self.shardc("diff", self.path("packed.json"),
                           self.path("plan.json"), status=1).stdout
        self.assertIn('["tp", null] in parts [2]', text)
        # A gather is the same collective as without parts.
        self.files([("tp", 2)], {"w.0": ([8, 6], [[], []], [1, 1])},
                   status=1)
        done = self.shardc("diff", self.path("packed.json"),
                           self.path("plan.json"), "--format", "json",
                           status=1)
        (change,) = json.loads(done.stdout)["params"]
        self.assertEqual((change["collective"], change["bytes_per_device"]),
                         ("all_gather", 4 * 6 * 4))

    def test_what_cannot_follow_parts_refuses_the_parameter(self):
        self.files([("tp", 2)], {"w.0": ([8, 6], [["tp"], []], [2, 1])})
        plan = self.path("plan.json")
        for name in ("jax", "jax-json", "shardy", "hlo", "vllm", "orbax"):
            more = ["--format", "json"] if name == "vllm" else []
            said = self.shardc("export", name, "--plan", plan, *more, status=2)
            self.assertIn("`w.0`", said.stderr, name)
            self.assertIn("`parts`", said.stderr, name)
            self.assertEqual(said.stdout, "")
        said = self.shardc("export", "dtensor", "--plan", plan,
                           "--no-strided", status=2).stderr
        self.assertIn("of `w.0` divide each of several parts of a dimension, "
                      "which needs `_StridedShard`", said)
        for name in ("csv", "tree", "markdown"):
            self.assertIn("in parts [2]", self.shardc(
                "export", name, "--plan", plan).stdout)
        self.assertIn("of 2 parts", self.shardc(
            "export", "dot", "--plan", plan).stdout)
        strides = json.loads(self.shardc(
            "export", "megatron", "--plan", plan, "--format", "json"
            ).stdout)["params"]
        self.assertEqual(strides["w.0"]["partition_stride"], 2)
        for to in ("orbax", "dcp"):
            said = self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint",
                               self.path("w.safetensors"), "--as", to,
                               "--output", self.path("tree"), status=2).stderr
            self.assertIn("`w.0`", said)
            self.assertFalse(os.path.exists(self.path("tree")))
        self.shardc("checkpoint", "merge", self.path("w.safetensors"), "--as", "orbax",
                    "--output", self.path("source"))
        said = self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint",
                           self.path("source"), "--output", self.path("pieces"),
                           status=2).stderr
        self.assertIn("`shardc checkpoint merge`", said)
        self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint",
                    self.path("w.safetensors"), "--output", self.path("pieces"))
        said = self.shardc("checkpoint", "merge", self.path("pieces"), "--as", "dcp",
                           "--output", self.path("tree"), status=2).stderr
        self.assertIn("`w.0` was split in each of several parts of a "
                      "dimension, and a tree is written from ranges of "
                      "complete dimensions", said)

    def test_what_cannot_state_sizes_refuses_the_parameter(self):
        self.files([("tp", 2)], {"w.0": ([8, 6], [["tp"], []], [[4, 2, 2], 1])})
        plan = self.path("plan.json")
        for name in ("jax", "jax-json", "shardy", "hlo", "vllm", "orbax", "dtensor",
                     "hf-tp-plan", "megatron"):
            more = ["--format", "json"] if name in ("vllm", "megatron") else []
            said = self.shardc("export", name, "--plan", plan, *more, status=2)
            self.assertIn("`w.0`", said.stderr, name)
            self.assertIn("`parts`", said.stderr, name)
            self.assertIn("store the parts as separate parameters", said.stderr)
            self.assertEqual(said.stdout, "")
        for name in ("csv", "tree", "markdown"):
            self.assertIn("in parts [[4, 2, 2]]", self.shardc(
                "export", name, "--plan", plan).stdout)
        self.assertIn("0 of parts [4, 2, 2]", self.shardc(
            "export", "dot", "--plan", plan).stdout)
        inputs = ("--no-project", "--mesh", "tp:2", "--rules",
                  self.path("rules.json"), "--manifest", self.path("w.safetensors"))
        said = self.shardc("show", "layout", "w.0", *inputs, status=2).stderr
        self.assertIn("the parts [[4, 2, 2]] of `w.0` have different sizes, which a "
                      "layout cannot draw", said)
        self.shardc("report", *inputs, "-o", self.path("report.html"))
        with open(self.path("report.html")) as file:
            self.assertIn("Not drawn: the parts have different sizes.", file.read())
        self.assertIn(
            'parts     dimension 0 has parts of 4, 2 and 2, each of which "tp" divides\n'
            "  shard     [4, 6], 96 B per device\n"
            "  device 1  [2:4+5:6+7:8, 0:6]",
            self.shardc("explain", "w.0", "--device", "1", *inputs).stdout)
        for to in ("orbax", "dcp"):
            said = self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint",
                               self.path("w.safetensors"), "--as", to,
                               "--output", self.path("tree"), status=2).stderr
            self.assertIn("(`parts` [[4, 2, 2]])", said)
        self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint",
                    self.path("w.safetensors"), "--output", self.path("pieces"))
        self.files([("tp", 2)], {"w.0": ([8, 6], [[], ["tp"]], [1, 1])})
        for command in (("merge",), ("reshard", "--plan", plan)):
            said = self.shardc("checkpoint", command[0], self.path("pieces"),
                               *command[1:], "--as", "dcp", "--output",
                               self.path("tree"), status=2).stderr
            self.assertIn("`w.0` was split in", said)
            self.assertFalse(os.path.exists(self.path("tree")))

    def test_parts_of_stated_sizes_are_a_difference(self):
        tensors = {"w.0": ([8, 6], [["tp"], []], [[4, 2, 2], 1])}
        self.files([("tp", 2)], tensors)
        os.rename(self.path("plan.json"), self.path("sized.json"))
        self.shardc("diff", self.path("sized.json"), self.path("sized.json"))
        for parts, known in ((1, None), (2, None), ([2, 4, 2], None)):
            self.files([("tp", 2)], {"w.0": ([8, 6], [["tp"], []], [parts, 1])})
            done = self.shardc("diff", self.path("sized.json"),
                               self.path("plan.json"), "--format", "json", status=1)
            (change,) = json.loads(done.stdout)["params"]
            self.assertEqual(
                (change["parts_before"], change["parts_after"],
                 change["bytes_per_device"]),
                ([[4, 2, 2]], [] if parts == 1 else [parts], known))
            self.assertIn("in parts [[4, 2, 2]]", self.shardc(
                "diff", self.path("sized.json"), self.path("plan.json"),
                status=1).stdout)
        # Where the other plan does not shard the dimension, or over more devices,
        # the bytes are those of a dimension of one part.
        for spec, parts in (([[], ["tp"]], [1, 1]), ([["tp"], []], [[4, 2, 2], 1])):
            costs = []
            for before, after in (([[4, 2, 2], 1], parts), ([1, 1], [1, 1])):
                self.files([("tp", 2)], {"w.0": ([8, 6], [["tp"], []], before)})
                os.rename(self.path("plan.json"), self.path("before.json"))
                axes = [("tp", 2)] if parts == [1, 1] else [("x", 1), ("tp", 2)]
                self.files(axes, {"w.0": ([8, 6], spec, after)})
                done = self.shardc(
                    "diff", self.path("before.json"), self.path("plan.json"),
                    "--format", "json", status=1)
                costs.append([(one["collective"], one["bytes_per_device"])
                              for one in json.loads(done.stdout)["params"]])
            self.assertEqual(costs[0], costs[1])

    def test_files_with_wrong_parts_are_refused(self):
        self.files([("tp", 2)], {"w.0": ([8, 6], [["tp"], []], [2, 1])})
        self.shardc("checkpoint", "split", "--plan", self.path("plan.json"), "--checkpoint",
                    self.path("w.safetensors"), "--output", self.path("pieces"))
        index = self.path("pieces", "shards.json")
        for name, command in (
                (index, ("checkpoint", "merge", self.path("pieces"), "--output",
                         self.path("merged.safetensors"))),
                (self.path("plan.json"), ("export", "csv", "--allow-edited",
                                          "--plan", self.path("plan.json")))):
            with open(name) as file:
                text = file.read()
            self.assertIn('"parts": [2]', text)
            a_list = "`parts` is a list" if name == index else (
                "`parts` of a parameter is not")
            for parts, said in (
                    ("[null]", "`parts` is a list of the number of parts of "
                     "each dimension: null for one, an integer of 2 or more, or a "
                     "list of the sizes of several parts; the last is not null"),
                    ("3", a_list), ("[1]", a_list), ("[[8]]", a_list),
                    ("[[8, 0]]", a_list), ("[[4, [4]]]", a_list),
                    ("[5]", "the parts do not divide [8, 6]"),
                    ("[[4, 2]]", "the parts do not divide [8, 6]"),
                    ("[[5, 3]]", "is outside its parameter of shape [8, 6]")):
                if "not divide" in said + parts and name != index:
                    continue
                if parts == "[[5, 3]]" and name != index:
                    continue
                with open(name, "w") as file:
                    file.write(text.replace('"parts": [2]',
                                            '"parts": ' + parts))
                self.assertIn(said, self.shardc(*command, status=2).stderr)
            with open(name, "w") as file:
                file.write(text)

    def test_a_shard_has_the_same_share_of_each_stated_part(self):
        self.files([("tp", 2)], {"w.0": ([8, 6], [["tp"], []], [[4, 2, 2], 1])})
        self.shardc("checkpoint", "split", "--plan", self.path("plan.json"),
                    "--checkpoint", self.path("w.safetensors"), "--output",
                    self.path("pieces"))
        index = self.path("pieces", "shards.json")
        with open(index) as file:
            text = file.read()
        self.assertIn('"parts": [[4, 2, 2]]', text)
        with open(index, "w") as file:
            file.write(text.replace("[[4, 2, 2]]", "[[5, 2, 1]]"))
        said = self.shardc("checkpoint", "merge", self.path("pieces"), "--output",
                           self.path("merged.safetensors"), status=2).stderr
        self.assertIn("the shard does not have the same share of each part of "
                      "[[5, 2, 1]]", said)

    def test_a_program_is_not_compared_with_divided_parts(self):
        self.files([("tp", 2)], {"w.0": ([8, 6], [["tp"], []], [2, 1])})
        with open(self.path("program.txt"), "w") as file:
            file.write(PROGRAM)
        said = self.shardc("audit", self.path("program.txt"), "--plan",
                           self.path("plan.json"), status=2).stderr
        self.assertIn("of a dimension of `w.0` (`parts` [2]), and a program "
                      "shards an array in one range for each device, so that "
                      "the two cannot be compared", said)
        self.shardc("audit", self.path("program.txt"), "--mesh", "tp:2")

    def test_axes_divide_each_part(self):
        """12 rows in 2 parts over 4 devices: 4 does not divide 6."""
        for shape, parts, said in (
                ([12, 2], [2, 1], "2 parts of 6, 6 % 4 = 2"),
                ([12, 2], [5, 1], "5 parts of 12, 12 % 5 = 2"),
                ([12, 2], [[4, 6, 2]],
                 "parts of 4, 6 and 2, of which part 2 is 6, 6 % 4 = 2"),
                ([12, 2], [[8, 4, 4]],
                 "parts of 8, 4 and 4, which sum to 16 and not to 12"),
                ([12, 2], [[6, 6]],
                 "parts of 6 and 6, of which part 1 is 6, 6 % 4 = 2")):
            write_safetensors(self.path("w.safetensors"), {
                "w.0": ("F32", shape, bytes(4 * 24))})
            with open(self.path("rules.json"), "w") as file:
                json.dump({"version": 1, "rules": [
                    {"match": "w", "spec": ["tp"], "parts": parts}]}, file)
            for policy in ("error", "pad"):
                done = self.shardc(
                    "plan", "--no-project", "--mesh", "tp:4", "--rules",
                    self.path("rules.json"), "--manifest",
                    self.path("w.safetensors"), "--illegal", policy, "-o",
                    self.path("plan.json"), status=1)
                self.assertIn(said, done.stderr)
            done = self.shardc(
                "plan", "--no-project", "--mesh", "tp:4", "--rules",
                self.path("rules.json"), "--manifest",
                self.path("w.safetensors"), "--illegal", "drop", "-o",
                self.path("plan.json"))
            with open(self.path("plan.json")) as file:
                entry = json.load(file)["params"]["w.0"]
            self.assertEqual(entry["spec"], [None])
            self.assertNotIn("parts", entry)

    def test_stated_sizes_sum_to_the_dimension_on_one_device(self):
        for parts, status in (([[8, 2, 2]], 0), ([[8, 2]], 1)):
            write_safetensors(self.path("w.safetensors"), {
                "w.0": ("F32", [12, 2], bytes(96))})
            with open(self.path("rules.json"), "w") as file:
                json.dump({"version": 1, "rules": [
                    {"match": "w", "spec": ["tp", "dp"], "parts": parts}]}, file)
            done = self.shardc(
                "plan", "--no-project", "--mesh", "dp:2,tp:1", "--rules",
                self.path("rules.json"), "--manifest",
                self.path("w.safetensors"), "-o", self.path("plan.json"),
                status=status)
            if status:
                self.assertIn("parts of 8 and 2, which sum to 10 and not to 12",
                              done.stderr)

    def test_shrink_keeps_the_axes_that_divide_every_part(self):
        write_safetensors(self.path("w.safetensors"), {
            "w.0": ("F32", [16], bytes(64)), "v": ("F32", [4], bytes(16))})
        for sizes, spec in (([8, 4, 4], [["dp", "tp"]]), ([8, 6, 2], ["dp"]),
                            ([9, 7], [None])):
            with open(self.path("rules.json"), "w") as file:
                json.dump({"version": 1, "rules": [
                    {"match": "w", "spec": [["dp", "tp"]], "parts": [sizes]},
                    {"match": "v", "spec": ["dp"]}]}, file)
            self.shardc(
                "plan", "--no-project", "--mesh", "dp:2,tp:2", "--rules",
                self.path("rules.json"), "--manifest", self.path("w.safetensors"),
                "--illegal", "shrink", "-o", self.path("plan.json"))
            with open(self.path("plan.json")) as file:
                entry = json.load(file)["params"]["w.0"]
            self.assertEqual(entry["spec"], spec)
            self.assertEqual(entry.get("parts"), [sizes] if spec != [None] else None)

    def test_equal_sizes_are_their_number_in_a_plan(self):
        plan = self.files([("tp", 2)], {"w.0": ([8, 6], [["tp"], []], [[4, 4], 1])})
        self.assertEqual(plan["params"]["w.0"]["parts"], [2])

    def checked(self, tree, rules, config=None):
        """The findings about parts of fused matrices, by the parameter's name."""
        def write(name, value):
            with open(self.path(name), "w") as file:
                json.dump(value, file)
            return self.path(name)
        model = ["--model", write("c.json", config)] if config else []
        said = subprocess.run([
            BIN, "check", "--no-project", "--mesh", "tp:2", "--rules",
            write("r.json", {"version": 1, "separator": ".", "rules": rules}),
            "--manifest", write("m.json", {
                "schema": "shardc.manifest/v1", "separator": ".", "params": {
                    name: {"shape": shape, "dtype": "BF16"}
                    for name, shape in tree.items()}}),
            *model, "--notes", "--format", "json"], capture_output=True, text=True)
        return [one for one in json.loads(said.stdout)
                if one["code"] in ("SHD202", "SHD221", "SHD230", "SHD232")]

    def test_check_proposes_the_sizes_of_parts_and_accepts_them(self):
        """Queries larger than keys and values, and the parts of Mamba-2."""
        attention = {"blocks.0.attn.qkv_proj.weight": [64 + 2 * 16, 64],
                     "blocks.0.attn.o_proj.weight": [64, 64]}
        mixer = {"layers.0.mixer.in_proj.weight": [2 * 128 + 2 * 2 * 16 + 8, 64],
                 "layers.0.mixer.conv1d.weight": [128 + 2 * 2 * 16, 1, 4],
                 "layers.0.mixer.A_log": [8], "layers.0.mixer.D": [8],
                 "layers.0.mixer.dt_bias": [8], "layers.0.mixer.norm.weight": [128],
                 "layers.0.mixer.out_proj.weight": [64, 128]}
        heads = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 8,
                 "num_key_value_heads": 2, "num_hidden_layers": 1,
                 "intermediate_size": 128, "vocab_size": 100}
        mamba = {"model_type": "mamba2", "hidden_size": 64, "state_size": 16,
                 "num_heads": 8, "head_dim": 16, "expand": 2, "n_groups": 2,
                 "num_hidden_layers": 1, "vocab_size": 100, "conv_kernel": 4}
        rest = [{"match": r"(o|out)_proj", "spec": [None, "tp"]},
                {"match": r"norm|A_log|mixer\.D|dt_bias|conv1d", "spec": ["tp"]}]
        for tree, name, code, parts, configs in (
                (attention, "qkv_proj", "SHD230", [64, 16, 16], (heads, None)),
                (mixer, "in_proj", "SHD232", [128, 128, 32, 32, 8], (mamba, None)),
                (mixer, "conv1d", "SHD232", [128, 32, 32], (mamba, None))):
            for config in configs:
                def findings(stated):
                    rule = {"match": name, "spec": ["tp"], **stated}
                    return [one for one in self.checked(
                        tree, [rule, *rest,
                               {"match": ".", "spec": []}], config)
                            if any(name in param for param in one["params"])]
                with self.subTest(name=name, config=bool(config)):
                    (found,) = findings({})
                    self.assertEqual(found["code"], code)
                    self.assertIn(f"write `parts: [{parts}]` in the rule",
                                  found["help"])
                    self.assertEqual(findings({"parts": [parts]}), [])
                    wrong = [*parts[1:], parts[0]]
                    self.assertEqual(
                        [one["code"] for one in findings({"parts": [wrong]})], [code])
        # The groups of B and C are shared by heads of both devices.
        for groups in (1, 2):
            (*found,) = self.checked(mixer, [
                {"match": "in_proj", "spec": ["tp"], "parts": [[128, 128, 32, 32, 8]]},
                *rest[:1], {"match": ".", "spec": []}],
                {**mamba, "n_groups": groups, "state_size": 32 // groups})
            self.assertEqual([one["code"] for one in found],
                             ["SHD232"] if groups == 1 else [])
            if found:
                self.assertIn("heads share 1 group of B and C, which 2 devices do "
                              "not divide", found[0]["message"])

    def test_a_step_has_no_parts_of_stated_sizes(self):
        """`verify step` states it, and `check` has no SHD230 of the matrix."""
        with open(self.path("phi.json"), "w") as file:
            json.dump({
                "model_type": "phi3", "hidden_size": 64, "num_attention_heads": 8,
                "num_key_value_heads": 4, "num_hidden_layers": 2,
                "intermediate_size": 128, "vocab_size": 96, "rms_norm_eps": 1e-5,
                "max_position_embeddings": 128, "rope_theta": 10000.0,
                "hidden_act": "silu", "tie_word_embeddings": False}, file)
        with open(self.path("rules.json"), "w") as file:
            json.dump({"version": 1, "extends": ["builtin:phi3/hf"], "rules": [
                {"match": r"qkv_proj\.weight$", "spec": ["TP", "FSDP"],
                 "parts": [[64, 32, 32]]}]}, file)
        inputs = ("--no-project", "--mesh", "fsdp:2,tp:2", "--model",
                  self.path("phi.json"), "--rules", self.path("rules.json"))
        done = subprocess.run(
            [BIN, "verify", "step", *inputs, "--mode", "train", "--batch", "4",
             "--seq", "16"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(
            "unsupported: qkv: the plan divides each of the parts [64, 32, 32] of "
            "dimension 0, and a step divides equal parts only; store the parts as "
            "separate parameters", done.stdout)
        notes = [one["message"] for one in json.loads(self.shardc(
            "check", *inputs, "--notes", "--format", "json").stdout)
            if one["code"] == "SHD230"]
        self.assertEqual(len(notes), 1)
        self.assertIn("gate_up_proj", notes[0])

    def test_like_copies_the_parts(self):
        write_safetensors(self.path("w.safetensors"), {
            "a.w": ("F32", [8, 2], bytes(64)), "b.w": ("F32", [4, 2],
                                                        bytes(32))})
        for rule, said in (
                ({"match": "b", "spec": {"like": "a.w"}}, ""),
                ({"match": "b", "spec": {"like": "a.w"}, "parts": [2]},
                 "a rule with `like` has no `parts`"),
                ({"match": "b", "spec": ["tp"], "parts": 2},
                 "`parts` is the number `2`, not a list"),
                ({"match": "b", "spec": ["tp"], "parts": [0]},
                 "a number of parts"),
                ({"match": "b", "spec": ["tp"], "parts": [[4]]},
                 "a list of the sizes of parts has 1 size, and there are from 2 to "
                 "1024"),
                ({"match": "b", "spec": ["tp"], "parts": [[2, 0, 2]]},
                 "the size of a part"),
                ({"match": "b", "spec": ["tp"], "parts": [[2, [1, 1]]]},
                 "the size of a part")):
            with open(self.path("rules.json"), "w") as file:
                json.dump({"version": 1, "separator": ".", "rules": [
                    {"match": "a", "spec": ["tp"], "parts": [2]}, rule]},
                    file)
            done = self.shardc(
                "plan", "--no-project", "--mesh", "tp:2", "--rules",
                self.path("rules.json"), "--manifest",
                self.path("w.safetensors"), "-o", self.path("plan.json"),
                status=2 if said else 0)
            self.assertIn(said, done.stderr)
            if said:
                continue
            with open(self.path("plan.json")) as file:
                entry = json.load(file)["params"]["b.w"]
            self.assertEqual(entry["parts"], [2])


if __name__ == "__main__":
    unittest.main(argv=["parts_test"])
