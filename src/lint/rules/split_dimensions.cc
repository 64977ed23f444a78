// Lints about dimensions that should not be sharded, or not contiguously: those
// of layers, routers, norms, latents and mixers, and those with parts.
//
//   router [4096, 8] over ep 4  ->  each device computes 2 of 8 scores
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/reshard.h"
#include "lint/analysis/companions.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/fused.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "model/model_description.h"
#include "model/name.h"
#include "plan/representatives.h"
#include "roles/classify.h"
#include "roles/layer_stacks.h"
#include "roles/role.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {

void CheckVocabularyPadding(const Facts& facts, FindingSink& sink) {
  const Vocabulary vocabulary = VocabularyOf(facts);
  if (vocabulary.embedding == nullptr || vocabulary.head == nullptr) return;
  const int64_t rows =
      (*facts.TypeOf(*vocabulary.embedding)
            .shape)[static_cast<size_t>(vocabulary.embedding_dim)];
  const int64_t out = (*facts.TypeOf(*vocabulary.head)
                            .shape)[static_cast<size_t>(vocabulary.head_dim)];
  if (rows == out) return;
  LintFinding finding = GroupFinding(
      facts, kVocabularyPadding.code, *vocabulary.head,
      ParametersText(facts, *vocabulary.head) + " has " + CountText(out) +
          " outputs and " + ParametersText(facts, *vocabulary.embedding) +
          " has " + CountText(rows) + " rows",
      "pad both to the same size");
  finding.labels.push_back(
      {facts.GroupPlace(*vocabulary.embedding), "the embedding's rule"});
  sink.push_back(std::move(finding));
}

// Reports fused projections of which a part is not divided evenly. The number
// of shards has to divide the size of each part, and not only the sum of the
// parts.
//
//   gate and up, 1367 columns each, over tp 2: 2 divides 2734, but not 1367
void CheckFusedParts(const Facts& facts, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    if (!facts.Judged(group)) continue;
    const Fused* const fused = facts.blocks().Of(group);
    if (fused == nullptr || fused->mixer) continue;
    const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, fused->dim));
    const int64_t shards = facts.TensorParts(axes);
    for (const FusedPart& part : fused->parts) {
      if (shards <= 1 || part.size % shards == 0) continue;
      const Shape& shape = *facts.TypeOf(group).shape;
      sink.push_back(GroupFinding(
          facts, kFusedParts.code, group,
          "dimension " + std::to_string(fused->dim) + " of " +
              ParametersText(facts, group) + " is " +
              std::to_string(shape[static_cast<size_t>(fused->dim)]) +
              " wide and holds several parts, " + part.name + " " +
              std::to_string(part.size) + ", " + AxesHave(facts, axes) + ": " +
              RemainderText(part.size, shards),
          "use an axis size that divides every part"));
      break;
    }
  }
}

