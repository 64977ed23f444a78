#include "lint/analysis/intended_rule.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <vector>

namespace shardc {
namespace {

struct Fit {
  int matched = 0;
  int run = 0;
  std::string written;
  std::string found;
};

// Compares from the end, leaving `skip` parts of the name over. Nothing when
// a second part differs.
std::optional<Fit> FitAt(const std::vector<std::string>& pattern,
                         const std::vector<std::string_view>& name, size_t skip,
                         const Sketch& sketch) {
  Fit fit;
  const size_t limit = std::min(pattern.size(), name.size() - skip);
  for (size_t i = 0; i < limit; ++i) {
    std::string part = pattern[pattern.size() - 1 - i];
    const std::string_view word = name[name.size() - 1 - skip - i];
    if (part.empty()) continue;
    const bool first = i + 1 == pattern.size();
    const std::string plain = part;
    if (first && !sketch.begin_anchor) part.insert(0, 1, Sketch::kWild);
    if (i == 0 && !sketch.end_anchor) part += Sketch::kWild;
    const bool wild_only = std::all_of(part.begin(), part.end(), [](char c) {
      return c == Sketch::kWild || c == Sketch::kAnyChar;
    });
    if (SketchFits(part, word)) {
      if (!wild_only) ++fit.matched;
      if (!wild_only && fit.written.empty()) ++fit.run;
      continue;
    }
    if (!fit.written.empty() || plain.empty()) return std::nullopt;
    fit.written = plain;
    fit.found = std::string(word);
  }
  return fit;
}

bool IsPlain(std::string_view text) {
  return text.find(Sketch::kWild) == std::string_view::npos &&
         text.find(Sketch::kAnyChar) == std::string_view::npos && text != "*";
}

std::string Rewrite(const std::string& pattern, const Fit& fit) {
  if (!IsPlain(fit.written) || !IsPlain(fit.found)) return {};
  const size_t at = pattern.find(fit.written);
  if (at == std::string::npos ||
      pattern.find(fit.written, at + 1) != std::string::npos) {
    return {};
  }
  std::string out = pattern;
  return out.replace(at, fit.written.size(), fit.found);
}

}  // namespace

std::optional<IntendedRule> IntendedRuleOf(const Facts& facts,
                                           const ParameterGroup& group,
                                           bool dead_only,
                                           const std::set<int32_t>& taken) {
  const std::vector<std::string_view> parts =
      SplitName(group.name, facts.separator());
  std::optional<IntendedRule> best;
  std::tuple<bool, int, int, bool> best_score;
  for (size_t r = 0; r < facts.rules().size(); ++r) {
    const RuleFacts& rule = facts.rule_facts()[r];
    const auto index = static_cast<int32_t>(r);
    const bool dead = rule.found == 0;
    if (rule.sketch.catch_all || (dead_only && !dead)) continue;
    for (const std::string& text : rule.sketch.texts) {
      const std::vector<std::string> written =
          SketchSegments(text, facts.rules()[r].separator);
      for (size_t skip = 0; skip < std::min<size_t>(parts.size(), 2); ++skip) {
        auto fit = FitAt(written, parts, skip, rule.sketch);
        if (!fit || fit->matched < 2 || fit->written.empty()) continue;
        const std::tuple score(dead, fit->matched, fit->run,
                               taken.count(index) == 0);
        if (best && score <= best_score) continue;
        best = IntendedRule{index,      fit->matched,
                            fit->run,   fit->written,
                            fit->found, Rewrite(facts.rules()[r].match, *fit)};
        best_score = score;
      }
    }
  }
  return best;
}

}  // namespace shardc
