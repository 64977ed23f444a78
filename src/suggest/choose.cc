// Tensor parallelism takes the dimension inside of a weight, data axes its
// width. What cannot be cut inside is stored in slices of the width, family by
// family, since what leaves one projection enters the next:
//
//   q [4096, 4096], tp 8, 32 heads  ->  [HEAD, [FSDP, SP]]
//   q [4544, 4544], tp 8, 71 heads  ->  [null, [FSDP, SP, TP]], and so o
//
// Data axes go where they give the most parts; of equals, to the width first.
#include "suggest/choose.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

namespace shardc::suggest {
namespace {

// What has fewer elements is whole everywhere, if no role says otherwise.
constexpr int64_t kSmallElements = 65536;
// Or, in a small model, less than such a part of it.
constexpr int64_t kFewest = 50;
// In thousandths of the model's bytes.
constexpr double kSmallShare = 5;
constexpr double kTableShare = 10;
// What whole keys and values may add to a device's bytes.
constexpr double kKeysShare = 40;
// What slices have to save of a device's bytes, to be worth their traffic.
constexpr double kWorthSlices = 30;

struct Synonym {
  std::string_view name;
  AxisRule rule;
};
constexpr Synonym kSynonyms[] = {
    {"model", AxisRule::kTensorParallel},
    {"mp", AxisRule::kTensorParallel},
    {"mdl", AxisRule::kTensorParallel},
    {"tensor", AxisRule::kTensorParallel},
    {"tensor_parallel", AxisRule::kTensorParallel},
    {"fully_sharded_data_parallel", AxisRule::kFullyShardedDataParallel},
    {"shard", AxisRule::kFullyShardedDataParallel},
    {"dp_shard", AxisRule::kFullyShardedDataParallel},
    {"zero", AxisRule::kFullyShardedDataParallel},
    {"data", AxisRule::kDataParallel},
    {"replica", AxisRule::kDataParallel},
    {"dp_replicate", AxisRule::kDataParallel},
    {"data_parallel", AxisRule::kDataParallel},
    {"expert", AxisRule::kExpertParallel},
    {"experts", AxisRule::kExpertParallel},
    {"expert_parallel", AxisRule::kExpertParallel},
    {"seq", AxisRule::kSequenceParallel},
    {"sequence", AxisRule::kSequenceParallel},
    {"context", AxisRule::kSequenceParallel},
    {"cp", AxisRule::kSequenceParallel},
    {"sequence_parallel", AxisRule::kSequenceParallel},
};

bool DividesInto(int64_t size, int64_t parts, int64_t block) {
  return size % parts == 0 && (size / parts) % block == 0;
}

// Names in a spec cannot be those of both a token and a mesh axis, so data
// axes are written by their tokens.
struct DataAxis {
  std::string token;
  int64_t size = 1;
};

using Spec = std::vector<std::vector<Cut>>;

int64_t PartsOf(const std::vector<Cut>& cuts) {
  int64_t parts = 1;
  for (const Cut& cut : cuts) parts *= cut.size;
  return parts;
}

class Chooser {
 public:
  Chooser(const Tree& tree, const Readings& readings, const MeshAxes& mesh,
          const Wishes& wishes)
      : tree_(tree), readings_(readings.kinds), mesh_(mesh), wishes_(wishes) {}

  Choices Run() {
    for (const Kind& kind : tree_.kinds) {
      elements_ += std::min(kSmallElements, kind.elements) * kind.count();
    }
    FindFamilies();
    out_.kinds.resize(readings_.size());
    for (size_t k = 0; k < readings_.size(); ++k) {
      if (IsCompanion(k)) continue;
      out_.kinds[k] = ChooseOne(k, WayOf(k));
    }
    for (size_t k = 0; k < readings_.size(); ++k) {
      if (IsCompanion(k)) out_.kinds[k] = ChooseCompanion(k);
    }
    out_.axes = AxesToWrite();
    return std::move(out_);
  }

 private:
  bool IsCompanion(size_t k) const {
    const Part part = readings_[k].part;
    return part == Part::kBias || part == Part::kScale ||
           part == Part::kHeadVector;
  }

