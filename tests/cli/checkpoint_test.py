"""split, merge and reshard through the real program, read back by the
definition of the format with nothing of ours in between."""

import itertools
import json
import os
import random
import struct
import unittest

try:
    import numpy
except ImportError:  # the array checks need it; the rest does not
    numpy = None

from checkpoint_case import (AXES, Base, crc32c, read_safetensors,
                             sample_params, sample_tensors, write_safetensors)


@unittest.skipIf(numpy is None, "numpy is not there")
class Arrays(Base):
    def array(self, dtype, shape, data):
        kind = {"BF16": "<u2", "F16": "<u2", "F32": "<u4", "I64": "<u8"}
        return numpy.frombuffer(data, kind[dtype]).reshape(shape)

    def slices(self, spec, shape, coordinates):
        """The device's slice by the words of the semantics."""
        sizes = dict(AXES)
        out = []
        for dim, size in enumerate(shape):
            group = spec[dim] if dim < len(spec) else None
            group = [group] if isinstance(group, str) else group or []
            index, parts = 0, 1
            for axis in group:
                index = index * sizes[axis] + coordinates[axis]
                parts *= sizes[axis]
            step = size // parts
            out.append(slice(index * step, (index + 1) * step))
        return tuple(out)

    def test_every_device_holds_its_slices(self):
        tensors = sample_tensors()
        write_safetensors(self.path("m.safetensors"), tensors, {"format": "pt"})
        plan = self.write_plan("plan.json", AXES, sample_params())
        for mode in ("train", "decode"):
            out = self.path("out-" + mode)
            self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint",
                        self.path("m.safetensors"), "--output", out, "--mode",
                        mode, "--verify")
            places = itertools.product(*(range(size) for _, size in AXES))
            for device, place in enumerate(places):
                held, metadata = read_safetensors(
                    os.path.join(out, "device-%05d.safetensors" % device))
                self.assertEqual(list(held), list(tensors))
                self.assertEqual(metadata, {"format": "pt"})
                at = dict(zip((name for name, _ in AXES), place))
                for name, (dtype, shape, data) in tensors.items():
                    fields = sample_params()[name][1]
                    spec = fields
                    if isinstance(fields, dict):
                        spec = fields["spec"]
                        if mode == "decode":
                            spec = fields["modes"]["decode"]["spec"]
                    want = self.array(dtype, shape, data)[
                        self.slices(spec, shape, at)]
                    got = self.array(*held[name])
                    self.assertEqual(held[name][0], dtype)
                    numpy.testing.assert_array_equal(got, want)

    def test_cast_is_numpys(self):
        rng = numpy.random.default_rng(3)
        bits = rng.integers(0, 2**32, 4096, dtype=numpy.uint32)
        bits[:2048] = (bits[:2048] & 0x80001FFF) | rng.integers(
            0x33000000, 0x48000000, 2048, dtype=numpy.uint32)
        values = bits.view(numpy.float32)
        values = values[~numpy.isnan(values)][:4000]
        write_safetensors(self.path("m.safetensors"), {
            "w": ("F32", [40, 100], values.tobytes()),
            "i": ("I64", [3], bytes(24))})
        plan = self.write_plan("plan.json", [("tp", 4)], {
            "w": ([40, 100], [None, "tp"]), "i": ([3], [])})
        for dtype, kind in (("f16", "<f2"), ("bf16", None)):
            self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint",
                        self.path("m.safetensors"), "--output", self.path(dtype),
                        "--cast", dtype)
            self.shardc("checkpoint", "merge", self.path(dtype), "--output",
                        self.path(dtype + ".safetensors"))
            back, _ = read_safetensors(self.path(dtype + ".safetensors"))
            self.assertEqual(back["w"][0], dtype.upper())
            self.assertEqual(back["i"][0], "I64")
            got = numpy.frombuffer(back["w"][2], "<u2")
            if kind:
                with numpy.errstate(over="ignore"):
                    want = values.astype(kind).view("<u2")
            else:  # the upper half, rounded: numpy has no bfloat16
                wide = values.view("<u4").astype(numpy.uint64)
                want = (wide + 0x7FFF + (wide >> 16 & 1)) >> 16
                want = want.astype("<u2")
            numpy.testing.assert_array_equal(got, want)


