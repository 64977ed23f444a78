#include "verify/traces/cache_trace.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "exec/machine/random.h"
#include "verify/cases/grid.h"

namespace shardc::verify {
namespace {

// The 2 x 2 x 2 mesh, length-sharded while decoding.
Lifetime Base() {
  Lifetime life;
  life.mesh = MeshOf({{"dp", 2}, {"sp", 2}, {"tp", 2}});
  life.batch = 4;
  life.heads = 4;
  life.key_heads = 2;
  life.prefill_spec = {{"dp"}, {}, {"tp"}};
  life.decode_spec = {{"dp"}, {"sp"}, {"tp"}};
  life.token_spec = {{"dp"}, {"sp"}, {"tp"}};
  life.query_heads = {"tp"};
  return life;
}

LifetimeResult Passes(const Lifetime& life) {
  LifetimeResult result = RunLifetime(life, {});
  CAPTURE(result.reason);
  CAPTURE(result.step);
  CHECK(result.status == Status::kPass);
  CHECK(result.worst_ratio < 1);
  return result;
}

TEST_CASE("prefill 96, then 64 steps over a split int8 cache") {
  Lifetime life = Base();
  life.kv_dtype = Dtype::kI8;
  const LifetimeResult result = Passes(life);
  MESSAGE("worst error over tolerance " << result.worst_ratio);
  // One step, per device: 2(n-1)/n * 4 * B_loc * H_loc * (D + 2), n = 2.
  CHECK(result.decode_all_reduce == 4 * 2 * 2 * (16 + 2));
}

TEST_CASE("lives of other dtypes, layouts and windows") {
  for (Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kF16}) {
    Lifetime life = Base();
    life.dtype = life.kv_dtype = dtype;
    life.prefill = 24;
    life.chunk = 8;
    life.steps = 12;
    life.slots = 40;
    life.left_padding = true;
    Passes(life);
    life.style = exec::RotaryStyle::kInterleaved;
    life.prefill_spec = {{"dp"}, {"sp", "tp"}};
    life.decode_spec = {{"dp"}, {"tp", "sp"}};
    life.query_heads = {};
    Passes(life);
    life.decode_spec = {{}, {"dp", "sp"}, {"tp"}};
    life.query_heads = {"tp"};
    life.kv_dtype = Dtype::kI8;
    Passes(life);
  }
  Lifetime rolling = Base();
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

TEST_CASE("dropout counts a life's rows and heads as any attention's") {
  Lifetime life = Base();
  life.prefill = 24;
  life.steps = 6;
  life.slots = 32;
  life.dropout = 0.4;
  life.soft_cap = 3;
  life.scale = 0.3;
  Passes(life);
  RunOptions options;
  options.fault = exec::Fault::kDropoutLocal;
  CHECK(RunLifetime(life, options).failed == Check::kError);
}

TEST_CASE("a life of settings that decoding cannot have is refused") {
  Lifetime life = Base();
  life.settings.dot_bits = 8;
  const LifetimeResult result = RunLifetime(life, {});
  CHECK(result.status == Status::kUnsupported);
  CHECK(result.help != "");
}

TEST_CASE("a cache that is too short or does not divide is refused") {
  Lifetime life = Base();
  life.slots = 100;
  LifetimeResult result = RunLifetime(life, {});
  CHECK(result.status == Status::kUnsupported);
  CHECK(result.reason == "row 0 writes 1 at position 100 of 100");
  CHECK(result.step == 4);
  life.slots = 161;
  result = RunLifetime(life, {});
  CHECK(result.reason ==
        "the cache: dimension 1 of [4, 161, 2, 16] does not divide into 2 "
        "parts over \"sp\"");
}

// Any legal life: its layouts are drawn, and sizes that they divide.
Lifetime RandomLife(uint64_t seed) {
  exec::RandomSequence random{exec::Random(seed)};
  Lifetime life;
  life.seed = seed;
  std::vector<std::pair<std::string, int64_t>> axes;
  for (const char* name : {"dp", "sp", "tp"}) {
    axes.emplace_back(name, random.Between(1, 3));
  }
  for (size_t i = 3; i > 1; --i) {
    std::swap(axes[i - 1], axes[random.Below(i)]);
  }
  life.mesh = MeshOf(axes);
  // Each axis splits the batch, the slots, the heads or nothing.
  const auto spec = [&] {
    Spec out(4);
    for (const auto& [name, size] : axes) {
      const uint64_t dim = random.Below(4);
      if (dim < 3) out[dim].push_back(name);
    }
    return out;
  };
  life.prefill_spec = spec();
  life.decode_spec = spec();
  life.token_spec = spec();
  life.query_heads = life.decode_spec[2];
  int64_t parts = 1;
  for (const auto& [name, size] : axes) parts *= size;
  life.batch = parts;
  life.key_heads = parts;
  life.heads = parts * random.Between(1, 2);
  life.head_dim = 8;
  life.chunk = parts * random.Between(1, 2);
  life.prefill = life.chunk * random.Between(1, 2);
  life.steps = random.Between(1, 3);
  life.slots = life.prefill + life.steps;
  life.dtype =
      std::vector{Dtype::kF32, Dtype::kBF16, Dtype::kF16}[random.Below(3)];
  life.kv_dtype = random.Chance(0.4) ? Dtype::kI8 : life.dtype;
  if (random.Chance(0.3)) {
    life.window = random.Between(1, life.prefill);
    life.slots = life.window + life.chunk - 1;
  }
  life.slots = (life.slots + parts - 1) / parts * parts;
  // A prefill's chunk is split as its tokens are, so all rows fill it.
  life.ragged = life.prefill > 5 * life.batch && random.Chance(0.5);
  life.left_padding = life.prefill > 6 * life.batch && random.Chance(0.5);
  life.insert = life.prefill >= 2 && random.Chance(0.7);
  if (random.Chance(0.5)) life.style = exec::RotaryStyle::kInterleaved;
  return life;
}

TEST_CASE("random lives") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Passes(RandomLife(seed));
  }
}