  double Thousandths(int64_t bytes) const {
    return tree_.bytes <= 0 ? 0.0
                            : static_cast<double>(bytes) * 1000 /
                                  static_cast<double>(tree_.bytes);
  }

  // Devices over which one copy of the model lies.
  double DevicesOfReplica() const {
    const int64_t devices = mesh_.devices() / mesh_.dp;
    return static_cast<double>(devices);
  }

  // Of what a device has to hold at best.
  bool IsSmall(size_t k) const {
    const Kind& kind = tree_.kinds[k];
    if (kind.elements < std::min(kSmallElements, elements_ / kFewest)) {
      return true;
    }
    return Thousandths(kind.total_bytes()) * DevicesOfReplica() < kSmallShare;
  }

  // Tensor parallelism keeps whole what the inner dimension counts.
  bool CutsInside(const Reading& reading, int64_t parts) const {
    if (reading.inner < 0) return false;
    const Dim& dim = reading.dims[static_cast<size_t>(reading.inner)];
    return DividesInto(dim.size, parts, dim.block) &&
           std::all_of(reading.units.begin(), reading.units.end(),
                       [&](int64_t units) { return units % parts == 0; });
  }

  // Kinds that are cut inside together or not at all.
  std::string FamilyOf(const Reading& reading) const {
    const std::string& family = reading.name.family;
    if (IsMlp(reading.part)) {
      const int64_t inner = reading.part == Part::kGateUp
                                ? reading.inner_size / 2
                                : reading.inner_size;
      return family + "\n" + std::to_string(inner);
    }
    return family;
  }

  static bool IsKey(Part part) {
    return part == Part::kKey || part == Part::kValue ||
           part == Part::kKeyValue;
  }

  // How tensor parallelism takes a family.
  enum class Way : uint8_t { kInside, kExperts, kSlices };

  struct Family {
    std::vector<size_t> kinds;
    bool cuts_inside = true;
    Way way = Way::kInside;
  };

  void FindFamilies() {
    for (size_t k = 0; k < readings_.size(); ++k) {
      const Reading& reading = readings_[k];
      if (!reading.IsMatrix()) continue;
      if (IsKey(reading.part)) keys_bytes_ += tree_.kinds[k].total_bytes();
      if (!IsAttention(reading.part) && !IsMlp(reading.part)) continue;
      auto& families = IsKey(reading.part) ? keys_ : families_;
      Family& family = families[FamilyOf(reading)];
      family.kinds.push_back(k);
      family.cuts_inside = family.cuts_inside && CutsInside(reading, mesh_.tp);
    }
    for (auto& [name, family] : families_) family.way = WayOf(family);
    for (auto& [name, family] : keys_) {
      const auto of = families_.find(name);
      const bool inside =
          family.cuts_inside &&
          (of == families_.end() || of->second.way == Way::kInside);
      family.way = inside ? Way::kInside : Way::kSlices;
    }
  }

  Way WayOf(const Family& family) const {
    std::vector<Way> ways;
    if (family.cuts_inside) ways.push_back(Way::kInside);
    const bool experts =
        std::all_of(family.kinds.begin(), family.kinds.end(),
                    [&](size_t k) { return DividesExperts(readings_[k]); });
    if (experts) ways.push_back(Way::kExperts);
    ways.push_back(Way::kSlices);
    Way best = ways.front();
    double least = BytesWith(family, best);
    for (size_t i = 1; i < ways.size() && mesh_.tp > 1; ++i) {
      const double bytes = BytesWith(family, ways[i]);
      const double saved =
          Thousandths(static_cast<int64_t>(least - bytes)) * DevicesOfReplica();
      const bool worth = ways[i] == Way::kSlices && best != Way::kSlices
                             ? saved > kWorthSlices
                             : bytes * 1.05 < least;
      if (!worth) continue;
      best = ways[i];
      least = bytes;
    }
    return best;
  }

  // Whole experts by tp: rows of a stack, or tensors that are placed.
  bool DividesExperts(const Reading& reading) const {
    if (reading.experts >= 0) {
      const int64_t count =
          reading.dims[static_cast<size_t>(reading.experts)].size;
      return count % (mesh_.ep * mesh_.tp) == 0;
    }
    return reading.expert_count > 1 && mesh_.ep == 1 &&
           !wishes_.place_experts && reading.expert_count % mesh_.tp == 0;
  }

