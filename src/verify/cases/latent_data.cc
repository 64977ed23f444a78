// Keys and values of latent attention follow from one latent row a token and
// projections of it, and a rotated part that all heads share; the reference
// is given them expanded, in double:
//
//   head_dim 16: rope 4, rank 32; k_h = [c . up_key_h (12), rope (4)]
#include "verify/cases/latent_data.h"

#include <cmath>

#include "exec/machine/random.h"
#include "floats/half.h"
#include "verify/cases/shapes.h"

namespace shardc::verify {
namespace {

using exec::Buffer;
using exec::DenseArray;

size_t At(int64_t i) { return static_cast<size_t>(i); }

// Normal numbers whose mean differs by row of the first dimension.
Buffer Values(exec::Random random, const Shape& shape, Dtype dtype, double gain,
              double offset) {
  Buffer out = Buffer::Zeros(shape, dtype);
  const int64_t each = out.Elements() / shape[0];
  for (int64_t i = 0; i < out.Elements(); ++i) {
    const auto at = static_cast<uint64_t>(i);
    const auto cell =
        static_cast<uint64_t>(i / each * shape.back() + i % shape.back());
    out.real[At(i)] = RoundTo(
        dtype, gain * random.Normal(at) +
                   offset * (2 * random.Split("mean").Uniform(cell) - 1));
  }
  return out;
}

}  // namespace

void AddLatent(const Case& test, exec::AttentionProblem& problem) {
  const Sizes& n = test.sizes;
  if (n.heads != n.key_heads || n.head_dim < 4) return;
  const exec::Random random = exec::Random(test.seed).Split("latent");
  const int64_t rope_dim = n.head_dim / 4, rank = 2 * n.head_dim;
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
  exec::ReferenceInputs in;
  ExpandLatent(problem, in);
  const auto lay = [&](const DenseArray& from, Buffer& to) {
    const DenseArray laid = exec::FromBthd(from, problem.layout);
    for (size_t i = 0; i < laid.data.size(); ++i) {
      to.real[i] = RoundTo(to.dtype, laid.data[i]);
    }
  };
  lay(in.key, problem.key);
  lay(in.value, problem.value);
}

void ExpandLatent(const exec::AttentionProblem& problem,
                  exec::ReferenceInputs& in) {
  const exec::LatentInputs& l = *problem.latent;
  const int64_t batch = l.latent.shape[0], keys = l.latent.shape[1];
  const int64_t rank = l.latent.shape[2], rope_dim = l.rope_key.shape[2];
  const int64_t heads = l.up_key.shape[0], nope = l.up_key.shape[2];
  const int64_t value_dim = l.up_value.shape[2];
  in.key = DenseArray::Zeros({batch, keys, heads, nope + rope_dim});
  in.value = DenseArray::Zeros({batch, keys, heads, value_dim});
  const auto up = [&](const Buffer& w, int64_t token, int64_t h, int64_t d) {
    double sum = 0;
    for (int64_t r = 0; r < rank; ++r) {
      sum += double{l.latent.real[At(token * rank + r)]} *
             double{w.real[At((h * rank + r) * w.shape[2] + d)]};
    }
    return sum;
  };
  for (int64_t token = 0; token < batch * keys; ++token) {
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t row = token * heads + h;
      for (int64_t d = 0; d < nope; ++d) {
        in.key.data[At(row * (nope + rope_dim) + d)] =
            up(l.up_key, token, h, d);
      }
      for (int64_t d = 0; d < rope_dim; ++d) {
        in.key.data[At(row * (nope + rope_dim) + nope + d)] =
            l.rope_key.real[At(token * rope_dim + d)];
      }
      for (int64_t d = 0; d < value_dim; ++d) {
        in.value.data[At(row * value_dim + d)] = up(l.up_value, token, h, d);
      }
    }
  }
  if (problem.layout == Layout::kThd) {
    for (DenseArray* x : {&in.key, &in.value}) {
      x->shape[1] *= x->shape[0];
      x->shape[0] = 1;
    }
  }
}

}  // namespace shardc::verify
