// Reduces the sizes of a step's dimensions, so that the step can be proved
// quickly. Most dimensions become a small multiple of their number of shards.
// Each shard gets two batch rows, four tokens (six in the encoder), and four
// elements of most other dimensions. For example:
//
//   batch 64 over dp 2            ->  2 rows for each of 2 shards: 4
//   hidden size 4096 over fsdp 2  ->  4 elements for each of 2 shards: 8
//
// An unsharded length gets as many tokens as two shards. A step that decodes
// has one query. Query heads and KV heads become the smallest numbers that keep
// their divisibility (ReducedHeads). A dimension keeps its size if an op reads
// its element with a fixed index, such as element 1 of [query, key, value]. It
// also keeps its size if a device has fewer than four of its elements.
#include "verify/step/step_report.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "source/size.h"
#include "step/build.h"
#include "step/program.h"
#include "verify/cases/reduced_sizes.h"

namespace shardc::verify {
namespace {

using step::As;
using step::AxisList;
using step::DistanceAttributes;
using step::HeadGroupAttributes;
using step::IndexAttributes;
using step::LabelId;
using step::LookupAttributes;
using step::Op;
using step::OpKind;
using step::RenameAttributes;
using step::RopeAttributes;
using step::TopGroupsAttributes;

class Chooser {
 public:
  Chooser(const step::Graph& graph, const step::Sizes& real,
          const step::Program& program)
      : graph_(graph), real_(real), program_(program), sizes_(real) {
    parts_.assign(real.size(), 1);
    several_.resize(real.size());
    fixed_.assign(real.size(), 0);
  }

  std::optional<step::Sizes> Run(std::string& why) {
    FindShardedLabels();
    FindFixed();
    TieRenamed();
    ChooseTokens();
    ChooseHeads();
    ChooseExperts();
    for (size_t label = 0; label < real_.size(); ++label) ChooseOther(label);
    ChooseTables();
    ChooseCounts();
    Finish();
    return Check(why) ? std::optional(sizes_) : std::nullopt;
  }

 private:
  const step::DimLabel& LabelOf(int64_t label) const {
    return graph_.labels[AsIndex(label)];
  }
  void Set(int64_t label, int64_t size) {
    if (label < 0 || set_.count(label) != 0) return;
    sizes_[AsIndex(label)] =
        fixed_[AsIndex(label)] != 0 ? real_[AsIndex(label)] : size;
    set_.insert(label);
  }
  void Need(int64_t label, int64_t parts) {
    parts_[AsIndex(label)] = std::lcm(parts_[AsIndex(label)], parts);
    several_[AsIndex(label)].insert(parts);
  }

  // A dimension may be a product of factors, such as (n h). The dimension's
  // axes shard the outermost factor first.
  void AddShards(LabelId label, const AxisList& list) {
    const std::vector<LabelId>& factors = LabelOf(label).factors;
    Need(label, program_.axes.Parts(list));
    if (factors.empty()) return;
    size_t f = 0;
    int64_t left = real_[AsIndex(factors[0])], cut = 1;
    for (step::AxisId axis : list) {
      const int64_t n = program_.axes.sizes[axis];
      while (left == 1 && f + 1 < factors.size()) {
        // All axes before this one together divide the factor into single
        // elements, so the factor keeps its real size.
        fixed_[AsIndex(factors[f])] = 1;
        Need(factors[f], cut);
        left = real_[AsIndex(factors[++f])];
        cut = 1;
      }
      if (left % n != 0) return;
      left /= n;
      cut *= n;
    }
    Need(factors[f], cut);
  }

  void FindShardedLabels() {
    for (const step::Slot& slot : program_.slots) {
      const step::Value& value = graph_.values[AsIndex(slot.value)];
      for (size_t d = 0; d < value.labels.size(); ++d) {
        if (!slot.sharding.dims[d].empty()) {
          AddShards(value.labels[d], slot.sharding.dims[d]);
        }
      }
    }
  }

  void FindFixed() {
    for (const Op& op : graph_.ops) {
      // A dimension of which an op reads the element with a fixed index keeps
      // its size, so that the element exists. Tokens are an exception, because
      // the only such token is the first, and it always exists.
      const auto* const index = std::get_if<IndexAttributes>(&op.attributes);
      if (index != nullptr && index->label != graph_.common.query) {
        fixed_[AsIndex(index->label)] = 1;
      }
      // If KV heads are copied, the number of copies is kept.
      if (op.kind != OpKind::kRepeat) continue;
      const auto& heads = As<HeadGroupAttributes>(op);
      const std::vector<LabelId>& copies = LabelOf(heads.kv_heads).factors;
      if (copies.empty()) continue;
      fixed_[AsIndex(heads.query_heads)] = 1;
      for (const LabelId factor : copies) fixed_[AsIndex(factor)] = 1;
    }
    if (graph_.ring.turns >= 0) fixed_[AsIndex(graph_.ring.turns)] = 1;
  }

