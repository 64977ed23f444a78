"""Files and folders that a command refuses, for the rows of
refused_inputs_test.py."""

import itertools
import json
import os
import shutil
import struct

from checkpoint_case import make_plan, write_safetensors
from refused_documents import BERT, INPUTS
from stored_samples import SAMPLES
from tree_writer import VALUES, ZARRAY, block, leaf, manifest, plain, put

PLAN = json.dumps(make_plan([("tp", 2)], {
    "x": ([4, 2], {"spec": ["tp"], "dtype": "F32"})}))
STEP = ("verify step --mesh tp:2 --rules builtin:bert/hf --model c.json "
        "--manifest m.json")
PROJECT = ("version: 1\ntargets:\n  a: {mesh: 'tp:2', rules: [r.yaml], "
           "manifest: m.json}\n  b: {mesh: 'tp:4', rules: [r.yaml], "
           "manifest: m.json}\n")
PLANNED = "plan --mesh tp:2 --rules r.yaml --manifest m.json"


def with_rules(text, **more):
    return {**INPUTS, "r.yaml": "version: 1\n" + text, **more}


def program(entry, *others):
    return ("HloModule m, is_scheduled=true, num_partitions=2\n\n"
            + "\n\n".join(others) + "\n\nENTRY %main (p: f32[8]) -> f32[8] {\n"
            "  %p = f32[8]{0} parameter(0)\n  " + entry + "\n}\n")


def tensors(path, entries, metadata=None):
    """A safetensors file in the folder that a row makes."""
    def build(folder):
        os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
        write_safetensors(os.path.join(folder, path), entries, metadata)
    return build


F32 = {"x": ("F32", [4, 2], VALUES)}


def pieces(**changed):
    """A folder `d` of one split parameter, whose index is changed."""
    def build(folder):
        tensors("d/device-00000.safetensors", changed.get("held", {
            "x": ("F32", [4, 2], VALUES)}))(folder)
        size = os.path.getsize(folder + "/d/device-00000.safetensors")
        put(folder, "d/shards.json", {
            "schema": "shardc.shards/v1", "mode": "train", "per": "device",
            "mesh": {"axes": [{"name": "tp", "size": 1, "type": "auto"}],
                     "devices": 1},
            "params": {"x": {"shape": [4, 2], "dtype": "F32"}},
            "files": [{"file": "device-00000.safetensors", "bytes": size,
                       "devices": [0],
                       "params": {"x": {"offset": [0, 0], "shape": [4, 2],
                                        **changed.get("piece", {})}}}]})
    return build


def dcp_file(name="model-00001-of-00001.safetensors", **changed):
    """A file that HuggingFaceStorageWriter writes for one rank."""
    def build(folder):
        info = changed.get("info", '{"x": {"saved_offsets": [0, 0]}}')
        header = {"x": {"dtype": "F32", "shape": [4, 2],
                        "data_offsets": [0, 32], **changed.get("entry", {})}}
        header["__metadata__"] = {"DCP_SHARDING_INFO": info,
                                  "DCP_VERSION": "1.0"}
        if info is None:
            header["__metadata__"] = {"format": "pt"}
        text = json.dumps(header).encode()
        put(folder, "d/" + name,
            struct.pack("<Q", len(text)) + text + VALUES)
    return build


def both(*builds):
    def build(folder):
        for one in builds:
            one(folder)
    return build


SHARD = "shard-0000{}-model-00001-of-00001.safetensors".format


def at(name, build):
    return lambda folder: build(os.path.join(folder, name))


def deep(folder):
    os.makedirs(folder + "/d/" + "/".join("f" * 40))
    plain(folder + "/d")


def sample(name):
    return lambda folder: shutil.copytree(
        os.path.join(SAMPLES, name), folder + "/d")


def with_shardings(change):
    """A checkpoint of orbax whose recorded shardings are changed."""
    def build(folder):
        sample("orbax_ocdbt")(folder)
        path = folder + "/d/_sharding"
        with open(path, encoding="utf-8") as file:
            held = {key: json.loads(text)
                    for key, text in json.load(file).items()}
        change([one for one in held.values()
                if one["sharding_type"] == "NamedSharding"])
        put(folder, "d/_sharding",
            {key: json.dumps(one) for key, one in held.items()})
    return build


def two_processes(folder):
    """Two processes saved other bytes for the same chunk."""
    put(folder, "d/_METADATA", {"tree_metadata": {}, "use_ocdbt": True,
                                "use_zarr3": False})
    for i in range(2):
        node = block(0x0CDB20DE, leaf([
            ("x/.zarray", json.dumps(ZARRAY).encode()),
            ("x/0.0", bytes([i]) * 32)]))
        put(folder, "d/ocdbt.process_%d/d/n" % i, node)
        put(folder, "d/ocdbt.process_%d/manifest.ocdbt" % i,
            manifest("d/n", 0, len(node), 2))


