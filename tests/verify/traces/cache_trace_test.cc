#include "verify/traces/cache_trace.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "exec/machine/random.h"
#include "verify/cases/grid.h"
#include "verify/faults/injection.h"
#include "verify/traces/remembered.h"

namespace shardc::verify {
namespace {

// Returns a trace on a 2 x 2 x 2 mesh, in which decoding shards the length.
CacheTrace Base() {
  CacheTrace trace;
  trace.mesh = MeshOf({{"dp", 2}, {"sp", 2}, {"tp", 2}});
  trace.batch = 4;
  trace.heads = 4;
  trace.key_heads = 2;
  trace.prefill_spec = {{"dp"}, {}, {"tp"}};
  trace.decode_spec = {{"dp"}, {"sp"}, {"tp"}};
  trace.token_spec = {{"dp"}, {"sp"}, {"tp"}};
  trace.query_heads = {"tp"};
  return trace;
}

CacheTraceResult Passes(const CacheTrace& trace) {
  CacheTraceResult result = RunCacheTrace(trace, {});
  CAPTURE(result.reason);
  CAPTURE(result.step);
  CHECK(result.status == Status::kPass);
  CHECK(result.worst_ratio < 1);
  return result;
}

TEST_CASE("64 steps over a sharded int8 cache pass after a prefill of 96") {
  CacheTrace trace = Base();
  trace.kv_dtype = Dtype::kI8;
  const CacheTraceResult result = Passes(trace);
  MESSAGE("worst error over tolerance " << result.worst_ratio);
  // With n = 2, a device sends 2(n-1)/n * 4 * B_loc * H_loc * (D + 2) bytes in
  // a step.
  CHECK(result.decode_all_reduce == 4 * 2 * 2 * (16 + 2));
}

TEST_CASE("traces of other dtypes, layouts and windows pass") {
  for (Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kF16}) {
    CacheTrace trace = Base();
    trace.dtype = trace.kv_dtype = dtype;
    trace.prefill = 24;
    trace.chunk = 8;
    trace.steps = 12;
    trace.slots = 40;
    trace.left_padding = true;
    Passes(trace);
    trace.style = exec::RotaryStyle::kInterleaved;
    trace.prefill_spec = {{"dp"}, {"sp", "tp"}};
    trace.decode_spec = {{"dp"}, {"tp", "sp"}};
    trace.query_heads = {};
    Passes(trace);
    trace.decode_spec = {{}, {"dp", "sp"}, {"tp"}};
    trace.query_heads = {"tp"};
    trace.kv_dtype = Dtype::kI8;
    Passes(trace);
  }
  CacheTrace rolling = Base();
  rolling.window = 12;
  rolling.slots = 20;  // 12 + 8 - 1, rounded up to the parts
  rolling.prefill = 40;
  rolling.chunk = 8;
  rolling.steps = 30;
  Passes(rolling);
  rolling.kv_dtype = Dtype::kI8;
  rolling.decode_spec = {{}, {"sp", "dp"}, {"tp"}};
  Passes(rolling);
}

TEST_CASE("a head dimension is sharded after its rotation") {
  for (const auto style :
       {exec::RotaryStyle::kHalves, exec::RotaryStyle::kInterleaved}) {
    for (const Dtype kv : {Dtype::kF32, Dtype::kI8}) {
      CacheTrace trace = Base();
      trace.prefill = 24;
      trace.chunk = 8;
      trace.steps = 4;
      trace.slots = 32;
      trace.style = style;
      trace.kv_dtype = kv;
      trace.prefill_spec = {{"dp"}, {"sp"}, {}, {"tp"}};
      trace.decode_spec = trace.token_spec = trace.prefill_spec;
      trace.query_heads = {};
      trace.query_dim = {"tp"};
      Passes(trace);
      // Only decoding shards the head dimension.
      trace.prefill_spec = trace.token_spec = {{"dp"}, {}, {"tp"}};
      Passes(trace);
      trace.query_dim = {};
      const CacheTraceResult unlike = RunCacheTrace(trace, {});
      CHECK(unlike.status == Status::kUnsupported);
      CHECK(unlike.axis == "tp");
    }
  }
}

TEST_CASE("dropout keys a trace's rows and heads as in any attention") {
  CacheTrace trace = Base();
  trace.prefill = 24;
  trace.steps = 6;
  trace.slots = 32;
  trace.dropout = 0.4;
  trace.soft_cap = 3;
  trace.scale = 0.3;
  Passes(trace);
  RunOptions options;
  Inject(InjectionOf(Fault::kDropoutLocal), options);
  CHECK(RunCacheTrace(trace, options).failed == Check::kError);
}

CacheTrace Short() {
  CacheTrace trace = Base();
  trace.prefill = 24;
  trace.chunk = 8;
  trace.steps = 6;
  trace.slots = 32;
  return trace;
}

TEST_CASE("a cache of another dtype than attention's is rounded when read") {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kF16}) {
    for (const Dtype stored :
         {Dtype::kF32, Dtype::kBF16, Dtype::kF16, Dtype::kI8}) {
      CacheTrace trace = Short();
      trace.dtype = dtype;
      trace.kv_dtype = stored;
      Passes(trace);
    }
  }
}

