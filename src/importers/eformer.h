// Imports eformer's PartitionAxis, a record of mesh axes, as axis rules. The
// JSON is this record, such as `{"head_axis": "tp"}`. It may also be an object
// that contains the record, such as a PartitionManager (`{"paxis":
// {"head_axis": "tp"}}`).
#ifndef SHARDC_IMPORTERS_EFORMER_H_
#define SHARDC_IMPORTERS_EFORMER_H_

#include <optional>

#include "model/axis_rules.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

// Returns the default axis rules, changed by the fields of the record:
// `head_axis` replaces the rule `head`. A key that is not a field is a warning
// (unknown-key), because eformer ignores it. Returns nullopt after a finding
// (schema) if the document has no such field, if two records differ, or if a
// value is neither null nor names of axes.
std::optional<AxisRules> ImportEformerAxes(const JsonDocument& document,
                                           Findings& findings);

// Returns whether the document contains an object with fields of a
// PartitionAxis.
bool IsEformerAxes(const JsonDocument& document);

}  // namespace shardc

#endif  // SHARDC_IMPORTERS_EFORMER_H_
