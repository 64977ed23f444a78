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
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kStateSpaceSplit;

namespace {

bool HasGroups(const Fused& fused) {
  return std::any_of(fused.parts.begin(), fused.parts.end(),
                     [](const FusedPart& part) { return part.name == "B"; });
}

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

}  // namespace

constinit const Lint kStateSpaceSplit{
    .code = {232, "state-space-split", Level::kWarning,
             "a state space mixer is split across its packed parts"},
    .needs = kNeedsShapes,
    .what =
        "Finds packed projections and convolutions of Mamba-2 mixers and of "
        "gated delta nets (`in_proj`, `conv1d` with a vector `A_log`, or the "
        "same shapes under other names) whose packed dimension is split over a "
        "tensor parallel axis, and reports if the groups of B and C do not "
        "divide by it.",
    .why =
        "Devices compute the heads of a mixer independently only if each has "
        "all parts of its heads, such as their gate, input and time step, and "
        "the group from which they read B and C (arXiv 2405.21060, section "
        "8.1; "
        "state-spaces/mamba#406, "
        "vllm-project/vllm#13660). Contiguous shards do not.",
    .instead =
        "Leave the packed dimension unsharded, or store the parts as separate "
        "parameters.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'in_proj'
    spec: [TP, FSDP]
  - match: '.'
    spec: Replicated
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers.0.mixer.in_proj.weight": {"shape": [8512, 2048], "dtype": "BF16"},
  "layers.0.mixer.norm.weight": {"shape": [4096], "dtype": "BF16"},
  "layers.0.mixer.A_log": {"shape": [64], "dtype": "F32"}}}
)",
            .model = R"({"model_type": "mamba2", "n_groups": 1}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'in_proj'
    spec: [null, FSDP]
  - match: '.'
    spec: Replicated
)"},
    .check = CheckStateSpaceSplit};

}  // namespace shardc
