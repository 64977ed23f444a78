// Finds pairs of rules that may match a common name. Most rules end with
// literal characters and `$`. Two such rules can match the same name only if
// the end of one rule is a suffix of the end of the other:
//
//   q_proj\.weight$   proj\.weight$     may match a common name
//   q_proj\.weight$   k_proj\.weight$   match no common name
//
// The ends are stored reversed and sorted, so that all ends with a common
// suffix follow one another.
#include "match/proof/literal_ends.h"

#include <algorithm>
#include <span>

#include "match/automaton/pattern_reader.h"

namespace shardc {
namespace {

using Parts = std::span<const PatternTree>;

bool Asserts(const PatternTree& part, Assertion assertion) {
  return part.kind == TreeKind::kAssertion && part.assertion == assertion;
}

template <typename At>
std::u32string PointsFrom(At at, At last, bool either_separator) {
  std::u32string out;
  for (; at != last && at->kind == TreeKind::kPoint; ++at) {
    if (either_separator && (at->point == '/' || at->point == '.')) break;
    out += static_cast<char32_t>(at->point);
  }
  return out;
}

}  // namespace

LiteralEnds LiteralEndsOf(std::string_view pattern, bool either_separator) {
  const auto tree = ReadPatternTree(pattern);
  if (!tree || tree->kind != TreeKind::kSequence || tree->parts.empty()) {
    return {};
  }
  const Parts parts = tree->parts;
  LiteralEnds out;
  if (Asserts(parts.front(), kTextBegin)) {
    out.begin = PointsFrom(parts.begin() + 1, parts.end(), either_separator);
  }
  if (Asserts(parts.back(), kTextEnd)) {
    out.end = PointsFrom(parts.rbegin() + 1, parts.rend(), either_separator);
  }
  return out;
}

// Calls `visit` with the rules of each stored end that is a suffix of `end` or
// has `end` as a suffix. All ends are stored reversed, so the code compares
// prefixes.
template <typename Visit>
void EarlierRules::ForEachEnd(std::u32string_view end,
                              const Visit& visit) const {
  for (size_t length = 0; length < end.size(); ++length) {
    const auto shorter = by_end_.find(end.substr(0, length));
    if (shorter != by_end_.end()) visit(shorter->second);
  }
  for (auto longer = by_end_.lower_bound(end);
       longer != by_end_.end() && longer->first.starts_with(end); ++longer) {
    visit(longer->second);
  }
}

int64_t EarlierRules::Count(const LiteralEnds& rule) const {
  size_t count = 0;
  ForEachEnd(rule.end, [&](const auto& rules) { count += rules.size(); });
  return static_cast<int64_t>(count);
}

std::vector<uint32_t> EarlierRules::List(const LiteralEnds& rule) const {
  std::vector<uint32_t> out;
  ForEachEnd(rule.end, [&](const auto& rules) {
    for (const uint32_t other : rules) {
      const std::u32string& begin = begins_[other];
      if (begin.starts_with(rule.begin) || rule.begin.starts_with(begin)) {
        out.push_back(other);
      }
    }
  });
  std::sort(out.begin(), out.end());
  return out;
}

void EarlierRules::Add(LiteralEnds rule) {
  by_end_[std::move(rule.end)].push_back(static_cast<uint32_t>(begins_.size()));
  begins_.push_back(std::move(rule.begin));
}

}  // namespace shardc