  double BytesWith(const Family& family, Way way) const {
    double out = 0;
    for (const size_t k : family.kinds) {
      out += static_cast<double>(tree_.kinds[k].total_bytes()) /
             static_cast<double>(ChooseOne(k, way).Parts());
    }
    return out;
  }

  Way WayOf(size_t k) const {
    const Reading& reading = readings_[k];
    const auto& families = IsKey(reading.part) ? keys_ : families_;
    const auto at = families.find(FamilyOf(reading));
    return at == families.end() ? Way::kInside : at->second.way;
  }

  // ---- one weight

  // What tensor parallelism may do to a kind, the best first; of equals in
  // parts the first is taken.
  struct Option {
    int dim = -1;
    std::string token;
    Reason reason = Reason::kUsual;
  };

  std::vector<Option> Options(size_t k, Way way) const {
    const Reading& reading = readings_[k];
    const Kind& kind = tree_.kinds[k];
    const double share = Thousandths(kind.total_bytes());
    const Option slices = {reading.width, "TP", Reason::kSlices};
    const Option none = {-1, "", Reason::kWholeTensor};
    switch (reading.part) {
      case Part::kQuery:
      case Part::kQkv:
      case Part::kOutput:
      case Part::kLatentUp:
        if (way == Way::kInside) return {{reading.inner, "HEAD"}};
        return {slices, none};
      case Part::kKey:
      case Part::kValue:
      case Part::kKeyValue:
        if (way == Way::kInside) return {{reading.inner, "KV_HEAD"}};
        if (Thousandths(keys_bytes_) * static_cast<double>(mesh_.tp - 1) <
            kKeysShare) {
          return {{-1, "", Reason::kWholeKeys}};
        }
        return {slices, none};
      case Part::kUp:
      case Part::kGateUp:
      case Part::kDown:
        if (way == Way::kInside) return {{reading.inner, "MLP_INTERMEDIATE"}};
        if (way == Way::kExperts) {
          return {{reading.experts, "TP", Reason::kWholeExperts}};
        }
        return {slices, none};
      case Part::kEmbedding:
      case Part::kHead:
        if (reading.inner < 0) return FreeOptions(reading);
        if (CutsInside(reading, mesh_.tp)) return {{reading.inner, "VOCAB"}};
        if (share < kTableShare || wishes_.prefer_traffic) return {none};
        return {slices, none};
      case Part::kInner:
        if (CutsInside(reading, mesh_.tp)) return {{reading.inner, "TP"}};
        return {slices, none};
      case Part::kLatent:
      case Part::kMixer:
        if (share < kSmallShare) return {none};
        if (reading.width < 0) return FreeOptions(reading);
        return {slices, none};
      case Part::kAdapter:
      case Part::kRouter:
      case Part::kVector:
        return {none};
      default:
        if (share < kTableShare) return {none};
        return FreeOptions(reading);
    }
  }

  std::vector<Option> FreeOptions(const Reading& reading) const {
    std::vector<Option> out;
    for (const int dim : DataDims(reading)) out.push_back({dim, "TP"});
    out.push_back({-1, "", Reason::kWholeTensor});
    return out;
  }

  // Dimensions that data axes may cut, the best first.
  std::vector<int> DataDims(const Reading& reading) const {
    std::vector<int> out;
    if (wishes_.place_experts && reading.experts >= 0) {
      out.push_back(reading.experts);
    }
    if (reading.width >= 0) out.push_back(reading.width);
    std::vector<int> free;
    for (size_t i = 0; i < reading.dims.size(); ++i) {
      if (reading.dims[i].use == Use::kFree)
        free.push_back(static_cast<int>(i));
    }
    std::stable_sort(free.begin(), free.end(), [&](int a, int b) {
      return reading.dims[static_cast<size_t>(a)].size >
             reading.dims[static_cast<size_t>(b)].size;
    });
    out.insert(out.end(), free.begin(), free.end());
    if (reading.inner >= 0 && reading.part != Part::kAdapter) {
      out.push_back(reading.inner);
    }
    return out;
  }

