// Creates test data in which an element from a wrong place causes an error.
// Each number of a query, key or value is a random number plus a mean. The
// random number depends on the seed and the element's index. Its scale differs
// between batch rows and heads. The mean differs between batch rows, heads and
// positions. An element from a wrong place therefore differs by more than
// random noise.
//
// If rows have different lengths, one row has the largest length and one the
// smallest. For example, 4 rows of up to 16 tokens get the lengths 16, 1 and
// two random lengths between these.
#include "verify/cases/problem_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "dense/array.h"
#include "dense/narrow.h"
#include "exec/machine/random.h"
#include "floats/convert.h"
#include "source/process.h"
#include "source/size.h"
#include "verify/cases/case.h"

namespace shardc::verify {
namespace {

using exec::Buffer;
using exec::Random;

bool Packed(const Case& test) { return test.layout == Layout::kThd; }

// Converts [B, L, N, D] to the case's layout.
Buffer InLayout(Buffer x, Layout layout) {
  if (layout == Layout::kBhtd) {
    return exec::TransposeDims(x, {0, 2, 1, 3});
  }
  if (layout == Layout::kThd) {
    x.shape = {x.shape[0] * x.shape[1], x.shape[2], x.shape[3]};
  }
  return x;
}

// Returns normally distributed numbers whose gain depends on batch row and
// head. If `offset` is not 0, their mean depends on head, batch row and dim,
// and changes linearly with the position.
Buffer Values(Random random, const Shape& shape, Dtype dtype, double gain,
              double offset, int threads) {
  Buffer out = Buffer::Zeros(shape, dtype);
  const Random noise = random.Split("noise"), mean = random.Split("mean");
  const Random norms = mean.Split("norm");
  const int64_t length = shape[1], heads = shape[2], dim = shape[3];
  const auto fill = [&](int64_t b, int) {
    std::vector<double> norm(AsIndex(heads)), means(AsIndex(heads * dim));
    // The generator returns random numbers in pairs. The numbers of a position
    // may begin with the second number of a pair, and end with the first number
    // of another pair. So there is room for two more pairs.
    std::vector<std::array<double, 2>> pairs(AsIndex(heads * dim / 2 + 2));
    // A head's gain and the means of its dims are the same at all positions of
    // a batch row.
    for (int64_t h = 0; h < heads; ++h) {
      const auto cell = static_cast<uint64_t>(h + heads * b);
      norm[AsIndex(h)] = gain * (0.6 + 0.8 * norms.Uniform(cell));
    }
    for (int64_t c = 0; offset != 0 && c < heads * dim; ++c) {
      const auto cell = static_cast<uint64_t>(b * heads * dim + c);
      means[AsIndex(c)] = offset * (2 * mean.Uniform(cell) - 1);
    }
    int64_t i = b * length * heads * dim;
    for (int64_t t = 0; t < length; ++t) {
      const int64_t first = i / 2;
      const int64_t end = (i + heads * dim + 1) / 2;
      noise.FillNormals(static_cast<uint64_t>(first),
                        std::span(pairs).first(AsIndex(end - first)));
      const double along =
          length > 1 ? static_cast<double>(t) / static_cast<double>(length - 1)
                     : 0;
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t d = 0; d < dim; ++d, ++i) {
          double x =
              norm[AsIndex(h)] * pairs[AsIndex(i / 2 - first)][AsIndex(i % 2)];
          if (offset != 0) {
            x += means[AsIndex(h * dim + d)] +
                 offset * 0.5 * (along - 0.5) * (d % 2 == 0 ? 1 : -1);
          }
          out.real[AsIndex(i)] = RoundTo(dtype, x);
        }
      }
    }
  };
  ThreadPool(threads).Run(shape[0], fill);
  return out;
}

