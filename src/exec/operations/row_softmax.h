// Attention over full rows of logits: the arithmetic of vanilla and sdpa.
#ifndef SHARDC_EXEC_OPERATIONS_ROW_SOFTMAX_H_
#define SHARDC_EXEC_OPERATIONS_ROW_SOFTMAX_H_

#include "exec/attention/attention_problem.h"
#include "exec/attention/staging.h"
#include "exec/machine/machine.h"

namespace shardc::exec {

// Computes logits, adds them over `dim_axes` if the head dimension is sharded,
// then softmax and output, sharded by the query's layout and the value's dim.
ShardedTensor RowSoftmax(Machine& machine, const Staged& staged, GroupMap map,
                         const OperationSettings& settings,
                         const AxisGroup& dim_axes);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_OPERATIONS_ROW_SOFTMAX_H_
