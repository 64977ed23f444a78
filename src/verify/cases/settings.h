// Applies requested settings to a case.
#ifndef SHARDC_VERIFY_CASES_SETTINGS_H_
#define SHARDC_VERIFY_CASES_SETTINGS_H_

#include "model/operation_settings.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Overwrites the case's settings and features that `record` sets.
void ApplySettings(const SettingsRecord& record, Case& test);

// Shrinks blocks to lengths below the `given` ones. Blocks that nobody
// requested become two and a ragged tail. A requested block is kept if it is
// below the length or held all keys before too; otherwise it shrinks, with a
// remark in the case.
void FitBlocks(const SettingsRecord& record, const Sizes& given, Case& test);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_SETTINGS_H_
