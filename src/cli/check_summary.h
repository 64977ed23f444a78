// Writes the totals of a check, such as the number of findings by level.
#ifndef SHARDC_CLI_CHECK_SUMMARY_H_
#define SHARDC_CLI_CHECK_SUMMARY_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/check_targets.h"
#include "source/finding.h"
#include "source/sink.h"

namespace shardc::cli {

// Writes, for each code, the number of its findings and the number of
// parameters that they name. A parameter that is in two findings is counted
// twice.
void WriteStatistics(std::span<const Finding> findings, bool as_json,
                     Sink& out);

// Returns the summary line: the number of findings of each level, and the
// skipped lints. `known` is the number of findings that were removed because
// the baseline lists them.
std::string SummaryText(const Findings& findings,
                        const std::vector<CheckedTarget>& targets,
                        int64_t known, bool hides_notes);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_CHECK_SUMMARY_H_