TEST_CASE("every step is judged, not only the first") {
  for (const int64_t first : {0, 1, 3, 5}) {
    const CacheTrace trace = Short();
    int64_t calls = 0;
    RunOptions options;
    options.seams.Set(exec::RotarySeam{[&](exec::Rotation& rotation) {
      if (rotation.what != exec::RotaryOf::kQuery) return;
      if (calls++ / trace.mesh.devices >= first) ++rotation.shift;
    }});
    const CacheTraceResult result = RunCacheTrace(trace, options);
    CHECK(result.status == Status::kFail);
    CHECK(result.failed == Check::kError);
    CHECK(result.step == first);
  }
}

TEST_CASE("an insertion is checked before the next step") {
  CacheTrace trace = Short();
  trace.steps = 0;
  Passes(trace);
  for (const Fault fault :
       {Fault::kCacheSlotOff, Fault::kCacheInsertKeepsLength}) {
    RunOptions options;
    Inject(InjectionOf(fault), options);
    const CacheTraceResult result = RunCacheTrace(trace, options);
    CHECK(result.status == Status::kFail);
    CHECK(result.failed == Check::kCacheBits);
    CHECK(result.reason.ends_with(" after insertion"));
  }
  trace.insert = false;
  Passes(trace);
}

// A program whose attention reads other numbers than the cache has.
TEST_CASE("keys and values that a cache lends are checked") {
  for (const Dtype stored : {Dtype::kF32, Dtype::kBF16, Dtype::kI8}) {
    for (const bool values : {false, true}) {
      CacheTrace trace = Short();
      trace.dtype = stored == Dtype::kF32 ? Dtype::kF32 : Dtype::kBF16;
      trace.kv_dtype = stored;
      Remembered memory(trace);
      const exec::SimMesh mesh(trace.mesh);
      exec::LayoutError why;
      auto cache = exec::MakeCache(mesh,
                                   {trace.batch, trace.slots, trace.key_heads,
                                    trace.head_dim, stored, 0},
                                   trace.decode_spec, why);
      REQUIRE(cache);
      exec::Machine machine(mesh);
      exec::CacheView view = exec::ViewCache(machine, *cache, trace.dtype);
      exec::Buffer key, value;
      for (int64_t row = 0; row < trace.batch; ++row) {
        memory.Write(row, 0, 20);
        memory.ReadBack(row, 0, 20, key, value);
        for (exec::ShardedTensor* to : {&view.key, &view.value}) {
          const exec::Buffer& from = to == &view.key ? key : value;
          for (int d = 0; d < mesh.devices(); ++d) {
            const Shape start = exec::LocalStart(mesh, to->shape, to->spec, d);
            exec::Buffer& local = to->local[static_cast<size_t>(d)];
            for (int64_t i = 0; i < local.Elements(); ++i) {
              Shape at = exec::PositionOf(local.shape, i);
              for (size_t k = 0; k < 4; ++k) at[k] += start[k];
              if (at[0] != row || at[1] >= 20) continue;
              local.real[static_cast<size_t>(i)] =
                  from.real[static_cast<size_t>(
                      exec::OffsetOf(from.shape, {0, at[1], at[2], at[3]}))];
            }
          }
        }
      }
      for (int64_t slot = 0; slot < 32; ++slot) {
        CHECK_FALSE(memory.ViewDifference(mesh, view, {slot, 0, slot, 1}));
      }
      // One number on one device has an error that is smaller than a step of
      // its dtype.
      exec::ShardedTensor& off = values ? view.value : view.key;
      const bool narrow = trace.dtype == Dtype::kBF16;
      off.local[3].real[5] *= narrow ? 1 + 0x1p-12f : 1 + 0x1p-18f;
      const Shape start = exec::LocalStart(mesh, off.shape, off.spec, 3);
      const auto bad =
          memory.ViewDifference(mesh, view, {start[1], -1, -1, -1});
      REQUIRE(bad);
      CHECK(bad->message.starts_with(values ? "the value that a cache lends"
                                            : "the key that a cache lends"));
      CHECK(bad->devices.front() == 3);
      // The first slot is checked as all others are.
      off.local[0].real[0] *= narrow ? 1 + 0x1p-12f : 1 + 0x1p-18f;
      REQUIRE(exec::LocalStart(mesh, off.shape, off.spec, 0) ==
              Shape{0, 0, 0, 0});
      const auto first = memory.ViewDifference(mesh, view, {0, -1, -1, -1});
      REQUIRE(first);
      CHECK(first->devices.front() == 0);
      CHECK(first->position == Shape{0, 0, 0, 0});
      CHECK_FALSE(memory.ViewDifference(mesh, view, {-1, -1, -1, -1}));
    }
  }
}

