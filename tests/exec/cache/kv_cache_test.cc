#include "exec/cache/kv_cache.h"

#include <doctest/doctest.h>

#include <cmath>

#include "exec/kernels/arithmetic.h"
#include "exec/machine/mesh_fixture.h"
#include "exec/machine/random.h"
#include "floats/convert.h"
#include "verify/faults/injection.h"

namespace shardc::exec {
namespace {

using verify::Fault;

size_t U(int64_t i) { return static_cast<size_t>(i); }

KvCache Cache(const SimMesh& mesh, const CacheConfig& config,
              const Spec& spec) {
  LayoutError why;
  auto cache = MakeCache(mesh, config, spec, why);
  REQUIRE_MESSAGE(cache, why.message);
  return *cache;
}

Buffer Unsharded(const SimMesh& mesh, const ShardedTensor& tensor) {
  LayoutError why;
  auto out = Gather(mesh, tensor, why);
  REQUIRE_MESSAGE(out, why.message);
  return *out;
}

// The expected content of the cache, as one plain array.
struct Plain {
  Buffer key;
  std::vector<int64_t> index;

  explicit Plain(const CacheConfig& c)
      : key(Buffer::Zeros({c.batch, c.max_length, c.key_heads, c.head_dim},
                          c.dtype == Dtype::kI8 ? Dtype::kF32 : c.dtype)),
        index(U(c.batch), 0) {}

