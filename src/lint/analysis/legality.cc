// Reports the problems that legalization found in specs, for several lints. If
// the policy did not correct the spec, the finding has the code's level. If the
// policy corrected it, the finding is at most a warning, and its message states
// the cost of the correction. A problem that occurs in several modes is
// reported once. The entries that a spec has beyond the rank are one problem.
//
//   50257 columns over tp 4, policy shrink  ->  "...; the policy makes it null,
//   13.8 MiB more per device and parameter"
#include "lint/analysis/legality.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "lint/analysis/phrase.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Returns a text with the bytes that all corrections of a spec together add to
// a device. They are more than the sum over the corrections: if tp:4 and fsdp:2
// are both removed, a device holds 8 times as much, but one removal alone makes
// it 4 or 2 times as much. `corrected` is the number of the corrections that
// the finding is about.
std::string CostText(const ModeLayout& mode, size_t corrected) {
  if (!mode.bytes_per_device || !mode.uncorrected_bytes_per_device) return {};
  const int64_t added =
      *mode.bytes_per_device - *mode.uncorrected_bytes_per_device;
  if (added <= 0) return {};
  return ", " + BytesText(added) + " more per device and parameter" +
         (mode.edits.size() > corrected
              ? ", the spec's other corrections included"
              : "");
}

// Returns the edits that have this reason. An edit states what legalization
// found wrong in a spec. Each list of the result is reported as one problem.
// The edits of all entries beyond the tensor's rank are in one list, and any
// other edit has its own list.
std::vector<std::vector<Edit>> ProblemsOf(const std::vector<Edit>& edits,
                                          Reason reason) {
  std::vector<std::vector<Edit>> out;
  for (const Edit& edit : edits) {
    if (edit.reason != reason) continue;
    if (out.empty() || reason != Reason::kTooLong) out.emplace_back();
    out.back().push_back(edit);
  }
  return out;
}

}  // namespace

void ReportEdits(
    const Facts& facts, const Code& code, Reason reason,
    const std::function<std::string(const ParameterGroup&, const ModeLayout&,
                                    const Edit&)>& observe,
    const std::string& help, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    // The problems that have been reported, keyed by their first dimension.
    std::map<std::optional<int>, std::vector<std::vector<Edit>>> by_dim;
    const auto say = [&](const ModeLayout& mode,
                         const std::vector<Edit>& problem, bool illegal) {
      const Edit& edit = problem.front();
      auto& reported = by_dim[edit.dim];
      if (std::find(reported.begin(), reported.end(), problem) !=
          reported.end()) {
        return;
      }
      reported.push_back(problem);
      std::string message = observe(group, mode, edit);
      if (mode.mode != Mode::kTrain) {
        message += " (in " + std::string(ModeName(mode.mode)) + ")";
      }
      if (!illegal) {
        message += "; the policy makes " +
                   std::string(problem.size() > 1 ? "them " : "it ") +
                   GroupText(edit.to) + CostText(mode, problem.size());
      }
      LintFinding finding =
          GroupFinding(facts, code, group, std::move(message), help);
      // The correction explains why the parameter is replicated. Other findings
      // which only report that it is replicated are then redundant.
      if (!illegal && facts.Replicated(group)) {
        finding.reports.push_back(ReplicatedTopic(facts.Example(group)));
      }
      if (!illegal && finding.level == Level::kError) {
        finding.level = Level::kWarning;
      }
      sink.push_back(std::move(finding));
    };
    for (const ModeLayout& mode : facts.LayoutOf(group).modes) {
      for (const auto& one : ProblemsOf(mode.problems, reason)) {
        say(mode, one, true);
      }
      for (const auto& one : ProblemsOf(mode.edits, reason)) {
        say(mode, one, false);
      }
    }
  }
}

}  // namespace shardc
