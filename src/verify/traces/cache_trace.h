// Directory: verify/traces. Sequences of steps on a KV cache, and the checks of
// each step.
// Its files include headers of these directories: source, model, floats, comm,
// dense, exec/machine, exec/attention, exec/cache, exec/pages, exec/operations,
// verify/cases, verify/judge.
//
// Runs the trace of a cache on the simulated mesh. A trace is a prefill with
// rows of different lengths, the reshard to the layout of decoding, the
// insertion of a row, and decode steps with attention. The cache is compared
// with plain arrays of all tokens.
#ifndef SHARDC_VERIFY_TRACES_CACHE_TRACE_H_
#define SHARDC_VERIFY_TRACES_CACHE_TRACE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/attention/rotary.h"
#include "exec/cache/kv_cache.h"
#include "exec/machine/machine.h"
#include "exec/machine/random.h"
#include "exec/machine/sharded.h"
#include "exec/pages/page_pool.h"
#include "model/dtype.h"
#include "verify/cases/case.h"
#include "verify/judge/run_case.h"

namespace shardc::verify {

struct CacheTraceResult {
  Status status = Status::kPass;
  std::optional<Check> failed;
  std::string reason, help;
  std::string axis;  // name of the axis that causes the failure; may be empty
  // Index of the decode step that failed; -1: no step, or before decoding.
  int64_t step = -1;
  double max_error = 0;
  double worst_ratio = 0;  // largest ratio of error to tolerance
  // The values of the step with the largest ratio of error to tolerance: the
  // error, the error of the same attention on one device, and the tolerance.
  ErrorOf error, unsharded;
  double tolerance = 0;
  // Indexed by device: maximum error of its shard.
  std::vector<double> device_error;
  exec::Ledger ledger;  // bytes of the whole trace
  // Bytes of all_reduce in a decode step, of the device that sends most.
  int64_t decode_all_reduce = 0;
  std::vector<std::string> remarks;
};

// Runs the trace. Compares the output of every step with dense attention over
// the cache's expected content. Also compares the cached (rotated) keys with
// the expected keys, up to the rounding of the rotation. This is necessary
// because an equal error in the rotations of queries and keys changes no
// output.
CacheTraceResult RunCacheTrace(const CacheTrace& trace,
                               const RunOptions& options);

// Returns the error of the first layout that a run of the trace would refuse,
// or nullopt if the trace can run.
std::optional<exec::LayoutError> TraceRefusal(const CacheTrace& trace);

// Runs the trace. After each step, every token of every request is read and
// compared bit by bit with the token that was written. If the pages cannot be
// sharded over the head axes, heads are replicated, as in the paged operations,
// and the result has a remark.
CacheTraceResult RunPagedTrace(const PagedTrace& trace,
                               const RunOptions& options);

// The bytes that each device sends in a cache trace, by collective. Closed
// formulas compute them from the trace's layouts. The formulas do not read the
// ledger (the bytes that a run has recorded), because the ledger is checked
// against the formulas.

// Returns the bytes that each device sends in a trace in which no step fails.
exec::SentBytes TraceBytes(const CacheTrace& trace);

// Adds tensors under the name of a section of the trace, such as `step-0003/`
// for a decode step. Adds nothing if the destination is null, or once the
// recorded tensors have 1 GiB.
class TraceRecord {
 public:
  explicit TraceRecord(NamedBuffers* to) : to_(to) {}

  bool IsOn() const { return to_ != nullptr && bytes_ < kMostBytes; }
  // Begins the next section. A section has a kind and a number, such as
  // `prefill-0000` and then `prefill-0001`. The number is 0 again if the
  // previous section was of another kind.
  void Begin(const std::string& kind);
  void Add(const std::string& name, const exec::Buffer& buffer);
  // Adds the values as an I32 tensor [n].
  void Add(const std::string& name, const std::vector<int64_t>& values);
  void Add(const std::string& name, const exec::SimMesh& mesh,
           const exec::ShardedTensor& tensor);
  // Adds NAME/key, NAME/value, NAME/index and NAME/start. For int8, also adds
  // key_scale and value_scale. For a cache that reuses slots, also adds their
  // positions.
  void Cache(const std::string& name, const exec::SimMesh& mesh,
             const exec::KvCache& cache);
  // Adds a tensor I32 [B, n]: for each appended token, the rank that owns the
  // token's slot, or -1 if the token is not written. Ranks are counted along
  // the axes of the cache's length. Adds the number of ranks too.
  void Owners(const exec::SimMesh& mesh, const exec::KvCache& cache, int64_t n,
              const std::vector<int64_t>& counts);
  // Adds a tensor I32 [B, S] that is 1 for the slots that attention may read.
  void Mask(const exec::CacheView& view, const exec::Buffer& positions,
            int64_t window);
  // Adds the pages: NAME/first and, if keys and values are separate,
  // NAME/second. For an int8 cache, also adds their scales. Adds the page table
  // and the lengths of requests.
  void Pages(const std::string& name, const exec::SimMesh& mesh,
             const exec::PagePool& pool, const exec::PageTable& table);

 private:
  static constexpr int64_t kMostBytes = int64_t{1} << 30;

  NamedBuffers* to_;
  std::string phase_;
  std::string kind_;
  size_t number_ = 0;
  int64_t bytes_ = 0;
};

// The query, key and value vectors of a cache's trace before the rotation. Each
// vector is computed from its row and its position and is not stored, so that a
// trace may be far larger than memory.

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

#endif  // SHARDC_VERIFY_TRACES_CACHE_TRACE_H_
