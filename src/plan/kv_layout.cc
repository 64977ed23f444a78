// Makes the kinds of layers from a config.json, and writes and reads them. A
// kind has the layers as ranges:
//
//   layers that keep all, all, a state, all, of one size
//     ->  full [0, 2) and [3, 4), state [2, 3)
#include "plan/kv_layout.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/memory.h"
#include "facts/parameters.h"
#include "model/mesh_layout.h"
#include "model/name.h"
#include "plan/compile.h"
#include "plan/read.h"
#include "roles/layer_stacks.h"
#include "roles/role.h"
#include "source/json_form.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/size.h"
#include "step/lines.h"
#include "step/roles.h"

namespace shardc {
namespace {

constexpr size_t kKeyHeadDim = 2;
// Limits of the numbers that are read, so that bytes fit in 64 bits.
constexpr int64_t kMostSize = int64_t{1} << 24;
constexpr size_t kMostKinds = 64;

// Adds a layer after those of the ranges.
void AddLayer(std::vector<LayerRange>& ranges, int64_t layer) {
  if (!ranges.empty() && ranges.back().end == layer) {
    ++ranges.back().end;
  } else {
    ranges.push_back({layer, layer + 1});
  }
}

std::vector<LayerRange> LayersThatKeep(const std::vector<KeptTokens>& kept,
                                       KeptTokens what) {
  std::vector<LayerRange> out;
  for (int64_t i = 0; i < std::ssize(kept); ++i) {
    if (kept[static_cast<size_t>(i)] == what) AddLayer(out, i);
  }
  return out;
}

void AddStates(const ModelConfig& model, std::vector<KvKind>& out) {
  const auto layers = LayersThatKeep(model.kept, KeptTokens::kState);
  if (layers.empty()) return;
  KvKind state{.kind = KvKindName::kState, .layers = layers};
  if (const auto& linear = model.linear_attention) {
    state.heads = linear->value_heads;
    state.head_dim = linear->key_dim;
    state.value_dim = linear->value_dim;
  }
  out.push_back(state);
  const auto& linear = model.linear_attention;
  if (!linear || linear->kernel < 2) return;
  out.push_back({.kind = KvKindName::kConvKey,
                 .layers = layers,
                 .heads = linear->key_heads,
                 .head_dim = linear->key_dim,
                 .window = linear->kernel - 1});
  out.push_back({.kind = KvKindName::kConvValue,
                 .layers = layers,
                 .heads = linear->value_heads,
                 .head_dim = linear->value_dim,
                 .window = linear->kernel - 1});
}

bool IsLarge(const KvKind& kind) {
  return std::max({kind.heads, kind.head_dim, kind.value_dim}) > kMostSize;
}

// Reads the kinds of layers of a `kv` that has its form. Functions return false
// after a finding.
class KvReader {
 public:
  explicit KvReader(Findings& findings) : findings_(findings) {}

  bool ReadKind(const JsonValue& item, KvKind& out) {
    const auto name = std::find(kKvKindNames.begin(), kKvKindNames.end(),
                                MemberOrNull(item, "kind").string());
    out.kind = static_cast<KvKindName>(name - kKvKindNames.begin());
    const bool state = out.kind == KvKindName::kState;
    if (!ReadLayers(MemberOrNull(item, "layers"), out) ||
        !ReadSize(item, "heads", !state, out.heads) ||
        !ReadSize(item, "head_dim", !state, out.head_dim) ||
        !ReadSize(item, "value_dim", false, out.value_dim) ||
        !ReadSize(item, "window", false, out.window)) {
      return false;
    }
    // A state whose size is known has all three sizes.
    const bool some = out.heads > 0 || out.head_dim > 0 || out.value_dim > 0;
    if (state && some &&
        (out.heads == 0 || out.head_dim == 0 || out.value_dim == 0)) {
      return Refuse(item,
                    "a state has `heads`, `head_dim` and `value_dim`, or "
                    "none of them");
    }
    if (const auto axes = item.Find("axes")) {
      for (const JsonMember mode : axes->members()) {
        out.axes.emplace_back(*ParseMode(mode.name()), AxesOf(mode.value));
      }
    }
    return true;
  }