class Checkpoints(Base):
    def make(self, scale=1):
        write_safetensors(self.path("m.safetensors"),
                          sample_tensors(scale=scale), {"format": "pt"})
        return self.write_plan("plan.json", AXES, sample_params(scale))

    def split(self, plan, out, *args, **kwargs):
        return self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint",
                           self.path("m.safetensors"), "--output",
                           self.path(out), *args, **kwargs)

    def test_round_trip_by_every_layout(self):
        plan = self.make()
        first = self.contents()["m.safetensors"]
        for per, processes in (("device", "1"), ("process", "4"),
                               ("shard", "1")):
            out = "out-" + per
            self.split(plan, out, "--per", per, "--processes", processes)
            self.shardc("checkpoint", "merge", self.path(out), "--verify", "--output",
                        self.path("back.safetensors"))
            self.assertTrue(self.contents()["back.safetensors"] == first)
            with open(self.path(out, "shards.json")) as file:
                index = json.load(file)
            self.assertEqual(index["schema"], "shardc.shards/v1")
            self.assertRegex(index["fingerprint"], "^sha256:[0-9a-f]{64}$")
            self.check_schema(index)
            for file in index["files"]:
                held, _ = read_safetensors(self.path(out, file["file"]))
                self.assertEqual(list(held), list(file["params"]))
                for name, piece in file["params"].items():
                    self.assertEqual(piece["shape"], held[name][1])
                    self.assertEqual(piece["checksum"], crc32c(held[name][2]))
            self.shardc("checkpoint", "reshard", self.path(out), "--plan", plan, "--output",
                        self.path("again-" + per), "--per", "device")
            self.same(self.contents("again-" + per),
                      self.contents("out-device"))

    def check_schema(self, index):
        try:
            import jsonschema
        except ImportError:
            return
        schema = json.loads(self.shardc("schema", "shards").stdout)
        jsonschema.Draft7Validator(schema).validate(index)

    def test_any_number_of_threads_gives_the_same_bytes(self):
        plan = self.make(scale=64)
        self.split(plan, "one", "--threads", "1")
        self.split(plan, "many", "--threads", "7")
        self.same(self.contents("one"), self.contents("many"))

    def test_select_and_dry_run(self):
        plan = self.make()
        run = self.split(plan, "out", "--params", "^layer", "--dry-run",
                         "--format", "json")
        size = json.loads(run.stdout)
        self.assertEqual(size["files"], 16)
        self.assertEqual(size["bytes_read"], 16 * 24 * 4 + 14)
        self.assertFalse(os.path.exists(self.path("out")))
        self.split(plan, "out", "--params", "^layer")
        held, _ = read_safetensors(self.path("out", "device-00003.safetensors"))
        self.assertEqual(list(held), ["layer.0.q.weight",
                                      "layer.0.norm.weight"])
        written = sum(len(v) for k, v in self.contents("out").items()
                      if k.startswith("device"))
        self.assertEqual(size["bytes_written"], written)

    def test_files_of_limited_size(self):
        plan = self.make()
        self.split(plan, "out")
        self.shardc("checkpoint", "merge", self.path("out"), "--output", self.path("hf"),
                    "--max-shard-size", "4KB")
        with open(self.path("hf", "model.safetensors.index.json")) as file:
            index = json.load(file)
        self.assertEqual(list(index["weight_map"]), list(sample_tensors()))
        for name, file in index["weight_map"].items():
            held, _ = read_safetensors(self.path("hf", file))
            self.assertEqual(held[name], sample_tensors()[name])
        self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint", self.path("hf"),
                    "--output", self.path("out2"))
        self.same(self.contents("out2"), self.contents("out"))

    def test_placed_parameters(self):
        data = random.Random(9).randbytes(4 * 8 * 4)
        tensors = {"e.%d" % i: ("F32", [8], data[32 * i:32 * i + 32])
                   for i in range(4)}
        write_safetensors(self.path("m.safetensors"), tensors)
        plan = self.write_plan("plan.json", [("ep", 2), ("tp", 2)], {
            "e.%d" % i: ([8], {"spec": ["tp"], "placement": {
                "axis": "ep", "coordinate": i // 2}}) for i in range(4)})
        self.split(plan, "out")
        held, _ = read_safetensors(self.path("out", "device-00003.safetensors"))
        self.assertEqual(list(held), ["e.2", "e.3"])
        self.assertEqual(held["e.3"][2], data[96 + 16:128])
        self.shardc("checkpoint", "merge", self.path("out"), "--output",
                    self.path("back.safetensors"))
        self.assertTrue(self.contents()["back.safetensors"] ==
                        self.contents()["m.safetensors"])

    def test_packed_types_without_elements_are_split_anywhere(self):
        write_safetensors(self.path("m.safetensors"), {"w": ("F4", [0, 4], b"")})
        plan = self.write_plan("plan.json", [("tp", 4)],
                               {"w": ([0, 4], [None, "tp"])})
        self.split(plan, "out")
        self.shardc("checkpoint", "merge", self.path("out"), "--output",
                    self.path("back.safetensors"))
        self.assertIn(b'"shape":[0,4]', self.contents()["back.safetensors"])

    def test_all_differences_are_reported(self):
        write_safetensors(self.path("m.safetensors"), sample_tensors())
        params = sample_params()
        params["embed.weight"] = ([64, 64], [])
        del params["scalar"]
        for i in range(70):
            params["more.%d" % i] = ([2], [])
        plan = self.write_plan("plan.json", AXES, params)
        run = self.split(plan, "out", status=2)
        self.assertIn("[64, 64] in the plan and [64, 32]", run.stderr)
        self.assertIn("the checkpoint has `scalar`", run.stderr)
        for i in range(70):
            self.assertIn("`more.%d`" % i, run.stderr)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_a_spec_that_does_not_divide(self):
        write_safetensors(self.path("m.safetensors"),
                          {"w": ("U8", [6], bytes(6))})
        plan = self.write_plan("plan.json", [("tp", 4)], {"w": ([6], ["tp"])})
        run = self.split(plan, "out", status=2)
        self.assertIn("does not divide", run.stderr)

    def test_damaged_pieces(self):
        plan = self.make()
        self.split(plan, "out")
        victim = self.path("out", "device-00005.safetensors")
        with open(victim, "r+b") as file:
            file.seek(-3, 2)
            byte = file.read(1)
            file.seek(-3, 2)
            file.write(bytes([byte[0] ^ 1]))
        self.shardc("checkpoint", "merge", self.path("out"), "--output",
                    self.path("x.safetensors"))
        # Another replica serves; the damaged one is not read. Damage all.
        for name in os.listdir(self.path("out")):
            if name.endswith(".safetensors"):
                with open(self.path("out", name), "r+b") as file:
                    file.seek(-3, 2)
                    file.write(b"\xa5")
        run = self.shardc("checkpoint", "merge", self.path("out"), "--verify", "--output",
                          self.path("y.safetensors"), status=2)
        self.assertIn("checksum", run.stderr)
        self.assertFalse(os.path.exists(self.path("y.safetensors")))
        os.remove(self.path("out", "device-00007.safetensors"))
        run = self.shardc("checkpoint", "merge", self.path("out"), "--output",
                          self.path("z.safetensors"), status=2)
        self.assertIn("device-00007", run.stderr)

    def test_an_index_that_points_elsewhere(self):
        plan = self.make()
        self.split(plan, "out")
        index = self.path("out", "shards.json")
        with open(index) as file:
            text = file.read()
        with open(index, "w") as file:
            file.write(text.replace("device-00000.", "../m."))
        run = self.shardc("checkpoint", "merge", self.path("out"), "--output",
                          self.path("x.safetensors"), status=2)
        self.assertIn("own directory", run.stderr)

    def test_offsets_beyond_4_gib(self):
        big = 5 << 30
        tail = {"a": ("U8", [64, 16], random.Random(4).randbytes(1024)),
                "b": ("F32", [8], random.Random(5).randbytes(32))}
        header = {"big": {"dtype": "U8", "shape": [big >> 20, 1 << 20],
                          "data_offsets": [0, big]},
                  "a": {"dtype": "U8", "shape": [64, 16],
                        "data_offsets": [big, big + 1024]},
                  "b": {"dtype": "F32", "shape": [8],
                        "data_offsets": [big + 1024, big + 1056]}}
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        marks = {0: b"first", 3 << 30: b"middle", big - 4: b"last"}
        with open(self.path("m.safetensors"), "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            start = out.tell()
            for at, mark in marks.items():
                out.seek(start + at)
                out.write(mark)
            out.seek(start + big)
            out.write(tail["a"][2] + tail["b"][2])
        plan = self.write_plan("plan.json", [("tp", 2)], {
            "big": ([big >> 20, 1 << 20], []),
            "a": ([64, 16], [None, "tp"]), "b": ([8], ["tp"])})
        self.split(plan, "out", "--per", "shard", "--no-sync")
        self.shardc("checkpoint", "merge", self.path("out"), "--no-sync", "--output",
                    self.path("back.safetensors"))
        for name in ("m", "back"):
            with open(self.path(name + ".safetensors"), "rb") as file:
                self.assertEqual(file.read(start), struct.pack(
                    "<Q", len(text)) + text)
                for at, mark in marks.items():
                    file.seek(start + at)
                    self.assertEqual(file.read(len(mark)), mark)
                file.seek(start + big)
                self.assertEqual(file.read(), tail["a"][2] + tail["b"][2])


if __name__ == "__main__":
    unittest.main()
