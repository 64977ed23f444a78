#include "verify/traces/cache_trace.h"

#include <doctest/doctest.h>

#include <vector>

#include "verify/cases/grid.h"

namespace shardc::verify {
namespace {

CacheTrace Split(const Spec& prefill, const Spec& decode) {
  CacheTrace trace;
  trace.mesh = MeshOf({{"dp", 2}, {"sp", 2}, {"tp", 2}});
  trace.batch = 4;
  trace.heads = 4;
  trace.key_heads = 2;
  trace.head_dim = 8;
  trace.prefill = 24;
  trace.chunk = 8;
  trace.steps = 2;
  trace.slots = 40;
  trace.ragged = trace.insert = false;
  trace.prefill_spec = trace.token_spec = prefill;
  trace.decode_spec = decode;
  trace.query_heads = {"tp"};
  return trace;
}

TEST_CASE("a trace sends what was worked out by hand") {
  // No key or value is sent. The steps all-reduce their partial softmaxes:
  // 2(n-1) float32 of B_loc H_loc (D + 2) in each of four groups of two.
  const Spec split = {{"dp"}, {"sp"}, {"tp"}};
  CacheTrace trace = Split(split, split);
  trace.token_spec = {{"dp"}, {}, {"tp"}};
  const int64_t step = 4 * 2 * 4 * (2 * 2 * (8 + 2));
  CHECK(TraceBytes(trace).Total() == 2 * step);
  // Prefill leaves the length unsharded and decoding shards it: every device
  // slices its own part, and nothing more is sent.
  trace.prefill_spec = {{"dp"}, {}, {"tp"}};
  CHECK(TraceBytes(trace).Total() == 2 * step);
  // If prefill shards the length and decoding does not, every device receives
  // half of the keys and values, and the steps send nothing.
  trace.prefill_spec = split;
  trace.decode_spec = {{"dp"}, {}, {"tp"}};
  CHECK(TraceBytes(trace).Total() == 8 * 2 * (2 * 40 / 2 * 1 * 8) * 4);
  // An int8 cache has a float32 scale for each token and head.
  trace.kv_dtype = Dtype::kI8;
  CHECK(TraceBytes(trace).Total() == 8 * 2 * (2 * 40 / 2 * 1) * (8 * 1 + 4));
}

TEST_CASE("traces send what the formulas give") {
  const std::vector<Spec> specs = {{{"dp"}, {}, {"tp"}},
                                   {{"dp"}, {"sp"}, {"tp"}},
                                   {{"dp", "sp"}, {}, {"tp"}},
                                   {{}, {"dp", "sp"}, {"tp"}}};
  int ran = 0;
  for (const Spec& prefill : specs) {
    for (const Spec& decode : specs) {
      for (const Dtype dtype : {Dtype::kF32, Dtype::kI8}) {
        for (const int64_t window : {0, 12}) {
          CacheTrace trace = Split(prefill, decode);
          trace.insert = window == 0;
          trace.kv_dtype = dtype;
          trace.window = window;
          const CacheTraceResult result = RunCacheTrace(trace, {});
          CAPTURE(SpecText(prefill));
          CAPTURE(SpecText(decode));
          CAPTURE(result.reason);
          CHECK(result.failed != Check::kLedger);
          if (result.status != Status::kPass) continue;
          CHECK(result.ledger.TotalSent() == TraceBytes(trace).Total());
          ++ran;
        }
      }
    }
  }
  CHECK(ran >= 40);
}

}  // namespace
}  // namespace shardc::verify