  bool Refuse(const JsonValue& at, std::string message) {
    findings_.Add(code::kSchema, at.place(), std::move(message),
                  "`shardc plan --model CONFIG.json -o FILE` writes it");
    return false;
  }

 private:
  bool ReadSize(const JsonValue& item, std::string_view key, bool required,
                int64_t& out) {
    const auto value = item.Find(key);
    if (value) out = value->integer();
    if (value ? out <= kMostSize : !required) return true;
    return Refuse(value ? *value : item,
                  "`" + std::string(key) + "` of a kind is an integer from 1 " +
                      "to " + std::to_string(kMostSize));
  }

  bool ReadLayers(const JsonValue& value, KvKind& out) {
    int64_t end = 0;
    for (const JsonValue item : value.items()) {
      auto last = item.items().begin();
      const int64_t first = (*last).integer();
      ++last;
      if (first < end || (*last).integer() <= first ||
          (*last).integer() > kMostStageLayers) {
        return Refuse(item,
                      "`layers` of a kind is a list of ranges [first, "
                      "end] in ascending order");
      }
      end = (*last).integer();
      out.layers.push_back({first, end});
    }
    return end > 0 || Refuse(value, "`layers` of a kind is a list of ranges");
  }

  Findings& findings_;
};

}  // namespace

std::vector<KvKind> KvKindsOf(const ModelConfig& model) {
  const auto kinds = CacheKindsOf(model);
  if (!kinds || model.kept.empty()) return {};
  std::vector<KvKind> out;
  for (const CacheKind& one : *kinds) {
    KvKind kind;
    const bool windowed = one.kept == KeptTokens::kWindow;
    kind.kind = model.latent_rank ? KvKindName::kLatent
                : windowed        ? KvKindName::kWindow
                                  : KvKindName::kFull;
    kind.layers = LayersThatKeep(model.kept, one.kept);
    kind.heads = one.kv_heads;
    kind.head_dim = one.head_dim;
    kind.value_dim = one.value_dim == one.head_dim ? 0 : one.value_dim;
    kind.window = one.window;
    out.push_back(kind);
    if (one.index_dim == 0) continue;
    kind.kind = KvKindName::kIndexer;
    kind.head_dim = one.index_dim;
    out.push_back(std::move(kind));
  }
  AddStates(model, out);
  const bool large = std::any_of(out.begin(), out.end(), IsLarge);
  return large ? std::vector<KvKind>{} : out;
}

namespace {

// The sizes of the keys by layer, as the projections of keys show them. The
// towers of images and sounds have no cache.
std::map<int64_t, std::set<int64_t>> KeySizes(const Compiled& compiled) {
  const char separator = compiled.manifest.separator;
  const facts::ParameterTable& table = compiled.Parameters();
  std::map<int64_t, std::set<int64_t>> out;
  for (size_t i = 0; i < compiled.plan.params.size(); ++i) {
    const ParameterRole& role = table.Of(i).RoleBy(facts::Evidence::kShapes);
    if (role.module_role != Role::kKey || !IsWeight(role)) continue;
    const std::string_view name = compiled.plan.names[i];
    const PlannedParam& param = compiled.plan.params[i];
    const TensorType& type =
        compiled.plan.types[compiled.plan.layouts[param.layout].type];
    const auto& shape = type.shape;
    const auto layer = LayerOf(name, separator);
    const int dim = OutDim(role, 2);
    if (!layer || dim < 0 || !shape || shape->size() != 2 || !type.dtype ||
        MayPack(*type.dtype) || HasPart(name, separator, kTowerWords)) {
      continue;
    }
    out[layer->layer].insert((*shape)[static_cast<size_t>(dim)]);
  }
  return out;
}

// Divides kinds of attention by the KV heads that the shapes of the keys show,
// because models whose layers have different numbers of heads state only one in
// their config.json. Leaves no kinds if the shapes contradict them in another
// way.
void DivideByHeads(const Compiled& compiled, std::vector<KvKind>& kinds) {
  std::optional<std::map<int64_t, std::set<int64_t>>> sizes;
  std::vector<KvKind> out;
  for (const KvKind& kind : kinds) {
    if (kind.kind != KvKindName::kFull && kind.kind != KvKindName::kWindow) {
      out.push_back(kind);
      continue;
    }
    if (!sizes) sizes = KeySizes(compiled);
    std::map<int64_t, std::vector<LayerRange>> by_heads;
    for (const LayerRange& range : kind.layers) {
      for (int64_t layer = range.first; layer < range.end; ++layer) {
        int64_t heads = kind.heads;
        const auto at = sizes->find(layer);
        if (at != sizes->end() &&
            !at->second.contains(kind.heads * kind.head_dim)) {
          const int64_t size = *at->second.begin();
          if (at->second.size() != 1 || size % kind.head_dim != 0) {
            kinds.clear();
            return;
          }
          heads = size / kind.head_dim;
        }
        AddLayer(by_heads[heads], layer);
      }
    }
    for (auto& [heads, layers] : by_heads) {
      out.push_back(kind);
      out.back().heads = heads;
      out.back().layers = std::move(layers);
    }
  }
  kinds = std::move(out);
}

// The layers that have parameters of attention, and those that have parameters
// of a mixer that keeps a state. A layer may have both (Falcon-H1).
struct MixedLayers {
  std::set<int64_t> attention, state;
};

MixedLayers MixedLayersOf(const Compiled& compiled) {
  const char separator = compiled.manifest.separator;
  const facts::ParameterTable& table = compiled.Parameters();
  MixedLayers out;
  for (size_t i = 0; i < compiled.plan.names.size(); ++i) {
    const std::string_view name = compiled.plan.names[i];
    const auto layer = LayerOf(name, separator);
    if (!layer || HasPart(name, separator, kTowerWords)) continue;
    const Role role = table.Of(i).RoleBy(facts::Evidence::kShapes).role;
    if (role == Role::kStateSpace) out.state.insert(layer->layer);
    if (IsAttention(role)) out.attention.insert(layer->layer);
  }
  return out;
}

// Adds the states of layers that the configuration does not list as such,
// because their parameters show one. Their size is not known. A layer that has
// no attention keeps no keys and values.
void AddShownStates(const Compiled& compiled, std::vector<KvKind>& kinds) {
  if (kinds.empty()) return;
  const MixedLayers mixed = MixedLayersOf(compiled);
  std::set<int64_t> missing = mixed.state;
  std::vector<KvKind> out;
  for (KvKind& kind : kinds) {
    const bool attends =
        kind.kind == KvKindName::kFull || kind.kind == KvKindName::kWindow;
    std::vector<LayerRange> layers;
    for (const LayerRange& range : kind.layers) {
      for (int64_t layer = range.first; layer < range.end; ++layer) {
        if (kind.kind == KvKindName::kState) missing.erase(layer);
        if (!attends || !mixed.state.contains(layer) ||
            mixed.attention.contains(layer)) {
          AddLayer(layers, layer);
        }
      }
    }
    kind.layers = std::move(layers);
    if (!kind.layers.empty()) out.push_back(std::move(kind));
  }
  KvKind state{.kind = KvKindName::kState};
  for (const int64_t layer : missing) AddLayer(state.layers, layer);
  if (!state.layers.empty()) out.push_back(std::move(state));
  kinds = std::move(out);
}

}  // namespace

void SetKv(const ModelConfig* model, Compiled& compiled) {
  if (model == nullptr) return;
  Plan& plan = compiled.plan;
  plan.kv = KvKindsOf(*model);
  DivideByHeads(compiled, plan.kv);
  AddShownStates(compiled, plan.kv);
  if (!compiled.rules.policy.kv_replicate.value_or(false)) return;
  for (const ModeActivations& mode : plan.attention) {
    for (const ActivationLayout& tensor : mode.tensors) {
      if (tensor.tensor != "key" || tensor.spec.size() <= kKeyHeadDim) continue;
      const AxisGroup& axes = tensor.spec[kKeyHeadDim];
      for (KvKind& kind : plan.kv) {
        if (kind.kind != KvKindName::kFull && kind.kind != KvKindName::kWindow)
          continue;
        const auto own = KvHeadAxes(plan.mesh, axes, kind.heads);
        if (own && *own != axes) kind.axes.emplace_back(mode.mode, *own);
      }
    }
  }
}

void WriteKv(JsonWriter& json, const std::vector<KvKind>& kv) {
  json.BeginArray(JsonLayout::kLines);
  for (const KvKind& kind : kv) {
    json.BeginObject();
    if (!kind.axes.empty()) {
      auto sorted = kind.axes;
      std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
        return ModeName(a.first) < ModeName(b.first);
      });
      json.Key("axes");
      json.BeginObject();
      for (const auto& [mode, axes] : sorted) {
        json.Member(ModeName(mode), WrittenBy(WriteGroup, axes));
      }
      json.EndObject();
    }
    json.Members("head_dim", Given(kind.head_dim), "heads", Given(kind.heads),
                 "kind", KvName(kind.kind));
    json.Array("layers", kind.layers, [&](const LayerRange& range) {
      return std::array{range.first, range.end};
    });
    json.Members("value_dim", Given(kind.value_dim), "window",
                 Given(kind.window));
    json.EndObject();
  }
  json.EndArray();
}

