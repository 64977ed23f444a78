// Reports Mamba-2 mixers whose projection or convolution is sharded
// contiguously. A mixer stores several parts in one projection. The sizes of
// the parts follow from the mixer's other parameters:
//
//   in_proj  [z | x | B | C | dt]   2 inner + 2 groups * state + heads
//   conv1d   [x | B | C]            inner + 2 groups * state
//
// A device needs the columns of its own heads and groups in each part. A
// contiguous shard of `in_proj` or `conv1d` has other columns.
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "model/name.h"

namespace shardc {

extern const Lint kStateSpaceSplit;

namespace {

// Sizes of one mixer. A size is 0 if it is unknown.
struct Mixer {
  int64_t heads = 0;  // number of elements of A_log
  int64_t inner = 0;  // number of elements of the gated norm
};

// The position of a parameter in a mixer. The parameter
// "backbone.layers.*.mixer.in_proj.weight" has the mixer's path
// "backbone.layers.*.mixer." and the part "in_proj".
struct Member {
  std::string mixer;
  std::string_view part;
};

std::optional<Member> MemberOf(const ParameterGroup& group, char separator) {
  for (std::string_view part : SplitName(group.name, separator)) {
    if (part == "A_log" || part == "norm" || part == "in_proj" ||
        part == "conv1d") {
      const auto end = static_cast<size_t>(part.data() - group.name.data());
      return Member{group.name.substr(0, end), part};
    }
  }
  return std::nullopt;
}

std::map<std::string, Mixer> MixersOf(const Facts& facts) {
  std::map<std::string, Mixer> out;
  for (const ParameterGroup& group : facts.groups()) {
    if (facts.Rank(group) != 1) continue;
    const auto member = MemberOf(group, facts.separator());
    if (!member) continue;
    const int64_t size = facts.Elements(group);
    // Only the A_log of Mamba-2 is a vector. The A_log of Mamba-1 is a matrix,
    // which this loop does not visit. `heads` then stays 0, and the mixer is
    // not checked: the projection and convolution of Mamba-1 lack B and C.
    if (member->part == "A_log") out[member->mixer].heads = size;
    if (member->part == "norm") out[member->mixer].inner = size;
  }
  return out;
}

// Returns the number of columns of B and C together, which is 2 * groups *
// state. Returns nullopt if a size of the mixer is unknown, or if a Mamba-2
// mixer cannot have this width.
std::optional<int64_t> GroupColumns(const Mixer& mixer, std::string_view part,
                                    int64_t width) {
  const int64_t rest = part == "in_proj" ? width - 2 * mixer.inner - mixer.heads
                                         : width - mixer.inner;
  if (mixer.heads <= 0 || mixer.inner <= 0 || rest <= 0 || rest % 2 != 0) {
    return std::nullopt;
  }
  return rest;
}

std::string PartsText(const Mixer& mixer, std::string_view part,
                      int64_t columns) {
  const std::string inner = std::to_string(mixer.inner);
  const std::string each = std::to_string(columns / 2);
  return part == "in_proj"
             ? "gate " + inner + ", input " + inner + ", B " + each + ", C " +
                   each + " and time step " + std::to_string(mixer.heads)
             : "input " + inner + ", B " + each + " and C " + each;
}

void CheckStateSpaceSplit(const Facts& facts, FindingSink& sink) {
  const auto mixers = MixersOf(facts);
  if (mixers.empty()) return;
  for (const ParameterGroup& group : facts.groups()) {
    if (!facts.Judged(group)) continue;
    const auto member = MemberOf(group, facts.separator());
    if (!member || member->part == "A_log" || member->part == "norm") continue;
    const auto mixer = mixers.find(member->mixer);
    if (mixer == mixers.end()) continue;
    for (int dim = 0; dim < facts.Rank(group); ++dim) {
      const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, dim));
      const int64_t parts = facts.TensorParts(axes);
      const int64_t width =
          (*facts.TypeOf(group).shape)[static_cast<size_t>(dim)];
      const auto columns = GroupColumns(mixer->second, member->part, width);
      if (parts <= 1 || !columns) continue;
      std::string message = "dimension " + std::to_string(dim) + " of " +
                            ParametersText(facts, group) + " holds " +
                            PartsText(mixer->second, member->part, *columns) +
                            " one after the other and is split as one over " +
                            GroupText(axes) +
                            ": no shard has its share of each";
      const auto groups =
          facts.model() == nullptr ? std::nullopt : facts.model()->state_groups;
      if (groups && *groups % parts != 0) {
        message += "; and heads share " + std::to_string(*groups) +
                   (*groups == 1 ? " group" : " groups") +
                   " of B and C, which " + std::to_string(parts) +
                   " devices do not divide";
      }
      sink.push_back(
          GroupFinding(facts, kStateSpaceSplit.code, group, std::move(message),
                       "leave the packed dimension unsharded, or store its "
                       "parts as separate parameters and split heads over an "
                       "axis that divides the groups"));
    }
  }
}

}  // namespace

constinit const Lint kStateSpaceSplit{
    .code = {232, "state-space-split", Level::kWarning,
             "a state space mixer is split across its packed parts"},
    .needs = kNeedsShapes,
    .what =
        "Finds packed projections and convolutions of Mamba-2 mixers "
        "(`in_proj`, `conv1d` with a vector `A_log`) whose packed dimension "
        "is split over a tensor parallel axis, and reports if the groups of B "
        "and C do not divide by it.",
    .why =
        "Devices compute the heads of a mixer independently only if each has "
        "the gate, input and time step of its heads, and the group from which "
        "they read B and C (arXiv 2405.21060, section 8.1; "
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
