#include "plan/rule_names.h"

#include <set>
#include <utility>

namespace shardc {

std::vector<std::string> RuleNames(std::span<const std::string_view> patterns) {
  const std::set<std::string_view> all(patterns.begin(), patterns.end());
  std::map<std::string_view, int64_t> last;  // the last number of each pattern
  std::vector<std::string> out;
  out.reserve(patterns.size());
  for (const std::string_view pattern : patterns) {
    int64_t& number = ++last[pattern];
    std::string name(pattern);
    while (number > 1) {
      name = std::string(pattern) + " (" + std::to_string(number) + ")";
      if (!all.contains(name)) break;
      ++number;
    }
    out.push_back(std::move(name));
  }
  return out;
}

RuleIndex::RuleIndex(std::span<const std::string_view> patterns)
    : count_(static_cast<int64_t>(patterns.size())) {
  int32_t index = 0;
  for (std::string& name : RuleNames(patterns)) {
    by_name_.emplace(std::move(name), index++);
  }
}

std::optional<int32_t> RuleIndex::Find(const JsonValue& rule) const {
  if (rule.IsString()) {
    const auto found = by_name_.find(rule.string());
    return found == by_name_.end() ? std::nullopt
                                   : std::optional(found->second);
  }
  if (rule.kind() != JsonKind::kInteger || rule.integer() < 0 ||
      rule.integer() >= count_) {
    return std::nullopt;
  }
  return static_cast<int32_t>(rule.integer());
}

}  // namespace shardc
