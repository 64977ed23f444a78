"""split, merge and reshard through the real program, read back by the
definition of the format with nothing of ours in between."""

import hashlib
import itertools
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

try:
    import numpy
except ImportError:  # the array checks need it; the rest does not
    numpy = None

BIN = os.environ["SHARDC_BIN"]
SIZES = {"U8": 1, "I8": 1, "BOOL": 1, "BF16": 2, "F16": 2, "F32": 4, "I64": 8}


def write_safetensors(path, tensors, metadata=None):
    """tensors: name -> (dtype, shape, bytes), in order."""
    header, at = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            out.write(data)


def read_safetensors(path):
    """name -> (dtype, shape, bytes), and the metadata; by the definition."""
    with open(path, "rb") as file:
        raw = file.read()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + length])
    metadata = header.pop("__metadata__", {})
    data, out, ends = raw[8 + length:], {}, [0]
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert 0 <= begin <= end <= len(data)
        count = SIZES[entry["dtype"]]
        for size in entry["shape"]:
            count *= size
        assert end - begin == count, name
        out[name] = (entry["dtype"], entry["shape"], data[begin:end])
        ends.append(end)
    assert max(ends) == len(data)
    return out, metadata


def make_plan(axes, params, fingerprint="sha256:test"):
    """axes: [(name, size)]; params: name -> (shape, spec or fields)."""
    devices = 1
    for _, size in axes:
        devices *= size
    out = {"schema": "shardc.plan/v1", "fingerprint": fingerprint,
           "mesh": {"axes": [{"name": n, "size": s, "type": "auto"}
                             for n, s in axes], "devices": devices},
           "modes": ["train", "decode"], "rules": [], "params": {}}
    for name, (shape, fields) in params.items():
        if not isinstance(fields, dict):
            fields = {"spec": fields}
        out["params"][name] = {"shape": shape, "dtype": None, **fields}
    return out


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return "crc32c:%08x" % (crc ^ 0xFFFFFFFF)


class Base(unittest.TestCase):
    def setUp(self):
        # In memory where there is such a place: syncs are quick there.
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.dir = tempfile.mkdtemp(prefix="shardc_", dir=base)
        self.addCleanup(shutil.rmtree, self.dir, True)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def shardc(self, *args, status=0, env=None, **kwargs):
        run = subprocess.run([BIN, *args], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True,
                             env={**clean_env(), **(env or {})}, **kwargs)
        self.assertEqual(run.returncode, status, run.stderr)
        return run

    def write_plan(self, name, *args, **kwargs):
        with open(self.path(name), "w") as out:
            json.dump(make_plan(*args, **kwargs), out)
        return self.path(name)

    def same(self, held, want):
        """assertEqual would print megabytes, for minutes."""
        self.assertEqual(list(held), list(want))
        for name, data in want.items():
            self.assertTrue(held[name] == data, name + " differs")

    def contents(self, *names):
        out = {}
        folder = self.path(*names)
        for name in sorted(os.listdir(folder)):
            if os.path.isdir(os.path.join(folder, name)):
                continue
            with open(os.path.join(folder, name), "rb") as file:
                out[name] = file.read()
        return out


def clean_env():
    drop = ("SLURM", "OMPI", "RANK", "WORLD_SIZE")
    return {k: v for k, v in os.environ.items() if not k.startswith(drop)}


def sample_tensors(seed=1, scale=1):
    rng = random.Random(seed)
    return {
        "embed.weight": ("BF16", [64 * scale, 32],
                         rng.randbytes(64 * scale * 32 * 2)),
        "layer.0.q.weight": ("F32", [16, 24 * scale],
                             rng.randbytes(16 * 24 * scale * 4)),
        "layer.0.norm.weight": ("F16", [7], rng.randbytes(14)),
        "empty": ("I64", [0, 4], b""),
        "scalar": ("F32", [], rng.randbytes(4)),
    }


AXES = [("dp", 2), ("fsdp", 2), ("tp", 4)]


