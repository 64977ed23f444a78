// Rotary position embedding: frequencies, their scalings, and the rotation.
#ifndef SHARDC_EXEC_ATTENTION_ROTARY_H_
#define SHARDC_EXEC_ATTENTION_ROTARY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"

namespace shardc::exec {

enum class RopeKind : uint8_t {
  kNone,
  // Positions are divided by the factor.
  kLinear,
  // If the length exceeds `original_length`, the base is increased.
  kDynamic,
  // Peng et al. 2023: high frequencies are kept, low frequencies are divided by
  // the factor, and frequencies between them are interpolated.
  kYarn,
  // Each frequency has its own factor. Also called "su".
  kLongRope,
  // Frequencies with a long wavelength are divided by the factor, and those
  // with a medium wavelength are interpolated.
  kLlama3,
};

// Parses the name of a RoPE scaling, such as "linear", "su", "longrope" or
// "default". Returns nullopt if the name is unknown.
std::optional<RopeKind> ParseRopeKind(std::string_view name);

struct RopeScaling {
  RopeKind kind = RopeKind::kNone;
  double factor = 1;
  int64_t original_length = 0;  // sequence length in training
  // kLongRope: one factor for each frequency. `short_factors` are for lengths
  // up to `original_length`, `long_factors` for longer sequences.
  std::vector<double> short_factors;
  std::vector<double> long_factors;
  // kYarn: frequencies with more than beta_fast turns over the original length
  // are kept. Frequencies with fewer than beta_slow turns are divided by the
  // factor. All frequencies between these two limits are interpolated.
  double beta_fast = 32;
  double beta_slow = 1;
  // kYarn: if true, the indices of the two limiting frequencies are rounded to
  // integers: the index for beta_fast down, the index for beta_slow up.
  bool truncate = true;
  // kLlama3: frequencies are interpolated if their wavelength is between
  // original_length/high_frequency_factor and .../low_frequency_factor.
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  // The factor on sin and cos. If absent, the kind determines it:
  //   kYarn      0.1 ln(factor) + 1, or 1 if the factor is at most 1
  //   kLongRope  sqrt(1 + ln(s)/ln(original_length)) with s = length /
  //              original_length, or 1 if s is at most 1
  //   others     1
  std::optional<double> attention_factor;
};

struct RopeFrequencies {
  std::vector<double> inverse;  // [dim/2]: radians per position
  double amplitude = 1;         // factor on sin and cos
};

// Returns the frequencies for sequences up to `length`. Returns nullopt, and
// sets `why`, if dim, base or the numbers of the scaling cannot be used.
std::optional<RopeFrequencies> Frequencies(int64_t dim, double base,
                                           int64_t length,
                                           const RopeScaling& scaling,
                                           std::string& why);

// The sin and cos of all angles at one position, [dim] each. Elements i and i +
// dim/2 both belong to frequency i.
struct RopeRow {
  std::vector<float> sin;
  std::vector<float> cos;
};
RopeRow RowAt(const RopeFrequencies& frequencies, int64_t position);

// Writes (-x2, x1) to `out`, where x1 and x2 are the halves of x, split at
// floor(n/2).
void RotateHalf(std::span<const float> x, std::span<float> out);

// Computes x*cos + rotate_half(x)*sin in float32, in place. `sin` and `cos` are
// as long as x.
void ApplyRotary(std::span<float> x, std::span<const float> sin,
                 std::span<const float> cos);
// Like ApplyRotary, but for interleaved pairs: (x0, x1), (x2, x3) ... are
// rotated by frequency 0, 1, ...
void ApplyRotaryInterleaved(std::span<float> x, std::span<const float> sin,
                            std::span<const float> cos);

enum class RotaryStyle : uint8_t { kHalves, kInterleaved };
enum class RotaryOf : uint8_t { kQuery, kKey };

// The rotation that one device applies to its tokens. Fault injection may
// change it through RotarySeam.
struct Rotation {
  RotaryOf what;
  RotaryStyle style;
  RopeFrequencies frequencies;
  int64_t shift = 0;  // offset of the device's slice in the sequence
};
struct RotarySeam {
  std::function<void(Rotation&)> device;
};

// Rotates the tokens [B, length, heads, D] in place and rounds them to their
// dtype. Token t of row b of the unsharded tensor is at position first[b] + t.
// D must be unsharded, because the two elements of a pair may be D/2 apart.
void RotateTokens(const Machine& machine, ShardedTensor& tokens,
                  const std::vector<int64_t>& first,
                  const RopeFrequencies& frequencies, RotaryStyle style,
                  RotaryOf what);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_ROTARY_H_
