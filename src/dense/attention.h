// Computes attention over unsharded tensors by its definition, and the rotary
// position embedding (Su and others, 2021) of its queries and keys, with the
// ways in which models extend it to longer contexts.
#ifndef SHARDC_DENSE_ATTENTION_H_
#define SHARDC_DENSE_ATTENTION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dense/array.h"
#include "model/dtype.h"

namespace shardc::dense {

// Rotary position embedding (Su and others, 2021), and the ways in which models
// extend it to longer contexts.

enum class Stretch : uint8_t {
  kNone,
  // Divides all frequencies by `factor`.
  kLinear,
  // Increases the base for sequences that are longer than the original length.
  kDynamic,
  // Divides by `factor` the frequencies that make few turns over the original
  // length (Rope::slow_turns).
  kYarn,
  // Divides by `factor` the frequencies with long wavelengths (Rope::low_part).
  kLlama3,
};

struct Rope {
  double base = 10000;
  Stretch stretch = Stretch::kNone;
  double factor = 1;
  double original_length = 0;
  // For kYarn. A frequency is kept if it makes more than `fast_turns` turns
  // over the original length, and divided by `factor` if it makes fewer than
  // `slow_turns`. Frequencies between these limits are interpolated. If
  // `rounds_outwards` is true, the index of the first interpolated frequency is
  // rounded down, and the index of the last one is rounded up.
  double fast_turns = 32, slow_turns = 1;
  bool rounds_outwards = true;
  // For kLlama3. A frequency is divided by `factor` if its wavelength is above
  // original length / low_part, and kept if it is below original length /
  // high_part.
  double low_part = 1, high_part = 4;
  // The number by which rotated elements are multiplied. If nullopt, it is 0.1
  // ln(factor) + 1 for kYarn with a factor above 1, and 1 otherwise.
  std::optional<double> amplitude;
};

// The elements of pair i are i and i + dim/2 (kHalves), or 2i and 2i + 1
// (kNeighbours).
enum class Pairs : uint8_t { kHalves, kNeighbours };

// The rotation of heads with `dim` elements. `length` is the largest number of
// tokens in a sequence.
class Rotary {
 public:
  Rotary(int64_t dim, int64_t length, const Rope& rope, Pairs pairs);

  // The angle by which each pair is rotated per position, in radians: [dim/2].
  const std::vector<double>& frequencies() const { return frequencies_; }
  double amplitude() const { return amplitude_; }

  // Rotates the heads of one token in place, and multiplies them by the
  // amplitude. Pair i of a head is rotated by the angle position *
  // frequencies()[i]. amplitude * sin and amplitude * cos are computed in
  // double and rounded to float32; all other arithmetic is in float32.
  void Rotate(int64_t position, std::span<float> heads) const;
  // Element d of a rotated head in double (`at`), and the largest error that
  // the float32 arithmetic of Rotate() may make in it (`off`).
  struct RotatedValue {
    double at = 0, off = 0;
  };
  RotatedValue RotatedElement(int64_t position, std::span<const float> head,
                              int64_t d) const;

 private:
  int64_t Partner(int64_t d) const;

  std::vector<double> frequencies_;
  double amplitude_ = 1;
  Pairs pairs_;
};

// The logit of every masked entry if the option `mean_of_masked` is set: -0.7
// times the largest float32. An additive mask hides a key if the mask's entry
// for the key is at most half of this number.
inline constexpr double kMasked = -0.7 * 0x1.fffffep127;

// The options of attention. The logit of query i and key j is
//   cap(scale * q.k) + bias + additive mask,
//   cap(s) = soft_cap * tanh(s / soft_cap)
// unless masks, segments, lengths, `causal` or the window hide the key. Let pq
// be the position of the query and pk that of the key. A causal query sees keys
// with pk <= pq. With a window, it sees keys with pq - left <= pk <= pq +
// right.
struct Options {
  std::optional<double> scale;  // 1/sqrt(dim of the query) if nullopt
  double soft_cap = 0;          // 0 if logits are not capped
  bool causal = false;
  // How many positions the window reaches to each side; nullopt: no limit.
  std::optional<int64_t> left, right;
  // A query sees only keys with its own segment id. A query whose id is
  // negative, or equal to `padding_segment`, sees no keys.
  std::optional<int64_t> padding_segment;
  // A query may see no key. If it has no sink, its output is the mean of all
  // values if this option is true, and zeros if it is false. If it has a sink,
  // its output is zeros.
  bool mean_of_masked = false;
  // The fraction of weights that dropout drops; Drops() selects them. The other
  // weights are multiplied by 1/(1 - dropout). The denominator of the softmax
  // includes the dropped weights.
  double dropout = 0;
  uint64_t dropout_seed = 0;

  // Returns `scale`, or its default for queries with `dim` dims.
  double ScaleOf(int64_t dim) const;
};

// The inputs of attention. The sizes are B batch rows, T queries, S keys, H
// query heads and K key heads (K divides H). In one head, a query or a key has
// D elements, and a value has Dv. Query head h reads key head h / (H/K). An
// input is absent if its array or vector is empty.
struct Inputs {
  Array query;  // [B, T, H, D]
  Array key;    // [B, S, K, D]
  Array value;  // [B, S, K, Dv]
  // [H, Dv, Do]. If present, the values of a head are the product of `value`
  // and the head's matrix, and have Do dims.
  Array value_up;

