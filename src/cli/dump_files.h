// Names the files that `--dump DIR` of `verify` and `verify step` writes for
// each case, and makes the directory.
#ifndef SHARDC_CLI_DUMP_FILES_H_
#define SHARDC_CLI_DUMP_FILES_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "source/finding.h"

namespace shardc::cli {

// Makes the directory if nothing exists at the path. Returns false after a
// finding.
bool MakeFolder(const std::string& path, Findings& findings);
// Returns the path of a case's file, such as "DIR/case-0003.json".
std::string CaseFile(const std::string& folder, size_t index,
                     std::string_view ending);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_DUMP_FILES_H_
