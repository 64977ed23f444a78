// Lints about attention heads that an axis splits inside, or does not divide,
// and about KV heads and vectors that are on other devices than their query
// heads.
//
//   12 heads over tp 8  ->  a device has a head and a half
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "comm/reshard.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/fused.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/heads.h"
#include "lint/analysis/headwise.h"
#include "lint/analysis/legality.h"
#include "lint/analysis/memory.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/towers.h"
#include "lint/rules/all.h"
#include "model/mesh_layout.h"
#include "model/name.h"
#include "program/facts.h"
#include "roles/role.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {

// Finds shards that hold a part of a head. The dimension of heads is recognised
// by its size, which is heads times head size. If the number of shards divides
// this size but not the number of heads, some devices hold a part of a head.
// All projections with the same number of heads over the same axes are one
// finding. In a fused projection, query heads or KV heads may be divided in
// this way. If some layers have the configuration's number of heads, others may
// have another number, which is their size divided by the size of a head. The
// norm of a layer's queries may show heads of another size
// (lint/analysis/heads.h).
//
//   12 heads of size 64 over 8 shards: 8 divides 768, but does not divide 12
namespace {

// The dimension of heads of a projection in which a shard holds a part of a
// head. `key` is true for KV heads, and `count` is the number of heads.
struct HeadSplit {
  int64_t count = 0;
  bool key = false;
  int dim = -1;
  bool state = false;  // whether they are groups of heads that share a state
};

// Names of groups of which some have the configuration's number of heads.
using FittingNames = std::set<std::string_view>;

// Returns how a group's heads of size `head_dim` are split, or nullopt if no
// head is. If this size is the configuration's, adds the
// group's name to `fitting` if it has the configuration's number of heads. With
// another number, it is judged only if its name is in `fitting` and all layers
// have heads of one size.
std::optional<HeadSplit> HeadSplitOf(const Facts& facts, const Heads& heads,
                                     const LayerStacks& stacks,
                                     const ParameterGroup& group,
                                     int64_t head_dim, FittingNames& fitting) {
  if (!facts.Judged(group) || group.role.expert ||
      group.role.leaf == Leaf::kBias) {
    return std::nullopt;
  }
  const Role role = group.role.module_role;
  const bool fused = role == Role::kFusedQkv;
  const bool query = role == Role::kQuery || role == Role::kOutput || fused;
  const bool key = role == Role::kKey || role == Role::kValue;
  if (!query && !key) return std::nullopt;
  const auto dims = MatrixDimsOf(facts, stacks, group);
  const int side =
      role == Role::kOutput ? InDim(group.role, 2) : OutDim(group.role, 2);
  if (!dims || side < 0) return std::nullopt;
  const int dim = (*dims)[static_cast<size_t>(side)];
  int64_t count = query ? heads.heads : heads.kv_heads;
  // A fused projection has query heads, KV heads for keys, and KV heads for
  // values.
  const int64_t all = fused ? count + 2 * heads.kv_heads : count;
  const int64_t size = (*facts.TypeOf(group).shape)[static_cast<size_t>(dim)];
  if (head_dim != heads.head_dim) {
    const ModelConfig& model = *facts.model();
    const bool values = role == Role::kValue || role == Role::kOutput;
    if (fused || model.latent_rank || size % head_dim != 0 ||
        (values && (model.value_dim || model.windowed_value_dim))) {
      return std::nullopt;
    }
    count = size / head_dim;
  } else if (size == all * heads.head_dim) {
    fitting.insert(group.name);
  } else if (!fused && size % heads.head_dim == 0 &&
             !facts.model()->full_head_dim &&
             !facts.model()->windowed_head_dim &&
             fitting.contains(group.name)) {
    count = size / heads.head_dim;
  } else if (!fused || size != 3 * count * heads.head_dim) {
    return std::nullopt;
  }
  const int64_t parts = facts.TensorParts(facts.AxesAt(group, dim));
  if (parts <= 1) return std::nullopt;
  if (count % parts != 0) {
    return HeadSplit{count, key && count != heads.heads, dim};
  }
  if (fused && size == all * heads.head_dim && heads.kv_heads % parts != 0) {
    return HeadSplit{heads.kv_heads, true, dim};
  }
  return std::nullopt;
}

// Finds heads that `shards` shards do not divide, in a dimension or in one of
// its parts whose factors a description states. The columns of one head that
// has no factor of its own count if `single` is true.
struct StatedHeads {
  int64_t count = 0, size = 1;
  bool fewer = false;  // whether they are in a part that is not the largest
  bool state = false;  // as in HeadSplit
};

std::optional<StatedHeads> StatedSplit(const program::Facts& all,
                                       const program::FactorList& dim,
                                       int64_t shards, bool single) {
  using enum program::FactorRole;
  const auto heads = [&](const program::FactorList& list) {
    if (list.empty()) return false;
    const program::FactorRole role = all.factors[list[0]].role;
    return program::CountsHeads(role) || role == kGroup;
  };
  if (dim.empty()) return std::nullopt;
  const auto& parts = all.factors[dim[0]].parts;
  for (const program::FactorList& part : parts) {
    auto split = StatedSplit(all, part, shards, heads(parts[0]));
    if (!split) continue;
    split->fewer = all.SizeOf(part) < all.SizeOf(parts[0]);
    return split;
  }
  StatedHeads out;
  if (heads(dim)) {
    out.count = 1;
    for (const uint32_t index : dim) {
      const program::Factor& factor = all.factors[index];
      (heads({index}) && out.size == 1 ? out.count : out.size) *= factor.size;
    }
  } else if (single && all.factors[dim[0]].role == kHeadDim) {
    out = {1, all.SizeOf(dim)};
  }
  if (out.count == 0 || out.count % shards == 0) return std::nullopt;
  out.state = all.factors[dim[0]].role == kStateGroups;
  return out;
}

LintFinding Report(const Facts& facts, const ParameterGroup& group,
                   std::span<const uint32_t> params, const HeadSplit& cut,
                   int64_t head_dim) {
  const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, cut.dim));
  const int64_t parts = facts.TensorParts(axes);
  const bool divides = cut.count * head_dim % parts == 0;
  const std::string heads = std::to_string(cut.count) +
                            (cut.state ? " state group"
                             : cut.key ? " KV head"
                                       : " head") +
                            (cut.count == 1 ? "" : "s") + " of " +
                            std::to_string(head_dim) + ", " +
                            AxesHave(facts, axes);
  const std::string counted = cut.state ? "groups" : "heads";
  const std::string after =
      heads +
      (divides ? ": the size divides, the number of " + counted + " does not ("
               : ": the number of " + counted + " does not divide (") +
      RemainderText(cut.count, parts) + "), so that a device holds part of a " +
      (cut.state ? "group" : "head");
  LintFinding finding =
      GroupFinding(facts, kHeadSplit.code, group, "",
                   cut.state  ? "use an axis size that divides the groups"
                   : !cut.key ? "use an axis size that divides the heads"
                   : parts % cut.count == 0
                       ? "replicate the KV heads with `kv_replicate: true`, or "
                         "use an axis size that divides them"
                       : "replicate the KV heads over the axis, or use an axis "
                         "size that divides them");
  finding.members.clear();
  facts.AddNames(params, finding);
  finding.subject = "dimension " + std::to_string(cut.dim) + " of " +
                    SomeText(facts, group, params);
  finding.message = finding.subject + " holds " + after;
  finding.several = {heads, "", " hold " + after};
  // More shards than KV heads are common and only cost time, so the finding
  // about KV heads is a warning. The finding about query heads is an error.
  if (cut.key) finding.level = Level::kWarning;
  finding.reports = {HeadsTopic(cut.count, parts)};
  return finding;
}

}  // namespace

