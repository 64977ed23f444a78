// Settings that were asked for, laid over a case's own.
#ifndef SHARDC_VERIFY_CASES_SETTINGS_H_
#define SHARDC_VERIFY_CASES_SETTINGS_H_

#include "model/operation_settings.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// What `record` says goes to the case's settings and features; the rest
// stays.
void LaySettings(const SettingsRecord& record, Case& test);

// Blocks for the reduced sizes' lengths, smaller than the `given`: those that
// nobody asked for are cut to two and a ragged tail. One asked for is kept
// where it is below the length and holds everything where it did so; else it is
// cut too, and the case's remarks say so.
void FitBlocks(const SettingsRecord& record, const Sizes& given, Case& test);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_SETTINGS_H_
