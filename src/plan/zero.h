// ZeRO: what replicas shard in addition to the plan's specs.
#ifndef SHARDC_PLAN_ZERO_H_
#define SHARDC_PLAN_ZERO_H_

#include <vector>

#include "model/mesh.h"
#include "model/spec.h"
#include "model/step_graph.h"

namespace shardc {

// Specs by parameter of a graph.
struct ZeroSpecs {
  std::vector<Spec> parameters = {};
  // Specs of the moments, and of gradients at the end of a step.
  std::vector<Spec> states = {};
  // Specs of gradients while micro-batches add them up.
  std::vector<Spec> sums = {};
};

// Appends axes of `tokens`, the axes of batch and sequence, that a spec does
// not use yet: from stage 1 on to the specs of states, from stage 2 on to those
// of sums of gradients, in stage 3 to those of parameters. The axes are
// appended to the dimension of which a device holds most among those that they
// divide. If they divide none, the last axis is left out until the others do.
ZeroSpecs ShardOverReplicas(const step::Graph& graph, const step::Sizes& sizes,
                            const Mesh& mesh, const AxisGroup& tokens,
                            const std::vector<Spec>& specs, int stage);

}  // namespace shardc

#endif  // SHARDC_PLAN_ZERO_H_
