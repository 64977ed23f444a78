#include "dense/array.h"

#include <utility>

#include "source/index.h"

namespace shardc::dense {

Array Array::Zeros(std::vector<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return {std::move(shape), std::vector<double>(AsIndex(count), 0.0)};
}

std::string ShapeText(const Array& x) {
  std::string text = "[";
  for (size_t i = 0; i < x.shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(x.shape[i]);
  }
  return text + "]";
}

}  // namespace shardc::dense
