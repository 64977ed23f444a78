// Applies the requested settings to a case.
#ifndef SHARDC_VERIFY_CASES_SETTINGS_H_
#define SHARDC_VERIFY_CASES_SETTINGS_H_

#include "model/operation_settings.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Applies the settings and features that `record` contains to the case.
void ApplySettings(const SettingsRecord& record, Case& test);

// Fits block sizes to the case's lengths, which may be smaller than the `given`
// lengths. If no block size was requested, a default that is too large is
// reduced to about three eighths of the length: most lengths then have two
// blocks and a shorter last block. A requested block size is kept if it is
// below the case's length. It is also kept if it is at least the given length:
// at both lengths, all tokens are then in one block. Otherwise it is reduced,
// and the case gets a remark.
void FitBlocks(const SettingsRecord& record, const Sizes& given, Case& test);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_SETTINGS_H_
