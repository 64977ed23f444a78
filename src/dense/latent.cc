// Computes latent attention, in which the keys and values of a head are
// products of a cached latent row and a matrix of the head. Expand() computes
// keys and values by this definition. Absorb() instead multiplies the query by
// the key matrix, and the value matrix is applied after the attention
// (Inputs::value_up). The result is the same, and needs fewer operations if
// there are few queries. All sums are in double, so their different order makes
// no visible difference.
//
// For example, with 2,048 cached tokens, a latent size of 512 and 128 heads
// whose keys and values have 128 dims each, Expand() needs 34e9
// multiplications. Attention of one query over absorbed rows needs 0.3e9.
#include "dense/latent.h"

#include <algorithm>
#include <vector>

#include "source/index.h"

namespace shardc::dense {
namespace {

// The number of tokens that are multiplied by a head's matrix at the same time.
// Each row of the matrix is then read once for 16 tokens, not for every token.
constexpr int64_t kBlock = 16;

// Computes out[token, h] = c[token] . w[h] for all tokens and heads. Only the
// first w.dim(2) dims of `out` are set. The rows of `out` are far apart in
// memory, so the sums of a block are computed in a local buffer.
void Project(const Array& c, const Array& w, Array& out) {
  const int64_t tokens = c.dim(0) * c.dim(1), rank = c.dim(2);
  const int64_t heads = w.dim(0), dim = w.dim(2), row = out.dim(3);
  std::vector<double> sums(AsIndex(kBlock * dim));
  for (int64_t h = 0; h < heads; ++h) {
    const double* const head = w.data.data() + h * rank * dim;
    for (int64_t first = 0; first < tokens; first += kBlock) {
      const int64_t count = std::min(kBlock, tokens - first);
      std::fill(sums.begin(), sums.end(), 0.0);
      for (int64_t r = 0; r < rank; ++r) {
        const double* const up = head + r * dim;
        for (int64_t t = 0; t < count; ++t) {
          const double x = c.data[AsIndex((first + t) * rank + r)];
          double* const to = sums.data() + t * dim;
          for (int64_t d = 0; d < dim; ++d) to[d] += x * up[d];
        }
      }
      for (int64_t t = 0; t < count; ++t) {
        std::copy_n(sums.data() + t * dim, dim,
                    out.data.data() + ((first + t) * heads + h) * row);
      }
    }
  }
}

}  // namespace

Expanded Expand(const Latent& latent) {
  const int64_t batch = latent.latent.dim(0), keys = latent.latent.dim(1);
  const int64_t heads = latent.up_key.dim(0), nope = latent.up_key.dim(2);
  const int64_t rope = latent.rope_key.dim(2);
  Expanded out;
  out.key = Array::Zeros({batch, keys, heads, nope + rope});
  out.value = Array::Zeros({batch, keys, heads, latent.up_value.dim(2)});
  Project(latent.latent, latent.up_key, out.key);
  Project(latent.latent, latent.up_value, out.value);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t s = 0; s < keys; ++s) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t d = 0; d < rope; ++d) {
          out.key.At(b, s, h, nope + d) =
              latent.rope_key.data[AsIndex((b * keys + s) * rope + d)];
        }
      }
    }
  }
  return out;
}

Absorbed Absorb(const Latent& latent, const Array& query) {
  const int64_t rows = query.dim(0) * query.dim(1), heads = query.dim(2);
  const int64_t rank = latent.up_key.dim(1), nope = latent.up_key.dim(2);
  const int64_t rope = latent.rope_key.dim(2);
  const int64_t batch = latent.latent.dim(0), keys = latent.latent.dim(1);
  Absorbed out;
  out.query = Array::Zeros({query.dim(0), query.dim(1), heads, rank + rope});
  for (int64_t i = 0; i < rows * heads; ++i) {
    const double* const from = query.data.data() + i * (nope + rope);
    double* const to = out.query.data.data() + i * (rank + rope);
    const double* const up =
        latent.up_key.data.data() + i % heads * rank * nope;
    for (int64_t r = 0; r < rank; ++r) {
      for (int64_t d = 0; d < nope; ++d) to[r] += from[d] * up[r * nope + d];
    }
    std::copy_n(from + nope, rope, to + rank);
  }
  out.key = Array::Zeros({batch, keys, 1, rank + rope});
  out.value = latent.latent;
  out.value.shape = {batch, keys, 1, rank};
  for (int64_t i = 0; i < batch * keys; ++i) {
    double* const to = out.key.data.data() + i * (rank + rope);
    std::copy_n(latent.latent.data.data() + i * rank, rank, to);
    std::copy_n(latent.rope_key.data.data() + i * rope, rope, to + rank);
  }
  return out;
}

double ExpandingTakes(const Latent& latent) {
  const auto tokens =
      static_cast<double>(latent.latent.dim(0) * latent.latent.dim(1));
  return tokens * static_cast<double>(latent.up_key.data.size() +
                                      latent.up_value.data.size());
}

bool WorthAbsorbing(const Latent& latent, int64_t queries) {
  constexpr double kSeconds = 4e9;
  const double expanding = ExpandingTakes(latent);
  const auto heads = static_cast<double>(latent.up_key.dim(0));
  const auto width =
      static_cast<double>(2 * latent.up_key.dim(1) + latent.rope_key.dim(2));
  const auto keys = static_cast<double>(latent.latent.dim(1));
  return expanding > kSeconds &&
         static_cast<double>(queries) * heads * keys * width < expanding;
}

}  // namespace shardc::dense
