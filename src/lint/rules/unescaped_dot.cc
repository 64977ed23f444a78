#include "lint/analysis/dots.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kUnescapedDot;

namespace {

void CheckUnescapedDot(const Facts& facts, FindingSink& sink) {
  for (size_t r = 0; r < facts.rules().size(); ++r) {
    const Rule& rule = facts.rules()[r];
    if (rule.separator != '.' || facts.rule_facts()[r].builtin) continue;
    const auto escaped = EscapeDots(rule.match);
    if (!escaped) continue;
    LintFinding finding;
    Findings ignored;
    const auto regex =
        shardc::Regex::Compile({*escaped, Place{}, '.'}, ignored);
    std::string astray;
    for (uint32_t index : facts.rule_facts()[r].groups) {
      const ParameterGroup& group = facts.groups()[index];
      std::string name = facts.Example(group);
      for (char& c : name) {
        if (c == facts.separator()) c = '.';
      }
      if (!regex || regex->Found(name)) continue;
      if (astray.empty()) astray = facts.Example(group);
      facts.AddNames(facts.Members(group), finding);
    }
    finding.code = &kUnescapedDot.code;
    finding.level = astray.empty() ? Level::kNote : kUnescapedDot.code.level;
    finding.place = facts.RulePlace(static_cast<int32_t>(r));
    finding.message =
        "a dot in " + Quoted(rule.match) +
        " stands for any character, not for a dot" +
        (astray.empty() ? "" : ": it also matches " + Quoted(astray));
    finding.help = "write " + Quoted(*escaped);
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kUnescapedDot{
    .code = {111, "unescaped-dot", Level::kWarning,
             "a path is written with unescaped dots"},
    .what =
        "Finds patterns with unescaped dots between words, in files whose "
        "separator is a dot. It is a note unless such a pattern matches a name "
        "without a dot there.",
    .why =
        "In a pattern a dot matches any character, so that `mlp.up` also "
        "matches `mlp_up`.",
    .instead =
        "Write a backslash before the dot. `--fix` adds it if no spec "
        "changes, `--unsafe-fixes` in any case.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
separator: "."
rules:
  - match: 'mlp.up.weight$'
    spec: RowWise
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers.0.mlp.up.weight": {"shape": [4096, 1024], "dtype": "BF16"},
  "layers.0.mlp_up.weight": {"shape": [4096, 1024], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
separator: "."
rules:
  - match: 'mlp\.up\.weight$'
    spec: RowWise
  - match: 'mlp_up\.weight$'
    spec: RowWise
)"},
    .check = CheckUnescapedDot};

}  // namespace shardc