namespace {

// Returns whether the group is in the module of a mixer. The module is known by
// its output projection: `layers.*.mixer.out_proj.weight` shows that
// `layers.*.mixer.conv1d.bias` is in one.
bool IsInMixer(const Facts& facts, const ParameterGroup& group) {
  return std::ranges::any_of(facts.blocks().mixers, [&](const Mixer& mixer) {
    std::string_view module = mixer.output.group->name;
    for (int parts = 0; parts < 2; ++parts) {
      const size_t end = module.rfind(facts.separator());
      if (end == module.npos) return false;
      module = module.substr(0, end);
    }
    return group.name.size() > module.size() &&
           group.name.starts_with(module) &&
           group.name[module.size()] == facts.separator();
  });
}

// Adds the findings about a group whose description states where heads are,
// which may differ between layers.
void CheckStatedHeads(const Facts& facts, const ParameterGroup& group,
                      FindingSink& sink) {
  const bool key = IsKeyOrValue(group.role.module_role);
  const bool mixes = IsInMixer(facts, group);
  // By the heads' number and size, their dimension, and whether they are those
  // of keys or values.
  std::map<std::tuple<int64_t, int64_t, int, bool, bool>, std::vector<uint32_t>>
      found;
  for (const uint32_t param : facts.Members(group)) {
    const program::ParamFacts* const described = facts.Described(param);
    if (described == nullptr) continue;
    for (int dim = 0; dim < static_cast<int>(described->dims.size()); ++dim) {
      const int64_t shards = facts.TensorParts(facts.AxesAt(group, dim));
      if (shards <= 1) continue;
      const auto split = StatedSplit(
          *facts.described(), described->dims[AsIndex(dim)], shards, key);
      if (!split) continue;
      // A mixer has a single state group where a description has no factor for
      // groups: the part of B or C has the elements of one.
      const bool state = split->state || (mixes && split->fewer);
      found[{split->count, split->size, dim, key || split->fewer, state}]
          .push_back(param);
    }
  }
  for (const auto& [heads, params] : found) {
    const auto& [count, size, dim, of_keys, state] = heads;
    sink.push_back(
        Report(facts, group, params, {count, of_keys, dim, state}, size));
  }
}

// Adds the findings about towers, whose heads the configuration states apart
// from those of the language model.
void CheckTowers(const Facts& facts, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    if (!facts.Judged(group) || facts.Described(group) != nullptr) continue;
    const auto heads = facts.towers().HeadsOf(group);
    if (!heads) continue;
    const int64_t parts = facts.TensorParts(facts.AxesAt(group, heads->dim));
    if (parts <= 1 || heads->count % parts == 0) continue;
    LintFinding finding =
        Report(facts, group, facts.Members(group),
               {heads->count, heads->kv, heads->dim}, heads->tower->head_dim);
    finding.help += "; `" + heads->tower->key + "` states these heads";
    sink.push_back(std::move(finding));
  }
}

}  // namespace

