"""Writes small checkpoints by the definitions of their formats, some of them
damaged, and copies of the samples in testdata/stored with one change."""

import json
import os
import shutil
import struct

from checkpoint_case import crc32c
from stored_samples import SAMPLES

NOTHING = (1 << 64) - 1
VALUES = struct.pack("<8f", *range(8))  # of x, float32 [4, 2]
ZARRAY = {"zarr_format": 2, "shape": [4, 2], "chunks": [4, 2], "dtype": "<f4",
          "compressor": None, "fill_value": None, "filters": None,
          "order": "C"}


def varint(value):
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def checksum(data):
    return struct.pack("<I", int(crc32c(data).split(":")[1], 16))


def block(magic, body, compression=0):
    head = b"\0" + varint(compression)
    size = 4 + 8 + len(head) + len(body) + 4
    out = struct.pack(">I", magic) + struct.pack("<Q", size) + head + body
    return out + checksum(out)


def files(*paths):
    out = varint(len(paths)) + b"".join(varint(0) for _ in paths[1:])
    out += b"".join(varint(len(path)) for path in paths)
    return out + b"\0" * len(paths) + "".join(paths).encode()


def manifest(path, offset, size, keys, height=0):
    body = b"u" * 16 + varint(0) + varint(1024) + varint(100_000_000)
    body += b"\4" + varint(0) + files(path)
    body += varint(1) + varint(1) + bytes([height]) + varint(0)
    body += varint(offset) + varint(size) + varint(keys) + varint(0) * 2
    return block(0x0CDB3A2A, body + bytes(8) + varint(0))


def leaf(pairs):
    out = b"\0" + varint(0) + varint(len(pairs)) + b"\0" * (len(pairs) - 1)
    out += b"".join(varint(len(key)) for key, _ in pairs)
    out += b"".join(key.encode() for key, _ in pairs)
    out += b"".join(varint(len(value)) for _, value in pairs)
    return out + bytes(len(pairs)) + b"".join(value for _, value in pairs)


def chained(count):
    """A node in which each key is the key before it and a byte more."""
    return (b"\0" + varint(0) + varint(count)
            + b"".join(varint(i) for i in range(1, count))
            + b"\1" * count + b"a" * count + bytes(2 * count))


def leaf_elsewhere(path, offset, size):
    """A node of `x/.zarray`, whose value is in a file."""
    return (b"\0" + files(path) + varint(1) + varint(9) + b"x/.zarray"
            + varint(size) + b"\1" + varint(0) + varint(offset))


def inner(height, path, offset, size):
    return (bytes([height]) + files(path) + varint(1) + varint(1) + varint(0)
            + b"a" + varint(0) + varint(offset) + varint(size) + varint(1)
            + varint(0) * 2)


def zstd_bomb(size):
    """A frame of blocks that repeat one byte, 128 KiB each."""
    blocks = [(1 << 17) << 3 | 2] * (size >> 17)
    blocks[-1] |= 1
    return b"\x28\xb5\x2f\xfd\0\x58" + b"".join(
        struct.pack("<I", head)[:3] + b"\0" for head in blocks)


def put(folder, name, data):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes)
                   else json.dumps(data).encode())


def edit(folder, name, change):
    with open(os.path.join(folder, name), "rb") as file:
        data = file.read()
    changed = change(data)
    assert changed != data, name
    put(folder, name, changed)


def flipped(at):
    return lambda data: (data[:at] + bytes([data[at] ^ 1])
                         + data[at + 1:] if at >= 0 else
                         data[:at] + bytes([data[at] ^ 1]))


def pairs(**changed):
    value = changed.get("value", VALUES)
    out = [("x/.zarray", json.dumps({**ZARRAY, **changed.get("zarray", {})})
            .encode())]
    return out + ([("x/0.0", value)] if value is not None else [])


def database(folder, body=None, keys=2, height=0, node=None, root=None):
    """An OCDBT database of one node; `root` is its offset and size."""
    if node is None:
        node = block(0x0CDB20DE, leaf(pairs()) if body is None else body)
    put(folder, "d/n", node)
    put(folder, "manifest.ocdbt", manifest(
        "d/n", *(root or (0, len(node))), keys, height))


