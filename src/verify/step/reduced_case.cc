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
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "exec/machine/agreement.h"
#include "exec/machine/random.h"
#include "source/list.h"
#include "source/size.h"
#include "step/build.h"
#include "step/program.h"
#include "verify/cases/reduced_sizes.h"
#include "verify/step/prove.h"
#include "verify/step/step_report.h"

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

namespace {

// Creates the inputs of a step. Every number is a function of the seed, of the
// input and of the element's index in the input, so shardings cannot change it.
// What identifies an input depends on its kind:
// - a parameter: its role and layer
// - a moment of the optimizer: its index
// - tokens: their kind and micro-batch
// - a cache: its kind and value
// The random numbers of dropout depend on the op's key instead of the seed.
// Rows have different numbers of valid tokens. For example, if rows have 8
// tokens, row 1 has 5 valid tokens. The losses of these have weight 1, and
// those of the other 3 tokens have weight 0.

using exec::Buffer;
using exec::Random;
using step::ValueId;

class Maker {
 public:
  Maker(const step::Graph& graph, const step::Sizes& sizes, Dtype dtype,
        uint64_t seed)
      : graph_(graph), sizes_(sizes), random_(seed) {
    out_.inputs = {.sizes = sizes, .dtype = dtype, .values = {}};
    out_.inputs.values.resize(graph.values.size());
    out_.values.resize(graph.values.size());
  }

  StepData Run() {
    for (size_t i = 0; i < graph_.parameters.size(); ++i) MakeParameter(i);
    for (size_t i = 0; i < graph_.moments.size(); ++i) MakeMoments(i);
    for (const step::Data& data : graph_.data) MakeData(data);
    for (const step::Op& op : graph_.ops) {
      if (op.kind == step::OpKind::kDropout) DrawDropout(op);
    }
    return std::move(out_);
  }

 private:
  Buffer& New(ValueId value) {
    const bool whole = graph_.values[AsIndex(value)].integral;
    Buffer& to = out_.inputs.values[AsIndex(value)];
    to = Buffer::Zeros(step::ShapeOf(graph_, value, sizes_),
                       whole ? Dtype::kI32 : out_.inputs.dtype);
    return to;
  }

  template <class F>
  void Fill(ValueId value, const F& f) {
    Buffer& to = New(value);
    for (size_t i = 0; i < AsIndex(to.Elements()); ++i) {
      if (to.IsWide()) {
        to.wide[i] = f(i);
      } else if (to.IsReal()) {
        to.real[i] = static_cast<float>(f(i));
      } else {
        to.integers[i] = static_cast<int32_t>(f(i));
      }
    }
    exec::RoundTo(to);
    dense::StepTensor<double>& dense = out_.values[AsIndex(value)];
    dense.shape = to.shape;
    dense.data.clear();
    dense.data.reserve(AsIndex(to.Elements()));
    for (double x : to.wide) dense.data.push_back(x);
    for (float x : to.real) dense.data.push_back(x);
    for (int32_t x : to.integers) dense.data.push_back(x);
  }

  void MakeParameter(size_t i) {
    const step::Parameter& parameter = graph_.parameters[i];
    const Random random =
        random_.Split(parameter.role).Split(AsIndex(parameter.layer + 1));
    const std::string& role = parameter.role;
    const bool bias = role.size() > 5 && role.ends_with(".bias");
    const bool norm = role.find("norm") != std::string::npos && !bias;
    const double spread = norm ? 0.3 : bias ? 0.5 : 0.4;
    Fill(parameter.value, [&](size_t at) {
      return (norm ? 1.0 : 0.0) + spread * random.Normal(at);
    });
  }

  void MakeMoments(size_t i) {
    const Random random = random_.Split("moments").Split(i);
    const step::Moments& of = graph_.moments[i];
    if (of.first >= 0) {
      Fill(of.first, [&](size_t at) { return 0.01 * random.Normal(at); });
    }
    if (of.second >= 0) {
      Fill(of.second, [&](size_t at) {
        return 1e-4 + 1e-3 * random.Split(1).Uniform(at);
      });
    }
  }

