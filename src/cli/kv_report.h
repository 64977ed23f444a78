// Makes the map of a KV cache between two plans, for `shardc kv`, `shardc
// verify kv` and `shardc search --serve`.
#ifndef SHARDC_CLI_KV_REPORT_H_
#define SHARDC_CLI_KV_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "emit/kv/kv_map.h"
#include "plan/kv_layout.h"
#include "plan/plan_table.h"
#include "source/finding.h"

namespace shardc::cli {

// The flags of the commands that make the map of two plans.
struct KvFlags {
  std::string from, to, model, output;
  std::string mode = "prefill:decode";
  std::string tokens, page, order, kv_dtype, state_dtype, conv_dtype, tensors,
      dp_rank, interleave, draft;
  bool convert = false, share_replicas = false, allow_edited = false;
};
Options KvOptions(KvFlags& flags);

struct KvInputs {
  PlanTable from, to;
  KvMapReport report;
};
// Reads the plans and makes the map. Returns nullopt after a finding.
std::optional<KvInputs> ReadKvInputs(const KvFlags& flags, Findings& findings);

// Makes the map with the settings of `report`. Plans without `kv` have the
// kinds of layers of `fallback`. Returns false after a finding.
bool MakeKvReport(const ReadPlan& from, const ReadPlan& to,
                  const std::vector<KvKind>& fallback, KvMapReport& report,
                  Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_KV_REPORT_H_
