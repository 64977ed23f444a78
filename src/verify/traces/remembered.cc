// Computes the expected content of a cache, independently of any layout. Tokens
// are not stored. Each token is recomputed from its row and position, and
// rotated and rounded as the program should do. For example, a cache with a
// window has 16 slots. Position 18 is written to slot 2 and replaces position
// 2.
#include "verify/traces/remembered.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "dense/narrow.h"
#include "exec/machine/agreement.h"
#include "floats/convert.h"
#include "source/size.h"

namespace shardc::verify {
namespace {

using exec::Buffer;
using exec::LayoutError;

// Returns true if the bits are equal: 0 and -0 differ, and a NaN equals itself.
bool SameBits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

LayoutError Differs(const exec::SimMesh& mesh, int device, std::string what,
                    Shape position) {
  LayoutError out;
  out.message = std::move(what) + " on device " + std::to_string(device) +
                " (" + mesh.DeviceText(device) + ") differs at " +
                ShapeText(position);
  out.devices = {device};
  out.position = std::move(position);
  return out;
}

dense::Stretch StretchOf(exec::RopeKind kind) {
  switch (kind) {
    case exec::RopeKind::kLinear:
      return dense::Stretch::kLinear;
    case exec::RopeKind::kDynamic:
      return dense::Stretch::kDynamic;
    case exec::RopeKind::kYarn:
      return dense::Stretch::kYarn;
    case exec::RopeKind::kLlama3:
      return dense::Stretch::kLlama3;
    default:
      return dense::Stretch::kNone;
  }
}

// Converts the settings of a rotation for the dense reference, which computes
// the frequencies with its own code.
dense::Rope RopeOf(const Rotation& rotation) {
  const exec::RopeScaling& from = rotation.scaling;
  dense::Rope out;
  out.base = rotation.base;
  out.stretch = StretchOf(from.kind);
  out.factor = from.factor;
  out.original_length = static_cast<double>(from.original_length);
  out.fast_turns = from.beta_fast;
  out.slow_turns = from.beta_slow;
  out.rounds_outwards = from.truncate;
  out.low_part = from.low_frequency_factor;
  out.high_part = from.high_frequency_factor;
  out.amplitude = from.attention_factor;
  return out;
}

}  // namespace

Remembered::Remembered(const CacheTrace& trace)
    : trace_(trace),
      tokens_(trace),
      held_(AsIndex(trace.batch * trace.slots), -1),
      rotary_(trace.head_dim, trace.prefill + trace.steps,
              RopeOf(trace.rotation),
              trace.style == exec::RotaryStyle::kHalves
                  ? dense::Pairs::kHalves
                  : dense::Pairs::kNeighbours) {
  for (int64_t b = 0; b < trace.batch; ++b) source_.push_back(b);
  const size_t slots = AsIndex(trace.batch * trace.slots),
               all = slots * Width();
  if (trace.kv_dtype == Dtype::kI8) {
    whole_.assign(all, 0);
    scale_.assign(slots * AsIndex(trace.key_heads), 0);
  } else if (trace.kv_dtype == Dtype::kF32) {
    full_.assign(all, 0);
  } else {
    half_.assign(all, 0);
  }
}

size_t Remembered::Width() const {
  return AsIndex(trace_.key_heads * trace_.head_dim);
}

int64_t Remembered::SourceOf(int64_t row) const {
  return alone_ ? trace_.batch : source_[AsIndex(row)];
}

Buffer Remembered::Raw(TokenKind kind, const std::vector<int64_t>& first,
                       int64_t n) const {
  const auto rows = static_cast<int64_t>(first.size());
  const int64_t heads = tokens_.Heads(kind);
  const size_t width = AsIndex(heads * trace_.head_dim);
  const int64_t positions = trace_.prefill + trace_.steps;
  Buffer out = Buffer::Zeros({rows, n, heads, trace_.head_dim}, trace_.dtype);
  for (int64_t b = 0; b < rows; ++b) {
    for (int64_t t = 0; t < std::min(n, positions - first[AsIndex(b)]); ++t) {
      tokens_.Read(kind, SourceOf(b), first[AsIndex(b)] + t,
                   {out.real.data() + AsIndex(b * n + t) * width, width});
    }
  }
  return out;
}

void Remembered::Rotate(int64_t position, std::span<float> token) const {
  rotary_.Rotate(position, token);
  dense::NearestOf(trace_.dtype, token);
}

void Remembered::Store(std::span<float> token, std::span<int8_t> q,
                       std::span<float> scale) const {
  if (trace_.kv_dtype != Dtype::kI8) {
    dense::NearestOf(trace_.kv_dtype, token);
    return;
  }
  const size_t dim = AsIndex(trace_.head_dim);
  std::vector<int8_t> own(dim);
  for (size_t h = 0; h * dim < token.size(); ++h) {
    const std::span<float> x = token.subspan(h * dim, dim);
    const std::span<int8_t> to =
        q.empty() ? std::span<int8_t>(own) : q.subspan(h * dim, dim);
    const float s = dense::ToInt8(x, to);
    if (!scale.empty()) scale[h] = s;
    for (size_t d = 0; d < dim; ++d) x[d] = dense::FromInt8(to[d], s);
  }
}

void Remembered::Write(int64_t row, int64_t begin, int64_t end) {
  const size_t width = Width(), heads = AsIndex(trace_.key_heads);
  std::vector<float> token(width);
  for (int64_t p = begin; p < end; ++p) {
    const size_t slot = AsIndex(row * trace_.slots + p % trace_.slots);
    held_[slot] = p;
    tokens_.Read(TokenKind::kKey, SourceOf(row), p, token);
    Rotate(p, token);
    if (trace_.kv_dtype == Dtype::kI8) {
      Store(token, {whole_.data() + slot * width, width},
            {scale_.data() + slot * heads, heads});
      continue;
    }
    Store(token, {}, {});
    if (trace_.kv_dtype == Dtype::kF32) {
      std::copy(token.begin(), token.end(), full_.data() + slot * width);
    } else {
      const std::span<uint16_t> to(half_.data() + slot * width, width);
      trace_.kv_dtype == Dtype::kF16 ? F32ToF16(token, to)
                                     : F32ToBf16(token, to);
    }
  }
}

void Remembered::Replace(int64_t slot, int64_t length) {
  source_[AsIndex(slot)] = trace_.batch;
  const auto clear = [&](auto& all, size_t each) {
    if (all.empty()) return;
    std::fill_n(all.begin() + slot * static_cast<int64_t>(each), each, 0);
  };
  std::fill_n(held_.begin() + slot * trace_.slots, trace_.slots, -1);
  clear(full_, AsIndex(trace_.slots) * Width());
  clear(half_, AsIndex(trace_.slots) * Width());
  clear(whole_, AsIndex(trace_.slots) * Width());
  clear(scale_, AsIndex(trace_.slots * trace_.key_heads));
  Write(slot, 0, length);
}

void Remembered::Expected(int64_t slot, std::span<float> out) const {
  const size_t width = Width(), at = AsIndex(slot) * width;
  if (trace_.kv_dtype == Dtype::kF32) {
    std::copy_n(full_.data() + at, width, out.data());
  } else if (trace_.kv_dtype == Dtype::kF16) {
    F16ToF32({half_.data() + at, width}, out);
  } else {
    Bf16ToF32({half_.data() + at, width}, out);
  }
}

bool Remembered::MayBe(int64_t row, int64_t slot, int64_t head, int64_t dim,
                       double have, double scale) const {
  const int64_t position = held_[AsIndex(slot)];
  if (position < 0) return false;
  std::vector<float> token(Width());
  tokens_.Read(TokenKind::kKey, SourceOf(row), position, token);
  const std::span<const float> x(token.data() + AsIndex(head * trace_.head_dim),
                                 AsIndex(trace_.head_dim));
  const auto ends = [&](int64_t d) {
    const dense::Rotary::RotatedValue turned =
        rotary_.RotatedElement(position, x, d);
    return std::pair(dense::Nearest(trace_.dtype, turned.at - turned.off),
                     dense::Nearest(trace_.dtype, turned.at + turned.off));
  };
  const auto [low, high] = ends(dim);
  if (trace_.kv_dtype != Dtype::kI8) {
    return have >= dense::Nearest(trace_.kv_dtype, low) &&
           have <= dense::Nearest(trace_.kv_dtype, high);
  }
  // The bounds of the scale, which is the largest magnitude in the head.
  double least = 0, most = 0;
  for (int64_t d = 0; d < trace_.head_dim; ++d) {
    const auto [from, to] = ends(d);
    const double near =
        from <= 0 && to >= 0 ? 0 : std::min(std::abs(from), std::abs(to));
    least = std::max(least, near);
    most = std::max({most, std::abs(from), std::abs(to)});
  }
  if (!(scale >= least && scale <= most && scale > 0)) return false;
  // An integer may differ by half a step for its rounding, and by a
  // ten-thousandth of a step for the error of this computation.
  constexpr double kHalf = 0.5001;
  return have >= std::max(low * 127.5 / scale - kHalf, -128.0) &&
         have <= high * 127.5 / scale + kHalf;
}

std::optional<LayoutError> Remembered::KeyDifference(
    const exec::SimMesh& mesh, const exec::KvCache& cache) const {
  return exec::FirstError(mesh, HeldDifference(mesh, cache));
}

std::optional<LayoutError> Remembered::HeldDifference(
    const exec::SimMesh& mesh, const exec::KvCache& cache) const {
  const bool whole = cache.IsQuantized();
  std::vector<float> expected(Width());
  for (int device = mesh.first_held(); device < mesh.end_held(); ++device) {
    const Buffer& local = cache.key.local[AsIndex(device)];
    const Shape start =
        exec::LocalStart(mesh, cache.key.shape, cache.key.spec, device);
    const Shape& n = local.shape;
    for (int64_t line = 0; line < n[0] * n[1]; ++line) {
      const int64_t b = start[0] + line / n[1], s = start[1] + line % n[1];
      const int64_t slot = b * trace_.slots + s;
      if (!whole) Expected(slot, expected);
      for (int64_t h = 0; h < n[2]; ++h) {
        const int64_t head = start[2] + h;
        const int64_t from = head * trace_.head_dim + start[3];
        const size_t at = AsIndex((line * n[2] + h) * n[3]);
        const auto where = [&](int64_t d) {
          return Shape{b, s, head, start[3] + d};
        };
        const auto may = [&](int64_t d, double number, double scale) {
          return MayBe(b, slot, head, start[3] + d, number, scale);
        };
        if (whole) {
          const size_t want = AsIndex(slot) * Width() + AsIndex(from);
          const int64_t line_head = line * n[2] + h;
          const float scale =
              cache.key_scale.local[AsIndex(device)].real[AsIndex(line_head)];
          const float right = scale_[AsIndex(slot * trace_.key_heads + head)];
          const bool other = !SameBits(scale, right);
          for (int64_t d = 0; d < n[3]; ++d) {
            const int32_t have = local.integers[at + AsIndex(d)];
            if (!other && have == whole_[want + AsIndex(d)]) continue;
            if (may(d, have, double{scale})) continue;
            if (have != whole_[want + AsIndex(d)]) {
              return Differs(mesh, device, "cached key", where(d));
            }
            return Differs(mesh, device, "cached key scale", {b, s, head});
          }
          continue;
        }
        const float* const have = local.real.data() + at;
        const float* const want = expected.data() + from;
        if (std::memcmp(have, want, AsIndex(n[3]) * sizeof(float)) == 0)
          continue;
        for (int64_t d = 0; d < n[3]; ++d) {
          if (SameBits(have[d], want[d]) || may(d, double{have[d]}, 0)) {
            continue;
          }
          return Differs(mesh, device, "cached key", where(d));
        }
      }
    }
  }
  return std::nullopt;
}

std::optional<LayoutError> Remembered::ViewDifference(
    const exec::SimMesh& mesh, const exec::CacheView& view,
    const std::vector<int64_t>& slots) const {
  auto own = LentDifference(mesh, view, slots);
  const int64_t row = own ? own->position[0] : 0;
  return exec::FirstError(mesh, std::move(own), row);
}

std::optional<LayoutError> Remembered::LentDifference(
    const exec::SimMesh& mesh, const exec::CacheView& view,
    const std::vector<int64_t>& slots) const {
  for (int64_t b = 0; b < trace_.batch; ++b) {
    const int64_t slot = slots[AsIndex(b)];
    const int64_t position =
        slot < 0 ? -1 : held_[AsIndex(b * trace_.slots + slot)];
    if (position < 0) continue;
    Buffer key, value;
    ReadBack(b, position, position + 1, key, value);
    for (int device = mesh.first_held(); device < mesh.end_held(); ++device) {
      for (const exec::ShardedTensor* lent : {&view.key, &view.value}) {
        const Buffer& local = lent->local[AsIndex(device)];
        const Shape start =
            exec::LocalStart(mesh, lent->shape, lent->spec, device);
        const Shape& n = local.shape;
        if (b < start[0] || b >= start[0] + n[0] || slot < start[1] ||
            slot >= start[1] + n[1]) {
          continue;
        }
        const bool values = lent == &view.value;
        const Buffer& right = values ? value : key;
        const int64_t line = (b - start[0]) * n[1] + slot - start[1];
        for (int64_t i = 0; i < n[2] * n[3]; ++i) {
          const int64_t head = start[2] + i / n[3], d = start[3] + i % n[3];
          const float have = local.real[AsIndex(line * n[2] * n[3] + i)];
          const std::span<const float> row(
              right.real.data() + AsIndex(head * trace_.head_dim),
              AsIndex(trace_.head_dim));
          if (SameBits(have, row[AsIndex(d)])) continue;
          if (!values && IsNeighbour(have, row, d)) continue;
          return Differs(mesh, device,
                         std::string("the ") + (values ? "value" : "key") +
                             " that a cache lends",
                         {b, slot, head, d});
        }
      }
    }
  }
  return std::nullopt;
}

bool Remembered::IsNeighbour(float have, std::span<const float> row,
                             int64_t d) const {
  if (dense::Nearest(trace_.dtype, double{have}) != double{have}) return false;
  const double want = row[AsIndex(d)];
  double allowed = std::abs(want) * (trace_.dtype == Dtype::kF32    ? 0x1p-21
                                     : trace_.dtype == Dtype::kBF16 ? 0x1p-7
                                                                    : 0x1p-10);
  if (trace_.kv_dtype == Dtype::kI8) {
    for (float x : row) {
      allowed = std::max(allowed, 1.01 * std::abs(double{x}) / 127);
    }
  }
  return std::abs(double{have} - want) <= allowed;
}

void Remembered::ReadBack(int64_t row, int64_t begin, int64_t end, Buffer& key,
                          Buffer& value) const {
  const size_t width = Width();
  key = Buffer::Zeros({1, end - begin, trace_.key_heads, trace_.head_dim},
                      trace_.dtype);
  value = key;
  for (int64_t p = begin; p < end; ++p) {
    const std::span<float> k(key.real.data() + AsIndex(p - begin) * width,
                             width);
    const std::span<float> v(value.real.data() + AsIndex(p - begin) * width,
                             width);
    tokens_.Read(TokenKind::kKey, SourceOf(row), p, k);
    Rotate(p, k);
    tokens_.Read(TokenKind::kValue, SourceOf(row), p, v);
    for (const std::span<float> x : {k, v}) {
      Store(x, {}, {});
      dense::NearestOf(trace_.dtype, x);
    }
  }
}

Buffer Remembered::Query(int64_t row, int64_t position) const {
  Buffer out =
      Buffer::Zeros({1, 1, trace_.heads, trace_.head_dim}, trace_.dtype);
  tokens_.Read(TokenKind::kQuery, SourceOf(row), position, out.real);
  Rotate(position, out.real);
  return out;
}

}  // namespace shardc::verify
