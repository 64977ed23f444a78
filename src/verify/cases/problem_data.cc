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

#include "exec/machine/random.h"
#include "floats/convert.h"
#include "floats/half.h"
#include "source/index.h"
#include "source/thread_pool.h"
#include "verify/cases/features.h"
#include "verify/cases/latent_data.h"
#include "verify/cases/shapes.h"

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

}  // namespace shardc::verify
