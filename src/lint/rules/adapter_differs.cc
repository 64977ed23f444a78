// An adapter adds B A to its base's matrix. A takes what the base takes and B
// gives what the base gives; between them is the rank, their shorter side:
//
//   q_proj [in, out] over [null, tp]  ->  lora_B [r, out] over tp, or whole
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "comm/reshard.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "model/name.h"

namespace shardc {

extern const Lint kAdapterDiffers;

namespace {

constexpr std::array<std::string_view, 3> kDown = {"lora_A", "lora_a",
                                                   "lora_down"};
constexpr std::array<std::string_view, 3> kUp = {"lora_B", "lora_b", "lora_up"};

template <size_t N>
bool Holds(const std::array<std::string_view, N>& words,
           std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

struct Adapter {
  std::string base;  // the module's path
  bool down = false;
};

std::optional<Adapter> AdapterOf(std::string_view name, char separator) {
  Adapter out;
  for (std::string_view part : SplitName(name, separator)) {
    out.down = Holds(kDown, part);
    if (out.down || Holds(kUp, part)) return out;
    if (!out.base.empty()) out.base += separator;
    out.base += part;
  }
  return std::nullopt;
}

// A side of an adapter, and what its base has there.
struct Side {
  int dim = 0;
  AxisGroup axes, base_axes;
};

LintFinding Say(const Facts& facts, const ParameterGroup& group,
                const ParameterGroup& base, const Side& side) {
  LintFinding finding = GroupFinding(
      facts, kAdapterDiffers.code, group,
      "dimension " + std::to_string(side.dim) + " of " +
          ParametersText(facts, group) + " is split over " +
          GroupText(side.axes) + ", where " + Quoted(GroupName(facts, base)) +
          " has " + GroupText(side.base_axes) + ": their results are added",
      "split it as the base's dimension");
  finding.labels.push_back({facts.GroupPlace(base), "the base"});
  return finding;
}

void Judge(const Facts& facts, const ParameterGroup& group, bool down,
           const ParameterGroup& base, FindingSink& sink) {
  const Shape& shape = *facts.TypeOf(group).shape;
  if (shape[0] == shape[1]) return;
  const int rank_dim = shape[0] < shape[1] ? 0 : 1;
  const AxisGroup across = facts.TensorAxes(facts.AxesAt(group, rank_dim));
  if (facts.TensorParts(across) > 1) {
    sink.push_back(GroupFinding(
        facts, kAdapterDiffers.code, group,
        "dimension " + std::to_string(rank_dim) + " of " +
            ParametersText(facts, group) + " is the adapter's rank, " +
            std::to_string(shape[static_cast<size_t>(rank_dim)]) +
            ", split over " + GroupText(across) +
            ": what it gives is summed over that axis, beside the base's",
        "leave the rank whole"));
    return;
  }
  const int base_dim = down ? InDim(base.role, 2) : OutDim(base.role, 2);
  if (base_dim < 0) return;
  Side side;
  side.dim = 1 - rank_dim;
  side.axes = facts.TensorAxes(facts.AxesAt(group, side.dim));
  side.base_axes = facts.TensorAxes(facts.AxesAt(base, base_dim));
  // A whole one is cut where it is used, at no cost but its few bytes.
  if (facts.TensorParts(side.axes) <= 1 ||
      SplitAlike(facts.mesh(), side.axes, side.base_axes)) {
    return;
  }
  sink.push_back(Say(facts, group, base, side));
}

void Check(const Facts& facts, FindingSink& sink) {
  const std::string inner = std::string(1, facts.separator()) + "base_layer";
  std::map<std::string, const ParameterGroup*> bases;
  for (const ParameterGroup& group : facts.groups()) {
    if (!IsWeight(group) || facts.Rank(group) != 2 || !facts.Judged(group))
      continue;
    if (AdapterOf(group.name, facts.separator())) continue;
    std::string module = group.role.module;
    if (module.ends_with(inner)) module.resize(module.size() - inner.size());
    bases.try_emplace(std::move(module), &group);
  }
  for (const ParameterGroup& group : facts.groups()) {
    if (facts.Rank(group) != 2 || !facts.Judged(group)) continue;
    const auto adapter = AdapterOf(group.name, facts.separator());
    if (!adapter) continue;
    const auto base = bases.find(adapter->base);
    if (base == bases.end()) continue;
    Judge(facts, group, adapter->down, *base->second, sink);
  }
}

}  // namespace

constinit const Lint kAdapterDiffers{
    .code = {229, "adapter-differs", Level::kWarning,
             "an adapter is split unlike the matrix it adapts"},
    .needs = kNeedsShapes,
    .what =
        "Finds low-rank adapters (`lora_A`, `lora_B`) whose input or output "
        "is split over other tensor parallel axes than their base's, or "
        "whose rank is split. A whole one is fine.",
    .why =
        "The two results are added element by element, so one of them is "
        "moved, or summed over the axis, in every layer "
        "(huggingface/peft#3079).",
    .instead =
        "Split A's input and B's output as the base's or not at all, and "
        "leave the rank whole.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
separator: "."
rules:
  - match: 'q_proj\.base_layer\.weight$'
    spec: [TP, FSDP]
  - match: 'lora_A'
    spec: [null, TP]
  - match: 'lora_B'
    spec: [TP, null]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers.0.self_attn.q_proj.base_layer.weight": {"shape": [4096, 4096], "dtype": "BF16"},
  "layers.0.self_attn.q_proj.lora_A.default.weight": {"shape": [16, 4096], "dtype": "BF16"},
  "layers.0.self_attn.q_proj.lora_B.default.weight": {"shape": [4096, 16], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
separator: "."
rules:
  - match: 'q_proj\.base_layer\.weight$'
    spec: [TP, FSDP]
  - match: 'lora_A'
    spec: Replicated
  - match: 'lora_B'
    spec: [TP, null]
)"},
    .check = Check};

}  // namespace shardc
