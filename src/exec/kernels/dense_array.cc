#include "exec/kernels/dense_array.h"

#include <utility>

namespace shardc::exec {

DenseArray DenseArray::Zeros(std::vector<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return {std::move(shape), std::vector<double>(count, 0.0)};
}

}  // namespace shardc::exec
