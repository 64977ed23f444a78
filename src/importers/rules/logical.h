// Converts logical axis rules to rules for parameters. The logical names of the
// parameters' dimensions are read from the file of `--names`.
#ifndef SHARDC_IMPORTERS_RULES_LOGICAL_H_
#define SHARDC_IMPORTERS_RULES_LOGICAL_H_

#include <functional>
#include <optional>
#include <vector>

#include "importers/rules/importer.h"
#include "model/logical_axes.h"

namespace shardc::imports {

// Reads the file of `--names`. It is the file `logical_shardings.json` that
// MaxText writes, or JSON such as {"name": ["embed", "mlp"]}.
std::optional<std::vector<LogicalNames>> ReadLogicalNames(
    const SourceRef& source, Findings& findings);

// Makes rules whose patterns match only the parameters in the file of `--names`
// (exact.h). `resolve` returns the spec of a parameter over the mesh of
// `--mesh`. Returns nullopt after a finding.
std::optional<Imported> ImportNamed(
    const Request& request, Findings& findings,
    const std::function<std::optional<Spec>(const LogicalNames&)>& resolve);

// Makes rules whose patterns match only the parameters in the file of `--names`
// (exact.h). Their specs are computed from `rules`, an ordered list of logical
// axis rules. Returns nullopt after a finding.
std::optional<Imported> ImportLogical(const std::vector<LogicalRule>& rules,
                                      const Request& request,
                                      Findings& findings);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_LOGICAL_H_
