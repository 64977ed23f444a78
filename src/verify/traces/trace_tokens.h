// The query, key and value vectors of a cache's trace before the rotation. Each
// vector is computed from its row and its position and is not stored, so that a
// trace may be far larger than memory.
#ifndef SHARDC_VERIFY_TRACES_TRACE_TOKENS_H_
#define SHARDC_VERIFY_TRACES_TRACE_TOKENS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "exec/machine/random.h"
#include "model/dtype.h"
#include "verify/traces/cache_trace.h"

namespace shardc::verify {

enum class TokenKind : uint8_t { kQuery, kKey, kValue };

class TraceTokens {
 public:
  // Makes tokens of batch + 1 rows. The last row is the row that a trace
  // inserts.
  explicit TraceTokens(const CacheTrace& trace);

  int64_t Heads(TokenKind kind) const {
    return kind == TokenKind::kQuery ? heads_ : key_heads_;
  }
  // Sets `out` to one token [heads, D], rounded to the trace's dtype. Mean and
  // norm depend on head and row, and the mean also on the position. The keys
  // and values of row 0 are zero at position 3 (or at the last position of a
  // shorter trace), because quantisation must preserve zeros.
  void Read(TokenKind kind, int64_t row, int64_t position,
            std::span<float> out) const;

 private:
  struct Kind {
    uint64_t key = 0;
    float slope = 0;
    std::vector<float> gain;  // [rows, heads]
    std::vector<float> mean;  // [rows, heads, D]
  };
  Kind MakeKind(exec::Random random, int64_t heads, double gain,
                double offset) const;

  int64_t rows_, heads_, key_heads_, dim_, positions_;
  Dtype dtype_;
  std::vector<Kind> kinds_;
};

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_TRACES_TRACE_TOKENS_H_
