// Makes the kinds of layers from a config.json, and writes and reads them. A
// kind has the layers as ranges:
//
//   layers that keep all, all, a state, all, of one size
//     ->  full [0, 2) and [3, 4), state [2, 3)
#include "plan/kv_layout.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "comm/memory.h"
#include "model/mesh_layout.h"
#include "model/name.h"
#include "plan/compile.h"
#include "roles/classify.h"
#include "roles/layer_stacks.h"
#include "roles/role.h"
#include "source/json_writer.h"

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

class KvReader {
 public:
  explicit KvReader(Findings& findings) : findings_(findings) {}

  std::optional<std::vector<KvKind>> Read(const JsonValue& value) {
    if (!value.IsArray() || value.size() > kMostKinds) {
      Refuse(value, "`kv` is a list of at most " + std::to_string(kMostKinds) +
                        " kinds of layers");
      return std::nullopt;
    }
    std::vector<KvKind> out;
    for (const JsonValue item : value.items()) {
      KvKind kind;
      if (!ReadKind(item, kind)) return std::nullopt;
      out.push_back(std::move(kind));
    }
    return out;
  }

 private:
  bool Refuse(const JsonValue& at, std::string message) {
    findings_.Add(code::kSchema, at.place(), std::move(message),
                  "`shardc plan --model CONFIG.json -o FILE` writes it");
    return false;
  }

  bool ReadKind(const JsonValue& item, KvKind& out) {
    const auto name = item.Find("kind");
    const auto known =
        std::find(kKvKindNames.begin(), kKvKindNames.end(),
                  name && name->IsString() ? name->string() : "");
    if (known == kKvKindNames.end()) {
      return Refuse(item, "a kind of layers has a `kind`, such as `full`");
    }
    out.kind = static_cast<KvKindName>(known - kKvKindNames.begin());
    const bool state = out.kind == KvKindName::kState;
    const auto layers = item.Find("layers");
    if (!layers) return Refuse(item, "a kind of layers has no `layers`");
    if (!ReadLayers(*layers, out) ||
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
    return ReadAxes(item, out);
  }

  bool ReadSize(const JsonValue& item, std::string_view key, bool required,
                int64_t& out) {
    const auto value = item.Find(key);
    if (!value && !required) return true;
    if (value && value->kind() == JsonKind::kInteger && value->integer() > 0 &&
        value->integer() <= kMostSize) {
      out = value->integer();
      return true;
    }
    return Refuse(value ? *value : item,
                  "`" + std::string(key) + "` of a kind is an integer from 1 " +
                      "to " + std::to_string(kMostSize));
  }

  bool ReadLayers(const JsonValue& value, KvKind& out) {
    int64_t end = 0;
    for (const JsonValue item : value.items()) {
      std::vector<int64_t> both;
      for (const JsonValue number : item.items()) {
        both.push_back(number.kind() == JsonKind::kInteger ? number.integer()
                                                           : -1);
      }
      if (!item.IsArray() || both.size() != 2 || both[0] < end ||
          both[1] <= both[0] || both[1] > kMostStageLayers) {
        return Refuse(item,
                      "`layers` of a kind is a list of ranges [first, "
                      "end] in ascending order");
      }
      end = both[1];
      out.layers.push_back({both[0], both[1]});
    }
    if (value.IsArray() && end > 0) return true;
    return Refuse(value, "`layers` of a kind is a list of ranges");
  }

  bool ReadAxes(const JsonValue& item, KvKind& out) {
    const auto axes = item.Find("axes");
    if (!axes) return true;
    for (const JsonMember member : axes->members()) {
      const auto mode = ParseMode(member.name());
      if (!mode) return Refuse(member.key, "this is no mode");
      AxisGroup group;
      if (member.value.IsString()) group.emplace_back(member.value.string());
      if (member.value.IsArray()) {
        for (const JsonValue axis : member.value.items()) {
          if (axis.IsString()) group.emplace_back(axis.string());
        }
      }
      out.axes.emplace_back(*mode, std::move(group));
    }
    return true;
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
  std::map<int64_t, std::set<int64_t>> out;
  std::unordered_map<std::string_view, bool> keys;  // whether a word means keys
  for (size_t i = 0; i < compiled.plan.params.size(); ++i) {
    const std::string_view name = compiled.plan.names[i];
    const size_t leaf = name.rfind(separator);
    if (leaf == name.npos || leaf == 0) continue;
    const size_t before = name.rfind(separator, leaf - 1);
    const size_t begin = before == name.npos ? 0 : before + 1;
    const std::string_view word = name.substr(begin, leaf - begin);
    const auto [known, fresh] = keys.try_emplace(word, false);
    if (fresh) {
      known->second = RoleOfWord(word, {.in_attention = true},
                                 Confidence::kSure) == Role::kKey;
    }
    if (!known->second || HasPart(name, separator, kTowerWords)) continue;
    const ParameterRole role =
        Classify(NameTemplate(name, separator), separator);
    const PlannedParam& param = compiled.plan.params[i];
    const TensorType& type =
        compiled.plan.types[compiled.plan.layouts[param.layout].type];
    const auto& shape = type.shape;
    const auto layer = LayerOf(name, separator);
    const int dim = OutDim(role, 2);
    if (role.module_role != Role::kKey || !IsWeight(role) || !layer ||
        dim < 0 || !shape || shape->size() != 2 || !type.dtype ||
        MayPack(*type.dtype)) {
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

}  // namespace

void SetKv(const ModelConfig* model, Compiled& compiled) {
  if (model == nullptr) return;
  Plan& plan = compiled.plan;
  plan.kv = KvKindsOf(*model);
  DivideByHeads(compiled, plan.kv);
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
  return KvReader(findings).Read(value);
}

}  // namespace shardc