// Returns `count` lengths from `least` to `limit`: first the longest, then the
// shortest, then random ones. If `count` is 1, the length is random.
std::vector<int64_t> RaggedLengths(Random random, int64_t count, int64_t least,
                                   int64_t limit) {
  std::vector<int64_t> out;
  for (int64_t b = 0; b < count; ++b) {
    if (b == 0 && count > 1) {
      out.push_back(limit);
    } else if (b == 1) {
      out.push_back(least);
    } else {
      out.push_back(least + static_cast<int64_t>(random.Below(
                                static_cast<uint64_t>(b),
                                static_cast<uint64_t>(limit - least + 1))));
    }
  }
  return out;
}

Buffer Integers(const Shape& shape, const std::vector<int64_t>& values) {
  Buffer out = Buffer::Zeros(shape, Dtype::kI32);
  for (size_t i = 0; i < values.size(); ++i) {
    out.integers[i] = static_cast<int32_t>(values[i]);
  }
  return out;
}

// Packs the rows of the batch one after the other, each as a sequence with its
// own segment id. The rows have different lengths if `ragged`. The tokens after
// the last row belong to no sequence.
void PackTokens(const Case& test, Random random,
                exec::AttentionProblem& problem) {
  const Sizes& n = test.sizes;
  std::vector<int64_t> rows(AsIndex(n.batch), n.query_length);
  std::vector<int64_t> keys(AsIndex(n.batch), n.key_length);
  if (test.features.ragged) {
    // In self-attention a sequence has equally many queries and keys, so it may
    // have any length. Otherwise it has query_length queries, and at least as
    // many keys.
    const bool alike = n.query_length == n.key_length;
    keys = RaggedLengths(random, n.batch, alike ? 1 : n.query_length,
                         n.key_length);
  }
  std::vector<int64_t> q_ends = {0}, k_ends = {0};
  for (int64_t b = 0; b < n.batch; ++b) {
    // In self-attention, the query tokens are the key tokens.
    const int64_t q =
        n.query_length == n.key_length ? keys[AsIndex(b)] : rows[AsIndex(b)];
    q_ends.push_back(q_ends.back() + q);
    k_ends.push_back(k_ends.back() + keys[AsIndex(b)]);
  }
  const int64_t q_tokens = n.batch * n.query_length;
  const int64_t k_tokens = n.batch * n.key_length;
  // The queries of a sequence have the positions of its last tokens.
  std::vector<int64_t> q_ids(AsIndex(q_tokens), -1),
      q_at(AsIndex(q_tokens), -1);
  std::vector<int64_t> k_ids(AsIndex(k_tokens), -1),
      k_at(AsIndex(k_tokens), -1);
  for (int64_t b = 0; b < n.batch; ++b) {
    const int64_t q_begin = q_ends[AsIndex(b)], q_end = q_ends[AsIndex(b + 1)];
    const int64_t k_begin = k_ends[AsIndex(b)], k_end = k_ends[AsIndex(b + 1)];
    for (int64_t i = q_begin; i < q_end; ++i) {
      q_ids[AsIndex(i)] = b;
      q_at[AsIndex(i)] = k_end - k_begin - (q_end - i);
    }
    for (int64_t i = k_begin; i < k_end; ++i) {
      k_ids[AsIndex(i)] = b;
      k_at[AsIndex(i)] = i - k_begin;
    }
  }
  problem.query_segments = Integers({1, q_tokens}, q_ids);
  problem.key_segments = Integers({1, k_tokens}, k_ids);
  problem.query_positions = Integers({1, q_tokens}, q_at);
  problem.key_positions = Integers({1, k_tokens}, k_at);
}

