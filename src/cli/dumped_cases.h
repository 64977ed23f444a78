// The folder to which `--dump` writes cases of `verify`.
#ifndef SHARDC_CLI_DUMPED_CASES_H_
#define SHARDC_CLI_DUMPED_CASES_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "source/finding.h"

namespace shardc::cli {

// Begins and ends the writing of cases to the folder of `--dump`. The folder is
// made if nothing exists at its path, and cases of an earlier run are removed.
// In between, the folder has `case-unfinished.json`, a mark. Both return false
// after a finding.
bool BeginCases(const std::string& folder, Findings& findings);
bool EndCases(const std::string& folder, Findings& findings);
// Returns the path of a case's file, such as "DIR/case-0003.json".
std::string CaseFile(const std::string& folder, size_t index,
                     std::string_view ending);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_DUMPED_CASES_H_
