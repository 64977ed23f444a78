// Compares the complete messages about broken files with the expected ones.
#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "parse/render.h"

namespace shardc {
namespace {

struct Case {
  std::string_view kind;
  std::string_view text;
  std::string_view said;  // after the first line break
};

constexpr Case kCases[] = {
    {"rules",
     "rules:\n"
     "  - match: 'foo\n"
     "    spec: [tp]\n"
     "  - match: 'bar'\n",
     R"(
2:12: error: the quote `'` is closed on line 4 only [yaml-syntax]
    close it on the same line
)"},
    {"rules", "rules: [{match: 'a\342\200\213', spec: []}]\n",
     R"(
1:17: error: `match` holds a zero-width space, which is invisible [regex-semantic]
    type the pattern again without it; if names hold it, write `\x{200b}` in its place, in single quotes
)"},
    // The remedy works.
    {"rules", R"(rules: [{match: 'a\x{200b}', spec: []}]
)",
     "\n"},
    {"rules", "rules: {match: a, spec: []}\n",
     R"(
1:8: error: `rules` is a mapping, not a list of rules [schema]
    begin each rule with `- match:`
)"},
    {"rules",
     "rules:\n"
     "  - foo\n",
     R"(
2:5: error: a rule is the string `foo`, not a mapping [schema]
    its keys are `match`, `spec`, `modes`, `parts`, `illegal`, `min_size`, `place` and `note`
)"},
    {"rules",
     "rules:\n"
     "  - spec: []\n",
     R"(
2:5: error: a rule has no `match` [schema]
    write `match: 'PATTERN'`
)"},
    {"rules",
     "rules:\n"
     "  - match: a\n"
     "    spce: []\n",
     R"(
3:5: error: unknown key `spce` in a rule [unknown-key]
    did you mean `spec`?
)"},
    {"rules",
     "rules:\n"
     "  - {match: 123, spec: []}\n",
     R"(
2:13: error: `match` is the number `123`, not a string [schema]
    put it in quotes
)"},
    {"rules",
     "rules:\n"
     "  - match: 'a\n"
     "      b'\n"
     "    spec: []\n",
     R"(
2:12: error: `match` runs over several lines, which puts a space into it [regex-semantic]
    write it on one line in single quotes
)"},
    {"rules",
     "rules:\n"
     "  - match: |-\n"
     "      a/b\n"
     "    spec: []\n",
     R"(
2:12: error: `match` is a block, and a pattern is one line [regex-semantic]
    write it on one line in single quotes
)"},
    {"rules",
     "rules:\n"
     "  - match: a\n"
     "    spec: []\n"
     "    modes: {__autoregressive__: [], decode: [tp]}\n",
     R"(
4:37: error: mode `decode` is given twice [duplicate-key]
    remove one of the two
)"},
    {"rules",
     "rules:\n"
     "  - {match: \"a\\d\", spec: []}\n",
     R"(
2:17: error: an escape that YAML does not have [yaml-syntax]
    put patterns in single quotes: '\d+'
)"},
    {"rules",
     "rules:\n"
     "  - {match: \"a\\0\", spec: []}\n",
     R"(
2:13: error: a NUL character in a string [encoding]
)"},
    {"rules",
     "rules:\n"
     "  - {match: a, spec: [[[tp]]]}\n",
     R"(
2:24: error: a list inside a group of a spec [spec]
    a group is a flat list of names
)"},
    {"rules",
     "rules:\n"
     "  - {match: a, spec: [tp null, None, 'null', 3, {axis: '1'}, {axis: tp, "
     "x: 1}]}\n",
     R"(
2:23: error: `tp null` in a spec holds a space [spec]
    separate the names with a comma
2:32: error: `None` in a spec is Python's null [spec]
    write `null` without quotes for a dimension that is not split
2:38: error: `null` in a spec is the string, not null [spec]
    write `null` without quotes for a dimension that is not split
2:46: error: `3` in a spec is no name [spec]
    write a logical axis such as `BATCH`, an axis rule or a mesh axis
2:56: error: axis name `1` does not begin with a letter [axis-name]
2:73: error: unknown key `x` in `{axis: NAME}` [unknown-key]
    the keys of `{axis: NAME}` are `axis`
)"},
    {"rules",
     "rules:\n"
     "  - {match: a, spec: [tp, [dp, tp]]}\n",
     R"(
2:32: error: axis `tp` is given twice in one spec [spec]
    2:23: first given here
    an axis can split one dimension only
)"},
    {"rules",
     "rules:\n"
     "  - {match: a, spec: ~}\n",
     R"(
2:22: error: a spec is null [spec]
    write `[]` for a parameter that is not split
)"},
    {"rules",
     "rules:\n"
     "  - {match: a, spec: {0: fsdp, 1: tp}}\n",
     R"(
2:22: error: a spec has no `like` [schema]
    write a list with an entry for each dimension, such as `[FSDP, TP]`
)"},
    {"rules",
     "rules:\n"
     "  - {match: a, spec: {lik: x}}\n",
     R"(
2:23: error: unknown key `lik` in a spec [unknown-key]
    did you mean `like`?
)"},
    {"rules",
     "rules:\n"
     "  - match: a\n"
     "    spec: [tp]\n"
     "    modes: {decoding: [], train: {like: x}}\n",
     R"(
4:13: error: unknown mode `decoding` [unknown-key]
    the modes are `train`, `prefill`, `decode` and `insert`
4:34: error: the spec of a mode is a mapping [spec]
    `like` stands in `spec` only, and serves every mode
)"},
    {"rules",
     "rules:\n"
     "  - match: a\n"
     "    spec: []\n"
     "    illegal: skip\n"
     "    min_size: -1\n"
     "    place: {axis: ep, count: 8}\n",
     R"(
4:14: error: `illegal` is the string `skip` [schema]
    it can be `error`, `drop`, `shrink` or `pad`
5:15: error: `min_size` is `-1`, less than 0 [number]
6:12: error: `place` has no `index` [schema]
)"},
    {"rules",
     "axes: {heads: tp, kv_head_axis: [dp, dp], head: tp, head_axis: ep}\n",
     R"(
1:8: error: unknown axis rule `heads` [unknown-key]
    did you mean `head`?
1:38: error: axis `dp` is given twice in `kv_head_axis` [duplicate-key]
    remove one of the two
1:53: error: `head_axis` and `head` are the same axis rule [duplicate-key]
    remove one of the two
)"},
    {"rules",
     "register: {my axis: {rule: tp}, ÄXIS: {rule: tp}, 'null': {rule: tp}, "
     "' X ': {rule: tp}, X: {rule: tp}}\n",
     R"(
1:12: error: `my axis` cannot be registered: as a name in a spec, it holds a space [axis-name]
    begin the name with a letter, and use letters, digits, `_`, `-` and `.`
1:33: error: `ÄXIS` cannot be registered: as a name in a spec, it holds something else than letters, digits, `_`, `-` and `.` [axis-name]
    begin the name with a letter, and use letters, digits, `_`, `-` and `.`
1:51: error: `null` cannot be registered: as a name in a spec, it is the string, not null [axis-name]
    begin the name with a letter, and use letters, digits, `_`, `-` and `.`
1:90: error: `X` and ` X ` are the same logical axis [duplicate-key]
    remove one of the two
)"},
    {"rules",
     "register: {X: head, Y: {rul: head}, HEAD: {rule: tp}, __HEAD__: {rule: "
     "tp}}\n",
     R"(
1:15: error: a registration is the string `head`, not a mapping [schema]
    its keys are `rule`, `generation`, `override`, `unregister` and `missing_ok`
1:25: error: unknown key `rul` in a registration [unknown-key]
    did you mean `rule`?
1:55: error: `__HEAD__` and `HEAD` are the same logical axis [duplicate-key]
    remove one of the two
)"},
    {"rules", "bundles: {Q: TP, R: {axes: [TP], mode: never}}\n",
     R"(
1:14: error: a bundle is the string `TP`, not a list of axes [spec]
    write a list such as `[[FSDP, SP], TP]`
1:40: error: the mode of a bundle is the string `never` [schema]
    the modes are `train`, `prefill`, `decode` and `insert`, or a dimension's number
)"},
    {"rules",
     "activations: {hidden: 3, mlp: {spec: [TP], mode: {}}, x: {modes: {}}}\n",
     R"(
1:23: error: a spec is the number `3` [spec]
    write a list such as `[fsdp, tp]`, or a bundle's name
1:44: error: unknown key `mode` in an activation [unknown-key]
    did you mean `modes`?
1:58: error: an activation has no `spec` [schema]
)"},
    {"rules", "policy: {unmatched: ignore, compat: jax, ilegal: drop}\n",
     R"(
1:21: error: `unmatched` is the string `ignore` [schema]
    it can be `error` or `replicate`
1:37: error: `compat` is the string `jax` [schema]
    it can be `none`, `eformer` or `fjformer`
1:42: error: unknown key `ilegal` in `policy` [unknown-key]
    did you mean `illegal`?
)"},
    {"rules",
     "version: 2\n"
     "separator: ':'\n"
     "extends: {a: b}\n",
     R"(
1:10: error: version 2 of this format is not known [schema]
    this program reads version 1
2:12: error: `separator` is the string `:` [schema]
    it can be `/` or `.`
3:10: error: `extends` is a mapping, not a list of files [schema]
    write `extends: [builtin:llama, ./base.yaml]`
)"},
    {"rules", "extends: [missing.yaml, builtin:nope]\n",
     R"(
1:11: error: there is no file `missing.yaml` [missing]
    paths are relative to the file that holds them
1:25: error: there is no rule pack `builtin:nope` [reference]
    `shardc show rules` lists the packs
)"},
    {"manifest", "[]",
     R"(
1:1: error: a manifest is a list, not an object [schema]
    write an object of parameters, or `{"schema": "shardc.manifest/v1", "params": [...]}`
)"},
    {"manifest", "{\"w\": 3}",
     R"(
1:7: error: `w` is the number `3`, neither a parameter nor a tree of them [schema]
    a parameter is `{"shape": [...], "dtype": "BF16"}`
)"},
    {"manifest", "{\"schema\": \"shardc.manifest/v2\", \"params\": []}",
     R"(
1:12: error: `schema` is the string `shardc.manifest/v2`, not `shardc.manifest/v1` [schema]
)"},
    {"manifest", "{\"schema\": \"shardc.manifest/v1\"}",
     R"(
1:1: error: a manifest has no `params` [schema]
    write `"params": [{"name": ..., "shape": ..., "dtype": ...}]`
)"},
    {"manifest", "{\"w\": {\"shape\": [4, 2.5, -1, true], \"dtype\": \"F32\"}}",
     R"(
1:21: error: a dimension of `w` is `2.5`, which is not a decimal integer [number]
1:26: error: a dimension of `w` is `-1`, less than 0 [number]
1:30: error: a dimension of `w` is the boolean `true`, not an integer [number]
)"},
    {"manifest", "{\"w\": {\"shape\": [4], \"dtype\": \"F33\"}}",
     R"(
1:31: error: the dtype of `w` is `F33`, which is not known [dtype]
    write it as safetensors or numpy do: `BF16`, `float32`
)"},
    {"manifest",
     "{\"schema\": \"shardc.manifest/v1\", \"params\": [{\"name\": \"w\", "
     "\"shap\": [4], \"dtype\": null}]}",
     R"(
1:54: error: parameter `w` has no `shape` [schema]
    is `shap` meant?
)"},
    {"manifest",
     "{\"w\": {\"shape\": [2305843009213693952], \"dtype\": \"F32\"}}",
     R"(
1:17: error: the bytes of `w` with 2,305,843,009,213,693,952 elements of F32 do not fit in 64 bits [overflow]
)"},
    {"manifest",
     "{\"a/b\": {\"shape\": [], \"dtype\": \"F32\"}, \"a\": {\"b\": "
     "{\"shape\": [], \"dtype\": \"F32\"}}}",
     R"(
1:46: error: parameter `a/b` is given twice [duplicate-key]
    remove one of the two
)"},
    {"manifest",
     "{\"a.b\": {\"shape\": [], \"dtype\": \"F32\"}, \"a/b\": {\"shape\": [], "
     "\"dtype\": \"F32\"}}",
     R"(
-: error: as many names hold `/` as hold `.`: 1 of 2 parameters [separator]
    write `"separator": "/"` or `"."` in the manifest; only shardc's own JSON can have it: list the names, shapes and dtypes of another file in a manifest of that format (`man shardc-manifest`)
)"},
    {"manifest",
     "{\"\": {\"shape\": [], \"dtype\": \"F32\"}, \"a\\u0007\": {\"shape\": "
     "[], \"dtype\": \"F32\"}}",
     R"(
1:2: error: the name of a parameter is empty [name]
1:37: error: the name `a\x07` holds a control character [name]
)"},
    {"project",
     "version: 1\n"
     "targets: [a]\n",
     R"(
2:10: error: `targets` is a list, not a mapping [schema]
    give each target a name: `targets: {main: {mesh: ..., rules: ..., model: ...}}`
)"},
    {"project",
     "targets:\n"
     "  a: {mesh: [1], modes: [decod], batch: 0, memory: lots, kv_length: 3}\n",
     R"(
2:13: error: `mesh` is a list, not a string [schema]
2:26: error: a mode is the string `decod` [schema]
    the modes are `train`, `prefill`, `decode` and `insert`
2:41: error: `batch` is `0`, less than 1 [number]
2:52: error: `memory` is `lots`, not a size in bytes [number]
    write a number and a unit, such as `80GiB`
2:58: error: unknown key `kv_length` in a target [unknown-key]
    did you mean `kv_len`?
)"},
    {"project", "lint: {severity: {SHD203: fatal}, fail_on: always}\n",
     R"(
1:27: error: a severity is the string `fatal` [schema]
    it can be `error`, `warning` or `note`
1:44: error: `fail_on` is the string `always` [schema]
    it can be `error`, `warning`, `note` or `never`
)"},
};

TEST_CASE("messages about broken rules, manifests and projects") {
  for (const Case& test : kCases) {
    CAPTURE(test.text);
    CHECK("\n" + FindingsOf(test.kind, test.text) == test.said);
  }
}

}  // namespace
}  // namespace shardc
