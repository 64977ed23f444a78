// Determines how an attention operation runs inside a step's program.
#ifndef SHARDC_EXEC_STEP_OPERATION_FORM_H_
#define SHARDC_EXEC_STEP_OPERATION_FORM_H_

#include <cstdint>

#include "exec/operations/operation.h"
#include "step/attention.h"
#include "step/constraints.h"

namespace shardc::exec {

// Returns the form of the operation's program: the compiler's global view, a
// kernel on slices, or a ring. `length_parts` is the number of shards of the
// query length, and `key_heads` the number of KV heads of one device. If an
// all_to_all changes the sharding of the length to one of the heads, and
// `length_parts` does not divide `key_heads`, each KV head is copied
// length_parts / key_heads times.
step::AttentionForm StepForm(const Operation& operation, int64_t length_parts,
                             int64_t key_heads);

// `constraints` has the sharding constraints of a mode, such as decode. Adds
// the shardings that the operation requires of its query, key and output.
void AddStepOverrides(const Operation& operation,
                      step::ShardingConstraints& constraints);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_STEP_OPERATION_FORM_H_
