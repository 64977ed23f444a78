"""Refused files that shardc or a checkpoint library has written."""

import json

from refused_documents import FILE, GONE, INDEX, PIECE, W, Reader, index, plan

WRITTEN_BY_PROGRAMS = [
    Reader("plan", "export jax-json --plan IN", [
        ("[]",
         "SHD022 1:1 this is not a plan: its `schema` is not "
         "`shardc.plan/v1`"),
        (plan("schema", "shardc.plan/v2"),
         "SHD022 1:1 a plan has `stages` exactly if its `schema` is "
         "`shardc.plan/v2`"),
        (plan("schema", "shardc.plan/v9"),
         "SHD022 1:12 this plan has the schema `shardc.plan/v9`; this shardc "
         "reads `shardc.plan/v1` and `shardc.plan/v2`"),
        (plan("modes", ["train", "dream"]),
         "SHD022 1:259 `modes` of the plan is not a list of modes"),
        (plan("modes", []),
         "SHD022 1:249 the plan has no mode"),
        (plan("modes", ["train", "train"]),
         "SHD022 1:259 this mode is given twice"),
        (plan("modes", "train"),
         "SHD022 1:249 `modes` of the plan is not a list of modes"),
        (plan("mesh", GONE),
         "SHD022 1:1 the plan has no `mesh`"),
        (plan("mesh", "axes", 0, "size", 0),
         "SHD023 1:161 `size` of an axis is not an integer of 1 or more"),
        (plan("mesh", "axes", 0, "name", "ep"),
         "SHD022 1:181 a mesh axis has a name of its own and a size of 1 or "
         "more"),
        (plan("mesh", "axes", 0, "type", "odd"),
         "SHD022 1:172 `type` of an axis is not one of `auto`, `explicit` "
         "and `manual`"),
        (plan("mesh", "devices", 9),
         "SHD040 1:236 the axes' sizes multiply to 8, which is not the "
         "number of devices"),
        (plan("mesh", "slices", 2),
         "SHD022 1:249 `slices` and `dcn` do not agree with each other and "
         "the axes"),
        (plan("mesh", "dcn", [3, 1]),
         "SHD022 1:246 `slices` and `dcn` do not agree with each other and "
         "the axes"),
        (plan(*W, 1),
         "SHD022 1:399 a parameter is not an object"),
        (plan(*W, "shape", 8),
         "SHD022 1:409 `shape` of a parameter is not a list of integers of 0 "
         "or more, or null"),
        (plan(*W, "shape", [8, "4"]),
         "SHD022 1:413 `shape` of a parameter is not a list of integers of 0 "
         "or more, or null"),
        (plan(*W, "shape", [8, -1]),
         "SHD023 1:413 `shape` of a parameter is not a list of integers of 0 "
         "or more, or null"),
        (plan(*W, "shape", [2 ** 62, 4]),
         "SHD024 1:409 the size of shape [4611686018427387904, 4] does not "
         "fit in 64 bits"),
        (plan(*W, "dtype", "BF17"),
         "SHD051 1:426 this data type is not known"),
        (plan(*W, "dtype", 16),
         "SHD022 1:426 `dtype` of a parameter is not a string or null"),
        (plan(*W, "spec", GONE),
         "SHD022 1:399 a parameter has no `spec`"),
        (plan(*W, "spec", "tp"),
         "SHD022 1:442 `spec` of a parameter is not a list with null, an axis "
         "or a list of axes for each dimension"),
        (plan(*W, "spec", [1]),
         "SHD022 1:443 `spec` of a parameter is not a list with null, an axis "
         "or a list of axes for each dimension"),
        (plan(*W, "spec", ["xp"]),
         "SHD028 1:443 the plan's mesh has no axis `xp`"),
        (plan(*W, "spec", [["tp", None]]),
         "SHD022 1:450 `spec` of a parameter is not a list with null, an axis "
         "or a list of axes for each dimension"),
        (plan(*W, "rule", 2),
         "SHD022 1:464 the plan has no such rule"),
        (plan(*W, "rule", True),
         "SHD022 1:464 `rule` of a parameter is not the name of a rule, or "
         "null"),
        (plan(*W, "shard_shape", [8, 4]),
         "SHD022 1:482 the plan was edited: `shard_shape` is [8, 4], and "
         "the rest of the plan gives [2, 4]"),
        (plan(*W, "bytes_per_device", 17),
         "SHD022 1:510 the plan was edited: `bytes_per_device` is 17, and "
         "the rest of the plan gives 16"),
        (plan(*W, "modes", "decode", 1),
         "SHD022 1:534 a mode of a parameter is not an object"),
        (plan(*W, "modes", {"dream": {}}),
         "SHD022 1:524 `dream` is not one of `train`, `prefill`, `decode` and "
         "`insert`"),
        (plan(*W, "modes", {"decode": {"spec": ["xp"]}}),
         "SHD022 1:534 a mode of a parameter has no `shard_shape`"),
        (plan(*W, "modes", "decode", "spec", ["xp"]),
         "SHD028 1:544 the plan's mesh has no axis `xp`"),
        (plan(*W, "corrections", []),
         "SHD022 1:621 `corrections` of a parameter is not a list of one or "
         "more corrections"),
        (plan(*W, "corrections", [1]),
         "SHD022 1:622 a correction is not an object"),
        (plan(*W, "odd", 1),
         "SHD021 1:606 `odd` is not a member of a parameter"),
        (plan("params", "e", "placement", "coordinate", 2),
         "SHD022 1:727 the mesh has no coordinate 2 along `ep`"),
        (plan("params", "e", "placement", "axis", "xp"),
         "SHD022 1:727 the mesh has no coordinate 0 along `xp`"),
        (plan("params", "e", "placement", "ep"),
         "SHD022 1:727 `placement` of a parameter is not an object"),
        (plan("summary", "bytes", 81),
         "SHD022 1:854 the plan was edited: `bytes` is 81, and the rest of "
         "the plan gives 80"),
        (plan("summary", "params", "2"),
         "SHD022 1:826 `params` of the summary is not an integer of 0 or "
         "more"),
        (plan("summary", GONE),
         "SHD022 1:1 the plan has no `summary`"),
        (plan("attention", "dream", {}),
         "SHD022 1:803 `dream` is not one of `train`, `prefill`, `decode` "
         "and `insert`"),
        (plan("attention", "train", 1),
         "SHD022 1:785 a mode of activations is not an object"),
        (plan("attention", "train", {"query": 1}),
         "SHD022 1:795 `query` of a mode of activations is not a list with "
         "null, an axis or a list of axes for each dimension"),
        (plan("diagnostics", [1]),
         "SHD022 1:931 a diagnostic is not an object"),
        (plan("attention_corrections", [1]),
         "SHD022 1:941 a correction of an activation is not an object"),
        (plan("odd", 1),
         "SHD021 1:915 `odd` is not a member of the plan"),
        (plan("rules", 0, "params", 2),
         "SHD022 1:327 the plan was edited: `params` is 2, and the rest of "
         "the plan gives 1"),
        (plan("rules", [1]),
         "SHD022 1:280 a rule is not an object"),
        (plan("fingerprint", "sha256:0"),
         "SHD022 1:45 `fingerprint` of the plan is not `sha256:` and 64 "
         "hexadecimal digits"),
        (plan("mesh", "devices", 8),
         "SHD022 1:45 the plan was edited: its content has the fingerprint "
         "`sha256:868ee84b95795c252dd5ec44c2546eade704305c77af444bc00bdae098"
         "b78761`, not the one that it states"),
    ]),
    Reader("shards index", "checkpoint merge dir -o out.safetensors", [
        (index("schema", "x"),
         "SHD022 1:12 this is not an index of shards: its `schema` is not "
         "`shardc.shards/v1`"),
        (index("mode", "dream"),
         "SHD022 1:40 this is not a mode"),
        (index("per", "node"),
         "SHD022 1:56 `per` is device, process or shard"),
        (index("mesh", GONE),
         "SHD022 1:1 `mesh` is missing"),
        (index("mesh", "devices", 3),
         "SHD040 1:139 the axes' sizes multiply to 2, which is not the "
         "number of devices"),
        (index("params", "w", "dtype", "F33"),
         "SHD051 1:186 this dtype is unknown"),
        (index("params", "w", "shape", 4),
         "SHD022 1:169 `shape` is of the wrong type"),
        (index("params", "w", "shape", [4, -2]),
         "SHD023 1:173 this is not an integer from 0 to 2^63 - 1"),
        (index("params", "w", "shape", [2 ** 62, 4]),
         "SHD024 1:154 the size does not fit in 64 bits"),
        (index(*FILE, "file", "../a.safetensors"),
         "SHD055 1:214 `../a.safetensors` is not a safetensors file of the "
         "index's own directory"),
        (index(*FILE, "file", "a\\b.safetensors"),
         "SHD055 1:214 `a\\b.safetensors` is not a safetensors file of the "
         "index's own directory"),
        (index(*FILE, "file", "a.bin"),
         "SHD055 1:214 `a.bin` is not a safetensors file of the index's own "
         "directory"),
        (index(*FILE, "bytes", GONE),
         "SHD022 1:205 `bytes` is missing"),
        (index(*FILE, "devices", ["0"]),
         "SHD023 1:264 this is not an integer from 0 to 2^63 - 1"),
        (index(*PIECE, "param", "v"),
         "SHD061 1:279 `v` is not among the index's parameters"),
        (index(*PIECE, "shape", [5, 2]),
         "SHD022 1:284 the shard is outside its parameter of shape [4, 2]"),
        (index(*PIECE, "offset", [3, 0]),
         "SHD022 1:284 the shard is outside its parameter of shape [4, 2]"),
        (index(*PIECE, "offset", [0]),
         "SHD022 1:284 the shard is outside its parameter of shape [4, 2]"),
        (index(*PIECE, "checksum", "md5:0"),
         "SHD022 1:332 this is not a checksum"),
        (json.dumps(INDEX),
         "SHD002 - there is no file `dir/device-0.safetensors`"),
    ], file="dir/shards.json"),
    Reader("index of a set",
           "show manifest --manifest model.safetensors.index.json", [
        ('{"weight_map": 5}',
         "SHD022 1:16 `weight_map` is not an object"),
    ], file="model.safetensors.index.json"),
    Reader("DCP", "checkpoint merge d -o o.safetensors", [
        ("x",
         "SHD002 - the folder holds data files of PyTorch DCP and no "
         "`.metadata`, which is written last"),
    ], file="d/__0_0.distcp"),
    Reader("orbax", "checkpoint merge d -o o.safetensors", [
        ("[]",
         "SHD022 - the file must hold a JSON object"),
    ], file="d/_METADATA"),
    Reader("OCDBT", "checkpoint merge d -o o.safetensors", [
        ("x",
         "SHD050 - the manifest has only 1 byte"),
    ], file="d/manifest.ocdbt"),
    Reader("zarr", "checkpoint merge d -o o.safetensors", [
        ("[]",
         "SHD022 1:1 the zarr metadata cannot be read: a value is not an "
         "object"),
        ("{}",
         "SHD022 1:1 the zarr metadata lacks `shape`"),
        ('{"zarr_format": 2, "shape": [-1], "chunks": [1], "dtype": "<f4"}',
         "SHD023 1:30 a size of a shape must be an integer of at least 0"),
    ], file="d/a/.zarray"),
    Reader("set", "show manifest --manifest d", [
        ("",
         "SHD002 - `d` holds no `.safetensors` file and no checkpoint of "
         "orbax, zarr or PyTorch DCP"),
    ], file="d/other"),
    *(Reader("set", "show manifest --manifest d", [
        ("", f"SHD002 - the folder holds {form} (`{name}`), which shardc does "
         "not read"),
    ], file="d/" + name) for name, form in (
        ("pytorch_model-00001-of-00002.bin", "pickled tensors of PyTorch"),
        ("consolidated.00.pth", "pickled tensors of PyTorch"),
        ("model.pt", "pickled tensors of PyTorch"),
        ("flax_model.msgpack", "serialised arrays of Flax"),
        ("ckpt-1.data-00000-of-00001", "a checkpoint of TensorFlow"))),
]
