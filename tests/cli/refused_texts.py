"""Refused files that people write: rules, profiles, runs, meshes, manifests."""

from refused_documents import BERT, INPUTS, Reader, section

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:0f\nsize 1\n"

WRITTEN_BY_PEOPLE = [
    Reader("program", "audit IN", [
        ("",
         "SHD007 - this file holds no program"),
        (LFS, "SHD064 1:1 this is a Git LFS pointer, not the file"),
        ("HloModule a, num_partitions=0\n",
         "SHD005 1:14 a program runs on 1 to 1,048,576 devices"),
        ("HloModule a, num_partitions=99999999999\n",
         "SHD005 1:14 a program runs on 1 to 1,048,576 devices"),
    ]),
    Reader("import", "import hlo IN --mesh tp:2", [
        (LFS, "SHD064 1:1 this is a Git LFS pointer, not the file"),
    ]),
    Reader("rules", "plan --mesh tp:2 --rules IN --manifest m.json", [
        (LFS, "SHD010 1:1 this is a Git LFS pointer, not the file"),
        ("<!DOCTYPE html>\n<html></html>\n",
         "SHD010 1:1 this is a web page"),
        ("version: 1\nregister:\n  X: {rule: ''}\nrules: []\n",
         "SHD026 3:13 a registration's rule is empty"),
        ("weight_decay: {exclude: [true]}\nrules: []\n",
         "SHD022 1:26 an entry of `exclude` is the boolean `true`, not a "
         "string"),
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
        ("schema: shardc.profile/v1\nbase: h100-80gb\nname: 5\n",
         "SHD022 3:7 `name` is the number `5`, not a string"),
        ("schema: shardc.profile/v1\nbase: h100-80gb\n"
         "sources: {memory.bytes: [true]}\n",
         "SHD022 3:26 an entry of `memory.bytes` is the boolean `true`, not a "
         "string"),
    ], INPUTS, file="p.yaml"),
    Reader("run",
           "calibrate --profile h100-sxm --run run.yaml", [
        ("schema: shardc.run/v2\nstep_s: 1\n",
         "SHD022 1:9 `schema` is `shardc.run/v2`, not `shardc.run/v1`"),
        ("schema: shardc.run/v1\nname: 5\nstep_s: 1\n",
         "SHD022 2:7 `name` is the number `5`, not a string"),
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
         "SHD022 5:9 the step of this run has no expected time, since this is not known: "
         "the role of 1 matrix: `a/w` (256 B); settled by a `model:` section in the rules"),
        ("schema: shardc.run/v1\nmesh: tp:2\nrules: r.yaml\n"
         "manifest: m.json\nbatch: 0\nstep_s: 1\n",
         "SHD023 5:8 `0` is not a whole number from 1 on"),
        ("schema: shardc.run/v1\nmesh: tp:2\nrules: r.yaml\n"
         "manifest: m.json\nmaster_dtype: bf17\nstep_s: 1\n",
         "SHD001 5:15 `bf17` is not a dtype of at least one byte per element, "
         "such as bfloat16"),
        ("schema: shardc.run/v1\nmesh: tp:2\nrules: r.yaml\n"
         "manifest: m.json\ndtype: ''\nstep_s: 1\n",
         "SHD022 5:8 `dtype` is empty"),
        ("schema: shardc.run/v1\nrules: r.yaml\nmanifest: m.json\n"
         "step_s: 1\n",
         "SHD022 4:9 the run has no `mesh`"),
        ("schema: shardc.run/v1\nmesh: tp:-1\nrules: r.yaml\n"
         "manifest: m.json\nstep_s: 1\n",
         "SHD040 2:7 the size of axis `tp` is -1, and the device count is not "
         "given"),
    ], INPUTS, file="run.yaml"),
    Reader("manifest", "plan --mesh tp:2 --rules r.yaml --manifest IN", [
        ("version https://git-lfs.github.com/spec/v1\nsize 1\n",
         "SHD016 1:1 this is a Git LFS pointer, not the file"),
        ("<!DOCTYPE html>\n",
         "SHD016 1:1 this is a web page"),
        (b"PK\3\4\x14\0\0",
         "SHD016 1:1 this is a zip archive, such as a file of torch.save or "
         "numpy.savez"),
        (b"\x80\x02}q\0.",
         "SHD016 1:1 this is a pickle, such as a PyTorch checkpoint"),
        ('{\n<<<<<<< HEAD\n"a": 1\n=======\n"a": 2\n>>>>>>> b\n}',
         "SHD016 2:1 a merge conflict of Git is not resolved here"),
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
    Reader("mesh", "show mesh --mesh IN", [
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
         "SHD040 2:9 4 devices cannot be divided among 3 slices"),
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
