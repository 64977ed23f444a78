// The word `gate` names a router in most models with experts, and a projection
// in others. An expert is a feed-forward block below a number that is not the
// number of the layer. Unlike the number of a layer, it has nothing but
// feed-forward matrices below it. Some models call their attention `mixer`, the
// word for state-space blocks elsewhere. For example, with 8 experts in the
// configuration:
//
//   mlp.gate [14336, 4096], mlp.up [14336, 4096]     ->  a gate
//   mlp.gate [8, 4096], no up projection of 8 rows   ->  a router
//   mlp.w1, mlp.w2, mlp.c_proj                       ->  w2 is an up projection
//   layers.*.moe.ffns.*.up_proj, 8 for each router   ->  experts
//   block.*.layer.*.mlp.up_proj, next to attention   ->  no experts
//   layers.*.moe.all.up_proj, next to moe.ffns       ->  a shared expert
//   layers.*.mixer.in_proj, layers.*.mixer.out_proj  ->  a state-space mixer
//   h.*.mixer.Wqkv, h.*.mixer.out_proj               ->  attention (Phi-2)
//   layers.*.scaler.w [4096], no matrix in scaler    ->  a norm
#include "facts/neighbours.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "model/name.h"
#include "roles/role.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc::facts {
namespace {

// Returns the path without its last `count` parts; empty if it has no more.
std::string_view Above(std::string_view path, char separator, int count) {
  for (; count > 0; --count) {
    const size_t end = path.rfind(separator);
    path = end == path.npos ? std::string_view() : path.substr(0, end);
  }
  return path;
}

// Returns the name up to its last number, if this is the second number or a
// later one: `layers.*.moe.ffns.*`. Returns an empty text otherwise.
std::string_view NumberedBlock(std::string_view name) {
  const size_t last = name.rfind('*');
  if (last == name.npos || last + 1 == name.size() || name.find('*') == last) {
    return {};
  }
  return name.substr(0, last + 1);
}

bool IsFeedForward(Role role) {
  return role == Role::kGate || role == Role::kUp || role == Role::kDown ||
         role == Role::kFusedGateUp;
}

bool IsOfWeight(const ParameterRole& role) {
  return role.leaf != Leaf::kBias && role.leaf != Leaf::kScale &&
         role.leaf != Leaf::kZeroPoint;
}

// The module names of projections into a state-space mixer, and of projections
// into linear attention to which Classify gives no role.
constexpr std::array<std::string_view, 8> kMixerInputs = {
    "in_proj",    "x_proj",    "dt_proj",   "in_proj_qkvz",
    "in_proj_ba", "in_proj_z", "in_proj_b", "in_proj_a"};

bool ReadsHeads(const ParameterRole& role) {
  switch (role.module_role) {
    case Role::kQuery:
    case Role::kKey:
    case Role::kValue:
    case Role::kFusedQkv:
    case Role::kFusedKeyValue:
    case Role::kLatentDown:
    case Role::kLatentUp:
      return true;
    default:
      return false;
  }
}

// Orders paths with shapes by their values.
struct ByShape {
  using Value = std::pair<std::string_view, const Shape*>;
  bool operator()(const Value& a, const Value& b) const {
    return a.first != b.first ? a.first < b.first : *a.second < *b.second;
  }
};

class Corrector {
 public:
  Corrector(std::span<Neighbour> groups, char separator,
            const StatedSizes& stated)
      : groups_(groups), separator_(separator), stated_(stated) {}

  void Run() {
    FindSecondUps();
    FindGates();
    FindExperts();
    FindSharedExperts();
    FindStackedExperts();
    FindMixers();
    FindNorms();
    KeepHeadsOnly();
  }

 private:
  // Assigns the role of an up projection to `w2` of the first Qwen, whose down
  // projection is `c_proj`. In other models, `w2` is the down projection.
  void FindSecondUps() {
    const std::string ending = {separator_, 'w', '2'};
    // Maps the path of each MLP to its first down projection, and to whether it
    // has a second down projection.
    std::unordered_map<std::string_view, std::pair<std::string_view, bool>>
        outs;
    for (const Neighbour& one : groups_) {
      const ParameterRole& role = *one.role;
      if (role.module_role != Role::kDown) continue;
      const auto at =
          outs.try_emplace(role.sibling_path, role.module_path, false).first;
      if (at->second.first != role.module_path) at->second.second = true;
    }
    for (const Neighbour& one : groups_) {
      ParameterRole& role = *one.role;
      if (role.module_role == Role::kDown &&
          role.module_path.ends_with(ending) &&
          outs.at(role.sibling_path).second) {
        role.module_role = role.role = Role::kUp;
      }
    }
  }

