// The first check of a case: its layouts hold every element.
#ifndef SHARDC_VERIFY_JUDGE_LAYOUT_PROOF_H_
#define SHARDC_VERIFY_JUDGE_LAYOUT_PROOF_H_

#include <optional>

#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Scatters tensors of unique ids by each spec of the case, reshards them to the
// output's spec and to replicated, exchanges length and heads and back, and
// reduces and scatters them; after each step every element must be where its
// layout puts it, exactly once per replica group. Illegal layouts are left to
// the operation.
std::optional<exec::LayoutError> ProveLayouts(const Case& test,
                                              exec::Machine& machine);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_LAYOUT_PROOF_H_
