#include "verify/remembered.h"

#include <algorithm>
#include <span>

#include "exec/half.h"
#include "exec/operation.h"
#include "exec/quantize.h"
#include "verify/problem_data.h"

namespace shardc::verify {
namespace {

using exec::Buffer;

size_t At(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

Remembered::Remembered(const Lifetime& life) : life_(life), batch_(life.batch) {
  for (int64_t b = 0; b < batch_; ++b) source_.push_back(b);
  const int64_t positions = life.prefill + life.steps;
  Case test;
  test.operation = exec::FindOperation("flash_decoding");
  test.dtype = life.dtype;
  test.seed = life.seed;
  test.sizes = {batch_ + 1,     positions,     positions, life.heads,
                life.key_heads, life.head_dim, 0};
  exec::AttentionProblem raw = MakeProblem(test);
  query_ = std::move(raw.query);
  key_ = std::move(raw.key);
  value_ = std::move(raw.value);
  // One row of zeros, which quantisation must leave alone.
  const int64_t zero = std::min<int64_t>(3, positions - 1) * life.key_heads;
  for (Buffer* x : {&key_, &value_}) {
    std::fill_n(x->real.begin() + zero * life.head_dim, life.head_dim, 0.0f);
  }
  std::string why;
  frequencies_ = *exec::Frequencies(life.head_dim, 10000, positions, {}, why);
}

int64_t Remembered::SourceOf(int64_t row) const {
  return alone_ ? batch_ : source_[At(row)];
}

Buffer Remembered::Raw(const Buffer& all, const std::vector<int64_t>& first,
                       int64_t n) const {
  const auto rows = static_cast<int64_t>(first.size());
  Buffer out = Buffer::Zeros({rows, n, all.shape[2], all.shape[3]}, all.dtype);
  for (int64_t b = 0; b < rows; ++b) {
    // Rows that end earlier are padded with zeros on the right.
    const int64_t have = std::min(n, all.shape[1] - first[At(b)]);
    exec::CopyBlock(all, {SourceOf(b), first[At(b)], 0, 0}, out, {b, 0, 0, 0},
                    {1, have, all.shape[2], all.shape[3]});
  }
  return out;
}

Buffer Remembered::RawKeys(const std::vector<int64_t>& first, int64_t n) const {
  return Raw(key_, first, n);
}

Buffer Remembered::RawValues(const std::vector<int64_t>& first,
                             int64_t n) const {
  return Raw(value_, first, n);
}

Buffer Remembered::RawQueries(const std::vector<int64_t>& first,
                              int64_t n) const {
  return Raw(query_, first, n);
}

std::vector<float> Remembered::Rotated(const Buffer& raw, int64_t row,
                                       int64_t position, int64_t heads) const {
  const size_t dim = At(life_.head_dim);
  const size_t from =
      At((SourceOf(row) * raw.shape[1] + position) * heads) * dim;
  std::vector<float> out(
      raw.real.begin() + static_cast<long>(from),
      raw.real.begin() + static_cast<long>(from + At(heads) * dim));
  const exec::RopeRow table = exec::RowAt(frequencies_, position);
  for (size_t at = 0; at < out.size(); at += dim) {
    const std::span<float> x(out.data() + at, dim);
    if (life_.style == exec::RotaryStyle::kHalves) {
      exec::ApplyRotary(x, table.sin, table.cos);
    } else {
      exec::ApplyRotaryInterleaved(x, table.sin, table.cos);
    }
    for (float& v : x) v = exec::RoundTo(life_.dtype, v);
  }
  return out;
}

Remembered::Stored Remembered::Store(const Buffer& raw, int64_t row,
                                     int64_t position, bool rotate) const {
  const int64_t heads = life_.key_heads;
  const size_t dim = At(life_.head_dim);
  Stored out;
  if (rotate) {
    out.value = Rotated(raw, row, position, heads);
  } else {
    const size_t from =
        At((SourceOf(row) * raw.shape[1] + position) * heads) * dim;
    out.value.assign(
        raw.real.begin() + static_cast<long>(from),
        raw.real.begin() + static_cast<long>(from + At(heads) * dim));
  }
  if (life_.kv_dtype != Dtype::kI8) {
    for (float& v : out.value) v = exec::RoundTo(life_.kv_dtype, v);
    return out;
  }
  out.q.resize(out.value.size());
  for (size_t at = 0; at < out.value.size(); at += dim) {
    const std::span<float> x(out.value.data() + at, dim);
    const std::span<int8_t> q(out.q.data() + at, dim);
    out.scale.push_back(exec::QuantizeInt8(x, q));
    for (size_t d = 0; d < dim; ++d) {
      x[d] = exec::DequantizeInt8(q[d], out.scale.back());
    }
  }
  return out;
}

Buffer Remembered::CachedKeys(const std::vector<int64_t>& lengths) const {
  Buffer out = Buffer::Zeros(
      {batch_, life_.slots, life_.key_heads, life_.head_dim}, life_.kv_dtype);
  const int64_t width = life_.key_heads * life_.head_dim;
  for (int64_t b = 0; b < batch_; ++b) {
    for (int64_t p = 0; p < lengths[At(b)]; ++p) {
      const Stored token = Store(key_, b, p, true);
      const auto to = (b * life_.slots + p % life_.slots) * width;
      if (life_.kv_dtype == Dtype::kI8) {
        std::copy(token.q.begin(), token.q.end(), out.whole.begin() + to);
      } else {
        std::copy(token.value.begin(), token.value.end(),
                  out.real.begin() + to);
      }
    }
  }
  return out;
}

Buffer Remembered::CachedKeyScales(const std::vector<int64_t>& lengths) const {
  Buffer out =
      Buffer::Zeros({batch_, life_.slots, life_.key_heads}, Dtype::kF32);
  for (int64_t b = 0; b < batch_; ++b) {
    for (int64_t p = 0; p < lengths[At(b)]; ++p) {
      const Stored token = Store(key_, b, p, true);
      std::copy(token.scale.begin(), token.scale.end(),
                out.real.begin() +
                    (b * life_.slots + p % life_.slots) * life_.key_heads);
    }
  }
  return out;
}

exec::AttentionProblem Remembered::Problem(
    const std::vector<int64_t>& lengths,
    const std::vector<int64_t>& starts) const {
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  exec::AttentionProblem out;
  out.query =
      Buffer::Zeros({batch_, 1, life_.heads, life_.head_dim}, life_.dtype);
  out.key = Buffer::Zeros({batch_, longest, life_.key_heads, life_.head_dim},
                          life_.dtype);
  out.value = out.key;
  out.key_lengths = Buffer::Zeros({batch_}, Dtype::kI32);
  out.key_starts = out.key_lengths;
  const int64_t width = life_.key_heads * life_.head_dim;
  const int64_t query_width = life_.heads * life_.head_dim;
  const auto place = [&](const std::vector<float>& from, Buffer& to,
                         int64_t at) {
    for (size_t i = 0; i < from.size(); ++i) {
      to.real[At(at) + i] = exec::RoundTo(life_.dtype, from[i]);
    }
  };
  for (int64_t b = 0; b < batch_; ++b) {
    const int64_t length = lengths[At(b)];
    place(Rotated(query_, b, length - 1, life_.heads), out.query,
          b * query_width);
    for (int64_t p = 0; p < length; ++p) {
      place(Store(key_, b, p, true).value, out.key, (b * longest + p) * width);
      place(Store(value_, b, p, false).value, out.value,
            (b * longest + p) * width);
    }
    out.key_lengths->whole[At(b)] = static_cast<int32_t>(length);
    out.key_starts->whole[At(b)] = static_cast<int32_t>(starts[At(b)]);
  }
  if (life_.window > 0) out.options.window = exec::LastKeys(life_.window);
  out.options.causal = true;
  out.options.scale = life_.scale;
  out.options.soft_cap = life_.soft_cap;
  out.options.dropout = life_.dropout;
  out.options.dropout_seed = life_.seed;
  return out;
}

}  // namespace shardc::verify
