// The first thing proven of a case: that its layouts hold every element.
#ifndef SHARDC_VERIFY_JUDGE_LAYOUT_PROOF_H_
#define SHARDC_VERIFY_JUDGE_LAYOUT_PROOF_H_

#include <optional>

#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Tensors full of unique ids are scattered by each spec of the case, moved to
// the output's and to the whole by collectives, exchanged between length and
// heads and back, and reduced and scattered; after each step every element
// must be where its layout says, exactly once per replica group. Layouts that
// are not legal are left to the operation.
std::optional<exec::Complaint> ProveLayouts(const Case& test,
                                            exec::Machine& machine);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_LAYOUT_PROOF_H_
