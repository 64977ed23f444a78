// Computes wrong outputs, which test that tolerances are tight: the check must
// reject each of them. One wrong output is attention without one of the keys. A
// key is removed by setting its position to -1, the position of an empty slot.
// Only a key that matters is removed: some query must give it at least the mean
// softmax weight of all keys.
//
// For example, causal attention has 4 keys, and the only query has position 1.
// Keys 0 and 1 are visible. To remove the last key that matters, key 1 gets
// position -1.
#include "verify/judge/wrong_outputs.h"

#include <utility>

#include "source/size.h"

namespace shardc::verify {
namespace {

using dense::Array;

// Returns a copy in which element i of dimension `dim` is moved to i + 1, and
// the last element to 0.
Array Shifted(const Array& x, size_t dim) {
  Array out = x;
  int64_t inner = 1;
  for (size_t d = dim + 1; d < x.shape.size(); ++d) inner *= x.shape[d];
  const int64_t size = x.shape[dim];
  for (size_t i = 0; i < x.data.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t place = at / inner % size;
    const int64_t to = at + ((place + 1) % size - place) * inner;
    out.data[AsIndex(to)] = x.data[i];
  }
  return out;
}

// Returns true if the key's weight is at least the mean weight for a query of
// the batch row. The weight of a masked key is always less.
bool Sees(const dense::Result& whole, int64_t b, int64_t key) {
  const Array& weights = whole.weights;
  const double share = 1 / static_cast<double>(weights.dim(3));
  for (int64_t h = 0; h < weights.dim(1); ++h) {
    for (int64_t t = 0; t < weights.dim(2); ++t) {
      const bool masked = whole.lse.At(b, t, h, 0) <= dense::kMasked / 2;
      if (!masked && weights.At(b, h, t, key) >= share) return true;
    }
  }
  return false;
}

}  // namespace

void Offer(std::string name, const Array& output, const Array& reference,
           const Limits& limits, WrongOutputs& wrong) {
  ++wrong.offered;
  const Judgement judged = JudgeOutput(output, reference, limits);
  if (judged.error.non_finite) return;
  if (Within(judged.error.max_abs, judged.allowed)) {
    wrong.taken.push_back(std::move(name));
  }
}

void OfferShifted(const Array& reference, const Limits& limits,
                  WrongOutputs& wrong) {
  static constexpr const char* kNames[] = {"batch rows", "tokens", "heads",
                                           "dims"};
  Offer("zeros", Array::Zeros(reference.shape), reference, limits, wrong);
  for (size_t d = 0; d < reference.shape.size(); ++d) {
    if (reference.shape[d] == 1) continue;
    Offer(std::string(kNames[d]) + " shifted", Shifted(reference, d), reference,
          limits, wrong);
  }
}

std::optional<dense::Inputs> OneKeyShort(const dense::Inputs& in,
                                         const dense::Options& options,
                                         bool last) {
  std::string why;
  const auto whole = dense::Attention(in, options, why, true);
  if (!whole) return std::nullopt;
  dense::Inputs out = in;
  const int64_t batch = in.key.dim(0), keys = in.key.dim(1);
  if (out.key_positions.empty()) {
    for (int64_t i = 0; i < batch * keys; ++i) {
      out.key_positions.push_back(i % keys);
    }
  }
  bool any = false;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < keys; ++i) {
      const int64_t key = last ? keys - 1 - i : i;
      if (!Sees(*whole, b, key)) continue;
      out.key_positions[AsIndex(b * keys + key)] = -1;
      any = true;
      break;
    }
  }
  if (!any) return std::nullopt;
  return out;
}

}  // namespace shardc::verify
