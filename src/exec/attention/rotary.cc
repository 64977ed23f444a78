// Computes rotary position embeddings. Angles are computed in float64. At
// position 10^5, the angle computed in float32 could be wrong by 0.004 radians.
// This is more than the errors that `shardc verify` must detect.
#include "exec/attention/rotary.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "floats/convert.h"
#include "source/size.h"

namespace shardc::exec {
namespace {

// Returns the index of the frequency that completes `turns` turns over `length`
// positions.
double YarnIndex(double turns, int64_t dim, double base, double length) {
  return static_cast<double>(dim) * std::log(length / (turns * 2 * M_PI)) /
         (2 * std::log(base));
}

void Yarn(RopeFrequencies& f, int64_t dim, double base,
          const RopeScaling& scaling) {
  const auto length = static_cast<double>(scaling.original_length);
  const double last = static_cast<double>(dim - 1);
  double low = YarnIndex(scaling.beta_fast, dim, base, length);
  double high = YarnIndex(scaling.beta_slow, dim, base, length);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, last);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < f.inverse.size(); ++i) {
    const double ramp =
        std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    f.inverse[i] *= (1 - ramp) + ramp / scaling.factor;
  }
  f.amplitude = scaling.factor > 1 ? 0.1 * std::log(scaling.factor) + 1 : 1.0;
}

void LongRope(RopeFrequencies& f, int64_t length, const RopeScaling& scaling) {
  const bool is_long = length > scaling.original_length;
  const auto& factors = is_long ? scaling.long_factors : scaling.short_factors;
  for (size_t i = 0; i < f.inverse.size(); ++i) f.inverse[i] /= factors[i];
  const auto original = static_cast<double>(scaling.original_length);
  const double ratio = static_cast<double>(length) / original;
  f.amplitude =
      ratio > 1 ? std::sqrt(1 + std::log(ratio) / std::log(original)) : 1.0;
}

void Llama3(RopeFrequencies& f, const RopeScaling& scaling) {
  const auto length = static_cast<double>(scaling.original_length);
  const double low = scaling.low_frequency_factor;
  const double high = scaling.high_frequency_factor;
  for (double& inverse : f.inverse) {
    const double turns = length * inverse / (2 * M_PI);
    const double smooth = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    inverse *= smooth + (1 - smooth) / scaling.factor;
  }
}

double DynamicBase(int64_t dim, double base, int64_t length,
                   const RopeScaling& scaling) {
  const int64_t original =
      scaling.original_length > 0 ? scaling.original_length : length;
  if (length <= original) return base;
  const double ratio =
      static_cast<double>(length) / static_cast<double>(original);
  const auto d = static_cast<double>(dim);
  return base *
         std::pow(scaling.factor * ratio - (scaling.factor - 1), d / (d - 2));
}

bool Usable(int64_t dim, double base, const RopeScaling& scaling,
            std::string& why) {
  const auto half = AsIndex(dim / 2);
  if (dim < 2 || dim % 2 != 0) {
    why = "rotary dim " + std::to_string(dim) + " is not even and positive";
  } else if (!(base > 1) || !std::isfinite(base)) {
    why = "the rotary base is not above 1";
  } else if (!(scaling.factor > 0) || !std::isfinite(scaling.factor)) {
    why = "the rotary scaling factor is not positive";
  } else if (scaling.kind == RopeKind::kDynamic && dim == 2) {
    why = "dynamic rotary scaling has no exponent for dim 2";
  } else if ((scaling.kind == RopeKind::kYarn ||
              scaling.kind == RopeKind::kLlama3 ||
              scaling.kind == RopeKind::kLongRope) &&
             scaling.original_length < 2) {
    why = "rotary scaling needs the original length";
  } else if (scaling.kind == RopeKind::kLongRope &&
             (scaling.short_factors.size() != half ||
              scaling.long_factors.size() != half)) {
    why = "longrope needs " + std::to_string(half) +
          " short and long factors, got " +
          std::to_string(scaling.short_factors.size()) + " and " +
          std::to_string(scaling.long_factors.size());
  } else if (scaling.kind == RopeKind::kLlama3 &&
             !(scaling.high_frequency_factor > scaling.low_frequency_factor)) {
    why = "llama3 rotary scaling needs high_freq_factor above low_freq_factor";
  } else {
    return true;
  }
  return false;
}

}  // namespace

std::optional<RopeKind> ParseRopeKind(std::string_view name) {
  struct Name {
    std::string_view text;
    RopeKind kind;
  };
  constexpr Name kNames[] = {
      {"none", RopeKind::kNone},         {"default", RopeKind::kNone},
      {"linear", RopeKind::kLinear},     {"dynamic", RopeKind::kDynamic},
      {"yarn", RopeKind::kYarn},         {"su", RopeKind::kLongRope},
      {"longrope", RopeKind::kLongRope}, {"llama3", RopeKind::kLlama3},
  };
  for (const Name& entry : kNames) {
    if (entry.text == name) return entry.kind;
  }
  return std::nullopt;
}