// Reports fused projections whose parts are stored one after the other and are
// sharded as one dimension. A device then has one piece of the dimension and
// not its share of each part. This holds even if the number of shards divides
// the size of each part:
//
//   queries | keys | values of 1600 over tp 4
//     -> 0 to 1199, queries only | 1200 to 2399, queries and keys | ...
//
// Some families interleave the parts (query, key and value of each head;
// alternating columns of gate and up), as their descriptions state or, without
// one, their names show. Their fused projections are sharded correctly, and not
// reported. Nothing is reported if the `model:` section has
// `fused: by_part`, and of a mixer whose output projection reads unsharded
// activations, because its projections are then gathered in any case.
namespace {

bool Interleaves(const Facts& facts, const ParameterGroup& group) {
  if (facts.Described(group) != nullptr) return false;
  return InterleavesParts(
      facts.model() == nullptr ? "" : facts.model()->model_type,
      group.role.module_role, group.name, facts.separator());
}

// Returns whether the order of the parts is an assumption: shapes show the
// parts, the family is described without this parameter, or families that
// interleave them use the same name and no model family is known.
bool AssumesOrder(const Facts& facts, const ParameterGroup& group,
                  const Fused& fused) {
  if (!fused.evidence.empty()) return true;
  if (facts.StatesHeads()) return facts.Described(group) == nullptr;
  if (facts.model() != nullptr && !facts.model()->model_type.empty()) {
    return false;
  }
  return MayInterleaveParts(group.name, facts.separator());
}

// Returns the sizes of the parts of a dimension, in order; empty if they are
// not known. One of a matrix's parts may stand for several of its size, as
// "gate and up each" does: for as many as the dimension has room for, if all
// parts have one size.
std::vector<int64_t> PartSizes(const Fused& fused, int64_t width) {
  std::vector<int64_t> out;
  int64_t sum = 0;
  for (const FusedPart& part : fused.parts) {
    out.push_back(part.size);
    sum += part.size;
  }
  const bool one_size = std::ranges::all_of(
      out, [&](int64_t size) { return size == out.front(); });
  if (!out.empty() && one_size && out[0] > 0 && width % out[0] == 0) {
    out.resize(AsIndex(width / out[0]), out[0]);
  } else if (sum != width) {
    out.clear();
  }
  return out;
}

int64_t WidthOf(const Facts& facts, const ParameterGroup& group,
                const Fused& fused) {
  return (*facts.TypeOf(group).shape)[AsIndex(fused.dim)];
}

// Returns whether the rule states that the dimension has these parts, so that
// each of them is divided (`parts`).
bool StatesParts(const Facts& facts, const ParameterGroup& group,
                 const Fused& fused) {
  const PartsOfDim& stated =
      PartsAt(facts.LayoutOf(group).parts, AsIndex(fused.dim));
  const int64_t width = WidthOf(facts, group, fused);
  const auto sizes = SizesOfParts(stated, width);
  return stated.several() && sizes && *sizes == PartSizes(fused, width);
}

// Returns the field `parts` of a rule that divides each of the parts, such as
// "`parts: [[64, 16, 16]]`"; "`parts`" if their sizes are not known.
std::string PartsField(const Facts& facts, const ParameterGroup& group,
                       const Fused& fused) {
  // The longest list that a message has.
  constexpr size_t kMostListed = 8;
  const int64_t width = WidthOf(facts, group, fused);
  const std::vector<int64_t> sizes = PartSizes(fused, width);
  DimParts parts(AsIndex(fused.dim) + 1);
  parts.back() = {static_cast<int64_t>(sizes.size()), sizes};
  parts = NumbersOfEqual(std::move(parts), *facts.TypeOf(group).shape);
  const bool shown = parts.back().sizes.size() <= kMostListed;
  return parts.back().several() && shown
             ? "`parts: " + DimPartsText(parts) + "`"
             : "`parts`";
}

bool PartsDivide(const Fused& fused, int64_t shards) {
  return std::all_of(
      fused.parts.begin(), fused.parts.end(),
      [&](const FusedPart& part) { return part.size % shards == 0; });
}

}  // namespace

void CheckFusedContiguous(const Facts& facts, FindingSink& sink) {
  const auto& model = facts.compiled().rules.model;
  if (model != nullptr && model->IsFusedByPart()) return;
  for (const ParameterGroup& group : facts.groups()) {
    if (!facts.Judged(group) || Interleaves(facts, group)) continue;
    const Fused* const fused = facts.blocks().Of(group);
    if (fused == nullptr || fused->mixer || IsGathered(facts, group)) continue;
    const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, fused->dim));
    const int64_t shards = facts.TensorParts(axes);
    // SHD221 reports the projection if the shards do not divide each part.
    if (shards <= 1 || !PartsDivide(*fused, shards) ||
        StatesParts(facts, group, *fused)) {
      continue;
    }
    const TensorType& type = facts.TypeOf(group);
    const int64_t width = (*type.shape)[static_cast<size_t>(fused->dim)];
    if (!type.dtype) continue;
    const auto row = BytesOf(width / shards * (shards - 1), *type.dtype);
    if (!row) continue;
    const bool assumed = AssumesOrder(facts, group, *fused);
    const std::string parts_text =
        PartsText(*fused) +
        (fused->evidence.empty() ? "" : "; " + fused->evidence);
    sink.push_back(GroupFinding(
        facts, kFusedContiguous.code, group,
        "dimension " + std::to_string(fused->dim) + " of " +
            ParametersText(facts, group) +
            (assumed ? " holds several parts ("
                     : " stores several parts one after the other (") +
            parts_text + ") and is split as one over " + GroupText(axes) +
            (assumed ? ": unless they are interleaved, " : ": ") +
            "no shard has its share of each part, so that a compiler gathers "
            "the output, " +
            BytesText(*row) +
            // Several experts compute a token, so bytes are given for one
            // expert.
            (group.role.expert ? " for each token of an expert"
                               : " a token and layer") +
            ", and in training the same backward",
        "write " + PartsField(facts, group, *fused) +
            " in the rule if the loader shards each of the parts, or `fused: "
            "by_part` in the `model:` section; store the parts as separate "
            "parameters, or leave the dimension unsharded"));
  }
}

