"""Dimensions of several equal parts (`parts` of a rule): each part is divided, in
plans, checkpoints, differences and exports, compared with an enumeration of the
indices that each device holds."""

import itertools
import json
import math
import os
import random
import struct
import sys
import unittest

from checkpoint_case import Base, read_safetensors, write_safetensors
from driver import ROOT

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


def indices(size, parts, group, axes, at):
    """The indices of one dimension that a device holds: of each part, the range
    of its place along the axes."""
    sizes = dict(axes)
    out = []
    for part in range(parts):
        own = list(range(part * size // parts, (part + 1) * size // parts))
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


def drawn(rng):
    """A mesh, and tensors with a spec and parts that are legal on it."""
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
        for group, count in zip(spec, parts):
            size = count * rng.randint(1, 2)
            for axis in group:
                size *= sizes[axis]
            shape.append(size)
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
            if parts and any(one > 1 for one in count):
                rule["parts"] = [one if one > 1 else None for one in count]
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
        rng = random.Random(7)
        several = 0
        for draw in range(DRAWS):
            axes, tensors = drawn(rng)
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
                    several += any(group and count > 1 for group, count in
                                   zip(spec, parts))
                    self.assertEqual(held[name][1],
                                     [len(one) for one in want])
                    self.assertEqual(
                        list(struct.unpack(f"<{len(values)}I",
                                           held[name][2])), values,
                        (axes, name, tensors[name]))
                    self.assertEqual(plan["params"][name]["shard_shape"],
                                     [len(one) for one in want])
            self.explained(axes, tensors, rng)
            self.placed(axes, tensors)
            self.moved_and_merged(out, draw, rng)
        self.assertGreater(several, 100)

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

    def test_a_split_is_resharded_to_parts_and_refused_from_them(self):
        """Where each piece of one is a piece or several of the other."""
        tensors = {"w.0": ([8, 6], [["tp"], []], [2, 1])}
        self.files([("tp", 2)], tensors)
        self.shardc("checkpoint", "split", "--plan", self.path("plan.json"), "--checkpoint",
                    self.path("w.safetensors"), "--output", self.path("packed"))
        whole = {"w.0": ([8, 6], [[], ["tp"]], [1, 1])}
        self.files([("tp", 2)], whole)
        said = self.shardc("checkpoint", "reshard", self.path("packed"), "--plan",
                           self.path("plan.json"), "--output",
                           self.path("columns"), status=2).stderr
        self.assertIn("`w.0` was split in parts [2]", said)
        self.assertIn("`shardc checkpoint merge`", said)
        self.assertFalse(os.path.exists(self.path("columns")))
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
                "`parts` of a parameter is not a list of integers of 2 or "
                "more, or null")
            for parts, said in (
                    ("[null]", "`parts` is a list of the number of parts of "
                     "each dimension: null for one, or an integer of 2 or "
                     "more, which the last is"),
                    ("3", a_list), ("[1]", a_list),
                    ("[5]", "the parts do not divide [8, 6]")):
                if parts == "[5]" and name != index:
                    continue
                with open(name, "w") as file:
                    file.write(text.replace('"parts": [2]',
                                            '"parts": ' + parts))
                self.assertIn(said, self.shardc(*command, status=2).stderr)
            with open(name, "w") as file:
                file.write(text)

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
                ([12, 2], [5, 1], "5 parts of 12, 12 % 5 = 2")):
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
                 "a number of parts")):
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
