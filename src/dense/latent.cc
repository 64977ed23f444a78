#include "dense/latent.h"

namespace shardc::dense {
namespace {

size_t At(int64_t i) { return static_cast<size_t>(i); }

// c . w[h] for all tokens, to dims [0, w's) of each head's row of `out`.
void Project(const Array& c, const Array& w, Array& out) {
  const int64_t tokens = c.dim(0) * c.dim(1), rank = c.dim(2);
  const int64_t heads = w.dim(0), dim = w.dim(2), row = out.dim(3);
  for (int64_t token = 0; token < tokens; ++token) {
    const double* const from = c.data.data() + token * rank;
    for (int64_t h = 0; h < heads; ++h) {
      double* const to = out.data.data() + (token * heads + h) * row;
      for (int64_t r = 0; r < rank; ++r) {
        const double* const up = w.data.data() + (h * rank + r) * dim;
        for (int64_t d = 0; d < dim; ++d) to[d] += from[r] * up[d];
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