  // Whether the expert axis has no dimension of its own in a kind, so that it
  // is one more data axis.
  std::vector<DataAxis> DataAxes(const Reading& reading, bool expert_cut,
                                 const std::string& placed) const {
    std::vector<DataAxis> out;
    if (placed != "FSDP") out.push_back({"FSDP", mesh_.fsdp});
    if (mesh_.ep > 1 && !expert_cut && placed != "EP" &&
        reading.part != Part::kAdapter) {
      out.push_back({"EP", mesh_.ep});
    }
    out.push_back({"SP", mesh_.sp});
    return out;
  }

  // Every assignment of the data axes to dimensions; the one of most parts.
  Spec WithData(const Reading& reading, const Spec& cuts,
                const std::vector<DataAxis>& axes) const {
    const std::vector<int> dims = DataDims(reading);
    const size_t choices = dims.size() + 1;  // the last: nowhere
    size_t all = 1;
    for (size_t i = 0; i < axes.size(); ++i) all *= choices;
    Spec best = cuts;
    int64_t most = 0;
    size_t least_moved = 0;
    for (size_t code = 0; code < all; ++code) {
      Spec spec = cuts;
      size_t rest = code;
      size_t moved = 0;
      int64_t parts = 1;
      for (const DataAxis& axis : axes) {
        const size_t pick = rest % choices;
        rest /= choices;
        moved += pick * (axis.size > 1 ? 4 : 1);
        if (pick == dims.size()) continue;
        AddData(spec[static_cast<size_t>(dims[pick])], axis);
        parts *= axis.size;
      }
      const bool better =
          most == 0 || parts > most || (parts == most && moved < least_moved);
      if (!better || !Legal(reading, spec)) continue;
      best = std::move(spec);
      most = parts;
      least_moved = moved;
    }
    return best;
  }

  // Data axes stand before slices and behind what keeps heads whole.
  static void AddData(std::vector<Cut>& cuts, const DataAxis& axis) {
    const auto at = std::find_if(cuts.begin(), cuts.end(), [](const Cut& cut) {
      return cut.token == "TP";
    });
    cuts.insert(at, {axis.token, axis.size});
  }

  static bool Legal(const Reading& reading, const Spec& spec) {
    for (size_t i = 0; i < spec.size(); ++i) {
      const Dim& dim = reading.dims[i];
      if (!DividesInto(dim.size, PartsOf(spec[i]), dim.block)) return false;
    }
    return true;
  }

  Choice ChooseOne(size_t k, Way way) const {
    const Reading& reading = readings_[k];
    Choice out;
    const bool role = reading.IsMatrix() && reading.part != Part::kRouter &&
                      reading.part != Part::kInner &&
                      reading.part != Part::kAdapter &&
                      reading.part != Part::kMixer;

    if (reading.name.role.role == Role::kNorm) return out;
    if (!role && IsSmall(k)) return out;
    Spec base(reading.dims.size());
    bool expert_cut = false;
    if (reading.experts >= 0) {
      auto& dim = base[static_cast<size_t>(reading.experts)];
      expert_cut =
          reading.dims[static_cast<size_t>(reading.experts)].size % mesh_.ep ==
          0;
      if (expert_cut) dim.push_back({"EXPERT", mesh_.ep});
    } else if (reading.expert_count > 1) {
      PlaceExperts(reading, way, out);
    }
    const auto axes = DataAxes(reading, expert_cut, out.place_axis);
    int64_t most = -1;
    for (const Option& option : Options(k, way)) {
      Spec cuts = base;
      if (option.dim >= 0) {
        cuts[static_cast<size_t>(option.dim)].push_back(
            {option.token, mesh_.tp});
      } else if (option.reason == Reason::kSlices) {
        continue;
      }
      if (!Legal(reading, cuts)) continue;
      Spec spec = WithData(reading, cuts, axes);
      int64_t parts = 1;
      for (const auto& dim : spec) parts *= PartsOf(dim);
      if (parts <= most) continue;
      most = parts;
      out.spec = std::move(spec);
      out.reason = option.reason;
      out.inner_cut = option.dim >= 0 && option.dim == reading.inner;
      out.width_slices = option.reason == Reason::kSlices;
    }
    Explain(reading, axes, out);
    if (Empty(out.spec)) out.spec.clear();
    return out;
  }

