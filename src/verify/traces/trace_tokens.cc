// Computes the vectors of a token from their kind (query, key or value), row
// and position. One draw of the random generator gives eight uniform numbers of
// 16 bits. This is fast, which matters because each comparison draws billions
// of numbers again. One token consists of zeros, to test that quantisation
// keeps them. For example, 8 heads of 16 elements need 128 numbers, which are
// 16 draws.
#include "verify/traces/trace_tokens.h"

#include <algorithm>
#include <array>

#include "floats/convert.h"
#include "source/index.h"

namespace shardc::verify {
namespace {

// Maps 16 bits to uniform numbers in (-sqrt 3, sqrt 3), whose variance is 1.
float Noise(uint32_t bits) {
  return (static_cast<float>(bits) - 32767.5f) * (1.7320508f / 32768.0f);
}

}  // namespace

TraceTokens::TraceTokens(const CacheTrace& trace)
    : rows_(trace.batch + 1),
      heads_(trace.heads),
      key_heads_(trace.key_heads),
      dim_(trace.head_dim),
      positions_(trace.prefill + trace.steps),
      dtype_(trace.dtype) {
  const exec::Random random(trace.seed);
  kinds_.push_back(MakeKind(random.Split("query"), heads_, 1, 0.3));
  kinds_.push_back(MakeKind(random.Split("key"), key_heads_, 1, 0.3));
  kinds_.push_back(MakeKind(random.Split("value"), key_heads_, 0.7, 1.5));
}

TraceTokens::Kind TraceTokens::MakeKind(exec::Random random, int64_t heads,
                                        double gain, double offset) const {
  Kind out;
  out.key = random.Split("noise").key();
  out.slope = static_cast<float>(offset);
  const exec::Random norm = random.Split("norm"), mean = random.Split("mean");
  for (int64_t i = 0; i < rows_ * heads; ++i) {
    out.gain.push_back(static_cast<float>(
        gain * (0.6 + 0.8 * norm.Uniform(static_cast<uint64_t>(i)))));
  }
  for (int64_t i = 0; i < rows_ * heads * dim_; ++i) {
    out.mean.push_back(static_cast<float>(
        offset * (2 * mean.Uniform(static_cast<uint64_t>(i)) - 1)));
  }
  return out;
}

void TraceTokens::Read(TokenKind kind, int64_t row, int64_t position,
                       std::span<float> out) const {
  const Kind& k = kinds_[static_cast<size_t>(kind)];
  if (kind != TokenKind::kQuery && row == 0 &&
      position == std::min<int64_t>(3, positions_ - 1)) {
    std::fill(out.begin(), out.end(), 0.0f);
    return;
  }
  const int64_t heads = Heads(kind);
  // The mean of the elements depends on the position: `along` rises linearly
  // over all positions from -slope / 4 to slope / 4. It is added to even
  // elements and subtracted from odd elements.
  const float along =
      k.slope * 0.5f *
      (static_cast<float>(position) / static_cast<float>(positions_) - 0.5f);
  const auto count = static_cast<int64_t>(out.size());
  const float* const mean = k.mean.data() + row * count;
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(k.key),
                                       static_cast<uint32_t>(k.key >> 32)};
  for (int64_t i = 0; i < count; i += 8) {
    const auto words = exec::Philox(
        {static_cast<uint32_t>(i / 8), static_cast<uint32_t>(position),
         static_cast<uint32_t>(row), 0},
        key);
    for (int64_t j = 0; j < std::min<int64_t>(8, count - i); ++j) {
      const uint32_t word = words[AsIndex(j / 2)];
      out[AsIndex(i + j)] = Noise(j % 2 == 0 ? word & 0xffff : word >> 16);
    }
  }
  for (int64_t h = 0; h < heads; ++h) {
    const float gain = k.gain[AsIndex(row * heads + h)];
    float* const x = out.data() + h * dim_;
    const float* const m = mean + h * dim_;
    for (int64_t d = 0; d < dim_; ++d) {
      x[d] = gain * x[d] + (m[d] + (d % 2 == 0 ? along : -along));
    }
  }
  RoundAll(dtype_, out);
}

}  // namespace shardc::verify
