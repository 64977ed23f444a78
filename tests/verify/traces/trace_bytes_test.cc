#include "verify/traces/trace_bytes.h"

#include <doctest/doctest.h>

#include <vector>

#include "verify/cases/grid.h"
#include "verify/traces/cache_trace.h"

namespace shardc::verify {
namespace {

Lifetime Split(const Spec& prefill, const Spec& decode) {
  Lifetime life;
  life.mesh = MeshOf({{"dp", 2}, {"sp", 2}, {"tp", 2}});
  life.batch = 4;
  life.heads = 4;
  life.key_heads = 2;
  life.head_dim = 8;
  life.prefill = 24;
  life.chunk = 8;
  life.steps = 2;
  life.slots = 40;
  life.ragged = life.insert = false;
  life.prefill_spec = life.token_spec = prefill;
  life.decode_spec = decode;
  life.query_heads = {"tp"};
  return life;
}

TEST_CASE("what a trace sends, by hand") {
  // All in place: only the steps' partial softmaxes, 2(n-1) float32 of
  // B_loc H_loc (D + 2) in each of four groups of two.
  const Spec split = {{"dp"}, {"sp"}, {"tp"}};
  Lifetime life = Split(split, split);
  life.token_spec = {{"dp"}, {}, {"tp"}};
  const int64_t step = 4 * 2 * 4 * (2 * 2 * (8 + 2));
  CHECK(TraceBytes(life) == 2 * step);
  // Decoding splits what prefill wrote whole: every device cuts its own.
  life.prefill_spec = {{"dp"}, {}, {"tp"}};
  CHECK(TraceBytes(life) == 2 * step);
  // The other way round half of key and value is sent to every device, and
  // the steps send nothing.
  life.prefill_spec = split;
  life.decode_spec = {{"dp"}, {}, {"tp"}};
  CHECK(TraceBytes(life) == 8 * 2 * (2 * 40 / 2 * 1 * 8) * 4);
  // int8 with a float32 scale a token and head.
  life.kv_dtype = Dtype::kI8;
  CHECK(TraceBytes(life) == 8 * 2 * (2 * 40 / 2 * 1) * (8 * 1 + 4));
}

TEST_CASE("what traces send is what the formulas say") {
  const std::vector<Spec> specs = {{{"dp"}, {}, {"tp"}},
                                   {{"dp"}, {"sp"}, {"tp"}},
                                   {{"dp", "sp"}, {}, {"tp"}},
                                   {{}, {"dp", "sp"}, {"tp"}}};
  int ran = 0;
  for (const Spec& prefill : specs) {
    for (const Spec& decode : specs) {
      for (const Dtype dtype : {Dtype::kF32, Dtype::kI8}) {
        for (const int64_t window : {0, 12}) {
          Lifetime life = Split(prefill, decode);
          life.insert = window == 0;
          life.kv_dtype = dtype;
          life.window = window;
          const LifetimeResult result = RunLifetime(life, {});
          CAPTURE(SpecText(prefill));
          CAPTURE(SpecText(decode));
          CAPTURE(result.reason);
          CHECK(result.failed != Check::kLedger);
          if (result.status != Status::kPass) continue;
          CHECK(result.ledger.TotalSent() == TraceBytes(life));
          ++ran;
        }
      }
    }
  }
  CHECK(ran >= 40);
}

}  // namespace
}  // namespace shardc::verify
