// Applies the rotary embedding to a sharded tensor. Each device rotates its own
// tokens by their positions in the unsharded sequence. A token's position is
// the sum of the first position of its batch row, the offset of the device's
// slice, and the token's index in the slice. For example:
//
//   8 tokens from position 100, length sharded over sp of size 2:
//   device sp=1 rotates by positions 104 to 107
#include "exec/attention/rotate_tokens.h"

#include <span>

#include "floats/convert.h"
#include "source/index.h"

namespace shardc::exec {
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
