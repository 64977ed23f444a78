#include "shardc/inside.h"
// inside.h comes first, because it defines SHARDC_V1 for the headers below.
#include "parse/stages_read.h"
#include "shardc/rules.h"
#include "target/open.h"

namespace shardc::v1 {

Rules::Rules(std::shared_ptr<const Inside> inside)
    : inside_(std::move(inside)) {}

size_t Rules::size() const { return inside_->rules.rules.size(); }
std::string Rules::pattern(size_t index) const {
  return inside_->rules.rules[index].match;
}

std::optional<Rules> ReadRules(const std::vector<std::string>& files,
                               Findings& findings, const Manifest* manifest) {
  auto rules = OpenRules(
      files, "", manifest == nullptr ? nullptr : &manifest->inside().manifest,
      "", findings.inside().all);
  if (!rules) return std::nullopt;
  const size_t before = findings.inside().all.errors();
  auto stages = DeclaredStages({}, *rules, {}, findings.inside().all);
  if (findings.inside().all.errors() > before) return std::nullopt;
  return Rules(std::make_shared<const Rules::Inside>(
      Rules::Inside{std::move(*rules), std::move(stages), std::nullopt}));
}

}  // namespace shardc::v1
