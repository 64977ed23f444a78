// Fills the arrays of a case, and rounds them to its dtype.
#include "exec/kernels/kernel_cases.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "exec/kernels/arithmetic.h"
#include "floats/convert.h"

namespace shardc::exec {
namespace {

Dtype QueryOf(Dtype kv) { return kv == Dtype::kI8 ? Dtype::kF32 : kv; }

std::vector<uint16_t> Narrow(const std::vector<float>& x, Dtype dtype) {
  std::vector<uint16_t> out(x.size());
  dtype == Dtype::kBF16 ? F32ToBf16(x, out) : F32ToF16(x, out);
  return out;
}

std::vector<int8_t> Narrow8(const std::vector<float>& x, int64_t dim,
                            std::vector<float>& scale) {
  std::vector<int8_t> out(x.size());
  const auto d = static_cast<size_t>(dim);
  for (size_t i = 0; i < x.size(); i += d) {
    scale.push_back(
        QuantizeInt8(std::span(x).subspan(i, d), std::span(out).subspan(i, d)));
  }
  return out;
}

}  // namespace

void FillNormal(std::vector<float>& v, int64_t count, std::mt19937& random,
                float size) {
  std::normal_distribution<float> normal;
  v.resize(static_cast<size_t>(count));
  for (float& x : v) x = size * normal(random);
}

KernelCase MakeCase(const SliceShape& shape, Dtype dtype, uint32_t seed) {
  std::mt19937 random(seed);
  KernelCase c;
  AttentionSlice& s = c.slice;
  s.heads = shape.heads;
  s.query_rows = shape.rows;
  s.key_rows = shape.keys;
  s.head_dim = shape.dim;
  s.value_dim = shape.value_dim;
  s.scale = 1 / std::sqrt(static_cast<float>(shape.dim));
  FillNormal(c.query, shape.rows * shape.heads * shape.dim, random);
  s.query_head_stride = shape.dim;
  s.query_row_stride = shape.heads * shape.dim;
  FillNormal(c.key, shape.keys * 2 * shape.dim, random);
  FillNormal(c.value, shape.keys * 2 * shape.value_dim, random);
  s.key_row_stride = 2 * shape.dim;
  s.value_row_stride = 2 * shape.value_dim;
  s.query_dtype = QueryOf(dtype);
  s.kv_dtype = dtype;
  s.query = c.query.data();
  s.key = c.key.data();
  s.value = c.value.data();
  if (dtype == Dtype::kBF16 || dtype == Dtype::kF16) {
    s.query = (c.query16 = Narrow(c.query, dtype)).data();
    s.key = (c.key16 = Narrow(c.key, dtype)).data();
    s.value = (c.value16 = Narrow(c.value, dtype)).data();
  }
  if (dtype == Dtype::kI8) {
    s.key = (c.key8 = Narrow8(c.key, shape.dim, c.key_scale)).data();
    s.value =
        (c.value8 = Narrow8(c.value, shape.value_dim, c.value_scale)).data();
    s.key_scale = c.key_scale.data();
    s.value_scale = c.value_scale.data();
    s.scale_stride = 2;
  }
  return c;
}

void SetWindow(KernelCase& c, int64_t window) {
  AttentionSlice& s = c.slice;
  for (int64_t t = 0; t < s.query_rows; ++t) {
    const auto end = static_cast<int32_t>(s.key_rows - s.query_rows + t + 1);
    c.end.push_back(std::max(end, 0));
    c.begin.push_back(static_cast<int32_t>(std::max<int64_t>(end - window, 0)));
  }
  s.begin = c.begin.data();
  s.end = c.end.data();
}

}  // namespace shardc::exec