void CheckHeadSplit(const Facts& facts, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    if (facts.Judged(group) && facts.Described(group) != nullptr) {
      CheckStatedHeads(facts, group, sink);
    }
  }
  CheckTowers(facts, sink);
  if ((facts.has() & kNeedsHeads) == 0) return;
  const auto heads = HeadsOf(*facts.model());
  if (!heads) return;
  const LayerStacks& stacks = facts.stacks();
  FittingNames fitting;
  for (const ParameterGroup& group : facts.groups()) {
    if (facts.towers().Holds(group)) continue;
    HeadSplitOf(facts, *heads, stacks, group, heads->head_dim, fitting);
  }
  const LayerHeads layers(facts, heads->head_dim);
  for (const ParameterGroup& group : facts.groups()) {
    if (!IsAttention(group.role.module_role) ||
        facts.Described(group) != nullptr || facts.towers().Holds(group)) {
      continue;
    }
    for (const auto& [head_dim, params] : layers.BySize(group)) {
      const auto cut =
          HeadSplitOf(facts, *heads, stacks, group, head_dim, fitting);
      if (cut) sink.push_back(Report(facts, group, params, *cut, head_dim));
    }
  }
}

// Reports replicated vectors that have one number for each head, or for each
// column of the query or key, although the heads are sharded:
//
//   sinks [64], q_proj split over tp 8       ->  each device uses 8 of them
//   q_norm [4096], a mean over all heads     ->  each device has 512 columns
//
// A norm over the columns of one head is used for every head, so it is
// correctly replicated. A mixer has such vectors too (`A_log`, `dt_bias`), and
// a convolution with a kernel for each channel.
namespace {

// A vector that belongs to the heads of an attention block: attention sinks, or
// the scale of the norm of the query or key.
struct HeadVector {
  Role role;  // kSink, kQueryNorm or kKeyNorm
  // The path of the attention block with its last separator, such as
  // `layers.*.attn.`.
  std::string block;
};

std::optional<HeadVector> HeadVectorOf(const ParameterGroup& group,
                                       char separator) {
  for (std::string_view part : SplitName(group.name, separator)) {
    const Role role = RoleBelow(part);
    if (!IsHeadVector(role)) continue;
    const auto end = static_cast<size_t>(part.data() - group.name.data());
    return HeadVector{role, group.name.substr(0, end)};
  }
  return std::nullopt;
}

// A projection of a block, whose output is sharded over `axes`.
struct Projection {
  int64_t width = 0;
  AxisGroup axes;
};

using ProjectionOfBlock = std::map<std::string, Projection, std::less<>>;

// Returns the projections of this role whose output is sharded over
// tensor-parallel axes, keyed by block. If a block has several, the first is
// used.
ProjectionOfBlock SplitOnes(const Facts& facts, Role role) {
  ProjectionOfBlock out;
  for (const ParameterGroup& group : facts.groups()) {
    if (group.role.module_role != role || !IsWeight(group) ||
        !facts.Judged(group)) {
      continue;
    }
    const auto dims = MatrixDimsOf(facts, facts.stacks(), group);
    const int side = OutDim(group.role, 2);
    if (!dims || side < 0) continue;
    const int dim = (*dims)[AsIndex(side)];
    const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, dim));
    if (facts.TensorParts(axes) <= 1) continue;
    const size_t end = group.role.sibling_path.find('?');
    out.try_emplace(
        group.role.sibling_path.substr(0, end),
        Projection{(*facts.TypeOf(group).shape)[AsIndex(dim)], axes});
  }
  return out;
}

