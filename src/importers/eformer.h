// eformer's PartitionAxis in JSON: an object of its field names
// (`head_axis: "tp"`), or the one that PartitionManager writes around it
// (`{"paxis": {...}}`), to axis rules.
#ifndef SHARDC_IMPORTERS_EFORMER_H_
#define SHARDC_IMPORTERS_EFORMER_H_

#include <optional>

#include "model/axis_rules.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

// Every field that the object gives, as given; the others keep their
// defaults. Findings: unknown-key (a warning: eformer ignores those), schema.
std::optional<AxisRules> ImportEformerAxes(const JsonDocument& document,
                                           Findings& findings);

// The object is one of the two forms.
bool IsEformerAxes(const JsonDocument& document);

}  // namespace shardc

#endif  // SHARDC_IMPORTERS_EFORMER_H_