// Reports shards that end inside a block of quantised numbers. The numbers of a
// block share a scale, so a device then needs a scale of another device. The
// block size of each dimension follows from the shapes of a weight and its
// scale. Without scales, the configuration states the block sizes of the input
// and the output dimension of projections, and which modules have them.
//
//   576 rows with 5 scales have blocks of 128 rows. Over tp 8, a shard has 72
//   rows, so it ends inside a block.
namespace {

// Returns the size of a shard of the dimension, or 0 if the shard ends inside
// no block or the spec is illegal anyway.
int64_t CutBlock(const Facts& facts, const ParameterGroup& weight, int dim,
                 int64_t block) {
  const int64_t size = (*facts.TypeOf(weight).shape)[static_cast<size_t>(dim)];
  const int64_t parts =
      facts.mesh().Parts(facts.AxesAt(weight, dim)).value_or(1);
  const int64_t shard = ShareOf(size, parts);
  if (parts <= 1 || shard % block == 0) return 0;
  return size % parts != 0 && facts.Illegal(weight) ? 0 : shard;
}

// Reports the parameters `params` of the group `weight`, unless every shard
// ends between blocks.
void Report(const Facts& facts, const ParameterGroup& weight,
            std::span<const uint32_t> params, int dim, int64_t block,
            FindingSink& sink) {
  const int64_t shard = CutBlock(facts, weight, dim, block);
  if (shard == 0) return;
  const int64_t size = (*facts.TypeOf(weight).shape)[static_cast<size_t>(dim)];
  LintFinding finding = GroupFinding(
      facts, kQuantisationBlock.code, weight,
      "dimension " + std::to_string(dim) + " of " +
          SomeText(facts, weight, params) + " is " + std::to_string(size) +
          " in blocks of " + std::to_string(block) + ", " +
          AxesHave(facts, facts.AxesAt(weight, dim)) + ": a shard is " +
          std::to_string(shard) + " and ends inside a block",
      "use an axis size that keeps blocks together, or leave the dimension "
      "unsharded");
  finding.members.clear();
  facts.AddNames(params, finding);
  finding.subject = SomeText(facts, weight, params);
  sink.push_back(std::move(finding));
}

// Returns whether quantised checkpoints usually quantise this matrix.
bool IsProjection(const ParameterGroup& group) {
  const Role role = group.role.module_role;
  return IsWeight(group) && role != Role::kLatentUp &&
         (IsAttention(role) || IsMlp(role));
}

// Checks the block sizes of the configuration. They are used only if the tree
// has no scales, because such a tree describes the model before quantisation.
void CheckConfigured(const Facts& facts, FindingSink& sink) {
  const ModelConfig* const model = facts.model();
  if (model == nullptr) return;
  const QuantisedModules modules(*model);
  if (!modules.Any()) return;
  const auto groups = facts.groups();
  const bool shown = std::any_of(groups.begin(), groups.end(), [](auto& group) {
    return (group.role.leaf == Leaf::kScale &&
            group.role.module_role != Role::kNorm) ||
           group.name.ends_with("_scales");
  });
  if (shown) return;
  for (const ParameterGroup& group : groups) {
    if (!IsProjection(group) || !facts.Judged(group) ||
        MayPack(facts.TypeOf(group).dtype.value_or(Dtype::kI32))) {
      continue;
    }
    const int rank = facts.Rank(group);
    const int in = InDim(group.role, rank);
    if (in < 0) continue;
    const int out = OutDim(group.role, rank);
    // Names are read only if a shard ends inside a block of some modules.
    if (std::none_of(modules.blocks().begin(), modules.blocks().end(),
                     [&](const QuantisedBlock& one) {
                       return CutBlock(facts, group, in, one.columns) != 0 ||
                              CutBlock(facts, group, out, one.rows) != 0;
                     })) {
      continue;
    }
    std::map<const QuantisedBlock*, std::vector<uint32_t>> members;
    for (const uint32_t param : facts.Members(group)) {
      members[modules.Of(facts.plan().names[param], facts.separator(),
                         group.role.leaf != Leaf::kOther)]
          .push_back(param);
    }
    for (const auto& [block, params] : members) {
      if (block == nullptr) continue;
      Report(facts, group, params, in, block->columns, sink);
      Report(facts, group, params, out, block->rows, sink);
    }
  }
}

}  // namespace