  // Gives the role of a gate to a parameter named `gate` that has the shape of
  // the up projection next to it. Without such a neighbour, it is a router.
  void FindGates() {
    const auto may_be = [&](const Neighbour& one) {
      return one.role->module_role == Role::kRouter && !one.stated &&
             one.shape != nullptr && WordOf(one) == "gate";
    };
    if (std::ranges::none_of(groups_, may_be)) return;
    std::set<std::pair<std::string_view, const Shape*>, ByShape> ups;
    for (const Neighbour& one : groups_) {
      if (one.role->module_role == Role::kUp && one.shape != nullptr) {
        ups.emplace(one.role->sibling_path, one.shape);
      }
    }
    for (const Neighbour& one : groups_) {
      if (!may_be(one) || !ups.contains({one.role->sibling_path, one.shape})) {
        continue;
      }
      if (one.role->role == Role::kRouter) one.role->role = Role::kGate;
      one.role->module_role = Role::kGate;
    }
  }

  // Returns the part of a name that names the role.
  std::string_view WordOf(const Neighbour& one) const {
    const size_t at = one.role->sibling_path.find('?');
    if (at == std::string::npos || at >= one.name.size()) return {};
    const size_t end = std::min(one.name.find(separator_, at), one.name.size());
    return one.name.substr(at, end - at);
  }

  bool HasExperts() const {
    return std::ranges::any_of(
        groups_, [](const Neighbour& one) { return one.role->expert; });
  }

  // Marks the numbered feed-forward blocks of a layer as experts if no word of
  // any name is one for experts, and if there are as many blocks as experts.
  void FindExperts() {
    if (HasExperts()) return;
    // The parameters below the second number of a name.
    struct Blocks {
      int64_t count = 0;  // the number of blocks
      bool only_mlp = true;
      std::map<std::string_view, int64_t> downs;  // by name
    };
    int64_t experts = stated_.experts.value_or(0);
    int64_t routers = 0;
    std::map<std::string_view, Blocks> found;
    for (const Neighbour& one : groups_) {
      const ParameterRole& role = *one.role;
      const bool router = role.module_role == Role::kRouter &&
                          !role.shared_expert && role.leaf != Leaf::kBias &&
                          one.shape != nullptr && one.shape->size() == 2;
      if (router) {
        routers += one.count;
        if (experts == 0) experts = std::min((*one.shape)[0], (*one.shape)[1]);
      }
      const std::string_view path = NumberedBlock(one.name);
      if (path.empty()) continue;
      Blocks& blocks = found[path];
      blocks.only_mlp = blocks.only_mlp && IsMlp(role.module_role) &&
                        !one.stated && !role.shared_expert;
      if (role.module_role == Role::kDown) {
        int64_t& downs = blocks.downs[one.name];
        downs += one.count;
        blocks.count = std::max(blocks.count, downs);
      }
    }
    if (experts < 2 || routers == 0) return;
    std::set<std::string_view> of_experts;
    for (const auto& [path, blocks] : found) {
      if (blocks.only_mlp && CheckedMul(experts, routers) == blocks.count) {
        of_experts.insert(path);
      }
    }
    for (const Neighbour& one : groups_) {
      if (!of_experts.contains(NumberedBlock(one.name))) continue;
      one.role->expert = one.role->counted_expert = true;
    }
  }

  // Returns the path of the module that holds the block of a projection:
  // `layers.*.mlp` for `layers.*.mlp.shared.up_proj.weight`.
  std::string_view AboveBlock(const ParameterRole& role) const {
    const std::string_view path = role.sibling_path;
    return Above(path.substr(0, path.find('?')), separator_, 2);
  }

