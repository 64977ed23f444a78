// The texts that `shardc explain CODE` prints about names, specs, patterns and
// meshes. For example, SHD028 is reported for a spec with a name that is no
// logical axis, axis rule, bundle or mesh axis.
#include <array>

#include "emit/findings/pages/page.h"

namespace shardc {

std::span<const CodePage> RulePages() {
  static constexpr std::array kPages = {
      CodePage{
          .code = &code::kName,
          .what = "Reports a parameter name that is empty, or that holds a "
                  "control character or a NUL.",
          .why = "Such a name cannot be written in a pattern or shown on a "
                 "terminal, and a NUL ends it for other programs.",
          .fix = "Rename the parameter where the manifest is generated.",
          .bad = R"(--- model.json
{"schema": "shardc.manifest/v1",
 "params": {"": {"shape": [8], "dtype": "F32"}}}
$ shardc manifest --manifest model.json
)",
          .good = R"(--- model.json
{"schema": "shardc.manifest/v1",
 "params": {"bias": {"shape": [8], "dtype": "F32"}}}
$ shardc manifest --manifest model.json
)"},
      CodePage{
          .code = &code::kAxisName,
          .what = "Reports an axis name that is empty or that a spec could not "
                  "name.",
          .why = "A mesh axis is only useful if specs can refer to it.",
          .fix = "Give the axis a name of letters, digits and underscores that "
                 "begins with a letter.",
          .bad = "$ shardc mesh --mesh :2,tp:4\n",
          .good = "$ shardc mesh --mesh dp:2,tp:4\n"},
      CodePage{
          .code = &code::kSpec,
          .what = "Reports a spec that cannot be read: an axis written twice, "
                  "a list inside a list of axes, a value that is not a name.",
          .why = "An axis can shard one dimension of an array only: with both "
                 "dimensions sharded over `tp`, the devices would hold the "
                 "diagonal blocks and nothing else.",
          .fix = "Write one entry for each dimension: null, an axis, or a list "
                 "of axes, with every axis once.",
          .bad = R"(--- rules.yaml
rules:
- match: 'w$'
  spec: [tp, tp]
--- model.json
{"schema": "shardc.manifest/v1",
 "params": {"w": {"shape": [8, 8], "dtype": "F32"}}}
$ shardc plan --mesh fsdp:2,tp:2 --rules rules.yaml --manifest model.json
)",
          .good = R"(--- rules.yaml
rules:
- match: 'w$'
  spec: [fsdp, tp]
--- model.json
{"schema": "shardc.manifest/v1",
 "params": {"w": {"shape": [8, 8], "dtype": "F32"}}}
$ shardc plan --mesh fsdp:2,tp:2 --rules rules.yaml --manifest model.json
)"},
      CodePage{
          .code = &code::kUnknownName,
          .what = "Reports a name in a spec that is not a logical axis (built "
                  "in or registered), not an axis rule, not a bundle and not a "
                  "mesh axis.",
          .why = "If the name were read as an axis that the mesh lacks, the "
                 "dimension would be left unsharded.",
          .fix = "Take the name that the message suggests. `shardc resolve "
                 "'[NAME]'` shows what a name becomes, and `man shardc-rules` "
                 "lists the logical axes and bundles.",
          .bad = R"(--- rules.yaml
rules:
- match: 'w$'
  spec: ColumWise
--- model.json
{"schema": "shardc.manifest/v1",
 "params": {"w": {"shape": [8, 8], "dtype": "F32"}}}
$ shardc plan --mesh fsdp:2,tp:2 --rules rules.yaml --manifest model.json
)",
          .good = R"(--- rules.yaml
rules:
- match: 'w$'
  spec: ColumnWise
--- model.json
{"schema": "shardc.manifest/v1",
 "params": {"w": {"shape": [8, 8], "dtype": "F32"}}}
$ shardc plan --mesh fsdp:2,tp:2 --rules rules.yaml --manifest model.json
)"},
      CodePage{
          .code = &code::kCycle,
          .what = "Reports definitions that refer to each other in a cycle: a "
                  "file that extends itself, registered axes that name each "
                  "other, parameters that take their spec from each other.",
          .why = "Such a definition has no value, so nothing can be computed "
                 "from it.",
          .fix = "Break the cycle at one of the places that the message lists.",
          .bad = R"(--- rules.yaml
extends: [rules.yaml]
rules: []
$ shardc rules --rules rules.yaml
)",
          .good = R"(--- rules.yaml
