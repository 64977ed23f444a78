// Logical axis rules over the names that `--names` gives.
#ifndef SHARDC_IMPORTERS_RULES_LOGICAL_H_
#define SHARDC_IMPORTERS_RULES_LOGICAL_H_

#include <functional>
#include <optional>
#include <vector>

#include "importers/rules/importer.h"
#include "model/logical_axes.h"

namespace shardc::imports {

// The file of `--names`: MaxText's dump, or {"name": ["embed", "mlp"]}.
std::optional<std::vector<LogicalNames>> ReadLogicalNames(
    const SourceRef& source, Findings& findings);

// The parameters of `--names` as exact rules; what `resolve` makes of one over
// `--mesh`, or nothing with a finding.
std::optional<Imported> ImportNamed(
    const Request& request, Findings& findings,
    const std::function<std::optional<Spec>(const LogicalNames&)>& resolve);

// The same by rules in order.
std::optional<Imported> ImportLogical(const std::vector<LogicalRule>& rules,
                                      const Request& request,
                                      Findings& findings);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_LOGICAL_H_
