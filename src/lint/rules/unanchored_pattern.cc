#include <cstdint>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/pattern_ends.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kUnanchoredPattern;

namespace {

// Returns a text such as "`layers.10.q` (10 of 12 parameters `layers.*.q`)", or
// the group's text if the part is the complete group.
std::string PartText(const Facts& facts, const GroupPart& part) {
  const int64_t count = part.group->count();
  const auto held = static_cast<int64_t>(part.params.size());
  if (held == count) return ParametersText(facts, *part.group);
  return Quoted(facts.plan().names[part.params.front()]) + " (" +
         std::to_string(held) + " of " + std::to_string(count) +
         " parameters " + Quoted(part.group->name) + ")";
}

void CheckUnanchoredPattern(const Facts& facts, FindingSink& sink) {
  for (size_t r = 0; r < facts.rule_facts().size(); ++r) {
    const RuleFacts& rule = facts.rule_facts()[r];
    const std::string& pattern = facts.rules()[r].match;
    // In `a|b$`, the `$` belongs only to the last alternative, so the pattern
    // is checked.
    const bool ended =
        rule.sketch.end_anchor && pattern.find('|') == std::string::npos;
    if (ended || rule.sketch.catch_all || rule.builtin) continue;
    const PatternEnds ends = PatternEndsOf(facts, r);
    if (ends.words.empty() || ends.inside.empty()) continue;
    LintFinding finding = FindingAt(kUnanchoredPattern.code,
                                    facts.RulePlace(static_cast<int32_t>(r)));
    std::vector<std::string> texts;
    for (const GroupPart& part : ends.inside) {
      texts.push_back(PartText(facts, part));
      facts.AddNames(part.params, finding);
    }
    finding.message = "pattern " + Quoted(pattern) + " also matches " +
                      ListText(texts) + ", where the match ends inside a word";
    const auto mended = EndedPattern(facts, r);
    const bool word = mended && mended->ends_with("\\b");
    finding.help = mended
                       ? std::string("end it with ") +
                             (word ? "`\\b`" : "`$`") + ": " + Quoted(*mended)
                       : "write more of the names that it is for";
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kUnanchoredPattern{
    .code = {110, "unanchored-pattern", Level::kWarning,
             "a pattern without `$` also matches longer names"},
    .what =
        "Finds patterns without a `$`, or with one that ends only some of "
        "their alternatives, that match some names up to the end of a word and "
        "others up to the middle of one, such as `kernel`, which also matches "
        "`kernel_scale`.",
    .why =
        "The longer name is another tensor of another shape, and gets a spec "
        "that was not written for it.",
    .instead =
        "End the pattern with `$`, or with `\\b` if names continue after the "
        "word. `--fix` adds it if no spec changes, `--unsafe-fixes` in any "
        "case.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'q_proj/kernel'
    spec: ColumnWise
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/q_proj/kernel": {"shape": [1024, 1024], "dtype": "I8"},
  "layers/0/q_proj/kernel_scale": {"shape": [8, 1024], "dtype": "F32"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'q_proj/kernel$'
    spec: ColumnWise
  - match: 'q_proj/kernel_scale$'
    spec: [null, TP]
)"},
    .check = CheckUnanchoredPattern};

}  // namespace shardc
