// Names the rules of a plan. A parameter of a plan's file names the rule that
// matched it, so that a rule inserted in the list changes no other parameter.
#ifndef SHARDC_PLAN_RULE_NAMES_H_
#define SHARDC_PLAN_RULE_NAMES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "source/json.h"

namespace shardc {

// Returns the names of rules with these patterns, in the same order. The name
// of a rule is its pattern. If earlier rules have the same pattern, a number
// follows: `w`, `w (2)`, `w (3)`. Numbers are skipped if the name would be the
// pattern of another rule, so all names differ.
std::vector<std::string> RuleNames(std::span<const std::string_view> patterns);

// Finds the rule that a parameter of a plan's file names.
class RuleIndex {
 public:
  explicit RuleIndex(std::span<const std::string_view> patterns);
  // Returns the index of the rule, or nullopt if the plan has no such rule.
  // `rule` is a name or, in plans of earlier versions, an index.
  std::optional<int32_t> Find(const JsonValue& rule) const;

 private:
  int64_t count_ = 0;
  std::map<std::string, int32_t, std::less<>> by_name_;
};

}  // namespace shardc

#endif  // SHARDC_PLAN_RULE_NAMES_H_
