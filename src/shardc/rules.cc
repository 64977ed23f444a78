#include "shardc/inside.h"
// After it, see there.
#include "parse/rules.h"
#include "shardc/rules.h"

namespace shardc::v1 {

Rules::Rules(std::shared_ptr<const Inside> inside)
    : inside_(std::move(inside)) {}

size_t Rules::size() const { return inside_->rules.rules.size(); }
std::string Rules::pattern(size_t index) const {
  return inside_->rules.rules[index].match;
}

std::optional<Rules> ReadRules(const std::vector<std::string>& files,
                               Findings& findings) {
  auto rules = shardc::ReadRules(files, {}, findings.inside().all);
  if (!rules) return std::nullopt;
  for (Rule& rule : rules->rules) {
    if (rule.place.source) rule.source_name = rule.place.source->name();
  }
  return Rules(
      std::make_shared<const Rules::Inside>(Rules::Inside{std::move(*rules)}));
}

}  // namespace shardc::v1
