// The evidence that a layer stack is a tower's are the shapes of its attention:
// they are those of a tower's config, and not those of the language model. For
// example, with 48 heads of 128 and width 6144 in `llm_config`, and 25 heads of
// width 3200 in `vision_config`:
//
//   encoder.layers.*.attn.qkv.weight [9600, 3200]   3 * 25 heads of 128: vision
//   model.layers.*.attention.wqkv.weight [8192, 6144]   the language model
//
// If the shapes are those of both or of neither, the names decide: a part of
// the name is a usual word for towers (kTowerWords), or contains the word of
// the config's key, such as `audio` of `audio_config`.
#include "lint/analysis/towers.h"

#include <algorithm>
#include <vector>

#include "facts/parameters.h"
#include "lint/analysis/groups.h"
#include "model/name.h"
#include "roles/classify.h"
#include "roles/described.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc {
namespace {

// A projection of attention: the sizes of its inputs and outputs on the side of
// the heads and on the other side.
struct AttentionMatrix {
  Role role = Role::kOther;
  int heads_dim = 0;
  int64_t heads_side = 0, width = 0;
};

std::string_view StackOf(std::string_view name) {
  return name.substr(0, std::min(name.find('*'), name.size()));
}

// Returns the matrix of a group, or nullopt if it is not one of attention.
// Words that only some frameworks use are read too, because the sizes of a
// config confirm them.
std::optional<AttentionMatrix> AttentionMatrixOf(const Facts& facts,
                                                 const ParameterGroup& group) {
  if (!IsWeight(group) || IsAdapter(group.role.role)) return std::nullopt;
  Role role = group.role.module_role;
  if (role == Role::kOther) role = facts.Known(group).role().module_role;
  const bool known = role == Role::kQuery || role == Role::kKey ||
                     role == Role::kValue || role == Role::kFusedQkv ||
                     role == Role::kOutput;
  const auto dims = MatrixDimsOf(facts, facts.stacks(), group);
  const int side =
      role == Role::kOutput ? InDim(group.role, 2) : OutDim(group.role, 2);
  if (!known || !dims || side < 0) return std::nullopt;
  const Shape& shape = *facts.TypeOf(group).shape;
  AttentionMatrix out;
  out.role = role;
  out.heads_dim = (*dims)[AsIndex(side)];
  out.heads_side = shape[AsIndex(out.heads_dim)];
  out.width = shape[AsIndex((*dims)[AsIndex(1 - side)])];
  return out;
}

// Returns whether a projection has the sizes of an attention.
bool Fits(const AttentionMatrix& matrix, const Heads& heads, int64_t width) {
  if (matrix.width != width) return false;
  const int64_t queries = heads.heads * heads.head_dim;
  const int64_t keys = heads.kv_heads * heads.head_dim;
  switch (matrix.role) {
    case Role::kKey:
    case Role::kValue:
      return matrix.heads_side == keys;
    case Role::kFusedQkv:
      return matrix.heads_side == queries + 2 * keys;
    default:
      return matrix.heads_side == queries;
  }
}

Heads HeadsIn(const TowerConfig& tower) {
  return {tower.heads, tower.kv_heads, tower.head_dim};
}

// Returns whether a part of the stack's name contains the word of the config's
// key: `vision` of `vision_config`.
bool NamesTower(std::string_view stack, char separator,
                const TowerConfig& tower) {
  const std::string_view key = tower.key;
  const std::string_view word = key.substr(0, key.find('_'));
  return word.size() > 2 &&
         std::ranges::any_of(SplitName(stack, separator),
                             [&](std::string_view part) {
                               return part.find(word) != std::string_view::npos;
                             });
}

}  // namespace

Towers::Towers(const Facts& facts) : facts_(facts) {
  if (facts.model() == nullptr) return;
  std::map<std::string_view, std::vector<AttentionMatrix>> stacks;
  for (const ParameterGroup& group : facts.groups()) {
    const auto matrix = AttentionMatrixOf(facts, group);
    if (matrix) stacks[StackOf(group.name)].push_back(*matrix);
  }
  const auto language = shardc::HeadsOf(*facts.model());
  const int64_t hidden = facts.model()->hidden.value_or(0);
  for (const auto& entry : stacks) {
    const std::string_view stack = entry.first;
    const std::vector<AttentionMatrix>& matrices = entry.second;
    const auto fits = [&](const Heads& heads, int64_t width) {
      return std::ranges::any_of(matrices, [&](const AttentionMatrix& matrix) {
        return Fits(matrix, heads, width);
      });
    };
    const bool in_language = language && fits(*language, hidden);
    const bool by_word = HasPart(stack, facts.separator(), kTowerWords);
    const TowerConfig* found = nullptr;
    bool named = by_word;
    for (const TowerConfig& tower : facts.config_parts().towers) {
      const bool own_word = NamesTower(stack, facts.separator(), tower);
      named |= own_word;
      if (!fits(HeadsIn(tower), tower.width)) continue;
      if (in_language && !own_word && !by_word) continue;
      if (found == nullptr || own_word) found = &tower;
    }
    if (found != nullptr || (named && !in_language)) of_stack_[stack] = found;
  }
}

bool Towers::Holds(const ParameterGroup& group) const {
  return of_stack_.contains(StackOf(group.name));
}

std::optional<TowerHeads> Towers::HeadsOf(const ParameterGroup& group) const {
  const auto at = of_stack_.find(StackOf(group.name));
  if (at == of_stack_.end() || at->second == nullptr) return std::nullopt;
  const TowerConfig& tower = *at->second;
  const auto matrix = AttentionMatrixOf(facts_, group);
  if (!matrix || !Fits(*matrix, HeadsIn(tower), tower.width)) {
    return std::nullopt;
  }
  const bool keys = IsKeyOrValue(matrix->role);
  return TowerHeads{&tower, matrix->heads_dim,
                    keys ? tower.kv_heads : tower.heads,
                    keys && tower.kv_heads != tower.heads};
}

}  // namespace shardc