TEST_CASE("a lent cache is checked before a step attends to it") {
  CacheTrace trace = Short();
  trace.kv_dtype = Dtype::kI8;
  for (const Fault fault :
       {Fault::kCacheFirstScale, Fault::kCacheNeighbourScale,
        Fault::kCacheUneven127}) {
    RunOptions options;
    Inject(InjectionOf(fault), options);
    const CacheTraceResult result = RunCacheTrace(trace, options);
    CHECK(result.status == Status::kFail);
    CHECK(result.failed == Check::kCacheBits);
    CHECK(result.reason.find(" that a cache lends on device ") !=
          std::string::npos);
    CHECK(result.step == 0);
  }
}

exec::RopeScaling ScaledBy(exec::RopeKind kind) {
  exec::RopeScaling out;
  out.kind = kind;
  out.factor = 4;
  out.original_length = 16;
  return out;
}

TEST_CASE("keys are rotated by the model's base and scaling") {
  const exec::RopeScaling scalings[] = {
      {},
      ScaledBy(exec::RopeKind::kLinear),
      ScaledBy(exec::RopeKind::kDynamic),
      ScaledBy(exec::RopeKind::kYarn),
      ScaledBy(exec::RopeKind::kLlama3),
  };
  for (const exec::RopeScaling& scaling : scalings) {
    CAPTURE(static_cast<int>(scaling.kind));
    CacheTrace trace = Base();
    trace.prefill = 40;
    trace.chunk = 8;
    trace.steps = 4;
    trace.slots = 48;
    trace.rotation = {500000, scaling};
    for (Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kI8}) {
      trace.dtype = dtype == Dtype::kI8 ? Dtype::kBF16 : dtype;
      trace.kv_dtype = dtype;
      Passes(trace);
    }
    // The program rotates with the default frequencies.
    std::string why;
    const auto plain = exec::Frequencies(trace.head_dim, 10000, 44, {}, why);
    REQUIRE(plain);
    RunOptions options;
    options.seams.Set(exec::RotarySeam{
        [&](exec::Rotation& rotation) { rotation.frequencies = *plain; }});
    const CacheTraceResult wrong = RunCacheTrace(trace, options);
    CHECK(wrong.status == Status::kFail);
    CHECK(wrong.failed == Check::kCacheBits);
  }
  CacheTrace trace = Base();
  trace.rotation.scaling = ScaledBy(exec::RopeKind::kYarn);
  trace.rotation.scaling.original_length = 0;
  const CacheTraceResult refused = RunCacheTrace(trace, {});
  CHECK(refused.status == Status::kUnsupported);
  CHECK(refused.reason == "rotary scaling needs the original length");
}

TEST_CASE("a trace of settings that decoding cannot have is refused") {
  CacheTrace trace = Base();
  trace.settings.dot_bits = 8;
  const CacheTraceResult result = RunCacheTrace(trace, {});
  CHECK(result.status == Status::kUnsupported);
  CHECK(result.help != "");
}

TEST_CASE("a cache that is too short or does not divide is refused") {
  CacheTrace trace = Base();
  trace.slots = 100;
  CacheTraceResult result = RunCacheTrace(trace, {});
  CHECK(result.status == Status::kUnsupported);
  CHECK(result.reason == "row 0 writes 1 at position 100 of 100");
  CHECK(result.step == 4);
  trace.slots = 161;
  result = RunCacheTrace(trace, {});
  CHECK(result.reason ==
        "the cache: dimension 1 of [4, 161, 2, 16] does not divide into 2 "
        "parts over \"sp\"");
}

