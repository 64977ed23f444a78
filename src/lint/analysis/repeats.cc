// Finds rules with the same file, pattern and separator. Each of them is
// compared with the first one. `same_spec` is true if the two rules have equal
// placements, equal parts and equal specs in every mode. For rules with `like`,
// the parameter that `like` names must be the same.
//
//   [0] `up` ColumnWise, [2] `up` RowWise  ->  {0, 2, not the same spec}
#include "lint/analysis/repeats.h"

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>

namespace shardc {
namespace {

bool SamePlacement(const Rule& a, const Rule& b) {
  if (a.placement.has_value() != b.placement.has_value()) return false;
  if (!a.placement) return true;
  return a.placement->axis == b.placement->axis &&
         a.placement->index_pattern == b.placement->index_pattern &&
         a.placement->count == b.placement->count;
}

// Returns whether neither rule has `like`, or both have a `like` that names the
// same parameter. If `like` has a group such as `\1`, the parameter is the same
// only if the patterns are equal.
bool SameLike(const Rule& a, const Rule& b) {
  const auto* mine = std::get_if<SpecLike>(&a.spec);
  const auto* other = std::get_if<SpecLike>(&b.spec);
  if (mine == nullptr || other == nullptr) return mine == other;
  return mine->rewrite == other->rewrite &&
         (a.match == b.match || mine->rewrite.find('\\') == std::string::npos);
}

}  // namespace

bool SpecComparison::Same(int32_t a, int32_t b) {
  const Rule& first = facts_->rules()[static_cast<size_t>(a)];
  const Rule& later = facts_->rules()[static_cast<size_t>(b)];
  return SamePlacement(first, later) && SameLike(first, later) &&
         first.parts == later.parts && SpecsOf(a) == SpecsOf(b);
}

const SpecComparison::Specs& SpecComparison::SpecsOf(int32_t rule) {
  const auto [at, added] = specs_.try_emplace(rule);
  if (added) {
    for (const Mode mode : facts_->plan().modes) {
      at->second.push_back(facts_->RuleSpec(rule, mode));
    }
    at->second.push_back(facts_->RuleSpec(rule));
  }
  return at->second;
}

std::vector<Repeat> RepeatsOf(const Facts& facts) {
  std::map<std::tuple<const Source*, std::string_view, char>, int32_t> seen;
  std::vector<Repeat> out;
  SpecComparison specs(facts);
  for (size_t r = 0; r < facts.rules().size(); ++r) {
    const Rule& rule = facts.rules()[r];
    const auto index = static_cast<int32_t>(r);
    const auto [at, fresh] = seen.try_emplace(
        {rule.place.source.get(), rule.match, rule.separator}, index);
    if (fresh) continue;
    out.push_back({at->second, index, specs.Same(at->second, index)});
  }
  return out;
}

}  // namespace shardc
