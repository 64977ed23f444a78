#include "importers/eformer.h"

#include <set>
#include <string>
#include <string_view>

#include "importers/rules/importer.h"
#include "source/json.h"
#include "source/wording.h"
#include "yaml/read.h"

namespace shardc::imports {
namespace {

// Returns whether these axis rules would be valid in a rules file. Returns
// false after a finding if the name of a mesh axis is invalid or occurs twice
// in a rule.
bool CanBeRead(const AxisRules& rules, const Place& place, Findings& findings) {
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    if (!rules.given[i]) continue;
    std::set<std::string_view> seen;
    for (const std::string& axis : rules.given[i]->axes) {
      std::string fault = AxisNameFault(axis);
      if (fault.empty() && !seen.insert(axis).second) fault = "is given twice";
      if (fault.empty()) continue;
      findings.Add(code::kAxisName, place,
                   "the axis name " + ShortQuote(axis) + " in `" +
                       AxisFieldName(static_cast<AxisRule>(i)) + "` " + fault);
      return false;
    }
  }
  return true;
}

std::optional<Imported> ReadEformer(const Request& request,
                                    Findings& findings) {
  const auto document = JsonDocument::Parse(request.source, findings);
  if (!document) return std::nullopt;
  const auto axes = ImportEformerAxes(*document, findings);
  if (!axes || !CanBeRead(*axes, document->root().place(), findings)) {
    return std::nullopt;
  }
  Imported imported;
  imported.axes = *axes;
  return imported;
}

}  // namespace

constexpr Importer kEformer{
    "eformer", "PartitionAxis in JSON, to the axis rules of a rules file", "",
    ReadEformer};

}  // namespace shardc::imports
