// The expected content of a cache: plain arrays that are computed from the raw
// tokens.
#ifndef SHARDC_VERIFY_TRACES_REMEMBERED_H_
#define SHARDC_VERIFY_TRACES_REMEMBERED_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dense/array.h"
#include "dense/attention.h"
#include "exec/attention/attention_problem.h"
#include "exec/cache/kv_cache.h"
#include "exec/machine/buffer.h"
#include "verify/judge/run_case.h"
#include "verify/traces/cache_trace.h"

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

// One decoding step: its number, the rows' lengths and starts, and its output.
struct DecodedStep {
  int64_t step = 0;
  std::vector<int64_t> lengths, starts;  // [B]
  exec::Buffer output;                   // [B, 1, H, D]
};

struct JudgedStep {
  int64_t step = 0;
  std::string refused;  // why there is no reference, or empty
  // The error of the output against the reference.
  ErrorOf error;
  // The error of the same operation on one device.
  ErrorOf alone;
  double largest = 0;  // the largest magnitude of the reference
  double tolerance = 0;
  std::vector<double> device_error;
  // If the output is wrong: the reason, the axis and the help of the message.
  CaseResult explained;
};

class TraceJudge {
 public:
  // With a transport, each rank (process) computes some of the rows.
  TraceJudge(const CacheTrace& trace, const Remembered& memory,
             exec::Transport* transport = nullptr);

  const exec::AttentionOptions& options() const { return options_; }

  void Add(DecodedStep step) { waiting_.push_back(std::move(step)); }
  size_t Waiting() const { return waiting_.size(); }
  // Compares the collected steps row by row. A row's past tokens are computed
  // once for all steps. `passed` is called with each output that passed.
  std::vector<JudgedStep> Judge(int threads, const OnPassed& passed = {});

  // Returns a case of attention with the sizes of one step.
  Case StepCase() const;

 private:
  struct Outputs {
    // [B, 1, H, D]: the reference, and the operation on one device.
    dense::Array reference, alone;
    // The reference without the last key, which only OnPassed reads. It is
    // empty without this function.
    dense::Array lacking;
  };
  // Sends `reference` and `alone` of each rank's rows to all ranks, and a
  // reason if a row has no reference. `lacking` is not sent.
  void ShareRows(std::vector<Outputs>& out,
                 std::vector<std::string>& refused) const;
  bool IsOwn(int64_t row) const;
  void Row(int64_t row, std::vector<Outputs>& out, std::string& refused) const;
  // Computes the reference of one row for all steps. Key and value begin at
  // position `begin`. The position of each query is lowered by `back`: if
  // `back` is 1, a query does not attend to the last key. Returns false, and
  // sets `refused`, if there is no reference.
  bool Reference(int64_t row, int64_t begin, const exec::Buffer& key,
                 const exec::Buffer& value,
                 const std::vector<exec::Buffer>& queries, int64_t back,
                 dense::Array Outputs::*to, std::vector<Outputs>& out,
                 std::string& refused) const;

  const CacheTrace& trace_;
  const Remembered& memory_;
  exec::Transport* transport_;
  exec::AttentionOptions options_;
  std::vector<DecodedStep> waiting_;
};

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_TRACES_REMEMBERED_H_