// Divides each row into one or two segments at a random position. If a row has
// more than four keys, the last one or two are padding.
void AddSegments(const Case& test, Random random,
                 exec::AttentionProblem& problem) {
  const Sizes& n = test.sizes;
  const int64_t keys = n.key_length, rows = n.query_length;
  Buffer k = Buffer::Zeros({n.batch, keys}, Dtype::kI32);
  Buffer q = Buffer::Zeros({n.batch, rows}, Dtype::kI32);
  for (int64_t b = 0; b < n.batch; ++b) {
    const auto cut = static_cast<int64_t>(
        random.Below(static_cast<uint64_t>(b), static_cast<uint64_t>(keys)));
    const int64_t padding = keys > 4 ? keys - 1 - b % 2 : keys;
    const auto id = [&](int64_t position) {
      return position >= padding ? -1 : position < cut ? 0 : 1;
    };
    for (int64_t j = 0; j < keys; ++j) {
      k.integers[AsIndex(b * keys + j)] = static_cast<int32_t>(id(j));
    }
    for (int64_t i = 0; i < rows; ++i) {
      // The single query of decoding must not be padding.
      const int64_t at =
          rows == 1 ? std::min(padding, keys) - 1 : keys - rows + i;
      q.integers[AsIndex(b * rows + i)] = static_cast<int32_t>(id(at));
    }
  }
  problem.query_segments = std::move(q);
  problem.key_segments = std::move(k);
}

void AddMasks(const Case& test, Random random,
              exec::AttentionProblem& problem) {
  const Sizes& n = test.sizes;
  const int64_t batch = Packed(test) ? 1 : n.batch;
  const int64_t rows = Packed(test) ? n.batch * n.query_length : n.query_length;
  const int64_t keys = Packed(test) ? n.batch * n.key_length : n.key_length;
  const Features& f = test.features;
  if (f.bias) {
    Buffer bias = Buffer::Zeros(
        {batch, f.bias_by_head ? n.heads : 1, rows, keys}, Dtype::kF32);
    const Random r = random.Split("bias");
    for (size_t i = 0; i < bias.real.size(); ++i) {
      bias.real[i] = RoundTo(test.dtype, 2 * r.Normal(i));
    }
    problem.bias = std::move(bias);
  }
  // With `masked_row`, one query of each batch row attends to no key. If batch
  // rows have only one query, only the last batch row has such a query. The
  // query's keys are hidden by the additive mask if there is one, otherwise by
  // the mask.
  const auto nothing = [&](int64_t element) {
    const int64_t row = element / keys % rows;
    return f.masked_row && row == rows / 2 &&
           (rows > 1 || element / keys / rows == batch - 1);
  };
  const bool hide_here = f.masked_row && !f.additive_mask;
  if (f.mask || hide_here) {
    Buffer mask = Buffer::Zeros({batch, 1, rows, keys}, Dtype::kBool);
    const Random r = random.Split("mask");
    for (int64_t i = 0; i < mask.Elements(); ++i) {
      const bool hidden = hide_here && nothing(i);
      mask.integers[AsIndex(i)] =
          !hidden && (!f.mask || r.Uniform(static_cast<uint64_t>(i)) < 0.8);
    }
    problem.mask = std::move(mask);
  }
  if (f.additive_mask) {
    Buffer mask = Buffer::Zeros({batch, 1, rows, keys}, Dtype::kF32);
    const Random r = random.Split("additive"), numbers = r.Split("numbers");
    for (size_t i = 0; i < mask.real.size(); ++i) {
      const bool hidden =
          r.Uniform(i) < 0.2 || nothing(static_cast<int64_t>(i));
      mask.real[i] =
          static_cast<float>(hidden ? exec::kMaskValue : numbers.Normal(i));
    }
    problem.additive_mask = std::move(mask);
  }
}

void AddSinks(const Case& test, Random random,
              exec::AttentionProblem& problem) {
  const int rank = test.features.sinks_rank;
  if (rank == 0) return;
  Buffer sinks = Buffer::Zeros(
      rank == 1 ? Shape{test.sizes.heads} : Shape{2, test.sizes.key_heads},
      Dtype::kF32);
  for (size_t i = 0; i < sinks.real.size(); ++i) {
    sinks.real[i] = static_cast<float>(2 + random.Normal(i));
  }
  problem.softmax_aux = std::move(sinks);
}