std::optional<std::vector<KvKind>> ReadKv(const JsonValue& value,
                                          Findings& findings) {
  KvReader reader(findings);
  if (value.size() > kMostKinds) {
    reader.Refuse(value, "`kv` is a list of at most " +
                             std::to_string(kMostKinds) + " kinds of layers");
    return std::nullopt;
  }
  std::vector<KvKind> out;
  for (const JsonValue item : value.items()) {
    if (!reader.ReadKind(item, out.emplace_back())) return std::nullopt;
  }
  return out;
}

namespace {

// Finds the dimension of KV heads by the role of a parameter (from the `model:`
// section, else from its name), and the number of heads by the configuration
// and the size of the dimension, since layers may have different numbers:
//
//   k_proj [1024, 4096], 8 KV heads of 128  ->  dimension 0, 8 heads
//   qkv_proj [6144, 4096]                   ->  fused, which is refused

void AddReplicaRule(std::optional<int64_t> heads,
                    std::optional<int64_t> head_dim, RuleSet& rules) {
  if (!heads || !head_dim || *heads < 1 || *head_dim < 1) return;
  const KvHeads one{*heads, *head_dim};
  auto& all = rules.kv_heads;
  AddOnce(all, one);
}

// Adds the numbers and sizes of KV heads in the parameters of a `model:`
// section: `[k h, d]` and `[d, k, h]` have k heads of size h if the logical
// axis of k is KV_HEAD. `size_of` returns the size of a dimension.
template <class SizeOf>
void AddDescribed(const SizeOf& size_of, RuleSet& rules) {
  const ModelDescription& model = *rules.model;
  for (const DescribedRole& role : model.roles) {
    for (size_t d = 0; d < role.dims.size(); ++d) {
      const auto& factors = role.dims[d].factors;
      const auto kv =
          std::find_if(factors.begin(), factors.end(), [&](const auto& parts) {
            const auto axis = parts.size() == 1 ? model.axes.find(parts[0])
                                                : model.axes.end();
            return axis != model.axes.end() && axis->second == "KV_HEAD";
          });
      if (kv == factors.end()) continue;
      std::vector<std::vector<std::string>> inner(kv + 1, factors.end());
      if (inner.empty() && d + 1 < role.dims.size()) {
        inner = role.dims[d + 1].factors;
      }
      std::optional<int64_t> width = 1;
      for (const auto& parts : inner) {
        int64_t sum = 0;
        for (const std::string& part : parts) {
          const std::optional<int64_t> size = size_of(part);
          sum = size ? CheckedAdd(sum, *size).value_or(0) : 0;
          if (sum == 0) break;
        }
        width = width && sum > 0 ? CheckedMul(*width, sum) : std::nullopt;
      }
      AddReplicaRule(size_of(kv->front()), width, rules);
    }
  }
}

// Returns whether a matrix with the query, key and value in one is that of
// linear attention, which has no KV heads that could be replicated. The
// evidence is a convolution over the outputs of the matrix in the same block,
// or a word of a mixer in the names of the block:
//
//   linear_attn.in_proj_qkv.weight [8192, 2048], linear_attn.conv1d.weight
//   [8192, 1, 4]  ->  linear attention
//   self_attn.qkv_proj.weight [6144, 2048]  ->  query heads and KV heads
//
// Manifests list the parameters of a block one after the other, so that only
// the neighbours of the matrix are compared.
bool IsLinearAttention(const Manifest& manifest, uint32_t tensor,
                       int64_t outputs) {
  const char separator = manifest.separator;
  const std::string_view name = manifest.tensors[tensor].name;
  const auto parent = [&](std::string_view path) {
    const size_t at = path.rfind(separator);
    return at == path.npos ? std::string_view() : path.substr(0, at);
  };
  const std::string_view block = parent(parent(name));
  if (block.empty()) return false;
  const auto shows = [&](const Tensor& other) {
    const std::string_view rest =
        std::string_view(other.name).substr(block.size() + 1);
    const auto parts = SplitName(rest, separator);
    if (std::ranges::any_of(parts, [](std::string_view part) {
          return part == "A_log" || part == "dt_bias";
        })) {
      return true;
    }
    const auto& shape = manifest.TypeOf(other).shape;
    return shape && shape->size() >= 3 && outputs > 1 &&
           IsAmong(outputs, *shape) && IsAmong(int64_t{1}, *shape);
  };
  const auto inside = [&](size_t i) {
    const std::string_view other = manifest.tensors[i].name;
    return other.size() > block.size() + 1 && other.starts_with(block) &&
           other[block.size()] == separator;
  };
  for (size_t i = tensor; i-- > 0 && inside(i);) {
    if (shows(manifest.tensors[i])) return true;
  }
  for (size_t i = tensor + 1; i < manifest.tensors.size() && inside(i); ++i) {
    if (shows(manifest.tensors[i])) return true;
  }
  return false;
}

}  // namespace