  // Marks feed-forward blocks next to the container of routed experts as shared
  // experts, whatever their name is.
  void FindSharedExperts() {
    // The modules that hold a container of experts.
    std::unordered_set<std::string_view> above;
    for (const Neighbour& one : groups_) {
      if (!one.role->expert) continue;
      const std::string_view numbered = NumberedBlock(one.name);
      const bool counted = one.role->counted_expert && !numbered.empty();
      const std::string_view path =
          counted ? Above(numbered, separator_, 2) : AboveBlock(*one.role);
      if (!path.empty() && !path.ends_with('*')) above.insert(path);
    }
    if (above.empty()) return;
    for (const Neighbour& one : groups_) {
      ParameterRole& role = *one.role;
      if (role.expert || one.stated || !IsMlp(role.module_role)) continue;
      role.shared_expert |= above.contains(AboveBlock(role));
    }
  }

  // Marks feed-forward matrices with a first dimension that is the number of
  // experts, if only their sizes show that they belong to experts.
  void FindStackedExperts() {
    const auto hidden = Hidden();
    if (!hidden || *hidden <= 0) return;
    int64_t experts = stated_.experts.value_or(0);
    for (const Neighbour& one : groups_) {
      if (one.shape == nullptr || one.role->module_role != Role::kRouter ||
          experts > 0 || one.shape->size() < 2) {
        continue;
      }
      const int64_t last = one.shape->back();
      experts = last == *hidden ? (*one.shape)[one.shape->size() - 2] : last;
    }
    if (experts < 2) return;
    for (const Neighbour& one : groups_) {
      ParameterRole& role = *one.role;
      if (IsFeedForward(role.module_role) && IsOfWeight(role) &&
          !role.packed_blocks && !role.shared_expert && one.sizes.size() == 3 &&
          one.sizes[0] == experts) {
        role.expert = true;
      }
    }
  }

  // Returns the model's width: the configuration's, or the number of columns of
  // the embedding.
  std::optional<int64_t> Hidden() const {
    if (stated_.hidden) return stated_.hidden;
    for (const Neighbour& one : groups_) {
      if (one.role->module_role != Role::kEmbedding || one.shape == nullptr ||
          one.role->expert) {
        continue;
      }
      if (one.shape->size() != 2) return std::nullopt;
      return one.shape->back();
    }
    return std::nullopt;
  }

  // Returns the path of a weight's parent module: `h.*.mixer` for
  // `h.*.mixer.Wqkv.weight`.
  std::string_view Parent(const ParameterRole& role) const {
    return Above(role.module_path, separator_, 1);
  }

  bool IsMixerInput(const Neighbour& one) const {
    const std::vector<std::string_view> parts = SplitName(one.name, separator_);
    return parts.size() >= 2 && IsWeight(*one.role) &&
           IsAmong(parts[parts.size() - 2], kMixerInputs);
  }

  static bool IsMatrix(const Neighbour& one) {
    return one.shape != nullptr &&
           one.shape->size() > (one.role->packed_blocks ? 2U : 1U);
  }

  // Finds projections into or out of mixers. A projection out of a mixer, such
  // as `layers.*.mamba.out_proj.weight`, gets the role of an output projection.
  // If the mixer is attention, its projections get the roles of attention.
  void FindMixers() {
    // The number of matrices of each module with a projection of queries, keys,
    // values or a latent that are not one of them. Such a module is attention,
    // whatever its name. For example, the first checkpoints of Phi-2 have
    // `h.*.mixer.Wqkv` and `h.*.mixer.out_proj`, and so have models of the
    // library flash-attn.
    std::unordered_map<std::string_view, int> attention;
    for (const Neighbour& one : groups_) {
      if (ReadsHeads(*one.role) && IsWeight(*one.role)) {
        attention.emplace(Parent(*one.role), 0);
      }
    }
    // Modules that are attention in some layers and a state-space mixer in
    // others, as in Nemotron-H: `layers.*.mixer` has both `q_proj` and
    // `in_proj`.
    std::unordered_set<std::string_view> hybrids;
    for (const Neighbour& one : groups_) {
      const auto at = attention.find(Parent(*one.role));
      if (at == attention.end()) continue;
      if (IsMixerInput(one)) hybrids.emplace(at->first);
      if (!ReadsHeads(*one.role) && IsWeight(*one.role) && IsMatrix(one)) {
        ++at->second;
      }
    }
    for (Neighbour& one : groups_) {
      if (!IsWeight(*one.role)) continue;
      const std::string_view parent = Parent(*one.role);
      const auto block = attention.find(parent);
      FindMixer(one, block == attention.end() ? -1 : block->second,
                hybrids.contains(parent));
    }
  }

