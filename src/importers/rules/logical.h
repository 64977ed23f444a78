// Converts logical axis rules to rules for parameters whose logical names are
// given (`--names`).
#ifndef SHARDC_IMPORTERS_RULES_LOGICAL_H_
#define SHARDC_IMPORTERS_RULES_LOGICAL_H_

#include <functional>
#include <optional>
#include <vector>

#include "importers/rules/importer.h"
#include "model/logical_axes.h"

namespace shardc::imports {

// Reads the file of `--names`: MaxText's dump, or {"name": ["embed", "mlp"]}.
std::optional<std::vector<LogicalNames>> ReadLogicalNames(
    const SourceRef& source, Findings& findings);

// Makes exact rules for the parameters of `--names`, with the specs that
// `resolve` returns over `--mesh`. Returns nullopt after a finding.
std::optional<Imported> ImportNamed(
    const Request& request, Findings& findings,
    const std::function<std::optional<Spec>(const LogicalNames&)>& resolve);

// Makes exact rules for the parameters of `--names` by an ordered list of
// logical axis rules. Returns nullopt after a finding.
std::optional<Imported> ImportLogical(const std::vector<LogicalRule>& rules,
                                      const Request& request,
                                      Findings& findings);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_LOGICAL_H_