void FindKvHeads(RuleSet& rules, const ModelConfig* model) {
  if (!rules.policy.kv_replicate.value_or(false) || model == nullptr) return;
  rules.kv_heads.clear();
  if (rules.model != nullptr && model->source != nullptr) {
    Findings unreported;
    if (const auto formulas =
            step::Formulas::Make(*rules.model, model, unreported)) {
      AddDescribed([&](const std::string& name) { return formulas->Dim(name); },
                   rules);
    }
  }
  if (model->latent_rank || !model->heads) return;
  const auto heads = model->kv_heads ? model->kv_heads : model->heads;
  auto size = model->head_dim;
  if (!size && model->hidden) size = *model->hidden / *model->heads;
  const auto either = [](const auto& own, const auto& usual) {
    return own ? own : usual;
  };
  const auto full = either(model->full_kv_heads, heads);
  const auto windowed = either(model->windowed_kv_heads, heads);
  AddReplicaRule(heads, size, rules);
  AddReplicaRule(heads, model->value_dim, rules);
  AddReplicaRule(full, either(model->full_head_dim, size), rules);
  AddReplicaRule(windowed, either(model->windowed_head_dim, size), rules);
  AddReplicaRule(windowed, model->windowed_value_dim, rules);
}

KvHeadDims::KvHeadDims(Compiled& compiled) : c_(compiled) {
  RuleSet& rules = compiled.rules;
  const Manifest& manifest = compiled.manifest;
  if (rules.kv_heads.empty() && rules.model != nullptr) {
    Findings unreported;
    const auto formulas =
        step::Formulas::Make(*rules.model, nullptr, unreported);
    const auto roles = formulas ? step::AssignRoles(*rules.model, *formulas,
                                                    manifest, unreported)
                                : std::nullopt;
    if (roles) {
      const auto& dims = rules.model->dims;
      AddDescribed(
          [&](const std::string& name) -> std::optional<int64_t> {
            for (size_t i = 0; i < dims.size(); ++i) {
              if (dims[i].first == name) return roles->sizes[i];
            }
            return std::nullopt;
          },
          rules);
    }
  }
  language_ = std::any_of(
      manifest.tensors.begin(), manifest.tensors.end(), [&](const auto& one) {
        return !HasPart(one.name, manifest.separator, kTowerWords);
      });
}

