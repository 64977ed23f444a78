#include "comm/collective.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace shardc {
namespace {

TEST_CASE("collectives have the names that ledgers and JSON print") {
  CHECK(CollectiveName(Collective::kAllGather) == "all_gather");
  CHECK(CollectiveName(Collective::kReduceScatter) == "reduce_scatter");
  CHECK(CollectiveName(Collective::kAllReduce) == "all_reduce");
  CHECK(CollectiveName(Collective::kAllToAll) == "all_to_all");
  CHECK(CollectiveName(Collective::kPpermute) == "ppermute");
  CHECK(CollectiveName(Collective::kBroadcast) == "broadcast");
}

TEST_CASE(
    "each device sends F (n-1)/n of F bytes, and twice that in an all_reduce") {
  for (int64_t n : {1, 2, 3, 4, 8, 16}) {
    CAPTURE(n);
    const int64_t whole = 48 * n, share = 48;
    CHECK(AllGatherSent(share, n) == whole - share);
    CHECK(RingPassSent(share, n) == whole - share);
    CHECK(AllToAllSent(whole, n) == whole - share);
    for (int64_t i = 0; i < n; ++i) {
      CHECK(ReduceScatterSent(whole / 4, 4, n, i) == whole - share);
      CHECK(AllReduceSent(whole / 4, 4, n, i) == 2 * (whole - share));
    }
  }
}

TEST_CASE(
    "the busiest member of a record sends what its members send at most") {
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    const CollectiveDef& of = DefOf(static_cast<Collective>(i));
    CAPTURE(of.name);
    CHECK(static_cast<size_t>(of.kind) == i);
    for (int64_t n = 2; n <= 7; ++n) {
      for (int64_t elements = 0; elements <= 23; ++elements) {
        int64_t most = 0;
        for (int64_t member = 0; member < n; ++member) {
          most = std::max(most, of.member_sent(elements, 2, n, member));
        }
        CHECK(most == of.busiest_sent(elements, 2, n));
        CHECK(most == BusiestSent(of.kind, elements, 2, n));
      }
    }
  }
}

TEST_CASE("each name and each opcode of XLA belongs to one collective") {
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    const CollectiveDef& of = DefOf(static_cast<Collective>(i));
    CAPTURE(of.name);
    CHECK(FindCollective(of.name) == of.kind);
    CHECK(!of.opcodes[0].name.empty());
    for (const XlaOpcode& opcode : of.opcodes) {
      if (opcode.name.empty()) continue;
      const auto found = FindOpcode(opcode.name);
      REQUIRE(found);
      CHECK(found->kind == of.kind);
      CHECK(found->opcode == &opcode);
    }
  }
  CHECK(FindOpcode("ragged-all-to-all")->opcode->at_most);
  CHECK(!FindOpcode("all-to-all")->opcode->at_most);
  CHECK(!FindOpcode(""));
  CHECK(!FindOpcode("all_gather"));
  CHECK(!FindCollective("all-gather"));
  CHECK(!FindCollective(""));
}

TEST_CASE("the bytes of a compiled program's collectives, by hand") {
  // 10 elements of 4 bytes. A broadcast is a ring of chunks, and a permute
  // sends along each edge.
  CHECK(CompiledSent(Collective::kBroadcast, 10, 4, 4, 0) == 3 * 10);
  CHECK(CompiledSent(Collective::kBroadcast, 10, 4, 1, 0) == 0);
  CHECK(CompiledSent(Collective::kPpermute, 10, 4, 2, 3) == 3 * 40);
  CHECK(CompiledSent(Collective::kPpermute, 10, 4, 1, 0) == 0);
  CHECK(CompiledSent(Collective::kPpermute, INT64_MAX / 8, 4, 2, 3) ==
        INT64_MAX);
  for (const Collective kind :
       {Collective::kAllGather, Collective::kReduceScatter,
        Collective::kAllReduce, Collective::kAllToAll}) {
    CHECK(CompiledSent(kind, 10, 4, 4, 0) == BusiestSent(kind, 10, 4, 4));
    CHECK(CompiledSent(kind, 10, 4, 1, 0) == 0);
  }
}

TEST_CASE("bytes that do not fit 64 bits are reported as INT64_MAX") {
  const int64_t large = int64_t{1} << 61;
  CHECK(AllGatherSent(large, 8) == INT64_MAX);
  CHECK(RingPassSent(large, 8) == INT64_MAX);
  CHECK(ReduceScatterSent(large, 8, 4, 0) == INT64_MAX);
  CHECK(AllReduceSent(large, 8, 4, 0) == INT64_MAX);
  CHECK(AllToAllSent(INT64_MAX, 8) == INT64_MAX);
  CHECK(ChunkElements(large, 64, 63) == large / 64);
}

