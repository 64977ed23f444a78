"""Inputs to begin with, in a folder per target: the hostile files, such as
people write, and those that tests/fuzz/corpus keeps, a line of base64 each.

    seeds.py OUT                  writes them
    seeds.py --keep FOLDER NAME   keeps the smallest of a folder for a target
"""

import base64
import gzip
import json
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CORPUS = os.path.join(ROOT, "tests", "fuzz", "corpus")
LARGEST = 4096
KEPT = 60  # inputs of a target

MESHES = ["dp:2,fsdp:-1,tp:4", "dp=1,tp=64", "1,-1,1,1", "a:9223372036854775807",
          "dp:2,dp:2", "tp:-1,dp:-1", "", "tp:", "tp:0x10", "tp:1_0"]
SPECS = ["[BATCH, [FSDP, SP], _]", "ColumnWise", "[]", "null", "[VOCAB, null]",
         "{axis: tp}", "[[fsdp, sp], tp]", "{like: '\\1.weight'}"]
SIZES = ["80GiB", "1.5 GB", "512B", "1048576", "1e9", "-1", "0.0000001TiB"]
RULES = """version: 1
extends: [builtin:llama, ./base.yaml]
separator: "/"
axes: {head: tp, batch: [fsdp, dp], decode_head: tp}
register:
  KV_GROUP: {rule: kv_head, generation: [tp], override: false}
bundles: {QKV: [[FSDP, SP], TP]}
rules:
  - match: 'self_attn/(q|k|v)_proj/kernel$'
    spec: ColumnWise  # shardc: ignore[SHD203] why
  - match: 'embed_tokens/embedding$'
    spec: [VOCAB, [fsdp, sp]]
    modes: {decode: [VOCAB, null]}
    illegal: shrink
    min_size: 4
    note: text
  - match: '(.*)\\.weight_scale_inv$'
    spec: {like: '\\1.weight'}
  - match: 'experts\\.(\\d+)\\.gate_proj\\.weight$'
    spec: [TP, null]
    place: {axis: ep, index: 'experts\\.(\\d+)\\.', count: 128}
policy: {unmatched: error, illegal: error, min_size: 0, compat: none}
weight_decay: {exclude: ['norm', 'bias$']}
"""
PROJECT = """version: 1
targets:
  one:
    mesh: {axes: {dp: 2, fsdp: -1}, devices: 64, axis_types: auto}
    rules: [rules.yaml, builtin:llama]
    manifest: manifest.json
    model: config.json
    modes: [train, decode]
    operations: {train: [ring], decode: [flash_decoding]}
    layout: bthd
    batch: 64
    kv_len: 8192
    memory: 16GiB
    plan: plan.json
lint: {select: [SHD1], ignore: [], severity: {SHD203: error}, fail_on: error}
"""
STAGED_PROJECT = """version: 1
targets:
  one:
    mesh: pp:2,tp:2
    rules: [rules.yaml]
    manifest: manifest.json
    model: config.json
    batch: 8
    stages: {axis: pp, schedule: 1f1b, microbatches: 4, virtual: 2,
             layers: [3, 5], p2p: overlapped}
    audit: {program: step.hlo.txt, bytes: {all_gather over fsdp: 1MiB}}
"""
STAGED_RULES = """version: 1
stages:
  axis: pp
  parts: {first: ['embed'], last: ['norm$', 'head']}
  layers: even
rules: [{match: ., spec: []}]
"""
SETTINGS = """operations:
  ring: {dtype: float32, layout: bthd, heads: 8}
"""
MATCHING = ["a.*b$\n(?i)layers/\\d+\n\nab\nlayers/12/x\nLAYERS/1",
            "[^/]+/kernel$\n^model\n\nmodel/kernel\nmodel/a/kernel"]


def plan():
    return {"schema": "shardc.plan/v1", "fingerprint": "sha256:0",
            "mesh": {"axes": [{"name": "tp", "size": 2, "type": "auto"}],
                     "devices": 2}, "modes": ["train", "decode"], "rules": [],
            "params": {"a.w": {"shape": [8, 4], "dtype": "F32", "spec": ["tp"],
                               "rule": None, "modes": {"decode": {"spec": []}},
                               "placement": {"axis": "tp", "coordinate": 1}}}}


