// Computes attention over the inputs that one device holds. The fast kernels
// are used if they have all features of the attention, otherwise the plain
// loops. The choice depends only on the options and on the arithmetic, which
// are the same on all devices. A sharding therefore changes neither the code
// that runs nor the bits of the result.
//
// The loops run for dropout and for arithmetic with injected faults.
// MaskedRows::kMean gives a row that sees no key the mean of all values. If the
// keys arrive in several parts, the loops run for this option too, because such
// rows are known only after the last part.
//
// The kernels must know which keys each query row attends to. They get either
// one interval of keys for each row, or one byte for each pair of row and key.
// Intervals suffice for causal masks, windows, lengths and starts, if the
// positions of the keys ascend by one. Segments, explicit masks and other
// orders of the keys need bytes. Both forms lead to the same bits, so devices
// may use different forms. For example, the mask is causal and the queries have
// positions 4 to 7:
//
//   key positions 0..7  ->  intervals [0, 5), [0, 6), [0, 7), [0, 8)
//   key positions 0 1 6 7 (zig-zag order)  ->  bytes

#include <algorithm>

#include "exec/attention/attention_loops.h"
#include "exec/kernels/kernels.h"
#include "source/index.h"

namespace shardc::exec {
namespace {

bool NeedsLoops(const LocalSlice& slice) {
  return slice.options->masked_rows == MaskedRows::kMean || !InKernels(slice);
}

// The keys that each row of a tile attends to. Either `begin` and `end` hold an
// interval [begin, end) for each row, or `mask` holds a byte for each row and
// key, 0 for a masked key.
struct Sight {
  std::vector<int32_t> begin, end;
  std::vector<uint8_t> mask;
};

// Returns the position of the first key of `tile`, or 0 if the tile has no
// keys. Returns nullopt if the position is negative or the positions of the
// keys do not ascend by one.
std::optional<int64_t> FirstPosition(const LocalSlice& slice,
                                     const Tile& tile) {
  const int32_t* const p =
      slice.key_positions->integers.data() + tile.batch * slice.keys();
  const int64_t first = tile.key_begin < tile.key_end ? p[tile.key_begin] : 0;
  for (int64_t i = tile.key_begin; i < tile.key_end; ++i) {
    if (p[i] != first + i - tile.key_begin) return std::nullopt;
  }
  if (first < 0) return std::nullopt;
  return first;
}

bool SeesIntervals(const LocalSlice& slice) {
  return slice.query_segments == nullptr && slice.mask.buffer == nullptr &&
         slice.additive_mask.buffer == nullptr;
}

// Sets `sight.begin` and `sight.end`, the interval of keys that each row of the
// tile sees. Index 0 is the tile's first key, whose position is `first`.
void SeeIntervals(const LocalSlice& slice, const Tile& tile, int64_t first,
                  Sight& sight) {
  const AttentionOptions& options = *slice.options;
  const int64_t keys = tile.key_end - tile.key_begin;
  int64_t low = 0;
  int64_t high = keys;
  if (slice.key_lengths != nullptr) {
    high = std::min<int64_t>(
        high, slice.key_lengths->integers[AsIndex(tile.batch)] - first);
  }
  if (slice.key_starts != nullptr) {
    low = std::max<int64_t>(
        low, slice.key_starts->integers[AsIndex(tile.batch)] - first);
  }
  for (int64_t t = tile.row_begin; t < tile.row_end; ++t) {
    const int64_t q = slice.query_positions
                          ->integers[AsIndex(tile.batch * slice.rows() + t)] -
                      first;
    int64_t begin = low;
    int64_t end = high;
    if (options.causal) end = std::min(end, q + 1);
    if (options.window && options.window->left) {
      begin = std::max(begin, q - *options.window->left);
    }
    if (options.window && options.window->right) {
      end = std::min(end, q + *options.window->right + 1);
    }
    begin = std::clamp<int64_t>(begin, 0, keys);
    end = std::clamp<int64_t>(end, begin, keys);
    sight.begin.push_back(static_cast<int32_t>(begin));
    sight.end.push_back(static_cast<int32_t>(end));
  }
}

Sight See(const LocalSlice& slice, const Tile& tile) {
  Sight sight;
  if (SeesIntervals(slice)) {
    if (const auto first = FirstPosition(slice, tile)) {
      SeeIntervals(slice, tile, *first, sight);
      return sight;
    }
  }
  for (int64_t t = tile.row_begin; t < tile.row_end; ++t) {
    for (int64_t k = tile.key_begin; k < tile.key_end; ++k) {
      sight.mask.push_back(VisibleAt(slice, tile.batch, tile.head, t, k));
    }
  }
  return sight;
}

bool SameForHeads(const BroadcastView& view) {
  return view.buffer == nullptr || view.buffer->shape[1] == 1;
}

// The arguments of one kernel call, for query heads [tile.head, tile.head +
// heads), which all read the same key head.
struct HeadGroup {
  Sight sight;
  std::vector<float> added;
  AttentionSlice slice;
  AttentionState state;
};

void Describe(const LocalSlice& from, const Tile& tile, int64_t heads,
              SoftmaxState& state, HeadGroup& part) {
  const int64_t h = tile.head;
  const int64_t rows = tile.row_end - tile.row_begin;
  const int64_t keys = tile.key_end - tile.key_begin;
  const int64_t key_heads = from.key->shape[2];
  const int64_t key_row = (tile.batch * from.keys() + tile.key_begin);
  const int64_t key_head = from.key_head[AsIndex(h)];
  AttentionSlice& to = part.slice;
  to.heads = heads;
  to.query_rows = rows;
  to.key_rows = keys;
  to.head_dim = from.query->shape[3];
  to.value_dim = from.value->shape[3];
  to.query = from.query->real.data() +
             ((tile.batch * from.rows() + tile.row_begin) * from.heads() + h) *
                 to.head_dim;
  to.query_head_stride = to.head_dim;
  to.query_row_stride = from.heads() * to.head_dim;
  to.key =
      from.key->real.data() + (key_row * key_heads + key_head) * to.head_dim;
  to.key_row_stride = key_heads * to.head_dim;
  to.value =
      from.value->real.data() + (key_row * key_heads + key_head) * to.value_dim;
  to.value_row_stride = key_heads * to.value_dim;
  to.scale = from.scale;
  to.soft_cap = static_cast<float>(from.options->soft_cap);
  if (!part.sight.mask.empty()) {
    to.mask = part.sight.mask.data();
    to.mask_row_stride = keys;
  } else {
    to.begin = part.sight.begin.data();
    to.end = part.sight.end.data();
  }
  if (from.bias.buffer != nullptr || from.additive_mask.buffer != nullptr) {
    for (int64_t g = 0; g < heads; ++g) {
      for (int64_t t = tile.row_begin; t < tile.row_end; ++t) {
        for (int64_t k = tile.key_begin; k < tile.key_end; ++k) {
          part.added.push_back(AddedAt(from, tile.batch, h + g, t, k));
        }
      }
    }
    to.bias = part.added.data();
    to.bias_head_stride = rows * keys;
    to.bias_row_stride = keys;
  }
  const int64_t at =
      (tile.batch * from.heads() + h) * from.rows() + tile.row_begin;
  part.state = {state.max.real.data() + at, state.sum.real.data() + at,
                state.out.real.data() + at * to.value_dim};
}

// Computes the attention of the query rows of `tile` over the keys of `tile`,
// for query heads tile.head to `head_end` - 1. Accumulates the result in the
// online-softmax states of the rows.
void AttendHeads(const LocalSlice& slice, const Tile& tile, int64_t head_end,
                 SoftmaxState& state) {
  const bool whole = tile.row_begin == 0 && tile.row_end == slice.rows();
  const bool alike =
      SameForHeads(slice.mask) && SameForHeads(slice.additive_mask);
  Scratch scratch;
  std::vector<HeadGroup> parts;
  parts.reserve(AsIndex(head_end - tile.head));
  for (int64_t h = tile.head; h < head_end;) {
    // The states of all rows of one head come before those of the next head.
    // Only a tile with all query rows therefore has the states of several heads
    // in one contiguous range. For other tiles, one head is computed at a time.
    int64_t heads = 1;
    while (whole && alike && h + heads < head_end &&
           slice.key_head[AsIndex(h + heads)] == slice.key_head[AsIndex(h)]) {
      ++heads;
    }
    Tile own = tile;
    own.head = h;
    HeadGroup& part = parts.emplace_back();
    part.sight = alike && h != tile.head ? parts[0].sight : See(slice, own);
    Describe(slice, own, heads, state, part);
    if (!slice.one_row) {
      PrefillAttention(part.slice, part.state, scratch);
      if (h != tile.head) parts.pop_back();
    }
    h += heads;
  }
  if (!slice.one_row) return;
  std::vector<AttentionSlice> slices;
  std::vector<AttentionState> states;
  for (const HeadGroup& part : parts) {
    slices.push_back(part.slice);
    states.push_back(part.state);
  }
  DecodeAttention(slices, states, scratch);
}

bool SeesAny(const LocalSlice& slice, int64_t b, int64_t h, int64_t t) {
  for (int64_t s = 0; s < slice.keys(); ++s) {
    if (VisibleAt(slice, b, h, t, s)) return true;
  }
  return false;
}

// Implements MaskedRows::kMean: a row that sees no key attends to all keys with
// equal weights, as if all logits were the same finite number. A row that sees
// keys, but only with logit -inf because of the bias, keeps a sum of 0, so its
// output is 0.
void AttendToAll(const LocalSlice& slice, SoftmaxState& state) {
  const int64_t rows = slice.rows(), dim = slice.value->shape[3];
  const int64_t key_heads = slice.value->shape[2], keys = slice.keys();
  for (int64_t i = 0; i < state.sum.Elements(); ++i) {
    if (state.sum.real[AsIndex(i)] > 0) continue;
    const int64_t b = i / rows / slice.heads(), h = i / rows % slice.heads();
    if (SeesAny(slice, b, h, i % rows)) continue;
    const int64_t head = slice.key_head[AsIndex(h)];
    float* const out = state.out.real.data() + i * dim;
    for (int64_t s = 0; s < keys; ++s) {
      const float* const v =
          slice.value->real.data() + ((b * keys + s) * key_heads + head) * dim;
      for (int64_t d = 0; d < dim; ++d) out[d] += v[d];
    }
    state.max.real[AsIndex(i)] = static_cast<float>(kMaskValue);
    state.sum.real[AsIndex(i)] = static_cast<float>(keys);
  }
}

}  // namespace

bool InKernels(const LocalSlice& slice) {
  return slice.options->dropout == 0 && slice.arithmetic->InKernels();
}

void AttendRows(const LocalSlice& slice, SoftmaxState& state) {
  LocalSlice own = slice;
  AttentionOptions options = *slice.options;
  options.masked_rows = MaskedRows::kZero;
  own.options = &options;
  AttendKeys(own, 0, own.keys(), own.keys(), state);
  if (slice.options->masked_rows == MaskedRows::kMean) {
    AttendToAll(slice, state);
  }
}

void AttendTile(const LocalSlice& slice, const Tile& tile, int64_t block_k,
                SoftmaxState& state) {
  if (NeedsLoops(slice)) {
    AttendTileByLoops(slice, tile, block_k, state);
  } else {
    AttendHeads(slice, tile, tile.head + 1, state);
  }
}

void AttendBlock(const LocalSlice& slice, int64_t row_begin, int64_t row_end,
                 int64_t begin, int64_t end, int64_t block_k,
                 SoftmaxState& state) {
  const bool loops = NeedsLoops(slice);
  for (int64_t b = 0; b < slice.batch(); ++b) {
    if (!loops) {
      AttendHeads(slice, {b, 0, row_begin, row_end, begin, end}, slice.heads(),
                  state);
      continue;
    }
    for (int64_t h = 0; h < slice.heads(); ++h) {
      AttendTileByLoops(slice, {b, h, row_begin, row_end, begin, end}, block_k,
                        state);
    }
  }
}

void AttendKeys(const LocalSlice& slice, int64_t begin, int64_t end,
                int64_t block_k, SoftmaxState& state) {
  AttendBlock(slice, 0, slice.rows(), begin, end, block_k, state);
}

}  // namespace shardc::exec
