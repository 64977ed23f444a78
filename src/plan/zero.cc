// Shards optimizer states over replicas. The axes over which a parameter is
// replicated are appended to the spec of its states. For example, q [4096,
// 4096] has the spec [tp, fsdp] on dp 4, fsdp 8, tp 2. A device holds [2048,
// 512] of q, and in ZeRO stage 1 the states have the spec [[tp, dp], fsdp].
#include "plan/zero.h"

#include <algorithm>
#include <numeric>

#include "source/index.h"

namespace shardc {
namespace {

bool Uses(const Spec& spec, const std::string& axis) {
  return std::any_of(spec.begin(), spec.end(), [&](const AxisGroup& axes) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  });
}

// Appends to one dimension of the spec those axes of `tokens` that the spec
// does not use, and returns the result. `tokens` are the mesh axes over which
// batch and sequence are sharded, and their sizes must be above 1. Axes that
// divide no dimension are left out.
Spec Extended(Spec spec, const std::vector<int64_t>& shape, const Mesh& mesh,
              const AxisGroup& tokens) {
  AxisGroup replicas;
  for (const std::string& axis : tokens) {
    if (!Uses(spec, axis)) replicas.push_back(axis);
  }
  spec.resize(std::max(spec.size(), shape.size()));
  std::vector<int64_t> local;
  for (size_t d = 0; d < shape.size(); ++d) {
    local.push_back(shape[d] / mesh.Parts(spec[d]).value_or(1));
  }
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return local[a] > local[b]; });
  for (; !replicas.empty(); replicas.pop_back()) {
    const int64_t parts = mesh.Parts(replicas).value_or(1);
    for (const size_t d : order) {
      if (local[d] % parts != 0) continue;
      spec[d].insert(spec[d].end(), replicas.begin(), replicas.end());
      return spec;
    }
  }
  return spec;
}

}  // namespace

ZeroSpecs ShardOverReplicas(const step::Graph& graph, const step::Sizes& sizes,
                            const Mesh& mesh, const AxisGroup& tokens,
                            std::vector<Spec> specs, int stage) {
  ZeroSpecs out;
  AxisGroup replicas;
  for (const std::string& axis : tokens) {
    if (mesh.SizeOf(axis) > 1) replicas.push_back(axis);
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    const step::Value& value = graph.values[AsIndex(graph.parameters[i].value)];
    std::vector<int64_t> shape;
    for (const step::LabelId label : value.labels) {
      shape.push_back(sizes[AsIndex(label)]);
    }
    out.states.push_back(Extended(specs[i], shape, mesh, replicas));
  }
  if (stage >= 2) out.sums = out.states;
  out.parameters = stage >= 3 ? out.states : std::move(specs);
  return out;
}

}  // namespace shardc