def staged_plan():
    out = plan()
    out["schema"] = "shardc.plan/v2"
    out["stages"] = {
        "axis": "tp", "hidden": ["tp"], "microbatches": 4, "placement": "loop",
        "schedule": "1f1b", "table": "sha256:0", "virtual": 1,
        "copies": [{"param": "a.w", "ranks": [0, 1], "stages": [0, 1]}],
        "of": [{"layers": [0, 3], "parts": ["first"], "ranks": [0]},
               {"layers": [3, 5], "parts": ["last"], "ranks": [1]}]}
    out["params"] = {
        "a.w": {"shape": [8, 4], "dtype": "F32", "spec": [], "rule": None,
                "stages": [0, 1]},
        "b.w": {"shape": [5, 4], "dtype": "F32", "spec": [], "rule": None,
                "slices": {"dim": 0, "of": [[0, 3], [3, 5]]}}}
    return out


def shards():
    piece = {"dtype": "F32", "global_shape": [4], "offset": [0], "shape": [2],
             "checksum": "crc32c:00000000"}
    return {"schema": "shardc.shards/v1", "fingerprint": "sha256:0",
            "mode": "train", "per": "device", "mesh": plan()["mesh"],
            "metadata": {"format": "pt"},
            "params": {"w": {"shape": [4], "dtype": "F32", "spec": ["tp"]}},
            "files": {"device-00000.safetensors":
                      {"bytes": 100, "devices": [0], "tensors": {"w": piece}}}}


