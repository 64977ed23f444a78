// Finds the specs in a plan for the parameters of a step's graph.
#ifndef SHARDC_PLAN_STEP_SPECS_H_
#define SHARDC_PLAN_STEP_SPECS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/step_graph.h"
#include "plan/plan.h"

namespace shardc {

// Returns the specs of the graph's parameters, indexed by parameter. The spec
// of a parameter without tensors is empty. If several tensors, such as one for
// each expert, are stacked into one parameter, its first dimension is sharded
// over the axis of the `place` of their rule. Without `place` it is unsharded.
//
// The spec of a parameter of scanned layers is its tensor's spec without the
// dimension that counts the layers. If a mesh axis shards that dimension, a
// device holds some layers completely and no part of other layers. A step
// cannot express this, so `why` is set unless it is null.
//
// If the plan divides each of several parts of a dimension (`parts` of a rule),
// the step must divide them too (`fused: by_part` of the `model:` section). If
// it does not, `why` is set. `sizes` has the sizes of the graph's labels.
//
// If `plan` has only one parameter of each group, `representatives` maps each
// tensor of the graph's manifest to its parameter in the plan. If it is empty,
// a tensor and its parameter have the same index.
std::vector<Spec> StepSpecs(const Plan& plan, const step::Graph& graph,
                            const step::Sizes& sizes, Mode mode,
                            std::span<const uint32_t> representatives = {},
                            std::string* why = nullptr);

}  // namespace shardc

#endif  // SHARDC_PLAN_STEP_SPECS_H_
