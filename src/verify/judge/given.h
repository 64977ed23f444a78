// What is known of the sizes that were given without running them: whether the
// program can be formed, and what each device sends.
#ifndef SHARDC_VERIFY_JUDGE_GIVEN_H_
#define SHARDC_VERIFY_JUDGE_GIVEN_H_

#include <optional>

#include "exec/machine/ledger.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Unsupported, in the words of a run at the case's sizes; nothing where these
// could be run, or where it is not their sizes that hinder.
std::optional<CaseResult> RefusalAt(const Case& test);

// By the operation's formula; nothing where none holds.
std::optional<exec::SentBytes> SentAt(const Case& test);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_GIVEN_H_
