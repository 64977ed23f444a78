// Counts are read from the text: a count after a group multiplies the counts
// inside it, any other count starts again at 1.
//
//   `(a{20}){30}`  ->  600, reported     `a{20}b{30}`  ->  30
#include <string_view>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "source/checked.h"
#include "source/wording.h"

namespace shardc {

extern const Lint kSlowPattern;

namespace {

// The number of copies of a repeated part, with nested counts multiplied, from
// which a rule set may no longer fit the fast automaton.
constexpr int64_t kManyCopies = 500;

// Estimates the largest product of nested counts. A count after `)` multiplies
// the product before it, and any other count starts a new product: 600 for
// `(a{20}){30}`, 30 for `a{20}b{30}`.
int64_t Copies(std::string_view pattern) {
  int64_t most = 1;
  int64_t inner = 1;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\') {
      ++i;
      continue;
    }
    if (pattern[i] != '{') continue;
    int64_t count = 0;
    int64_t high = 0;
    size_t j = i + 1;
    for (; j < pattern.size() && pattern[j] != '}'; ++j) {
      if (pattern[j] == ',') {
        count = 0;
        continue;
      }
      if (pattern[j] < '0' || pattern[j] > '9' || count > 100000) break;
      count = count * 10 + (pattern[j] - '0');
      high = count > high ? count : high;
    }
    if (j >= pattern.size() || pattern[j] != '}') continue;
    const bool group = i > 0 && pattern[i - 1] == ')';
    inner = group ? CheckedMul(inner, high).value_or(INT64_MAX) : high;
    most = inner > most ? inner : most;
  }
  return most;
}

void CheckSlowPattern(const Facts& facts, FindingSink& sink) {
  for (size_t r = 0; r < facts.rules().size(); ++r) {
    const std::string& pattern = facts.rules()[r].match;
    const int64_t copies = Copies(pattern);
    if (copies < kManyCopies) continue;
    LintFinding finding =
        FindingAt(kSlowPattern.code, facts.RulePlace(static_cast<int32_t>(r)));
    finding.message = "pattern " + Quoted(pattern) + " repeats a part " +
                      CountText(copies) +
                      " times, and each is a copy in the automaton";
    finding.help = "write `+` or `*` if the count does not matter";
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kSlowPattern{
    .code = {112, "slow-pattern", Level::kWarning,
             "a pattern makes a large automaton"},
    .what = "Finds counted repetitions of 500 copies or more.",
    .why =
        "Each copy is a state. If the automaton exceeds its memory, the "
        "matcher uses a slower engine for every name.",
    .instead = "Use `+` or `*`.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'layers/[0-9]{1,600}/up/kernel'
    spec: ColumnWise
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/up/kernel": {"shape": [1024, 4096], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'layers/[0-9]+/up/kernel'
    spec: ColumnWise
)"},
    .check = CheckSlowPattern};

}  // namespace shardc