  // A dimension and its renamed copy get the same size, which the shards of
  // both must divide.
  void TieRenamed() {
    for (const Op& op : graph_.ops) {
      if (op.kind != OpKind::kRename) continue;
      const auto& names = As<RenameAttributes>(op);
      if (!IsPlain(names.from) || !IsPlain(names.to)) continue;
      Need(names.from, parts_[AsIndex(names.to)]);
      Need(names.to, parts_[AsIndex(names.from)]);
    }
  }
  bool IsPlain(LabelId label) const {
    const step::CommonLabels& common = graph_.common;
    return label != common.query && label != common.key &&
           label != common.encoder_query && label != common.encoder_key &&
           LabelOf(label).factors.empty() && LabelOf(label).parts.empty();
  }

  void ChooseTokens() {
    const step::CommonLabels& common = graph_.common;
    if (common.batch >= 0) Set(common.batch, 2 * parts_[AsIndex(common.batch)]);
    ChooseLength(common.query, common.key, 4);
    // The encoder's length differs from the decoder's. Mistaking one for the
    // other therefore changes results.
    ChooseLength(common.encoder_query, common.encoder_key, 6);
  }

  // Returns true if the step reads a cache. Only such a step must keep one
  // query for each row. A prefill of one token may become a prefill of several
  // tokens.
  bool Decodes() const {
    return std::any_of(graph_.caches.begin(), graph_.caches.end(),
                       [](const step::Cache& cache) {
                         return cache.before != step::kNoValue;
                       });
  }

  // Sets the number of tokens: `each` for every shard, and 2 * `each` if there
  // is only one shard. A step that decodes has one query.
  void ChooseLength(LabelId queries, LabelId keys, int64_t each) {
    if (queries < 0) return;
    const bool decodes = queries == graph_.common.query && Decodes();
    const int64_t key =
        keys >= 0 ? std::max<int64_t>(parts_[AsIndex(keys)], 1) : 1;
    const bool alike =
        keys >= 0 && real_[AsIndex(keys)] == real_[AsIndex(queries)];
    const int64_t cut = alike ? std::lcm(parts_[AsIndex(queries)], key)
                              : parts_[AsIndex(queries)];
    const int64_t tokens = std::max(2 * each, each * cut);
    Set(queries, decodes ? 1 : tokens);
    if (keys >= 0) {
      Set(keys, alike && !decodes ? tokens : std::max(2 * each, each * key));
    }
  }

  void ChooseHeads() {
    for (const Op& op : graph_.ops) {
      if (op.kind != OpKind::kRepeat) continue;
      const LabelId kv_heads = As<HeadGroupAttributes>(op).kv_heads;
      const LabelId query_heads = As<HeadGroupAttributes>(op).query_heads;
      if (!LabelOf(kv_heads).factors.empty()) continue;
      if (set_.count(query_heads) != 0) continue;
      Splits splits;
      std::set<int64_t> heads = several_[AsIndex(query_heads)];
      std::set<int64_t> keys = several_[AsIndex(kv_heads)];
      heads.insert(1);
      keys.insert(1);
      for (int64_t h : heads) {
        for (int64_t k : keys) splits.heads.emplace_back(h, k);
      }
      const auto [h, k] = ReducedHeads(real_[AsIndex(query_heads)],
                                       real_[AsIndex(kv_heads)], splits);
      Set(query_heads, h);
      Set(kv_heads, k);
    }
  }

  void ChooseExperts() {
    const step::CommonLabels& common = graph_.common;
    if (common.experts < 0) return;
    const int64_t top_k =
        common.top_k < 0 ? 1
                         : std::min<int64_t>(2, real_[AsIndex(common.top_k)]);
    int64_t groups = 1;
    for (const Op& op : graph_.ops) {
      if (op.kind != OpKind::kTopGroups) continue;
      const auto& best = As<TopGroupsAttributes>(op);
      groups = std::min<int64_t>(4, real_[AsIndex(best.groups)]);
      Set(best.groups, groups);
      Set(best.chosen,
          std::min(groups, std::min<int64_t>(2, real_[AsIndex(best.chosen)])));
    }
    const int64_t step =
        std::lcm(2 * parts_[AsIndex(common.experts)], 2 * groups);
    int64_t experts = step;
    while (experts < top_k + 2) experts += step;
    Set(common.experts, std::min(experts, real_[AsIndex(common.experts)]));
    if (common.top_k >= 0) Set(common.top_k, top_k);
    if (common.slot < 0) return;
    // If the tokens of an expert are not limited, its queue has a slot for
    // every token. With a limit, some tokens may be dropped.
    const int64_t tokens = sizes_[AsIndex(common.query)];
    const int64_t even = tokens * top_k / sizes_[AsIndex(common.experts)];
    const int64_t cut = parts_[AsIndex(common.slot)];
    const int64_t slots = graph_.dropless ? tokens : std::max<int64_t>(1, even);
    Set(common.slot, (slots + cut - 1) / cut * cut);
  }

