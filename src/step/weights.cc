#include "step/weights.h"

#include <algorithm>
#include <cstddef>

namespace shardc::step {

std::vector<char> FindWeights(const Graph& graph) {
  std::vector<char> out(graph.values.size(), 0);
  const auto is = [&](ValueId value) {
    return out[static_cast<size_t>(value)] != 0;
  };
  for (const Parameter& parameter : graph.parameters) {
    out[static_cast<size_t>(parameter.value)] = 1;
  }
  for (const Op& op : graph.ops) {
    if (op.in.empty()) continue;
    out[static_cast<size_t>(op.out)] =
        static_cast<char>(std::all_of(op.in.begin(), op.in.end(), is));
  }
  return out;
}

}  // namespace shardc::step
