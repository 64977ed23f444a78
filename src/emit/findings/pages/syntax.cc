// The texts that `shardc explain CODE` prints about the syntax of YAML and
// JSON, and about keys and values that have the wrong form. For example, SHD020
// is reported if one mapping has the same key twice.
#include <array>

#include "emit/findings/pages/page.h"

namespace shardc {

std::span<const CodePage> SyntaxPages() {
  static constexpr std::array kPages = {
      CodePage{
          .code = &code::kYamlSyntax,
          .what = "Reports a file that is not well-formed YAML: a quote or a "
                  "bracket that is not closed, a tab in the indentation, a "
                  "missing colon.",
          .why = "YAML parsers differ in how they continue after an error, so "
                 "nothing of such a file is used.",
          .fix = "Look at the place that the message gives, and at the lines "
                 "above it: an unclosed quote or bracket is often earlier than "
                 "the place where the parser stops.",
          .bad = R"(--- rules.yaml
rules:
- match: 'q_proj
  spec: [FSDP, TP]
$ shardc rules --rules rules.yaml
)",
          .good = R"(--- rules.yaml
rules:
- match: 'q_proj'
  spec: [FSDP, TP]
$ shardc rules --rules rules.yaml
)"},
      CodePage{
          .code = &code::kYamlDepth,
          .what = "Reports YAML with more than 64 levels of nesting.",
          .why = "No file of this program needs more than eight levels. Deeper "
                 "nesting is a generator's mistake or an attempt to exhaust "
                 "the stack of the reader.",
          .fix = "Remove the nesting. A spec has two levels at most: a list of "
                 "dimensions, and in it lists of axes.",
          .bad = R"sh($ echo "rules: $(printf '[%.0s' $(seq 70))" > rules.yaml
$ shardc rules --rules rules.yaml
)sh",
          .good =
              R"($ echo 'rules: [{match: w, spec: [[FSDP, SP]]}]' > rules.yaml
$ shardc rules --rules rules.yaml
)"},
      CodePage{
          .code = &code::kYamlAlias,
          .what = "Reports a YAML alias (`*name`) that is inside the value it "
                  "refers to, and aliases that expand to more than 100,000 "
                  "nodes.",
          .why = "The first has no finite value. The second is the \"billion "
                 "laughs\" attack, which takes gigabytes of memory from a file "
                 "of a few lines.",
          .fix = "Write the value out where the alias is, or name a `bundle` "
                 "and use its name.",
          .bad = R"(--- rules.yaml
rules: &all
- match: 'w'
  spec: *all
$ shardc rules --rules rules.yaml
)",
          .good = R"(--- rules.yaml
bundles: {Columns: [FSDP, TP]}
rules:
- match: 'w'
  spec: Columns
$ shardc rules --rules rules.yaml
)"},
      CodePage{
          .code = &code::kYamlTag,
          .what = "Reports a YAML tag such as `!!str` or `!python/object`.",
          .why = "Tags make other parsers create objects or change types. "
                 "Here the key alone decides the type of its value.",
          .fix = "Delete the tag. Names that look like another type, such as "
                 "`no` or `on`, are read as text without one.",
          .bad = R"(--- rules.yaml
rules:
- match: !!str w
  spec: [TP]
$ shardc rules --rules rules.yaml
)",
          .good = R"(--- rules.yaml
rules:
- match: w
  spec: [TP]
$ shardc rules --rules rules.yaml
)"},
      CodePage{
          .code = &code::kMergeKey,
          .what = "Reports the merge key `<<`, which copies the entries of "
                  "another mapping.",
          .why = "Merge keys are not part of YAML 1.2, and parsers disagree on "
                 "which entry wins.",
          .fix = "Write the entries out. Specs that several rules share go "
                 "into a `bundle`, rules that several files share into a file "
                 "that `extends` names.",
          .bad = R"(--- rules.yaml
rules:
- &columns {match: q_proj, spec: [FSDP, TP]}
- {<<: *columns, match: k_proj}
$ shardc rules --rules rules.yaml
)",
          .good = R"(--- rules.yaml
rules:
- {match: q_proj, spec: [FSDP, TP]}
- {match: k_proj, spec: [FSDP, TP]}
$ shardc rules --rules rules.yaml
)"},
      CodePage{
          .code = &code::kMultiDocument,
          .what = "Reports a second YAML document in a file, after a line "
                  "`---`.",
          .why = "Only one document can be meant, and reading the first would "
                 "drop the rules of the others.",
          .fix = "Put each document into a file of its own and name both with "
                 "`--rules`, or delete the line `---`.",
          .bad = R"(--- rules.yaml
rules: [{match: q_proj, spec: [FSDP, TP]}]
---
rules: [{match: o_proj, spec: [TP, FSDP]}]
$ shardc rules --rules rules.yaml
)",
          .good = R"(--- rules.yaml
