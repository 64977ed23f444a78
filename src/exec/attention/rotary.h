// Rotary position embedding: frequencies, their scalings, and the rotation.
#ifndef SHARDC_EXEC_ATTENTION_ROTARY_H_
#define SHARDC_EXEC_ATTENTION_ROTARY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardc::exec {

enum class RopeKind : uint8_t {
  kNone,
  kLinear,    // positions / factor
  kDynamic,   // a larger base once the length passes `original_length`
  kYarn,      // Peng et al. 2023: interpolate low frequencies only
  kLongRope,  // also "su": a factor for each frequency
  kLlama3,    // low frequencies / factor, smooth between two wavelengths
};

// "linear", "su", "longrope", "default" ...; nothing if unknown.
std::optional<RopeKind> ParseRopeKind(std::string_view name);

struct RopeScaling {
  RopeKind kind = RopeKind::kNone;
  double factor = 1;
  int64_t original_length = 0;  // positions that the model was trained on
  // kLongRope: one number a frequency, for lengths up to `original_length`
  // and above it.
  std::vector<double> short_factors;
  std::vector<double> long_factors;
  // kYarn: turns over the original length above which a frequency is kept
  // and below which it is divided by the factor.
  double beta_fast = 32;
  double beta_slow = 1;
  // kYarn: the two frequencies' numbers are rounded outwards.
  bool truncate = true;
  // kLlama3: original_length/low and /high are the two wavelengths.
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  // On sin and cos; absent: the kind's own (yarn 0.1 ln(factor) + 1,
  // longrope sqrt(1 + ln(s)/ln(original_length)), s = length over it).
  std::optional<double> attention_factor;
};

struct RopeFrequencies {
  std::vector<double> inverse;  // [dim/2]: radians a position
  double amplitude = 1;         // of sin and cos
};

// For sequences up to `length`. Nothing, and the reason, where dim or the
// scaling's numbers cannot be used.
std::optional<RopeFrequencies> Frequencies(int64_t dim, double base,
                                           int64_t length,
                                           const RopeScaling& scaling,
                                           std::string& why);

// One position's tables, [dim] each: frequency i serves elements i and
// i + dim/2.
struct RopeRow {
  std::vector<float> sin;
  std::vector<float> cos;
};
RopeRow RowAt(const RopeFrequencies& frequencies, int64_t position);

// (x1, x2) to (-x2, x1), split at floor(n/2).
void RotateHalf(std::span<const float> x, std::span<float> out);

// x*cos + rotate_half(x)*sin in float32, in place; tables as long as x.
void ApplyRotary(std::span<float> x, std::span<const float> sin,
                 std::span<const float> cos);
// The other convention: pairs (x0, x1), (x2, x3) ... turn by frequency 0, 1.
void ApplyRotaryInterleaved(std::span<float> x, std::span<const float> sin,
                            std::span<const float> cos);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_ROTARY_H_
