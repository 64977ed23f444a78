// Makes the map of a KV cache between two plans, for `shardc kv` and for
// `shardc search --serve`.
#ifndef SHARDC_CLI_KV_REPORT_H_
#define SHARDC_CLI_KV_REPORT_H_

#include <vector>

#include "emit/kv/kv_map.h"
#include "plan/kv_layout.h"
#include "plan/view.h"
#include "source/finding.h"

namespace shardc::cli {

// Makes the map with the settings of `report`. Plans without `kv` have the
// kinds of layers of `fallback`. Returns false after a finding.
bool MakeKvReport(const PlanView& from, const PlanView& to,
                  const std::vector<KvKind>& fallback, KvMapReport& report,
                  Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_KV_REPORT_H_