  static bool Empty(const Spec& spec) {
    return std::all_of(spec.begin(), spec.end(),
                       [](const auto& dim) { return dim.empty(); });
  }

  // Where the axis divides the experts; over fsdp only if that is wished.
  void PlaceExperts(const Reading& reading, Way way, Choice& out) const {
    const int64_t count = reading.expert_count;
    if (way == Way::kExperts) {
      out.place_axis = "TP";
      out.place_size = mesh_.tp;
    } else if (mesh_.ep == 1 && wishes_.place_experts && mesh_.fsdp > 1 &&
               count % mesh_.fsdp == 0) {
      out.place_axis = "FSDP";
      out.place_size = mesh_.fsdp;
    } else if (count % mesh_.ep == 0) {
      out.place_axis = "EP";
      out.place_size = mesh_.ep;
    }
    out.place_count = out.place_axis.empty() ? 0 : count;
  }

  void Explain(const Reading& reading, const std::vector<DataAxis>& axes,
               Choice& out) const {
    const auto words = reading.name.role.role;
    out.ignore_reshard = out.width_slices && mesh_.tp > 1 &&
                         reading.name.role.attention && HasSibling(reading) &&
                         reading.dims.size() == 2 &&
                         (words == Role::kQuery || words == Role::kKey ||
                          words == Role::kValue || words == Role::kFusedQkv);
    if (out.reason != Reason::kUsual) return;
    int64_t parts = 1;
    for (const DataAxis& axis : axes) parts *= axis.size;
    int64_t used = 1;
    for (size_t i = 0; i < out.spec.size(); ++i) {
      for (const Cut& cut : out.spec[i]) {
        const bool data = std::any_of(
            axes.begin(), axes.end(),
            [&](const DataAxis& axis) { return axis.token == cut.token; });
        if (!data) continue;
        used *= cut.size;
        if (static_cast<int>(i) == reading.inner && cut.size > 1) {
          out.reason = Reason::kBehindToken;
        }
      }
    }
    if (used < parts) out.reason = Reason::kLessData;
  }

  // Lints compare the projections that stand in one module.
  bool HasSibling(const Reading& reading) const {
    if (!reading.name.linted) return false;
    const GroupRole& role = reading.name.role;
    return std::any_of(
        readings_.begin(), readings_.end(), [&](const Reading& other) {
          return other.name.linted && other.name.role.role != role.role &&
                 other.name.role.siblings == role.siblings;
        });
  }

  // ---- what belongs to a weight

  Choice ChooseCompanion(size_t k) const {
    const Reading& reading = readings_[k];
    if (reading.part == Part::kHeadVector) return ChooseHeadVector(k);
    Choice out;
    if (reading.weight < 0) {
      return reading.part == Part::kScale && !IsSmall(k)
                 ? ChooseOne(k, Way::kInside)
                 : out;
    }
    const auto w = static_cast<size_t>(reading.weight);
    const Reading& weight = readings_[w];
    const Choice& choice = out_.kinds[w];
    if (choice.replicated() && choice.place_axis.empty()) return out;
    if (reading.expert_count > 1) {
      out.place_axis = choice.place_axis;
      out.place_count = choice.place_count;
      out.place_size = choice.place_size;
    }
    if (choice.spec.empty()) return out;
    out.spec.resize(reading.dims.size());
    if (reading.part == Part::kScale) {
      CutScale(reading, weight, choice, out.spec);
    } else {
      CutBias(reading, weight, choice, out.spec);
    }
    if (Empty(out.spec)) out.spec.clear();
    return out;
  }

