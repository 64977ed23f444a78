// What of a size matters to a layout is a list of answers: does it divide,
// into whole groups, is a part 1, is it larger than the other. The least size
// with the same answers for every split stands for it:
//
//   32 heads, 8 key heads over tp 4  ->  16 heads, 8 key heads
#include "verify/cases/reduced_sizes.h"

#include <algorithm>

namespace shardc::verify {
namespace {

using Bits = std::vector<bool>;

// What is kept of a pair of head counts, for one pair of splits.
void AppendHeadPredicates(int64_t heads, int64_t keys, int64_t a, int64_t c,
                          Bits& out) {
  const bool whole_heads = heads % a == 0;
  const bool whole_keys = keys % c == 0;
  out.insert(out.end(), {whole_heads, keys % a == 0, whole_keys, keys == 1,
                         heads == keys});
  if (!whole_heads || !whole_keys) return;
  const int64_t local = heads / a, local_keys = keys / c;
  const int64_t group = heads / keys;
  out.insert(out.end(), {local == 1, local_keys == 1, local % group == 0,
                         group % local == 0, local % local_keys == 0,
                         local > local_keys, local == group});
}

Bits HeadPredicates(int64_t heads, int64_t keys,
                    const std::vector<std::pair<int64_t, int64_t>>& splits) {
  Bits out;
  AppendHeadPredicates(heads, keys, 1, 1, out);
  for (const auto& [a, c] : splits) {
    AppendHeadPredicates(heads, keys, a, c, out);
  }
  return out;
}

Bits LengthPredicates(int64_t length, const std::vector<int64_t>& splits) {
  Bits out = {length == 1};
  for (int64_t n : splits) {
    out.push_back(length % n == 0);
    out.push_back(length % (2 * n) == 0);
    for (int64_t least = 1; least <= 4; ++least) {
      out.push_back(length / n >= least);
    }
  }
  return out;
}

Bits BatchPredicates(int64_t batch, const std::vector<int64_t>& splits) {
  Bits out = {batch == 1};
  for (int64_t n : splits) {
    out.push_back(batch % n == 0);
    out.push_back(batch / n >= 1);
    out.push_back(batch / n >= 2);
  }
  return out;
}

}  // namespace

std::pair<int64_t, int64_t> ReducedHeads(
    int64_t heads, int64_t key_heads,
    const std::vector<std::pair<int64_t, int64_t>>& splits) {
  const Bits want = HeadPredicates(heads, key_heads, splits);
  for (int64_t h = 1; h < heads; ++h) {
    for (int64_t k = 1; k <= h; ++k) {
      if (h % k != 0) continue;
      if (HeadPredicates(h, k, splits) == want) return {h, k};
    }
  }
  return {heads, key_heads};
}

int64_t ReducedLength(int64_t length, const std::vector<int64_t>& splits) {
  const Bits want = LengthPredicates(length, splits);
  for (int64_t l = std::min<int64_t>(length, 8); l < length; ++l) {
    if (LengthPredicates(l, splits) == want) return l;
  }
  return length;
}

int64_t ReducedBatch(int64_t batch, const std::vector<int64_t>& splits) {
  const Bits want = BatchPredicates(batch, splits);
  for (int64_t b = 1; b < batch; ++b) {
    if (BatchPredicates(b, splits) == want) return b;
  }
  return batch;
}

int64_t ReducedDim(int64_t dim, const std::vector<int64_t>& splits) {
  const auto pattern = [&](int64_t d) {
    Bits out = {d % 2 == 0};
    for (int64_t n : splits) {
      out.push_back(d % n == 0);
      out.push_back(d % (2 * n) == 0);
      out.push_back(d / n >= 16);
    }
    return out;
  };
  const Bits want = pattern(dim);
  for (int64_t d = std::min<int64_t>(dim, 16); d < dim; ++d) {
    if (pattern(d) == want) return d;
  }
  return dim;
}

Sizes ReducedSizes(const Sizes& real, const Splits& splits) {
  Sizes out = real;
  std::tie(out.heads, out.key_heads) =
      ReducedHeads(real.heads, real.key_heads, splits.heads);
  out.batch = ReducedBatch(real.batch, splits.batch);
  out.key_length = ReducedLength(real.key_length, splits.length);
  out.query_length = real.query_length == real.key_length
                         ? out.key_length
                         : ReducedLength(real.query_length, splits.length);
  // A query that is shorter than its keys stays so.
  if (real.query_length < real.key_length) {
    while (out.query_length >= out.key_length &&
           out.key_length < real.key_length) {
      const int64_t longer = out.key_length * 2;
      if (longer > real.key_length ||
          LengthPredicates(longer, splits.length) !=
              LengthPredicates(real.key_length, splits.length)) {
        out.key_length = real.key_length;
        break;
      }
      out.key_length = longer;
    }
  }
  out.head_dim = ReducedDim(real.head_dim, splits.dim);
  out.value_dim =
      real.value_dim > 0 ? ReducedDim(real.value_dim, splits.dim) : 0;
  if (real.latent_rank > 0) {
    out.latent_rank = ReducedDim(real.latent_rank, splits.dim);
  }
  if (real.latent_value_dim > 0) {
    out.latent_value_dim = ReducedDim(real.latent_value_dim, splits.dim);
  }
  // No axis splits it: as large a part of the head.
  if (real.latent_rope_dim > 0) {
    out.latent_rope_dim = std::max<int64_t>(
        1, real.latent_rope_dim * out.head_dim / real.head_dim);
  }
  return out;
}

}  // namespace shardc::verify