std::optional<RopeFrequencies> Frequencies(int64_t dim, double base,
                                           int64_t length,
                                           const RopeScaling& scaling,
                                           std::string& why) {
  if (!Usable(dim, base, scaling, why)) return std::nullopt;
  if (scaling.kind == RopeKind::kDynamic) {
    base = DynamicBase(dim, base, length, scaling);
  }
  RopeFrequencies f;
  for (int64_t i = 0; i < dim / 2; ++i) {
    f.inverse.push_back(std::pow(
        base, -2.0 * static_cast<double>(i) / static_cast<double>(dim)));
  }
  if (scaling.kind == RopeKind::kLinear) {
    for (double& inverse : f.inverse) inverse /= scaling.factor;
  }
  if (scaling.kind == RopeKind::kYarn) Yarn(f, dim, base, scaling);
  if (scaling.kind == RopeKind::kLongRope) LongRope(f, length, scaling);
  if (scaling.kind == RopeKind::kLlama3) Llama3(f, scaling);
  if (scaling.attention_factor) f.amplitude = *scaling.attention_factor;
  return f;
}

RopeRow RowAt(const RopeFrequencies& frequencies, int64_t position) {
  const size_t half = frequencies.inverse.size();
  RopeRow row{std::vector<float>(2 * half), std::vector<float>(2 * half)};
  for (size_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * frequencies.inverse[i];
    row.sin[i] = row.sin[i + half] =
        static_cast<float>(frequencies.amplitude * std::sin(angle));
    row.cos[i] = row.cos[i + half] =
        static_cast<float>(frequencies.amplitude * std::cos(angle));
  }
  return row;
}

void RotateHalf(std::span<const float> x, std::span<float> out) {
  const size_t n = x.size(), half = n / 2;
  for (size_t i = half; i < n; ++i) out[i - half] = -x[i];
  for (size_t i = 0; i < half; ++i) out[n - half + i] = x[i];
}

void ApplyRotary(std::span<float> x, std::span<const float> sin,
                 std::span<const float> cos) {
  std::vector<float> rotated(x.size());
  RotateHalf(x, rotated);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = x[i] * cos[i] + rotated[i] * sin[i];
  }
}

void ApplyRotaryInterleaved(std::span<float> x, std::span<const float> sin,
                            std::span<const float> cos) {
  for (size_t i = 0; i + 1 < x.size(); i += 2) {
    const float a = x[i], b = x[i + 1];
    x[i] = a * cos[i / 2] - b * sin[i / 2];
    x[i + 1] = b * cos[i / 2] + a * sin[i / 2];
  }
}

// Applies the rotary embedding to a sharded tensor. Each device rotates its own
// tokens by their positions in the unsharded sequence. A token's position is
// the sum of the first position of its batch row, the offset of the device's
// slice, and the token's index in the slice. For example:
//
//   8 tokens from position 100, length sharded over sp of size 2:
//   device sp=1 rotates by positions 104 to 107

namespace {

void Rotate(std::span<float> x, const RopeRow& row, RotaryStyle style) {
  if (style == RotaryStyle::kHalves) {
    ApplyRotary(x, row.sin, row.cos);
  } else {
    ApplyRotaryInterleaved(x, row.sin, row.cos);
  }
}

}  // namespace

void RotateTokens(const Machine& machine, ShardedTensor& tokens,
                  const std::vector<int64_t>& first,
                  const RopeFrequencies& frequencies, RotaryStyle style,
                  RotaryOf what) {
  const RotarySeam& seam = machine.Seam<RotarySeam>();
  machine.Local([&](int device) {
    Buffer& local = tokens.local[AsIndex(device)];
    const Shape start =
        LocalStart(machine.mesh(), tokens.shape, tokens.spec, device);
    const Shape& s = local.shape;
    Rotation rotation{what, style, frequencies, start[1]};
    if (seam.device) seam.device(rotation);
    // The sin and cos for each token of a batch row. They are kept for the next
    // batch row, which often has the same positions.
    std::vector<RopeRow> rows;
    int64_t rows_first = 0;
    for (int64_t b = 0; b < s[0]; ++b) {
      const int64_t begin = first[AsIndex(start[0] + b)] + rotation.shift;
      if (rows.empty() || begin != rows_first) {
        rows.clear();
        for (int64_t t = 0; t < s[1]; ++t) {
          rows.push_back(RowAt(rotation.frequencies, begin + t));
        }
        rows_first = begin;
      }
      for (int64_t t = 0; t < s[1]; ++t) {
        for (int64_t h = 0; h < s[2]; ++h) {
          const size_t at = AsIndex(((b * s[1] + t) * s[2] + h) * s[3]);
          const std::span<float> x(local.real.data() + at, AsIndex(s[3]));
          Rotate(x, rows[AsIndex(t)], rotation.style);
          RoundAll(local.dtype, x);
        }
      }
    }
  });
}

}  // namespace shardc::exec
