// Writes the ops for lines of a description's model section that call a rotary
// embedding, attention or a mixture of experts. Queries, keys and values are
// results of earlier lines. In modes with a cache, keys and values are written
// to the cache and read from it. For example:
//
//   attention(q, k, v), decoding:
//     cache k = write(cache k before, k, positions)
//     attention over all rows of the cache
#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "source/index.h"
#include "step/line_ops.h"

namespace shardc::step {
namespace {

// Creates the labels of ring attention and of copied KV heads, once for all
// layers.
void MakeOwnLabels(BuildContext& c, ValueId key) {
  if (c.made_own_labels) return;
  c.made_own_labels = true;
  if (c.form.view == AttentionView::kRing) {
    RingLabels ring;
    ring.turns = c.labels.New("turns", "", c.form.turns);
    ring.query_rows = c.labels.New("t/turns", "", 0);
    ring.queries = c.labels.OfFactors({ring.turns, ring.query_rows});
    ring.key_rows = c.labels.New("s/turns", "", 0);
    ring.keys = c.labels.OfFactors({ring.turns, ring.key_rows});
    c.graph().ring = ring;
  }
  const Labels& labels = c.write.LabelsOf(key);
  if (c.form.copies > 1 && labels.size() == 4) {
    const LabelId copies = c.labels.New("copies", "", c.form.copies);
    c.copied_heads = c.labels.OfFactors({labels[2], copies});
    c.labels[c.copied_heads].semantic = c.labels[labels[2]].semantic;
  }
}

int64_t RopeIndex(BuildContext& c, LabelId label) {
  Rope rope = c.layer_settings.rope;
  const int64_t size = c.labels.SizeOf(label);
  // A rotary fraction above 1 is not a fraction but the number of rotated
  // elements of a head.
  if (rope.rotary_fraction > 1) {
    rope.rotary_fraction /= static_cast<double>(std::max<int64_t>(size, 1));
  }
  const auto same = [&](const Rope& a) {
    return a.base == rope.base && a.scaling == rope.scaling &&
           a.rotary_fraction == rope.rotary_fraction &&
           a.interleaved == rope.interleaved;
  };
  auto& ropes = c.graph().ropes;
  const auto known = std::find_if(ropes.begin(), ropes.end(), same);
  const int64_t index = known - ropes.begin();
  if (known == ropes.end()) ropes.push_back(std::move(rope));
  return index;
}

// Returns the keys or values that attention reads. In the result, the label of
// keys replaces the label of queries. `seen` is the layer stack whose tokens
// attention reads: in cross-attention this is the encoder, and not the stack of
// the queries. Prefill writes keys and values to a cache, and decoding reads
// them from the cache. Self-attention that is not causal has no cache.
ValueId Remembered(BuildContext& c, ValueId x, size_t seen) {
  const CommonLabels common = c.graph().common;
  const Stream& of = c.streams[seen];
  const bool remembers = seen != c.stack || of.causal;
  if (c.mode == Mode::kTrain || !remembers) {
    return c.write.Rename(x, of.query, of.key);
  }
  if (c.mode != Mode::kDecode) {
    const ValueId kept = c.write.Rename(x, of.query, of.key);
    c.write.Producer(kept).constraint = "kcache";
    c.graph().caches.push_back({c.layer, kNoValue, kept});
    return kept;
  }
  Labels labels = c.write.LabelsOf(x);
  std::replace(labels.begin(), labels.end(), of.query, of.key);
  const ValueId before =
      c.streams.NewData(DataKind::kCache, "cache", labels, false, "kcache");
  // In cross-attention, prefill has written the encoder's keys and values to
  // the cache. Decoding reads them and does not change them.
  if (seen != c.stack) {
    c.graph().caches.push_back({c.layer, before, before});
    return before;
  }
  const ValueId after =
      c.write.Append(OpKind::kCacheWrite, {before, x, c.stream().positions},
                     LabelAttributes{common.key}, std::move(labels));
  c.write.Producer(after).constraint = "kcache";
  c.graph().caches.push_back({c.layer, before, after});
  return after;
}

// Returns the position biases that are added to the scores. A bias depends on
// the distance between query and key. If several layers share a table of
// biases, its rows are looked up once. Returns kNoValue if the layer has no
// table, or after an error.
ValueId Near(BuildContext& c, const Line& line, ValueId query, size_t seen) {
  const ValueId table = c.RoleValue(line, 3);
  if (table == kNoValue) return kNoValue;
  const std::pair<ValueId, size_t> key{table, 2 * c.stack + seen};
  const auto known = c.near.find(key);
  if (known != c.near.end()) return known->second;
  const Labels labels = c.write.LabelsOf(table);
  const auto most = c.reader->Number("distance");
  if (!most || labels.size() != 2 || !c.write.Has(query, labels.back())) {
    c.Fail(line,
           "`" + line.name + "` needs `distance` and a table of rows by heads");
    return kNoValue;
  }
  if (c.distance == kNoLabel) {
    c.distance = c.labels.New("distance", "", static_cast<int64_t>(*most));
  }
  const DistanceAttributes distance{labels[0], c.distance,
                                    !(seen == c.stack && c.stream().causal)};
  std::vector<ValueId> positions;
  Labels apart = {c.stream().query, c.streams[seen].key};
  if (c.mode == Mode::kDecode && c.stack == 0) {
    // In decoding the sequences of a batch have different lengths, so the
    // distances have a batch dimension.
    positions = {c.stream().positions, c.streams[seen].key_positions};
    apart.insert(apart.begin(), c.graph().common.batch);
  } else {
    c.streams.MakePlaces(c.stream());
    c.streams.MakePlaces(c.streams[seen]);
    positions = {c.stream().places, c.streams[seen].key_places};
  }
  const ValueId rows = c.write.Append(OpKind::kDistance, std::move(positions),
                                      distance, std::move(apart), true);
  return c.near[key] = c.write.Lookup(table, rows, 0);
}

}  // namespace

ValueId WriteRope(BuildContext& c, ValueId x) {
  const LabelId label = c.write.LabelsOf(x).back();
  return c.write.Append(OpKind::kRope, {x, c.stream().positions},
                        RopeAttributes{label, RopeIndex(c, label)},
                        c.write.LabelsOf(x));
}

ValueId WriteAttention(BuildContext& c, const Line& line) {
  std::vector<ValueId> queries, keys;
  std::vector<LabelId> contracted;
  for (const int32_t variable : line.arguments[0].variables) {
    queries.push_back(c.variables[AsIndex(variable)]);
    if (queries.back() == kNoValue) return kNoValue;
    contracted.push_back(c.write.LabelsOf(queries.back()).back());
  }
  const ValueId given = c.Value(line, 2);
  const size_t seen = given == kNoValue ? c.stack : c.streams.StackOf(given);
  Stream& of = c.streams[seen];
  if (seen == c.stack) c.streams.MakeKeyPositions(of);
  for (const int32_t variable : line.arguments[1].variables) {
    const ValueId key = c.variables[AsIndex(variable)];
    if (key == kNoValue) return kNoValue;
    keys.push_back(Remembered(c, key, seen));
  }
  if (keys.size() != queries.size() || given == kNoValue) {
    c.Fail(line, "queries and keys have different parts");
    return kNoValue;
  }
  const ValueId values = Remembered(c, given, seen);
  MakeOwnLabels(c, values);
  AttentionSettings settings = c.settings.attention;
  settings.windowed = c.layer_settings.windowed;
  settings.chunked = c.layer_settings.chunked;
  settings.copied_heads = c.copied_heads;
  settings.query = c.stream().query;
  settings.key = of.key;
  settings.query_positions = c.stream().query_positions;
  settings.key_positions = of.key_positions;
  // Cross-attention reads all tokens of the encoder, so its mask is not causal.
  settings.causal = seen == c.stack && c.stream().causal;
  settings.sloped = settings.sloped && seen == c.stack;
  if (c.settings.scale > 0) {
    settings.scale.constant = c.settings.scale;
  } else {
    settings.scale.powers.emplace_back(c.labels.OfParts(contracted), -0.5);
  }
  const bool near = line.op == LineOp::kAttentionNear;
  if (near) settings.near = Near(c, line, queries[0], seen);
  return Attention(c.write, queries, keys, values,
                   near ? kNoValue : c.RoleValue(line, 3), settings);
}

namespace {

// Returns whether a weight holds the gate and the up projection in a dimension
// of size 2. This is the only dimension of the weight that the values and
// weights in `others` lack.
bool HasHalves(BuildContext& c, ValueId fused,
               std::initializer_list<ValueId> others) {
  std::set<LabelId> known;
  for (const ValueId other : others) {
    for (const LabelId label : c.write.LabelsOf(other)) {
      known.insert(label);
      const auto& factors = c.labels[label].factors;
      known.insert(factors.begin(), factors.end());
    }
  }
  std::vector<LabelId> halves;
  for (const LabelId label : c.write.LabelsOf(fused)) {
    if (known.contains(label)) continue;
    const auto& factors = c.labels[label].factors;
    if (factors.empty()) halves.push_back(label);
    for (const LabelId factor : factors) {
      if (!known.contains(factor)) halves.push_back(factor);
    }
  }
  return halves.size() == 1 && c.labels.SizeOf(halves.front()) == 2;
}

}  // namespace

ValueId WriteExperts(BuildContext& c, const Line& line, ValueId x) {
  if (c.graph().common.slot == kNoLabel) {
    c.Fail(line, "a model with experts needs `top_k`");
    return kNoValue;
  }
  if (c.stack != 0) {
    c.Fail(line, "an encoder's layers have no experts");
    return kNoValue;
  }
  const ValueId logits = CheckedLinear(c, line, x, 1);
  if (c.failed) return kNoValue;
  c.write.Producer(logits).constraint = "router";
  const LabelId experts = c.write.LabelsOf(logits).back();
  c.graph().common.experts = experts;
  RouterSettings router = c.settings.router;
  if (c.correction >= 0)
    router.correction = c.parameters->Of(c.correction, c.layer);
  const Routed routed = Route(c.write, logits, experts, router);
  const RouterLosses& losses = c.settings.router_losses;
  const bool judged = losses.balance != 0 || losses.z != 0;
  if (c.mode == Mode::kTrain && judged) {
    const std::string name = c.write.name;
    c.write.name = "router statistics";
    c.routers.push_back(Statistics(c.write, logits, routed.chosen, experts));
    c.write.name = name;
  }
  ExpertWeights weights;
  const bool fused = line.op == LineOp::kMoeFused;
  const size_t down = fused ? 3 : 4;
  if (fused) {
    weights.gate_up = c.RoleValue(line, 2);
    weights.gate_up_bias = c.BiasOf(line, 2);
    if (!HasHalves(c, weights.gate_up, {x, logits, c.RoleValue(line, down)})) {
      c.Fail(line, "`" + line.name +
                       "` needs gate and up in a dimension of size 2, "
                       "such as `z` in `z f`");
      return kNoValue;
    }
  } else {
    weights.gate = c.RoleValue(line, 2);
    weights.up = c.RoleValue(line, 3);
  }
  weights.down = c.RoleValue(line, down);
  weights.down_bias = c.BiasOf(line, down);
  return Experts(c.write, x, routed, experts, weights, c.settings.activation);
}

}  // namespace shardc::step