  // `others` is the number of matrices of the module besides those that read
  // heads; -1 if it has none that do.
  void FindMixer(Neighbour& one, int others, bool hybrid) const {
    ParameterRole& role = *one.role;
    const bool attends = others >= 0 && !hybrid;
    if (others < 0 && role.module_role != Role::kOther) return;
    const std::vector<std::string_view> parts = SplitName(one.name, separator_);
    if (parts.size() < 2) return;
    const std::string_view module = parts[parts.size() - 2];
    const bool inside = std::ranges::any_of(parts, NamesMixer);
    if (hybrid && (ReadsHeads(role) || (role.module_role == Role::kOutput &&
                                        module != "out_proj"))) {
      role.attention = true;
      return;
    }
    if (attends && !role.attention && !one.stated) {
      // The only other weight next to queries, keys and values computes the
      // output of attention, also where its word alone would be that of a down
      // projection.
      const bool may_be = role.module_role == Role::kOther ||
                          role.module_role == Role::kProjection ||
                          GivesWidth(role.module_role);
      const bool output = others == 1 && may_be && IsMatrix(one);
      role.attention = output || ReadsHeads(role);
      if (output) role.role = role.module_role = Role::kOutput;
      if (output) return;
    }
    if (role.module_role != Role::kOther) return;
    const bool out = module == "out_proj" && inside;
    *one.mixes = !attends && (out || IsMixerInput(one));
    if (!out) return;
    role.module_role = Role::kOutput;
    if (!attends) return;
    role.role = Role::kOutput;
    role.attention = true;
  }

  // Finds the norms among vectors of the model's width in layers: no module of
  // a matrix has them.
  void FindNorms() {
    const auto width = Hidden();
    const auto may_be = [&](const Neighbour& one) {
      return one.role->module_role == Role::kOther && !one.stated &&
             one.role->leaf != Leaf::kBias && one.rank == 1 &&
             one.sizes[0] == *width &&
             (one.name.find('*') != one.name.npos ||
              std::ssize(*one.shape) > one.rank);
    };
    if (!width || std::ranges::none_of(groups_, may_be)) return;
    std::unordered_set<std::string_view> of_matrices;
    for (const Neighbour& one : groups_) {
      if (one.rank > 1) of_matrices.insert(Above(one.name, separator_, 1));
    }
    for (const Neighbour& one : groups_) {
      if (!may_be(one) ||
          of_matrices.contains(Above(one.name, separator_, 1))) {
        continue;
      }
      one.role->module_role = one.role->role = Role::kNorm;
    }
  }

  // Removes the role of a head from square matrices that only have a head's
  // name, such as RoBERTa's `lm_head.dense`. A square matrix is a head only if
  // the vocabulary is as large as the model's width. The vocabulary is read
  // from the embedding or else from the configuration: XLM-RoBERTa stores its
  // embedding only under the head's name.
  void KeepHeadsOnly() {
    std::optional<int64_t> vocabulary = stated_.vocabulary;
    for (const Neighbour& one : groups_) {
      if (one.role->module_role != Role::kEmbedding || one.shape == nullptr ||
          one.role->expert) {
        continue;
      }
      if (one.shape->size() != 2) return;
      vocabulary = (*one.shape)[0];
      break;
    }
    if (!vocabulary) return;
    for (const Neighbour& one : groups_) {
      ParameterRole& role = *one.role;
      if (role.module_role == Role::kHead && IsOfWeight(role) &&
          one.rank == 2 && one.sizes[0] == one.sizes[1] &&
          one.sizes[0] != *vocabulary) {
        role.module_role = role.role = Role::kOther;
      }
    }
  }

  std::span<Neighbour> groups_;
  char separator_;
  StatedSizes stated_;
};

}  // namespace

void CorrectByNeighbours(std::span<Neighbour> groups, char separator,
                         const StatedSizes& stated) {
  Corrector(groups, separator, stated).Run();
}

}  // namespace shardc::facts
