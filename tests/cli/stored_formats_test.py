"""merge and reshard with --to orbax and --to dcp, of checkpoints that orbax,
tensorstore and PyTorch wrote (testdata/stored)."""

import fcntl
import json
import math
import os
import pickle
import random
import shutil
import signal
import struct
import subprocess
import time
import unittest

from checkpoint_case import (BIN, SIZES, Base, clean_env, interruptible,
                             read_safetensors, write_safetensors)
from stored_samples import SAMPLES, sample_names, write_zarr


class Record:
    """Stands for every class that a pickle of DCP names."""

    offset = None  # which torch leaves out of an index of a value

    def __init__(self, *args):
        self.args = args

    def __setstate__(self, state):
        self.__dict__.update(state if isinstance(state, dict) else {})


class RecordReader(pickle.Unpickler):
    def find_class(self, module, name):
        return Record


def pickled_values(folder):
    """The archives of a DCP checkpoint that hold no tensor: name -> bytes."""
    with open(os.path.join(folder, ".metadata"), "rb") as file:
        storage = RecordReader(file).load().storage_data
    out = {}
    for index, place in storage.items():
        if index.offset is not None:
            continue
        with open(os.path.join(folder, place.relative_path), "rb") as file:
            file.seek(place.offset)
            out[index.fqn] = file.read(place.length)
    return out


class Listed(Base):
    def listed(self, sample):
        found = json.loads(self.shardc(
            "checkpoint", "list", os.path.join(SAMPLES, sample), "--format",
            "json").stdout)
        return ({one["name"]: one["dtype"] for one in found["tensors"]},
                {one["name"]: one["what"] for one in found["others"]})

    def test_a_list_has_what_no_output_can_store(self):
        """Nothing is copied, so that no value and no data type is refused."""
        for name in sample_names():
            self.listed(name)
        tensors, others = self.listed("dcp_4ranks")
        self.assertEqual(others["step"], "pickled value")
        self.assertIn("model.uneven", tensors)
        self.assertNotIn("step", tensors)
        self.assertEqual(self.listed("orbax_ocdbt")[0]["i4"], "I4")
        text = self.shardc("checkpoint", "list",
                           os.path.join(SAMPLES, "dcp_4ranks")).stdout
        self.assertIn("\n  step  pickled value\n", text)

    def test_a_list_has_the_arrays_that_cannot_be_read(self):
        tensors, others = self.listed("ts_zarr2_codecs")
        self.assertIn("is missing", others["hole"])
        self.assertIn("array [", others["hole"])
        self.assertIn("`bz2`", others["bz"])
        self.assertNotIn("hole", tensors)
        self.assertGreater(len(tensors), 4)
        # The chunks of a shard whose index lacks its end cannot be found.
        folder = self.path("cut")
        shutil.copytree(os.path.join(SAMPLES, "ts_zarr3_codecs"), folder)
        whole = self.listed(folder)[0]
        for at, _, files in os.walk(os.path.join(folder, "s_end", "c")):
            for file in files:
                with open(os.path.join(at, file), "r+b") as opened:
                    opened.truncate(3)
        tensors, others = self.listed(folder)
        self.assertEqual(set(whole) - set(tensors), {"s_end"})
        self.assertIn("not readable", others["s_end"])


