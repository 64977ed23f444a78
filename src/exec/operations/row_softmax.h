// Computes attention from all logits of a row at once, for the operations
// vanilla and sdpa.
#ifndef SHARDC_EXEC_OPERATIONS_ROW_SOFTMAX_H_
#define SHARDC_EXEC_OPERATIONS_ROW_SOFTMAX_H_

#include "exec/attention/attention_problem.h"
#include "exec/attention/staging.h"
#include "exec/machine/machine.h"

namespace shardc::exec {

// Returns the output of softmax over full rows of logits. If `dim_axes` shard
// the head dimension, the logits are all-reduced over these axes. The output
// has the query's axes for batch, length and heads, and the value's axes for
// its dim.
ShardedTensor RowSoftmax(Machine& machine, const Staged& staged, GroupMap map,
                         const OperationSettings& settings,
                         const AxisGroup& dim_axes);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_OPERATIONS_ROW_SOFTMAX_H_