QUANTISED = [
    {"quant_method": "fp8", "weight_block_size": [8, 8],
     "modules_to_not_convert": ["lm_head"]},
    {"quant_method": "gptq", "bits": 4, "group_size": 8, "desc_act": False},
    {"quant_method": "awq", "bits": 4, "group_size": -1, "version": "gemm"},
    {"quant_method": "bitsandbytes", "load_in_4bit": True,
     "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
    {"quant_method": "mxfp4"},
    {"quant_method": "compressed-tensors", "format": "pack-quantized",
     "ignore": ["lm_head"], "config_groups": {"group_0": {
         "targets": ["Linear"], "weights": {
             "num_bits": 4, "type": "int", "strategy": "group",
             "group_size": 8, "symmetric": True}}}}]
SCHEDULES = ["0F0,0F1,0B0,0B1\n", "0F0,0F1,0B1,0B0\n1F0,1B0,1B1,1F1\n",
             "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n",
             "0F0,,,0I0,0W0\n,1F0,1I0,1W0,\n",
             "0F0,2F0,(2F1;2B0)OVERLAP_F_B,0F1,2B1,0B0,0B1\n"
             "1F0,3F0,3B0,1F1,3F1,3B1,1B0,1B1\n"]
RUN = """schema: shardc.run/v1
name: short
mesh: fsdp:8
rules: builtin:llama/hf
manifest: manifest.json
model: config.json
batch: 16
seq: 8192
remat: save_only_these_names(q_proj,v_proj)
grad_dtype: float32
tokens_per_second_per_device: 8532
"""
FAMILY = """version: 1
like: llama
models: OwnModel
let:
  d: hidden_size
  h: head_dim ?? d // num_attention_heads
  n: max(num_key_value_heads, 1) if num_key_value_heads else 1
blocks:
  one(k, m):
    norm: norm(k)
    up[j < m] if m > 1: linear(k, intermediate_size, false)
tree:
  model:
    embed_tokens: embedding(vocab_size, d)
    layers[i < num_hidden_layers]:
      attn: one(d, list[i] + 2)
      out if i % 2 == 0 or not given(tied): linear(n * h, d)
  lm_head: linear(d, vocab_size)
"""
EXPRESSIONS = ["a ?? b.c[0] if d and not e else -1", "max(a, b) // 2 % 3",
               "[1, 'x', true, null][i] in list", "a * (b + c) == d or e < f"]

# A line each.
MESSAGES = "\n".join(json.dumps(message) for message in (
    {"method": "textDocument/didOpen", "params": {"textDocument": {
        "uri": "untitled:x", "version": 1, "text": RULES}}},
    {"method": "textDocument/didChange", "params": {
        "textDocument": {"uri": "untitled:x", "version": 2},
        "contentChanges": [{"text": "\U0001F600", "range": {
            "start": {"line": 1, "character": 2},
            "end": {"line": 3, "character": 0}}}]}},
    *({"id": method, "method": "textDocument/" + method, "params": {
        "textDocument": {"uri": "untitled:x"},
        "position": {"line": 3, "character": 12},
        "range": {"start": {"line": 0, "character": 0},
                  "end": {"line": 9, "character": 0}}}}
      for method in ("hover", "completion", "definition", "documentSymbol",
                     "codeAction")),
    {"method": "$/cancelRequest", "params": {"id": "hover"}},
    {"id": 9, "method": "shutdown"}))


def texts():
    yield from (("mesh_string", text) for text in MESHES)
    yield from (("spec", text) for text in SPECS)
    yield from (("size", text) for text in SIZES)
    yield from (("matching", text) for text in MATCHING)
    yield "rules", RULES
    yield "buffer", RULES
    yield "messages", MESSAGES
    yield "project", PROJECT
    yield "settings", SETTINGS
    yield "mesh_file", ("axes: {dp: 2, fsdp: -1}\ndevices: 64\nslices: 1\n"
                        "axis_types: {dp: explicit}\nprocesses: 8\n"
                        "device: {memory: 80GiB}\n")
    yield "plan", json.dumps(plan())
    yield "plan", json.dumps(staged_plan())
    yield "shards", json.dumps(shards())
    yield "config", json.dumps({
        "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 32000, "head_dim": 128})
    # Small models of several families: with experts, latent attention, fused
    # projections and positions of each kind.
    small = {"hidden_size": 16, "intermediate_size": 32, "vocab_size": 64,
             "num_hidden_layers": 2, "num_attention_heads": 4,
             "rms_norm_eps": 1e-5, "layer_norm_eps": 1e-5}
    yield from (("model_config", json.dumps({**small, **more})) for more in (
        {"model_type": "llama", "num_key_value_heads": 2, "rope_theta": 1e6},
        {"model_type": "mixtral", "num_key_value_heads": 2,
         "num_local_experts": 4, "num_experts_per_tok": 2},
        {"model_type": "gemma2", "num_key_value_heads": 2, "head_dim": 8,
         "sliding_window": 16, "query_pre_attn_scalar": 8},
        {"model_type": "gpt_neox", "rotary_pct": 0.5},
        {"model_type": "gpt_oss", "num_key_value_heads": 2, "head_dim": 8,
         "num_local_experts": 4, "num_experts_per_tok": 2,
         "sliding_window": 8, "layer_types": ["sliding_attention",
                                              "full_attention"]},
        {"model_type": "deepseek_v3", "kv_lora_rank": 8, "q_lora_rank": 8,
         "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "v_head_dim": 4,
         "moe_intermediate_size": 8, "n_routed_experts": 4,
         "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 2,
         "topk_group": 1, "first_k_dense_replace": 1},
        *({"model_type": "llama", "quantization_config": one}
          for one in QUANTISED),
        {"model_type": "gpt2", "n_embd": 16, "n_head": 4, "n_layer": 2,
         "n_positions": 32, "layer_norm_epsilon": 1e-5}))
    yield from (("schedule", text) for text in SCHEDULES)
    yield "run", RUN
    yield "family", FAMILY
    yield from (("expression", text) for text in EXPRESSIONS)
    yield "project", STAGED_PROJECT
    yield "rules", STAGED_RULES
    yield "eformer", json.dumps({"batch_axis": ["fsdp", "dp"],
                                 "head_axis": "tp", "bias_head_axis": None})
    yield "baseline", json.dumps({"schema": "shardc.baseline/v1",
                                  "findings": []})


def tables():
    """The inputs of the cases of tables, which tests/tables.h describes."""
    def cases(name):
        path = os.path.join(ROOT, "testdata", "tables", name)
        with open(path, encoding="utf-8") as file:
            for case in re.split(r"(?m)^== ", file.read())[1:]:
                parts = {}
                for part in re.split(r"(?m)^-- ", case)[1:]:
                    head, text = part.split("\n", 1)
                    key, _, line = head.partition(": ")
                    parts[key] = line or text
                yield parts

    for parts in cases("devices.txt"):
        yield "profile", parts["profile"].encode()
    for parts in cases("eval.txt"):
        for line in parts["calls"].splitlines():
            yield "eval", line.encode()
    formats = ["maxtext", "maxtext-dump", "levanter", "hlo", "shardy",
               "dtensor", "hf-tp-plan"]  # as in tests/fuzz/commands.cc
    for parts in cases("imports.txt"):
        if parts["format"] in formats:
            first = bytes([formats.index(parts["format"])])
            yield "of_import", first + parts["source"].encode()


def families():
    folder = os.path.join(ROOT, "families")
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name.endswith(".yaml") and os.path.getsize(path) <= LARGEST // 2:
            with open(path, "rb") as file:
                yield "family", file.read()


def traced():
    """Recorded programs of functions."""
    for folder in ("regions", "programs"):
        at = os.path.join(ROOT, "testdata", folder)
        for name in sorted(os.listdir(at)):
            if name.endswith(".program.json.gz") and ".step." not in name:
                with gzip.open(os.path.join(at, name)) as file:
                    data = file.read()
                if len(data) <= 8 * LARGEST:
                    yield "traced", data


def programs():
    """The program of the golden transcript, and small compiled ones."""
    path = os.path.join(ROOT, "testdata", "golden", "commands", "audit.txt")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    yield "program", text[text.index("HloModule"):text.index("\n===")].encode()
    folder = os.path.join(ROOT, "testdata", "audit")
    for name in ("gpu", "tpu", "mistake.gathered_twice", "executed/ring",
                 "executed/exchange", "executed/weight_gathered_twice",
                 "executed/custom_vjp"):
        with gzip.open(os.path.join(folder, name + ".hlo.txt.gz")) as file:
            yield "program", file.read()


def files():
    hostile = os.path.join(ROOT, "testdata", "hostile")
    kinds = {"mesh_": ["mesh_file", "yaml"], "rules_": ["rules", "yaml"],
             "json_": ["manifest"], "st_": ["safetensors"], "gguf_": ["gguf"],
             "hf_": ["index"]}
    for at, _, names in os.walk(hostile):
        for name in sorted(names):
            path = os.path.join(at, name)
            whole = os.path.relpath(path, hostile)
            for begin, targets in kinds.items():
                if not whole.startswith(begin) or os.path.islink(path):
                    continue
                if begin == "hf_" and not name.endswith(".json"):
                    continue
                with open(path, "rb") as file:
                    data = file.read()
                if len(data) <= LARGEST:
                    for target in targets:
                        yield target, data


def stored():
    """The metadata of checkpoints that PyTorch wrote."""
    folder = os.path.join(ROOT, "testdata", "stored")
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name, ".metadata")
        if os.path.exists(path) and os.path.getsize(path) <= LARGEST:
            with open(path, "rb") as file:
                yield "dcp", file.read()


def kept():
    for name in sorted(os.listdir(CORPUS)) if os.path.isdir(CORPUS) else []:
        with open(os.path.join(CORPUS, name), encoding="ascii") as file:
            for line in file:
                yield name, base64.b64decode(line)


def keep(folder, target):
    made = []
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            made.append(file.read())
    made.sort(key=lambda data: (len(data), data))
    os.makedirs(CORPUS, exist_ok=True)
    with open(os.path.join(CORPUS, target), "w", encoding="ascii") as file:
        for data in made[:KEPT]:
            file.write(base64.b64encode(data).decode() + "\n")


def main():
    if sys.argv[1] == "--keep":
        keep(*sys.argv[2:])
        return
    out = sys.argv[1]
    inputs = [(target, text.encode()) for target, text in texts()]
    inputs += list(files())
    inputs += list(programs())
    inputs += list(stored())
    inputs += list(tables())
    inputs += list(families())
    inputs += list(traced())
    inputs += list(kept())
    # Of commands, the first byte selects one.
    for target, reader, count in (("of_plan", "plan", 8),
                                  ("of_program", "traced", 4),
                                  ("of_schedule", "schedule", 3),
                                  ("of_audit", "program", 3)):
        inputs += [(target, bytes([first]) + data) for name, data in inputs
                   if name == reader for first in range(count)]
    inputs += [("yaml", data) for target, data in inputs
               if target in ("project", "settings")]
    inputs += [("gzip", gzip.compress(data, mtime=0))
               for target, data in inputs if target in ("plan", "size")]
    for target in ("plan_eformer", "plan_fjformer", "round_trip"):
        inputs += [(target, bytes(range(seed, seed + 120, 3)))
                   for seed in range(0, 40, 10)]
    counts = {}
    for target, data in inputs:
        folder = os.path.join(out, target)
        os.makedirs(folder, exist_ok=True)
        number = counts[target] = counts.get(target, -1) + 1
        with open(os.path.join(folder, f"seed-{number:03}"), "wb") as file:
            file.write(data)
    print(", ".join(f"{name} {count + 1}" for name, count in counts.items()))


if __name__ == "__main__":
    main()
