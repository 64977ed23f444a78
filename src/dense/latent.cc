#include "dense/latent.h"

#include <algorithm>
#include <vector>

namespace shardc::dense {
namespace {

size_t At(int64_t i) { return static_cast<size_t>(i); }

// Tokens for which one row of a head's matrix is read once.
constexpr int64_t kBlock = 16;

// c . w[h] for all tokens, to dims [0, w's) of each head's row of `out`. Rows
// of `out` lie far apart, so a block of sums is kept together.
void Project(const Array& c, const Array& w, Array& out) {
  const int64_t tokens = c.dim(0) * c.dim(1), rank = c.dim(2);
  const int64_t heads = w.dim(0), dim = w.dim(2), row = out.dim(3);
  std::vector<double> sums(At(kBlock * dim));
  for (int64_t h = 0; h < heads; ++h) {
    const double* const head = w.data.data() + h * rank * dim;
    for (int64_t first = 0; first < tokens; first += kBlock) {
      const int64_t count = std::min(kBlock, tokens - first);
      std::fill(sums.begin(), sums.end(), 0.0);
      for (int64_t r = 0; r < rank; ++r) {
        const double* const up = head + r * dim;
        for (int64_t t = 0; t < count; ++t) {
          const double x = c.data[At((first + t) * rank + r)];
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
              latent.rope_key.data[At((b * keys + s) * rope + d)];
        }
      }
    }
  }
  return out;
}

}  // namespace shardc::dense
