// Collects data about a plan that both the terminal pictures and the HTML page
// show.
#ifndef SHARDC_CLI_PICTURED_H_
#define SHARDC_CLI_PICTURED_H_

#include <optional>
#include <span>
#include <string>

#include "cli/plan_table.h"
#include "cost/report.h"
#include "emit/pictures/bars_text.h"
#include "picture/array.h"
#include "picture/coverage.h"

namespace shardc::cli {

// Returns one bar of memory for each report. The reports must be for different
// modes.
MemoryBars BarsOf(std::span<const cost::Report> reports);

// Returns the parameters for which each rule is the first match, and their
// bytes. For a compiled plan, also returns the number of all names that the
// rule's pattern matches.
picture::Coverage CoverageIn(const Planned& planned,
                             const picture::FoldedPlan& folded);

struct CacheArray {
  std::string title;  // for example `key, value (decode)`
  picture::ArrayInput input;
};
// Returns the KV cache of a mode as an array to draw. Returns nullopt if the
// plan lacks the mode.
std::optional<CacheArray> CacheIn(const Planned& planned,
                                  const cost::Settings& settings, Mode mode);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PICTURED_H_