  void ChooseOther(size_t label) {
    const step::DimLabel& of = graph_.labels[label];
    if (!of.factors.empty() || !of.parts.empty()) return;
    if (set_.count(static_cast<int64_t>(label)) != 0) return;
    const int64_t small = 4 * parts_[label];
    int64_t size = real_[label] < small ? real_[label] : small;
    for (const Op& op : graph_.ops) {
      // Rotary embeddings rotate pairs of elements, so the rotated fraction of
      // a head must also consist of pairs.
      const auto* const rotated = std::get_if<RopeAttributes>(&op.attributes);
      if (rotated != nullptr && rotated->label == static_cast<LabelId>(label) &&
          graph_.ropes[AsIndex(rotated->rope)].rotary_fraction < 1) {
        size = std::max<int64_t>(size, 8 * parts_[label]);
      }
      // A table of relative positions needs rows for single distances and for
      // ranges of distances, in both directions.
      const auto* const distance =
          std::get_if<DistanceAttributes>(&op.attributes);
      if (distance != nullptr &&
          distance->rows == static_cast<LabelId>(label)) {
        size = std::min(real_[label], 8 * parts_[label]);
      }
    }
    Set(static_cast<int64_t>(label), size);
  }

  // Increases each table of embeddings until it has all rows that ids refer to.
  void ChooseTables() {
    std::set<LabelId> by_distance;
    for (const Op& op : graph_.ops) {
      if (op.kind != OpKind::kDistance) continue;
      by_distance.insert(As<DistanceAttributes>(op).rows);
    }
    for (const Op& op : graph_.ops) {
      if (op.kind != OpKind::kLookup) continue;
      const auto& [rows, offset] = As<LookupAttributes>(op);
      if (by_distance.count(rows) != 0) continue;
      const bool vocabulary = LabelOf(rows).semantic == "VOCAB";
      const int64_t least = vocabulary ? 16 : PositionsOf(op.in[1]) + offset;
      const int64_t cut = parts_[AsIndex(rows)];
      int64_t& size = sizes_[AsIndex(rows)];
      if (size < least) size = (least + cut - 1) / cut * cut;
    }
  }

  // Returns a number that is above all of the position ids `ids`: the larger of
  // the numbers of queries and keys. A table of learned positions needs that
  // many rows.
  int64_t PositionsOf(step::ValueId ids) const {
    const step::CommonLabels& common = graph_.common;
    const LabelId tokens = graph_.values[AsIndex(ids)].labels.back();
    const bool encoder = tokens == common.encoder_query;
    const LabelId queries = encoder ? common.encoder_query : common.query;
    const LabelId keys = encoder ? common.encoder_key : common.key;
    return std::max(sizes_[AsIndex(queries)],
                    keys < 0 ? 0 : sizes_[AsIndex(keys)]);
  }

  void ChooseCounts() {
    const step::CommonLabels& common = graph_.common;
    for (const Op& op : graph_.ops) {
      if (op.kind != OpKind::kDistance) continue;
      // The largest distance is above all distances that have their own table
      // row, so that rows for ranges of distances are used. It is smaller than
      // the length, so that it occurs.
      const auto& distance = As<DistanceAttributes>(op);
      sizes_[AsIndex(distance.longest)] =
          std::min(real_[AsIndex(distance.longest)],
                   3 * sizes_[AsIndex(distance.rows)] / 4);
    }
    if (common.window < 0) return;
    const int64_t keys = common.key < 0 ? sizes_[AsIndex(common.query)]
                                        : sizes_[AsIndex(common.key)];
    const int64_t real_keys = common.key < 0 ? real_[AsIndex(common.query)]
                                             : real_[AsIndex(common.key)];
    sizes_[AsIndex(common.window)] =
        real_[AsIndex(common.window)] < real_keys ? keys / 2 - 1 : keys;
  }

  void Finish() {
    step::FinishSizes(graph_, sizes_);
    WidenParts();
    WidenFactors();
    step::FinishSizes(graph_, sizes_);
    WidenFactors();
    step::FinishSizes(graph_, sizes_);
  }