// Returns the size of dimension `dim` of the group's parameters.
int64_t SizeOf(const Facts& facts, const ParameterGroup& group, int dim) {
  return (*facts.TypeOf(group).shape)[AsIndex(dim)];
}

// Returns "replicated", or over which axes the dimension is split. They may be
// axes such as fsdp, over which it is gathered before use.
std::string HeldText(const Facts& facts, const ParameterGroup& group, int dim) {
  const AxisGroup axes = facts.AxesAt(group, dim);
  return facts.mesh().Parts(axes).value_or(1) > 1
             ? "split over " + GroupText(axes)
             : "replicated";
}

LintFinding Report(const Facts& facts, const ParameterGroup& group, int dim,
                   const HeadVector& vector, const Projection& projection) {
  const int64_t size = SizeOf(facts, group, dim);
  const bool sinks = vector.role == Role::kSink;
  const std::string of = vector.role == Role::kKeyNorm ? "key" : "query";
  const std::string held = HeldText(facts, group, dim);
  return GroupFinding(
      facts, kHeadVectorWhole.code, group,
      ParametersText(facts, group) +
          (sinks ? " holds a number for each of " + std::to_string(size) +
                       " heads"
                 : " norms all " + std::to_string(size) + " columns of the " +
                       of + " together") +
          " and is " + held + ", while the " + of +
          "'s projection is split over " + GroupText(projection.axes) +
          ": a device uses " +
          std::to_string(size / facts.TensorParts(projection.axes)) +
          " of them" +
          (sinks ? "" : ", and the mean needs an all_reduce over the axis"),
      sinks ? "split it over the axis of the heads"
            : "split it over the axis of the columns and all-reduce the mean "
              "over that axis, or leave the projection unsharded");
}