class OtherFormats(Base):
    """--as orbax and --to dcp, read back by our own readers; that the libraries
    restore what the same writers write is tested in tests/runtimes."""

    def merged(self, source, *args):
        out = self.path("merged.safetensors")
        self.shardc("checkpoint", "merge", source, "--output", out, *args)
        return read_safetensors(out)[0]

    def test_round_trips_of_samples(self):
        """sample -> orbax -> dcp -> orbax -> safetensors, names and bytes."""
        for sample in ("orbax_two_processes", "dcp_hf_4ranks",
                       "orbax_zarr2_subchunks", "orbax_manager"):
            with self.subTest(sample):
                source = os.path.join(SAMPLES, sample)
                want = self.merged(source)
                for index, to in enumerate(("orbax", "dcp", "orbax")):
                    out = self.path("%s-%d" % (sample, index))
                    run = self.shardc("checkpoint", "merge", source, "--as", to, "--output",
                                      out, "--threads", "2")
                    self.assertIn("wrote %d arrays" % len(want), run.stderr)
                    held = {name.replace(".", "/"): value for name, value
                            in self.merged(out).items()}
                    # Empty arrays, which orbax refuses to save, are kept.
                    self.same(held, {name.replace(".", "/"): value
                                     for name, value in want.items()})
                    source = out

    def test_a_model_on_other_meshes_and_in_other_formats_and_back(self):
        """safetensors -> orbax -> plan -> safetensors -> dcp -> orbax: every
        step on a mesh and in chunks of its own."""
        rng = random.Random(38)
        dtypes = ["F32", "BF16", "F16", "F64", "I8", "U16", "I64", "BOOL",
                  "F8_E4M3", "F8_E5M2", "C64", "U32"]
        shapes = [[], [1], [24], [12, 36], [6, 4, 10], [2, 3, 4, 12], [96, 130],
                  [600, 64], [7, 5]]
        tensors = {}
        for i, dtype in enumerate(dtypes):
            for k in (i, i + 4):
                shape = shapes[k % len(shapes)]
                size = SIZES[dtype] * math.prod(shape)
                tensors["layer.%d.w%d" % (i, k)] = (
                    dtype, shape, bytes(rng.randrange(2) for _ in range(size))
                    if dtype == "BOOL" else rng.randbytes(size))

        def plan(number):
            axes = [[("x", 2), ("y", 3)], [("x", 6)], [("x", 2)],
                    [("x", 3), ("y", 4)]][number]
            params = {}
            for name, (_, shape, _) in tensors.items():
                spec, free = [], rng.sample(axes, len(axes))
                for length in shape:
                    fits = [one for one in free if length % one[1] == 0]
                    spec.append(fits[0][0] if fits and rng.random() < .8
                                else None)
                    free = [one for one in free if one[0] != spec[-1]]
                params[name] = (shape, spec)
            return self.write_plan("plan%d.json" % number, axes, params)

        source = self.path("m.safetensors")
        write_safetensors(source, tensors)
        for number, to in enumerate(("orbax", "safetensors", "dcp", "orbax")):
            out = self.path("%d-%s" % (number, to))
            memory = ["--buffer", "16MB"] if number % 2 else []
            self.shardc("checkpoint", "reshard", source, "--plan", plan(number),
                        "--as", to, "--output", out, "--threads",
                        str(1 + number), *memory)
            self.same(dict(sorted(self.merged(out).items())),
                      dict(sorted(tensors.items())))
            if to == "safetensors":  # the full tensors, for other programs
                whole = self.path("whole.safetensors")
                self.shardc("checkpoint", "merge", out, "--output", whole)
                out = whole
            source = out

    def test_strings_and_packed_types_stay_in_orbax(self):
        out = self.path("out")
        source = os.path.join(SAMPLES, "orbax_ocdbt")
        run = self.shardc("checkpoint", "merge", source, "--as", "orbax", "--output", out)
        self.assertIn("wrote 33 arrays", run.stderr)
        listed = [json.loads(self.shardc(
            "show", "manifest", "--manifest", folder, "--format", "json").stdout)
                  for folder in (source, out)]
        self.assertEqual(*[sorted((one["name"], one["shape"], one["dtype"])
                                  for one in tree["params"])
                           for tree in listed])
        with open(os.path.join(out, "_strings.json")) as file:
            self.assertIn("str", json.load(file))

    def test_an_odd_number_of_packed_elements_stays_in_orbax(self):
        """zarr has a byte for each element, so a shard may have any number of
        them."""
        for name, dtype, data in (("f", "float4_e2m1fn", bytes([1, 0, 7])),
                                  ("w", "int4", bytes([1, 255, 7]))):
            os.makedirs(self.path("tree", name))
            with open(self.path("tree", name, ".zarray"), "w") as file:
                json.dump({"zarr_format": 2, "shape": [3], "chunks": [3],
                           "dtype": dtype, "compressor": None,
                           "fill_value": None, "filters": None,
                           "order": "C"}, file)
            with open(self.path("tree", name, "0"), "wb") as file:
                file.write(data)
        plan = self.write_plan("plan.json", [("x", 3)], {
            "f": ([3], ["x"]), "w": ([3], ["x"])})
        source = self.path("tree")
        for out, command in (
                (self.path("merged"), ["checkpoint", "merge"]),
                (self.path("shards"), ["checkpoint", "reshard", "--plan", plan])):
            self.shardc(*command, source, "--as", "orbax", "--output", out)
            listed = json.loads(self.shardc(
                "show", "manifest", "--manifest", out, "--format", "json").stdout)
            self.assertEqual([(one["name"], one["shape"], one["dtype"])
                              for one in listed["params"]],
                             [("f", [3], "F4"), ("w", [3], "I4")])
            source = out

    def test_scales_of_float8_are_stored_in_orbax(self):
        tensors = {"w": ("F8_E8M0", [4], b"\x7f\x80\0\xff")}
        write_safetensors(self.path("m.safetensors"), tensors)
        self.shardc("checkpoint", "merge", self.path("m.safetensors"), "--as", "orbax",
                    "--output", self.path("out"))
        self.assertEqual(self.merged(self.path("out")), tensors)

    def test_a_list_without_all_elements_is_a_dictionary_of_dcp(self):
        """torch fills the gaps of a list with values that it then cannot
        find."""
        write_safetensors(
            self.path("m.safetensors"),
            {f"l/{i}": ("F32", [1], bytes(4)) for i in range(3)},
            {"shardc.tree": '{"version": 1, "lists": [["l"]]}'})
        for name, select, want in (
                ("all", ".*", [("l", 0), ("l", 1), ("l", 2)]),
                ("some", "[12]", [("l", "1"), ("l", "2")])):
            out = self.path(name)
            self.shardc("checkpoint", "merge", self.path("m.safetensors"), "--as", "dcp",
                        "--params", select, "--output", out)
            with open(os.path.join(out, ".metadata"), "rb") as file:
                paths = RecordReader(file).load().planner_data
            self.assertEqual(list(paths.values()), want)

    def test_pickled_values_are_copied_to_dcp_unread(self):
        source = os.path.join(SAMPLES, "dcp_4ranks")
        want = pickled_values(source)
        self.assertEqual(len(want), 3)
        for args in ([], ["--arrays-only"]):
            out = self.path("out%d" % len(args))
            run = self.shardc("checkpoint", "merge", source, "--as", "dcp", "--output", out,
                              *args)
            self.assertIn("3 pickled values are copied without being read",
                          run.stderr)
            self.assertEqual(pickled_values(out), want)
            self.same(self.merged(out, "--arrays-only"),
                      self.merged(source, "--arrays-only"))
        # Numbers and empty nodes are read; orbax has no pickled tuple.
        run = self.shardc("checkpoint", "merge", source, "--as", "orbax", "--output",
                          self.path("orbax"), status=2)
        self.assertEqual(
            run.stderr.count("is a pickled value, which orbax cannot restore"),
            1)
        self.assertIn("--as dcp copies it", run.stderr)

    def test_a_file_that_ends_before_a_pickled_value_is_refused(self):
        source = self.path("source")
        shutil.copytree(os.path.join(SAMPLES, "dcp_4ranks"), source)
        self.shardc("checkpoint", "merge", source, "--as", "dcp", "--params", "^step$|few",
                    "--output", self.path("copy"))
        shutil.rmtree(source)
        # The copy holds the value before the tensor, in one file.
        os.rename(self.path("copy"), source)
        with open(os.path.join(source, ".metadata"), "rb") as file:
            storage = RecordReader(file).load().storage_data
        end = max(place.offset for index, place in storage.items()
                  if index.offset is None) + 20
        os.truncate(os.path.join(source, "__0_0.distcp"), end)
        run = self.shardc("checkpoint", "merge", source, "--as", "dcp", "--output",
                          self.path("out"), status=2)
        self.assertIn("truncated", run.stderr)
        self.assertEqual(os.listdir(self.dir), ["source"])

    def test_chunks_are_the_plans_shards(self):
        tensors = {"w": ("F32", [64, 48], bytes(range(256)) * 48),
                   "b/c": ("BF16", [6], bytes(12))}
        write_safetensors(self.path("m.safetensors"), tensors)
        axes, params = [("fsdp", 2), ("tp", 4)], {
            "w": ([64, 48], ["fsdp", "tp"]), "b/c": ([6], [])}
        plan = self.write_plan("plan.json", axes, params)
        for to in ("orbax", "dcp"):
            out = self.path(to)
            self.shardc("checkpoint", "reshard", self.path("m.safetensors"), "--plan", plan,
                        "--as", to, "--output", out)
            self.same(self.merged(out), {
                name if to == "orbax" else name.replace("/", "."): value
                for name, value in tensors.items()})
        # What was saved is where the plan is to be restored.
        with open(self.path("orbax", "_sharding")) as file:
            saved = [json.loads(one) for one in json.load(file).values()]
        self.assertIn({"sharding_type": "NamedSharding", "shape": [2, 4],
                       "axis_names": ["fsdp", "tp"],
                       "partition_spec": ["fsdp", "tp"]}, saved)
        # On another mesh, from the tree and from pieces.
        other = self.write_plan("other.json", [("x", 3)], {
            "w": ([64, 48], [None, "x"]), "b/c": ([6], ["x"])})
        self.shardc("checkpoint", "reshard", self.path("orbax"), "--plan", other, "--output",
                    self.path("pieces"))
        for source in ("orbax", "pieces"):
            out = self.path(source + "-again")
            self.shardc("checkpoint", "reshard", self.path(source), "--plan", other, "--as",
                        "orbax", "--output", out, "--buffer", "13MB")
            self.same(self.merged(out), tensors)

    def test_a_placement_that_orbax_does_not_record_is_a_note(self):
        write_safetensors(self.path("m.safetensors"), {
            "w": ("F32", [4], bytes(16)), "b": ("F32", [4], bytes(16))})
        plan = self.write_plan("plan.json", [("ep", 2)], {
            "w": ([4], {"spec": [None], "placement": {
                "axis": "ep", "coordinate": 1}}), "b": ([4], ["ep"])})
        for to, notes in (("orbax", 1), ("dcp", 0)):
            run = self.shardc("checkpoint", "reshard", self.path("m.safetensors"), "--plan",
                              plan, "--as", to, "--output", self.path(to))
            self.assertEqual(run.stderr.count(
                "coordinates of an axis 1 parameter is"), notes, run.stderr)

    def test_small_chunks_are_joined_within_the_shards(self):
        data = write_zarr(self.path("tree"), {"w": ((2048, 16), (1, 16))})
        plan = self.write_plan("plan.json", [("x", 2)], {
            "w": ([2048, 16], [None, "x"])})
        for args in ([], ["--buffer", "13MB"]):
            out = self.path("out%d" % len(args))
            self.shardc("checkpoint", "reshard", self.path("tree"), "--plan", plan, "--as",
                        "dcp", "--output", out, *args)
            with open(os.path.join(out, ".metadata"), "rb") as file:
                pieces = RecordReader(file).load().storage_data
            self.assertEqual(len(pieces), 2)  # not a row each: 4096
            self.assertEqual(self.merged(out)["w"][2], data["w"])
        # Without a plan the chunks are those of the source.
        self.shardc("checkpoint", "merge", self.path("tree"), "--as", "dcp", "--output",
                    self.path("same"))
        with open(self.path("same", ".metadata"), "rb") as file:
            self.assertEqual(len(RecordReader(file).load().storage_data), 2048)

    def test_casts(self):
        write_safetensors(self.path("m.safetensors"), {
            "w": ("F32", [2, 2], struct.pack("<4f", 1, -2, 0.5, 3))})
        self.shardc("checkpoint", "merge", self.path("m.safetensors"), "--as", "dcp",
                    "--cast", "bf16", "--output", self.path("out"))
        self.assertEqual(self.merged(self.path("out"))["w"], (
            "BF16", [2, 2], b"\x80\x3f\x00\xc0\x00\x3f\x40\x40"))

    def test_refusals_leave_nothing(self):
        sample = os.path.join(SAMPLES, "orbax_two_processes")
        for args, words in (
                ([sample, "--max-shard-size", "1GB"], "--max-shard-size is"),
                ([sample, "--reuse"], "--reuse is for safetensors files"),
                ([sample, "--finalize"], "are not complete: 0"),
                ([sample, "--finalize", "--process-count", "3"],
                 "3 processes of 3 are not complete: 0, 1, 2"),
                ([os.path.join(SAMPLES, "ts_zarr2_codecs")], "`bz2`"),
                ([os.path.join(SAMPLES, "dcp_4ranks")], "is a pickled value"),
                ([os.path.join(SAMPLES, "none")], "none")):
            run = self.shardc("checkpoint", "merge", *args, "--as", "orbax", "--output",
                              self.path("out"), status=2)
            self.assertIn(words, run.stderr)
            self.assertEqual(os.listdir(self.dir), [])
        self.shardc("checkpoint", "merge", sample, "--as", "orbax", "--output",
                    self.path("out"), "--dry-run")
        self.assertEqual(os.listdir(self.dir), [])
        self.shardc("checkpoint", "merge", sample, "--as", "orbax", "--output",
                    self.path("out"))
        before = sorted(os.listdir(self.path("out")))
        self.shardc("checkpoint", "merge", sample, "--as", "orbax", "--output",
                    self.path("out"), status=2)
        self.assertEqual(sorted(os.listdir(self.path("out"))), before)

    def test_an_interruption_prints_how_to_continue(self):
        size = 1 << 28
        header = json.dumps({"w": {"dtype": "U8", "shape": [1024, size >> 10],
                                   "data_offsets": [0, size]}}).encode()
        with open(self.path("m.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            file.truncate(8 + len(header) + size)
        for to, ending in (("orbax", ".orbax-checkpoint-tmp-shardc"),
                           ("dcp", ".dcp-tmp-shardc")):
            out = self.path(to)
            command = ["checkpoint", "merge", self.path("m.safetensors"), "--as", to,
                       "--output", out + "/", "--threads", "1"]
            for _ in range(50):
                run = subprocess.Popen([BIN, *command], text=True,
                                       stderr=subprocess.PIPE, env=clean_env(),
                                       preexec_fn=interruptible)
                deadline = time.monotonic() + 10
                while (time.monotonic() < deadline and run.poll() is None
                       and not os.path.isdir(out + ending)):
                    pass
                run.send_signal(signal.SIGINT)
                said = run.communicate()[1]
                if run.returncode == -signal.SIGINT:
                    break
                shutil.rmtree(out)
            self.assertEqual(run.returncode, -signal.SIGINT)
            self.assertIn("is not complete, and the same command continues "
                          "from what is in " + out + ending, said)
            self.assertFalse(os.path.exists(out))
            # Readers refuse what is left, and the next run completes it.
            self.shardc("show", "manifest", "--manifest", out + ending, status=2)
            self.shardc(*command)
            self.assertFalse(os.path.exists(out + ending))
            shutil.rmtree(out)

    # The ending of an unfinished folder, and the file of process 0 of several.
    FORMS = (("orbax", ".orbax-checkpoint-tmp-shardc", "d/values0"),
             ("dcp", ".dcp-tmp-shardc", "__0_0.distcp"))

    def as_process(self, index, count, *args, status=0):
        run = subprocess.run(
            [BIN, *args], capture_output=True, text=True,
            env={**clean_env(), "RANK": str(index), "WORLD_SIZE": str(count)})
        self.assertEqual(run.returncode, status, run.stderr)
        return run.stderr

    def test_several_processes_write_one_checkpoint(self):
        write_zarr(self.path("tree"), {"w": ((96, 130), (40, 33)),
                                       "empty": ((0, 4), (1, 4)),
                                       "b/c": ((3000, 1), (7, 1))})
        want = None
        for to, ending, _ in self.FORMS:
            for count in (2, 5):
                out = self.path(f"{to}{count}")
                command = ["checkpoint", "merge", self.path("tree"), "--as", to, "--output",
                           out]
                # In any order; until all have ended nothing is there.
                for index in reversed(range(count)):
                    run = self.shardc(*command, "--finalize", status=2)
                    self.assertIn("not complete", run.stderr)
                    said = self.as_process(index, count, *command)
                    self.assertIn(f"process {index} of {count} (RANK): wrote ",
                                  said)
                    self.assertIn("--finalize", said)
                    self.assertFalse(os.path.exists(out))
                run = self.shardc(*command, "--finalize", "--verify")
                self.assertIn("all parts are present", run.stderr)
                self.assertFalse(os.path.exists(out + ending))
                names = [name for _, _, files in os.walk(out)
                         for name in files]
                self.assertFalse([n for n in names if "journal" in n])
                # An array without elements has chunks in no process.
                self.assertEqual(len([n for n in names if "values" in n or
                                      n.endswith(".distcp")]), count)
                merged = self.merged(out)
                want = want or merged
                self.assertEqual(merged, want)
        self.assertEqual(set(want), {"w", "empty", "b/c"})

    def test_a_process_that_has_just_started_is_no_other_run(self):
        """Its journal is locked before its first line is written."""
        write_zarr(self.path("tree"), {"w": ((96, 130), (40, 33))})
        for to, ending, _ in self.FORMS:
            out = self.path(to)
            command = ["checkpoint", "merge", self.path("tree"), "--as", to, "--output", out]
            self.as_process(1, 2, *command)
            path = os.path.join(out + ending,
                                ".shardc-00001-of-00002.journal")
            with open(path, "r+b") as journal:
                lines = journal.read()
                journal.truncate(0)
                fcntl.flock(journal, fcntl.LOCK_EX)
                other = subprocess.Popen(
                    [BIN, *command, "--process-index", "0",
                     "--process-count", "2"], stderr=subprocess.PIPE,
                    stdout=subprocess.DEVNULL, env=clean_env())
                time.sleep(.3)
                journal.seek(0)
                journal.write(lines)
                journal.flush()
                message = other.communicate()[1].decode()
                self.assertEqual(other.returncode, 0, message)
            self.shardc(*command, "--finalize")
            self.assertEqual(set(self.merged(out)), {"w"})

    def test_a_killed_run_is_continued(self):
        data = write_zarr(self.path("tree"), {"w": ((96, 130), (40, 33)),
                                              "v": ((3000, 1), (70, 1))})
        self.assertTrue(data)
        for to, ending, name in self.FORMS:
            command = ["checkpoint", "merge", self.path("tree"), "--as", to, "--output"]
            self.shardc(*command, self.path("want" + to))
            out = self.path(to)
            # A process of several leaves what a killed run leaves.
            self.as_process(1, 2, *command, out)
            journal = os.path.join(out + ending,
                                   ".shardc-00001-of-00002.journal")
            with open(journal, encoding="utf-8") as file:
                lines = file.read().splitlines(keepends=True)
            self.assertEqual(lines[-1], "done\n")
            kept = len(lines) // 2
            with open(journal, "w", encoding="utf-8") as file:
                file.write("".join(lines[:1 + kept]) + lines[1 + kept][:-2])
            said = self.as_process(1, 2, *command, out)
            self.assertIn(f"{kept} chunks were already written", said)
            # A changed byte of a kept chunk, and all after it, are replaced.
            self.as_process(0, 2, *command, out)
            damaged = os.path.join(out + ending, name)
            with open(damaged, "r+b") as file:
                file.write(b"\xff" * 8)
            said = self.shardc(*command, out, "--finalize", "--verify",
                               status=2).stderr
            self.assertIn("differs from what was written", said)
            self.as_process(0, 2, *command, out)
            # Other options start over.
            said = self.as_process(0, 2, *command, out, "--params", "w")
            self.assertNotIn("already written", said)
            said = self.shardc(*command, out, "--finalize", status=2).stderr
            self.assertIn("1 process of 2 are not complete: 0", said)
            self.as_process(0, 2, *command, out)
            self.shardc(*command, out, "--finalize")
            self.assertEqual(self.merged(out), self.merged(self.path("want" + to)))
            # One process replaces what several have left.
            shutil.rmtree(out)
            self.as_process(0, 2, *command, out)
            self.shardc(*command, out)
            self.assertEqual(sorted(os.listdir(out)),
                             sorted(os.listdir(self.path("want" + to))))

    def test_a_damaged_chunk_leaves_nothing(self):
        write_zarr(self.path("tree"), {"w": ((96, 130), (40, 33))})
        chunk = self.path("tree", "w", "2.3")
        with open(chunk, "wb") as file:
            file.write(bytes(7))
        for to in ("orbax", "dcp"):
            run = self.shardc("checkpoint", "merge", self.path("tree"), "--as", to, "--output",
                              self.path("out"), status=2)
            self.assertIn("has 7 bytes", run.stderr)
            self.assertEqual(os.listdir(self.dir), ["tree"])


if __name__ == "__main__":
    unittest.main()
