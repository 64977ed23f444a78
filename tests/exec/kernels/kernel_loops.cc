// What the kernels compute, as plain loops in double, with which tests compare
// them: all logits of a row, their maximum, the weights, and the sum of
// weighted values.
//
//   logits 1 and 3  ->  weights 0.119 and 0.881, lse 3.127
#include "exec/kernels/kernel_loops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "floats/convert.h"

namespace shardc::exec {

namespace {

double Element(const void* data, Dtype dtype, int64_t i) {
  switch (dtype) {
    case Dtype::kBF16:
      return double{FromBFloat16(static_cast<const uint16_t*>(data)[i])};
    case Dtype::kF16:
      return double{FromFloat16(static_cast<const uint16_t*>(data)[i])};
    case Dtype::kI8:
      return static_cast<const int8_t*>(data)[i];
    default:
      return static_cast<double>(static_cast<const float*>(data)[i]);
  }
}

double Scale(const float* scales, int64_t at) {
  return scales == nullptr ? 1 : static_cast<double>(scales[at]) / 127.5;
}

// Returns the logit of a key, -inf if the key is masked.
double Logit(const AttentionSlice& in, int64_t g, int64_t t, int64_t s) {
  const double none = -std::numeric_limits<double>::infinity();
  if (in.begin != nullptr && s < in.begin[t]) return none;
  if (in.end != nullptr && s >= in.end[t]) return none;
  if (in.mask != nullptr &&
      in.mask[g * in.mask_head_stride + t * in.mask_row_stride + s] == 0) {
    return none;
  }
  double dot = 0;
  for (int64_t d = 0; d < in.head_dim; ++d) {
    dot += Element(in.query, in.query_dtype,
                   g * in.query_head_stride + t * in.query_row_stride + d) *
           Element(in.key, in.kv_dtype, s * in.key_row_stride + d);
  }
  double x = dot * static_cast<double>(in.scale) *
             Scale(in.key_scale, s * in.scale_stride);
  if (in.soft_cap != 0) {
    const double cap = static_cast<double>(in.soft_cap);
    x = cap * std::tanh(x / cap);
  }
  if (in.bias != nullptr) {
    x += static_cast<double>(
        in.bias[g * in.bias_head_stride + t * in.bias_row_stride + s]);
  }
  return x;
}

}  // namespace

LoopResult LoopAttention(const AttentionSlice& in) {
  LoopResult result;
  std::vector<double> w(static_cast<size_t>(in.key_rows));
  for (int64_t g = 0; g < in.heads; ++g) {
    for (int64_t t = 0; t < in.query_rows; ++t) {
      double max = -std::numeric_limits<double>::infinity();
      for (size_t s = 0; s < w.size(); ++s) {
        w[s] = Logit(in, g, t, static_cast<int64_t>(s));
        max = std::max(max, w[s]);
      }
      double sum = 0;
      for (double& x : w) {
        x = std::isinf(x) ? 0 : std::exp(x - max);
        sum += x;
      }
      for (int64_t d = 0; d < in.value_dim; ++d) {
        double out = 0, magnitude = 0;
        for (size_t s = 0; s < w.size(); ++s) {
          const auto row = static_cast<int64_t>(s);
          if (w[s] == 0) continue;
          const double value =
              Element(in.value, in.kv_dtype, row * in.value_row_stride + d) *
              Scale(in.value_scale, row * in.scale_stride);
          out += w[s] * value;
          magnitude += w[s] * std::abs(value);
        }
        result.out.push_back(sum == 0 ? 0 : out / sum);
        result.magnitude.push_back(sum == 0 ? 0 : magnitude / sum);
      }
      result.lse.push_back(std::log(sum) + max);
    }
  }
  return result;
}

}  // namespace shardc::exec