  // Sets the factors by which the reference multiplies the elements of the
  // dropout's input. A factor depends on the op's key and the element's index.
  void DrawDropout(const step::Op& op) {
    const auto& [rate, key] = step::As<step::DropoutAttributes>(op);
    const Random random = Random(static_cast<uint64_t>(key)).Split("drop");
    std::vector<double>& to = out_.values[AsIndex(op.out)].factors;
    to.resize(AsIndex(exec::ElementsOf(step::ShapeOf(graph_, op.out, sizes_))));
    for (size_t i = 0; i < to.size(); ++i) {
      to[i] = random.Uniform(i) >= rate ? 1 / (1 - rate) : 0;
    }
  }

  int64_t Tokens() const { return sizes_[AsIndex(graph_.common.query)]; }
  bool Has(ValueId value, step::LabelId label) const {
    const auto& labels = graph_.values[AsIndex(value)].labels;
    return IsAmong(label, labels);
  }
  bool IsEncoders(ValueId value) const {
    return Has(value, graph_.common.encoder_query);
  }
  int64_t Keys() const {
    return graph_.common.key < 0 ? Tokens()
                                 : sizes_[AsIndex(graph_.common.key)];
  }
  // Returns the number of valid tokens of a row.
  int64_t Length(int64_t row) const {
    const int64_t most = Tokens();
    return std::max<int64_t>(1, most - (row * 3 + row / 2) % (most / 2 + 1));
  }
  // Returns the position of a row's first new token.
  int64_t Begin(int64_t row) const {
    if (Tokens() == Keys()) return 0;
    const int64_t room = Keys() - Tokens();
    return room - row * 3 % (room / 2 + 1);
  }

  // Creates one data input. Each micro-batch gets its own tokens.
  void MakeData(const step::Data& data) {
    const bool of_tokens = data.kind < step::DataKind::kCache ||
                           data.kind == step::DataKind::kPatches;
    const int64_t micro = of_tokens ? made_[data.kind]++ : 0;
    Random random =
        random_.Split("data").Split(static_cast<uint64_t>(data.kind));
    if (micro > 0) random = random.Split(static_cast<uint64_t>(micro));
    const auto width = AsIndex(Tokens());
    switch (data.kind) {
      case step::DataKind::kIds:
      case step::DataKind::kLabels: {
        const auto rows = static_cast<uint64_t>(Vocabulary());
        // The ids are spread over the vocabulary by steps of 7.
        Fill(data.value, [&](size_t at) {
          return static_cast<double>((at * 7 + random.Below(at, 3)) % rows);
        });
        break;
      }
      case step::DataKind::kWeights:
        Fill(data.value, [&](size_t at) {
          const auto row = static_cast<int64_t>(at / width) + 3 * micro;
          return static_cast<int64_t>(at % width) < Length(row) ? 1.0 : 0.0;
        });
        break;
      case step::DataKind::kPositions:
        if (IsEncoders(data.value)) {
          const auto tokens =
              AsIndex(sizes_[AsIndex(graph_.common.encoder_query)]);
          Fill(data.value,
               [&](size_t at) { return static_cast<double>(at % tokens); });
          break;
        }
        Fill(data.value, [&](size_t at) {
          const auto row = static_cast<int64_t>(at / width);
          return static_cast<double>(Begin(row) +
                                     static_cast<int64_t>(at % width));
        });
        break;
      case step::DataKind::kPatches:
        Fill(data.value, [&](size_t at) { return random.Normal(at); });
        break;
      case step::DataKind::kCache:
        Fill(data.value, [&](size_t at) {
          return CacheNumber(data.value, at, random.Split(AsIndex(data.value)));
        });
        break;
      case step::DataKind::kCachePositions: {
        const auto keys = AsIndex(Keys());
        Fill(data.value,
             [&](size_t at) { return static_cast<double>(at % keys); });
        break;
      }
    }
  }

