// The first check of a case: its layouts place every element correctly.
#ifndef SHARDC_VERIFY_JUDGE_LAYOUT_PROOF_H_
#define SHARDC_VERIFY_JUDGE_LAYOUT_PROOF_H_

#include <optional>

#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Scatters tensors of unique ids by each spec of the case, reshards the query
// to the output's spec, the others to the query's, and all to replicated,
// gathers them, exchanges length and heads and back, and reduces and scatters
// them. After each step every element must be where the layout places it,
// exactly once for each set of replicas. Returns the first error. Illegal
// layouts are not checked, because the operation refuses them.
std::optional<exec::LayoutError> ProveLayouts(const Case& test,
                                              exec::Machine& machine);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_LAYOUT_PROOF_H_
