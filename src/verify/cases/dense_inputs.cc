// Converts a case's inputs for the dense reference. The conversion shares no
// code with the operations that are verified. Query, key, value and latents are
// rounded as the operation rounds them, but by the reference's own code. For
// example:
//
//   runtime_dtype BF16, int8 pages  ->  keys cast to BF16, stored as int8
//
// In latent attention, keys and values are products of a latent and
// projections. TakeLatent() either computes the keys and values of all heads,
// or multiplies the query by the projections.
#include "verify/cases/dense_inputs.h"

#include <utility>

#include "dense/layouts.h"
#include "dense/rounding.h"
#include "source/index.h"
#include "verify/cases/shapes.h"

namespace shardc::verify {
namespace {

using dense::Array;
using exec::Buffer;

// Returns the elements of the buffer in float64, in the same order of
// dimensions.
Array Copy(const Buffer& buffer) {
  Array out;
  out.shape = buffer.shape;
  if (buffer.IsReal()) {
    out.data.assign(buffer.real.begin(), buffer.real.end());
  } else {
    out.data.assign(buffer.integers.begin(), buffer.integers.end());
  }
  return out;
}

Array Copy(const std::optional<Buffer>& buffer) {
  return buffer ? Copy(*buffer) : Array{};
}

std::vector<int64_t> Numbers(const std::optional<Buffer>& buffer) {
  if (!buffer) return {};
  return {buffer->integers.begin(), buffer->integers.end()};
}

void Round(Dtype dtype, Array& x) {
  for (double& value : x.data) value = dense::Nearest(dtype, value);
}

// Rounds each row of `x` to int8 with a scale, as int8 pages do. Then rounds
// the stored numbers to `dtype`, because attention reads them in this dtype.
void StoreInPages(Dtype dtype, Array& x) {
  const auto dim = AsIndex(x.shape.back());
  std::vector<float> row(dim);
  for (size_t at = 0; at < x.data.size(); at += dim) {
    for (size_t d = 0; d < dim; ++d) {
      row[d] = static_cast<float>(x.data[at + d]);
    }
    dense::StoreInt8(row);
    for (size_t d = 0; d < dim; ++d) {
      x.data[at + d] = dense::Nearest(dtype, double{row[d]});
    }
  }
}

// Sets the inputs of latent attention in one of two forms. The expanded form
// has the keys and values of all heads. The absorbed form multiplies the query
// by the projections, and the latent itself is the key and value of a single
// head. The absorbed form is used if expanding would be slow, but never for
// arithmetic narrower than float32. Packed tokens become one row.
void TakeLatent(dense::Latent latent, const Case& test, dense::Inputs& in) {
  if (const auto& dtype = test.settings.runtime_dtype) {
    for (Array* x :
         {&latent.latent, &latent.rope_key, &latent.up_key, &latent.up_value}) {
      Round(*dtype, *x);
    }
  }
  if (!NarrowOf(test).IsNarrow() &&
      dense::WorthAbsorbing(latent, in.query.dim(0) * in.query.dim(1))) {
    dense::Absorbed absorbed = dense::Absorb(latent, in.query);
    in.query = std::move(absorbed.query);
    in.key = std::move(absorbed.key);
    in.value = std::move(absorbed.value);
    in.value_up = std::move(latent.up_value);
  } else {
    dense::Expanded expanded = dense::Expand(latent);
    in.key = std::move(expanded.key);
    in.value = std::move(expanded.value);
  }
  if (test.layout != Layout::kThd) return;
  for (Array* x : {&in.key, &in.value}) {
    x->shape[1] *= x->shape[0];
    x->shape[0] = 1;
  }
}

}  // namespace

Array DenseOf(const Buffer& buffer, Layout layout) {
  return dense::ToBthd(Copy(buffer), layout);
}

dense::Latent LatentOf(const exec::LatentInputs& latent) {
  return {Copy(latent.latent), Copy(latent.rope_key), Copy(latent.up_key),
          Copy(latent.up_value)};
}

dense::Options OptionsOf(const exec::AttentionOptions& options) {
  dense::Options out;
  out.scale = options.scale;
  out.soft_cap = options.soft_cap;
  out.causal = options.causal;
  if (options.window) {
    out.left = options.window->left;
    out.right = options.window->right;
  }
  out.padding_segment = options.padding_segment;
  out.mean_of_masked = options.masked_rows == exec::MaskedRows::kMean;
  out.dropout = options.dropout;
  out.dropout_seed = options.dropout_seed;
  return out;
}

dense::Narrow NarrowOf(const Case& test) {
  const exec::OperationSettings& settings = test.settings;
  return {settings.dot_bits, settings.softmax_dtype,
          test.operation->quantises_blocks ? settings.blocksize_k : 0};
}

dense::Inputs InputsOf(const Case& test,
                       const exec::AttentionProblem& problem) {
  const Layout layout = problem.layout;
  const std::optional<Dtype>& dtype = test.settings.runtime_dtype;
  dense::Inputs in;
  in.query = DenseOf(problem.query, layout);
  if (dtype) Round(*dtype, in.query);
  if (problem.latent) {
    TakeLatent(LatentOf(*problem.latent), test, in);
  } else {
    in.key = DenseOf(problem.key, layout);
    in.value = DenseOf(problem.value, layout);
    if (dtype) Round(*dtype, in.key);
    if (dtype) Round(*dtype, in.value);
  }
  if (HasInt8Pages(test)) {
    StoreInPages(OutputDtype(test), in.key);
    StoreInPages(OutputDtype(test), in.value);
  }
  in.bias = Copy(problem.bias);
  in.mask = Copy(problem.mask);
  in.additive_mask = Copy(problem.additive_mask);
  in.sinks = Copy(problem.softmax_aux);
  in.query_segments = Numbers(problem.query_segments);
  in.key_segments = Numbers(problem.key_segments);
  if (layout == Layout::kThd && problem.query_segments) {
    dense::Packed packed =
        dense::PackedPositions(in.query_segments, in.key_segments);
    in.query_positions = std::move(packed.queries);
    in.key_positions = std::move(packed.keys);
  } else {
    in.query_positions = Numbers(problem.query_positions);
    in.key_positions = Numbers(problem.key_positions);
  }
  in.key_lengths = Numbers(problem.key_lengths);
  in.key_starts = Numbers(problem.key_starts);
  if (test.settings.block_mask == exec::BlockMask::kCustom &&
      test.operation->Takes(exec::Input::kBlockTable)) {
    in.blocks = Copy(problem.blocks);
    in.block_rows = test.settings.blocksize_q;
    in.block_keys = test.settings.blocksize_k;
  }
  return in;
}

}  // namespace shardc::verify
