// Converts Python values to specs and axis rules.
#ifndef SHARDC_IMPORTERS_RULES_SPEC_VALUE_H_
#define SHARDC_IMPORTERS_RULES_SPEC_VALUE_H_

#include <optional>
#include <string>

#include "importers/rules/python_register.h"
#include "importers/rules/python_value.h"
#include "model/axis_rules.h"
#include "model/rules.h"
#include "source/finding.h"

namespace shardc::imports {

// Reports a value that cannot be determined from the file's text. The finding
// points to the place that makes the value unknown.
void RefuseUnknown(const SourceRef& source, const PyValue& value,
                   Findings& findings);

// Converts an entry of a spec, such as `None`, `"tp"` or a tuple of names.
// Returns nullopt after a finding.
std::optional<SpecEntry> EntryOf(const SourceRef& source, const PyValue& value,
                                 Findings& findings);
// Converts a spec. It may be PartitionSpec(...), a bundle (a named set of
// specs), the result of a call of `resolve`, None, or a plain tuple. In a list
// that is resolved, strings are logical axes: built-in ones, or those of
// `registrations`. Returns nullopt after a finding.
std::optional<SpecSource> SpecOf(const SourceRef& source, const PyValue& value,
                                 const Registrations& registrations,
                                 Findings& findings);
// Converts a value PartitionAxis(head_axis="tp", ...) to axis rules. Returns
// nullopt after a finding.
std::optional<AxisRules> AxesOf(const SourceRef& source, const PyValue& value,
                                Findings& findings);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_SPEC_VALUE_H_