uint32_t KvHeadDims::Of(uint32_t tensor) {
  auto one = Find(tensor);
  if (!one) return 0;
  const auto at = std::find(found_.begin(), found_.end(), *one);
  const auto number = static_cast<uint32_t>(at - found_.begin() + 1);
  if (at == found_.end()) found_.push_back(std::move(*one));
  return number;
}

std::optional<KvHeadsDim> KvHeadDims::Find(uint32_t tensor) const {
  const Tensor& of = c_.manifest.tensors[tensor];
  const auto& shape = c_.manifest.TypeOf(of).shape;
  if (!shape || shape->empty()) return std::nullopt;
  const char separator = c_.manifest.separator;
  const auto rank = static_cast<int>(shape->size());
  const facts::Group& group = c_.Parameters().Of(tensor);
  if (group.skipped) return std::nullopt;
  const ParameterRole& role = group.role();
  const bool described = group.evidence == facts::Evidence::kSection;
  const Role module = role.module_role;
  const bool norm = role.role == Role::kKeyNorm || module == Role::kKeyNorm;
  const bool fused =
      module == Role::kFusedQkv || module == Role::kFusedKeyValue;
  const bool keys = module == Role::kKey || module == Role::kValue;
  if (role.expert || role.role == Role::kAdapterDown ||
      (!norm && !fused && !keys) ||
      (language_ && !described && HasPart(of.name, separator, kTowerWords))) {
    return std::nullopt;
  }
  const int out = rank == 1 ? 0 : OutDim(role, rank);
  std::set<int> dims;
  std::set<int64_t> heads;
  if (module == Role::kFusedQkv && !described && out >= 0 &&
      IsLinearAttention(c_.manifest, tensor, (*shape)[AsIndex(out)])) {
    return std::nullopt;
  }
  if (fused) {
    for (const KvHeads& one : c_.rules.kv_heads) heads.insert(one.heads);
    return KvHeadsDim{out, {heads.begin(), heads.end()}, true};
  }
  // Finds the dimensions whose size is that of all heads, or of the number of
  // heads next to a dimension of the size of a head.
  const auto fits = [&](int d, const KvHeads& one) {
    const int64_t size = (*shape)[AsIndex(d)];
    return size == CheckedMul(one.heads, one.head_dim) ||
           (size == one.heads && d + 1 < rank &&
            (*shape)[AsIndex(d) + 1] == one.head_dim);
  };
  for (const KvHeads& one : c_.rules.kv_heads) {
    for (int d = 0; d < rank; ++d) {
      if (fits(d, one)) dims.insert(d);
    }
  }
  int dim = dims.size() == 1 ? *dims.begin() : -1;
  if (dims.size() > 1 && dims.contains(out)) dim = out;
  if (dim >= 0) {
    for (const KvHeads& one : c_.rules.kv_heads) {
      if (fits(dim, one)) heads.insert(one.heads);
    }
    return KvHeadsDim{dim, {heads.begin(), heads.end()}};
  }
  // A norm of the size of one head belongs to all heads.
  if (norm) return std::nullopt;
  // Some layers have other numbers of heads than the configuration states. A
  // scale has a row for each head, or for some columns of it.
  const int64_t size = out < 0 ? 0 : (*shape)[AsIndex(out)];
  for (const KvHeads& one : c_.rules.kv_heads) {
    if (role.role == Role::kScale && size % one.heads == 0) {
      heads.insert(one.heads);
    } else if (role.role != Role::kScale && size > 0 &&
               size % one.head_dim == 0) {
      heads.insert(size / one.head_dim);
    }
  }
  return KvHeadsDim{dims.empty() ? out : -1, {heads.begin(), heads.end()}};
}

