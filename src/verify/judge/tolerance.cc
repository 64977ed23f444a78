// Errors in units of the dtype's rounding, scaled by the largest output. The
// worst element is kept, and one that is not finite is worse than any.
//
//   float32, outputs up to 1: the floor is (2 + 16) * 2^-24 = 1.1e-06,
//   the cap 1e-5, or more where logits are above 8
#include "verify/judge/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "floats/half.h"

namespace shardc::verify {

ErrorOf CompareOutputs(const exec::DenseArray& got,
                       const exec::DenseArray& reference) {
  ErrorOf out;
  double difference = 0, total = 0;
  int64_t worst = -1;
  for (size_t i = 0; i < reference.data.size(); ++i) {
    const double want = reference.data[i], have = got.data[i];
    total += want * want;
    if (!std::isfinite(have) && std::isfinite(want)) {
      if (!out.non_finite) worst = static_cast<int64_t>(i);
      out.non_finite = true;
      out.max_abs = std::numeric_limits<double>::infinity();
      continue;
    }
    if (have == want) continue;
    const double error = std::abs(have - want);
    difference += error * error;
    out.mean_abs += error;
    if (!out.non_finite && !(error <= out.max_abs)) {
      out.max_abs = error;
      worst = static_cast<int64_t>(i);
    }
  }
  if (!reference.data.empty()) {
    out.mean_abs /= static_cast<double>(reference.data.size());
  }
  out.relative_l2 =
      total > 0 ? std::sqrt(difference / total) : std::sqrt(difference);
  if (worst >= 0) {
    for (size_t d = 4; d-- > 0;) {
      out.worst[d] = worst % reference.dim(d);
      worst /= reference.dim(d);
    }
  }
  return out;
}

double MaxAbs(const exec::DenseArray& x) {
  double out = 0;
  for (double v : x.data) out = std::max(out, std::abs(v));
  return out;
}

double ErrorFloor(Dtype dtype, double max_reference, Dtype softmax) {
  double units = 2 * UnitRoundoff(dtype) + 16 * UnitRoundoff(Dtype::kF32);
  if (softmax != Dtype::kF32) units += 2 * UnitRoundoff(softmax);
  return units * max_reference;
}

double ErrorCap(Dtype dtype, double max_reference, double max_logit) {
  const double scale = std::max(1.0, max_reference / 2);
  switch (dtype) {
    case Dtype::kF16:
      return 1e-3 * scale;
    case Dtype::kBF16:
      return 1e-2 * scale;
    default:
      return 1e-5 * scale * std::max(1.0, max_logit / 8);
  }
}

bool Within(double error, double tolerance) { return error <= tolerance; }

}  // namespace shardc::verify
