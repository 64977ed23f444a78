#include "program/of_step/step_values.h"

#include <algorithm>
#include <utility>

namespace shardc::program {

bool HasLabel(const Labels& labels, LabelId label) {
  return std::ranges::find(labels, label) != labels.end();
}

size_t PlaceOf(const Labels& labels, LabelId label) {
  return AsIndex(std::ranges::find(labels, label) - labels.begin());
}

Labels Without(Labels labels, LabelId gone) {
  std::erase(labels, gone);
  return labels;
}

Labels Replaced(const Labels& labels, LabelId from, const Labels& to) {
  Labels out;
  for (const LabelId label : labels) {
    if (label == from) {
      out.insert(out.end(), to.begin(), to.end());
    } else {
      out.push_back(label);
    }
  }
  return out;
}

Shape StepValues::Sized(const Labels& labels) const {
  Shape out;
  for (const LabelId label : labels) out.push_back(SizeOf(label));
  return out;
}

ValueId StepValues::Arranged(ValueId x, const Labels& from, const Labels& to) {
  if (from == to || from.empty()) return x;
  Numbers perm;
  Shape shape;
  for (const LabelId label : to) {
    if (!HasLabel(from, label)) {
      shape.push_back(1);
      continue;
    }
    const size_t at = PlaceOf(from, label);
    perm.push_back(static_cast<int64_t>(at));
    shape.push_back(write_.ShapeOf(x)[at]);
  }
  return write_.Reshaped(write_.Transposed(x, std::move(perm)),
                         std::move(shape));
}

ValueId StepValues::Full(ValueId x, const Labels& from, const Labels& to) {
  const Shape shape = Sized(to);
  if (from.size() == to.size()) return Arranged(x, from, to);
  Labels present;
  Numbers dims;
  for (size_t d = 0; d < to.size(); ++d) {
    if (!HasLabel(from, to[d])) continue;
    present.push_back(to[d]);
    dims.push_back(static_cast<int64_t>(d));
  }
  return write_.Broadcast(Arranged(x, from, present), shape, dims);
}

}  // namespace shardc::program
