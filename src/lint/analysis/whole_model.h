// Detects that the rules use no axis of the mesh for the parameters, so that
// every device holds the whole model.
#ifndef SHARDC_LINT_ANALYSIS_WHOLE_MODEL_H_
#define SHARDC_LINT_ANALYSIS_WHOLE_MODEL_H_

#include <optional>
#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/topic.h"

namespace shardc {

// Returns an error, with the code `code`, if the whole model is replicated over
// the mesh. Its help has the axis rules to write if the names of the mesh's
// axes differ from those that the rules use.
//
// Axes over which replicas are intended do not count: those of data and
// sequence parallelism, which shard activations, and that of pipeline stages.
// Returns nullopt if the mesh has no other axis larger than 1, or if the rules
// name no axis and the model has only scalars and small vectors. Parameters
// whose specs were corrected, as by `min_size`, count as sharded: the rules
// shard them.
std::optional<LintFinding> WholeModelReplicated(const Facts& facts,
                                                const Code& code);

// Returns the section of a rules file, such as `axes: {tensor_parallel:
// model}`, that gives a mesh axis the purpose that its name states. Returns an
// empty text if the name states none, or if the axis rules already name the
// axis.
std::string PurposeText(const Facts& facts, const std::string& axis);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_WHOLE_MODEL_H_
