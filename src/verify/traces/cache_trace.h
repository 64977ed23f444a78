// Room: verify/traces. Sequences of steps on a KV cache, and the checks of each
// step.
// Includes: source, model, floats, comm, dense, exec/machine, exec/attention,
// exec/cache, exec/pages, exec/operations, verify/cases, verify/judge.
//
// Runs the trace of a cache on the simulated mesh and compares the cache with
// plain arrays of all tokens: a prefill with rows of different lengths, the
// reshard to the layout of decoding, the insertion of a row, and decode steps
// with attention.
#ifndef SHARDC_VERIFY_TRACES_CACHE_TRACE_H_
#define SHARDC_VERIFY_TRACES_CACHE_TRACE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/attention/rotate_tokens.h"
#include "exec/cache/kv_cache.h"
#include "verify/cases/trace.h"
#include "verify/judge/run_case.h"

namespace shardc::verify {

struct CacheTraceResult {
  Status status = Status::kPass;
  std::optional<Check> failed;
  std::string reason, help;
  std::string axis;   // the axis at fault
  int64_t step = -1;  // the step that failed; -1: none, or before decoding
  double max_error = 0;
  double worst_ratio = 0;  // largest ratio of error to tolerance
  // For the step with that ratio: the error, the error of the same attention on
  // one device, and the tolerance.
  ErrorOf error, unsharded;
  double tolerance = 0;
  std::vector<double> device_error;  // maximum error of each device's shard
  exec::Ledger ledger;               // bytes of the whole trace
  int64_t decode_all_reduce = 0;     // bytes of the busiest device in a step
  std::vector<std::string> remarks;
};

// Runs the trace. Compares the output of every step with dense attention over
// the cache's expected content. Also compares the cached (rotated) keys with
// the expected ones, up to the rounding of the rotation, because a rotation
// with the same error in queries and keys changes no output.
CacheTraceResult RunCacheTrace(const CacheTrace& trace,
                               const RunOptions& options);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_TRACES_CACHE_TRACE_H_
