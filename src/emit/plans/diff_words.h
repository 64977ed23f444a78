// Texts that the text form and the Markdown form of a difference of plans
// share.
#ifndef SHARDC_EMIT_PLANS_DIFF_WORDS_H_
#define SHARDC_EMIT_PLANS_DIFF_WORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/difference/plan_difference.h"

namespace shardc {

// Returns "[4096, 4096] BF16".
std::string DiffTypeText(const TensorType& type);
// Returns "train, prefill and decode" or "every mode".
std::string DiffModesText(const std::vector<Mode>& modes);
// Returns "3.5 MiB", or "unknown" for nullopt.
std::string DiffBytesText(const std::optional<int64_t>& bytes);
// Returns "+8 KiB (+100.0 %)"; empty if a number is unknown or both are equal.
std::string DiffChangeText(const std::optional<int64_t>& before,
                           const std::optional<int64_t>& after);
// Returns "all_gather over `fsdp`, 24.5 MiB sent per device". Returns an empty
// text if no data moves or if the collective is not known.
std::string DiffMoveText(const SpecChange& change);
// Returns whether both plans have pipeline stages and the bytes per device of
// at least one rank differ. A plan without stages has no ranks to compare.
bool DiffRanksDiffer(const PlanDifference& diff);
// Returns the bytes on a device of a pipeline rank, or "nothing" if the plan
// has fewer ranks.
std::string DiffRankBytesText(const std::vector<std::optional<int64_t>>& bytes,
                              size_t rank);
// Returns the pattern, or "no rule" if it is empty.
std::string DiffRuleText(const std::string& pattern);
// Returns "4 parameters resharded, 1 parameter added". Returns "another mesh"
// if only the meshes differ, and "no difference" if nothing differs.
std::string DiffSummaryText(const PlanDifference& diff);
// If the meshes differ in their number of devices, returns the reason why no
// data movement is reported. Otherwise returns an empty text.
std::string DiffDevicesText(const PlanDifference& diff);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_DIFF_WORDS_H_
