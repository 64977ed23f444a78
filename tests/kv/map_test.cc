// The map of a cache is compared with a copy of every number of small caches.
// The test places layers, heads and tokens on devices and in pages by formulas
// of its own (layouts.h).
#include "kv/map.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "draws.h"
#include "kv/layouts.h"
#include "kv/side.h"

namespace shardc::kv {
namespace {

// The address of a number's head and token in the pages of a layer.
int64_t Address(const SideSettings& settings, int64_t heads, int64_t head,
                int64_t token) {
  const int64_t page = *settings.page;
  const int64_t in_page = *settings.order == Order::kHnd
                              ? head * page + token % page
                              : token % page * heads + head;
  return token / page * page * heads + in_page;
}

// Identifies a number: layer, head and token.
using Element = std::array<int64_t, 3>;
// What a device has of one kind, by layer and address.
using Memory = std::map<std::pair<int64_t, int64_t>, Element>;

Memory MemoryOf(const Layout& layout, const Kind& kind, int64_t device,
                int64_t tokens, bool paged) {
  Memory out;
  const auto [first, end] =
      layout.Heads(device, kind.is.heads, kind.IsReplicated());
  const bool state = kind.is.kind == KvKindName::kState;
  const int64_t length = state ? 1 : tokens;
  const int64_t begin = length - kind.Kept(tokens);
  for (const LayerRange& range : kind.is.layers) {
    for (int64_t layer = range.first; layer < range.end; ++layer) {
      if (!layout.HasLayer(device, layer)) continue;
      for (int64_t t = begin; t < length; ++t) {
        const auto place = layout.Token(t, tokens);
        if (place.first != layout.At(device, 'c')) continue;
        for (int64_t h = first; h < end; ++h) {
          const int64_t address = paged ? Address(layout.settings, end - first,
                                                  h - first, place.second)
                                        : h - first;
          out[{layer, address}] = {layer, h, t};
        }
      }
    }
  }
  return out;
}

// Copies what a piece states from the memory of one device to that of another.
// Returns the number of ranges of addresses that are consecutive on both sides,
// in one page. Counts numbers that were there already in `twice`.
int64_t Copy(const Layout& from, const Layout& to, const Kind& kind,
             const Pair& pair, const Piece& piece, int64_t tokens,
             const Memory& source, Memory& destination, int64_t& twice) {
  const bool latent = kind.IsReplicated();
  const auto a = from.Heads(pair.from, kind.is.heads, latent);
  const auto b = to.Heads(pair.to, kind.is.heads, latent);
  int64_t runs = 0;
  for (const LayerRange& range : piece.layers) {
    for (int64_t layer = range.first; layer < range.end; ++layer) {
      std::vector<std::pair<int64_t, int64_t>> addresses;
      for (int64_t t = piece.range.first; t < piece.range.end; ++t) {
        const auto p = from.Token(t, tokens), q = to.Token(t, tokens);
        if (p.first != from.At(pair.from, 'c') ||
            q.first != to.At(pair.to, 'c')) {
          continue;
        }
        for (int64_t h = 0; h < piece.heads.count(); ++h) {
          const int64_t from_head = piece.from_head + h;
          const int64_t to_head = piece.to_head + h;
          addresses.emplace_back(
              kind.IsPaged() ? Address(from.settings, a.second - a.first,
                                       from_head, p.second)
                             : from_head,
              kind.IsPaged()
                  ? Address(to.settings, b.second - b.first, to_head, q.second)
                  : to_head);
        }
      }
      std::sort(addresses.begin(), addresses.end());
      const int64_t from_page = *from.settings.page * (a.second - a.first);
      const int64_t to_page = *to.settings.page * (b.second - b.first);
      for (size_t i = 0; i < addresses.size(); ++i) {
        const auto [x, y] = addresses[i];
        const bool joins = i > 0 && addresses[i - 1].first + 1 == x &&
                           addresses[i - 1].second + 1 == y &&
                           x % from_page != 0 && y % to_page != 0;
        if (!joins) ++runs;
        const auto found = source.find({layer, x});
        if (found == source.end()) {
          ++twice;  // The source does not have it.
          continue;
        }
        const bool fresh =
            destination.emplace(std::pair(layer, y), found->second).second;
        if (!fresh) ++twice;
      }
    }
  }
  return runs;
}

struct Made {
  Side from, to;
  Map map;
};

Made Make(const Case& one) {
  Findings findings;
  std::vector<std::string> refused;
  Made out;
  out.from = SideOf(PlanOf(one.from, one.kinds), one.kinds, one.from.settings,
                    "source", refused, findings)
                 .value();
  out.to = SideOf(PlanOf(one.to, one.kinds), one.kinds, one.to.settings,
                  "destination", refused, findings)
               .value();
  REQUIRE(refused.empty());
  out.map =
      MakeMap(one.kinds, out.from, out.to, one.settings, findings).value();
  REQUIRE(findings.empty());
  return out;
}

void CheckCase(const Case& one) {
  const Made made = Make(one);
  const Map& map = made.map;
  REQUIRE(map.refused.empty());
  REQUIRE(map.not_known.empty());
  REQUIRE(map.enumerated);
  int64_t wrong = 0, elements = 0;
  std::map<std::pair<int64_t, size_t>, Memory> received;
  std::vector<int64_t> sent(one.kinds.size());
  for (const Pair& pair : map.pairs) {
    for (const Piece& piece : pair.pieces) {
      const Kind& kind = one.kinds[piece.kind];
      const Memory source =
          MemoryOf(one.from, kind, pair.from, one.tokens, kind.IsPaged());
      const int64_t runs = Copy(one.from, one.to, kind, pair, piece, one.tokens,
                                source, received[{pair.to, piece.kind}], wrong);
      const int64_t tensors = kind.Tensors();
      if (kind.IsPaged()) {
        REQUIRE(piece.least_descriptors.value_or(piece.descriptors.value()) ==
                runs * tensors);
      }
      if (kind.IsPaged() && one.from.settings.order != one.to.settings.order) {
        REQUIRE(piece.descriptors == piece.tokens.value() * tensors *
                                         piece.heads.count() *
                                         CountOf(piece.layers));
      }
      sent[piece.kind] += *piece.bytes;
    }
  }
  REQUIRE(wrong == 0);
  for (int64_t device = 0; device < one.to.Devices(); ++device) {
    if (one.to.At(device, 'd') != one.to.settings.dp_rank) continue;
    for (size_t k = 0; k < one.kinds.size(); ++k) {
      const Memory expected = MemoryOf(one.to, one.kinds[k], device, one.tokens,
                                       one.kinds[k].IsPaged());
      REQUIRE(received[{device, k}] == expected);
      elements += static_cast<int64_t>(expected.size());
    }
  }
  REQUIRE(map.proved == elements);
  for (size_t k = 0; k < one.kinds.size(); ++k) {
    REQUIRE(map.by_kind[k].sent == sent[k]);
  }
}

TEST_CASE("2,000 random maps copy every number once") {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Draws draws(seed);
    const Case one = RandomCase(draws);
    CAPTURE(seed);
    CheckCase(one);
  }
}

TEST_CASE("the proof detects a map with one fault") {
  int64_t faults = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Draws draws(seed);
    Case one = RandomCase(draws);
    CAPTURE(seed);
    const Made made = Make(one);
    const auto& pairs = made.map.pairs;
    const auto at = static_cast<size_t>(
        Draw(draws, 0, static_cast<int64_t>(pairs.size()) - 1));
    const auto detects = [&](auto change) {
      Map faulty = made.map;
      change(faulty);
      ++faults;
      CHECK_FALSE(Prove(made.from, made.to, one.tokens, faulty).empty());
    };
    const auto piece = [&](Map& map) -> Piece& {
      return map.pairs[at].pieces.front();
    };
    detects([&](Map& map) { ++piece(map).from_head; });
    detects([&](Map& map) { ++piece(map).to_head; });
    detects([&](Map& map) { ++piece(map).heads.first; });
    detects([&](Map& map) { ++piece(map).heads.end; });
    detects([&](Map& map) { --piece(map).layers.back().end; });
    detects([&](Map& map) { ++piece(map).layers.front().first; });
    detects([&](Map& map) { ++piece(map).layers.back().end; });
    // A range of sharded tokens may end between the tokens of a part.
    if (one.from.cp == 1 && one.to.cp == 1) {
      detects([&](Map& map) { ++piece(map).range.first; });
      detects([&](Map& map) { ++piece(map).range.end; });
    }
    detects([&](Map& map) {
      map.pairs.erase(map.pairs.begin() + static_cast<std::ptrdiff_t>(at));
    });
    detects([&](Map& map) { map.pairs.push_back(map.pairs[at]); });
    detects([&](Map& map) { map.pairs[at].pieces.push_back(piece(map)); });
    detects([&](Map& map) { map.pairs[at].from = 1'000'000; });
    detects([&](Map& map) { map.pairs[at].to = 1'000'000; });
  }
  CHECK(faults > 300 * 12);
}

TEST_CASE("sides with different caches are refused by name") {
  Kind full;
  full.is = {.layers = {{0, 4}}, .heads = 8, .head_dim = 128};
  CHECK(KindsRefused({full}, {full}).empty());
  const auto reason = [&](auto change) {
    Kind other = full;
    change(other);
    const auto out = KindsRefused({full}, {other});
    REQUIRE(!out.empty());
    return out.front();
  };
  CHECK(reason([](Kind& k) { k.is.heads = 4; }) ==
        "the kind `full` has heads 8 in the source and 4 in the destination");
  CHECK(reason([](Kind& k) { k.is.head_dim = 64; }) ==
        "the kind `full` has a head of 128 in the source and 64 in the "
        "destination");
  CHECK(reason([](Kind& k) {
          k.is.layers = {{0, 5}};
        }) ==
        "the kind `full` has layers 0-3 in the source and layers 0-4 in the "
        "destination, which are not the same layers");
  Kind draft = full;
  draft.draft = true;
  draft.is.layers = {{4, 5}};
  CHECK(KindsRefused({full, draft}, {full}) ==
        std::vector<std::string>{
            "the source has layer 4 of the kind `full, draft`, and the "
            "destination has none"});
}

}  // namespace
}  // namespace shardc::kv
