// The first check of a case: its layouts place every element correctly.
#ifndef SHARDC_VERIFY_JUDGE_LAYOUT_PROOF_H_
#define SHARDC_VERIFY_JUDGE_LAYOUT_PROOF_H_

#include <optional>

#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Scatters a tensor of unique ids for each of query, key, value and output.
// Each tensor is gathered, exchanged between length and heads and back, and
// reduce-scattered. The query is also resharded to the output's spec, the other
// tensors to the query's spec, and then all of them to replicated. Steps that
// the shape or the spec does not allow are left out. After each step every
// element must be where the layout places it, exactly once for each set of
// replicas. Returns the first error, or nullopt. Illegal layouts are not
// checked, because the operation refuses them.
std::optional<exec::LayoutError> ProveLayouts(const Case& test,
                                              exec::Machine& machine);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_LAYOUT_PROOF_H_