  // Makes the reduced size of each dimension that is a product of factors
  // divisible by the dimension's axes. For this, increases the last factor
  // whose size may change. WidenParts does the same for a dimension that is a
  // concatenation of parts, and increases all parts.
  void WidenFactors() {
    for (size_t label = 0; label < real_.size(); ++label) {
      const step::DimLabel& of = graph_.labels[label];
      if (of.factors.empty() || sizes_[label] % parts_[label] == 0) continue;
      for (size_t f = of.factors.size(); f > 0;) {
        --f;
        const auto last = AsIndex(of.factors[f]);
        if (fixed_[last] != 0 || !graph_.labels[last].parts.empty()) continue;
        sizes_[last] *= parts_[label] / std::gcd(parts_[label], sizes_[label]);
        break;
      }
    }
  }
  void WidenParts() {
    for (size_t label = 0; label < real_.size(); ++label) {
      const step::DimLabel& of = graph_.labels[label];
      if (of.parts.empty() || sizes_[label] % parts_[label] == 0) continue;
      for (LabelId part : of.parts) sizes_[AsIndex(part)] *= parts_[label];
    }
  }

  bool Check(std::string& why) const {
    for (size_t label = 0; label < real_.size(); ++label) {
      if (sizes_[label] % parts_[label] == 0) continue;
      why = "dimension " + graph_.labels[label].name + " of " +
            std::to_string(real_[label]) +
            " has no small size that its cuts divide";
      return false;
    }
    return true;
  }

  const step::Graph& graph_;
  const step::Sizes& real_;
  const step::Program& program_;
  step::Sizes sizes_;
  std::vector<int64_t> parts_;
  std::vector<std::set<int64_t>> several_;
  std::vector<char> fixed_;
  std::set<int64_t> set_;
};

// Appends to a text the attributes in which the layers of a model may differ.
void AppendAttributes(const Op& op, std::string& out) {
  const auto number = [&out](int64_t value) {
    out += "," + std::to_string(value);
  };
  if (const auto* of = std::get_if<step::FnAttributes>(&op.attributes)) {
    out += of->fn;
  } else if (const auto* mask =
                 std::get_if<step::MaskAttributes>(&op.attributes)) {
    number(static_cast<int64_t>(mask->rule));
    number(mask->window);
  } else if (const auto* rope = std::get_if<RopeAttributes>(&op.attributes)) {
    number(rope->rope);
  } else if (const auto* best =
                 std::get_if<TopGroupsAttributes>(&op.attributes)) {
    number(best->groups);
    number(best->chosen);
  } else if (const auto* top =
                 std::get_if<step::TopKAttributes>(&op.attributes)) {
    number(top->chosen);
  }
}

// Returns a text for each layer that describes its forward ops. It does not
// contain the layer's number, so equal layers have equal texts.
std::vector<std::string> LayerTexts(const step::Graph& graph, int32_t layers) {
  std::vector<std::string> texts(AsIndex(layers));
  for (const Op& op : graph.ops) {
    if (op.layer < 0 || op.phase != step::Phase::kForward) continue;
    std::string& out = texts[AsIndex(op.layer)];
    out += std::to_string(static_cast<int>(op.kind)) + op.name;
    AppendAttributes(op, out);
    for (LabelId label : graph.values[AsIndex(op.out)].labels) {
      out += ":" + std::to_string(label);
    }
    out += ';';
  }
  return texts;
}

// Layers with equal texts are of the same kind. Returns the first layer of each
// kind in [begin, end), and at least two layers if there are two.
std::vector<int32_t> KindsOf(const std::vector<std::string>& texts,
                             int32_t begin, int32_t end) {
  std::vector<int32_t> out;
  std::set<std::string_view> seen;
  for (int32_t layer = begin; layer < end; ++layer) {
    if (seen.insert(texts[AsIndex(layer)]).second) out.push_back(layer);
  }
  if (out.size() == 1 && end - begin > 1) out.push_back(begin + 1);
  return out;
}

}  // namespace

std::optional<step::Sizes> ReducedSizes(const step::Graph& graph,
                                        const step::Sizes& real,
                                        const step::Program& program,
                                        std::string& why) {
  return Chooser(graph, real, program).Run(why);
}

std::vector<int32_t> ReducedLayers(const step::Graph& graph) {
  int32_t layers = 0;
  for (const Op& op : graph.ops) layers = std::max(layers, op.layer + 1);
  const int32_t own = graph.encoder_layer < 0 ? layers : graph.encoder_layer;
  const std::vector<std::string> texts = LayerTexts(graph, layers);
  std::vector<int32_t> out = KindsOf(texts, 0, own);
  for (const int32_t layer : KindsOf(texts, own, layers)) out.push_back(layer);
  return out;
}

}  // namespace shardc::verify