def step_without_items(folder):
    sample("orbax_manager")(folder)
    shutil.rmtree(folder + "/d/10/params")


def long_header(folder):
    """A key of 256 MiB; the file has holes instead of most of its bytes."""
    put(folder, "m.gguf", b"GGUF" + struct.pack("<IQQQ", 3, 0, 1,
                                                (1 << 28) + 64))
    os.truncate(folder + "/m.gguf", (1 << 28) + 4096)


def three_gigabytes(folder):
    put(folder, "m.json", b"{")
    os.truncate(folder + "/m.json", 3 << 30)


def many_tiles():
    """A program of 45 shardings over 2^20 devices."""
    lines = []
    for i, (a, b) in enumerate(itertools.combinations(range(10), 2)):
        shape = ["1"] * 10
        shape[a] = shape[b] = "1024"
        shape = ",".join(shape)
        lines.append(f"  %p{i} = f32[{shape}] parameter({i}), sharding="
                     f"{{devices=[{shape}]<=[1024,1024]}}, "
                     f"metadata={{op_name=\"params['{i}']\"}}\n")
    return ("HloModule m, num_partitions=1048576\n\nENTRY %main (p: f32[8]) -> "
            "f32[8] {\n" + "".join(lines) + "  ROOT %r = f32[8]{0} copy(%p0)\n}\n")


def large_sums():
    """A program that sends 2^63 bytes."""
    shape = "f32[1073741824,1073741824]"
    return program_of(shape, "".join(
        f"  %r{i} = {shape}{{1,0}} all-reduce(%p), replica_groups={{{{0,1}}}}, "
        "to_apply=%add\n" for i in range(3)))


def program_of(shape, body):
    return ("HloModule m, is_scheduled=true, num_partitions=2\n\n"
            "%add (a: f32[], b: f32[]) -> f32[] {\n"
            "  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n"
            "  ROOT %s = f32[] add(%a, %b)\n}\n\n"
            f"ENTRY %main (p: {shape}) -> {shape} {{\n"
            f"  %p = {shape}{{1,0}} parameter(0)\n{body}"
            f"  ROOT %r = {shape}{{1,0}} copy(%r0)\n}}\n")


def other_mesh(shardings):
    shardings[1].update(axis_names=["x", "y"], partition_spec=["x"])


# Pickled values, as operations of protocol 2.
def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def pickled(*pairs):
    return b"}(" + b"".join(key + value for key, value in pairs) + b"u"


def record(name, module="metadata", **members):
    state = pickled(*((text(key), value) for key, value in members.items()))
    return (f"ctorch.distributed.checkpoint.{module}\n{name}\n)\x81".encode(
        "latin-1") + state + b"b")


def one_value(places):
    """A checkpoint of DCP that holds a pickled value, `a`, and no tensor."""
    entries = pickled((text("a"), record("BytesStorageMetadata")))
    return {"d/__0_0.distcp": "x", "d/.metadata": b"\x80\x02" + record(
        "Metadata", state_dict_metadata=entries, storage_data=places) + b"."}


def linked(folder):
    os.makedirs(folder + "/a/.git")
    put(folder, "p.yaml", PROJECT.encode())
    os.symlink("../p.yaml", folder + "/a/p.yaml")


def repository(project, rules="version: 1\nrules: []\n"):
    def build(folder):
        os.makedirs(folder + "/a/.git")
        put(folder, "a/p.yaml", project.encode())
        put(folder, "a/r.yaml", rules.encode())
        put(folder, "a/m.json", INPUTS["m.json"].encode())
    return build


def chain(count):
    """Files of which each extends the `model:` section of the next."""
    out = {"r%d.yaml" % i: "version: 1\nmodel: {extends: r%d.yaml}\nrules: []\n"
           % (i + 1) for i in range(count)}
    return {**INPUTS, **out, "r.yaml": "version: 1\nmodel: {extends: r0.yaml}\n"
            "rules: []\n"}


def section(*lines):
    """Rules with a `model:` section of their own."""
    return with_rules("separator: '.'\nmodel:\n  extends: builtin:bert/hf\n"
                      + "".join("  " + line + "\n" for line in lines)
                      + "rules:\n  - {match: '.*', spec: []}\n")


BERT_STEP = "verify step --mesh {} --rules builtin:bert/hf --model c.json"
CONFIG = {"c.json": BERT}
CAST = "checkpoint merge m.safetensors -o o"
