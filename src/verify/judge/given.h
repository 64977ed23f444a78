// Computes without a run, at the sizes that the user gave, whether the
// operation supports the case and how many bytes each device sends.
#ifndef SHARDC_VERIFY_JUDGE_GIVEN_H_
#define SHARDC_VERIFY_JUDGE_GIVEN_H_

#include <optional>

#include "exec/machine/ledger.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// If the operation cannot run at the case's sizes, returns a result with status
// unsupported and the same message as a run. Returns nullopt if the operation
// could run. Also returns nullopt if the case has a table of blocks that the
// operation does not support: only a run, which has the table, reports this.
std::optional<CaseResult> RefusalAt(const Case& test);

// Returns the bytes that devices send in the case, by the operation's formula.
exec::SentBytes SentAt(const Case& test);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_GIVEN_H_
