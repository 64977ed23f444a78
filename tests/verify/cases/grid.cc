// Builds the specs of a case's tensors. The caller gives the mesh axes of the
// batch, the lengths, the heads and the head dims. The specs have these axes in
// the order of dimensions of the case's layout. For example:
//
//   batch over dp, heads over tp, layout bhtd  ->  query [dp, tp, -, -]
#include "verify/cases/grid.h"

#include <algorithm>
#include <utility>

namespace shardc::verify {
namespace {

AxisGroup Joined(const AxisGroup& a, const AxisGroup& b) {
  AxisGroup out = a;
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

Spec Tensor(Layout layout, const AxisGroup& batch, const AxisGroup& length,
            const AxisGroup& heads, const AxisGroup& dim) {
  if (layout == Layout::kBhtd) return {batch, heads, length, dim};
  if (layout == Layout::kThd) return {Joined(batch, length), heads, dim};
  return {batch, length, heads, dim};
}

}  // namespace

Mesh MeshOf(const std::vector<std::pair<std::string, int64_t>>& axes) {
  Mesh mesh;
  for (const auto& [name, size] : axes) {
    mesh.axes.push_back({name, size, AxisType::kAuto});
    mesh.devices *= size;
  }
  return mesh;
}

exec::AttentionSpecs SpecsFor(Layout layout, const Assignment& axes,
                              int sinks_rank, bool split_masks) {
  exec::AttentionSpecs out;
  out.query =
      Tensor(layout, axes.batch, axes.query_length, axes.heads, axes.dim);
  out.key =
      Tensor(layout, axes.batch, axes.key_length, axes.key_heads, axes.dim);
  out.value = Tensor(layout, axes.batch, axes.key_length, axes.key_heads,
                     axes.value_dim);
  out.output =
      Tensor(layout, axes.batch, axes.query_length, axes.heads, axes.value_dim);
  const AxisGroup none;
  out.bias = {axes.batch, split_masks ? axes.heads : none,
              split_masks ? axes.query_length : none, none};
  out.mask = {axes.batch, none, split_masks ? axes.query_length : none, none};
  out.query_segments = {axes.batch, axes.query_length};
  out.key_segments = {axes.batch, axes.key_length};
  if (layout == Layout::kThd) {
    out.query_segments = {none, Joined(axes.batch, axes.query_length)};
    out.key_segments = {none, Joined(axes.batch, axes.key_length)};
  }
  if (sinks_rank == 1) out.softmax_aux = {axes.heads};
  if (sinks_rank == 2) out.softmax_aux = {none, axes.key_heads};
  return out;
}

}  // namespace shardc::verify