KvReplication ReplicateKvHeads(const KvHeadsDim& of, const Mesh& mesh,
                               const AxisGroup& head_axes, Spec& spec) {
  KvReplication out;
  for (size_t d = 0; d < spec.size(); ++d) {
    AxisGroup& group = spec[d];
    const bool here =
        of.dim >= 0
            ? AsIndex(of.dim) == d
            : std::find_first_of(group.begin(), group.end(), head_axes.begin(),
                                 head_axes.end()) != group.end();
    const int64_t parts = mesh.Parts(group).value_or(0);
    if (!here || parts == 1) continue;
    std::set<std::optional<AxisGroup>> results;
    for (const int64_t heads : of.heads) {
      results.insert(KvHeadAxes(mesh, group, heads));
    }
    const bool one = results.size() == 1 && results.begin()->has_value();
    if (one && (of.dim >= 0 || **results.begin() == group)) {
      const AxisGroup& axes = **results.begin();
      if (axes == group) continue;
      if (!of.fused) {
        out.replicas = KvReplicas{static_cast<int>(d), group,
                                  mesh.Parts(axes).value_or(1)};
        group = axes;
        return out;
      }
    }
    Edit problem;
    problem.reason = Reason::kKvHeads;
    problem.dim = static_cast<int>(d);
    problem.from = group;
    problem.parts = parts;
    problem.size = of.heads.size() != 1 ? 0 : of.fused ? -1 : of.heads.front();
    out.problem = std::move(problem);
    return out;
  }
  return out;
}

