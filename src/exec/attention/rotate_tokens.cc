// A device rotates its own tokens by their positions in the whole sequence:
// the row's first position, plus where the device's slice begins.
//
//   a row from 100 on, length over sp 2, 8 tokens  ->  sp=1 rotates by 104-107
#include "exec/attention/rotate_tokens.h"

#include <span>

#include "exec/kernels/half.h"

namespace shardc::exec {
namespace {

size_t At(int64_t i) { return static_cast<size_t>(i); }

void Rotate(const Machine& machine, std::span<float> x, const RopeRow& row,
            RotaryStyle style) {
  if (machine.Injected(Fault::kRotaryOtherPairs)) {
    style = style == RotaryStyle::kHalves ? RotaryStyle::kInterleaved
                                          : RotaryStyle::kHalves;
  }
  if (machine.Injected(Fault::kRotarySign)) {
    std::vector<float> sin = row.sin;
    for (float& s : sin) s = -s;
    ApplyRotary(x, sin, row.cos);
  } else if (style == RotaryStyle::kHalves) {
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
  machine.Local([&](int device) {
    Buffer& local = tokens.local[At(device)];
    const Shape start =
        LocalStart(machine.mesh(), tokens.shape, tokens.spec, device);
    const Shape& s = local.shape;
    int64_t shift = machine.Injected(Fault::kRotaryLocal) ? 0 : start[1];
    if (machine.Injected(Fault::kRotaryShiftedAlike)) ++shift;
    if (machine.Injected(Fault::kRotaryQueryPlusOne) &&
        what == RotaryOf::kQuery) {
      ++shift;
    }
    std::vector<RopeRow> rows;  // of the row before, often the same
    int64_t rows_first = 0;
    for (int64_t b = 0; b < s[0]; ++b) {
      const int64_t begin = first[At(start[0] + b)] + shift;
      if (rows.empty() || begin != rows_first) {
        rows.clear();
        for (int64_t t = 0; t < s[1]; ++t) {
          rows.push_back(RowAt(frequencies, begin + t));
        }
        rows_first = begin;
      }
      for (int64_t t = 0; t < s[1]; ++t) {
        for (int64_t h = 0; h < s[2]; ++h) {
          const size_t at = At(((b * s[1] + t) * s[2] + h) * s[3]);
          const std::span<float> x(local.real.data() + at, At(s[3]));
          Rotate(machine, x, rows[At(t)], style);
          RoundAll(local.dtype, x);
        }
      }
    }
  });
}

}  // namespace shardc::exec
