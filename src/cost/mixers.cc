// Recognises mixers: the state-space blocks and linear attention that some
// models have in place of attention. Some models call their attention `mixer`
// too. A mixer is therefore recognised by the names of its projections. For
// example:
//
//   layers.*.mixer.in_proj, layers.*.mixer.out_proj   ->  a state-space mixer
//   h.*.mixer.Wqkv, h.*.mixer.out_proj                ->  attention (Phi-2)
#include "cost/mixers.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/name.h"
#include "roles/words.h"

namespace shardc::cost {
namespace {

// The module names of projections into a state-space mixer, and of projections
// into linear attention to which Classify gives no role.
constexpr std::array<std::string_view, 8> kMixerInputs = {
    "in_proj",    "x_proj",    "dt_proj",   "in_proj_qkvz",
    "in_proj_ba", "in_proj_z", "in_proj_b", "in_proj_a"};

// Returns the path of a weight's parent module: `h.*.mixer` for
// `h.*.mixer.Wqkv.weight`.
std::string_view ParentPath(const ParameterRole& role, char separator) {
  const std::string_view path = role.module_path;
  const size_t end = path.rfind(separator);
  return end == path.npos ? std::string_view() : path.substr(0, end);
}

// The number of weights of each module with a projection of queries, keys,
// values or a latent that is not one of them. Such a module is attention,
// whatever its name. For example, the first checkpoints of Phi-2 have
// `h.*.mixer.Wqkv` and `h.*.mixer.out_proj`, and so have models of the library
// flash-attn.
using Attentions = std::map<std::string, int, std::less<>>;

bool IsMixerInput(const ParamClass& param, char separator) {
  const std::vector<std::string_view> parts = SplitName(param.name, separator);
  return parts.size() >= 2 && IsWeight(param.role) &&
         std::find(kMixerInputs.begin(), kMixerInputs.end(),
                   parts[parts.size() - 2]) != kMixerInputs.end();
}

bool ReadsHeads(const ParamClass& param) {
  const Role role = param.role.module_role;
  return role == Role::kQuery || role == Role::kKey || role == Role::kValue ||
         role == Role::kFusedQkv || role == Role::kFusedKeyValue ||
         role == Role::kLatentDown || role == Role::kLatentUp;
}

Attentions FindAttentions(const CostInputs& work, char separator) {
  Attentions out;
  for (const ParamClass& param : work.params) {
    if (ReadsHeads(param) && IsWeight(param.role)) {
      out.emplace(ParentPath(param.role, separator), 0);
    }
  }
  for (const ParamClass& param : work.params) {
    if (ReadsHeads(param) || !IsWeight(param.role)) continue;
    const auto at = out.find(ParentPath(param.role, separator));
    if (at != out.end() && param.type.shape && param.Rank() > 1) ++at->second;
  }
  return out;
}

// Returns the paths of modules that are attention in some layers and a
// state-space mixer in others, as in Nemotron-H: `layers.*.mixer` has both
// `q_proj` and `in_proj`.
std::set<std::string, std::less<>> FindHybrids(const CostInputs& work,
                                               char separator,
                                               const Attentions& attention) {
  std::set<std::string, std::less<>> out;
  for (const ParamClass& param : work.params) {
    const std::string_view path = ParentPath(param.role, separator);
    if (IsMixerInput(param, separator) && attention.contains(path)) {
      out.emplace(path);
    }
  }
  return out;
}

// Recognises a projection into or out of a mixer, and sets ParamClass::mixes. A
// projection out of a mixer, such as `layers.*.mamba.out_proj.weight`, gets the
// role of an output projection. If the mixer is attention (its path is in
// `attention`), its projections get the roles of attention, and `mixes` is
// false.
void FindMixer(ParamClass& param, char separator, const Attentions& attention,
               const std::set<std::string, std::less<>>& hybrids) {
  ParameterRole& role = param.role;
  if (!IsWeight(role)) return;
  const std::vector<std::string_view> parts = SplitName(param.name, separator);
  if (parts.size() < 2) return;
  const std::string_view module = parts[parts.size() - 2];
  const bool inside = std::any_of(parts.begin(), parts.end(), NamesMixer);
  const auto block = attention.find(ParentPath(role, separator));
  const bool hybrid = hybrids.contains(ParentPath(role, separator));
  const bool attends = block != attention.end() && !hybrid;
  if (hybrid && (ReadsHeads(param) ||
                 (role.module_role == Role::kOutput && module != "out_proj"))) {
    role.attention = true;
    return;
  }
  if (attends && !role.attention && !param.described) {
    // The only other weight next to queries, keys and values computes the
    // output of attention, also where its word alone would be that of another
    // block.
    const bool output = block->second == 1 && !ReadsHeads(param) &&
                        param.type.shape && param.Rank() > 1;
    role.attention = output || ReadsHeads(param);
    if (output) role.role = role.module_role = Role::kOutput;
    if (output) return;
  }
  if (role.module_role != Role::kOther) return;
  const bool out = module == "out_proj" && inside;
  param.mixes = !attends && (out || IsMixerInput(param, separator));
  if (!out) return;
  role.module_role = Role::kOutput;
  if (!attends) return;
  role.role = Role::kOutput;
  role.attention = true;
}

}  // namespace

void FindMixers(CostInputs& work, char separator) {
  const Attentions attention = FindAttentions(work, separator);
  const auto hybrids = FindHybrids(work, separator, attention);
  for (ParamClass& param : work.params) {
    FindMixer(param, separator, attention, hybrids);
  }
}

}  // namespace shardc::cost
