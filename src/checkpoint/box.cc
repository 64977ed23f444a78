// Computes the part of a tensor that each device holds. Each axis of the spec
// has a weight. The number of a device's part is the sum, over these axes, of
// the device's coordinate times the axis's weight. The digits of the number are
// the part's indices along the dimensions:
//
//   dp=2 tp=4, [8, 6] sharded over [tp, dp]: tp has weight 2, dp weight 1
//   device 6 is at dp=1 tp=2: part 2 * 2 + 1 * 1 = 5, rows 4 and 5, columns
//   3 to 5
//
// Consecutive devices differ in their coordinate on the last mesh axis.
// Consecutive parts differ along the last axis of the last dimension.
#include "checkpoint/box.h"

#include <set>
#include <string>
#include <utility>

namespace shardc {

std::optional<Partition> Partition::Make(const Spec& spec, const Shape& shape,
                                         const Mesh& mesh) {
  if (spec.size() > shape.size()) return std::nullopt;
  Partition cut;
  cut.shape_ = shape;
  cut.divisions_.assign(shape.size(), 1);
  std::set<std::string> seen;
  // The last axis of the last dimension has weight 1, so the loops start there.
  for (size_t dim = spec.size(); dim > 0;) {
    --dim;
    for (size_t i = spec[dim].size(); i > 0;) {
      --i;
      const std::string& name = spec[dim][i];
      const auto axis = mesh.Find(name);
      if (!axis || !seen.insert(name).second) return std::nullopt;
      // Every part is empty, so the axis adds no digit.
      if (shape[dim] == 0) continue;
      cut.steps_.push_back({*axis, cut.parts_});
      cut.parts_ *= mesh.axes[*axis].size;
      cut.divisions_[dim] *= mesh.axes[*axis].size;
    }
    if (shape[dim] % cut.divisions_[dim] != 0) return std::nullopt;
  }
  return cut;
}

int64_t Partition::PartOf(const std::vector<int64_t>& coordinates) const {
  int64_t part = 0;
  for (const Step& step : steps_) {
    part += coordinates[step.axis] * step.weight;
  }
  return part;
}

Box Partition::BoxOf(int64_t part) const {
  Box box{Shape(shape_.size(), 0), shape_};
  for (size_t dim = shape_.size(); dim > 0;) {
    --dim;
    box.shape[dim] = shape_[dim] / divisions_[dim];
    box.offset[dim] = part % divisions_[dim] * box.shape[dim];
    part /= divisions_[dim];
  }
  return box;
}

}  // namespace shardc
