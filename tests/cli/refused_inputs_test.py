"""Refusals that need more than one small text: folders, environments, files
that are made. A row is a message, the command that reports it, its files, and
the exit status if it is not 2.

Messages whose cause is one text are in refusals.py; damaged checkpoints of
orbax and zarr are in hostile_trees_test.py.
"""

import concurrent.futures
import json
import os
import tempfile
import unittest

from checkpoint_case import make_plan
from driver import TESTDATA, Case, run
from gguf_test import gguf
from refused_documents import BERT, INPUTS
from refused_files import (BERT_STEP, CAST, CONFIG, F32, PLAN, PLANNED, PROJECT,
                           SHARD, at, both, chain, dcp_file, deep, large_sums,
                           linked, long_header, many_tiles, one_value,
                           other_mesh, pickled, pieces, program, record,
                           repository, sample, section, step_without_items,
                           tensors, text, three_gigabytes, two_processes,
                           with_rules, with_shardings)
from tree_writer import VALUES, ZARRAY, plain, put

with open(os.path.join(TESTDATA, "configs", "deepseek-v3.config.json"),
          encoding="utf-8") as file:
    DEEPSEEK = json.load(file)

ROWS = [
    # audit
    ("the text defines no computation", "audit p.txt", {"p.txt": program(
        "ROOT %r = f32[8]{0} call(%p), to_apply=%missing")}),
    ("is part of a cycle of calls", "audit p.txt", {"p.txt": program(
        "ROOT %r = f32[8]{0} call(%p), to_apply=%a",
        *("%" + a + " (q: f32[8]) -> f32[8] {\n"
          "  %q." + a + " = f32[8]{0} parameter(0)\n"
          "  ROOT %c." + a + " = f32[8]{0} call(%q." + a + "), to_apply=%"
          + b + "\n}" for a, b in ("ab", "ba")))}),
    ("this audit is of a program on", "audit p.txt --against b.json", {
        "p.txt": program("ROOT %r = f32[8]{0} copy(%p)"),
        "b.json": '{"schema": "shardc.audit/v1", "devices": 3, '
                  '"collectives": []}'}),
    ("the bytes up to here do not fit in 64 bits",
     "audit p.txt --against b.json", {
         "p.txt": program("ROOT %r = f32[8]{0} copy(%p)"),
         "b.json": json.dumps({
             "schema": "shardc.audit/v1", "devices": 2, "collectives": [
                 {"bytes_per_device": (1 << 63) - 1, "group_size": 2,
                  "collective": "all-reduce", "what": "", "shape": ""}] * 2
         })}),
    ("the bytes that this program sends do not fit in 64 bits",
     "audit p.txt", {"p.txt": large_sums()}),
    # steps
    ("is no part of the step", BERT_STEP.format("tp:2") + " --part nope",
     CONFIG),
    ("a run in full is for", BERT_STEP.format("dp:4096,tp:2") + " --full",
     CONFIG),
    ("the run in full needs",
     BERT_STEP.format("tp:2") + " --full --batch 10000000 --seq 16", CONFIG),
    ("the bytes of the step's values do not fit in 64 bits: the largest is",
     BERT_STEP.format("tp:2") + " --batch 4294967296 --seq 4294967296",
     CONFIG),
    ("layers is not one that can be built",
     "verify step --mesh tp:2 --rules r.yaml --model c.json", {
        "r.yaml": "version: 1\nextends: builtin:bert/hf\nmodel:\n"
                  "  extends: builtin:bert/hf\n"
                  "  repeat: num_hidden_layers * 2\nrules: []\n",
        "c.json": json.dumps({**json.loads(BERT),
                              "num_hidden_layers": 6_000})}),
    ("is 20,000 layers, and a model has at most 10,000",
     BERT_STEP.format("tp:2"), {
        "c.json": json.dumps({**json.loads(BERT),
                              "num_hidden_layers": 20_000})}),
    ("the quantised tree has", "show manifest --model c.json", {
        "c.json": json.dumps({**DEEPSEEK, "num_hidden_layers": 250})}),
    # flags
    ("is a second dtype for all names", CAST + " --cast BF16 --cast F32",
     tensors("m.safetensors", F32)),
    ("`--output` is inside the checkpoint that is read", "checkpoint merge d --as orbax --output d/o",
     at("d", plain)),
    ("without `--write-locked` or `--diff`, one target can be planned",
     "plan --project p.yaml --target a --target b",
     {**INPUTS, "p.yaml": PROJECT}),
    ("contains the shards of a split checkpoint",
     "checkpoint split --plan p.json --checkpoint d --output o",
     lambda f: (pieces()(f), put(f, "p.json", PLAN.encode()))),
    ("`--output` is the directory that is read", "checkpoint merge d --as orbax --output d",
     at("d", plain)),
    ("cannot make the folder", "init --mesh tp:2 --folder f/x m.json",
     {**INPUTS, "f": ""}),
    ("a device profile without `base` has no",
     "cost --mesh tp:2 --rules r.yaml --manifest m.json --profile p.yaml",
     {**INPUTS, "p.yaml": "name: a\n"}),
    ("devices divides the sizes of the model",
     "suggest --devices 7 --memory 80GiB --model c.json -o o", CONFIG, 1),
    ("holds the model in training: the smallest need is",
     "suggest --devices 8 --memory 1KiB --model c.json -o o", CONFIG, 1),
    ("write a safetensors file of F32, F64, I8, I32 or I64 tensors",
     "eval rotate_half --tensors a --input b", {"a": "xx", "b": "{}"}),
    # exports
    ("is registered, and the JSON of a PartitionManager holds no "
     "registrations", "export eformer --mesh tp:2 --rules r.yaml "
     "--manifest m.json", with_rules(
         "register:\n  HEADS2: {rule: tp}\nrules:\n"
         "  - {match: 'w', spec: [tp]}\n")),
    ("devices for each parameter",
     "export hlo --form list --mesh tp:1073741824 --rules r.yaml "
     "--manifest m.json", with_rules("rules:\n  - {match: 'w', spec: []}\n")),
    ("`--names` lists none of the plan's parameters, such as",
     "export maxtext --names n.json --mesh tp:2 --rules r.yaml --manifest "
     "m.json", {**INPUTS, "n.json": '{"other": ["embed"]}'}),
    ("the checkpoint records no sharding", "diff d p.json",
     lambda f: (plain(f + "/d"), put(f, "p.json", PLAN.encode()))),
    # rules and projects
    ("rules are more than any real rule set has", PLANNED, with_rules(
        "rules:\n" + "- {match: w, spec: []}\n" * 100_001)),
    ("uses a group that pattern", PLANNED, with_rules(
        "rules:\n  - {match: 'a/w', spec: {like: 'a/\\2'}}\n")),
    ("a bundle has an empty name", PLANNED, with_rules(
        "bundles:\n  ' ': [tp]\nrules:\n  - {match: 'w', spec: []}\n")),
    ("`kv_dtype` is a list, not a dtype", "check --project p.yaml --target a", {
        **INPUTS, "p.yaml": PROJECT.replace(
            "m.json", "m.json, kv_dtype: [int8]")}),
    ("leads out of the project's repository:",
     "plan --target a --project a/p.yaml",
     repository(PROJECT.replace("m.json", "../../m.json"))),
    ("is a link that leads out of its repository",
     "plan --target a --project a/p.yaml", linked),
    ("a rules file leads out of the project's repository:",
     "plan --target a --project a/p.yaml",
     repository(PROJECT, "version: 1\nextends: [../../r.yaml]\nrules: []\n")),
    ("`model:` sections extend each other", PLANNED, chain(20)),
    ("this stack of layers has no `repeat`, neither its own nor an inherited "
     "one", PLANNED, section(
         "encoder:", "  length: 4", "  params: {a: ['a$', [d]]}")),
    ("ops with its blocks inserted", PLANNED, section(
        "blocks: {b: [" + ", ".join(["x = rope(x)"] * 600) + "]}",
        "layer: [b, b]")),
    ("blocks, or blocks in more than", PLANNED, section(
        "blocks:", *("  b%d: [b%d]" % (i, i + 1) for i in range(40)),
        "  b40: [x = rope(x)]", "layer: [b0]")),
    ("operands or results", PLANNED, section(
        "layer: ['x = add(" + ", ".join("x" for _ in range(100)) + ")']")),
    ("entries, the inherited ones included", PLANNED, section(
        "dims:", *("  d%d: 1" % i for i in range(1999)))),
    ("this is not a step program of `shardc`", "diff a.json b.json", {
        "a.json": '{"schema": "shardc.step/v2"}',
        "b.json": '{"schema": "shardc.step/v1"}'}),
    # imports
    ("the different shardings up to here have more than",
     "import hlo h.txt --mesh a:1024,b:1024", {"h.txt": many_tiles()}),
    # models
    (", a softmax scale out of range", "verify --mesh tp:2 --model c.json", {
        "c.json": json.dumps({
            "model_type": "granite", "num_attention_heads": 2, "head_dim": 8,
            "hidden_size": 16, "attention_multiplier": 1e11})}),
    # files
    ("the header is longer than", "show manifest --manifest m.gguf", long_header),
    ("holds more than", "show manifest --manifest m.json", three_gigabytes),
    # files of sets
    ("files of a model, not all of it", "show manifest --manifest -  < m.gguf",
     {"m.gguf": gguf({"a": ([32], 0)}, split=(0, 2, 2))}),
    ("files of a model, and its name does not have the form "
     "`NAME-00001-of-00005.gguf", "show manifest --manifest m.gguf",
     {"m.gguf": gguf({"a": ([32], 0)}, split=(0, 2, 2))}),
    ("wait for the run, or run the same command again; to give the run up, "
     "remove its hidden files", "show manifest --manifest d", both(
         tensors("d/model-00001-of-00001.safetensors", F32),
         lambda f: put(f, "d/.model.safetensors.part", b""))),
    ("holds the shards of a checkpoint that was split, not full tensors",
     "show manifest --manifest d", pieces()),
    ("files of a checkpoint, not all of it",
     "show manifest --manifest d/model-00001-of-00002.safetensors",
     tensors("d/model-00001-of-00002.safetensors", F32)),
    ("holds the shards of one rank of torch.distributed.checkpoint, not full "
     "tensors", "show manifest --manifest d/" + SHARD(1), dcp_file(SHARD(1))),
    ("holds the shards of one device, process or group, not full tensors",
     "show manifest --manifest d/device-00000.safetensors", pieces()),
    ("a run was interrupted while it put a new set in place of an earlier one",
     "show manifest --manifest model.safetensors.index.json",
     {"model.safetensors.index.json": '{"schema": "shardc.unfinished/v1"}'}),
    ("none of the index's files is present",
     "checkpoint merge model.safetensors.index.json -o o.safetensors",
     {"model.safetensors.index.json":
      '{"weight_map": {"x": "a.safetensors"}}'}),
    ("is also in", "show manifest --manifest d", both(
        tensors("d/a.safetensors", F32), tensors("d/b.safetensors", F32))),
    # pieces of a split checkpoint
    (", where the index places it", "checkpoint merge d -o o.safetensors",
     pieces(held={"y": ("F32", [4, 2], VALUES)})),
    ("holds tensors that the index does not list", "checkpoint merge d -o o.safetensors",
     pieces(held={**F32, "y": ("F32", [4, 2], VALUES)})),
    (", but the index has", "checkpoint merge d -o o.safetensors",
     pieces(held={"x": ("I32", [4, 2], VALUES)})),
    (", and the index records", "checkpoint merge d -o o.safetensors --verify",
     pieces(piece={"checksum": "crc32c:00000000"})),
    ("that a checkpoint can be split for",
     "checkpoint split --plan p.json --checkpoint m.safetensors --output o", both(
         tensors("m.safetensors", F32), lambda f: put(
             f, "p.json", make_plan([("tp", 2), ("dp", 1 << 20)], {
                 "x": ([4, 2], {"spec": ["tp"], "dtype": "F32"})})))),
    ("shards, more than the",
     "checkpoint split --plan p.json --checkpoint m.safetensors --output o", both(
         tensors("m.safetensors",
                 {"x%d" % i: ("U8", [1], b"0") for i in range(65)}),
         lambda f: put(f, "p.json", make_plan([("dp", 1 << 20)], {
             "x%d" % i: ([1], {"spec": [], "dtype": "U8"})
             for i in range(65)})))),
    ("its elements are packed: split it along another dimension",
     "checkpoint split --plan p.json --checkpoint m.safetensors --output o", both(
         tensors("m.safetensors", {"x": ("F4", [4, 2], b"1234")}),
         lambda f: put(f, "p.json", make_plan([("tp", 2)], {
             "x": ([4, 2], {"spec": [None, "tp"]})})))),
    # trees
    ("the checkpoint has arrays of several meshes:", "diff d p.json", both(
        with_shardings(other_mesh),
        lambda f: put(f, "p.json", PLAN.encode()))),
    (", has more entries than its shape", "checkpoint merge d -o o.safetensors",
     with_shardings(lambda held: held[0].update(
         partition_spec=["tp", "fsdp", None, None, None]))),
    ("two processes saved different values for", "checkpoint merge d -o o.safetensors",
     two_processes),
    ("the checkpoint's step has no item with arrays",
     "checkpoint merge d -o o.safetensors", step_without_items),
    (", which safetensors does not have", "checkpoint merge d -o o.safetensors",
     sample("orbax_ocdbt")),
    (", which shardc does not pack as safetensors does",
     "checkpoint merge d -o o.safetensors", {
         "d/.zarray": '{"zarr_format": 2, "shape": [4], "chunks": [4], '
                      '"dtype": "float4_e2m1fn", "compressor": null, '
                      '"fill_value": null, "filters": null, "order": "C"}',
         "d/0": "1234"}),
    (", which a safetensors file cannot hold", "checkpoint merge d -o o.safetensors",
     sample("dcp_4ranks")),
    ("the record of the tree states no version 1",
     "checkpoint merge m.safetensors --as orbax -o o",
     tensors("m.safetensors", {"x": ("F32", [1], b"1234")},
             {"shardc.tree": "{}"})),
    ("has a path that is no list of texts",
     "checkpoint merge m.safetensors --as orbax -o o",
     tensors("m.safetensors", {"x": ("F32", [1], b"1234")},
             {"shardc.tree": '{"version": 1, "lists": [1]}'})),
    ("has `lists` that is no list", "checkpoint merge m.safetensors --as orbax -o o",
     tensors("m.safetensors", {"x": ("F32", [1], b"1234")},
             {"shardc.tree": '{"version": 1, "lists": 1}'})),
    ("has an entry without the text `name`",
     "checkpoint merge m.safetensors --as orbax -o o",
     tensors("m.safetensors", {"x": ("F32", [1], b"1234")},
             {"shardc.tree": '{"version": 1, "paths": [1]}'})),
    ("has an entry without a `path`", "checkpoint merge m.safetensors --as orbax -o o",
     tensors("m.safetensors", {"x": ("F32", [1], b"1234")},
             {"shardc.tree": '{"version": 1, "empty": [{}]}'})),
    ("has an empty path", "checkpoint merge m.safetensors --as orbax -o o",
     tensors("m.safetensors", {"x": ("F32", [1], b"1234")},
             {"shardc.tree": '{"version": 1, "strings": [{"path": [], '
              '"text": ""}]}'})),
    ("of memory, more than --buffer",
     "checkpoint merge d -o o.safetensors --buffer 1KB", at("d", lambda f: plain(
         f, bytes(4096 * 8), shape=[4096, 2], chunks=[4096, 2]))),
    ("the checkpoint's folders are nested too deeply, or there are too many "
     "of them", "checkpoint merge d -o o.safetensors", deep),
    (": the save of this checkpoint has not finished",
     "checkpoint merge d.orbax-checkpoint-tmp-1 -o o.safetensors",
     at("d.orbax-checkpoint-tmp-1", plain)),
    ("zarr metadata of", "checkpoint merge d -o o.safetensors",
     {"d/x/.zarray": json.dumps(ZARRAY) + " " * (1 << 20)}),
    ("the name of an array,", "checkpoint merge d -o o.safetensors", lambda f: (
        plain(f + "/d"), plain(f + "/d/\udcff"))),
    ("an array has an empty name, which DCP cannot store",
     "checkpoint merge d --as dcp -o o", lambda f: (
         put(f, "d/.zarray", ZARRAY), put(f, "d/0.0", VALUES))),
    ("an array has an empty name, which orbax cannot store",
     "checkpoint merge m.safetensors --as orbax -o o",
     tensors("m.safetensors", {"": F32["x"], "y": F32["x"]})),
    ("has more than 4,096 bytes or is not UTF-8",
     "checkpoint merge m.safetensors --as orbax -o o",
     tensors("m.safetensors", {"x" * 4097: ("F32", [4, 2], VALUES)})),
    ("two paths have the name", "checkpoint merge m.safetensors --as orbax -o o",
     tensors("m.safetensors", {"a.b": F32["x"], "a/b": F32["x"]})),
    ("is an array or a value, and", "checkpoint merge m.safetensors --as orbax -o o",
     tensors("m.safetensors", {"a": F32["x"], "a/b": F32["x"]})),
    ("has the packed data type", "checkpoint merge m.safetensors --as orbax -o o",
     tensors("m.safetensors", {"x": ("F4", [4, 2], b"1234")})),
    (", more than the 32 that orbax can restore",
     "checkpoint merge m.safetensors --as orbax -o o",
     tensors("m.safetensors", {"x": ("F32", [1] * 33, b"1234")})),
    (", which orbax cannot store", "checkpoint merge d --as orbax -o o", {
        "d/.zarray": '{"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": '
                     '"uint4", "compressor": null, "fill_value": null, '
                     '"filters": null, "order": "C"}', "d/0": "1234"}),
    (", which torch does not have", "checkpoint merge d --as dcp -o o",
     sample("orbax_ocdbt")),
    ("exists and is not an empty folder", "checkpoint merge d --as orbax -o o", both(
        at("d", plain), lambda f: put(f, "o/a", b""))),
    # torch.distributed.checkpoint
    ("give a folder that torch.distributed.checkpoint has written",
     "checkpoint merge d -o o.safetensors", {"d/.metadata": "x", "d/__0_0.distcp": "x"}),
    ("   = help: save the checkpoint again", "checkpoint merge d -o o.safetensors", {
        "d/.metadata": b"\x80\x02" + record(
            "Metadata", state_dict_metadata=b"K\x05") + b".",
        "d/__0_0.distcp": "x"}),
    (", whose place in the checkpoint is not recorded",
     "checkpoint merge d --as dcp -o o", one_value(b"}")),
    ("bytes, too few for the", "checkpoint merge d --as dcp -o o", one_value(pickled(
        (record("MetadataIndex", fqn=text("a"), offset=b"N", index=b"N"),
         record("_StorageInfo", "filesystem", offset=b"Kd", length=b"K2",
                relative_path=text("__0_0.distcp")))))),
    # shards of torch.distributed.checkpoint in safetensors
    ("the file lacks `DCP_SHARDING_INFO`, which others of the folder have",
     "checkpoint merge d -o o.safetensors", both(
         dcp_file(SHARD(1)), dcp_file(SHARD(2), info=None))),
    ("`DCP_SHARDING_INFO` is no object", "checkpoint merge d -o o.safetensors",
     dcp_file(SHARD(1), info="[]")),
    ("lacks a data type, a shape, offsets of its bytes, or `saved_offsets` of "
     "the same rank", "checkpoint merge d -o o.safetensors",
     dcp_file(SHARD(1), info='{"x": {"saved_offsets": [0]}}')),
    ("is at bytes", "checkpoint merge d -o o.safetensors",
     dcp_file(SHARD(1), entry={"data_offsets": [0, 31]})),
    (", which DCP does not divide", "checkpoint merge d -o o.safetensors",
     dcp_file(SHARD(1), entry={"dtype": "F4", "shape": [8, 8]})),
    ("has another rank or data type in a file before it",
     "checkpoint merge d -o o.safetensors", both(
         dcp_file(SHARD(1)), dcp_file(SHARD(2), entry={"dtype": "I32"}))),
    ("the index has no object `weight_map", "checkpoint merge d -o o.safetensors", both(
        dcp_file(SHARD(1)),
        lambda f: put(f, "d/model.safetensors.index.json", b"{}"))),
]


def refused(command, files):
    with tempfile.TemporaryDirectory() as folder:
        if callable(files):
            files(folder)
        else:
            for name, content in files.items():
                put(folder, name, content.encode()
                    if isinstance(content, str) else content)
        command, _, given = command.partition("<")
        words, env, stdin = command.split(), {}, ""
        while "=" in words[0]:
            name, value = words.pop(0).split("=")
            env[name] = value
        if given:
            with open(os.path.join(folder, given.strip()), "rb") as file:
                stdin = file.read().decode("utf-8", "surrogateescape")
        return run(*words, cwd=folder, env=env, stdin=stdin, timeout=60)


class RefusedInputs(Case):
    def test_every_row(self):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = pool.map(lambda row: refused(*row[1:3]), ROWS)
            for (message, command, _, *rc), done in zip(ROWS, found):
                with self.subTest(message, command=command):
                    self.assertEqual(done.rc, *rc or [2], done.err[:500])
                    self.assertIn(message, done.err)


if __name__ == "__main__":
    unittest.main()
