// eformer's PartitionAxis in JSON to axis rules: an object of its field names
// (`head_axis: "tp"`), or a record with one inside, such as a
// PartitionManager's
// (`{"paxis": {...}}`) or an OperationMetadata's.
#ifndef SHARDC_IMPORTERS_EFORMER_H_
#define SHARDC_IMPORTERS_EFORMER_H_

#include <optional>

#include "model/axis_rules.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

// Every field that the object gives, as given; the others keep their
// defaults. Findings: unknown-key (a warning: eformer ignores those), schema:
// no known field at all, or two records that differ.
std::optional<AxisRules> ImportEformerAxes(const JsonDocument& document,
                                           Findings& findings);

// There is such an object in it.
bool IsEformerAxes(const JsonDocument& document);

}  // namespace shardc

#endif  // SHARDC_IMPORTERS_EFORMER_H_
