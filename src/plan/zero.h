// Computes the specs of ZeRO, which shards optimizer states, gradients and
// parameters over the devices that would otherwise hold copies of them.
#ifndef SHARDC_PLAN_ZERO_H_
#define SHARDC_PLAN_ZERO_H_

#include <vector>

#include "model/mesh.h"
#include "model/spec.h"
#include "model/step_graph.h"

namespace shardc {

// The specs that ZeRO chooses. Each list is indexed by parameter of the graph.
struct ZeroSpecs {
  std::vector<Spec> parameters = {};
  // The specs of the optimizer's moments, and of gradients at the end of a
  // step.
  std::vector<Spec> states = {};
  // The specs of gradients while they are accumulated over micro-batches. If
  // empty, the gradients have the specs of the parameters.
  std::vector<Spec> sums = {};
};

// Returns the specs of ZeRO stage `stage`, which is at least 1. `tokens` are
// the axes of batch and sequence. Those axes of `tokens` that a spec does not
// use are appended to the spec. Stage 1 extends the specs of states, stage 2
// also those of accumulated gradients, and stage 3 also those of parameters.
//
// The axes are appended to the dimension with the largest shard among the
// dimensions that they divide. If they divide no dimension, the last axis is
// left out, and then the axis before it, until the remaining axes divide a
// dimension.
ZeroSpecs ShardOverReplicas(const step::Graph& graph, const step::Sizes& sizes,
                            const Mesh& mesh, const AxisGroup& tokens,
                            std::vector<Spec> specs, int stage);

}  // namespace shardc

#endif  // SHARDC_PLAN_ZERO_H_