  // As its weight, dimension by dimension, where that divides.
  static void CutScale(const Reading& scale, const Reading& weight,
                       const Choice& choice, Spec& spec) {
    const size_t own = scale.dims.size();
    const bool prefix = own == weight.dims.size() ||
                        (weight.name.blocks && own + 1 == weight.dims.size());
    for (size_t i = 0; i < own; ++i) {
      const bool experts =
          weight.experts >= 0 && static_cast<int>(i) == weight.experts;
      if (!prefix && !experts) continue;
      if (scale.dims[i].size % PartsOf(choice.spec[i]) == 0 &&
          scale.dims[i].size > 1) {
        spec[i] = choice.spec[i];
      }
    }
  }

  // What leaves a weight that is cut inside leaves it in parts.
  static void CutBias(const Reading& bias, const Reading& weight,
                      const Choice& choice, Spec& spec) {
    for (size_t i = 0; i < bias.dims.size(); ++i) {
      const bool experts =
          weight.experts >= 0 && static_cast<int>(i) == weight.experts &&
          bias.dims.size() > 1 && bias.dims[i].size == weight.dims[i].size;
      if (experts) spec[i] = choice.spec[i];
    }
    if (!weight.column || !choice.inner_cut) return;
    const size_t last = spec.size() - 1;
    const auto inner = static_cast<size_t>(weight.inner);
    // Of heads with columns of their own, the heads stand before them.
    for (const size_t at : {last, last > 0 ? last - 1 : last}) {
      if (bias.dims[at].size != weight.dims[inner].size) continue;
      if (!spec[at].empty()) continue;
      spec[at] = {choice.spec[inner].front()};
      return;
    }
  }

  // A number for each head, or a norm over all of its block's columns.
  Choice ChooseHeadVector(size_t k) const {
    Choice out;
    const Kind& kind = tree_.kinds[k];
    if (kind.rank() != 1 || kind.shape[0] < 2) return out;
    const bool key = IsOfKey(kind);
    const bool norm = kind.name.find("norm") != std::string::npos;
    for (size_t w = 0; w < readings_.size(); ++w) {
      const Reading& weight = readings_[w];
      if (weight.name.family != readings_[k].name.family ||
          !out_.kinds[w].inner_cut || !weight.IsMatrix()) {
        continue;
      }
      const bool mine = key ? weight.part == Part::kKey
                            : weight.part == Part::kQuery ||
                                  (!norm && weight.part == Part::kQkv);
      if (!mine || weight.units.empty()) continue;
      const int64_t wanted = norm ? weight.inner_size : weight.units[0];
      if (kind.shape[0] != wanted || (norm && key && NormedByHead(k))) {
        continue;
      }
      out.spec = {
          {out_.kinds[w].spec[static_cast<size_t>(weight.inner)].front()}};
      out.inner_cut = true;
      return out;
    }
    return out;
  }

  // Where a query is normed head by head, so is its key, though that may have
  // one head only.
  bool NormedByHead(size_t k) const {
    const std::string& family = readings_[k].name.family;
    int64_t query = 0;
    for (const Reading& reading : readings_) {
      if (reading.part == Part::kQuery && reading.name.family == family) {
        query = std::max(query, reading.inner_size);
      }
    }
    for (size_t other = 0; other < readings_.size(); ++other) {
      const Kind& kind = tree_.kinds[other];
      if (other != k && readings_[other].part == Part::kHeadVector &&
          readings_[other].name.family == family && kind.rank() == 1 &&
          kind.name.find("norm") != std::string::npos && !IsOfKey(kind) &&
          kind.shape[0] != query) {
        return true;
      }
    }
    return false;
  }

  static bool IsOfKey(const Kind& kind) {
    return kind.name.find("k_norm") != std::string::npos ||
           kind.name.find("k_layernorm") != std::string::npos ||
           kind.name.find("key_norm") != std::string::npos ||
           kind.name.find("norm_k") != std::string::npos;
  }

  // ---- axis rules

