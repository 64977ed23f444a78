// The plan's specs for the parameters of a step's graph.
#ifndef SHARDC_PLAN_STEP_SPECS_H_
#define SHARDC_PLAN_STEP_SPECS_H_

#include <vector>

#include "model/step_graph.h"
#include "plan/plan.h"

namespace shardc {

// By parameter of the graph, as stored. A parameter that is stacked from
// several tensors has the axis of their rule's `place` in its first dimension.
std::vector<Spec> StepSpecs(const Plan& plan, const step::Graph& graph,
                            Mode mode);

}  // namespace shardc

#endif  // SHARDC_PLAN_STEP_SPECS_H_
