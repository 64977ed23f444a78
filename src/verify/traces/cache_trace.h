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

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_TRACES_CACHE_TRACE_H_
