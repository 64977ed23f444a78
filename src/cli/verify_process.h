// What `shardc verify` and `shardc verify step` share: how a run shows its
// progress, and how it uses the processes that a launcher started.
#ifndef SHARDC_CLI_VERIFY_PROCESS_H_
#define SHARDC_CLI_VERIFY_PROCESS_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "cli/command.h"
#include "cli/ranks.h"
#include "source/finding.h"
#include "verify/report.h"

namespace shardc::cli {

// Returns a progress bar that is redrawn in place on stderr, counting `what`
// ("cases"); an empty function with --quiet or where stderr is no terminal.
verify::Progress ProgressLine(const Common& common, std::string_view what);
// The same for a self-test, which counts faults.
std::function<void(size_t done, size_t all)> FaultProgressLine(
    const Common& common);

// Returns false, and adds a finding on the first rank, where a self-test was
// started on several processes: it runs in one.
bool SelfTestMayRun(bool self_test, const Ranks& ranks, Findings& findings);

// Bytes over all cases or steps of a run: those that the ledger counted, those
// that devices handed to one another, and of these what crossed processes.
struct MovedBytes {
  int64_t recorded = 0, moved = 0, crossed = 0;
};
// Prints them on stderr where there are several processes.
void ReportMovedBytes(const MovedBytes& bytes, const Ranks& ranks,
                      const Common& common);

// Runs `body` once this process has joined the others of its launcher, and
// returns the exit status that all of them share.
int RunOverRanks(const std::function<int(const Ranks&)>& body,
                 Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFY_PROCESS_H_