// Returns the blocks in which the query is normalised head by head, so that its
// norm is shorter than the query. The key is then normalised head by head as
// well. With a single KV head, such a key norm is as long as the key. It is not
// reported, because it is correctly replicated.
std::set<std::string> NormedByHead(const Facts& facts,
                                   const ProjectionOfBlock& queries) {
  std::set<std::string> out;
  for (const ParameterGroup& group : facts.groups()) {
    const auto dim = VectorDimOf(facts, facts.stacks(), group);
    if (!dim) continue;
    const auto vector = HeadVectorOf(group, facts.separator());
    if (!vector || vector->role != Role::kQueryNorm) continue;
    const auto query = queries.find(vector->block);
    if (query == queries.end()) continue;
    if (SizeOf(facts, group, *dim) != query->second.width)
      out.insert(vector->block);
  }
  return out;
}

// Reports the head vectors, convolutions and channels of a mixer whose
// projections are split over `axes`, if they are not split.
void CheckMixer(const Facts& facts, const Mixer& mixer, const AxisGroup& axes,
                FindingSink& sink) {
  const auto check = [&](const Sized& one, const std::string& what,
                         const std::string& of) {
    if (!facts.Judged(*one.group) ||
        facts.TensorParts(facts.AxesAt(*one.group, one.dim)) > 1) {
      return;
    }
    sink.push_back(GroupFinding(
        facts, kHeadVectorWhole.code, *one.group,
        ParametersText(facts, *one.group) + " holds " + what + " for each of " +
            std::to_string(one.size) + " " + of + " and is " +
            HeldText(facts, *one.group, one.dim) +
            ", while the projections of its mixer are split over " +
            GroupText(axes) + ": a device uses " +
            std::to_string(one.size / facts.TensorParts(axes)) + " of them",
        "split it with the projections, part by part, or gather their outputs "
        "and leave the input of the output projection unsharded"));
  };
  for (const Sized& vector : mixer.vectors) check(vector, "a number", "heads");
  for (const Sized& one : mixer.convolutions) {
    check(one, "a kernel", "channels");
  }
  for (const Sized& one : mixer.channels) {
    check(one, facts.Rank(*one.group) == 1 ? "a number" : "numbers",
          "channels");
  }
}

void CheckMixers(const Facts& facts, FindingSink& sink) {
  for (const Mixer& mixer : facts.blocks().mixers) {
    const auto split = [&](const Sized& one) {
      return facts.Judged(*one.group)
                 ? facts.TensorAxes(facts.AxesAt(*one.group, one.dim))
                 : AxisGroup();
    };
    const AxisGroup output = split(mixer.output);
    for (const Sized& input : mixer.inputs) {
      if (facts.TensorParts(split(input)) <= 1 ||
          facts.TensorParts(output) <= 1) {
        continue;
      }
      CheckMixer(facts, mixer, split(input), sink);
      break;
    }
  }
}

}  // namespace

namespace {

// Reports norms and sinks whose names show what they are. Returns the groups
// that it reports.
std::set<const ParameterGroup*> CheckNamedVectors(const Facts& facts,
                                                  FindingSink& sink) {
  std::set<const ParameterGroup*> out;
  const ProjectionOfBlock queries = SplitOnes(facts, Role::kQuery);
  const ProjectionOfBlock keys = SplitOnes(facts, Role::kKey);
  const std::set<std::string> by_head = NormedByHead(facts, queries);
  for (const ParameterGroup& group : facts.groups()) {
    if (!facts.Judged(group)) continue;
    const auto dim = VectorDimOf(facts, facts.stacks(), group);
    if (!dim || facts.TensorParts(facts.AxesAt(group, *dim)) > 1) continue;
    const auto vector = HeadVectorOf(group, facts.separator());
    if (!vector) continue;
    const ProjectionOfBlock& blocks =
        vector->role == Role::kKeyNorm ? keys : queries;
    const auto at = blocks.find(vector->block);
    if (at == blocks.end()) continue;
    const int64_t size = SizeOf(facts, group, *dim);
    const bool whole_width =
        size == at->second.width &&
        !(vector->role == Role::kKeyNorm && by_head.contains(vector->block));
    const bool of_heads = facts.model() != nullptr && facts.model()->heads
                              ? size == *facts.model()->heads
                              : size > 1 && size < at->second.width &&
                                    at->second.width % size == 0;
    if (vector->role == Role::kSink ? of_heads : whole_width) {
      sink.push_back(Report(facts, group, *dim, *vector, at->second));
      out.insert(&group);
    }
  }
  return out;
}

LintFinding Report(const Facts& facts, const Headwise& one) {
  return GroupFinding(
      facts, kHeadVectorWhole.code, *one.group,
      ParametersText(facts, *one.group) + " holds " +
          (one.rows ? "numbers" : "a number") + " for each of " +
          std::to_string(one.heads) + " heads and is " +
          HeldText(facts, *one.group, one.dim) + ", while " +
          Quoted(GroupName(facts, *one.projection)) + " (" + one.evidence +
          ") is split over " + GroupText(one.axes) + ": a device uses " +
          std::to_string(one.heads / facts.TensorParts(one.axes)) + " of them",
      "split dimension " + std::to_string(one.dim) +
          " over the axis of the heads");
}

}  // namespace