  void Append(const Buffer& tokens, const std::vector<int64_t>& counts) {
    const int64_t n = tokens.shape[1];
    const int64_t row = tokens.shape[2] * tokens.shape[3];
    for (int64_t b = 0; b < tokens.shape[0]; ++b) {
      const int64_t count = counts.empty() ? n : counts[U(b)];
      for (int64_t t = 0; t < count; ++t) {
        const int64_t slot = (index[U(b)] + t) % key.shape[1];
        for (int64_t i = 0; i < row; ++i) {
          key.real[U((b * key.shape[1] + slot) * row + i)] =
              RoundTo(key.dtype, tokens.real[U((b * n + t) * row + i)]);
        }
      }
      index[U(b)] += count;
    }
  }
};

bool Append(Machine& machine, KvCache& cache, const Buffer& tokens,
            const std::vector<int64_t>& counts = {}) {
  const ShardedTensor x = Scatter(machine.mesh(), tokens, {});
  LayoutError why;
  return AppendTokens(machine, cache, x, x, counts, why);
}

TEST_CASE("each position has one owner, for every index and count") {
  const SimMesh mesh = SimMeshOf({{"x", 2}, {"y", 2}, {"z", 2}});
  const CacheConfig config{2, 8, 2, 2, Dtype::kF32, 0};
  const Spec specs[] = {{{}, {"x"}, {}, {}},
                        {{}, {"x", "y"}, {}, {}},
                        {{}, {"y", "x"}, {"z"}, {}},
                        {{"z"}, {"y"}, {"x"}, {}},
                        {{}, {"z", "x", "y"}, {}, {}},
                        {{}, {}, {}, {"y"}},
                        {}};
  for (const Spec& spec : specs) {
    for (int64_t index = 0; index < 8; ++index) {
      for (int64_t n = 1; index + n <= 8; ++n) {
        Machine machine(mesh);
        KvCache cache = Cache(mesh, config, spec);
        cache.index = {index, index};
        REQUIRE(Append(machine, cache, Normal({2, n, 2, 2}, 1)));
        Plain plain(config);
        plain.index = {index, index};
        plain.Append(Normal({2, n, 2, 2}, 1), {});
        CHECK(BitEqual(Unsharded(mesh, cache.key), plain.key));
        CHECK(cache.index == plain.index);
      }
    }
  }
}

TEST_CASE("rows have lengths of their own, whatever the dtype") {
  const SimMesh mesh = SimMeshOf({{"dp", 2}, {"sp", 4}});
  for (Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kF16}) {
    const CacheConfig config{4, 16, 2, 4, dtype, 0};
    Machine machine(mesh, 2);
    KvCache cache = Cache(mesh, config, {{"dp"}, {"sp"}});
    Plain plain(config);
    const std::vector<int64_t> prefill{5, 0, 3, 7};
    REQUIRE(Append(machine, cache, Normal({4, 7, 2, 4}, 3), prefill));
    plain.Append(Normal({4, 7, 2, 4}, 3), prefill);
    for (uint64_t step = 0; step < 9; ++step) {
      REQUIRE(Append(machine, cache, Normal({4, 1, 2, 4}, step)));
      plain.Append(Normal({4, 1, 2, 4}, step), {});
      CHECK(BitEqual(Unsharded(mesh, cache.key), plain.key));
      CHECK(BitEqual(Unsharded(mesh, cache.value), plain.key));
    }
    CHECK(cache.index == std::vector<int64_t>{14, 9, 12, 16});
    CHECK_FALSE(Append(machine, cache, Normal({4, 1, 2, 4}, 99)));
    CHECK(BitEqual(Unsharded(mesh, cache.key), plain.key));
  }
}

TEST_CASE("int8 rows are quantised once, and keep their scales") {
  const SimMesh mesh = SimMeshOf({{"sp", 2}, {"tp", 2}});
  const CacheConfig config{2, 4, 2, 4, Dtype::kI8, 0};
  for (const Spec& spec : {Spec{{}, {"sp"}, {"tp"}}, Spec{{}, {}, {}, {"tp"}},
                           Spec{{"sp"}, {}, {}, {"tp"}}}) {
    Machine machine(mesh);
    KvCache cache = Cache(mesh, config, spec);
    Buffer tokens = Normal({2, 3, 2, 4}, 8);
    std::fill_n(tokens.real.begin() + 8, 4, 0.0f);  // row (0, 1, 0) is zero
    REQUIRE(Append(machine, cache, tokens));
    const Buffer q = Unsharded(mesh, cache.key);
    const Buffer scale = Unsharded(mesh, cache.key_scale);
    const Buffer view =
        Unsharded(mesh, ViewCache(machine, cache, Dtype::kF32).value);
    CHECK(q.shape == Shape{2, 4, 2, 4});
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t r = 0; r < 8; ++r) {  // slots and heads
        const bool written = r < 6;
        std::vector<float> x(4, 0.0f);
        if (written) {
          std::copy_n(tokens.real.begin() + b * 24 + r * 4, 4, x.begin());
        }
        std::vector<int8_t> want(4);
        const float s = QuantizeInt8(x, want);
        CHECK(scale.real[U(b * 8 + r)] == s);
        for (int64_t d = 0; d < 4; ++d) {
          CHECK(q.integers[U((b * 8 + r) * 4 + d)] == want[U(d)]);
          CHECK(view.real[U((b * 8 + r) * 4 + d)] ==
                DequantizeInt8(want[U(d)], s));
        }
      }
    }
    CHECK(scale.real[2] == 0);
  }
}

TEST_CASE("rows whose dim is sharded reduce their scale, and are charged") {
  const SimMesh mesh = SimMeshOf({{"tp", 2}});
  Machine machine(mesh);
  KvCache cache =
      Cache(mesh, {2, 4, 2, 4, Dtype::kI8, 0}, {{}, {}, {}, {"tp"}});
  REQUIRE(Append(machine, cache, Normal({2, 1, 2, 4}, 8)));
  // Two all_reduces of [2, 1, 2] floats: 2 (n-1)/n * 16 bytes each.
  CHECK(machine.ledger().MostSent(Collective::kAllReduce) == 32);
}

