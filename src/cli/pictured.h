// What both the terminal's pictures and the page show of a plan.
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

// A bar for each report, one for each mode.
MemoryBars BarsOf(std::span<const cost::Report> reports);

// With how often patterns are found, where the names can be searched.
picture::Coverage CoverageIn(const Planned& planned,
                             const picture::FoldedPlan& folded);

struct CacheArray {
  std::string title;  // `key, value (decode)`
  picture::ArrayInput input;
};
// Nothing where the plan has no such mode.
std::optional<CacheArray> CacheIn(const Planned& planned,
                                  const cost::Settings& settings, Mode mode);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PICTURED_H_
