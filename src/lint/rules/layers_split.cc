// Scanned layers share one name: no counter follows `layers`, and all
// parameters below it have the same first dimension.
//
//   layers/attn/q_proj/kernel [32, 4096, 4096], layers/norm/scale [32, 4096]
//     ->  dimension 0 counts layers
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "model/name.h"
#include "source/wording.h"

namespace shardc {

extern const Lint kLayersSplit;

namespace {

constexpr std::array<std::string_view, 6> kStacks = {
    "layers", "blocks", "h", "block", "layer", "decoder_layers"};
// Each stage of a pipeline holds some layers.
constexpr std::array<std::string_view, 6> kPipelines = {
    "pp", "pipe", "pipeline", "stage", "stages", "pipeline_parallel"};

// The name up to its layer stack; empty if it is in none or has a counter.
std::string StackOf(std::string_view name, char separator) {
  if (name.find('*') != std::string_view::npos) return {};
  std::string out;
  const auto parts = SplitName(name, separator);
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    out += std::string(parts[i]) + separator;
    if (IsAmong(parts[i], kStacks)) return out;
  }
  return {};
}

struct Stack {
  int64_t layers = 0;  // 0 if its members differ
  int members = 0;
  bool matrix = false;  // some member has rank 3: layers of matrices
};

void CheckLayersSplit(const Facts& facts, FindingSink& sink) {
  std::map<std::string, Stack> stacks;
  for (const ParameterGroup& group : facts.groups()) {
    const std::string name = StackOf(group.name, facts.separator());
    const int rank = facts.Rank(group);
    if (name.empty() || rank < 1) continue;
    const int64_t first = facts.TypeOf(group).shape->front();
    Stack& stack = stacks[name];
    if (stack.members++ == 0) stack.layers = first;
    if (stack.layers != first) stack.layers = 0;
    stack.matrix = stack.matrix || rank >= 3;
  }
  for (const ParameterGroup& group : facts.groups()) {
    const auto at = stacks.find(StackOf(group.name, facts.separator()));
    if (at == stacks.end() || at->second.layers == 0 ||
        at->second.members < 2 || !at->second.matrix || !facts.Judged(group)) {
      continue;
    }
    AxisGroup axes = facts.AxesAt(group, 0);
    std::erase_if(axes, [](const std::string& axis) {
      return IsAmong(axis, kPipelines);
    });
    if (facts.mesh().Parts(axes).value_or(1) <= 1) continue;
    sink.push_back(GroupFinding(
        facts, kLayersSplit.code, group,
        "dimension 0 of " + ParametersText(facts, group) + " counts " +
            std::to_string(at->second.layers) + " layers and is split over " +
            GroupText(axes) + ": every step of the scan gathers its layer",
        "leave the layer dimension unsharded, and split a later one"));
  }
}

}  // namespace

constinit const Lint kLayersSplit{
    .code = {224, "layers-split", Level::kWarning,
             "the layer dimension of scanned layers is split"},
    .needs = kNeedsShapes,
    .what =
        "Finds parameters that hold all layers for a scan and whose layer "
        "dimension is split over axes other than a pipeline's.",
    .why =
        "A step of the scan takes one layer, which is then on some of the "
        "devices only: it is sent to the others in every step, or the entire "
        "stack is gathered before the first step.",
    .instead = "Write null for the layer dimension.",
    .bad = {.mesh = "fsdp:4,tp:2",
            .rules = R"(version: 1
separator: "/"
rules:
  - match: 'kernel'
    spec: [FSDP, null, TP]
  - match: 'norm'
    spec: Replicated
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/mlp/up_proj/kernel": {"shape": [32, 1024, 4096], "dtype": "BF16"},
  "layers/norm/scale": {"shape": [32, 1024], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
separator: "/"
rules:
  - match: 'kernel'
    spec: [null, FSDP, TP]
  - match: 'norm'
    spec: Replicated
)"},
    .check = CheckLayersSplit};

}  // namespace shardc
