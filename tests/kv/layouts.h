// Random layouts of caches, for the tests of the map and of the handover. They
// place layers, heads and tokens on devices by formulas of their own: rank r of
// t has the heads [r K / t, (r + 1) K / t), or the head r K / t if t is more
// than K.
#ifndef SHARDC_TESTS_KV_LAYOUTS_H_
#define SHARDC_TESTS_KV_LAYOUTS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "draws.h"
#include "kv/map.h"
#include "kv/side.h"
#include "meshes.h"
#include "model/mesh_layout.h"

namespace shardc::kv {

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

inline int64_t Draw(Draws& draws, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(draws() %
                                      static_cast<uint64_t>(most - least + 1));
}

inline Layout RandomLayout(Draws& draws, int64_t heads, int64_t layers,
                           bool sharded) {
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

inline ReadPlan PlanOf(const Layout& layout, const std::vector<Kind>& kinds) {
  ReadPlan out;
  std::vector<MeshAxis> axes;
  for (const char axis : layout.axes) {
    axes.push_back({std::string(1, axis), layout.SizeOf(axis)});
  }
  out.mesh = MeshOf(std::move(axes));
  const Spec query = {{"d"}, {"c"}, {"t"}, {}};
  Spec key = query;
  for (const Kind& kind : kinds) {
    if (kind.IsReplicated() || !kind.IsPaged()) continue;
    key[2] = KvHeadAxes(out.mesh, {"t"}, kind.is.heads).value();
  }
  out.attention = {{Mode::kPrefill, "query", query},
                   {Mode::kPrefill, "key", key}};
  if (layout.pp == 1) return out;
  PlanStages& stages = out.stages.emplace();
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

struct Case {
  std::vector<Kind> kinds;
  Layout from, to;
  int64_t tokens = 1;
  MapSettings settings;
};

inline Case RandomCase(Draws& draws) {
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

}  // namespace shardc::kv

#endif  // SHARDC_TESTS_KV_LAYOUTS_H_
