// Computes the specs of ZeRO, which shards states over replicas in addition to
// the plan's specs.
#ifndef SHARDC_PLAN_ZERO_H_
#define SHARDC_PLAN_ZERO_H_

#include <vector>

#include "model/mesh.h"
#include "model/spec.h"
#include "model/step_graph.h"

namespace shardc {

// Specs by the index of the graph's parameter.
struct ZeroSpecs {
  std::vector<Spec> parameters = {};
  // Specs of the optimizer's moments, and of gradients at the end of a step.
  std::vector<Spec> states = {};
  // Specs of gradients while they are accumulated over micro-batches.
  std::vector<Spec> sums = {};
};

// Appends those axes of `tokens` (the axes of batch and sequence) that a spec
// does not use yet: to the specs of states, from stage 2 on also to those of
// accumulated gradients, and in stage 3 also to those of parameters. `stage` is
// at least 1. Among the dimensions that the axes divide, the one with the
// largest shard gets them. If they divide none, the last axis is dropped, and
// then the next, until the others divide one.
ZeroSpecs ShardOverReplicas(const step::Graph& graph, const step::Sizes& sizes,
                            const Mesh& mesh, const AxisGroup& tokens,
                            const std::vector<Spec>& specs, int stage);

}  // namespace shardc

#endif  // SHARDC_PLAN_ZERO_H_
