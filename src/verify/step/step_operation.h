// Decides how a step computes attention if an attention operation is requested.
// The form is the global view, a kernel on slices, or a ring. Other functions
// return the axes that the operation requires, and the bytes that it sends.
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

// Returns how attention is computed: in the global view, as a compiler does, by
// a kernel on slices, or by a ring. Returns nullopt, and sets `why`, if the
// operation cannot run in this step with the plan's specs on the mesh. Returns
// the global view if the request has no operation, or if the model's
// description cannot be built; building all layers reports that error.
std::optional<step::AttentionForm> FormOf(const StepRequest& request,
                                          const Mesh& mesh, std::string& why);

// Returns the axes that the request's operation requires for query, key and
// output. The list is empty if the request has no operation.
std::vector<step::ShardingConstraintOverride> OverridesOf(
    const StepRequest& request);

// Returns the bytes that devices send for the attention of one layer in the
// forward pass, by the formula of the request's operation. Returns nullopt if
// the model's description cannot be built.
std::optional<exec::SentBytes> FormulaOf(const StepRequest& request,
                                         const Mesh& mesh);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_STEP_OPERATION_H_
