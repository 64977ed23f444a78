// What a cache should hold, kept as plain arrays from the raw tokens.
#ifndef SHARDC_VERIFY_REMEMBERED_H_
#define SHARDC_VERIFY_REMEMBERED_H_

#include <cstdint>
#include <vector>

#include "exec/attention_problem.h"
#include "exec/buffer.h"
#include "exec/reference.h"
#include "exec/rotary.h"
#include "verify/lifetime.h"

namespace shardc::verify {

class Remembered {
 public:
  // Raw tokens of batch + 1 rows, the last for insertion, for all positions.
  explicit Remembered(const Lifetime& life);

  const exec::RopeFrequencies& frequencies() const { return frequencies_; }
  // Rows [0, B) or only row B, tokens [first[b], first[b] + n): not rotated.
  exec::Buffer RawKeys(const std::vector<int64_t>& first, int64_t n) const;
  exec::Buffer RawValues(const std::vector<int64_t>& first, int64_t n) const;
  exec::Buffer RawQueries(const std::vector<int64_t>& first, int64_t n) const;
  void UseInsertedRow(bool alone) { alone_ = alone; }
  // From now on the slot's tokens are those of the extra row.
  void Replace(int64_t slot) { source_[static_cast<size_t>(slot)] = batch_; }

  // Slots [B, S, K, D] in the cache's dtype for rows of these lengths, and
  // their scales [B, S, K]; what was never written is zero.
  exec::Buffer CachedKeys(const std::vector<int64_t>& lengths) const;
  exec::Buffer CachedKeyScales(const std::vector<int64_t>& lengths) const;

  // One query a row, the last token, over all its past: F32 values as the
  // cache gives them back.
  exec::AttentionProblem Problem(const std::vector<int64_t>& lengths,
                                 const std::vector<int64_t>& starts) const;

 private:
  int64_t SourceOf(int64_t row) const;
  // A token as the cache returns it, [K, D], and its ints and scales.
  struct Stored {
    std::vector<float> value;
    std::vector<int8_t> q;
    std::vector<float> scale;
  };
  Stored Store(const exec::Buffer& raw, int64_t row, int64_t position,
               bool rotate) const;
  std::vector<float> Rotated(const exec::Buffer& raw, int64_t row,
                             int64_t position, int64_t heads) const;
  exec::Buffer Raw(const exec::Buffer& all, const std::vector<int64_t>& first,
                   int64_t n) const;

  const Lifetime& life_;
  int64_t batch_;
  bool alone_ = false;
  std::vector<int64_t> source_;  // [B]: the raw row of a slot
  exec::RopeFrequencies frequencies_;
  exec::Buffer query_, key_, value_;  // [B + 1, positions, heads, D]
};

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_REMEMBERED_H_
