// An attention operation inside a step: what form its program has there, where
// it brings what it takes, or why it cannot run.
#ifndef SHARDC_VERIFY_STEP_STEP_OPERATION_H_
#define SHARDC_VERIFY_STEP_STEP_OPERATION_H_

#include <optional>
#include <string>
#include <vector>

#include "exec/machine/ledger.h"
#include "exec/operations/operation.h"
#include "model/mesh.h"
#include "step/attention.h"
#include "step/constraints.h"
#include "verify/step/step_report.h"

namespace shardc::verify {

// Nothing where it cannot run under the plan's specs on the mesh. Without an
// operation attention is the compiler's, in the global view.
std::optional<step::AttentionForm> FormOf(const StepRequest& request,
                                          const Mesh& mesh, std::string& why);

// Where the operation has query, key and output, beside the mode's own axes.
void AddOverrides(const exec::Operation& operation,
                  step::ShardingConstraints& constraints);
// The same for a request's own; none without an operation.
std::vector<step::ShardingConstraintOverride> OverridesOf(
    const StepRequest& request);

// What devices send for the attention of one layer forward, by the operation's
// own formula.
std::optional<exec::SentBytes> FormulaOf(const StepRequest& request,
                                         const Mesh& mesh);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_STEP_OPERATION_H_
