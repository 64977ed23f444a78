// What a cache should hold, kept as a plain array from the raw tokens.
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

  // Tokens [first[b], first[b] + n) of rows [0, B), or of the extra row only:
  // not rotated. What is beyond the last position is zero.
  exec::Buffer Raw(TokenKind kind, const std::vector<int64_t>& first,
                   int64_t n) const;
  void UseInsertedRow(bool alone) { alone_ = alone; }

  // Tokens [begin, end) of a row are in the cache from now on.
  void Write(int64_t row, int64_t begin, int64_t end);
  // The slot's tokens are those of the extra row, of which it has [0, length).
  void Replace(int64_t slot, int64_t length);

  // Where a device's cached keys, or their scales, differ from those
  // remembered in bits, by more than float32's rounding of the rotation can
  // do; what was never written is zero. Nothing where all agree.
  std::optional<exec::Complaint> KeyDifference(
      const exec::SimMesh& mesh, const exec::KvCache& cache) const;

  // The same of what a cache lends to attention, keys and values in the trace's
  // dtype, at one slot of each row (-1: none): a glance, for a step is to cost
  // no more than itself.
  std::optional<exec::Complaint> ViewDifference(
      const exec::SimMesh& mesh, const exec::CacheView& view,
      const std::vector<int64_t>& slots) const;

  // Positions [begin, end) of one row as the cache gives them back, in the
  // trace's dtype: key and value [1, end - begin, K, D].
  void ReadBack(int64_t row, int64_t begin, int64_t end, exec::Buffer& key,
                exec::Buffer& value) const;
  // The rotated query of one position, [1, 1, H, D].
  exec::Buffer Query(int64_t row, int64_t position) const;

 private:
  // The same, of devices that are held here.
  std::optional<exec::Complaint> HeldDifference(
      const exec::SimMesh& mesh, const exec::KvCache& cache) const;
  std::optional<exec::Complaint> LentDifference(
      const exec::SimMesh& mesh, const exec::CacheView& view,
      const std::vector<int64_t>& slots) const;

  int64_t SourceOf(int64_t row) const;
  size_t Width() const;  // elements of a token's keys
  void Rotate(int64_t position, std::span<float> token) const;
  // A row of heads as the cache returns it; its ints and scales where asked.
  void Store(std::span<float> token, std::span<int8_t> q,
             std::span<float> scale) const;
  // A slot's expected keys as the cache's own floats.
  void Expected(int64_t slot, std::span<float> out) const;
  // Whether a slot's key may have the number `have`, or the integer `have` of
  // a row with `scale`: a rotation in float32 that is off by an ulp may round
  // to a neighbour of the number remembered.
  bool MayBe(int64_t row, int64_t slot, int64_t head, int64_t dim, double have,
             double scale) const;

  // Whether a key that is lent is the remembered one or, in the trace's dtype,
  // the next.
  bool IsNeighbour(float have, std::span<const float> row, int64_t d) const;

  const CacheTrace& trace_;
  TraceTokens tokens_;
  bool alone_ = false;
  std::vector<int64_t> source_;  // [B]: the raw row of a slot
  // [B, S]: the position that a slot holds, -1 where none was written.
  std::vector<int64_t> held_;
  dense::Rotary rotary_;
  // [B, S, K, D] by the cache's dtype, in as many bytes as it takes.
  std::vector<float> full_;
  std::vector<uint16_t> half_;
  std::vector<int8_t> whole_;
  std::vector<float> scale_;  // [B, S, K]
};

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_TRACES_REMEMBERED_H_