  Array bias;           // [B|1, H|K|1, T|1, S]
  Array mask;           // [B|1, H|K|1, T|1, S]; 0 hides the key
  Array additive_mask;  // [B|1, H|K|1, T|1, S]; <= kMasked/2 hides the key
  // Additional logits in the denominator of the softmax. With shape [H], each
  // query head has one. With shape [sinks, K], each key head has several, which
  // its query heads share. [K] has the same meaning as [1, K].
  Array sinks;
  // [B|1, H|1, T/block_rows, S/block_keys], both rounded up. An element is for
  // a block of block_rows queries and block_keys keys. If it is 0, these
  // queries do not see these keys.
  Array blocks;
  int64_t block_rows = 1, block_keys = 1;

  std::vector<int64_t> query_segments;  // [B, T]
  std::vector<int64_t> key_segments;    // [B, S]
  // [B, T]. If absent, the queries of row b have the last T positions of its
  // keys: KeyLength(b) - T to KeyLength(b) - 1.
  std::vector<int64_t> query_positions;
  // [B, S]; a negative position is an empty slot, which no query sees.
  std::vector<int64_t> key_positions;
  // [B]: keys with a position >= length are hidden; S if absent.
  std::vector<int64_t> key_lengths;
  // [B]: keys with a position < start are hidden; 0 if absent.
  std::vector<int64_t> key_starts;

  // If the inputs are a part of a larger attention, such as the shard of one
  // device: the indices of the part's first batch row and first query head in
  // the larger attention. Otherwise 0. Dropout depends on these indices.
  int64_t first_row = 0, first_head = 0;

  int64_t KeyLength(int64_t b) const;
  int64_t QueryPosition(int64_t b, int64_t i) const;
  int64_t KeyPosition(int64_t b, int64_t j) const;
  // Returns the logit of an attention sink of a query head. `a` is the index
  // among the sinks of this head, where 0 <= a < SinkCount().
  double Sink(int64_t a, int64_t head) const;
  int64_t SinkCount() const;
};

struct Result {
  Array output;  // [B, T, H, Dv], or [B, T, H, Do] with `value_up`
  Array lse;  // [B, T, H, 1]: log of the denominator, which includes the sinks
  Array weights;  // [B, H, T, S], before dropout; empty unless requested
};

// Computes attention. If the shapes do not fit each other, returns nullopt and
// sets `why` to the reason. The result has `weights` if `keep_weights` is true.
std::optional<Result> Attention(const Inputs& in, const Options& options,
                                std::string& why, bool keep_weights = false);

// Returns the largest |scale * q.k| over all pairs; hidden pairs are included.
double LargestLogit(const Inputs& in, const Options& options);

// Returns whether dropout drops the weight with these indices of the unsharded
// attention: batch row, query head, and positions of query and key. A random
// number is computed by Philox 4x32-10. Its counter is the low 32 bits of the
// four indices, and its key is the seed. The weight is dropped if the first
// output word, divided by 2^32, is below `rate`.
bool Drops(uint64_t seed, int64_t row, int64_t head, int64_t query, int64_t key,
           double rate);

// The cached rows of the tokens, and the matrices from which keys and values
// are computed. There are H heads. A row has r latent and p rotated elements. A
// key has `nope` elements that are not rotated, and a value has Dv elements.
struct Latent {
  Array latent;    // [B, S, r]
  Array rope_key;  // [B, S, p]; all heads share it
  Array up_key;    // [H, r, nope]
  Array up_value;  // [H, r, Dv]
};

struct Expanded {
  Array key;    // [B, S, H, nope + p]
  Array value;  // [B, S, H, Dv]
};
// Returns the keys and values. The key of a head is latent . up_key[head],
// followed by the rotated part. The value of a head is latent . up_value[head].
Expanded Expand(const Latent& latent);

// Inputs for the same attention without expanded keys and values. Here q is a
// query, c the latent rows, w the attention weights, and M' the transpose of M.
// The queries are multiplied by up_key' before the attention, and the output is
// multiplied by up_value after it:
//
//   q . (c up_key) = (q up_key') . c,   w . (c up_value) = (w . c) up_value
//
// All heads then read the same row of a token, which needs far fewer operations
// if there are few queries. The caller must set `value_up` of the attention's
// Inputs to up_value.
struct Absorbed {
  Array query;  // [B, T, H, r + p]
  Array key;    // [B, S, 1, r + p]
  Array value;  // [B, S, 1, r]
};
Absorbed Absorb(const Latent& latent,
                const Array& query);  // query: [B, T, H, nope + p]

// Returns the number of multiplications that Expand() needs.
double ExpandingTakes(const Latent& latent);
// Returns whether attention should use Absorb() instead of Expand(): if
// Expand() needs more than 4e9 multiplications, which take seconds, and
// Absorb() needs fewer. `queries` is the number of queries of a head, over all
// batch rows.
bool WorthAbsorbing(const Latent& latent, int64_t queries);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_ATTENTION_H_
