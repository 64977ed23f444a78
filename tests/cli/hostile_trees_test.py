"""Damaged and hostile checkpoint folders, given to every command that copies
or compares checkpoints.

A refusal ends with exit status 2, an error with a place, and no output; every
run stays within a gibibyte of address space and ten seconds of processor time.
The damage is done to small checkpoints that this test writes by the
definitions of the formats, and to those that orbax and PyTorch wrote
(testdata/stored). That undamaged samples are read is tested in
stored_trees_test.py.
"""

import os
import re
import resource
import shutil
import subprocess
import unittest

from checkpoint_case import BIN, Base, clean_env, read_safetensors
from driver import INTERNAL, is_sanitized
from stored_samples import SAMPLES
from tree_writer import (BLOSC_CODECS, CHUNK, CLASS, NOTHING, PLACE, VALUES,
                         block, blosc, but_the_second, chained, database, edit,
                         flipped, gone, inner, leaf, leaf_elsewhere, manifest,
                         many_arrays, metadata, of_two, others_but_one, pairs,
                         plain, put, sample, shard, truncated, two_paths, v3,
                         varint, with_manifest, with_node, zstd_bomb)

MEMORY = 1 << 30  # bytes of address space
SECONDS = 10      # of processor time
# {T} is the checkpoint, {P} a plan for `x`, {O} where results go.
COPIES = ["checkpoint merge {T} --output {O}/m.safetensors",
          "checkpoint merge {T} --as orbax --output {O}/tree",
          "checkpoint merge {T} --as dcp --output {O}/tree --threads 1",
          "checkpoint merge {T} --output {O}/m.safetensors --buffer 64MB",
          "checkpoint split --checkpoint {T} --plan {P} --output {O}/pieces",
          "checkpoint reshard {T} --plan {P} --output {O}/pieces",
          "checkpoint reshard {T} --plan {P} --as orbax --output {O}/tree",
          "checkpoint reshard {T} --plan {P} --as dcp --output {O}/tree"]
