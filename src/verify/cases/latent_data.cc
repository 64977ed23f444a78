// The test data of latent attention. Keys and values are computed by
// projections from one latent row for each token. Keys also have a rotated part
// that all heads share:
//
//   head_dim 16, of which 4 dims are rotated, and latents of rank 32:
//   key of head h = [latent . up_key[h] (12 dims), rotated part (4 dims)]
#include "verify/cases/latent_data.h"

#include <cmath>

#include "exec/machine/random.h"
#include "floats/half.h"
#include "source/index.h"
#include "verify/cases/shapes.h"

namespace shardc::verify {
namespace {

using exec::Buffer;

// Returns normally distributed numbers. Elements with the same coordinates in
// the first and in the last dimension have the same mean, which is between
// -`offset` and `offset`.
Buffer Values(exec::Random random, const Shape& shape, Dtype dtype, double gain,
              double offset) {
  Buffer out = Buffer::Zeros(shape, dtype);
  const int64_t each = out.Elements() / shape[0];
  for (int64_t i = 0; i < out.Elements(); ++i) {
    const auto at = static_cast<uint64_t>(i);
    const auto cell =
        static_cast<uint64_t>(i / each * shape.back() + i % shape.back());
    out.real[AsIndex(i)] = RoundTo(
        dtype, gain * random.Normal(at) +
                   offset * (2 * random.Split("mean").Uniform(cell) - 1));
  }
  return out;
}

}  // namespace

void SizeLatent(Sizes& sizes) {
  sizes.key_heads = sizes.heads;
  if (sizes.latent_value_dim > 0) sizes.value_dim = sizes.latent_value_dim;
}

bool HasLatent(const Case& test) {
  return test.operation->latent && test.sizes.heads == test.sizes.key_heads &&
         test.sizes.LatentRopeDim() >= 1;
}

void AddLatent(const Case& test, exec::AttentionProblem& problem) {
  const Sizes& n = test.sizes;
  const int64_t rope_dim = n.LatentRopeDim(), rank = n.LatentRank();
  if (!HasLatent(test)) return;
  const exec::Random random = exec::Random(test.seed).Split("latent");
  const double up = 1 / std::sqrt(static_cast<double>(rank));
  exec::LatentInputs latent;
  latent.latent = Values(random.Split("c"), {n.batch, n.key_length, rank},
                         KeyDtype(test), 1, 0.5);
  latent.rope_key =
      Values(random.Split("pe"), {n.batch, n.key_length, rope_dim},
             KeyDtype(test), 1, 0.3);
  latent.up_key =
      Values(random.Split("uk"), {n.heads, rank, n.head_dim - rope_dim},
             test.dtype, up, 0.3 * up);
  latent.up_value = Values(random.Split("uv"), {n.heads, rank, n.ValueDim()},
                           test.dtype, up, up);
  problem.latent = std::move(latent);
}

}  // namespace shardc::verify
