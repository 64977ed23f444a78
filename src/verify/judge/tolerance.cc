// Computes tolerances in units of the dtype's roundoff, scaled by the largest
// output. Each element has its own tolerance. The report shows one element: the
// one whose error exceeds its tolerance by the largest factor. If no error
// does, it is the element with the largest error. An element that is not finite
// takes precedence over all others.
//
// For example, if float32 outputs are at most 1, the tolerance is at least 16 *
// 2^-24 = 9.5e-07. It is at most 1e-5, or more if logits are above 8. If a
// bfloat16 output is 0.1, its rounding adds up to 1.3 * 0.1 * 2^-8 to the
// tolerance of this element.
#include "verify/judge/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "floats/half.h"

namespace shardc::verify {
namespace {

// The rounding error that an element may have, in units of the roundoff. The
// value 1.3 accepts rounding to nearest, which has an error of at most 1 unit.
// It rejects truncation, which has an error of up to 2 units.
constexpr double kRounding = 1.3;

}  // namespace

ErrorOf CompareOutputs(const dense::Array& got, const dense::Array& reference) {
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
    for (size_t d = 4; d > 0;) {
      --d;
      out.worst[d] = worst % reference.dim(d);
      worst /= reference.dim(d);
    }
  }
  return out;
}

double MaxAbs(const dense::Array& x) {
  double out = 0;
  for (double v : x.data) out = std::max(out, std::abs(v));
  return out;
}

double ErrorFloor(double max_reference) {
  return 16 * UnitRoundoff(Dtype::kF32) * max_reference;
}

double ErrorCap(Dtype dtype, double max_reference, double max_logit) {
  const double scale = std::max(1.0, max_reference / 2);
  const double rounding = kRounding * UnitRoundoff(dtype) * max_reference;
  switch (dtype) {
    case Dtype::kF16:
      return std::max(1e-3 * scale, rounding);
    case Dtype::kBF16:
      return std::max(1e-2 * scale, rounding);
    default:
      return 1e-5 * scale * std::max(1.0, max_logit / 8);
  }
}

bool Within(double error, double tolerance) { return error <= tolerance; }

double BeyondSlack(const dense::Array& got, const dense::Array& reference,
                   const dense::Array& slack) {
  double out = 0;
  for (size_t i = 0; i < reference.data.size(); ++i) {
    const double error = std::abs(got.data[i] - reference.data[i]);
    const double own = slack.empty() ? 0 : slack.data[i];
    if (!(error - own <= out)) out = error - own;
  }
  return out;
}

dense::Array SlackOf(Dtype dtype, const dense::Array& reference,
                     const dense::Array& more) {
  dense::Array out = dense::Array::Zeros(reference.shape);
  if (!more.data.empty()) out = more;
  if (dtype == Dtype::kF32) return out;
  // The subnormal numbers of float16 have steps of 2^-24.
  const double least = dtype == Dtype::kF16 ? 0x1p-24 : 0;
  for (size_t i = 0; i < out.data.size(); ++i) {
    out.data[i] += kRounding * UnitRoundoff(dtype) *
                       (std::abs(reference.data[i]) + out.data[i]) +
                   least;
  }
  return out;
}

Judgement JudgeOutput(const dense::Array& got, const dense::Array& reference,
                      const Limits& limits) {
  Judgement out;
  out.error = CompareOutputs(got, reference);
  out.allowed = limits.base;
  if (out.error.non_finite) return out;
  double most = 1, largest = -1;
  size_t worst = 0;
  for (size_t i = 0; i < reference.data.size(); ++i) {
    const double error = got.data[i] == reference.data[i]
                             ? 0
                             : std::abs(got.data[i] - reference.data[i]);
    const double limit = limits.At(i);
    const bool beyond = !Within(error, limit);
    if (beyond ? !(error / limit <= most) : most == 1 && error > largest) {
      most = beyond ? error / limit : most;
      largest = error;
      worst = i;
      out.error.max_abs = error;
      out.allowed = limit;
    }
  }
  auto at = static_cast<int64_t>(worst);
  for (size_t d = 4; d > 0 && !reference.data.empty();) {
    --d;
    out.error.worst[d] = at % reference.dim(d);
    at /= reference.dim(d);
  }
  return out;
}

}  // namespace shardc::verify