TEST_CASE("tokens without a slot are refused and nothing changes") {
  const SimMesh mesh = SimMeshOf({{"sp", 2}});
  Machine machine(mesh);
  LayoutError why;
  KvCache cache = Cache(mesh, {2, 4, 1, 2, Dtype::kF32, 0}, {{}, {"sp"}});
  cache.index = {1, 3};
  const auto append = [&](const Buffer& x,
                          const std::vector<int64_t>& counts = {}) {
    const ShardedTensor tokens = Scatter(mesh, x, {});
    return AppendTokens(machine, cache, tokens, tokens, counts, why);
  };
  CHECK_FALSE(append(Normal({2, 2, 1, 2}, 1)));
  CHECK(why.message == "row 1 writes 2 at position 3 of 4");
  CHECK(why.help == "raise the cache's length or start a new one");
  CHECK_FALSE(append(Normal({2, 2, 1, 2}, 1), {1, 3}));
  CHECK(why.message == "row 1 takes 3 of 2 new tokens");
  CHECK_FALSE(append(Normal({2, 1, 2, 2}, 1)));
  CHECK(why.message ==
        "new tokens [2, 1, 2, 2] and [2, 1, 2, 2] do not fit a cache of "
        "[2, 4, 1, 2]");
  cache.index = {-1, 0};
  CHECK_FALSE(append(Normal({2, 1, 1, 2}, 1)));
  CHECK(why.message == "row 0 is at position -1");
  CHECK(BitEqual(Unsharded(mesh, cache.key),
                 Buffer::Zeros({2, 4, 1, 2}, Dtype::kF32)));
  CHECK_FALSE(MakeCache(mesh, {2, 3, 1, 2, Dtype::kF32, 0}, {{}, {"sp"}}, why));
  CHECK(why.message ==
        "the cache: dimension 1 of [2, 3, 1, 2] does not divide into 2 parts "
        "over \"sp\"");
  CHECK(why.axis == "sp");
  CHECK_FALSE(MakeCache(mesh, {2, 4, 1, 2, Dtype::kF32, 5}, {}, why));
  CHECK(why.message == "a window of 5 does not fit into 4 slots");
  CHECK_FALSE(MakeCache(mesh, {2, 4, 0, 2, Dtype::kF32, 0}, {}, why));
  CHECK(why.message == "a cache of [2, 4, 0, 2] has no room");
  CHECK_FALSE(MakeCache(mesh, {2, 4, 1, 2, Dtype::kI32, 0}, {}, why));
  CHECK(why.message == "a cache cannot hold I32");
}

TEST_CASE("a prefilled row goes into its slot with its length") {
  const SimMesh mesh = SimMeshOf({{"dp", 2}, {"sp", 2}, {"tp", 2}});
  for (Dtype dtype : {Dtype::kF32, Dtype::kI8}) {
    for (int64_t slot = 0; slot < 4; ++slot) {
      Machine machine(mesh);
      KvCache slots =
          Cache(mesh, {4, 8, 2, 2, dtype, 0}, {{"dp"}, {"sp"}, {"tp"}});
      REQUIRE(Append(machine, slots, Normal({4, 6, 2, 2}, 1)));
      const Buffer before = Unsharded(mesh, slots.key);
      KvCache row = Cache(mesh, {1, 8, 2, 2, dtype, 0}, {{}, {"tp", "sp"}});
      REQUIRE(Append(machine, row, Normal({1, 3, 2, 2}, 2)));
      row.start = {1};
      LayoutError why;
      REQUIRE(InsertRow(machine, row, slots, slot, why));
      const Buffer after = Unsharded(mesh, slots.key);
      const Buffer source = Unsharded(mesh, row.key);
      for (int64_t b = 0; b < 4; ++b) {
        CHECK(BitEqual(SliceDim(after, 0, b, 1),
                       b == slot ? source : SliceDim(before, 0, b, 1)));
        CHECK(slots.index[U(b)] == (b == slot ? 3 : 6));
        CHECK(slots.start[U(b)] == (b == slot ? 1 : 0));
      }
      if (dtype == Dtype::kI8) {
        CHECK(BitEqual(SliceDim(Unsharded(mesh, slots.key_scale), 0, slot, 1),
                       Unsharded(mesh, row.key_scale)));
      }
    }
  }
  Machine machine(mesh);
  LayoutError why;
  KvCache slots = Cache(mesh, {4, 8, 2, 2, Dtype::kF32, 0}, {});
  const KvCache row = Cache(mesh, {1, 8, 2, 2, Dtype::kF32, 0}, {});
  CHECK_FALSE(InsertRow(machine, row, slots, 4, why));
  CHECK(why.message == "slot 4 is not among the cache's 4 rows");
  CHECK_FALSE(InsertRow(machine, row, slots, -1, why));
  CHECK_FALSE(InsertRow(machine, slots, slots, 0, why));
  CHECK(why.message ==
        "a row of a cache [4, 8, 2, 2] cannot be inserted into one of "
        "[4, 8, 2, 2]");
}

