// Checks the layouts of a case before its result is checked. After each
// collective, every element must be on the devices that its sharding requires.
#ifndef SHARDC_VERIFY_JUDGE_LAYOUT_PROOF_H_
#define SHARDC_VERIFY_JUDGE_LAYOUT_PROOF_H_

#include <optional>

#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Checks the layouts of query, key, value and output on tensors of unique ids.
// Each tensor is scattered, gathered and reduce-scattered, and an all_to_all
// exchanges its length for heads and back. The query is also resharded to the
// output's spec, the other tensors to the query's spec, and then each tensor to
// replicated. Steps that the shape or the spec does not allow are left out.
// After each step, every device must hold exactly the elements of its shard.
// Returns the first error, or nullopt. Illegal layouts are not checked, because
// the operation refuses them.
std::optional<exec::LayoutError> ProveLayouts(const Case& test,
                                              exec::Machine& machine);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_LAYOUT_PROOF_H_
