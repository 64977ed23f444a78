// Reports routers whose expert dimension, the smaller one, is sharded. Axes
// over which the router is gathered before use, such as fsdp, are ignored. If
// the expert dimension is sharded, a device computes only some of the scores:
//
//   gate [4096, 8] over [null, ep], ep 4  ->  2 of 8 scores on each device
#include <cstdint>

#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/scanned.h"
#include "lint/rules/lint.h"
#include "source/size.h"

namespace shardc {

extern const Lint kRouterSplit;

namespace {

void CheckRouterSplit(const Facts& facts, FindingSink& sink) {
  const LayerStacks& stacks = facts.stacks();
  for (const ParameterGroup& group : facts.groups()) {
    if (group.role.module_role != Role::kRouter || !IsWeight(group) ||
        !facts.Judged(group)) {
      continue;
    }
    const auto dims = MatrixDimsOf(facts, stacks, group);
    if (!dims) continue;
    const Shape& shape = *facts.TypeOf(group).shape;
    const int64_t first = shape[static_cast<size_t>((*dims)[0])];
    const int64_t last = shape[static_cast<size_t>((*dims)[1])];
    const int dim = first < last ? (*dims)[0] : (*dims)[1];
    const int64_t experts = shape[static_cast<size_t>(dim)];
    const AxisGroup axes = facts.KeptAxes(facts.AxesAt(group, dim));
    const int64_t parts = facts.mesh().Parts(axes).value_or(1);
    if (parts <= 1 || experts <= 1) continue;
    sink.push_back(GroupFinding(
        facts, kRouterSplit.code, group,
        "dimension " + std::to_string(dim) + " of " +
            ParametersText(facts, group) + " scores " +
            std::to_string(experts) + " experts and is split over " +
            GroupText(axes) + ": a device computes " +
            std::to_string(ShareOf(experts, parts)) +
            " of the scores from which the largest are chosen",
        "leave the experts' dimension of the router unsharded"));
  }
}

}  // namespace

constinit const Lint kRouterSplit{
    .code = {226, "router-split", Level::kWarning,
             "the router is split so that a device scores only some experts"},
    .needs = kNeedsShapes,
    .what =
        "Finds routers whose dimension of experts is split over axes that "
        "are not gathered before use.",
    .why =
        "The experts with the largest scores are chosen for each token. From "
        "part of the scores every device chooses differently, or the scores "
        "are gathered in every layer, for a matrix of few bytes "
        "(pytorch/torchtitan#3386 replicates it).",
    .instead = "Leave that dimension unsharded.",
    .bad = {.mesh = "ep:4,tp:2",
            .rules = R"(version: 1
rules:
  - match: 'gate/kernel'
    spec: [null, EXPERT]
  - match: 'up/kernel'
    spec: [FSDP, TP]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/moe/gate/kernel": {"shape": [1024, 8], "dtype": "BF16"},
  "layers/0/mlp/up/kernel": {"shape": [1024, 4096], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'gate/kernel'
    spec: [FSDP, null]
  - match: 'up/kernel'
    spec: [FSDP, TP]
)"},
    .check = CheckRouterSplit};

}  // namespace shardc
