// The expected content of a cache: plain arrays that are computed from the raw
// tokens.
#ifndef SHARDC_VERIFY_TRACES_REMEMBERED_H_
#define SHARDC_VERIFY_TRACES_REMEMBERED_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dense/rotary.h"
#include "exec/cache/kv_cache.h"
#include "exec/machine/buffer.h"
#include "verify/traces/cache_trace.h"
#include "verify/traces/trace_tokens.h"

namespace shardc::verify {

class Remembered {
 public:
  explicit Remembered(const CacheTrace& trace);

  // Returns tokens [first[b], first[b] + n) of each row b before the rotation.
  // After UseInsertedRow(true), returns tokens of the row that is inserted
  // later. Tokens beyond the last position are zero.
  exec::Buffer Raw(TokenKind kind, const std::vector<int64_t>& first,
                   int64_t n) const;
  void UseInsertedRow(bool alone) { alone_ = alone; }

  // Records that tokens [begin, end) of a row were written to the cache.
  void Write(int64_t row, int64_t begin, int64_t end);
  // Records that row `slot` of the cache was replaced by tokens [0, length) of
  // the inserted row.
  void Replace(int64_t slot, int64_t length);

  // Returns the first place where a device's cached keys, or their scales,
  // differ from the expected keys by more than the float32 rounding of the
  // rotation. Slots that were never written must be zero. Returns nullopt if
  // there is no difference.
  std::optional<exec::LayoutError> KeyDifference(
      const exec::SimMesh& mesh, const exec::KvCache& cache) const;

  // Returns the first place where `view` (the cache as attention reads it, in
  // the trace's dtype) differs from the expected content, or nullopt. Values
  // must be equal bit by bit. Keys may differ by the rounding of their
  // rotation. For each row, `slots` has the one slot to compare, or -1 to skip
  // the row: comparing all slots would take longer than the step itself. Slots
  // that were never written are not compared.
  std::optional<exec::LayoutError> ViewDifference(
      const exec::SimMesh& mesh, const exec::CacheView& view,
      const std::vector<int64_t>& slots) const;

  // Sets `key` and `value` [1, end - begin, K, D] to positions [begin, end) of
  // one row, as the cache should return them in the trace's dtype.
  void ReadBack(int64_t row, int64_t begin, int64_t end, exec::Buffer& key,
                exec::Buffer& value) const;
  // Returns the rotated query of one position, [1, 1, H, D].
  exec::Buffer Query(int64_t row, int64_t position) const;

 private:
  // Like KeyDifference and ViewDifference, but only for the devices of this
  // rank (process).
  std::optional<exec::LayoutError> HeldDifference(
      const exec::SimMesh& mesh, const exec::KvCache& cache) const;
  std::optional<exec::LayoutError> LentDifference(
      const exec::SimMesh& mesh, const exec::CacheView& view,
      const std::vector<int64_t>& slots) const;

  int64_t SourceOf(int64_t row) const;
  size_t Width() const;  // number of elements of a token's keys
  void Rotate(int64_t position, std::span<float> token) const;
  // Rounds the heads of a token as the cache stores them. For int8, also writes
  // the integers to `q` and the scales to `scale`, unless these are empty.
  void Store(std::span<float> token, std::span<int8_t> q,
             std::span<float> scale) const;
  // Sets `out` to a slot's expected keys. The cache must not be int8.
  void Expected(int64_t slot, std::span<float> out) const;
  // Returns true if the key of a slot may have the number `have` or, for int8,
  // the integer `have` with the scale `scale`. A rotation in float32 with an
  // error of one ulp may round to a neighbour of the expected number.
  bool MayBe(int64_t row, int64_t slot, int64_t head, int64_t dim, double have,
             double scale) const;

  // Returns true if `have` is a number of the trace's dtype and differs from
  // element d of the expected `row` only by rounding. A rotation with an error
  // of one float32 ulp may round the element to a neighbour.
  bool IsNeighbour(float have, std::span<const float> row, int64_t d) const;

  const CacheTrace& trace_;
  TraceTokens tokens_;
  bool alone_ = false;
  // Indexed by cache row: the row of `tokens_` that the cache row holds.
  std::vector<int64_t> source_;
  // [B, S]: the token position in each slot; -1: the slot was never written.
  std::vector<int64_t> held_;
  dense::Rotary rotary_;
  // The expected keys [B, S, K, D] with 4, 2 or 1 bytes for each element, as in
  // the cache's dtype. Only the vector with elements of this width is used.
  std::vector<float> full_;
  std::vector<uint16_t> half_;
  std::vector<int8_t> whole_;
  std::vector<float> scale_;  // scales of expected int8 keys [B, S, K]
};

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_TRACES_REMEMBERED_H_
