// Runs ring attention, and orders the tokens of a sequence for it.
#ifndef SHARDC_EXEC_OPERATIONS_RING_H_
#define SHARDC_EXEC_OPERATIONS_RING_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "exec/attention/attention_problem.h"
#include "exec/operations/operation.h"

namespace shardc::exec {

// Returns the permutation of a sequence of L tokens: slot i holds token
// RingOrder(...)[i], and rank r has slots [r L/n, (r+1) L/n). L must be
// divisible by 2n for kZigZag and by n for kStriped.
std::vector<int64_t> RingOrder(SequenceOrder order, int64_t length, int64_t n);

// Returns the tensor whose slice i of `dim` is slice `order[i]` of `from`.
Buffer PermuteDim(const Buffer& from, size_t dim,
                  const std::vector<int64_t>& order);

// Permutes every input along its query and key lengths: tokens, positions,
// segment ids, bias and masks.
AttentionProblem PermuteProblem(const AttentionProblem& problem,
                                const std::vector<int64_t>& query_order,
                                const std::vector<int64_t>& key_order);

struct Staged;
struct RingSeam {
  // Returns the number of ring steps in which each rank processes its block.
  // The correct number is the number of ranks.
  std::function<int64_t(int64_t ranks)> steps = [](int64_t n) { return n; };
};
// Runs ring attention on slices. The lengths of query and key must be sharded
// over the same axes. Positions are inputs, so tokens may be in any order.
ShardedTensor PassKeysRound(Machine& machine, const Staged& staged,
                            const OperationSettings& settings);

// Runs a ring on tokens in the order `settings.order`: permutes the problem,
// runs the ring, and permutes the output back.
OperationOutcome RunPermutedRing(Machine& machine,
                                 const AttentionProblem& problem,
                                 const AttentionSpecs& specs,
                                 const OperationSettings& settings);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_OPERATIONS_RING_H_
