// Imports a PartitionAxis of eformer, a record of mesh axes, from JSON as axis
// rules. The JSON is an object with the fields (`head_axis: "tp"`), or a record
// that contains such an object, such as a PartitionManager (`{"paxis":
// {...}}`).
#ifndef SHARDC_IMPORTERS_EFORMER_H_
#define SHARDC_IMPORTERS_EFORMER_H_

#include <optional>

#include "model/axis_rules.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

// Returns axis rules with the fields that the object has. All other axis rules
// keep their defaults. Findings: unknown-key (a warning, because eformer
// ignores such keys); schema if there is no known field, if the value of a
// field is neither axes nor null, or if two records differ.
std::optional<AxisRules> ImportEformerAxes(const JsonDocument& document,
                                           Findings& findings);

// Returns whether the document contains an object with fields of a
// PartitionAxis.
bool IsEformerAxes(const JsonDocument& document);

}  // namespace shardc

#endif  // SHARDC_IMPORTERS_EFORMER_H_
