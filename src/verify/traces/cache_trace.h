// A cache through its whole trace on the simulated mesh, against plain arrays
// that remember every token: ragged prefill, the move to decode's layout, a
// row inserted into a slot, and decode steps, each of them attended to.
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
  int64_t step = -1;  // at which it failed; -1 before decoding
  double max_error = 0;
  double worst_ratio = 0;  // of error and tolerance
  // Of the step with that ratio: the error, that of the same attention on one
  // device, and the tolerance.
  ErrorOf error, unsharded;
  double tolerance = 0;
  std::vector<double> device_error;  // the largest of all steps
  exec::Ledger ledger;               // of everything
  int64_t decode_all_reduce = 0;     // bytes of one decode step, busiest device
  std::vector<std::string> remarks;
};

// After every step the output is compared with dense attention over what the
// cache should hold, and the cached (rotated) keys with it bit by bit: a
// rotation that is off alike in queries and keys changes no output.
CacheTraceResult RunCacheTrace(const CacheTrace& trace,
                               const RunOptions& options);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_TRACES_CACHE_TRACE_H_
