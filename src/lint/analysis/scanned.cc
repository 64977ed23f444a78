#include "lint/analysis/scanned.h"

#include <optional>
#include <vector>

namespace shardc {

LayerStacks StacksOf(const Facts& facts) {
  std::vector<StackCandidate> candidates;
  for (const ParameterGroup& group : facts.groups()) {
    const auto& shape = facts.TypeOf(group).shape;
    candidates.push_back(
        {.name = group.name, .shape = shape ? &*shape : nullptr});
  }
  return FindLayerStacks(
      candidates, facts.separator(),
      facts.model() == nullptr ? std::nullopt : facts.model()->layers);
}

}  // namespace shardc