// From a publication: with V = 2 s b h = 50331648 bytes in a group of 8, each
// device sends 88080384 bytes.
TEST_CASE("the all_reduce of one tensor-parallel layer of a 175B model") {
  const int64_t elements = int64_t{2048} * 12288;
  CHECK(AllReduceSent(elements, 2, 8, 0) == 88080384);
}

// Simulates a ring all_reduce chunk by chunk, and counts the elements that each
// member sends.
TEST_CASE("an all_reduce of uneven chunks sends what a ring sends") {
  for (int64_t n = 2; n <= 9; ++n) {
    for (int64_t elements = 0; elements <= 23; ++elements) {
      std::vector<int64_t> sent(static_cast<size_t>(n), 0);
      const auto chunk = [&](int64_t j) {
        return ChunkElements(elements, n, ((j % n) + n) % n);
      };
      for (int64_t t = 0; t + 1 < n; ++t) {
        for (int64_t i = 0; i < n; ++i) {
          // In step t of the reduction member i sends chunk i - t, and in the
          // end it has the sum of chunk i + 1. In step t of the gather it sends
          // chunk i + 1 - t.
          sent[static_cast<size_t>(i)] += chunk(i - t) + chunk(i + 1 - t);
        }
      }
      int64_t total = 0;
      for (int64_t i = 0; i < n; ++i) {
        CHECK(sent[static_cast<size_t>(i)] == AllReduceSent(elements, 1, n, i));
        total += sent[static_cast<size_t>(i)];
      }
      CHECK(total == 2 * elements * (n - 1));
    }
  }
}

TEST_CASE("the bytes of the members add up to the bytes of the group") {
  for (int64_t n = 1; n <= 7; ++n) {
    for (int64_t elements : {0, 1, 5, 12, 100}) {
      int64_t scattered = 0, reduced = 0, chunks = 0;
      for (int64_t i = 0; i < n; ++i) {
        scattered += ReduceScatterSent(elements, 4, n, i);
        reduced += AllReduceSent(elements, 4, n, i);
        chunks += ChunkElements(elements, n, i);
      }
      CHECK(chunks == elements);
      CHECK(scattered == elements * 4 * (n - 1));
      CHECK(reduced == 2 * elements * 4 * (n - 1));
    }
  }
}

TEST_CASE("BusiestSent is the maximum over the members") {
  for (int64_t n = 2; n <= 24; ++n) {
    for (int64_t elements = 0; elements <= 80; ++elements) {
      int64_t scattered = 0, reduced = 0;
      for (int64_t i = 0; i < n; ++i) {
        scattered = std::max(scattered, ReduceScatterSent(elements, 4, n, i));
        reduced = std::max(reduced, AllReduceSent(elements, 4, n, i));
      }
      CAPTURE(n);
      CAPTURE(elements);
      CHECK(BusiestSent(Collective::kReduceScatter, elements, 4, n) ==
            scattered);
      CHECK(BusiestSent(Collective::kAllReduce, elements, 4, n) == reduced);
    }
  }
}

TEST_CASE("the busiest member's bytes of each collective, by hand") {
  struct Case {
    Collective kind;
    int64_t n, expected;
  };
  // 10 elements of 4 bytes: chunks of 2, 3, 2 and 3 over four members.
  const std::vector<Case> cases = {
      {Collective::kAllGather, 4, 3 * 40},
      {Collective::kAllToAll, 4, 3 * 10},
      {Collective::kPpermute, 4, 40},
      {Collective::kBroadcast, 4, 40},
      {Collective::kReduceScatter, 4, (10 - 2) * 4},
      {Collective::kAllReduce, 4, (20 - 2 - 3) * 4},
      {Collective::kAllGather, 2, 40},
      {Collective::kAllToAll, 2, 20},
      {Collective::kReduceScatter, 2, 20},
      {Collective::kAllReduce, 2, 40},
      {Collective::kAllGather, 1, 0},
      {Collective::kPpermute, 1, 0},
  };
  for (const Case& c : cases) {
    CAPTURE(c.kind);
    CAPTURE(c.n);
    CHECK(BusiestSent(c.kind, 10, 4, c.n) == c.expected);
  }
}

TEST_CASE("BusiestSent takes constant time for any group size") {
  constexpr int64_t kMost = INT64_MAX;
  for (const Collective kind :
       {Collective::kAllGather, Collective::kReduceScatter,
        Collective::kAllReduce, Collective::kAllToAll}) {
    CHECK(BusiestSent(kind, 4096, 2, (int64_t{1} << 26) + 1) >= 0);
    CHECK(BusiestSent(kind, kMost / 8, 8, kMost) >= 0);
    CHECK(BusiestSent(kind, kMost, 8, 3) >= 0);
  }
}

}  // namespace
}  // namespace shardc
