"""Refused files: what each message of the readers is caused by, and its place.

A row is a file's content, and the code, the place (line:column, or - for the
file itself) and the message of the first error. Those of importers are in
testdata/tables/imports.txt.
"""

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


READERS = [
    Reader("plan", "export jax-json --plan IN", [
        ("[]",
         "SHD022 1:1 this is not a plan: its `schema` is not "
         "`shardc.plan/v1`"),
        (plan("schema", "shardc.plan/v2"),
         "SHD022 1:1 a plan has `stages` exactly if its `schema` is "
         "`shardc.plan/v2`"),
        (plan("schema", "shardc.plan/v9"),
         "SHD022 1:12 this is not a plan: its `schema` is not "
         "`shardc.plan/v1`"),
        (plan("modes", ["train", "dream"]),
         "SHD022 1:259 this is not a mode"),
        (plan("modes", "train"),
         "SHD022 1:249 `modes` is of the wrong type"),
        (plan("mesh", GONE),
         "SHD022 1:1 `mesh` is missing"),
        (plan("mesh", "axes", 0, "size", 0),
         "SHD022 1:138 a mesh axis has a name of its own and a size of 1 or "
         "more"),
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
         "SHD022 1:399 a parameter is an object"),
        (plan(*W, "shape", 8),
         "SHD022 1:409 a shape is a list of integers"),
        (plan(*W, "shape", [8, "4"]),
         "SHD023 1:413 a dimension is an integer from 0 to 2^63 - 1"),
        (plan(*W, "shape", [8, -1]),
         "SHD023 1:413 a dimension is an integer from 0 to 2^63 - 1"),
        (plan(*W, "shape", [2 ** 62, 4]),
         "SHD024 1:409 the size of shape [4611686018427387904, 4] does not "
         "fit in 64 bits"),
        (plan(*W, "dtype", "BF17"),
         "SHD051 1:426 this data type is not known"),
        (plan(*W, "dtype", 16),
         "SHD051 1:426 this data type is not known"),
        (plan(*W, "spec", GONE),
         "SHD022 1:394 the parameter has no `spec`"),
        (plan(*W, "spec", "tp"),
         "SHD022 1:442 a spec is a list"),
        (plan(*W, "spec", [1]),
         "SHD022 1:443 an axis is a name"),
        (plan(*W, "spec", ["xp"]),
         "SHD028 1:443 the plan's mesh has no axis `xp`"),
        (plan(*W, "spec", [["tp", None]]),
         "SHD022 1:450 an axis is a name"),
        (plan(*W, "rule", 2),
         "SHD022 1:464 the plan has no such rule"),
        (plan(*W, "rule", "w"),
         "SHD022 1:464 `rule` of a parameter is not an integer of 0 or "
         "more, or null"),
        (plan(*W, "shard_shape", [8, 4]),
         "SHD022 1:482 the plan was edited: `shard_shape` is [8, 4], and "
         "the rest of the plan gives [2, 4]"),
        (plan(*W, "bytes_per_device", 17),
         "SHD022 1:510 the plan was edited: `bytes_per_device` is 17, and "
         "the rest of the plan gives 16"),
        (plan(*W, "modes", "decode", 1),
         "SHD022 1:534 `spec` is missing"),
        (plan(*W, "modes", {"dream": {}}),
         "SHD022 1:524 this is no mode"),
        (plan(*W, "modes", {"decode": {"spec": ["xp"]}}),
         "SHD028 1:544 the plan's mesh has no axis `xp`"),
        (plan(*W, "corrections", []),
         "SHD022 1:621 `corrections` is an empty list"),
        (plan(*W, "corrections", [1]),
         "SHD022 1:622 a correction is not an object"),
        (plan(*W, "odd", 1),
         "SHD021 1:606 `odd` is not a member of a parameter"),
        (plan("params", "e", "placement", "coordinate", 2),
         "SHD022 1:727 the mesh has no coordinate 2 along `ep`"),
        (plan("params", "e", "placement", "axis", "xp"),
         "SHD022 1:727 the mesh has no coordinate 0 along `xp`"),
        (plan("params", "e", "placement", "ep"),
         "SHD022 1:727 `axis` is missing"),
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
         "SHD022 1:785 the attention specs of a mode are an object"),
        (plan("attention", "train", {"query": 1}),
         "SHD022 1:795 the spec of an attention tensor is a list with null, "
         "an axis or a list of axes for each dimension"),
        (plan("diagnostics", [1]),
         "SHD022 1:931 a diagnostic is not an object"),
        (plan("attention_corrections", [1]),
         "SHD022 1:941 a correction of attention is not an object"),
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
    Reader("shards index", "merge dir -o out.safetensors", [
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
         "SHD022 1:284 the piece is outside its parameter of shape [4, 2]"),
        (index(*PIECE, "offset", [3, 0]),
         "SHD022 1:284 the piece is outside its parameter of shape [4, 2]"),
        (index(*PIECE, "offset", [0]),
         "SHD022 1:284 the piece is outside its parameter of shape [4, 2]"),
        (index(*PIECE, "checksum", "md5:0"),
         "SHD022 1:332 this is not a checksum"),
        (json.dumps(INDEX),
         "SHD002 - there is no file `dir/device-0.safetensors`"),
    ], file="dir/shards.json"),
    Reader("flags",
           "cost --mesh tp:2 --rules r.yaml --manifest m.json --batch "
           "1099511627777", [
        ("",
         "SHD023 1:1 `--batch` is more than 2^40"),
    ], INPUTS),
    Reader("flags",
           "cost --mesh tp:2 --rules r.yaml --manifest m.json --dtype F4", [
        ("",
         "SHD001 1:1 `F4` is not a dtype of at least one byte per element, "
         "such as bfloat16"),
    ], INPUTS),
    Reader("flags", "diff --between train,decode m.json m.json", [
        ("",
         "SHD001 1:13 --between compares two modes of one plan"),
    ], INPUTS),
    Reader("flags",
           "fit --rules r.yaml --manifest m.json --devices 1048576 --axes "
           "a,b,c,d,e,f,g", [
        ("",
         "SHD001 1:8 there are more than 2,000 meshes of 1,048,576 devices "
         "over 7 axes"),
    ], INPUTS),
    Reader("flags", "import dtensor r.yaml -o x --mesh-output x", [
        ("",
         "SHD001 1:35 `--output` and `--mesh-output` name one file"),
    ], INPUTS),
    Reader("flags", "import flax r.yaml --set full", [
        ("",
         "SHD001 1:1 this is not NAME=VALUE"),
    ], INPUTS),
    Reader("flags", "import none r.yaml", [
        ("",
         "SHD001 1:15 there is no importer `none`"),
    ], INPUTS),
    Reader("flags", "import dtensor r.yaml --symbol A", [
        ("",
         "SHD001 1:30 `--symbol` does not apply to the format `dtensor`"),
    ], INPUTS),
    Reader("flags", "manifest --manifest m.json --model c.json", [
        ("",
         "SHD001 1:17 `--manifest` and `--model` each give a parameter "
         "tree, and one can be shown"),
    ], INPUTS),
    Reader("flags", "manifest --manifest m.json --naming hf", [
        ("",
         "SHD001 1:35 `--naming` applies to the parameters of `--model`"),
    ], INPUTS),
    Reader("flags",
           "merge m.json -o out --to orbax --max-shard-size 1GiB", [
        ("",
         "SHD001 1:39 --max-shard-size is for safetensors files, not for "
         "--to orbax"),
    ], INPUTS),
    Reader("flags", "resolve [TP] --illegal drop", [
        ("",
         "SHD001 1:23 `--illegal` needs a shape and a mesh"),
    ], INPUTS),
    Reader("flags", "resolve [TP] --mode train --mode-dim 0", [
        ("",
         "SHD001 1:23 `--mode` and `--mode-dim` both choose the mode"),
    ], INPUTS),
    Reader("flags", "resolve [TP] --mode-dim -2", [
        ("",
         "SHD001 1:8 the mode depends on dimension -2 of a shape, and no "
         "shape is given"),
    ], INPUTS),
    Reader("flags", "resolve [TP] --mode-dim -2 --shape 4", [
        ("",
         "SHD001 1:45 the mode depends on dimension -2, but shape `4` has 1 "
         "dimension"),
    ], INPUTS),
    Reader("flags", "rules --rules r.yaml --rules r.yaml --format yaml", [
        ("",
         "SHD001 1:44 `--format yaml` prints one file unchanged, and 2 "
         "files are given"),
    ], INPUTS),
    Reader("flags", "rules --rules r.yaml --rules s.yaml --resolved", [
        ("",
         "SHD041 4:5 these rules use both separators, and one file can only "
         "have one"),
    ], {**INPUTS, 
         "r.yaml":
         "version: 1\nseparator: '/'\nrules:\n  - {match: 'a/b', spec: []}\n", 
         "s.yaml":
         "version: 1\nseparator: '.'\nrules:\n"
         "  - {match: 'a.b', spec: []}\n"}),
    Reader("flags", "plan --project p.yaml", [
        ("",
         "SHD001 1:8 the project has 2 targets and none is chosen"),
    ], {**INPUTS, 
         "p.yaml":
         "version: 1\ntargets:\n  a: {mesh: 'tp:2', rules: [r.yaml], "
         "manifest: m.json}\n  b: {mesh: 'tp:4', rules: [r.yaml], manifest: "
         "m.json}\n"}),
    Reader("flags", "plan --project p.yaml --diff", [
        ("",
         "SHD001 3:3 the target has no `plan` to compare with"),
    ], {**INPUTS, 
         "p.yaml":
         "version: 1\ntargets:\n  a: {mesh: 'tp:2', rules: [r.yaml], "
         "manifest: m.json}\n"}),
    Reader("flags", "suggest --mesh tp:2 --manifest e.json", [
        ("",
         "SHD002 - there are no parameters"),
    ], {**INPUTS, "e.json": '{"schema": "shardc.manifest/v1", "params": {}}'}),
    Reader("flags", "suggest --mesh tp:2 --manifest e.json", [
        ("",
         "SHD002 - 1 of 1 parameter have no shape"),
    ], {**INPUTS, 
         "e.json":
         '{"schema": "shardc.manifest/v1", "params": {"a": {"shape": null, '
         '"dtype": null}}}'}),
    Reader("flags", "verify --mesh tp:2 --model c.json", [
        ("",
         "SHD001 1:27 the model's config.json gives no number of attention "
         "heads (`--model`)"),
    ], {**INPUTS, "c.json": "{}"}),
    Reader("flags",
           "verify step --mesh tp:2 --rules r.yaml --manifest m.json "
           "--dtype bf17", [
        ("",
         "SHD001 1:73 `bf17` is none of: float64, float32, bfloat16, float16"),
    ], INPUTS),
    Reader("flags", "explain SHD999", [
        ("",
         "SHD001 1:16 there is no diagnostic `SHD999`"),
    ], INPUTS),
    Reader("flags", "explain", [
        ("",
         "SHD001 1:8 there is nothing to explain"),
    ], INPUTS),
    Reader("flags",
           "explain nothing --mesh tp:2 --rules r.yaml --manifest m.json", [
        ("",
         "SHD001 1:16 the manifest has no parameter `nothing`"),
    ], INPUTS),
    Reader("flags",
           "export hf-tp-plan --mesh tp:2 --rules r.yaml --manifest m.json", [
        ("",
         "SHD062 1:15 `hf-tp-plan` needs the module names of PyTorch, which "
         "are separated by `.`"),
    ], INPUTS),
    Reader("flags",
           "export nothing --mesh tp:2 --rules r.yaml --manifest m.json", [
        ("",
         "SHD001 1:15 there is no export to `nothing`"),
    ], INPUTS),
    Reader("flags", "merge", [
        ("",
         "SHD001 1:8 --from is required"),
    ], INPUTS),
    Reader("flags",
           "split --mesh tp:2 --rules r.yaml --manifest m.json m.json", [
        ("",
         "SHD001 1:14 `split` has no option `--mesh`"),
    ], INPUTS),
    Reader("flags",
           "verify step --mesh tp:2 --rules r.yaml --manifest m.json --batch "
           "1099511627777777", [
        ("",
         "SHD001 1:65 `--batch` is 1,099,511,627,777,777, 4,294,967,296 at "
         "most are counted"),
    ], INPUTS),
    Reader("flags",
           "verify step --mesh tp:2 --rules r.yaml --manifest m.json --mode "
           "decode --remat full", [
        ("",
         "SHD001 1:79 `--remat` has an effect only in a training step, and "
         "`--mode` names none"),
    ], INPUTS),
    Reader("flags",
           "verify step --mesh tp:2 --rules r.yaml --manifest m.json --mode "
           "decode --microbatches 2", [
        ("",
         "SHD001 1:79 `--microbatches` has an effect only in a training "
         "step, and `--mode` names none"),
    ], INPUTS),
    Reader("flags",
           "verify step --mesh tp:2 --rules r.yaml --manifest m.json "
           "--microbatches 65", [
        ("",
         "SHD001 1:65 `--microbatches` is 65, 64 at most are run"),
    ], INPUTS),
    Reader("flags",
           "verify step --mesh tp:2 --rules r.yaml --manifest m.json "
           "--operation ring,ulysses", [
        ("",
         "SHD001 1:65 a step has one attention operation, and `--operation` "
         "names 2"),
    ], INPUTS),
    Reader("flags", "suggest --devices 1048577 --manifest m.json", [
        ("",
         "SHD001 1:8 the number of devices or sequences is too large"),
    ], INPUTS),
    Reader("flags", "mesh --mesh 2,2,2,2,2,2,2,2,2", [
        ("",
         "SHD022 1:1 9 sizes without the names of axes"),
    ], INPUTS),
    Reader("program", "audit IN", [
        ("",
         "SHD007 - this file holds no program"),
        ("HloModule a, num_partitions=0\n",
         "SHD005 1:14 a program runs on 1 to 1,048,576 devices"),
        ("HloModule a, num_partitions=99999999999\n",
         "SHD005 1:14 a program runs on 1 to 1,048,576 devices"),
    ]),
    Reader("rules", "plan --mesh tp:2 --rules IN --manifest m.json", [
        ("version: 1\nregister:\n  X: {rule: ''}\nrules: []\n",
         "SHD026 3:13 a registration's rule is empty"),
    ], INPUTS),
    # A block, a role and ops of a model's section.
    Reader("model section", "plan --mesh tp:2 --rules IN --manifest m.json", [
        (section("blocks: {'a b': []}"),
         "SHD022 4:12 `a b` cannot be the name of a block"),
        (section("blocks: {a: {b: 1}}"),
         "SHD022 4:15 the block `a` is a mapping, not a list of ops"),
        (section("blocks: {a: 'x = f(y'}"),
         "SHD022 4:15 the string `x = f(y` is not an op"),
        (section("begin: {b: 1}"),
         "SHD022 4:10 `begin` is a mapping, not a list of ops"),
        (section("params: {q: ['q', [d], {bias: [d]}]}"),
         "SHD022 4:33 the pattern of `q` does not end in a word and `$`, from "
         "which the name of its bias would follow"),
        (section("params: {q: ['q\\.w$', [d], {bias: [d], "
                 "optional_bias: [d]}]}"),
         "SHD022 4:57 `q` has both `bias` and `optional_bias`"),
        (section("repeat: [1]"),
         "SHD022 4:11 `repeat` is a list, not an expression"),
    ], INPUTS),
    # What a model's section makes of a configuration.
    Reader("formulas",
           "verify step --mesh tp:2 --rules IN --model c.json --seq 4 "
           "--batch 2",
           [
        (section("norm: {epsilon: \"'a'\"}"),
         "SHD023 4:19 `'a'` is not a number"),
        (section("activation: 5"),
         "SHD022 4:15 `5` is no word"),
        (section("end: []"),
         "SHD022 - the model's section makes no `logits`"),
    ], {"c.json": BERT}),
    Reader("profile",
           "cost --mesh tp:2 --rules r.yaml --manifest m.json --profile "
           "p.yaml", [
        ("schema: shardc.profile/v1\nbase: nothing\n",
         "SHD061 2:7 `base` is `nothing`, which is no profile"),
        ("schema: shardc.profile/v1\nbase: h100-80gb\n"
         "links: {far: {latency: 1}}\n",
         "SHD022 3:24 `far` has no latency of its own"),
    ], INPUTS, file="p.yaml"),
    Reader("run",
           "calibrate --profile h100-sxm --run run.yaml", [
        ("schema: shardc.run/v2\nstep_s: 1\n",
         "SHD022 1:9 `schema` is `shardc.run/v2`, not `shardc.run/v1`"),
        ("schema: shardc.run/v1\nmesh: tp:2\n",
         "SHD022 1:1 the run has no time"),
        ("schema: shardc.run/v1\nstep_s: 1\n"
         "tokens_per_second_per_device: 5\n",
         "SHD022 3:31 the run has both `step_s` and "
         "`tokens_per_second_per_device`"),
        ("schema: shardc.run/v1\nmesh: tp:2\nrules: none.yaml\n"
         "manifest: m.json\nstep_s: 1\n",
         "SHD002 - there is no file `none.yaml`"),
        ("schema: shardc.run/v1\nmesh: tp:2\nrules: r.yaml\n"
         "manifest: m.json\nstep_s: 1\n",
         "SHD022 5:9 the step of this run has no expected time"),
    ], INPUTS, file="run.yaml"),
    Reader("index of a set",
           "manifest --manifest model.safetensors.index.json", [
        ('{"weight_map": 5}',
         "SHD022 1:16 `weight_map` is not an object"),
    ], file="model.safetensors.index.json"),
    Reader("DCP", "merge d -o o.safetensors", [
        ("x",
         "SHD002 - the folder holds data files of PyTorch DCP and no "
         "`.metadata`, which is written last"),
    ], file="d/__0_0.distcp"),
    Reader("orbax", "merge d -o o.safetensors", [
        ("[]",
         "SHD022 - the file must hold a JSON object"),
    ], file="d/_METADATA"),
    Reader("OCDBT", "merge d -o o.safetensors", [
        ("x",
         "SHD050 - the manifest has only 1 byte"),
    ], file="d/manifest.ocdbt"),
    Reader("zarr", "merge d -o o.safetensors", [
        ("[]",
         "SHD022 1:1 the zarr metadata cannot be read: a value is not an "
         "object"),
        ("{}",
         "SHD022 1:1 the zarr metadata lacks `shape`"),
        ('{"zarr_format": 2, "shape": [-1], "chunks": [1], "dtype": "<f4"}',
         "SHD023 1:30 a size of a shape must be an integer of at least 0"),
    ], file="d/a/.zarray"),
    Reader("set", "manifest --manifest d", [
        ("",
         "SHD002 - `d` holds no `.safetensors` file and no checkpoint of "
         "orbax, zarr or PyTorch DCP"),
    ], file="d/other"),
    *(Reader("set", "manifest --manifest d", [
        ("", f"SHD002 - the folder holds {form} (`{name}`), which shardc does "
         "not read"),
    ], file="d/" + name) for name, form in (
        ("pytorch_model-00001-of-00002.bin", "pickled tensors of PyTorch"),
        ("consolidated.00.pth", "pickled tensors of PyTorch"),
        ("model.pt", "pickled tensors of PyTorch"),
        ("flax_model.msgpack", "serialised arrays of Flax"),
        ("ckpt-1.data-00000-of-00001", "a checkpoint of TensorFlow"))),
    Reader("families", "manifest --model IN", [
        ('{"model_type": "llama", "vocab_size": null, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD022 1:39 the configuration has no `vocab_size`"),
        ('{"model_type": "llama", "vocab_size": -1, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD023 1:39 `vocab_size` is -1, and a size is at least 1"),
        ('{"model_type": "llama", "vocab_size": "8", "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD023 1:39 `vocab_size` is the string `8`, not an integer"),
        ('{"model_type": "llama", "vocab_size": 4611686018427387904, '
         '"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": '
         '2, "num_attention_heads": 2}',
         "SHD005 1:39 `vocab_size` is larger than in any model"),
        ('{"model_type": "llama", "vocab_size": 0, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD023 1:39 `vocab_size` is 0, and a size is at least 1"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": null, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD022 1:58 the configuration has no `hidden_size`"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": -1, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD023 1:58 `hidden_size` is -1, and a size is at least 1"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": "8", '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD023 1:58 `hidden_size` is the string `8`, not an integer"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": '
         '4611686018427387904, "intermediate_size": 12, '
         '"num_hidden_layers": 2, "num_attention_heads": 2}',
         "SHD005 1:58 `hidden_size` is larger than in any model"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 0, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD023 1:58 `hidden_size` is 0, and a size is at least 1"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": null, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD022 1:82 the configuration has no `intermediate_size`"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": -1, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD023 1:82 `intermediate_size` is -1, and a size is at least 1"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": "8", "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD023 1:82 `intermediate_size` is the string `8`, not an integer"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 4611686018427387904, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD005 1:82 `intermediate_size` is larger than in any model"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 0, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD023 1:82 `intermediate_size` is 0, and a size is at least 1"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": null, '
         '"num_attention_heads": 2}',
         "SHD022 1:107 the configuration has no `num_hidden_layers`"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": -1, '
         '"num_attention_heads": 2}',
         "SHD023 1:107 `num_hidden_layers` is -1, and a size is at least 1"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": "8", '
         '"num_attention_heads": 2}',
         "SHD023 1:107 `num_hidden_layers` is the string `8`, not an integer"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": '
         '4611686018427387904, "num_attention_heads": 2}',
         "SHD005 1:107 `num_hidden_layers` is larger than in any model"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 0, '
         '"num_attention_heads": 2}',
         "SHD023 1:107 `num_hidden_layers` is 0, and a size is at least 1"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": null}',
         "SHD022 1:133 the configuration has no `num_attention_heads`"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": -1}',
         "SHD023 1:133 `num_attention_heads` is -1, and a size is at least 1"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": "8"}',
         "SHD023 1:133 `num_attention_heads` is the string `8`, not an "
         "integer"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 4611686018427387904}',
         "SHD005 1:133 `num_attention_heads` is larger than in any model"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 0}',
         "SHD023 1:133 `num_attention_heads` is 0, and a size is at least 1"),
        ("[]",
         "SHD022 1:1 a model's configuration is a list, not an object"),
        ("{}",
         "SHD022 1:1 the configuration has no `model_type`"),
        ('{"model_type": 5, "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD022 1:16 the configuration has no `model_type`"),
        ('{"model_type": "lama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD061 1:16 there is no description of model type `lama`"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2000000, '
         '"num_attention_heads": 2}',
         "SHD005 1:107 `model.layers` is there 2,000,000 times, and the "
         "tree has more than 1,000,000 tensors"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2, "architectures": ["X"]}',
         "SHD061 1:153 the tree of `X` is not described"),
    ]),
    Reader("manifest", "plan --mesh tp:2 --rules r.yaml --manifest IN", [
        ("[]",
         "SHD022 1:1 a manifest is a list, not an object"),
        ('{"schema": "x", "params": {}}',
         "SHD022 1:12 `schema` is the string `x`, not `shardc.manifest/v1`"),
        ('{"schema": "shardc.manifest/v1"}',
         "SHD022 1:1 a manifest has no `params`"),
        ('{"schema": "shardc.manifest/v1", "params": 1}',
         "SHD022 1:44 `params` is the number `1`, neither a list nor an "
         "object"),
        ('{"schema": "shardc.manifest/v1", "params": {"": {"shape": [1]}}}',
         "SHD025 1:45 the name of a parameter is empty"),
        ('{"schema": "shardc.manifest/v1", "params": {"a\\u007f": {"shape": '
         "[1]}}}",
         "SHD025 1:45 the name `a\\x7f` holds a control character"),
        ('{"schema": "shardc.manifest/v1", "params": {"a\\u0000": {"shape": '
         "[1]}}}",
         "SHD025 1:45 the name `a\\x00` holds a NUL"),
        ('{"schema": "shardc.manifest/v1", "params": {"a": {"shape": '
         "[1.5]}}}",
         "SHD022 1:45 parameter `a` has no `dtype`"),
        ('{"schema": "shardc.manifest/v1", "params": {"a": {"shape": [-1]}}}',
         "SHD022 1:45 parameter `a` has no `dtype`"),
        ('{"schema": "shardc.manifest/v1", "params": {"a": {"shape": 5}}}',
         "SHD022 1:45 parameter `a` has no `dtype`"),
        ('{"schema": "shardc.manifest/v1", "params": {"a": {"shape": '
         "[4611686018427387904, 4]}}}",
         "SHD022 1:45 parameter `a` has no `dtype`"),
        ('{"schema": "shardc.manifest/v1", "params": {"a": {"dtype": '
         '"bf17"}}}',
         "SHD022 1:45 parameter `a` has no `shape`"),
        ('{"schema": "shardc.manifest/v1", "params": {"a": 5}}',
         "SHD022 1:50 parameter `a` is the number `5`, not an object"),
        ('{"schema": "shardc.manifest/v1", "separator": "|", "params": '
         '{"a": {}}}',
         "SHD022 1:47 `separator` is the string `|`"),
        ('{"schema": "shardc.manifest/v1", "separator": 5, "params": {"a": '
         "{}}}",
         "SHD022 1:47 `separator` is the number `5`"),
        ('{"schema": "shardc.manifest/v1", "params": {"a": {}, "a": {}}}',
         "SHD020 1:54 the key `a` is given twice in one object"),
        ('{"schema": "shardc.manifest/v1", "params": [{"shape": [1]}]}',
         "SHD022 1:45 a parameter has no `name`"),
        ('{"schema": "shardc.manifest/v1", "params": [{"name": "a"}, '
         '{"name": "a"}]}',
         "SHD022 1:54 parameter `a` has no `shape`"),
        ('{"schema": "shardc.manifest/v1", "params": [{"name": 5}]}',
         "SHD022 1:45 the name of a parameter is the number `5`, not a "
         "string"),
        ('{"a": nan}',
         "SHD016 1:8 not well-formed JSON while parsing value - invalid "
         "literal"),
        ('{"a"',
         "SHD016 1:5 not well-formed JSON while parsing object separator - "
         "unexpected end of input; expected ':'"),
        ("",
         "SHD016 1:1 not well-formed JSON while parsing value - unexpected "
         "end of input; expected '[', '{', or a literal"),
    ], INPUTS),
    Reader("mesh", "mesh --mesh IN", [
        ("[]\n",
         "SHD022 1:1 a mesh is a list, not a mapping"),
        ("axes: 5\n",
         "SHD022 1:7 `axes` is the number `5`, not a mapping of names to "
         "sizes"),
        ("axes: {}\n",
         "SHD022 1:7 `axes` names no axis"),
        ("axes: {tp: 0}\n",
         "SHD023 1:12 the size of axis `tp` is 0"),
        ("axes: {tp: x}\n",
         "SHD023 1:12 the size of axis `tp` is `x`, which is not a decimal "
         "integer"),
        ("axes: {tp: -2}\n",
         "SHD023 1:12 the size of axis `tp` is -2"),
        ("axes: {a: -1, b: -1}\n",
         "SHD023 1:18 the sizes of both `a` and `b` are -1"),
        ("axes: {a: -1}\n",
         "SHD040 1:11 the size of axis `a` is -1, and the device count is "
         "not given"),
        ("axes: {a: 2}\ndevices: 3\n",
         "SHD040 2:10 the axes make 2 devices, not 3"),
        ("axes: {a: 2}\nslices: 2\ndcn: {a: 3}\n",
         "SHD040 3:6 the factors of `dcn` make 3, and there are 2 slices"),
        ("axes: {a: 4}\nslices: 3\n",
         "SHD040 2:9 no axis can be divided among 3 slices"),
        ("axes: {a: 4, b: 2}\nslices: 2\ndcn: {a: -1, b: -1}\n",
         "SHD023 3:6 two factors of `dcn` are -1"),
        ("axes: {a: 4, b: 2}\nslices: 2\ndcn: {c: 2}\n",
         "SHD061 3:7 `dcn` names `c`, which is no axis of this mesh"),
        ("axes: {a: 4}\nprocesses: 3\n",
         "SHD040 2:12 4 devices cannot be divided among 3 processes"),
        ("axes: {'': 2}\n",
         "SHD026 1:8 the name of an axis is an empty string"),
        ("axes: {'a b': 2}\n",
         "SHD026 1:8 axis name `a b` holds something else than letters, "
         "digits, `_`, `-` and `.`"),
        ("axes: {a: 2, a: 2}\n",
         "SHD020 1:14 key `a` is given twice"),
        ("axes: {a: 4294967296, b: 4294967296}\n",
         "SHD024 1:26 with axis `b` of size 4,294,967,296 the device count "
         "does not fit in 64 bits"),
        ("nope: 1\n",
         "SHD021 1:1 unknown key `nope` in a mesh"),
        ("axes: {a: 2}\ntypes: {a: odd}\n",
         "SHD021 2:1 unknown key `types` in a mesh"),
        ("axes: {a: 2}\ndevice: {profile: none}\n",
         "SHD061 2:19 no accelerator is called `none`"),
        ("axes: {a: 2}\ndevice: {memory: 5 apples}\n",
         "SHD023 2:18 `memory` is `5 apples`, not a size in bytes"),
    ]),
]
