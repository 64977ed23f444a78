// Attention over whole rows of logits: vanilla's and sdpa's arithmetic.
#ifndef SHARDC_EXEC_OPERATIONS_ROW_SOFTMAX_H_
#define SHARDC_EXEC_OPERATIONS_ROW_SOFTMAX_H_

#include "exec/attention/attention_problem.h"
#include "exec/attention/staging.h"
#include "exec/machine/machine.h"

namespace shardc::exec {

// Logits, added over `dim_axes` where the head dimension is split; softmax;
// output, by the query's layout and the value's dim.
ShardedTensor RowSoftmax(Machine& machine, const Staged& staged, GroupMap map,
                         const OperationSettings& settings,
                         const AxisGroup& dim_axes);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_OPERATIONS_ROW_SOFTMAX_H_