std::string KvProblemText(const Edit& problem) {
  const std::string devices = std::to_string(problem.parts) + " devices";
  if (problem.size < 0) {
    return "which has query heads next to KV heads, or keys next to values, "
           "and `kv_replicate` replicates only the KV heads of keys or values "
           "alone over " +
           devices;
  }
  if (problem.size == 0) {
    return "whose number of KV heads is not known, so `kv_replicate` cannot "
           "replicate them over " +
           devices;
  }
  return "whose " + std::to_string(problem.size) +
         (problem.size == 1 ? " KV head" : " KV heads") +
         " cannot be replicated evenly over " + devices + " (" +
         std::to_string(problem.parts) + " % " + std::to_string(problem.size) +
         " = " + std::to_string(problem.parts % problem.size) + ")";
}

std::string KvProblemHelp(const Edit& problem) {
  if (problem.size < 0) {
    return "give this tensor axes whose devices divide the KV heads, or store "
           "queries, keys and values in tensors of their own";
  }
  if (problem.size == 0) {
    return "give the model's config.json with `--model`; its number of KV "
           "heads "
           "and size of a head must agree with the shape";
  }
  return "use an axis whose size divides the KV heads or is a multiple of "
         "them, or leave out `kv_replicate`";
}

void WriteKvReplicas(JsonWriter& json, const std::optional<KvReplicas>& of) {
  if (!of) return;
  json.Member("kv_replicate",
              Record("dim", of->dim, "axes", WrittenBy(WriteGroup, of->axes),
                     "heads", of->heads));
}

AxisGroup AttentionKvAxes(const RuleSet& rules, const Mesh& mesh,
                          const AxisGroup& axes) {
  if (!rules.policy.kv_replicate.value_or(false)) return axes;
  std::set<std::optional<AxisGroup>> results;
  for (const KvHeads& one : rules.kv_heads) {
    results.insert(KvHeadAxes(mesh, axes, one.heads));
  }
  const bool one = results.size() == 1 && results.begin()->has_value();
  return one ? **results.begin() : axes;
}

std::optional<Mesh> RefinedMeshOf(const Plan& plan) {
  std::vector<Spec> specs;
  for (const ParamLayout& layout : plan.layouts) {
    for (const ModeLayout& mode : layout.modes) {
      if (HasSubAxis(mode.spec)) specs.push_back(mode.spec);
    }
  }
  for (const ModeActivations& mode : plan.attention) {
    for (const ActivationLayout& one : mode.tensors) {
      if (HasSubAxis(one.spec)) specs.push_back(one.spec);
    }
  }
  return RefinedMesh(plan.mesh, specs);
}

}  // namespace shardc
