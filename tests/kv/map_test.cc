// The map of a cache is compared with a copy of every number of small caches.
// The test places layers, heads and tokens on devices and in pages by formulas
// of its own: rank r of t has the heads [r K / t, (r + 1) K / t), or the head
// r K / t if t is more than K.
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
#include "kv/side.h"
#include "meshes.h"
#include "model/mesh_layout.h"

namespace shardc::kv {
namespace {

// A random layout of one side.
struct Layout {
  int64_t pp = 1, dp = 1, cp = 1, tp = 1;
  std::array<char, 4> axes = {'p', 'd', 'c', 't'};  // the order of the mesh
  std::vector<int64_t> ends;                        // of the stages' layers
  SideSettings settings;

  int64_t SizeOf(char axis) const {
    return axis == 'p' ? pp : axis == 'd' ? dp : axis == 'c' ? cp : tp;
  }
  // Returns the coordinate of a device on an axis.
  int64_t At(int64_t device, char axis) const {
    for (size_t i = axes.size(); i > 0; --i) {
      const int64_t size = SizeOf(axes[i - 1]);
      if (axes[i - 1] == axis) return device % size;
      device /= size;
    }
    return 0;
  }
  int64_t Devices() const { return pp * dp * cp * tp; }
  // With two stages on each rank, the second half of the stages is placed in
  // reverse order: 0 1 1 0.
  int64_t RankOf(int64_t stage) const {
    return stage < pp ? stage : 2 * pp - 1 - stage;
  }
  bool HasLayer(int64_t device, int64_t layer) const {
    int64_t stage = 0;
    while (layer >= ends[static_cast<size_t>(stage)]) ++stage;
    return RankOf(stage) == At(device, 'p');
  }
  // Returns the device's heads [first, end) of K.
  std::pair<int64_t, int64_t> Heads(int64_t device, int64_t heads,
                                    bool latent) const {
    if (latent) return {0, 1};
    const int64_t rank = At(device, 't');
    if (tp > heads) return {rank * heads / tp, rank * heads / tp + 1};
    return {rank * heads / tp, (rank + 1) * heads / tp};
  }
  // Returns the part that has a token, and its number among the part's tokens,
  // by going through the tokens one by one.
  std::pair<int64_t, int64_t> Token(int64_t token, int64_t tokens) const {
    if (cp == 1) return {0, token};
    std::vector<int64_t> count(static_cast<size_t>(cp));
    const int64_t block = *settings.interleave > 0
                              ? *settings.interleave
                              : std::max<int64_t>((tokens + cp - 1) / cp, 1);
    for (int64_t t = 0;; ++t) {
      const auto part = static_cast<size_t>(t / block % cp);
      if (t == token) return {static_cast<int64_t>(part), count[part]};
      ++count[part];
    }
  }
};

int64_t Draw(Draws& draws, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(draws() %
                                      static_cast<uint64_t>(most - least + 1));
}

Layout RandomLayout(Draws& draws, int64_t heads, int64_t layers, bool sharded) {
  Layout out;
  do {
    out.tp = int64_t{1} << Draw(draws, 0, 6);
    if (draws() % 4 == 0) out.tp = Draw(draws, 1, 24);
  } while (out.tp % heads != 0 && heads % out.tp != 0);
  out.pp = draws() % 2 == 0 ? 1 : Draw(draws, 1, std::min<int64_t>(layers, 8));
  out.dp = draws() % 2 == 0 ? 1 : Draw(draws, 1, 3);
  if (sharded) out.cp = Draw(draws, 1, 3);
  std::shuffle(out.axes.begin(), out.axes.end(), draws);
  const bool twice = out.pp > 1 && layers >= 2 * out.pp && draws() % 2 == 0;
  const int64_t stages = twice ? 2 * out.pp : out.pp;
  for (int64_t i = 1; i < stages; ++i) {
    const int64_t before = i == 1 ? 0 : out.ends.back();
    out.ends.push_back(Draw(draws, before + 1, layers - (stages - i)));
  }
  out.ends.push_back(layers);
  out.settings.page =
      draws() % 3 == 0 ? Draw(draws, 1, 128) : Draw(draws, 1, 8);
  out.settings.order = draws() % 2 == 0 ? Order::kHnd : Order::kNhd;
  out.settings.dp_rank = Draw(draws, 0, out.dp - 1);
  out.settings.interleave = Draw(draws, 0, 3);
  return out;
}

PlanView PlanOf(const Layout& layout, const std::vector<Kind>& kinds) {
  PlanView out;
  std::vector<MeshAxis> axes;
  for (const char axis : layout.axes) {
    axes.push_back({std::string(1, axis), layout.SizeOf(axis)});
  }
  out.plan.mesh = MeshOf(std::move(axes));
  const Spec query = {{"d"}, {"c"}, {"t"}, {}};
  Spec key = query;
  for (const Kind& kind : kinds) {
    if (kind.IsReplicated() || !kind.IsPaged()) continue;
    key[2] = KvHeadAxes(out.plan.mesh, {"t"}, kind.is.heads).value();
  }
  out.attention = {{Mode::kPrefill, "query", query},
                   {Mode::kPrefill, "key", key}};
  if (layout.pp == 1) return out;
  PlanStages& stages = out.plan.stages.emplace();
  stages.axis = "p";
  stages.ranks = layout.pp;
  int64_t first = 0;
  for (int64_t i = 0; i < std::ssize(layout.ends); ++i) {
    const int64_t end = layout.ends[static_cast<size_t>(i)];
    const auto rank = static_cast<int32_t>(layout.RankOf(i));
    stages.of.push_back({.ranks = {rank}, .layers = {first, end}});
    first = end;
  }
  return out;
}

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

struct Case {
  std::vector<Kind> kinds;
  Layout from, to;
  int64_t tokens = 1;
  MapSettings settings;
};

Case RandomCase(Draws& draws) {
  Case out;
  const int64_t heads = Draw(draws, 1, 16), layers = Draw(draws, 1, 8);
  const uint64_t what = draws() % 6;
  Kind kind;
  kind.is = {.kind = KvKindName::kFull,
             .layers = {{0, layers}},
             .heads = heads,
             .head_dim = 2};
  if (what == 1) {
    kind.is.kind = KvKindName::kLatent;
    kind.is.heads = 1;
  } else if (what == 2) {
    kind.is.kind = KvKindName::kWindow;
    kind.is.window = Draw(draws, 1, 12);
  }
  out.kinds = {kind};
  if (what == 3 && layers > 1) {
    // Every second layer has a window.
    Kind window = kind;
    window.is.kind = KvKindName::kWindow;
    window.is.window = Draw(draws, 1, 12);
    window.is.layers.clear();
    out.kinds[0].is.layers.clear();
    for (int64_t i = 0; i < layers; ++i) {
      out.kinds[i % 2 == 0 ? 0 : out.kinds.size() - 1].is.layers.push_back(
          {i, i + 1});
      if (i == 0) out.kinds.push_back(window);
    }
  }
  const bool sharded = draws() % 4 == 0;
  out.from = RandomLayout(draws, heads, layers, sharded);
  out.to = RandomLayout(draws, heads, layers, sharded);
  if (what == 4 && heads % out.from.tp == 0 && heads % out.to.tp == 0 &&
      !sharded) {
    Kind state = kind;
    state.is.kind = KvKindName::kState;
    state.is.value_dim = 3;
    out.kinds.push_back(state);
  }
  out.tokens = Draw(draws, 1, 24);
  out.settings.tokens = out.tokens;
  if (draws() % 3 == 0) out.settings.replicas = Replicas::kShareTokens;
  return out;
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