rules:
- {match: q_proj, spec: [FSDP, TP]}
- {match: o_proj, spec: [TP, FSDP]}
$ shardc rules --rules rules.yaml
)"},
      CodePage{
          .code = &code::kJsonSyntax,
          .what = "Reports a manifest, plan, index or config.json that is not "
                  "well-formed JSON, for example because of a trailing comma, "
                  "a comment or a missing end.",
          .why = "A truncated download is the most frequent cause. What is "
                 "left of the file may lack parameters.",
          .fix = "Download or generate the file again. In a file written by "
                 "hand, remove the comma or comment at the place that the "
                 "message gives.",
          .bad = R"(--- model.json
{"schema": "shardc.manifest/v1",
 "params": {"w": {"shape": [8, 8], "dtype": "F32"},}}
$ shardc manifest --manifest model.json
)",
          .good = R"(--- model.json
{"schema": "shardc.manifest/v1",
 "params": {"w": {"shape": [8, 8], "dtype": "F32"}}}
$ shardc manifest --manifest model.json
)"},
      CodePage{
          .code = &code::kJsonDepth,
          .what = "Reports JSON with more than 200 levels of nesting.",
          .why = "A parameter tree is a few dozen levels deep. Deeper JSON is "
                 "a generator's mistake or an attempt to exhaust the stack of "
                 "the reader.",
          .fix = "Write the manifest as a flat object from names to shapes.",
          .bad = R"($ printf '{"a":%.0s' $(seq 300) > model.json
$ shardc manifest --manifest model.json
)",
          .good = R"($ echo '{"a": {"shape": [8], "dtype": "F32"}}' > model.json
$ shardc manifest --manifest model.json
)"},
      CodePage{
          .code = &code::kDuplicateKey,
          .what = "Reports a key that is given twice in one mapping or "
                  "object: an axis, a parameter, an option of a rule.",
          .why = "Most readers keep the last value in silence, some the first, "
                 "so two tools would read two different meshes.",
          .fix = "Delete or rename one of the two. The message gives both "
                 "places where the file has lines.",
          .bad = R"(--- mesh.yaml
axes: {dp: 2, tp: 4, dp: 8}
$ shardc mesh --mesh mesh.yaml
)",
          .good = R"(--- mesh.yaml
axes: {dp: 2, tp: 4, fsdp: 8}
$ shardc mesh --mesh mesh.yaml
)"},
      CodePage{
          .code = &code::kUnknownKey,
          .what = "Reports a key that the file's format does not have.",
          .why = "A misspelt key that is ignored leaves its default in force: "
                 "`polcy: {illegal: error}` would not be an error, and would "
                 "not be a policy either.",
          .fix = "Take the key that the message suggests. The formats are in "
                 "`man shardc-rules`, `shardc-mesh` and `shardc-project`.",
          .bad = R"(--- mesh.yaml
axes: {dp: 2, tp: 4}
device_count: 8
$ shardc mesh --mesh mesh.yaml
)",
          .good = R"(--- mesh.yaml
axes: {dp: 2, tp: 4}
devices: 8
$ shardc mesh --mesh mesh.yaml
)"},
      CodePage{
          .code = &code::kSchema,
          .what = "Reports a value of the wrong type or form, for example a "
                  "list where a mapping is required, or a word that is not one "
                  "of the allowed ones.",
          .why = "Converting the value would guess what was meant.",
          .fix = "Write the form that the message names. `shardc schema NAME` "
                 "prints the JSON schema of a file, with which an editor "
                 "checks while typing; without a name it lists them.",
          .bad = R"(--- mesh.yaml
axes: [dp, tp]
$ shardc mesh --mesh mesh.yaml
)",
          .good = R"(--- mesh.yaml
axes: {dp: 2, tp: 4}
$ shardc mesh --mesh mesh.yaml
)"},
      CodePage{.code = &code::kNumber,
               .what =
                   "Reports a number that is malformed or out of its range: a "
                   "fraction where an integer is required, a negative "
                   "dimension, an axis of size 0.",
               .why = "Rounding or clamping it would plan for another mesh or "
                      "another model.",
               .fix = "Write a decimal integer in the range that the message "
                      "states. An axis has a size of 1 or more, or -1 for the "
                      "devices that remain.",
               .bad = "$ shardc mesh --mesh dp:0,tp:4\n",
               .good = "$ shardc mesh --mesh dp:-1,tp:4 --devices 8\n"},
      CodePage{
          .code = &code::kOverflow,
          .what = "Reports a size that 64 bits do not hold, for example the "
                  "number of elements of a shape.",
          .why = "The product would wrap around, and every size computed from "
                 "it would be wrong.",
          .fix = "Correct the shape. 2^63 bytes are 8 EiB, so a dimension is "
                 "damaged or in the wrong unit.",
          .bad = R"(--- model.json
{"schema": "shardc.manifest/v1",
 "params": {"w": {"shape": [4294967296, 4294967296], "dtype": "F32"}}}
$ shardc manifest --manifest model.json
)",
          .good = R"(--- model.json
{"schema": "shardc.manifest/v1",
 "params": {"w": {"shape": [4096, 4096], "dtype": "F32"}}}
$ shardc manifest --manifest model.json
)"},
  };
  return kPages;
}

}  // namespace shardc