extends: [builtin:llama]
rules: []
$ shardc rules --rules rules.yaml
)"},
      CodePage{
          .code = &code::kRegexSyntax,
          .what = "Reports a pattern that is not a valid RE2 expression: an "
                  "unclosed group, a repetition without an operand, or "
                  "look-around and back-references, which Python has and RE2 "
                  "does not.",
          .why = "RE2 takes time linear in the name for every pattern, which "
                 "is why it lacks them.",
          .fix = "Close the group or escape the character. In place of "
                 "`(?!norm)` put a rule for `norm` before this one: the first "
                 "match wins.",
          .bad = R"(--- rules.yaml
rules:
- match: 'q_proj(\.weight'
  spec: [TP, FSDP]
$ shardc rules --rules rules.yaml
)",
          .good = R"(--- rules.yaml
rules:
- match: 'q_proj(\.weight)'
  spec: [TP, FSDP]
$ shardc rules --rules rules.yaml
)"},
      CodePage{
          .code = &code::kRegexLimit,
          .what = "Reports a pattern that is longer than 32,768 bytes, repeats "
                  "more than 1,000 times, or takes more than 8 MiB compiled.",
          .why = "Nested repetitions multiply: the size of the automaton grows "
                 "with their product.",
          .fix = "Write `*` or `+` in place of a large count, or split the "
                 "pattern into several rules.",
          .bad = R"(--- rules.yaml
rules:
- match: '([0-9]{1000}){1000}'
  spec: [TP]
$ shardc rules --rules rules.yaml
)",
          .good = R"(--- rules.yaml
rules:
- match: '[0-9]+'
  spec: [TP]
$ shardc rules --rules rules.yaml
)"},
      CodePage{
          .code = &code::kRegexSemantic,
          .what = "Reports a pattern that is valid and cannot do what it is "
                  "written for: it holds an invisible character, such as a "
                  "zero-width space, or `like` and `place` refer to a group "
                  "that the pattern does not have.",
          .why = "The rule would match only names with that character, which "
                 "hardly any model has, or would take its value from nothing.",
          .fix = "Delete the character at the place that the message gives, or "
                 "add the group. If names hold the character, write it as the "
                 "message shows, for example `\\x{a0}` for a no-break space.",
          .bad =
              R"($ printf 'rules:\n- match: "q_proj\342\200\213"\n  spec: [TP]\n' > rules.yaml
$ shardc rules --rules rules.yaml
)",
          .good =
              R"($ printf 'rules:\n- match: "q_proj"\n  spec: [TP]\n' > rules.yaml
$ shardc rules --rules rules.yaml
)"},
      CodePage{
          .code = &code::kDeviceCount,
          .what = "Reports a mesh whose axis sizes do not multiply to the "
                  "number of devices, or whose devices do not divide among its "
                  "processes or slices.",
          .why = "JAX and PyTorch refuse such a mesh when the job starts. Here "
                 "it is found before.",
          .fix = "Correct a size, or write -1 for one axis, which then takes "
                 "the devices that remain.",
          .bad = "$ shardc mesh --mesh dp:2,tp:4 --devices 16\n",
          .good = "$ shardc mesh --mesh dp:-1,tp:4 --devices 16\n"},
      CodePage{
          .code = &code::kSeparator,
          .what = "Reports that the separator between the parts of names, `/` "
                  "or `.`, cannot be inferred: as many names hold one as the "
                  "other, or a rules file uses both.",
          .why = "Patterns are written with one separator, and names are "
                 "converted to it. With the wrong one no rule matches.",
          .fix = "In a rules file, write `separator: \"/\"` or `separator: "
                 "\".\"`. In a manifest of shardc's own JSON, write "
                 "`\"separator\": \"/\"` or `\".\"`. Other files of "
                 "parameters, such as safetensors, cannot have it: list their "
                 "names, shapes and dtypes in such a manifest (`man "
                 "shardc-manifest`).",
          .bad = R"(--- model.json
{"schema": "shardc.manifest/v1",
 "params": {"layers/0": {"shape": [8], "dtype": "F32"},
            "layers.1": {"shape": [8], "dtype": "F32"}}}
$ shardc manifest --manifest model.json
)",
          .good = R"(--- model.json
{"schema": "shardc.manifest/v1", "separator": "/",
 "params": {"layers/0": {"shape": [8], "dtype": "F32"},
            "layers.1": {"shape": [8], "dtype": "F32"}}}
$ shardc manifest --manifest model.json
)"},
  };
  return kPages;
}

}  // namespace shardc