def plain(folder, value=VALUES, **zarray):
    """A zarr array of version 2 in a folder."""
    put(folder, "x/.zarray", {**ZARRAY, **zarray})
    if value is not None:
        put(folder, "x/0.0", value)


def v3(folder, codecs=None, stored=None):
    """A zarr array of version 3 with two inner chunks in a shard."""
    inner_codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
    put(folder, "x/zarr.json", {
        "zarr_format": 3, "node_type": "array", "shape": [4, 2],
        "data_type": "float32", "fill_value": 0,
        "chunk_grid": {"name": "regular",
                       "configuration": {"chunk_shape": [4, 2]}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": codecs or [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [2, 2], "codecs": inner_codecs,
            "index_codecs": [*inner_codecs, {"name": "crc32c"}]}}]})
    put(folder, "x/c/0/0", VALUES if stored is None else stored)


def shard(*entries, damage=0):
    index = struct.pack("<4Q", *entries)
    crc = struct.unpack("<I", checksum(index))[0] ^ damage
    return VALUES + index + struct.pack("<I", crc)


def sample(name, change=None):
    def build(folder):
        shutil.copytree(os.path.join(SAMPLES, name), folder)
        if change:
            change(folder)
    return build


def metadata(change):
    """Changes `.metadata` of a checkpoint of DCP."""
    return lambda folder: edit(folder, ".metadata", change)


CLASS = b"ctorch.distributed.checkpoint.metadata\nMetadata\n"
PLACE = b"__0_0.distcp"


def truncated(name, size):
    return lambda folder: os.truncate(os.path.join(folder, name), size)


def gone(name):
    def remove(folder):
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.remove(path)
    return remove


def two_paths(folder):
    key = {"key_metadata": [{"key": "a.b", "key_type": 2}],
           "value_metadata": {"value_type": "np.ndarray",
                              "skip_deserialize": False}}
    other = {**key, "key_metadata": [{"key": "a", "key_type": 2},
                                     {"key": "b", "key_type": 2}]}
    put(folder, "_METADATA", {"tree_metadata": {"('a.b',)": key,
                                                "('a', 'b')": other},
                              "use_ocdbt": False, "use_zarr3": False})
    put(folder, "a.b/.zarray", ZARRAY)
    put(folder, "a.b/0.0", VALUES)


def others_but_one(folder):
    for name in os.listdir(folder):
        if not name.startswith("shard-00002"):
            os.remove(os.path.join(folder, name))


def but_the_second(folder):
    for name in os.listdir(folder):
        if name.startswith("shard-00002"):
            os.remove(os.path.join(folder, name))


def of_two(folder):
    for name in os.listdir(folder):
        os.rename(os.path.join(folder, name),
                  os.path.join(folder, name.replace("-of-00001", "-of-00002")))


def with_node(change):
    """A database whose node is changed and refers to as it was."""
    def build(folder):
        database(folder)
        edit(folder, "d/n", change)
    return build


def with_manifest(change):
    def build(folder):
        database(folder)
        edit(folder, "manifest.ocdbt", change)
    return build


def many_arrays(folder):
    text = json.dumps({**ZARRAY, "shape": [2], "chunks": [2]}).encode()
    entries = []
    for i in range(10_000):
        entries += [("a%05d/.zarray" % i, text), ("a%05d/0" % i, bytes(8))]
    database(folder, leaf(entries), keys=len(entries))


BLOSC_CODECS = [{"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "blosc", "configuration": {"cname": "lz4"}}]


def blosc(size=32, stored=True):
    """VALUES in a chunk of blosc that states `size` bytes."""
    return (bytes([2, 1, 0x22 if stored else 0x30, 4])
            + struct.pack("<3I", size, 32, 16 + len(VALUES)) + VALUES)


CHUNK = {"compressor": {"id": "zstd", "level": 1}}
