// Functions that `shardc verify` and `shardc verify step` share. They show the
// progress of a run, and start the run on several processes if a launcher such
// as mpirun started them.
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

// Returns a function that redraws a progress bar on stderr. `what` is the word
// for the counted items, such as "cases". With --quiet, or if stderr is not a
// terminal, the function is empty.
verify::Progress ProgressLine(const Common& common, std::string_view what);

// Numbers of bytes, summed over all cases or steps of a run. `recorded`: bytes
// that the simulated mesh recorded for its collectives. `moved`: bytes that
// devices sent to each other. `crossed`: the part of `moved` that was sent to
// another process.
struct MovedBytes {
  int64_t recorded = 0, moved = 0, crossed = 0;
};
// Prints the bytes on stderr if there are several processes.
void ReportMovedBytes(const MovedBytes& bytes, const Ranks& ranks,
                      const Common& common);

// Joins the processes that a launcher started, runs `body`, and returns the
// exit status.
int RunOverRanks(const std::function<int(const Ranks&)>& body,
                 Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFY_PROCESS_H_
