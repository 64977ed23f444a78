// Finds the plan's specs for the parameters of a step's graph.
#ifndef SHARDC_PLAN_STEP_SPECS_H_
#define SHARDC_PLAN_STEP_SPECS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/step_graph.h"
#include "plan/plan.h"

namespace shardc {

// Returns the spec of each parameter of the graph, as the graph stores it;
// empty for a parameter without tensors. A parameter that is stacked from
// several tensors has the axis of their rule's `place`, if any, in its first
// dimension. A parameter of scanned layers has its tensor's spec without the
// dimension that counts the layers. If a mesh axis shards that dimension, a
// device holds all of some layers and nothing of others, which a step cannot
// express, and `why`, if not null, is set. If `plan` has only representatives,
// `representatives` maps each tensor of the graph's manifest to its parameter
// in the plan; if it is empty, the indices are equal.
std::vector<Spec> StepSpecs(const Plan& plan, const step::Graph& graph,
                            Mode mode,
                            std::span<const uint32_t> representatives = {},
                            std::string* why = nullptr);

}  // namespace shardc

#endif  // SHARDC_PLAN_STEP_SPECS_H_