LISTS = ["show manifest --manifest {T}", "diff {T} {P}"]
# What a folder is, how it is made, and a part of the message; `None`: it is
# copied. Those made from "dcp" begin as a checkpoint that shardc wrote.
CASES = [
    ("a database", database, None),
    ("an uncompressed array", plain, None),
    ("a shard", lambda f: v3(f, stored=shard(0, 16, 16, 16)), None),
    ("an inner chunk that is absent holds the fill value",
     lambda f: v3(f, stored=shard(0, 16, NOTHING, NOTHING)), None),
    ("a file truncated inside a node", with_node(lambda d: d[:-3]),
     "ends after the file, which has"),
    ("a node's checksum", with_node(flipped(30)), "checksum"),
    ("a manifest's checksum", with_manifest(flipped(-1)), "checksum"),
    ("a manifest's magic", with_manifest(flipped(0)), "manifest.ocdbt"),
    ("a manifest's length", with_manifest(flipped(4)), "manifest.ocdbt"),
    ("a node that is its own child", lambda f: database(
        f, inner(1, "d/n", 0, 40), keys=1, height=1), "d/n"),
    ("a child past the end", lambda f: database(
        f, inner(1, "d/n", 1 << 20, 40), keys=1, height=1),
     "a B-tree node of 40 bytes at byte 1048576 ends after the file"),
    ("a root past the end", lambda f: database(f, root=(1 << 40, 9)), "d/n"),
    ("a value at 2^40", lambda f: database(
        f, leaf_elsewhere("d/n", 1 << 40, 8), keys=1),
     "values of the checkpoint extend to byte 1,099,511,627,784"),
    ("a value of 2^63 bytes", lambda f: database(
        f, leaf_elsewhere("d/n", 0, 1 << 63), keys=1),
     "has 9223372036854775808 bytes at byte 0"),
    ("a path out of the folder", lambda f: database(
        f, leaf_elsewhere("../../etc/passwd", 0, 8), keys=1), "passwd"),
    ("an absolute path", lambda f: database(
        f, leaf_elsewhere("/etc/passwd", 0, 8), keys=1), "passwd"),
    ("keys that do not increase", lambda f: database(
        f, leaf(pairs()[::-1])),
     "the keys of the B-tree node at byte 0 do not ascend at"),
    ("keys that share a prefix and have 450 MB together", lambda f: database(
        f, chained(30_000), keys=30_000), "or longer keys than shardc reads"),
    ("an honest chunk of a gibibyte in half of that memory", lambda f: database(
        f, leaf(pairs(zarray={**CHUNK, "shape": [1 << 28], "chunks": [1 << 28]},
                      value=None) + [("x/0", zstd_bomb(1 << 30))])),
     "copying a chunk of the array `x` takes "),
    ("a count of 2^40 entries", lambda f: database(
        f, b"\0" + varint(0) + varint(1 << 40)),
     "is malformed at byte 8 of its decoded body"),
    ("an integer of 11 bytes", lambda f: database(
        f, b"\0" + varint(0) + b"\xff" * 10 + b"\1"), "d/n"),
    ("a chunk that decodes to a gibibyte", lambda f: database(
        f, leaf(pairs(zarray=CHUNK, value=zstd_bomb(1 << 30)))), "x/0.0"),
    ("a node that decodes to a gibibyte", lambda f: database(
        f, node=block(0x0CDB20DE, zstd_bomb(1 << 30), 1)), "d/n"),
    ("a chunk that is too short", lambda f: database(
        f, leaf(pairs(value=VALUES[:-1]))), "31 bytes"),
    ("a chunk that is missing", lambda f: database(
        f, leaf(pairs(value=None)), keys=1), "x/0.0"),
    ("another number of keys", lambda f: database(f, keys=3),
     "keys, and the manifest states another number"),
    ("a node of another level than its parent states", lambda f: database(
        f, b"\1" + leaf(pairs())[1:]), ", which its parent states"),
    ("a value in a file that the node does not list", lambda f: database(
        f, leaf_elsewhere("d/n", 0, 8).replace(
            b"\1\0\0", b"\1\5\0"), keys=1),
     "a value's file number is not in the table of the B-tree node at byte"),
    ("a manifest without a body", lambda f: put(
        f, "manifest.ocdbt", block(0x0CDB3A2A, b"u")),
     "the manifest's body is malformed"),
    ("a shape of 2^65 elements", lambda f: plain(
        f, shape=[1 << 62, 8], chunks=[1, 8]), "64 bits"),
    ("a chunk of 2^50 elements", lambda f: plain(
        f, shape=[1 << 40, 1 << 10], chunks=[1 << 40, 1 << 10]), ""),
    ("more chunks than can be found", lambda f: plain(
        f, shape=[1 << 40, 2], chunks=[1, 2]), ""),
    ("a process's folder that is missing", lambda f: database(
        f, leaf_elsewhere("ocdbt.process_0/d/v", 0, 8), keys=1),
     "ocdbt.process_0"),
    ("unmerged parts of which one is missing",
     sample("orbax_two_processes_unmerged", gone("ocdbt.process_1")),
     "the checkpoint has parts of several processes, and "),
    ("two paths with one name", two_paths,
     "have the same name in the checkpoint, "),
    ("a chunk's file that is missing", lambda f: plain(f, None), "0.0"),
    ("a chunk's file that is truncated", lambda f: plain(f, VALUES[:5]), "5 bytes"),
    ("a shard's index", lambda f: v3(
        f, stored=shard(0, 16, 16, 16, damage=1)), "checksum"),
    ("an inner chunk past the end", lambda f: v3(
        f, stored=shard(0, 16, 1 << 40, 16)), "x/c/0/0"),
    ("bz2", lambda f: plain(f, compressor={"id": "bz2", "level": 1}), "bz2"),
    ("column-major order", lambda f: plain(f, order="F"), "column-major"),
    ("big-endian elements", lambda f: plain(f, dtype=">f4"), "big-endian"),
    ("a transposed array", lambda f: v3(f, [
        {"name": "transpose", "configuration": {"order": [1, 0]}},
        {"name": "bytes", "configuration": {"endian": "little"}}]),
     "transpose"),
    ("blosc in version 3", lambda f: v3(f, BLOSC_CODECS, blosc()), None),
    ("blosc, a header of another chunk's size", lambda f: plain(
        f, blosc(size=1 << 31), compressor={"id": "blosc"}), "more than 32 B"),
    ("blosc, a block of another size", lambda f: plain(
        f, blosc(stored=False), compressor={"id": "blosc"}), "is damaged"),
    ("blosc, truncated", lambda f: v3(f, BLOSC_CODECS, blosc()[:-1]),
     "it has 47"),
    ("a codec of version 3 that is not read", lambda f: v3(f, [
        *BLOSC_CODECS[:1], {"name": "pcodec"}]), "pcodec"),
    ("a checkpoint of DCP", "dcp", None),
    ("a pickle that runs a program", ("dcp", metadata(
        lambda d: d.replace(CLASS, b"cos\nsystem\n"))), "os.system"),
    ("a pickle that evaluates", ("dcp", metadata(
        lambda d: d[:2] + b"cbuiltins\neval\n(K\1tR0" + d[2:])),
     "builtins.eval"),
    ("a pickle that makes an instance", ("dcp", metadata(
        lambda d: d[:2] + b"(ios\nsystem\n0" + d[2:])), ".metadata"),
    ("a pickle of an extension", ("dcp", metadata(
        lambda d: d[:2] + b"\x82\x010" + d[2:])), ".metadata"),
    ("a pickle that reads an empty place", ("dcp", metadata(
        lambda d: d[:2] + b"h\x090" + d[2:])), ".metadata"),
    ("a pickle that is truncated", ("dcp", metadata(lambda d: d[:-9])),
     ".metadata"),
    ("bytes after a pickle", ("dcp", metadata(lambda d: d + b"N.")),
     ".metadata"),
    ("a file of DCP that is truncated", ("dcp", truncated("__0_0.distcp", 100)),
     "bytes, and its shards end at byte 782"),
    ("a changed byte of a tensor", ("dcp", lambda f: edit(
        f, "__0_0.distcp", lambda d: d.replace(VALUES, VALUES[::-1]))),
     "CRC-32"),
    ("a file of DCP that is missing", ("dcp", gone("__0_0.distcp")),
     "__0_0.distcp"),
    ("a file out of the folder", ("dcp", metadata(
        lambda d: d.replace(PLACE, b"../0_0.distc"))),
     "points outside the folder"),
    ("no `.metadata`", ("dcp", gone(".metadata")), "not finished"),
    ("a shard that begins elsewhere", ("dcp", metadata(
        lambda d: d.replace(b"K\0K\0", b"K\1K\0"))), "x"),
    ("shards that begin with a pickled value", sample("dcp_hf_with_bytes"),
     "the file begins with a pickled value, so it is no "
     "safetensors file"),
    ("shards of the second rank alone", sample("dcp_hf_4ranks", others_but_one),
     "not complete"),
    ("shards without the second of four ranks", sample(
        "dcp_hf_4ranks", but_the_second), "`shard-00002-model-*`"),
    ("shards without the second of two files", sample(
        "dcp_hf_4ranks", of_two), "`model-00002-of-00002.safetensors`"),
]


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