void CheckHeadVectorWhole(const Facts& facts, FindingSink& sink) {
  CheckMixers(facts, sink);
  const auto reported = CheckNamedVectors(facts, sink);
  for (const Headwise& one : HeadwiseOf(facts)) {
    if (reported.contains(one.group) ||
        facts.TensorParts(facts.AxesAt(*one.group, one.dim)) > 1) {
      continue;
    }
    sink.push_back(Report(facts, one));
  }
}

// Reports KV heads that are on other devices than the query heads that use
// them. With grouped queries, several query heads share a KV head. A device has
// the KV heads that its query heads use in two cases: every device has all KV
// heads, or the KV heads are sharded over the query heads' axes or over the
// first few of these:
//
//   query over [tp, sp], key over [tp]  ->  each device has both
//   query over [tp], key over [dp]      ->  KV heads are on other devices
//   query unsharded, key over [tp]      ->  KV heads are on other devices
namespace {

LintFinding Report(const Facts& facts, const Heads& heads,
                   const ModeSplit& query, const AxisGroup& key) {
  LintFinding finding = FindingAt(
      kHeadGroupsStraddle.code, AttentionPlace(facts, query.modes.front(),
                                               "key", kHeadsDim, query.place));
  finding.message = std::to_string(heads.heads / heads.kv_heads) +
                    " query heads share a KV head, and in " +
                    ModesText(facts, query) + " a device has " +
                    std::to_string(heads.heads / query.parts) +
                    " query heads over " + GroupText(query.axes) +
                    " and KV heads over " + GroupText(key);
  finding.help =
      "split KV heads over the axes of the query heads, or over the first of "
      "these axes";
  return finding;
}

// Reports KV heads that are sharded in modes in which no axis shards the query
// heads. A device then has all query heads, and only some of the KV heads.
void CheckUnshardedQueries(const Facts& facts, const Heads& heads,
                           FindingSink& sink) {
  for (ModeSplit key : SplitsOf(
           facts, "key", kHeadsDim,
           {facts.model()->source, Place::kEntireFile, Place::kEntireFile})) {
    if (heads.kv_heads % key.parts != 0) continue;
    std::erase_if(key.modes, [&](Mode mode) {
      const AxisGroup query = AttentionAxes(facts, mode, "query", kHeadsDim);
      return facts.mesh().Parts(query).value_or(1) > 1;
    });
    if (key.modes.empty()) continue;
    LintFinding finding =
        FindingAt(kHeadGroupsStraddle.code,
                  AttentionPlace(facts, key.modes.front(), "query", kHeadsDim,
                                 key.place));
    finding.message = "in " + ModesText(facts, key) + " every device has all " +
                      std::to_string(heads.heads) + " query heads, and " +
                      std::to_string(heads.kv_heads / key.parts) + " of the " +
                      Counted(heads.kv_heads, "KV head") + " over " +
                      GroupText(key.axes);
    finding.help =
        "split the query heads over the axes of the KV heads, or leave the KV "
        "heads unsharded";
    sink.push_back(std::move(finding));
  }
}

}  // namespace

