// Handovers between random layouts are those of one cache, and each fault of a
// map is detected.
#include "verify/kv/handover.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "complete.h"
#include "draws.h"
#include "kv/layouts.h"

namespace shardc::verify {
namespace {

using kv::Case;
using kv::Draw;

// A case with its plans, to which the request points.
struct Sides {
  Case test;
  ReadPlan from, to;
  HandoverRequest request;
  // The number of copies that a fault has changed.
  std::shared_ptr<int64_t> changed = std::make_shared<int64_t>(0);

  explicit Sides(Case given) : test(std::move(given)) {
    from = kv::PlanOf(test.from, test.kinds);
    to = kv::PlanOf(test.to, test.kinds);
    Findings findings;
    std::vector<std::string> refused;
    request.from = {&from, test.kinds,
                    kv::SideOf(from, test.kinds, test.from.settings, "source",
                               refused, findings)
                        .value()};
    request.to = {&to, test.kinds,
                  kv::SideOf(to, test.kinds, test.to.settings, "destination",
                             refused, findings)
                      .value()};
    REQUIRE(refused.empty());
    request.settings = test.settings;
  }

  Handover Run() const {
    Findings findings;
    auto out = RunHandover(request, findings);
    REQUIRE(findings.empty());
    return std::move(out.value());
  }
};

// Returns a random case whose meshes have few devices.
Case SmallCase(Draws& draws) {
  Case out;
  do {
    out = kv::RandomCase(draws);
  } while (out.from.Devices() > 24 || out.to.Devices() > 24);
  // A state has the inputs of its convolution.
  if (out.kinds.back().is.kind == KvKindName::kState) {
    kv::Kind conv = out.kinds.back();
    conv.is.value_dim = 0;
    conv.is.window = Draw(draws, 1, 3);
    for (const KvKindName name :
         {KvKindName::kConvKey, KvKindName::kConvValue}) {
      conv.is.kind = name;
      out.kinds.push_back(conv);
    }
    // Attention is in other layers than the states.
    for (kv::Kind& kind : out.kinds) {
      const bool state = !kind.IsPaged();
      const int64_t end = kind.is.layers.back().end;
      kind.is.layers = {state ? LayerRange{0, (end + 1) / 2}
                              : LayerRange{(end + 1) / 2, end + 1}};
    }
    out.from.ends.back() = out.to.ends.back() = out.kinds[0].is.layers[0].end;
  } else if (out.kinds.back().IsReplicated() && draws() % 2 == 0) {
    kv::Kind indexer = out.kinds.back();
    indexer.is.kind = KvKindName::kIndexer;
    out.kinds.push_back(indexer);
  }
  constexpr Dtype kDtypes[] = {Dtype::kF64, Dtype::kBF16, Dtype::kI8,
                               Dtype::kF8E4M3, Dtype::kF32};
  const auto dtype = [&] {
    const Dtype one = kDtypes[draws() % std::size(kDtypes)];
    return one == Dtype::kI8 && out.kinds.back().is.kind == KvKindName::kIndexer
               ? Dtype::kF16
               : one;
  };
  out.from.settings.dtype = dtype();
  out.settings.convert = draws() % 3 == 0;
  out.to.settings.dtype =
      out.settings.convert ? dtype() : out.from.settings.dtype;
  out.from.settings.joint = draws() % 2 == 0;
  out.to.settings.joint = draws() % 2 == 0;
  return out;
}

TEST_CASE("random handovers compute what one cache computes") {
  const uint64_t cases = RunsAllCases() ? 550 : 180;
  int64_t exact = 0, states = 0, sharded = 0, scaled = 0;
  for (uint64_t seed = 0; seed < cases; ++seed) {
    Draws draws(seed);
    const Sides sides(SmallCase(draws));
    CAPTURE(seed);
    const Handover run = sides.Run();
    CAPTURE(run.faults.first);
    REQUIRE(run.faults.count == 0);
    REQUIRE(run.Complete());
    REQUIRE_FALSE(run.Differs());
    REQUIRE(run.rows > 0);
    REQUIRE(run.tokens == sides.test.tokens);
    exact += run.allowed == 1e-12 ? 1 : 0;
    states += sides.test.kinds.size() > 2 ? 1 : 0;
    sharded += sides.test.from.cp > 1 && sides.test.to.cp > 1 ? 1 : 0;
    scaled += sides.test.to.settings.dtype == Dtype::kI8 ? 1 : 0;
  }
  // The bounds are for 550 cases.
  const auto of_550 = [&](int64_t count) {
    return count * 550 / static_cast<int64_t>(cases);
  };
  CHECK(of_550(exact) > 100);
  CHECK(of_550(states) > 30);
  CHECK(of_550(sharded) > 30);
  CHECK(of_550(scaled) > 60);
}

TEST_CASE("reduced sizes keep several pages and a partial last page") {
  Draws draws(1);
  int64_t runs = 0;
  for (const auto& [from, to] :
       {std::pair<int64_t, int64_t>{64, 16}, {64, 64}, {48, 64}, {128, 1}}) {
    for (const std::optional<int64_t> tokens :
         {std::optional<int64_t>(), std::optional<int64_t>(8192)}) {
      Case test = SmallCase(draws);
      test.from.settings.page = from;
      test.to.settings.page = to;
      test.settings.tokens = tokens;
      test.settings.replicas = kv::Replicas::kByDestination;
      const Sides sides(test);
      const Handover run = sides.Run();
      CAPTURE(run.faults.first);
      CHECK_FALSE(run.Differs());
      for (const kv::SideSettings* side : {&run.from, &run.to}) {
        CHECK(run.tokens > 2 * *side->page);
        CHECK((*side->page == 1 || run.tokens % *side->page != 0));
      }
      CHECK(*run.from.page * to == *run.to.page * from);
      ++runs;
    }
  }
  CHECK(runs == 8);
}

// A fault of a map, or of the copies by it. `inject` returns false if the case
// cannot have it. Silent faults read and write rows that exist, each once: only
// the numbers show them.
struct Fault {
  std::string_view name;
  bool silent = false;
  std::function<bool(Sides&, Draws&)> inject;
};

// Changes a piece of a kind that keeps all tokens. A token that leaves the
// window at the first decoded token is never read again.
bool ChangePiece(
    Sides& sides, Draws& draws,
    const std::function<void(kv::Map&, kv::Pair&, kv::Piece&)>& change) {
  const uint64_t drawn = draws();
  sides.request.seam.map = [drawn, change](kv::Map& map) {
    kv::Pair& pair = map.pairs[drawn % map.pairs.size()];
    change(map, pair, pair.pieces[drawn / 8 % pair.pieces.size()]);
  };
  return true;
}

bool ChangeRows(
    Sides& sides,
    const std::function<void(const kv::Piece&, CopiedRow&)>& change) {
  if (sides.test.kinds[0].is.window > 0) return false;
  const auto changed = sides.changed;
  sides.request.seam.row = [=](const kv::Piece& piece, CopiedRow& row) {
    const CopiedRow before = row;
    if (piece.kind == 0) change(piece, row);
    if (row != before) ++*changed;
  };
  return true;
}

int64_t LocalHeads(const kv::Side& side, const Case& test) {
  return test.kinds[0].is.heads / side.head_parts[0];
}

const std::vector<Fault>& AllFaults() {
  static const std::vector<Fault> kFaults = {
      {"wrong head of the source", false,
       [](Sides& sides, Draws& draws) {
         return ChangePiece(sides, draws, [](kv::Map&, kv::Pair&, auto& piece) {
           ++piece.from_head;
         });
       }},
      {"wrong head of the destination", false,
       [](Sides& sides, Draws& draws) {
         return ChangePiece(sides, draws, [](kv::Map&, kv::Pair&, auto& piece) {
           ++piece.to_head;
         });
       }},
      {"wrong layers", false,
       [](Sides& sides, Draws& draws) {
         return ChangePiece(sides, draws, [](kv::Map&, kv::Pair&, auto& piece) {
           ++piece.layers.back().first;
           ++piece.layers.back().end;
         });
       }},
      {"a piece is left out", false,
       [](Sides& sides, Draws& draws) {
         return ChangePiece(sides, draws,
                            [](kv::Map&, kv::Pair& pair, kv::Piece& piece) {
                              pair.pieces.erase(pair.pieces.begin() +
                                                (&piece - pair.pieces.data()));
                            });
       }},
      {"a piece is sent to another place too", false,
       [](Sides& sides, Draws& draws) {
         return ChangePiece(sides, draws,
                            [](kv::Map&, kv::Pair& pair, kv::Piece& piece) {
                              kv::Piece other = piece;
                              ++other.to_head;
                              pair.pieces.insert(pair.pieces.begin(), other);
                            });
       }},
      {"a piece is sent twice", false,
       [](Sides& sides, Draws& draws) {
         return ChangePiece(sides, draws,
                            [](kv::Map&, kv::Pair& pair, kv::Piece& piece) {
                              pair.pieces.push_back(kv::Piece(piece));
                            });
       }},
      {"tokens end one too early", false,
       [](Sides& sides, Draws& draws) {
         // A range of sharded tokens may end between the tokens of a part.
         if (sides.test.from.cp * sides.test.to.cp > 1) return false;
         return ChangePiece(sides, draws, [](kv::Map&, kv::Pair&, auto& piece) {
           --piece.range.end;
         });
       }},
      {"tokens begin one too early", false,
       [](Sides& sides, Draws& draws) {
         if (sides.test.from.cp * sides.test.to.cp > 1) return false;
         return ChangePiece(sides, draws, [](kv::Map&, kv::Pair&, auto& piece) {
           piece.range = {piece.range.first + 1, piece.range.end + 1};
         });
       }},
      {"another device of the source", false,
       [](Sides& sides, Draws& draws) {
         return ChangePiece(sides, draws, [](kv::Map&, kv::Pair& pair, auto&) {
           pair.from = 1'000'000;
         });
       }},
      {"pages of the destination are shifted", false,
       [](Sides& sides, Draws&) {
         return ChangeRows(sides, [](const kv::Piece&, CopiedRow& row) {
           ++row.written.page;
         });
       }},
      {"pages of the source are exchanged", true,
       [](Sides& sides, Draws&) {
         // Both pages are complete.
         if (sides.test.from.cp > 1 ||
             sides.test.tokens < 2 * *sides.test.from.settings.page) {
           return false;
         }
         return ChangeRows(sides, [](const kv::Piece&, CopiedRow& row) {
           if (row.read.page < 2) row.read.page = 1 - row.read.page;
         });
       }},
      {"the order of the destination is taken for the other", false,
       [](Sides& sides, Draws&) {
         if (LocalHeads(sides.request.to.side, sides.test) == 1 ||
             *sides.test.to.settings.page == 1 || sides.test.tokens == 1) {
           return false;
         }
         return ChangeRows(sides, [](const kv::Piece&, CopiedRow& row) {
           row.written.order = row.written.order == kv::Order::kHnd
                                   ? kv::Order::kNhd
                                   : kv::Order::kHnd;
         });
       }},
      {"the order of the source is taken for the other", false,
       [](Sides& sides, Draws&) {
         if (LocalHeads(sides.request.from.side, sides.test) == 1 ||
             *sides.test.from.settings.page == 1 || sides.test.tokens == 1) {
           return false;
         }
         return ChangeRows(sides, [](const kv::Piece&, CopiedRow& row) {
           row.read.order = row.read.order == kv::Order::kHnd ? kv::Order::kNhd
                                                              : kv::Order::kHnd;
         });
       }},
      {"heads of the source in reverse order", true,
       [](Sides& sides, Draws&) {
         const int64_t heads = LocalHeads(sides.request.from.side, sides.test);
         if (heads == 1) return false;
         return ChangeRows(sides, [heads](const kv::Piece&, CopiedRow& row) {
           row.read.head = heads - 1 - row.read.head;
         });
       }},
      {"layers by their position in a stage", true,
       [](Sides& sides, Draws&) {
         const auto& layers = sides.test.kinds[0].is.layers;
         if (sides.test.from.pp > 1 || kv::CountOf(layers) == 1) return false;
         const int64_t first = layers.front().first;
         return ChangeRows(sides, [first](const kv::Piece&, CopiedRow& row) {
           row.from_layer = first;
         });
       }},
      {"the first token for all tokens", true,
       [](Sides& sides, Draws&) {
         if (sides.test.from.cp > 1 || sides.test.tokens == 1) return false;
         return ChangeRows(sides, [](const kv::Piece&, CopiedRow& row) {
           row.read.page = row.read.offset = 0;
         });
       }},
      {"one device of the destination has stale rows", true,
       [](Sides& sides, Draws& draws) {
         if (sides.test.from.cp > 1 || sides.test.tokens < 3) return false;
         const auto& holders = sides.request.to.side.holders;
         const int64_t device = holders[draws() % holders.size()].device;
         const int64_t page = *sides.test.from.settings.page;
         // Each token is that of the step before.
         return ChangeRows(
             sides, [device, page](const kv::Piece&, CopiedRow& row) {
               const int64_t token = row.read.page * page + row.read.offset;
               if (row.to != device || token == 0) return;
               row.read.page = (token - 1) / page;
               row.read.offset = (token - 1) % page;
             });
       }},
  };
  return kFaults;
}

TEST_CASE("each fault of a map is detected") {
  for (const Fault& fault : AllFaults()) {
    CAPTURE(fault.name);
    int64_t injected = 0;
    const int64_t most = RunsAllCases() ? 36 : 8;
    for (uint64_t seed = 0; seed < 36 && injected < most; ++seed) {
      Draws draws(seed);
      Sides sides(SmallCase(draws));
      CAPTURE(seed);
      if (!fault.inject(sides, draws)) continue;
      const Handover run = sides.Run();
      // The drawn device may have no layers of the kind.
      if (sides.request.seam.row && *sides.changed == 0) continue;
      ++injected;
      CHECK(run.Differs());
      // Read rows exist and each place is written once: the numbers differ.
      if (fault.silent && run.faults.count == 0) {
        CHECK(run.decode_error.value_or(1) > 1e-5);
        CHECK(run.layer.has_value());
      }
    }
    CHECK(injected >= 6);
  }
}

TEST_CASE("silent faults of a plain layout are seen in the numbers alone") {
  Case test;
  kv::Kind full;
  full.is = {.layers = {{0, 3}}, .heads = 4, .head_dim = 8};
  test.kinds = {full};
  test.tokens = 10;
  test.settings.tokens = 10;
  test.from.tp = 2;
  test.to.tp = 4;
  test.from.ends = test.to.ends = {3};
  test.from.settings.page = 4;
  test.from.settings.order = kv::Order::kHnd;
  test.to.settings.page = 3;
  test.to.settings.order = kv::Order::kNhd;
  int64_t silent = 0;
  for (const Fault& fault : AllFaults()) {
    if (!fault.silent) continue;
    Draws draws(5);
    Sides sides(test);
    CAPTURE(fault.name);
    REQUIRE(fault.inject(sides, draws));
    const Handover run = sides.Run();
    CHECK(run.faults.count == 0);
    CHECK(run.prefill_error.value_or(1) <= run.allowed);
    CHECK(run.decode_error.value_or(0) > 1e-3);
    ++silent;
  }
  CHECK(silent == 5);
  CHECK_FALSE(Sides(test).Run().Differs());
}

TEST_CASE("specs without common factors cannot be run") {
  Case test;
  kv::Kind full;
  full.is = {.layers = {{0, 1}}, .heads = 12, .head_dim = 8};
  test.kinds = {full};
  test.settings.tokens = test.tokens = 5;
  test.from.tp = 12;
  test.from.ends = test.to.ends = {1};
  Sides sides(test);
  sides.from.attention = {{Mode::kPrefill, "query", {{}, {}, {"t:(1)4"}, {}}},
                          {Mode::kPrefill, "key", {{}, {}, {"t:(1)6"}, {}}}};
  Findings findings;
  CHECK_FALSE(RunHandover(sides.request, findings).has_value());
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all().front().message ==
        "the specs of attention divide an axis in two ways that have no common "
        "factors");
}

TEST_CASE("kinds that cannot be run are named") {
  Case test;
  kv::Kind full, state;
  full.is = {.layers = {{0, 1}}, .heads = 2, .head_dim = 8};
  state.is = {.kind = KvKindName::kState,
              .layers = {{1, 2}},
              .heads = 2,
              .head_dim = 4,
              .value_dim = 4};
  test.kinds = {full, state};
  test.tokens = 5;
  test.settings.tokens = 5;
  test.from.ends = test.to.ends = {2};
  const Handover run = Sides(test).Run();
  CHECK_FALSE(run.Differs());
  CHECK_FALSE(run.Complete());
  CHECK(run.kinds[0].not_run == "");
  CHECK(run.kinds[1].not_run == "the inputs of its convolution are not known");
  test.kinds = {state};
  CHECK(Sides(test).Run().NothingRan());
}

}  // namespace
}  // namespace shardc::verify