TEST_CASE(
    "reshards between modes keep every element and cost what formulas give") {
  const SimMesh mesh = SimMeshOf({{"x", 2}, {"y", 2}});
  const CacheConfig config{2, 8, 4, 2, Dtype::kI8, 0};
  const int64_t values = 2 * 8 * 4 * 2, scales = 2 * 8 * 4 * 4;
  const int64_t whole = 2 * (values + scales);  // keys and values
  struct Case {
    Spec from, to;
    Collective kind;
    int64_t most;  // bytes that leave the busiest device
  };
  const Case cases[] = {
      // Every device lacks three quarters of all elements, which are in four
      // shards.
      {{{}, {"x", "y"}}, {}, Collective::kAllGather, whole * 3 / 4},
      {{}, {{}, {"x", "y"}}, Collective::kAllGather, 0},
      // An all_to_all over n = 4 devices sends (F/n)(n-1)/n bytes.
      {{{}, {"x", "y"}},
       {{}, {}, {"x", "y"}},
       Collective::kAllToAll,
       whole / 4 * 3 / 4},
      // Devices 0 and 3 keep their shards; 1 and 2 exchange theirs.
      {{{}, {"x", "y"}}, {{}, {"y", "x"}}, Collective::kPpermute, whole / 4},
  };
  for (const Case& c : cases) {
    Machine machine(mesh);
    KvCache cache = Cache(mesh, config, c.from);
    REQUIRE(Append(machine, cache, Normal({2, 7, 4, 2}, 5)));
    const Buffer key = Unsharded(mesh, cache.key);
    const Buffer scale = Unsharded(mesh, cache.value_scale);
    Machine moving(mesh);
    LayoutError why;
    REQUIRE(MoveCache(moving, cache, c.to, why));
    CHECK(cache.spec() == PadSpec(c.to, 4));
    CHECK(cache.value_scale.spec[1] == cache.spec()[1]);
    CHECK(BitEqual(Unsharded(mesh, cache.key), key));
    CHECK(BitEqual(Unsharded(mesh, cache.value_scale), scale));
    CHECK(moving.ledger().MostSent(c.kind) == c.most);
  }
  Machine machine(mesh);
  KvCache cache = Cache(mesh, config, {});
  LayoutError why;
  CHECK_FALSE(MoveCache(machine, cache, {{}, {"x", "x"}}, why));
  CHECK(why.axis == "x");
}

TEST_CASE("new tokens are resharded to the cache's layout, and charged") {
  const SimMesh mesh = SimMeshOf({{"sp", 2}, {"tp", 2}});
  KvCache cache =
      Cache(mesh, {2, 8, 4, 2, Dtype::kF32, 0}, {{}, {"sp"}, {"tp"}});
  struct Case {
    Spec spec;
    int64_t gathered;  // by the busiest device, key and value
  };
  const int64_t shard = 2 * 4 * 4 * 2 / 4 * 4;  // bytes of [2, 4, 4, 2] / 4
  const Case cases[] = {
      {{}, 0},                // replicated: slicing heads sends nothing
      {{{}, {}, {"tp"}}, 0},  // as the cache takes them
      {{{}, {"sp"}, {"tp"}}, 2 * shard}  // (n-1) b over sp
  };
  for (const Case& c : cases) {
    Machine machine(mesh);
    cache.index = {0, 0};
    const ShardedTensor x = Scatter(mesh, Normal({2, 4, 4, 2}, 1), c.spec);
    LayoutError why;
    REQUIRE(AppendTokens(machine, cache, x, x, {}, why));
    CHECK(machine.ledger().MostSent(Collective::kAllGather) == c.gathered);
    CHECK(machine.ledger().MostSent(Collective::kAllToAll) == 0);
  }
}

