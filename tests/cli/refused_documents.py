"""Documents that tests of refused files and flags start from, with one place
of each replaced."""

import dataclasses
import json


@dataclasses.dataclass
class Reader:
    name: str
    command: str  # IN is the file
    rows: list
    files: dict = dataclasses.field(default_factory=dict)  # others, by name
    file: str = "in"  # name of the file of a row


PLAN = {
    "schema": "shardc.plan/v1",
    "fingerprint": "sha256:" + "0" * 64,
    "mesh": {"axes": [{"name": "tp", "size": 4, "type": "auto"},
                      {"name": "ep", "size": 2, "type": "auto"}],
             "devices": 8},
    "modes": ["train", "decode"],
    "rules": [{"match": "e", "source": "r.yaml:3", "params": 1},
              {"match": "w", "source": "r.yaml:4", "params": 1}],
    "params": {
        "w": {"shape": [8, 4], "dtype": "BF16", "spec": ["tp", None],
              "rule": 1, "shard_shape": [2, 4], "bytes_per_device": 16,
              "modes": {"decode": {"spec": [None, "tp"],
                                   "shard_shape": [8, 1],
                                   "bytes_per_device": 16}}},
        "e": {"shape": [8], "dtype": "BF16", "spec": ["tp"], "rule": 0,
              "shard_shape": [2], "bytes_per_device": 4,
              "placement": {"axis": "ep", "coordinate": 0}}},
    "attention": {"train": {}, "decode": {}},
    "summary": {"params": 2, "elements": 40, "bytes": 80,
                "bytes_per_device": 20, "unmatched": 0, "corrected": 0},
}
GONE = object()
W = ("params", "w")


def edited(document, *path):
    """The document whose value at a path is replaced by the last argument."""
    copy = json.loads(json.dumps(document))
    at = copy
    for key in path[:-2]:
        at = at[key]
    if path[-1] is GONE:
        del at[path[-2]]
    else:
        at[path[-2]] = path[-1]
    return json.dumps(copy)


def plan(*path):
    return edited(PLAN, *path)


# One piece of a parameter, without its file.
INDEX = {
    "schema": "shardc.shards/v1", "mode": "train", "per": "device",
    "mesh": {"axes": [{"name": "tp", "size": 2, "type": "auto"}],
             "devices": 2},
    "params": {"w": {"shape": [4, 2], "dtype": "F32"}},
    "files": [{"file": "device-0.safetensors", "bytes": 100, "devices": [0],
               "params": {"w": {"offset": [0, 0], "shape": [2, 2]}}}],
}
FILE = ("files", 0)
PIECE = (*FILE, "params", "w")


def index(*path):
    return edited(INDEX, *path)


# The smallest target, of commands that refuse their flags.
INPUTS = {
    "r.yaml": "version: 1\nrules:\n  - {match: 'w', spec: [tp]}\n",
    "m.json": '{"schema": "shardc.manifest/v1", '
              '"params": {"a/w": {"shape": [8, 8], "dtype": "F32"}}}',
}

BERT = json.dumps({
    "model_type": "bert", "vocab_size": 64, "hidden_size": 8,
    "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "max_position_embeddings": 16})


def section(line):
    """Rules that replace one line of a built-in model section."""
    return ("version: 1\nmodel:\n  extends: builtin:bert/hf\n  " + line +
            "\nseparator: '.'\nrules:\n"
            "  - {match: '.*', spec: Replicated}\n")
