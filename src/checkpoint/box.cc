// Computes the part of a tensor that each device holds. Parts are numbered in
// row-major order. The number of a device's part follows from the device's
// coordinates on the axes of the spec: each coordinate is multiplied by a
// weight, and the products are added. The weight of an axis is the product of
// the sizes of the axes after it in the spec:
//
//   mesh dp=2 tp=4; w [8, 6] sharded over [tp, dp]; weights: tp 2, dp 1
//   device 6 is at dp=1 tp=2, so it holds part 2 * 2 + 1 * 1 = 5, which is at
//   (2, 1) among the 4 x 2 parts: rows 4 and 5, columns 3 to 5
//
// The order of the devices and the order of the parts may differ. The last mesh
// axis varies fastest among devices. The last axis of the spec varies fastest
// among parts.
#include "checkpoint/box.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "model/shard_range.h"

namespace shardc {

std::optional<Partition> Partition::Make(const Spec& spec, const Shape& shape,
                                         const Mesh& mesh, bool uneven) {
  if (spec.size() > shape.size()) return std::nullopt;
  Partition cut;
  cut.shape_ = shape;
  cut.divisions_.resize(shape.size());
  std::set<std::string> seen;
  if (!uneven && !DividesEvenly(mesh, shape, spec)) return std::nullopt;
  // Weights are computed from the last axis of the spec, whose weight is 1.
  for (size_t dim = spec.size(); dim > 0;) {
    --dim;
    for (size_t i = spec[dim].size(); i > 0;) {
      --i;
      const std::string& name = spec[dim][i];
      const auto axis = mesh.FindDigit(name);
      if (!axis || !seen.insert(name).second) return std::nullopt;
      // An axis that shards a dimension of size 0 makes no further parts.
      if (shape[dim] == 0) continue;
      cut.steps_.push_back({*axis, cut.parts_});
      cut.parts_ *= axis->size;
      cut.divisions_[dim].push_back(axis->size);
    }
    std::reverse(cut.divisions_[dim].begin(), cut.divisions_[dim].end());
  }
  return cut;
}

int64_t Partition::PartOf(const std::vector<int64_t>& coordinates) const {
  int64_t part = 0;
  for (const Step& step : steps_) {
    part += step.digit.Of(coordinates[step.digit.axis]) * step.weight;
  }
  return part;
}

Box Partition::BoxOf(int64_t part) const {
  Box box{Shape(shape_.size(), 0), shape_};
  for (size_t dim = shape_.size(); dim > 0;) {
    --dim;
    int64_t parts = 1;
    for (const int64_t axis : divisions_[dim]) parts *= axis;
    const ShardRange range =
        RangeOfShard(shape_[dim], divisions_[dim], part % parts);
    box.shape[dim] = range.size;
    box.offset[dim] = range.begin;
    part /= parts;
  }
  return box;
}

}  // namespace shardc