TEST_CASE("a rolling cache keeps the window of every query of a chunk") {
  const SimMesh mesh = SimMeshOf({{"sp", 2}});
  for (int64_t n : {1, 2, 3}) {
    const int64_t window = 4;
    const CacheConfig config{1, 6, 1, 1, Dtype::kF32, window};
    Machine machine(mesh);
    KvCache cache = Cache(mesh, config, {{}, {"sp"}});
    CHECK(Unsharded(mesh, cache.positions).integers ==
          std::vector<int32_t>{-1, -1, -1, -1, -1, -1});
    for (int64_t index = 0; index < 18; index += n) {
      Buffer tokens = Buffer::Zeros({1, n, 1, 1}, Dtype::kF32);
      for (int64_t t = 0; t < n; ++t) {
        tokens.real[U(t)] = static_cast<float>(index + t);
      }
      REQUIRE(Append(machine, cache, tokens));
      const Buffer positions = Unsharded(mesh, cache.positions);
      const Buffer key = Unsharded(mesh, cache.key);
      for (int64_t query = index; query < index + n; ++query) {
        for (int64_t p = std::max<int64_t>(0, query - window + 1); p <= query;
             ++p) {
          CHECK(positions.integers[U(p % 6)] == p);
          CHECK(key.real[U(p % 6)] == static_cast<float>(p));
        }
      }
    }
  }
  Machine machine(mesh);
  KvCache cache = Cache(mesh, {1, 6, 1, 1, Dtype::kF32, 4}, {{}, {"sp"}});
  const ShardedTensor x =
      Scatter(mesh, Buffer::Zeros({1, 4, 1, 1}, Dtype::kF32), {});
  LayoutError why;
  CHECK_FALSE(AppendTokens(machine, cache, x, x, {}, why));
  CHECK(why.message ==
        "a window of 4 and 4 new tokens need 7 slots, the cache has 6");
}

// Returns all that a program can read from a cache.
std::vector<Buffer> Seen(const Machine& machine, const KvCache& cache) {
  const CacheView view = ViewCache(machine, cache, Dtype::kF32);
  std::vector<Buffer> out;
  for (const ShardedTensor* t : {&view.key, &view.value}) {
    out.insert(out.end(), t->local.begin(), t->local.end());
  }
  if (cache.Rolls()) {
    out.insert(out.end(), view.positions.local.begin(),
               view.positions.local.end());
  }
  Buffer lengths = Buffer::Zeros({cache.config.batch, 2}, Dtype::kI32);
  for (int64_t b = 0; b < cache.config.batch; ++b) {
    lengths.integers[U(2 * b)] = static_cast<int32_t>(view.lengths[U(b)]);
    lengths.integers[U(2 * b + 1)] = static_cast<int32_t>(view.starts[U(b)]);
  }
  out.push_back(lengths);
  return out;
}

std::vector<Buffer> Trace(Fault fault, Dtype dtype, int64_t window) {
  const SimMesh mesh = SimMeshOf({{"x", 2}, {"y", 2}});
  Machine machine(mesh, 1, verify::InjectionOf(fault).seams);
  KvCache slots = Cache(mesh, {2, 8, 2, 2, dtype, window}, {{}, {"x", "y"}});
  KvCache row = Cache(mesh, {1, 8, 2, 2, dtype, window}, {{}, {"x", "y"}});
  Buffer tokens = Normal({1, 3, 2, 2}, 4);
  tokens.real[0] = 9;                             // +max of its row
  std::fill_n(tokens.real.begin() + 4, 2, 0.0f);  // a zero row
  REQUIRE(Append(machine, row, tokens));
  LayoutError why;
  REQUIRE(InsertRow(machine, row, slots, 1, why));
  const int steps = window > 0 ? 9 : 3;
  for (int step = 0; step < steps; ++step) {
    REQUIRE(Append(machine, slots, Normal({2, 1, 2, 2}, 20)));
  }
  REQUIRE(MoveCache(machine, slots, {{}, {"y", "x"}}, why));
  return Seen(machine, slots);
}

