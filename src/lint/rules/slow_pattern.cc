// Reports patterns with large repetition counts, such as `{30}`. An automaton
// has one copy of the repeated part for each repetition, so nested counts
// multiply. The counts are read from the pattern's text, with a stack of open
// groups:
//
//   `(a{20}b{3}){30}`  ->  600, reported     `a{20}(b){30}`  ->  30
#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "match/pattern_atom.h"
#include "source/checked.h"
#include "source/wording.h"

namespace shardc {
namespace {

// A pattern with this many copies of a part is reported. With such patterns,
// the fast automaton of a rule set may become too large.
constexpr int64_t kManyCopies = 500;

struct Count {
  int64_t most = 1;
  size_t end = 0;  // the index after `}`
};

// Reads the count `{n}`, `{n,}` or `{n,m}` at `i`. Returns nullopt for other
// text.
std::optional<Count> ReadCount(std::string_view pattern, size_t i) {
  constexpr int64_t kLargest = 100000;  // above RE2's limit of 1,000
  Count out;
  int64_t count = 0;
  for (size_t j = i + 1; j < pattern.size(); ++j) {
    const char c = pattern[j];
    if (c == '}') {
      out.end = j + 1;
      return out;
    }
    if (c == ',') {
      count = 0;
      continue;
    }
    if (c < '0' || c > '9' || count > kLargest) return std::nullopt;
    count = count * 10 + (c - '0');
    out.most = std::max(out.most, count);
  }
  return std::nullopt;
}

// Returns the largest number of copies of one part in the pattern's automaton.
// It is the largest product of nested counts, such as 20 * 30 = 600 for
// `(a{20}b{3}){30}`, whose automaton has 600 copies of `a`.
int64_t Copies(std::string_view pattern) {
  // A stack with one number for the complete pattern, and one for each group
  // that is open at `i`. The number is the largest product of nested counts in
  // it so far.
  std::vector<int64_t> most = {1};
  size_t i = 0;
  while (i < pattern.size()) {
    int64_t copies = 1;  // number of copies of the part that is read next
    const char c = pattern[i];
    if (c == '(') {
      most.push_back(1);
      ++i;
      continue;
    }
    if (c == ')' && most.size() > 1) {
      copies = most.back();
      most.pop_back();
    }
    i = AtomEnd(pattern, i);
    while (i < pattern.size() && pattern[i] == '{') {
      const auto count = ReadCount(pattern, i);
      if (!count) break;
      copies = CheckedMul(copies, count->most).value_or(INT64_MAX);
      i = count->end;
    }
    most.back() = std::max(most.back(), copies);
  }
  return *std::max_element(most.begin(), most.end());
}

}  // namespace

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

}  // namespace shardc
