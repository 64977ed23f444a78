// Reports fused projections of which a part is not divided evenly. The number
// of shards has to divide the size of each part, and not only the sum of the
// parts.
//
//   gate and up, 1367 columns each, over tp 2: 2 divides 2734, but not 1367
#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/fused.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {

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

}  // namespace shardc
