// The inputs on which a step is run: parameters, moments, tokens and caches.
#ifndef SHARDC_VERIFY_STEP_DATA_H_
#define SHARDC_VERIFY_STEP_DATA_H_

#include <cstdint>
#include <vector>

#include "dense/step.h"
#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"
#include "exec/step/run.h"
#include "model/step_graph.h"

namespace shardc::verify {

// The inputs of the devices, in `dtype`, and the same numbers for the dense
// reference.
struct StepData {
  exec::StepInputs inputs = {};
  dense::StepValues<double> values = {};
};
// Creates the inputs of a step. They are chosen so that mistakes change
// results. Weights of norms are not 1 and biases are not 0. Rows have different
// numbers of tokens, so that the mean of the rows' means differs from the mean
// over all tokens. Unused cache rows hold large numbers. Second moments have a
// lower bound, so that updates are well conditioned.
StepData MakeStepData(const step::Graph& graph, const step::Sizes& sizes,
                      Dtype dtype, uint64_t seed);

// Returns the largest absolute difference of two elements. It is infinity if a
// number is not finite and differs from the other number.
double Difference(const exec::Buffer& got, const std::vector<double>& want);
// Returns the largest absolute difference on the devices of this rank
// (process). Only one replica is compared, since another check compares
// replicas with each other.
double DifferenceHere(const exec::SimMesh& mesh,
                      const exec::ShardedTensor& tensor,
                      const std::vector<double>& want);
// Gathers a tensor on every rank, even if replicas differ: the last replica is
// then used. `transport` is null if this process holds all devices.
exec::Buffer GatherAnyway(const exec::SimMesh& mesh, exec::Transport* transport,
                          const exec::ShardedTensor& tensor);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_DATA_H_
