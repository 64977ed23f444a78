// Reports fused projections of which a part is not divided evenly. The number
// of shards has to divide the size of each part, and not only the sum of the
// parts.
//
//   gate and up, 1367 columns each, over tp 2: 2 divides 2734, but not 1367
#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/fused.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kFusedParts;

namespace {

void CheckFusedParts(const Facts& facts, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    if (!facts.Judged(group)) continue;
    const Fused* const fused = facts.blocks().Of(group);
    if (fused == nullptr || fused->mixer) continue;
    const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, fused->dim));
    const int64_t shards = facts.TensorParts(axes);
    for (const FusedPart& part : fused->parts) {
      if (shards <= 1 || part.size % shards == 0) continue;
      const Shape& shape = *facts.TypeOf(group).shape;
      sink.push_back(GroupFinding(
          facts, kFusedParts.code, group,
          "dimension " + std::to_string(fused->dim) + " of " +
              ParametersText(facts, group) + " is " +
              std::to_string(shape[static_cast<size_t>(fused->dim)]) +
              " wide and holds several parts, " + part.name + " " +
              std::to_string(part.size) + ", " + AxesHave(facts, axes) + ": " +
              RemainderText(part.size, shards),
          "use an axis size that divides every part"));
      break;
    }
  }
}

}  // namespace

constinit const Lint kFusedParts{
    .code = {221, "fused-parts", Level::kError,
             "a fused projection divides, but not each of its parts"},
    .needs = kNeedsShapes,
    .what =
        "Finds fused query-key-value and gate-up projections whose width "
        "divides by the tensor parallel axes while one of its parts does not.",
    .why =
        "A shard then holds the end of one part and the start of the next, so "
        "that devices compute with rows of both.",
    .instead = "Use an axis size that divides each part.",
    .bad = {.mesh = "tp:2",
            .rules = R"(version: 1
rules:
  - match: 'gate_up_proj/kernel'
    spec: [null, TP]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/mlp/gate_up_proj/kernel": {"shape": [1024, 2734], "dtype": "BF16"}}}
)"},
    .good = {.manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/mlp/gate_up_proj/kernel": {"shape": [1024, 2736], "dtype": "BF16"}}}
)"},
    .check = CheckFusedParts};

}  // namespace shardc
