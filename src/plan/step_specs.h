// The plan's specs for the parameters of a step's graph.
#ifndef SHARDC_PLAN_STEP_SPECS_H_
#define SHARDC_PLAN_STEP_SPECS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/step_graph.h"
#include "plan/plan.h"

namespace shardc {

// By parameter of the graph, as stored. A parameter that is stacked from
// several tensors has the axis of their rule's `place` in its first dimension.
// If the plan is of representatives, `representatives` has for each tensor of
// the graph's manifest its parameter of the plan; empty: the same number. A
// parameter of scanned layers has its tensor's spec without the dimension that
// counts them. If an axis shards that dimension, a device holds all of some
// layers and nothing of others, which a step cannot have: `why` is then set.
std::vector<Spec> StepSpecs(const Plan& plan, const step::Graph& graph,
                            Mode mode,
                            std::span<const uint32_t> representatives = {},
                            std::string* why = nullptr);

}  // namespace shardc

#endif  // SHARDC_PLAN_STEP_SPECS_H_