  // Returns an element of a cache. Rows beyond a sequence's length get large
  // numbers, which change the results of a program that does not mask these
  // rows. In a cache of the encoder's keys or values, all rows are used.
  double CacheNumber(ValueId value, size_t at, const Random& random) const {
    if (Has(value, graph_.common.encoder_key)) return random.Normal(at);
    const Shape shape = step::ShapeOf(graph_, value, sizes_);
    int64_t each = 1;
    for (size_t d = 2; d < shape.size(); ++d) each *= shape[d];
    const auto element = static_cast<int64_t>(at);
    const int64_t key = element / each % shape[1];
    const int64_t row = element / each / shape[1];
    return random.Normal(at) * (key < Begin(row) ? 1.0 : 100.0);
  }

  int64_t Vocabulary() const {
    for (size_t label = 0; label < sizes_.size(); ++label) {
      if (graph_.labels[label].semantic == "VOCAB") return sizes_[label];
    }
    if (graph_.logits >= 0) {
      const step::LabelId last =
          graph_.values[AsIndex(graph_.logits)].labels.back();
      return sizes_[AsIndex(last)];
    }
    return 16;
  }

  const step::Graph& graph_;
  const step::Sizes& sizes_;
  Random random_;
  StepData out_;
  std::map<step::DataKind, int64_t> made_;
};

}  // namespace

StepData MakeStepData(const step::Graph& graph, const step::Sizes& sizes,
                      Dtype dtype, uint64_t seed) {
  return Maker(graph, sizes, dtype, seed).Run();
}

// Compares values of a run with the reference. Each device has a part of a
// value, which is compared with the same part of the reference:
//
//   [4, 8] over dp=2: the device with rows 2 and 3 is compared with elements 16
//   to 31 of the reference

namespace {

using exec::Buffer;

double ElementOf(const Buffer& buffer, size_t i) {
  if (buffer.IsWide()) return buffer.wide[i];
  return buffer.IsReal() ? static_cast<double>(buffer.real[i])
                         : static_cast<double>(buffer.integers[i]);
}

}  // namespace

double Difference(const Buffer& got, const std::vector<double>& want) {
  double most = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double x = ElementOf(got, i);
    if (x == want[i]) continue;
    const double off = std::abs(x - want[i]);
    if (!(off <= most)) most = std::isnan(off) ? INFINITY : off;
  }
  return most;
}

double DifferenceHere(const exec::SimMesh& mesh,
                      const exec::ShardedTensor& tensor,
                      const std::vector<double>& want) {
  // Maps the start index of each part of the tensor to the last device of this
  // rank (process) that holds the part.
  std::map<Shape, int> last;
  for (int d = mesh.first_held(); d < mesh.end_held(); ++d) {
    last[exec::LocalStart(mesh, tensor.shape, tensor.spec, d)] = d;
  }
  if (last.size() == 1 &&
      tensor.local[AsIndex(last.begin()->second)].Elements() ==
          static_cast<int64_t>(want.size())) {
    return Difference(tensor.local[AsIndex(last.begin()->second)], want);
  }
  const Buffer right{tensor.shape, Dtype::kF64, {}, {}, want};
  double most = 0;
  for (const auto& [start, device] : last) {
    const Buffer& part = tensor.local[AsIndex(device)];
    most = std::max(
        most,
        Difference(part, exec::SliceBlock(right, start, part.shape).wide));
  }
  return most;
}

Buffer GatherAnyway(const exec::SimMesh& mesh, exec::Transport* transport,
                    const exec::ShardedTensor& tensor) {
  std::vector<int> all(AsIndex(mesh.devices()));
  std::iota(all.begin(), all.end(), 0);
  exec::PerDevice shared;
  if (transport != nullptr) {
    const Shape extent = exec::LocalShape(mesh, tensor.shape, tensor.spec);
    shared = exec::ShareArrays(mesh, tensor.local, extent, all);
  }
  Buffer out = Buffer::Zeros(tensor.shape, tensor.dtype);
  for (const int device : all) {
    const Buffer& part =
        (shared.empty() ? tensor.local : shared)[AsIndex(device)];
    exec::CopyBlock(part, Shape(part.shape.size(), 0), out,
                    exec::LocalStart(mesh, tensor.shape, tensor.spec, device),
                    part.shape);
  }
  return out;
}

}  // namespace shardc::verify
