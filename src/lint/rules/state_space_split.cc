// Reports mixers (Mamba-2, gated delta nets) whose packed projection or
// convolution is sharded contiguously. A mixer stores several parts in one
// parameter (lint/analysis/mixers.cc):
//
//   in_proj  [z | x | B | C | dt]   2 inner + 2 groups * state + heads
//   conv1d   [x | B | C]            inner + 2 groups * state
//
// A device needs the columns of its own heads and groups in each part. A
// contiguous shard of `in_proj` or `conv1d` has other columns.
#include <algorithm>
#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/fused.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {
namespace {

bool HasGroups(const Fused& fused) {
  return std::any_of(fused.parts.begin(), fused.parts.end(),
                     [](const FusedPart& part) { return part.name == "B"; });
}

}  // namespace

void CheckStateSpaceSplit(const Facts& facts, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    const Fused* const fused = facts.blocks().Of(group);
    if (fused == nullptr || !fused->mixer || !facts.Judged(group) ||
        IsGathered(facts, group)) {
      continue;
    }
    const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, fused->dim));
    const int64_t parts = facts.TensorParts(axes);
    if (parts <= 1) continue;
    std::string message = "dimension " + std::to_string(fused->dim) + " of " +
                          ParametersText(facts, group) + " holds " +
                          PartsText(*fused) +
                          " one after the other and is split as one over " +
                          GroupText(axes) + ": no shard has its share of each";
    const auto groups =
        facts.model() == nullptr ? std::nullopt : facts.model()->state_groups;
    if (groups && HasGroups(*fused) && *groups % parts != 0) {
      message += "; and heads share " + std::to_string(*groups) +
                 (*groups == 1 ? " group" : " groups") + " of B and C, which " +
                 std::to_string(parts) + " devices do not divide";
    }
    sink.push_back(
        GroupFinding(facts, kStateSpaceSplit.code, group, std::move(message),
                     "leave the packed dimension unsharded, or store its "
                     "parts as separate parameters and split heads over an "
                     "axis that divides the groups"));
  }
}

}  // namespace shardc