void AddLengths(const Case& test, Random random,
                exec::AttentionProblem& problem) {
  const Sizes& n = test.sizes;
  if (test.features.ragged) {
    problem.key_lengths =
        Integers({n.batch},
                 RaggedLengths(random, n.batch, n.query_length, n.key_length));
  }
  if (test.features.left_padding) {
    std::vector<int64_t> starts;
    for (int64_t b = 0; b < n.batch; ++b) {
      const int64_t length = problem.key_lengths
                                 ? problem.key_lengths->integers[AsIndex(b)]
                                 : n.key_length;
      starts.push_back(std::min<int64_t>(b % 3, length - 1));
    }
    problem.key_starts = Integers({n.batch}, starts);
  }
}

void AddBlocks(const Case& test, Random random,
               exec::AttentionProblem& problem) {
  if (!test.features.custom_blocks) return;
  const Sizes& n = test.sizes;
  const auto blocks = [](int64_t length, int64_t size) {
    return (length + size - 1) / size;
  };
  const int64_t rows = Packed(test) ? n.batch * n.query_length : n.query_length;
  const int64_t keys = Packed(test) ? n.batch * n.key_length : n.key_length;
  Buffer table =
      Buffer::Zeros({1, n.heads, blocks(rows, test.settings.blocksize_q),
                     blocks(keys, test.settings.blocksize_k)},
                    Dtype::kBool);
  for (size_t i = 0; i < table.integers.size(); ++i) {
    table.integers[i] = random.Uniform(i) < 0.6;
  }
  problem.blocks = std::move(table);
}

}  // namespace

exec::AttentionProblem MakeProblem(const Case& test, int threads) {
  const Random random(test.seed);
  const Sizes& n = test.sizes;
  const Features& f = test.features;
  exec::AttentionProblem out;
  out.layout = test.layout;
  const double gain = f.large_logits ? 6.0 : 1.0;
  out.query = InLayout(Values(random.Split("query"),
                              {n.batch, n.query_length, n.heads, n.head_dim},
                              test.dtype, gain, 0.3 * gain, threads),
                       test.layout);
  const Shape keys = {n.batch, n.key_length, n.key_heads, n.head_dim};
  const Shape values = {n.batch, n.key_length, n.key_heads, n.ValueDim()};
  const Dtype dtype = KeyDtype(test);
  const bool latent = HasLatent(test);
  out.key = InLayout(latent ? Buffer::Hollow(keys, dtype)
                            : Values(random.Split("key"), keys, dtype, gain,
                                     0.3 * gain, threads),
                     test.layout);
  out.value = InLayout(
      latent ? Buffer::Hollow(values, dtype)
             : Values(random.Split("value"), values, dtype, 0.7, 1.5, threads),
      test.layout);
  out.options.causal = f.causal;
  out.options.scale = f.scale;
  out.options.soft_cap = f.soft_cap;
  out.options.dropout = f.dropout;
  out.options.dropout_seed = test.seed;
  out.options.masked_rows = test.operation->masked_rows;
  out.options.window = WindowOf(f);
  if (Packed(test)) {
    PackTokens(test, random.Split("lengths"), out);
  } else {
    if (f.segments) AddSegments(test, random.Split("segments"), out);
    AddLengths(test, random.Split("lengths"), out);
  }
  AddLatent(test, out);
  AddMasks(test, random, out);
  AddSinks(test, random.Split("sinks"), out);
  AddBlocks(test, random.Split("blocks"), out);
  return out;
}

// The test data of latent attention. Keys and values are computed by
// projections from one latent row for each token. Keys also have a rotated part
// that all heads share:
//
//   head_dim 16, of which 4 dims are rotated, and latents of rank 32:
//   key of head h = [latent . up_key[h] (12 dims), rotated part (4 dims)]

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
