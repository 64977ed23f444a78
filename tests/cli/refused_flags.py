"""Refused flags and their combinations."""

from refused_documents import INPUTS, Reader

FLAGS = [
    Reader("flags",
           "cost --mesh tp:2 --rules r.yaml --manifest m.json --batch "
           "1099511627777", [
        ("",
         "SHD023 1:1 `--batch` is more than 2^40"),
    ], INPUTS),
    Reader("flags",
           "check --mesh tp:2 --rules r.yaml --manifest m.json --batch "
           "1099511627777", [
        ("",
         "SHD023 1:1 `--batch` is more than 2^40"),
    ], INPUTS),
    Reader("flags",
           "cost --mesh tp:2 --rules r.yaml --manifest m.json --batch "
           "100000000000000000000", [
        ("",
         "SHD023 1:1 `100000000000000000000` is larger than "
         "9223372036854775807, the largest number that is read"),
    ], INPUTS),
    Reader("flags",
           "cost --mesh tp:2 --rules r.yaml --manifest m.json --dtype F4", [
        ("",
         "SHD001 1:1 `F4` is not a dtype of at least one byte per element, "
         "such as bfloat16"),
    ], INPUTS),
    Reader("flags",
           "cost --mesh tp:2 --rules r.yaml --manifest m.json --zero stage3", [
        ("",
         "SHD001 1:1 `stage3` is no stage of ZeRO"),
    ], INPUTS),
    Reader("flags", "cost --plan p.json --mesh tp:2", [
        ("",
         "SHD001 1:1 the plan is that of `--plan`, so `--mesh` has no effect"),
    ], INPUTS),
    Reader("flags", "report --plan p.json --illegal drop", [
        ("",
         "SHD001 1:1 the plan is that of `--plan`, so `--illegal` has no "
         "effect"),
    ], INPUTS),
    Reader("flags", "show memory --plan p.json --modes decode", [
        ("",
         "SHD001 1:1 the plan is that of `--plan`, so `--modes` has no "
         "effect"),
    ], INPUTS),
    Reader("flags", "export csv --plan p.json --rules r.yaml", [
        ("",
         "SHD001 1:1 the plan is that of `--plan`, so `--rules` has no "
         "effect"),
    ], INPUTS),
    Reader("flags", "diff a.json b.json --devices 2", [
        ("",
         "SHD001 1:1 both sides are read from files, so `--devices` has no "
         "effect"),
    ], INPUTS),
    Reader("flags", "diff --between train,decode m.json m.json", [
        ("",
         "SHD001 1:13 --between compares two modes of one plan"),
    ], INPUTS),
    Reader("flags",
           "search --all --rules r.yaml --manifest m.json --devices 1048576 --axes "
           "a,b,c,d,e,f,g", [
        ("",
         "SHD001 1:8 there are more than 2,000 meshes of 1,048,576 devices "
         "over 7 axes"),
    ], INPUTS),
    Reader("flags", "import dtensor r.yaml -o x --mesh-output x", [
        ("",
         "SHD001 1:35 `--output` and `--mesh-output` name one file"),
    ], INPUTS),
    Reader("flags", "plan --mesh tp:2 --rules r.yaml --manifest m.json "
           "--modes train,decod", [
        ("",
         "SHD001 1:72 `decod` is none of: train, prefill, decode, insert"),
    ], INPUTS),
    Reader("flags", "eval get_safe_hash_int -o x --save x", [
        ("",
         "SHD001 1:36 `--output` and `--save` name one file"),
    ], INPUTS),
    Reader("flags", "import python r.py", [
        ("",
         "SHD001 1:15 the Python package of shardc imports `python`"),
    ], INPUTS),
    Reader("flags", "import t5x r.py", [
        ("",
         "SHD001 1:15 the Python package of shardc imports `t5x`"),
    ], INPUTS),
    Reader("flags", "import none r.yaml", [
        ("",
         "SHD001 1:15 there is no importer `none`"),
    ], INPUTS),
    Reader("flags", "import dtensor r.yaml --symbol A", [
        ("",
         "SHD001 1:30 `--symbol` does not apply to the format `dtensor`"),
    ], INPUTS),
    Reader("flags", "show manifest --manifest m.json --model c.json", [
        ("",
         "SHD001 1:22 `--manifest` and `--model` each give a parameter "
         "tree, and one can be shown"),
    ], INPUTS),
    Reader("flags", "show manifest --manifest m.json --naming hf", [
        ("",
         "SHD001 1:40 `--naming` applies to the parameters of `--model`"),
    ], INPUTS),
    Reader("flags",
           "checkpoint merge m.json -o out --as orbax --max-shard-size 1GiB", [
        ("",
         "SHD001 1:50 --max-shard-size is for safetensors files, not for "
         "--as orbax"),
    ], INPUTS),
    Reader("flags",
           "checkpoint split --plan p.json --checkpoint c --output o --as dcp --per shard", [
        ("",
         "SHD001 1:74 --per is for safetensors files, not for --as dcp"),
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
    Reader("flags", "show rules --rules r.yaml --rules r.yaml --format yaml", [
        ("",
         "SHD001 1:49 `--format yaml` prints one file unchanged, and 2 "
         "files are given"),
    ], INPUTS),
    Reader("flags", "show rules --rules r.yaml --rules s.yaml --resolved", [
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
    Reader("flags", "checkpoint merge", [
        ("",
         "SHD001 1:8 DIR is required"),
    ], INPUTS),
    Reader("flags",
           "checkpoint split --mesh tp:2 --rules r.yaml --manifest m.json m.json", [
        ("",
         "SHD001 1:25 `checkpoint split` has no option `--mesh`"),
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
    Reader("flags",
           "search --mesh tp:2 --rules - --manifest m.json --batch 8 --seq 16 "
           "--profile h100-sxm --keep rules", [
        ("",
         "SHD001 1:1 `search` reads its rules several times, and standard "
         "input can be read only once"),
    ], INPUTS),
    Reader("flags", "suggest --devices 1048577 --manifest m.json", [
        ("",
         "SHD001 1:8 the number of devices or sequences is too large"),
    ], INPUTS),
    Reader("flags", "show mesh --mesh ,", [
        ("",
         "SHD002 - there is no file `,`"),
    ], INPUTS),
    Reader("flags", "show mesh --mesh 2,2,2,2,2,2,2,2,2", [
        ("",
         "SHD022 1:1 9 sizes without the names of axes"),
    ], INPUTS),
]