def sample_params(scale=1):
    return {
        "embed.weight": ([64 * scale, 32], [["fsdp", "tp"], None]),
        "layer.0.q.weight": ([16, 24 * scale],
                             {"spec": [None, ["tp", "fsdp"]],
                              "modes": {"decode": {"spec": [["tp"]]}}}),
        "layer.0.norm.weight": ([7], []),
        "empty": ([0, 4], [None, "tp"]),
        "scalar": ([], []),
    }


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
            self.shardc("split", "--plan", plan, "--checkpoint",
                        self.path("m.safetensors"), "--out", out, "--mode",
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
            self.shardc("split", "--plan", plan, "--checkpoint",
                        self.path("m.safetensors"), "--out", self.path(dtype),
                        "--dtype", dtype)
            self.shardc("merge", self.path(dtype), "--out",
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
        return self.shardc("split", "--plan", plan, "--checkpoint",
                           self.path("m.safetensors"), "--out",
                           self.path(out), *args, **kwargs)

    def test_round_trip_by_every_layout(self):
        plan = self.make()
        first = self.contents()["m.safetensors"]
        for per, processes in (("device", "1"), ("process", "4"),
                               ("shard", "1")):
            out = "out-" + per
            self.split(plan, out, "--per", per, "--processes", processes)
            self.shardc("merge", self.path(out), "--verify", "--out",
                        self.path("back.safetensors"))
            self.assertTrue(self.contents()["back.safetensors"] == first)
            with open(self.path(out, "shards.json")) as file:
                index = json.load(file)
            self.assertEqual(index["schema"], "shardc.shards/v1")
            self.assertEqual(index["fingerprint"], "sha256:test")
            self.check_schema(index)
            for file in index["files"]:
                held, _ = read_safetensors(self.path(out, file["file"]))
                self.assertEqual(list(held), list(file["params"]))
                for name, piece in file["params"].items():
                    self.assertEqual(piece["shape"], held[name][1])
                    self.assertEqual(piece["checksum"], crc32c(held[name][2]))
            self.shardc("reshard", self.path(out), "--plan", plan, "--out",
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
        run = self.split(plan, "out", "--select", "^layer", "--dry-run",
                         "--format", "json")
        size = json.loads(run.stdout)
        self.assertEqual(size["files"], 16)
        self.assertEqual(size["bytes_read"], 16 * 24 * 4 + 14)
        self.assertFalse(os.path.exists(self.path("out")))
        self.split(plan, "out", "--select", "^layer")
        held, _ = read_safetensors(self.path("out", "device-00003.safetensors"))
        self.assertEqual(list(held), ["layer.0.q.weight",
                                      "layer.0.norm.weight"])
        written = sum(len(v) for k, v in self.contents("out").items()
                      if k.startswith("device"))
        self.assertEqual(size["bytes_written"], written)

    def test_files_of_limited_size(self):
        plan = self.make()
        self.split(plan, "out")
        self.shardc("merge", self.path("out"), "--out", self.path("hf"),
                    "--max-shard-size", "4KB")
        with open(self.path("hf", "model.safetensors.index.json")) as file:
            index = json.load(file)
        self.assertEqual(list(index["weight_map"]), list(sample_tensors()))
        for name, file in index["weight_map"].items():
            held, _ = read_safetensors(self.path("hf", file))
            self.assertEqual(held[name], sample_tensors()[name])
        self.shardc("split", "--plan", plan, "--checkpoint", self.path("hf"),
                    "--out", self.path("out2"))
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
        self.shardc("merge", self.path("out"), "--out",
                    self.path("back.safetensors"))
        self.assertTrue(self.contents()["back.safetensors"] ==
                        self.contents()["m.safetensors"])

    def test_differences_are_all_told(self):
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
        self.shardc("merge", self.path("out"), "--out",
                    self.path("x.safetensors"))
        # Another replica serves; the damaged one is not read. Damage all.
        for name in os.listdir(self.path("out")):
            if name.endswith(".safetensors"):
                with open(self.path("out", name), "r+b") as file:
                    file.seek(-3, 2)
                    file.write(b"\xa5")
        run = self.shardc("merge", self.path("out"), "--verify", "--out",
                          self.path("y.safetensors"), status=2)
        self.assertIn("checksum", run.stderr)
        self.assertFalse(os.path.exists(self.path("y.safetensors")))
        os.remove(self.path("out", "device-00007.safetensors"))
        run = self.shardc("merge", self.path("out"), "--out",
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
        run = self.shardc("merge", self.path("out"), "--out",
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
        self.shardc("merge", self.path("out"), "--no-sync", "--out",
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


class Failures(Base):
    """Killed, out of space, not allowed, the source cut under the reader."""

    def make(self, megabytes):
        rows = megabytes * 1024
        data = random.Random(2).randbytes(1 << 20) * megabytes
        write_safetensors(self.path("m.safetensors"), {
            "w": ("U8", [rows, 1024], data), "n": ("U8", [3], b"abc")})
        return self.write_plan("plan.json", [("dp", 2), ("tp", 4)], {
            "w": ([rows, 1024], [None, "tp"]), "n": ([3], [])})

    def command(self, plan, *args, out="out"):
        return [BIN, "split", "--plan", plan, "--checkpoint",
                self.path("m.safetensors"), "--out", self.path(out), *args]

    def test_killed_at_any_moment(self):
        plan = self.make(24)
        digest = hashlib.sha256(self.contents()["m.safetensors"]).digest()
        start = time.monotonic()
        self.shardc(*self.command(plan, out="want")[1:])
        whole = time.monotonic() - start
        want = self.contents("want")
        rng = random.Random(11)
        killed = kept = 0
        for moment in range(50):
            # Cycles of interruptions of one set, and of the set before it.
            args = ["--reuse"] if moment % 5 == 4 else []
            run = subprocess.Popen(self.command(plan, *args),
                                   stderr=subprocess.DEVNULL, env=clean_env())
            time.sleep(rng.uniform(0, 1.2 * whole))
            run.send_signal(signal.SIGKILL)
            killed += run.wait() != 0
            if os.path.isdir(self.path("out")):
                for name, data in self.contents("out").items():
                    if name.startswith("."):
                        kept += 1
                        continue
                    self.assertTrue(data == want[name], name)
                held = self.contents("out")
                if "shards.json" in held:  # then the whole set is there
                    self.same({name: data for name, data in held.items()
                               if not name.startswith(".")}, want)
            self.assertEqual(hashlib.sha256(
                self.contents()["m.safetensors"]).digest(), digest)
            if moment % 10 == 9:
                self.shardc(*self.command(plan)[1:])
                self.same(self.contents("out"), want)
                if moment % 20 == 9:
                    shutil.rmtree(self.path("out"))
        self.assertGreater(killed, 10)
        self.assertGreater(kept, 0)
        self.shardc(*self.command(plan)[1:])
        self.same(self.contents("out"), want)

    def test_what_is_complete_is_kept_and_what_is_not_is_made_anew(self):
        plan = self.make(64)
        for _ in range(40):
            run = subprocess.Popen(self.command(plan, "--threads", "1"),
                                   stderr=subprocess.DEVNULL, env=clean_env())
            journal = self.path("out", ".shards-00000-of-00001.journal")
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline and run.poll() is None:
                if os.path.exists(journal) and any(
                        name.endswith(".part")
                        for name in os.listdir(self.path("out"))):
                    break
            time.sleep(random.Random().uniform(0, 0.03))
            run.kill()
            run.wait()
            if os.path.isdir(self.path("out")) and "shards.json" not in \
                    os.listdir(self.path("out")):
                break
            shutil.rmtree(self.path("out"), True)
        else:
            self.fail("no run could be interrupted")
        # Damage behind the journal's back is found.
        for name in os.listdir(self.path("out")):
            if name.endswith(".part"):
                with open(self.path("out", name), "r+b") as file:
                    file.seek(100000)
                    file.write(b"damage")
        self.shardc(*self.command(plan)[1:])
        self.shardc(*self.command(plan, out="want")[1:])
        self.same(self.contents("out"), self.contents("want"))

    def check_failed(self, run, *words):
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertEqual(run.stderr.count("error"), 1, run.stderr)
        for word in words:
            self.assertIn(word, run.stderr)

    def test_file_size_limit(self):
        plan = self.make(8)

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

        run = subprocess.run(self.command(plan), capture_output=True,
                             text=True, preexec_fn=limit, env=clean_env())
        self.check_failed(run, "cannot write", "device-0000")
        self.assertEqual(os.listdir(self.path("out")), [])

    def in_namespace(self, script, *args):
        run = subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh",
                              *args], capture_output=True, text=True,
                             env=clean_env())
        if "unshare" in run.stderr or "mount" in run.stderr:
            self.skipTest("no namespaces to mount in: " + run.stderr.strip())
        return run

    def test_full_disk(self):
        plan = self.make(8)
        os.mkdir(self.path("out"))
        run = self.in_namespace(
            'mount -t tmpfs -o size=5m none "$1" || exit 99; shift; "$@"; '
            's=$?; ls -A "${8}" >&2; exit $s',
            self.path("out"), *self.command(plan))
        self.check_failed(run, "No space left", "free some space")
        self.assertNotIn("journal", run.stderr.split("No space")[1])
        self.assertNotIn(".part", run.stderr)

    def test_read_only_directory(self):
        plan = self.make(1)
        os.mkdir(self.path("out"))
        run = self.in_namespace(
            'mount -t tmpfs -o ro none "$1" || exit 99; shift; "$@"',
            self.path("out"), *self.command(plan))
        self.check_failed(run, "Read-only")

    def test_source_cut_during_the_run(self):
        for gigabytes in (2, 8, 32):
            size = gigabytes << 30
            header = {"w": {"dtype": "U8", "shape": [size >> 10, 1024],
                            "data_offsets": [0, size]}}
            text = json.dumps(header).encode()
            with open(self.path("m.safetensors"), "wb") as out:
                out.write(struct.pack("<Q", len(text)) + text)
                out.truncate(8 + len(text) + size)
            plan = self.write_plan("plan.json", [("tp", 4)], {
                "w": ([size >> 10, 1024], ["tp"])})
            run = subprocess.Popen(self.command(plan), text=True,
                                   stderr=subprocess.PIPE, env=clean_env())
            part = self.path("out", ".device-00000.safetensors.part")
            while run.poll() is None and not os.path.exists(part):
                time.sleep(0.001)
            os.truncate(self.path("m.safetensors"), 1 << 20)
            _, said = run.communicate()
            if run.returncode == 0:  # it was quicker: a larger one
                shutil.rmtree(self.path("out"))
                continue
            self.assertEqual(run.returncode, 2)
            self.assertEqual(said.count("error"), 1, said)
            self.assertIn("m.safetensors", said)
            self.assertEqual(os.listdir(self.path("out")), [])
            return
        self.fail("the source could not be cut in time")


class Processes(Base):
    def make(self):
        rng = random.Random(8)
        tensors = {"w.%d" % i: ("U8", [1024, 512],
                                rng.randbytes(1024 * 512)) for i in range(32)}
        write_safetensors(self.path("m.safetensors"), tensors)
        return self.write_plan("plan.json", [("fsdp", 4), ("tp", 4)], {
            name: ([1024, 512], ["fsdp", "tp"]) for name in tensors})

    def command(self, plan, *args, out="out"):
        return [BIN, "split", "--plan", plan, "--checkpoint",
                self.path("m.safetensors"), "--out", self.path(out), *args]

    def start(self, plan, index, **kwargs):
        env = {**clean_env(), "SLURM_PROCID": str(index),
               "SLURM_NTASKS": "4"}
        return subprocess.Popen(self.command(plan), env=env, text=True,
                                stderr=subprocess.PIPE, **kwargs)

    def test_four_processes_one_killed_and_run_again(self):
        plan = self.make()
        self.shardc(*self.command(plan, out="want")[1:])
        runs = [self.start(plan, i) for i in range(4)]
        runs[2].kill()  # before it can be done
        for i, run in enumerate(runs):
            _, said = run.communicate()
            if i != 2:
                self.assertEqual(run.returncode, 0, said)
                self.assertIn("process %d of 4 (SLURM_PROCID)" % i, said)
        self.assertNotIn("shards.json", os.listdir(self.path("out")))
        early = self.shardc(*self.command(plan, "--finalize")[1:], status=2)
        self.assertIn("not complete: 2", early.stderr)
        again = self.start(plan, 2)
        _, said = again.communicate()
        self.assertEqual(again.returncode, 0, said)
        # Any part may be repeated, and finds itself done.
        repeated = self.start(plan, 1)
        _, said = repeated.communicate()
        self.assertEqual(repeated.returncode, 0, said)
        self.assertIn("there already", said)
        self.shardc(*self.command(plan, "--finalize", "--process-count",
                                  "4")[1:])
        self.same(self.contents("out"), self.contents("want"))

    def test_merge_and_reshard_by_processes(self):
        plan = self.make()
        self.shardc(*self.command(plan, out="pieces")[1:])
        merge = ["merge", self.path("pieces"), "--out", self.path("hf"),
                 "--max-shard-size", "1MB"]
        for i in range(3):
            self.shardc(*merge, "--process-index", str(i), "--process-count",
                        "3")
        self.shardc(*merge, "--finalize")
        self.shardc("split", "--plan", plan, "--checkpoint", self.path("hf"),
                    "--out", self.path("again"))
        self.same(self.contents("again"), self.contents("pieces"))

    def test_two_runs_do_not_write_the_same(self):
        import fcntl
        plan = self.make()
        os.mkdir(self.path("out"))
        journal = self.path("out", ".shards-00000-of-00001.journal")
        with open(journal, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            run = self.shardc(*self.command(plan)[1:], status=2)
        self.assertIn("another run", run.stderr)

    def test_flags_that_do_not_fit(self):
        plan = self.make()
        for args in (["--process-index", "1"], ["--process-count", "2"],
                     ["--process-index", "2", "--process-count", "2"],
                     ["--dtype", "int8"], ["--select", "("],
                     ["--per", "host"], ["--mode", "serve"],
                     ["--processes", "3"]):
            run = self.shardc(*self.command(plan, *args)[1:], status=2)
            self.assertIn("error", run.stderr)
            self.assertFalse(os.path.exists(self.path("out")))


if __name__ == "__main__":
    unittest.main()