void CheckQuantisationBlock(const Facts& facts, FindingSink& sink) {
  CheckConfigured(facts, sink);
  for (const Companion& pair : CompanionsOf(facts)) {
    if (pair.other->role.leaf != Leaf::kScale) continue;
    const int rank = facts.Rank(*pair.weight);
    if (facts.Rank(*pair.other) != rank) continue;
    for (int dim = 0; dim < rank; ++dim) {
      const auto at = static_cast<size_t>(dim);
      const int64_t scales = (*facts.TypeOf(*pair.other).shape)[at];
      // A dimension with a single scale has no blocks.
      if (scales <= 1) continue;
      const int64_t block =
          BlockOf((*facts.TypeOf(*pair.weight).shape)[at], scales);
      if (block > 1) {
        Report(facts, *pair.weight, facts.Members(*pair.weight), dim, block,
               sink);
      }
    }
  }
}

// Reports scanned layers (layers stacked in one tensor) whose layer dimension
// is sharded. roles/layer_stacks.h finds this dimension:
//
//   verses/q_proj/kernel [32, 4096, 4096], verses/norm/scale [32, 4096]
//     ->  dimension 0 counts layers
//
// Nothing is reported if sizes and names do not determine which dimension
// counts layers.
void CheckLayersSplit(const Facts& facts, FindingSink& sink) {
  const LayerStacks& stacks = facts.stacks();
  for (size_t g = 0; g < facts.groups().size(); ++g) {
    const ParameterGroup& group = facts.groups()[g];
    if (!facts.Judged(group)) continue;
    for (const ScannedDim& scanned : stacks.dims[g]) {
      const LayerStack& stack = stacks.stacks[scanned.stack];
      if (stack.confidence == StackConfidence::kUndecided) continue;
      AxisGroup axes = facts.AxesAt(group, scanned.dim);
      std::erase_if(axes, IsPipelineAxis);
      if (facts.mesh().Parts(axes).value_or(1) <= 1) continue;
      sink.push_back(GroupFinding(
          facts, kLayersSplit.code, group,
          "dimension " + std::to_string(scanned.dim) + " of " +
              ParametersText(facts, group) + " counts " +
              std::to_string(stack.layers) + " layers and is split over " +
              GroupText(axes) + ": every step of the scan gathers its layer",
          "leave the layer dimension unsharded, and split another one"));
    }
  }
}

namespace {

// Returns whether the matrix is the gate of a feed-forward block: its block has
// an up projection of the same shape.
bool IsGate(const Facts& facts, const ParameterGroup& group) {
  return std::ranges::any_of(facts.groups(), [&](const ParameterGroup& other) {
    return other.role.module_role == Role::kUp &&
           other.role.block_path == group.role.block_path &&
           facts.TypeOf(other).shape == facts.TypeOf(group).shape;
  });
}

}  // namespace

