"""merge, split and reshard of checkpoints that orbax, tensorstore and PyTorch
wrote (testdata/stored), against the digests that are recorded there; and of a
tree of zarr folders that this test writes by the definition of the format."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import time
import unittest

from checkpoint_case import BIN, Base, clean_env, make_plan, read_safetensors
from stored_samples import SAMPLES, key_of, sample_names, wanted, write_zarr


class Samples(Base):
    def copyable(self, sample):
        """The names of arrays that a safetensors file can hold."""
        listed = json.loads(self.shardc(
            "show", "manifest", "--manifest", os.path.join(SAMPLES, sample),
            "--format", "json").stdout)
        want = wanted(sample)
        return [one["name"] for one in listed["params"]
                if not {"refused", "needs"} & set(
                    want[key_of(one["name"], want)])
                and one["dtype"] not in (None, "I4")]

    def select(self, names):
        return "^(%s)$" % "|".join(re.escape(name).replace("\\ ", " ")
                                   for name in names)

    def test_every_array_of_every_sample_is_merged_bit_for_bit(self):
        seen = 0
        for sample in sample_names():
            with self.subTest(sample):
                names = self.copyable(sample)
                if not names:
                    continue
                out = self.path(sample + ".safetensors")
                self.shardc("checkpoint", "merge", os.path.join(SAMPLES, sample), "--output",
                            out, "--params", self.select(names),
                            "--arrays-only", "--verify")
                held, metadata = read_safetensors(out)
                # What names do not show is recorded; strings are left out.
                record = json.loads(metadata.pop("shardc.tree", "{}"))
                self.assertEqual(metadata, {"format": "pt"})
                self.assertNotIn("strings", record)
                self.assertEqual(sorted(held), sorted(names))
                want = wanted(sample)
                for name, (_, shape, data) in held.items():
                    one = want[key_of(name, want)]
                    self.assertEqual(shape, one["shape"])
                    self.assertEqual(hashlib.sha256(data).hexdigest(),
                                     one["sha256"], name)
                    seen += 1
        self.assertGreater(seen, 80)

    def test_what_a_file_cannot_hold_is_refused_by_name(self):
        for sample, words in (
                ("orbax_ocdbt", ["`i4` has the data type I4", "--params"]),
                ("dcp_4ranks", ["`step` is a pickled value",
                                "--arrays-only"]),
                ("ts_zarr2_codecs", ["`bz` is stored by the codec `bz2`",
                                     "`be` is stored big-endian"]),
                ("dcp_hf_with_bytes", ["begins with a pickled value"])):
            with self.subTest(sample):
                run = self.shardc("checkpoint", "merge", os.path.join(SAMPLES, sample),
                                  "--output", self.path("o", "m.safetensors"),
                                  status=2)
                for word in words:
                    self.assertIn(word, run.stderr)
                self.assertEqual(os.listdir(self.dir), [])

    def test_values_that_are_not_arrays_are_counted(self):
        run = self.shardc("checkpoint", "merge", os.path.join(SAMPLES, "dcp_4ranks"),
                          "--output", self.path("m.safetensors"), "--arrays-only")
        self.assertIn("3 values that are not arrays are left out", run.stderr)

    def test_reshard_and_split_write_the_same_shards(self):
        sample = os.path.join(SAMPLES, "orbax_two_processes")
        listed = json.loads(self.shardc("show", "manifest", "--manifest", sample,
                                        "--format", "json").stdout)
        plan = self.write_plan("plan.json", [("tp", 2)], {
            one["name"]: (one["shape"], []) for one in listed["params"]})
        whole = self.path("whole.safetensors")
        self.shardc("checkpoint", "reshard", sample, "--plan", plan, "--output",
                    self.path("pieces1"))
        self.shardc("checkpoint", "split", "--checkpoint", sample, "--plan", plan, "--output",
                    self.path("split"))
        self.same(self.contents("pieces1"), self.contents("split"))
        self.shardc("checkpoint", "merge", sample, sample, "--output", whole,
                    status=2)

    def test_the_latest_step_is_named(self):
        run = self.shardc("checkpoint", "merge", os.path.join(SAMPLES, "orbax_manager"),
                          "--output", self.path("m.safetensors"))
        self.assertIn("step 10, the latest of 2 steps", run.stderr)

    def test_samples_split_and_merged_again(self):
        """By another mesh than the one they were saved on."""
        for sample in ("orbax_two_processes", "dcp_torch26", "dcp_hf_4ranks",
                       "orbax_zarr3_ocdbt_subchunks", "orbax_zarr2_subchunks"):
            with self.subTest(sample):
                source = os.path.join(SAMPLES, sample)
                whole = self.path(sample + ".safetensors")
                self.shardc("checkpoint", "merge", source, "--output", whole, "--arrays-only")
                tensors, _ = read_safetensors(whole)
                params = {}
                for name, (_, shape, _) in tensors.items():
                    spec, free = [], ["b", "a"]
                    for size in shape:
                        fits = [axis for axis in free if size and size %
                                {"a": 2, "b": 3}[axis] == 0]
                        spec.append(fits[0] if fits else None)
                        free = [axis for axis in free if axis not in fits[:1]]
                    params[name] = (shape, spec)
                plan = self.path("plan.json")
                with open(plan, "w") as file:
                    json.dump(make_plan([("a", 2), ("b", 3)], params), file)
                for command in (["checkpoint", "split", "--checkpoint", source],
                                ["checkpoint", "reshard", source]):
                    out = self.path(sample + command[0])
                    self.shardc(*command, "--plan", plan, "--output", out,
                                "--per", "shard", "--arrays-only",
                                "--threads", "2")
                    back = self.path("back.safetensors")
                    self.shardc("checkpoint", "merge", out, "--output", back)
                    with open(back, "rb") as one, open(whole, "rb") as two:
                        self.assertEqual(one.read(), two.read())


class SavedSharding(Base):
    """diff of a checkpoint and a plan."""

    SAMPLE = os.path.join(SAMPLES, "orbax_two_processes")
    PARAMS = {"b": ([8], ["fsdp"]), "r": ([6], []), "step": ([], []),
              "w": ([16, 32], ["fsdp", "tp"])}

    def plan(self, axes, **changed):
        params = {**self.PARAMS, **changed}
        kinds = {"step": "I64"}
        return self.write_plan("plan.json", axes, {
            name: (shape, {"spec": spec, "dtype": kinds.get(name, "F32")})
            for name, (shape, spec) in sorted(params.items()) if shape is not
            None})

    def test_the_plan_it_was_saved_by_moves_nothing(self):
        run = self.shardc("diff", self.SAMPLE,
                          self.plan([("fsdp", 2), ("tp", 4)]))
        self.assertEqual(run.stdout, "no difference\n")

    def test_what_restoring_moves(self):
        plan = self.plan([("fsdp", 2), ("tp", 4)], w=([16, 32],
                                                      ["tp", "fsdp"]))
        out = json.loads(self.shardc("diff", self.SAMPLE, plan, "--format",
                                     "json", status=1).stdout)
        text = self.shardc("diff", self.SAMPLE, plan, status=1).stdout
        self.assertEqual(len(out["params"]), 1)
        self.assertIn("w", text)
        self.assertNotIn("rule", text)
        self.assertNotIn("attention", text)

    def test_another_mesh_and_what_does_not_fit(self):
        plan = self.plan([("fsdp", 4)], w=([16, 64], ["fsdp"]),
                         r=(None, None), more=([4], ["fsdp"]))
        text = self.shardc("diff", self.SAMPLE, plan, status=1).stdout
        for word in ("more", "r", "[16, 32]", "[16, 64]", "fsdp=4"):
            self.assertIn(word, text)

    def test_a_checkpoint_without_shardings_is_refused(self):
        for sample in ("dcp_torch26", "ts_interior"):
            run = self.shardc("diff", os.path.join(SAMPLES, sample),
                              self.plan([("fsdp", 2), ("tp", 4)]), status=2)
            self.assertIn("records no sharding", run.stderr)


class Folders(Base):
    ARRAYS = {"blocks/0/w": ((96, 130), (40, 33)), "norm": ((7, 5), (2, 5)),
              "embed": ((64, 64), (64, 64))}

    def check(self, path, data):
        held, _ = read_safetensors(path)
        self.assertEqual(sorted(held), sorted(data))
        for name, want in data.items():
            self.assertTrue(held[name][2] == want, name + " differs")

    def test_padded_chunks_by_any_memory_and_threads(self):
        data = write_zarr(self.path("tree"), self.ARRAYS)
        for args in ([], ["--threads", "1"], ["--buffer", "13MB"],
                     ["--max-shard-size", "20KB"]):
            out = self.path("out.safetensors")
            if "--max-shard-size" in args:
                out = self.path("parts")
            self.shardc("checkpoint", "merge", self.path("tree"), "--output", out, *args)
            if "--max-shard-size" not in args:
                self.check(out, data)
                continue
            self.assertIn("model.safetensors.index.json", os.listdir(out))
            whole = self.path("whole.safetensors")
            self.shardc("checkpoint", "merge", out, "--output", whole)
            self.check(whole, data)

    def test_two_processes_share_the_work(self):
        write_zarr(self.path("tree"), self.ARRAYS)
        plan = self.write_plan("plan.json", [("tp", 2)], {
            name: (list(shape), [None, "tp"] if shape[1] % 2 == 0 else [])
            for name, (shape, _) in self.ARRAYS.items()})
        command = ["checkpoint", "split", "--checkpoint", self.path("tree"), "--plan", plan]
        self.shardc(*command, "--output", self.path("want"))
        for index in ("0", "1"):
            self.shardc(*command, "--output", self.path("out"), "--process-index",
                        index, "--process-count", "2")
        self.shardc(*command, "--output", self.path("out"), "--process-count",
                    "2", "--finalize")
        self.same(self.contents("out"), self.contents("want"))

    def refused(self, *args, words):
        run = self.shardc(*args, status=2)
        for word in words:
            self.assertIn(word, run.stderr)
        self.assertNotIn("out", os.listdir(self.dir))

    def test_damaged_trees_leave_nothing(self):
        out = self.path("out", "m.safetensors")
        write_zarr(self.path("tree"), self.ARRAYS)
        chunk = self.path("tree", "blocks", "0", "w", "1.2")
        os.rename(chunk, self.path("kept"))
        merge = ["checkpoint", "merge", self.path("tree"), "--output", out]
        self.refused(*merge, words=["`blocks/0/w/1.2`", "is missing"])
        with open(chunk, "wb") as file:
            file.write(bytes(100))
        self.refused(*merge, words=["has 100 bytes", "5,280 are expected"])
        os.remove(chunk)
        os.symlink(self.path("kept"), chunk)
        self.refused(*merge, words=["leads out of"])
        os.remove(chunk)
        os.rename(self.path("kept"), chunk)
        self.refused(*merge, "--buffer", "1MB", words=[
            "a chunk of the array", "more than --buffer 976.6 KiB"])
        self.refused("checkpoint", "split", "--checkpoint", self.path("tree"), "--plan",
                     self.write_plan("p.json", [("tp", 2)],
                                     {"embed": ([64, 32], [])}),
                     "--output", self.path("out"), words=[
                         "`embed` is [64, 32] in the plan and [64, 64]",
                         "the checkpoint has `norm`, and the plan does not"])
        os.makedirs(self.path("tree", "__metadata__"))
        shutil.copy(self.path("tree", "norm", ".zarray"),
                    self.path("tree", "__metadata__"))
        self.refused(*merge, words=["`__metadata__` is reserved"])

    def test_damaged_samples_leave_nothing(self):
        """A changed byte in a compressed chunk or under a checksum."""
        for sample, name in (("dcp_torch26", "__0_0.distcp"),
                             ("orbax_two_processes", None)):
            folder = self.path(sample)
            shutil.copytree(os.path.join(SAMPLES, sample), folder)
            files = [os.path.join(base, file)
                     for base, _, files in os.walk(folder) for file in files
                     if (file == name if name else base.endswith("/d"))]
            for path in files:
                with open(path, "r+b") as file:
                    raw = bytearray(file.read())
                    for at in range(len(raw) // 3, len(raw), 40):
                        raw[at] ^= 0x55
                    file.seek(0)
                    file.write(raw)
            self.refused("checkpoint", "merge", folder, "--arrays-only", "--output",
                         self.path("out", "m.safetensors"), words=["error"])

    def test_output_inside_the_tree_is_refused(self):
        write_zarr(self.path("tree"), self.ARRAYS)
        before = sorted(os.listdir(self.path("tree")))
        for out in ("new/m.safetensors", "m.safetensors"):
            run = self.shardc("checkpoint", "merge", self.path("tree"), "--output",
                              self.path("tree", out), status=2)
            self.assertIn("inside the checkpoint that is read", run.stderr)
        self.assertEqual(sorted(os.listdir(self.path("tree"))), before)

    def test_killed_and_run_again(self):
        # The journal is written in groups of about 200 lines.
        big = {"w%03d" % i: ((128, 512), (32, 256)) for i in range(150)}
        data = write_zarr(self.path("tree"), big)
        plan = self.write_plan("plan.json", [("tp", 4)], {
            name: ([128, 512], [None, "tp"]) for name in big})
        command = ["checkpoint", "split", "--checkpoint", self.path("tree"), "--plan", plan,
                   "--output", self.path("out")]
        journal = self.path("out", ".shards-00000-of-00001.journal")
        killed = 0
        for _ in range(40):
            run = subprocess.Popen([BIN, *command, "--threads", "1"],
                                   stderr=subprocess.DEVNULL, env=clean_env())
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline and run.poll() is None:
                try:
                    if os.path.getsize(journal) > 1000:
                        break
                except FileNotFoundError:
                    continue
            run.kill()
            if run.wait() == 0:
                shutil.rmtree(self.path("out"))
                continue
            self.assertNotIn("shards.json", os.listdir(self.path("out")))
            killed += 1
            again = self.shardc(*command)
            if "already written" in again.stderr:
                break
            shutil.rmtree(self.path("out"))
        else:
            self.fail("no run was killed after a complete piece")
        self.assertGreater(killed, 0)
        whole = self.path("whole.safetensors")
        self.shardc("checkpoint", "merge", self.path("out"), "--output", whole)
        self.check(whole, data)


if __name__ == "__main__":
    unittest.main()
