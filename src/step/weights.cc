#include "step/weights.h"

#include <algorithm>
#include <cstddef>

#include "source/index.h"

namespace shardc::step {

std::vector<char> FindWeights(const Graph& graph) {
  std::vector<char> out(graph.values.size(), 0);
  const auto is = [&](ValueId value) { return out[AsIndex(value)] != 0; };
  for (const Parameter& parameter : graph.parameters) {
    out[AsIndex(parameter.value)] = 1;
  }
  for (const Op& op : graph.ops) {
    if (op.in.empty()) continue;
    out[AsIndex(op.out)] =
        static_cast<char>(std::all_of(op.in.begin(), op.in.end(), is));
  }
  return out;
}

}  // namespace shardc::step