TEST_CASE("every injected fault changes the cache") {
  const auto differs = [](Fault fault, Dtype dtype, int64_t window) {
    const auto a = Trace(Fault::kNone, dtype, window);
    const auto b = Trace(fault, dtype, window);
    for (size_t i = 0; i < a.size(); ++i) {
      if (!BitEqual(a[i], b[i])) return true;
    }
    return false;
  };
  for (Fault fault :
       {Fault::kCacheOwnerOff, Fault::kCacheAllWrite,
        Fault::kCacheRankZeroWrites, Fault::kCacheIndexPlusOne,
        Fault::kCacheIndexByOne, Fault::kCacheStaleRows, Fault::kCacheSlotOff,
        Fault::kCacheInsertKeepsLength, Fault::kCacheMoveSkipped}) {
    CAPTURE(static_cast<int>(fault));
    CHECK(differs(fault, Dtype::kF32, 0));
  }
  for (Fault fault : {Fault::kCacheNeighbourScale, Fault::kCacheFirstScale,
                      Fault::kCacheUneven127, Fault::kCachePositiveWraps,
                      Fault::kCacheZeroRowDivides}) {
    CAPTURE(static_cast<int>(fault));
    CHECK(differs(fault, Dtype::kI8, 0));
  }
  for (Fault fault :
       {Fault::kRollingCapacityIsWindow, Fault::kRollingSlotAsPosition}) {
    CAPTURE(static_cast<int>(fault));
    CHECK(differs(fault, Dtype::kF32, 5));
  }
  // With this fault, writing past the end of the cache is not an error.
  const SimMesh mesh = SimMeshOf({{"x", 2}});
  Machine machine(mesh, 1,
                  verify::InjectionOf(Fault::kCacheOverflowClamped).seams);
  KvCache cache = Cache(mesh, {1, 4, 1, 1, Dtype::kF32, 0}, {{}, {"x"}});
  CHECK(Append(machine, cache, Normal({1, 5, 1, 1}, 1)));
}

TEST_CASE("a lent cache is viewed without a copy, and is returned") {
  const SimMesh mesh = SimMeshOf({{"dp", 2}, {"sp", 2}});
  Machine machine(mesh);
  for (const Dtype stored : {Dtype::kF32, Dtype::kBF16, Dtype::kI8}) {
    for (const Dtype seen : {Dtype::kF32, Dtype::kBF16}) {
      LayoutError why;
      auto cache =
          MakeCache(mesh, {2, 8, 2, 4, stored, 0}, {{"dp"}, {"sp"}}, why);
      REQUIRE(cache);
      Buffer tokens = Buffer::Zeros({2, 3, 2, 4}, Dtype::kF32);
      for (size_t i = 0; i < tokens.real.size(); ++i) {
        tokens.real[i] = static_cast<float>(i) / 7;
      }
      const ShardedTensor sharded = Scatter(mesh, tokens, {{"dp"}});
      REQUIRE(AppendTokens(machine, *cache, sharded, sharded, {}, why));
      const CacheView copied = ViewCache(machine, *cache, seen);
      const KvCache before = *cache;
      CacheView lent = LendCache(machine, *cache, seen);
      CHECK(lent.lent ==
            (stored != Dtype::kI8 && (seen == stored || seen == Dtype::kF32)));
      CHECK(lent.lengths == copied.lengths);
      for (const ShardedTensor* part : {&copied.key, &copied.value}) {
        for (const Buffer& local : part->local) {
          for (float x : local.real) CHECK(RoundTo(seen, x) == x);
        }
      }
      for (size_t d = 0; d < copied.key.local.size(); ++d) {
        CHECK(BitEqual(lent.key.local[d], copied.key.local[d]));
        CHECK(BitEqual(lent.value.local[d], copied.value.local[d]));
      }
      ReturnCache(std::move(lent), *cache);
      CHECK(cache->key.dtype == stored);
      for (size_t d = 0; d < copied.key.local.size(); ++d) {
        CHECK(BitEqual(cache->key.local[d], before.key.local[d]));
        CHECK(BitEqual(cache->value.local[d], before.value.local[d]));
      }
    }
  }
}

}  // namespace
}  // namespace shardc::exec