@unittest.skipIf(is_sanitized(), "a sanitizer has its own memory")
class HostileTrees(Base):
    def setUp(self):
        super().setUp()
        self.plan = self.write_plan("plan.json", [("tp", 2)], {
            "x": ([4, 2], {"spec": ["tp"], "dtype": "F32"})})
        plain(self.path("base"))
        self.shardc("checkpoint", "merge", self.path("base"), "--as", "dcp", "--output",
                    self.path("dcp"))

    def build(self, how, name="tree"):
        place = self.path(name)
        shutil.rmtree(place, True)
        change = None
        if isinstance(how, tuple):
            how, change = how
        if how == "dcp":
            shutil.copytree(self.path("dcp"), place)
        else:
            how(place)
        if change:
            change(place)
        return place

    def run_line(self, line, tree):
        """The exit status and the messages of a run, and what it wrote."""
        out = self.path("out")
        shutil.rmtree(out, True)
        os.makedirs(out)
        words = [word.format(T=tree, P=self.plan, O=out)
                 for word in line.split()]
        run = subprocess.run([BIN, *words], stdin=subprocess.DEVNULL,
                             capture_output=True, env=clean_env(),
                             timeout=120, preexec_fn=limit)
        text = (run.stdout + run.stderr).decode("utf-8", "replace")
        self.assertIn(run.returncode, (0, 1, 2), line + ": " + text)
        self.assertNotIn("not enough memory", text)
        self.assertIsNone(INTERNAL.search(text), text)
        if run.returncode == 2:
            self.assertIn("error", text)
            self.assertIn("--> ", text, line)
            self.assertEqual(os.listdir(out), [], line)
        return run.returncode, text

    def refused(self, tree, word):
        for line in COPIES:
            status, text = self.run_line(line, tree)
            self.assertEqual(status, 2, line + ": " + text)
            self.assertIn(word, text, line)
        for line in LISTS:
            self.run_line(line, tree)

    def test_the_table_of_forms_names_tests_that_exist(self):
        tests = os.path.join(SAMPLES, "..", "..", "tests", "stored")
        with open(os.path.join(SAMPLES, "README.md"),
                  encoding="utf-8") as file:
            table = file.read().split("sample or test |\n|---|---|---|\n")[1]
        titles = {title for title, _, _ in CASES} | set(dir(self))
        for name in os.listdir(tests):
            with open(os.path.join(tests, name), encoding="utf-8") as file:
                titles |= set(re.findall(r'TEST_CASE\("(.*?)"\)', file.read()))
        numbers = []
        for line in table.splitlines():
            _, listed, _, cell, _ = line.split("|")
            numbers += [int(one) for one in listed.split(",")]
            for one in re.findall(r'"(.*?)"|(test_\w+)', cell):
                self.assertTrue(set(one) & titles or "_live_" in cell, one)
            for one in re.findall(r"`(\w+)`", re.sub(r'".*?"', "", cell)):
                self.assertIn(one, os.listdir(SAMPLES))
        self.assertEqual(numbers, list(range(1, 51)))

    def test_every_case_in_every_command(self):
        for title, how, word in CASES:
            with self.subTest(title):
                tree = self.build(how)
                if word is not None:
                    self.refused(tree, word)
                    continue
                for line in COPIES:
                    status, text = self.run_line(line, tree)
                    self.assertEqual(status, 0, line + ": " + text)

    def test_absent_inner_chunks_are_fill_values(self):
        tree = self.build(lambda f: v3(
            f, stored=shard(0, 16, NOTHING, NOTHING)))
        self.shardc("checkpoint", "merge", tree, "--output", self.path("m.safetensors"))
        self.assertEqual(read_safetensors(self.path("m.safetensors"))[0], {
            "x": ("F32", [4, 2], VALUES[:16] + bytes(16))})

    def test_unfinished_names_are_refused(self):
        for ending in (".orbax-checkpoint-tmp", ".orbax-checkpoint-tmp-1732",
                       ".dcp-tmp-shardc"):
            for how in (database, plain, "dcp"):
                self.refused(self.build(how, "10" + ending),
                             "has not finished")

    def test_ten_thousand_arrays_are_copied_in_time(self):
        tree = self.build(many_arrays)
        for line in (COPIES[0], COPIES[1], COPIES[2], LISTS[0]):
            status, text = self.run_line(line, tree)
            self.assertEqual(status, 0, text[:500])

    def test_an_empty_database_is_listed(self):
        tree = self.path("tree")
        put(tree, "manifest.ocdbt", manifest("", NOTHING, NOTHING, 0))
        self.assertEqual(self.run_line(LISTS[0], tree)[0], 0)
        for line in COPIES:
            self.run_line(line, tree)

    def test_a_missing_process_without_values_of_its_own(self):
        """Small values are in the merged root."""
        tree = self.build(sample("orbax_two_processes",
                                 gone("ocdbt.process_1")))
        self.assertEqual(self.run_line(COPIES[1], tree)[0], 0)


if __name__ == "__main__":
    unittest.main()
