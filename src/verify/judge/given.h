// What can be determined for the sizes given without running them: whether the
// program can be formed, and what each device sends.
#ifndef SHARDC_VERIFY_JUDGE_GIVEN_H_
#define SHARDC_VERIFY_JUDGE_GIVEN_H_

#include <optional>

#include "exec/machine/ledger.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Returns an unsupported result with the message of a run at the case's sizes;
// nullopt if it could run, or if its sizes are not the reason.
std::optional<CaseResult> RefusalAt(const Case& test);

// Returns the bytes by the operation's formula.
exec::SentBytes SentAt(const Case& test);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_GIVEN_H_