  AxisRules AxesToWrite() {
    AxisRules axes = mesh_.renamed;
    bool attention = false, by_head = false, keys = false, by_kv_head = false;
    for (size_t k = 0; k < readings_.size(); ++k) {
      const Reading& reading = readings_[k];
      if (!IsAttention(reading.part)) continue;
      if (IsKey(reading.part)) {
        keys = true;
        by_kv_head = by_kv_head || out_.kinds[k].inner_cut;
      } else {
        attention = true;
        by_head = by_head || out_.kinds[k].inner_cut;
      }
    }
    const bool cuts = mesh_.tp > 1;
    out_.heads_whole = cuts && attention && !by_head;
    out_.kv_heads_whole = cuts && (keys ? !by_kv_head : attention && !by_head);
    if (out_.heads_whole) axes.Set(AxisRule::kHead, {});
    if (out_.kv_heads_whole) axes.Set(AxisRule::kKvHead, {});
    if (cuts) axes.Set(AxisRule::kHiddenState, {});
    out_.batch_over_experts = mesh_.ep > 1;
    if (out_.batch_over_experts) {
      AxisGroup batch;
      for (AxisRule rule :
           {AxisRule::kFullyShardedDataParallel, AxisRule::kExpertParallel,
            AxisRule::kDataParallel}) {
        const auto value = axes.Value(rule);
        batch.insert(batch.end(), value.axes.begin(), value.axes.end());
      }
      axes.Set(AxisRule::kBatch, {false, std::move(batch)});
    }
    if (mesh_.sp > 1) axes.Set(AxisRule::kDecodeQuerySequence, {false, {}});
    return axes;
  }

  const Tree& tree_;
  const std::vector<Reading>& readings_;
  const MeshAxes& mesh_;
  Wishes wishes_;
  std::map<std::string, Family> families_, keys_;
  int64_t keys_bytes_ = 0;
  int64_t elements_ = 0;  // of each tensor at most as many as decide
  Choices out_;
};

}  // namespace

MeshAxes AxesOf(const Mesh& mesh) {
  MeshAxes out;
  const std::pair<AxisRule, int64_t*> sizes[] = {
      {AxisRule::kDataParallel, &out.dp},
      {AxisRule::kFullyShardedDataParallel, &out.fsdp},
      {AxisRule::kTensorParallel, &out.tp},
      {AxisRule::kSequenceParallel, &out.sp},
      {AxisRule::kExpertParallel, &out.ep}};
  const auto taken = [&](AxisRule rule) {
    return out.renamed.Given(rule).has_value() ||
           mesh.Find(AxisRules().Value(rule).axes.front()).has_value();
  };
  const auto take = [&](AxisRule rule, const MeshAxis& axis, bool rename) {
    for (const auto& [known, size] : sizes) {
      if (known == rule) *size = axis.size;
    }
    if (rename) out.renamed.Set(rule, {false, {axis.name}});
  };
  std::vector<const MeshAxis*> strangers;
  for (const MeshAxis& axis : mesh.axes) {
    bool own = false;
    for (const auto& [rule, size] : sizes) {
      if (AxisRules().Value(rule).axes.front() != axis.name) continue;
      take(rule, axis, false);
      own = true;
    }
    if (!own) strangers.push_back(&axis);
  }
  for (const MeshAxis* axis : strangers) {
    const auto* known = std::find_if(
        std::begin(kSynonyms), std::end(kSynonyms),
        [&](const Synonym& synonym) { return synonym.name == axis->name; });
    AxisRule rule =
        known == std::end(kSynonyms) ? AxisRule::kBatch : known->rule;
    // The only axis of data shards the weights too.
    if (rule == AxisRule::kDataParallel && axis->name == "data" &&
        !taken(AxisRule::kFullyShardedDataParallel)) {
      rule = AxisRule::kFullyShardedDataParallel;
    }
    if (known == std::end(kSynonyms) || taken(rule)) {
      if (axis->size > 1) out.unused.push_back(axis->name);
    } else {
      take(rule, *axis, true);
    }
  }
  return out;
}

bool Choice::replicated() const {
  return std::all_of(spec.begin(), spec.end(),
                     [](const auto& dim) { return dim.empty(); });
}

int64_t Choice::Parts() const {
  int64_t parts = place_size;
  for (const auto& dim : spec) parts *= PartsOf(dim);
  return parts;
}

Choices Choose(const Tree& tree, const Readings& readings, const MeshAxes& mesh,
               const Wishes& wishes) {
  return Chooser(tree, readings, mesh, wishes).Run();
}

}  // namespace shardc::suggest
