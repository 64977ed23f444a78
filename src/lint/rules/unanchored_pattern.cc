#include <optional>
#include <string>
#include <vector>

#include "lint/analysis/dots.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "match/match.h"
#include "match/re2_finder.h"

namespace shardc {

extern const Lint kUnanchoredPattern;

namespace {

bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_';
}

// Returns whether a match that ends at `end` ends inside a word of the name, as
// `kernel` does in `kernel_scale`.
bool EndsInsideWord(const std::string& name, size_t end) {
  return end > 0 && end < name.size() && IsWord(name[end - 1]) &&
         IsWord(name[end]);
}

// Returns a pattern that finds the matches of a rule that do not end inside a
// word; nullopt if there is none. A rule such as `kernel|kernel_scale` finds
// `kernel` first, although it also matches all of `kernel_scale`.
std::optional<Regex> EndsOfWords(const Rule& rule) {
  Findings ignored;
  return Regex::Compile(
      {"(?:" + rule.match + ")\\b", rule.match_place, rule.separator}, ignored);
}

void CheckUnanchoredPattern(const Facts& facts, FindingSink& sink) {
  for (size_t r = 0; r < facts.rule_facts().size(); ++r) {
    const RuleFacts& rule = facts.rule_facts()[r];
    const Rule& written = facts.rules()[r];
    const std::string& pattern = written.match;
    // A `$` at the end of `a|b$` ends only the last alternative.
    const bool ended =
        rule.sketch.end_anchor && pattern.find('|') == std::string::npos;
    if (ended || rule.sketch.catch_all || rule.builtin) continue;
    bool whole = false;
    std::optional<Regex> ends;
    std::vector<std::string> texts;
    LintFinding finding = FindingAt(kUnanchoredPattern.code,
                                    facts.RulePlace(static_cast<int32_t>(r)));
    for (uint32_t index : rule.groups) {
      const ParameterGroup& group = facts.groups()[index];
      const std::string& name = facts.Example(group);
      const auto found =
          facts.compiled().matcher->Find(r, name, facts.separator());
      if (!found) continue;
      const bool inside = EndsInsideWord(name, found->second);
      if (inside && !ends) ends = EndsOfWords(written);
      std::string scratch;
      if (!inside ||
          (ends && ends->Found(Convert(name, facts.separator(),
                                       written.separator, scratch)))) {
        whole = true;
        continue;
      }
      texts.push_back(ParametersText(facts, group));
      for (std::string& one : facts.Names(group)) {
        finding.params.push_back(std::move(one));
      }
    }
    if (!whole || texts.empty()) continue;
    finding.message = "pattern " + Quoted(pattern) + " also matches " +
                      ListText(texts) + ", where the match ends inside a word";
    finding.help = "end it with `$`: " + Quoted(WithEnd(pattern));
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
        "End the pattern with `$`. `--fix` adds it if no spec changes, "
        "`--unsafe-fixes` in any case.",
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