// Returns a random legal trace: random layouts, and sizes that the axes divide.
CacheTrace RandomTrace(uint64_t seed) {
  exec::RandomSequence random{exec::Random(seed)};
  CacheTrace trace;
  trace.seed = seed;
  std::vector<std::pair<std::string, int64_t>> axes;
  for (const char* name : {"dp", "sp", "tp"}) {
    axes.emplace_back(name, random.Between(1, 3));
  }
  for (size_t i = 3; i > 1; --i) {
    std::swap(axes[i - 1], axes[random.Below(i)]);
  }
  trace.mesh = MeshOf(axes);
  // Each axis shards the batch, the slots, the heads or nothing.
  const auto spec = [&] {
    Spec out(4);
    for (const auto& [name, size] : axes) {
      const uint64_t dim = random.Below(4);
      if (dim < 3) out[dim].push_back(name);
    }
    return out;
  };
  trace.prefill_spec = spec();
  trace.decode_spec = spec();
  trace.token_spec = spec();
  trace.query_heads = trace.decode_spec[2];
  int64_t parts = 1;
  for (const auto& [name, size] : axes) parts *= size;
  trace.batch = parts;
  trace.key_heads = parts;
  trace.heads = parts * random.Between(1, 2);
  trace.head_dim = 8;
  trace.chunk = parts * random.Between(1, 2);
  trace.prefill = trace.chunk * random.Between(1, 2);
  trace.steps = random.Between(1, 3);
  trace.slots = trace.prefill + trace.steps;
  trace.dtype =
      std::vector{Dtype::kF32, Dtype::kBF16, Dtype::kF16}[random.Below(3)];
  trace.kv_dtype = random.Chance(0.4) ? Dtype::kI8 : trace.dtype;
  if (random.Chance(0.3)) {
    trace.window = random.Between(1, trace.prefill);
    trace.slots = trace.window + trace.chunk - 1;
  }
  trace.slots = (trace.slots + parts - 1) / parts * parts;
  // Row b of a ragged trace has 5 b fewer tokens, and each row must have some.
  trace.ragged = trace.prefill > 5 * trace.batch && random.Chance(0.5);
  trace.left_padding = trace.prefill > 6 * trace.batch && random.Chance(0.5);
  trace.insert = trace.prefill >= 2 && random.Chance(0.7);
  if (random.Chance(0.5)) trace.style = exec::RotaryStyle::kInterleaved;
  return trace;
}

TEST_CASE("random traces pass") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Passes(RandomTrace(seed));
  }
}

// Returns short traces that together use every part of a cache.
std::vector<CacheTrace> ShortTraces() {
  CacheTrace plain = Base();
  plain.prefill = 24;
  plain.chunk = 8;
  plain.steps = 4;
  plain.slots = 32;
  CacheTrace int8 = plain;
  int8.kv_dtype = Dtype::kI8;
  CacheTrace turned = plain;
  turned.prefill_spec = {{}, {"dp", "sp"}, {"tp"}};
  turned.decode_spec = {{}, {"sp", "dp"}, {"tp"}};
  CacheTrace rolling = plain;
  rolling.window = 12;
  rolling.slots = 20;
  rolling.prefill = 40;
  CacheTrace short_of_slots = plain;
  short_of_slots.slots = 24;
  return {plain, int8, turned, rolling, short_of_slots};
}

TEST_CASE("every fault injected into a cache or a rotation is detected") {
  const Fault faults[] = {Fault::kCacheOwnerOff,
                          Fault::kCacheAllWrite,
                          Fault::kCacheRankZeroWrites,
                          Fault::kCacheIndexPlusOne,
                          Fault::kCacheIndexByOne,
                          Fault::kCacheOverflowClamped,
                          Fault::kCacheStaleRows,
                          Fault::kCacheSlotOff,
                          Fault::kCacheInsertKeepsLength,
                          Fault::kCacheNeighbourScale,
                          Fault::kCacheFirstScale,
                          Fault::kCacheUneven127,
                          Fault::kCachePositiveWraps,
                          Fault::kCacheZeroRowDivides,
                          Fault::kRollingCapacityIsWindow,
                          Fault::kRollingSlotAsPosition,
                          Fault::kCacheMoveSkipped,
                          Fault::kRotaryLocal,
                          Fault::kRotaryQueryPlusOne,
                          Fault::kRotaryShiftedOnBoth,
                          Fault::kRotarySign,
                          Fault::kRotaryOtherPairs};
  const auto caught = [](Fault fault, const Checks& checks,
                         const std::vector<CacheTrace>& traces) {
    std::string by;
    for (const CacheTrace& trace : traces) {
      RunOptions options;
      const CacheTraceResult right = RunCacheTrace(trace, options);
      Inject(InjectionOf(fault), options);
      options.checks = checks;
      const CacheTraceResult wrong = RunCacheTrace(trace, options);
      if (wrong.status == right.status) continue;
      by += wrong.failed ? std::string(CheckName(*wrong.failed)) + " "
                         : "accepted ";
    }
    return by;
  };
  for (Fault fault : faults) {
    CAPTURE(static_cast<int>(fault));
    CHECK(caught(fault, {}, ShortTraces()) != "");
  }
  // A rotation that shifts queries and keys by the same positions is detected
  // only by the check of the cached keys' bits.
  CHECK(caught(Fault::kRotaryShiftedOnBoth, Checks().Without(Check::kCacheBits),
               {ShortTraces().front()}) == "");
}

}  // namespace
}  // namespace shardc::verify
