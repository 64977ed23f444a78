// Converts Python values to specs and axis rules.
#ifndef SHARDC_IMPORTERS_RULES_SPEC_VALUE_H_
#define SHARDC_IMPORTERS_RULES_SPEC_VALUE_H_

#include <optional>
#include <string>

#include "importers/rules/python_value.h"
#include "model/axis_rules.h"
#include "model/rules.h"
#include "source/finding.h"

namespace shardc::imports {

// Adds a finding for a value that is not literally in the file, at its use.
void RefuseUnknown(const SourceRef& source, const PyValue& value,
                   Findings& findings);

// Converts `None`, `"tp"` or a tuple of names.
std::optional<SpecEntry> EntryOf(const SourceRef& source, const PyValue& value,
                                 Findings& findings);
// Converts PartitionSpec(...), a resolved bundle, None, or a plain tuple.
std::optional<SpecSource> SpecOf(const SourceRef& source, const PyValue& value,
                                 Findings& findings);
// Converts PartitionAxis(head_axis="tp", ...).
std::optional<AxisRules> AxesOf(const SourceRef& source, const PyValue& value,
                                Findings& findings);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_SPEC_VALUE_H_
