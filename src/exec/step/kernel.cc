#include "exec/step/kernel.h"

#include <algorithm>

#include "source/size.h"

namespace shardc::exec {

size_t DimOf(const Labels& labels, step::LabelId label) {
  const auto found = std::find(labels.begin(), labels.end(), label);
  return found == labels.end() ? kNoDim : AsIndex(found - labels.begin());
}

Shape StridesOf(const Shape& shape) {
  Shape out(shape.size(), 1);
  for (size_t d = shape.size(); d > 1; --d) {
    out[d - 2] = out[d - 1] * shape[d - 1];
  }
  return out;
}

Shape StridesAlong(const Labels& loop, const Labels& labels,
                   const Shape& shape) {
  const Shape strides = StridesOf(shape);
  Shape out;
  out.reserve(loop.size());
  for (step::LabelId label : loop) {
    const size_t dim = DimOf(labels, label);
    out.push_back(dim == kNoDim ? 0 : strides[dim]);
  }
  return out;
}

}  // namespace shardc::exec