// Short lives that between them use every part of a cache.
std::vector<Lifetime> ShortLives() {
  Lifetime plain = Base();
  plain.prefill = 24;
  plain.chunk = 8;
  plain.steps = 4;
  plain.slots = 32;
  Lifetime int8 = plain;
  int8.kv_dtype = Dtype::kI8;
  Lifetime turned = plain;
  turned.prefill_spec = {{}, {"dp", "sp"}, {"tp"}};
  turned.decode_spec = {{}, {"sp", "dp"}, {"tp"}};
  Lifetime rolling = plain;
  rolling.window = 12;
  rolling.slots = 20;
  rolling.prefill = 40;
  Lifetime short_of_slots = plain;
  short_of_slots.slots = 24;
  return {plain, int8, turned, rolling, short_of_slots};
}

TEST_CASE("every fault planted into a cache or a rotation is caught") {
  using exec::Fault;
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
                          Fault::kRotaryShiftedAlike,
                          Fault::kRotarySign,
                          Fault::kRotaryOtherPairs};
  const auto caught = [](Fault fault, const Checks& checks,
                         const std::vector<Lifetime>& lives) {
    std::string by;
    for (const Lifetime& life : lives) {
      RunOptions options;
      const LifetimeResult right = RunLifetime(life, options);
      options.fault = fault;
      options.checks = checks;
      const LifetimeResult wrong = RunLifetime(life, options);
      if (wrong.status == right.status) continue;
      by += wrong.failed ? std::string(CheckName(*wrong.failed)) + " "
                         : "accepted ";
    }
    return by;
  };
  for (Fault fault : faults) {
    CAPTURE(static_cast<int>(fault));
    CHECK(caught(fault, {}, ShortLives()) != "");
  }
  // Nothing but the bits of the cached keys shows a shift of both.
  CHECK(caught(Fault::kRotaryShiftedAlike, Checks().Without(Check::kCacheBits),
               {ShortLives().front()}) == "");
}

}  // namespace
}  // namespace shardc::verify
