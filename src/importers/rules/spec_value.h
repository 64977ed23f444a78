// Specs and axis rules of Python values, for whoever reads Python.
#ifndef SHARDC_IMPORTERS_RULES_SPEC_VALUE_H_
#define SHARDC_IMPORTERS_RULES_SPEC_VALUE_H_

#include <optional>
#include <string>

#include "importers/rules/python_value.h"
#include "model/axis_rules.h"
#include "model/rules.h"
#include "source/finding.h"

namespace shardc::imports {

// A value that is not written in the file, told where that is.
void RefuseUnknown(const SourceRef& source, const PyValue& value,
                   Findings& findings);

// `None`, `"tp"` or a tuple of names.
std::optional<SpecEntry> EntryOf(const SourceRef& source, const PyValue& value,
                                 Findings& findings);
// PartitionSpec(...), a bundle that is resolved, None, or a plain tuple.
std::optional<SpecSource> SpecOf(const SourceRef& source, const PyValue& value,
                                 Findings& findings);
// PartitionAxis(head_axis="tp", ...)
std::optional<AxisRules> AxesOf(const SourceRef& source, const PyValue& value,
                                Findings& findings);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_SPEC_VALUE_H_
