// A whole, unsharded array in float64.
#ifndef SHARDC_EXEC_KERNELS_DENSE_ARRAY_H_
#define SHARDC_EXEC_KERNELS_DENSE_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardc::exec {

struct DenseArray {
  std::vector<int64_t> shape;
  std::vector<double> data;  // row-major

  static DenseArray Zeros(std::vector<int64_t> shape);

  int64_t dim(size_t i) const { return shape[i]; }
  size_t rank() const { return shape.size(); }
  bool empty() const { return data.empty(); }

  // For rank 4, the common case.
  double& At(int64_t a, int64_t b, int64_t c, int64_t d) {
    return data[Offset(a, b, c, d)];
  }
  double At(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return data[Offset(a, b, c, d)];
  }

 private:
  size_t Offset(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return static_cast<size_t>(((a * shape[1] + b) * shape[2] + c) * shape[3] +
                               d);
  }
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_KERNELS_DENSE_ARRAY_H_