// Reports routers whose expert dimension, the smaller one, is sharded. Axes
// over which the router is gathered before use, such as fsdp, are ignored. If
// the expert dimension is sharded, a device computes only some of the scores:
//
//   gate [4096, 8] over [null, ep], ep 4  ->  2 of 8 scores on each device
void CheckRouterSplit(const Facts& facts, FindingSink& sink) {
  const LayerStacks& stacks = facts.stacks();
  for (const ParameterGroup& group : facts.groups()) {
    if (group.role.module_role != Role::kRouter || !IsWeight(group) ||
        !facts.Judged(group) || IsGate(facts, group)) {
      continue;
    }
    const auto dims = MatrixDimsOf(facts, stacks, group);
    if (!dims) continue;
    const Shape& shape = *facts.TypeOf(group).shape;
    const int64_t first = shape[static_cast<size_t>((*dims)[0])];
    const int64_t last = shape[static_cast<size_t>((*dims)[1])];
    const int dim = first < last ? (*dims)[0] : (*dims)[1];
    const int64_t experts = shape[static_cast<size_t>(dim)];
    const AxisGroup axes = facts.KeptAxes(facts.AxesAt(group, dim));
    const int64_t parts = facts.mesh().Parts(axes).value_or(1);
    if (parts <= 1 || experts <= 1) continue;
    sink.push_back(GroupFinding(
        facts, kRouterSplit.code, group,
        "dimension " + std::to_string(dim) + " of " +
            ParametersText(facts, group) + " scores " +
            std::to_string(experts) + " experts and is split over " +
            GroupText(axes) + ": a device computes " +
            std::to_string(ShareOf(experts, parts)) +
            " of the scores from which the largest are chosen",
        "leave the experts' dimension of the router unsharded"));
  }
}

// Reports norms whose scale is sharded over tensor-parallel axes. A norm over
// the model's width reads activations that are unsharded over these axes, so
// its scale must not be sharded over them either. Norms of queries, keys and
// latents, and norms inside a mixer (such as Mamba's), have other sizes. They
// may be sharded and are not reported.
namespace {

// Returns whether the name belongs to a norm of queries, keys or latents, or to
// a parameter inside a mixer (such as Mamba's).
bool IsInner(std::string_view name, char separator) {
  const auto parts = SplitName(name, separator);
  return std::any_of(parts.begin(), parts.end(), [](std::string_view part) {
    return NamesMixer(part) || IsNorm(RoleBelow(part));
  });
}

}  // namespace

void CheckNormSplit(const Facts& facts, FindingSink& sink) {
  const LayerStacks& stacks = facts.stacks();
  AxisGroup hidden;
  if (const auto& written =
          facts.compiled().rules.axes.Given(AxisRule::kHiddenState)) {
    hidden = facts.TensorAxes(written->axes);
  }
  // A matrix below the name of a norm computes its scale from other
  // activations (AdaLN), so that the vector of its module is a bias.
  std::set<std::string_view> modulations;
  for (const ParameterGroup& group : facts.groups()) {
    if (group.role.module_role == Role::kNorm && facts.Rank(group) > 1 &&
        !VectorDimOf(facts, stacks, group)) {
      modulations.insert(group.role.module_path);
    }
  }
  for (const ParameterGroup& group : facts.groups()) {
    if (group.role.module_role != Role::kNorm || !facts.Judged(group) ||
        IsInner(group.name, facts.separator())) {
      continue;
    }
    const auto dim = VectorDimOf(facts, stacks, group);
    if (!dim || modulations.contains(group.role.module_path)) continue;
    const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, *dim));
    if (facts.TensorParts(axes) <= 1) continue;
    // If the activations are sharded in the same way as the norm, SHD411
    // reports the activations.
    if (SameSplit(facts.mesh(), axes, hidden)) continue;
    sink.push_back(GroupFinding(
        facts, kNormSplit.code, group,
        ParametersText(facts, group) + " is split over " + GroupText(axes) +
            ", and the activations that it scales are not: it is gathered in "
            "every layer, for " +
            std::to_string(
                (*facts.TypeOf(group).shape)[static_cast<size_t>(*dim)]) +
            " elements",
        "replicate it: `spec: Replicated`"));
  }
}