void CheckHeadGroupsStraddle(const Facts& facts, FindingSink& sink) {
  const auto heads = HeadsOf(*facts.model());
  if (heads && !facts.model()->latent_rank) {
    CheckUnshardedQueries(facts, *heads, sink);
  }
  if (!heads || heads->kv_heads == heads->heads ||
      heads->heads % heads->kv_heads != 0) {
    return;
  }
  for (const ModeSplit& split : SplitsOf(
           facts, "query", kHeadsDim,
           {facts.model()->source, Place::kEntireFile, Place::kEntireFile})) {
    if (heads->heads % split.parts != 0) continue;
    // The query has the same axes in all modes of `split`, but the key may have
    // other axes in each mode. The modes are grouped by the key's axes.
    std::map<AxisGroup, std::vector<Mode>> by_key;
    for (Mode mode : split.modes) {
      by_key[AttentionAxes(facts, mode, "key", kHeadsDim)].push_back(mode);
    }
    for (const auto& [key, modes] : by_key) {
      if (IsPrefix(facts.mesh(), key, split.axes)) continue;
      ModeSplit same = split;
      same.modes = modes;
      sink.push_back(Report(facts, *heads, same, key));
    }
  }
}

void CheckHeadsIndivisible(const Facts& facts, FindingSink& sink) {
  const auto heads = HeadsOf(*facts.model());
  if (!heads) return;
  for (const ModeSplit& split : SplitsOf(
           facts, "query", kHeadsDim,
           {facts.model()->source, Place::kEntireFile, Place::kEntireFile})) {
    const int64_t parts = split.parts;
    if (heads->heads % parts == 0) continue;
    if (!Written(facts, split.modes.front(), "query", kHeadsDim)) continue;
    LintFinding finding = FindingAt(kHeadsIndivisible.code, split.place);
    finding.message = "the model has " + std::to_string(heads->heads) +
                      " heads, " + AxesHave(facts, split.axes) + " in " +
                      ModesText(facts, split) + ": " +
                      RemainderText(heads->heads, parts);
    // If a finding at the rule of a projection is about the same heads, this
    // finding is redundant.
    finding.unless = {HeadsTopic(heads->heads, parts)};
    finding.reports = finding.unless;
    finding.help = "give " +
                   SourceOf(facts, split, "query", kHeadsDim, AxisRule::kHead) +
                   " an axis whose size divides the heads";
    sink.push_back(std::move(finding));
  }
}

namespace {

// Returns whether `kv_replicate` gives each device the head of its query heads.
bool ReplicatesKvHeads(const Facts& facts, const ModeSplit& split, int64_t kv) {
  return facts.compiled().rules.policy.kv_replicate.value_or(false) &&
         KvHeadAxes(facts.mesh(), split.axes, kv).has_value();
}

}  // namespace

void CheckKvHeadsIndivisible(const Facts& facts, FindingSink& sink) {
  const auto heads = HeadsOf(*facts.model());
  if (!heads) return;
  const int64_t kv = heads->kv_heads;
  for (const ModeSplit& split : SplitsOf(
           facts, "key", kHeadsDim,
           {facts.model()->source, Place::kEntireFile, Place::kEntireFile})) {
    const int64_t parts = split.parts;
    if (kv % parts == 0 || ReplicatesKvHeads(facts, split, kv)) continue;
    if (!Written(facts, split.modes.front(), "key", kHeadsDim)) continue;
    LintFinding finding = FindingAt(kKvHeadsIndivisible.code, split.place);
    finding.message =
        "the model has " + std::to_string(kv) + " KV heads, " +
        AxesHave(facts, split.axes) + " in " + ModesText(facts, split) + ": " +
        (parts % kv == 0
             ? "each head would be on " + std::to_string(parts / kv) +
                   " devices, or split between them"
             : RemainderText(kv, parts));
    // A finding about the same numbers of heads and shards makes this finding
    // redundant. That finding may be at the rule of a projection. If there are
    // as many query heads as KV heads, it may also be about query heads.
    finding.unless = {HeadsTopic(kv, parts)};
    finding.help =
        "give " + SourceOf(facts, split, "key", kHeadsDim, AxisRule::kKvHead) +
        " an axis whose size divides " + std::to_string(kv) +
        (parts % kv == 0 ? ", replicate the heads with `kv_replicate: true`"
                         : "") +
        ", or leave it unsharded and split the length instead";
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