// Reports a latent that is sharded. Latent attention (MLA) projects activations
// to a latent, normalises the latent, and projects it to heads. The latent must
// not be sharded over tensor-parallel axes, because the norm and every head
// read the complete latent:
//
//   kv_a_proj_with_mqa [576, 7168] over [tp, fsdp]  ->  reported
//   kv_b_proj [32768, 512] over [tp, fsdp]          ->  not reported: its
//                                                       heads are split
void CheckLatentSplit(const Facts& facts, FindingSink& sink) {
  const LayerStacks& stacks = facts.stacks();
  for (const ParameterGroup& group : facts.groups()) {
    if (group.role.module_role != Role::kLatentDown || !IsWeight(group) ||
        !facts.Judged(group)) {
      continue;
    }
    const auto dims = MatrixDimsOf(facts, stacks, group);
    if (!dims) continue;
    // The latent is the shorter of the projection's two dimensions.
    const Shape& shape = *facts.TypeOf(group).shape;
    const int64_t first = shape[static_cast<size_t>((*dims)[0])];
    const int64_t last = shape[static_cast<size_t>((*dims)[1])];
    if (first == last) continue;
    const int dim = first < last ? (*dims)[0] : (*dims)[1];
    const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, dim));
    if (facts.TensorParts(axes) <= 1) continue;
    sink.push_back(GroupFinding(
        facts, kLatentSplit.code, group,
        "dimension " + std::to_string(dim) + " of " +
            ParametersText(facts, group) + " is the latent, split over " +
            GroupText(axes) +
            ": its norm reads all of it, so that it is gathered in every layer",
        "leave the latent unsharded, and split the heads of the projection "
        "from the latent"));
  }
}

// Reports mixers (Mamba-2, gated delta nets) whose packed projection or
// convolution is sharded contiguously. A mixer stores several parts in one
// parameter (lint/analysis/fused.cc):
//
//   in_proj  [z | x | B | C | dt]   2 inner + 2 groups * state + heads
//   conv1d   [x | B | C]            inner + 2 groups * state
//
// A device needs the columns of its own heads and groups in each part. A
// contiguous shard of `in_proj` or `conv1d` has other columns. Where the rule
// states the parts, the groups must divide nevertheless.
namespace {

bool HasGroups(const Fused& fused) {
  return std::any_of(fused.parts.begin(), fused.parts.end(),
                     [](const FusedPart& part) { return part.name == "B"; });
}

}  // namespace

void CheckStateSpaceSplit(const Facts& facts, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    const Fused* const fused = facts.blocks().Of(group);
    if (fused == nullptr || !fused->mixer || !facts.Judged(group) ||
        IsGathered(facts, group)) {
      continue;
    }
    const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, fused->dim));
    const int64_t parts = facts.TensorParts(axes);
    if (parts <= 1) continue;
    const auto groups =
        facts.model() == nullptr ? std::nullopt : facts.model()->state_groups;
    const bool shared = groups && HasGroups(*fused) && *groups % parts != 0;
    const bool stated = StatesParts(facts, group, *fused);
    if (stated && !shared) continue;
    std::string message = "dimension " + std::to_string(fused->dim) + " of " +
                          ParametersText(facts, group) + " holds " +
                          PartsText(*fused) + " one after the other and ";
    message += stated ? "each is split over " + GroupText(axes)
                      : "is split as one over " + GroupText(axes) +
                            ": no shard has its share of each";
    if (shared) {
      message += std::string(stated ? ", " : "; ") + "and heads share " +
                 std::to_string(*groups) +
                 (*groups == 1 ? " group" : " groups") + " of B and C, which " +
                 std::to_string(parts) + " devices do not divide";
    }
    const std::string field = PartsField(facts, group, *fused);
    sink.push_back(GroupFinding(
        facts, kStateSpaceSplit.code, group, std::move(message),
        (shared || field == "`parts`" || !fused->evidence.empty()
             ? std::string()
             : "write " + field +
                   " in the rule if the loader shards each of the parts; ") +
            "leave the packed dimension unsharded, or store its parts as "
            "separate parameters and split heads over an axis that divides the "
            "groups"));
  }
}

}  // namespace shardc
