// Lints about parameters that belong together and whose specs differ: a weight
// and its bias, scale or adapter, gate and up, the layers of one template.
//
//   up/kernel over [fsdp, tp] in layer 0, over [tp, fsdp] in the others
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/reshard.h"
#include "lint/analysis/companions.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "model/name.h"
#include "roles/classify.h"
#include "roles/role.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {

// Reports parameters that have the same name template and type as other
// parameters, but another spec in train. The spec of the largest group is
// assumed to be correct, and the groups with other specs are reported.
//
//   up/kernel: one rule for layers 0 and 1, another for layers 2 to 31
//     ->  layers 0 and 1 are reported
void CheckSiblingDiffers(const Facts& facts, FindingSink& sink) {
  // Nearly all names are those of one group, and need not be sorted as texts.
  const size_t count = facts.groups().size();
  std::vector<std::pair<size_t, size_t>> hashes;
  hashes.reserve(count);
  for (size_t k = 0; k < count; ++k) {
    hashes.emplace_back(std::hash<std::string_view>()(facts.groups()[k].name),
                        k);
  }
  std::ranges::sort(hashes);
  std::vector<size_t> alike;
  for (size_t i = 0; i < count; ++i) {
    const size_t hash = hashes[i].first;
    if ((i > 0 && hashes[i - 1].first == hash) ||
        (i + 1 < count && hashes[i + 1].first == hash)) {
      alike.push_back(hashes[i].second);
    }
  }
  std::ranges::sort(alike);
  std::map<std::pair<std::string_view, uint32_t>, std::vector<size_t>>
      of_one_type;
  for (const size_t k : alike) {
    const ParameterGroup& group = facts.groups()[k];
    if (!facts.Judged(group)) continue;
    of_one_type[{group.name, facts.LayoutOf(group).type}].push_back(k);
  }
  FindingSink found;
  for (const auto& [key, members] : of_one_type) {
    const size_t most = *std::max_element(
        members.begin(), members.end(), [&](size_t a, size_t b) {
          return facts.groups()[a].count() < facts.groups()[b].count();
        });
    const ParameterGroup& usual = facts.groups()[most];
    for (size_t index : members) {
      const ParameterGroup& group = facts.groups()[index];
      if (facts.Train(group).spec == facts.Train(usual).spec) continue;
      LintFinding finding = GroupFinding(
          facts, kSiblingDiffers.code, group,
          Quoted(facts.Example(group)) +
              (group.count() > 1 ? " and " + Counted(group.count() - 1, "other")
                                 : "") +
              " " + std::string(group.count() > 1 ? "are" : "is") + " " +
              SpecText(facts.Train(group).spec) + ", the other " +
              CountText(usual.count()) + " of " + Quoted(group.name) + " are " +
              SpecText(facts.Train(usual).spec),
          facts.IsEditable(group.rule)
              ? "write one rule for all of them, or `# shardc: "
                "ignore[SHD115]` and the reason above this rule"
              : "write one rule for all of them");
      // Without a subject, the findings of several groups are not joined.
      finding.subject.clear();
      finding.labels.push_back(
          {facts.GroupPlace(usual), "the rule of the others"});
      found.push_back(std::move(finding));
    }
  }
  for (LintFinding& finding : found) sink.push_back(std::move(finding));
}

void CheckTiedEmbeddingDiffers(const Facts& facts, FindingSink& sink) {
  if (!facts.model()->tied_embeddings) return;
  const Vocabulary vocabulary = VocabularyOf(facts);
  const ParameterGroup* embedding = vocabulary.embedding;
  const ParameterGroup* head = vocabulary.head;
  if (embedding == nullptr || head == nullptr) return;
  const AxisGroup rows = facts.AxesAt(*embedding, vocabulary.embedding_dim);
  const AxisGroup width =
      facts.AxesAt(*embedding, 1 - vocabulary.embedding_dim);
  const AxisGroup head_rows = facts.AxesAt(*head, vocabulary.head_dim);
  const AxisGroup head_width = facts.AxesAt(*head, 1 - vocabulary.head_dim);
  if (SameSplit(facts.mesh(), rows, head_rows) &&
      SameSplit(facts.mesh(), width, head_width)) {
    return;
  }
  LintFinding finding = GroupFinding(
      facts, kTiedEmbeddingDiffers.code, *head,
      ParametersText(facts, *head) + " is tied to " +
          ParametersText(facts, *embedding) +
          ", but its vocabulary is split over " + GroupText(head_rows) +
          " and its width over " + GroupText(head_width) +
          ", the embedding's over " + GroupText(rows) + " and " +
          GroupText(width),
      "give both the same axes for the vocabulary and for the width");
  finding.labels.push_back({facts.GroupPlace(*embedding), "the embedding"});
  sink.push_back(std::move(finding));
}

// Compares biases, scales, zero points and group indices with their weight. The
// spec of a bias is compared with the output dimension of the weight, and that
// of group indices (GPTQ's `g_idx`) with the input dimension. The spec of a
// scale for each output is compared as that of a bias. The spec of another
// scale or zero point is compared with every dimension that it shares with the
// weight.
//
//   kernel [in, out] over [tp, fsdp], bias [out] over [tp]
//     ->  reported, because the kernel's dimension `out` is over fsdp
//   weight [out, in] over [null, tp], scales [out, in / 32] over [null, null]
//     ->  reported, because a device has a part of the weight's inputs and the
//         scales of all inputs
//
// If the weight's inputs are reordered, its scales are not compared along the
// inputs: they have to be replicated there (CheckReorderedScales).
namespace {

bool OfQuantised(const Facts& facts, const Companion& pair) {
  const auto dtype = facts.TypeOf(*pair.weight).dtype;
  return dtype && IsQuantised(*dtype);
}

// Returns whether a companion of a quantised weight (GPTQ, AWQ, fp8) is
// replicated along its dimension `dim`, where the weight is split over
// `weight_axes`. Kernels take the weight's shard with the same shard of its
// scales.
bool LacksShard(const Facts& facts, const Companion& pair, int dim,
                const AxisGroup& axes, const AxisGroup& weight_axes) {
  const auto parts_of = [&](const AxisGroup& group) {
    return facts.mesh().Parts(facts.KeptAxes(group)).value_or(1);
  };
  const int64_t parts = parts_of(weight_axes);
  const int64_t size = (*facts.TypeOf(*pair.other).shape)[AsIndex(dim)];
  return OfQuantised(facts, pair) && pair.leaf != Leaf::kBias &&
         !pair.indexes && parts > 1 && parts_of(axes) <= 1 && size > 1 &&
         size % parts == 0;
}

// Returns whether `pair.other` is a scale for each element of the weight's
// output dimension `out`, such as [4096] for a weight [4096, 1024].
bool ScalesOutputs(const Facts& facts, const Companion& pair, int out) {
  const int rank = facts.Rank(*pair.weight);
  return out >= 0 && pair.leaf == Leaf::kScale &&
         facts.Rank(*pair.other) == rank - 1 &&
         facts.TypeOf(*pair.other).shape->back() ==
             (*facts.TypeOf(*pair.weight).shape)[AsIndex(out)];
}

// Returns how many dimensions a scale shares with its weight. A weight that is
// stored as blocks has a last dimension of the numbers of a block, which share
// a scale: blocks [experts, out, blocks, 16], scales [experts, out, blocks].
int SharedDims(const Facts& facts, const Companion& pair) {
  const int rank = facts.Rank(*pair.weight);
  const int shared = pair.blocks ? rank - 1 : rank;
  return facts.Rank(*pair.other) == shared ? shared : 0;
}

// Returns whether a bias, scale, zero point or group indices are sharded over
// other axes than the weight. Those that are replicated are accepted, unless
// the weight is quantised, because they cost few bytes and each device uses its
// own part.
bool Disagree(const Facts& facts, const Companion& pair, const Inputs& inputs,
              int* dim, AxisGroup* weight_axes, AxisGroup* axes) {
  const int rank = facts.Rank(*pair.weight);
  const int own = facts.Rank(*pair.other);
  const int out = pair.indexes ? InDim(pair.weight->role, rank)
                               : OutDim(pair.weight->role, rank);
  if (pair.indexes || pair.leaf == Leaf::kBias ||
      (!pair.blocks && ScalesOutputs(facts, pair, out))) {
    if (own != rank - 1 || out < 0) return false;
    *dim = own - 1;
    *axes = facts.AxesAt(*pair.other, own - 1);
    *weight_axes = facts.AxesAt(*pair.weight, out);
    if (LacksShard(facts, pair, *dim, *axes, *weight_axes)) return true;
    // Only tensor-parallel axes are compared, because a bias is gathered over
    // data axes such as fsdp before use.
    return facts.TensorParts(*axes) > 1 &&
           !SameSplit(facts.mesh(), facts.TensorAxes(*axes),
                      facts.TensorAxes(*weight_axes));
  }
  const int shared = SharedDims(facts, pair);
  for (*dim = 0; *dim < shared; ++*dim) {
    if (*dim == inputs.dim && inputs.order != InputOrder::kConsecutive) {
      continue;
    }
    *axes = facts.AxesAt(*pair.other, *dim);
    *weight_axes = facts.AxesAt(*pair.weight, *dim);
    if (LacksShard(facts, pair, *dim, *axes, *weight_axes)) return true;
    const AxisGroup kept = facts.KeptAxes(*axes);
    if (facts.mesh().Parts(kept).value_or(1) > 1 &&
        !SameSplit(facts.mesh(), kept, facts.KeptAxes(*weight_axes))) {
      return true;
    }
  }
  return false;
}

}  // namespace

void CheckCompanionDiffers(const Facts& facts, FindingSink& sink) {
  const std::vector<Companion> companions = CompanionsOf(facts);
  const InputOrders orders(facts, companions);
  for (const Companion& pair : companions) {
    int dim = 0;
    AxisGroup weight_axes;
    AxisGroup axes;
    if (!Disagree(facts, pair, orders.Of(*pair.weight), &dim, &weight_axes,
                  &axes)) {
      continue;
    }
    LintFinding finding = GroupFinding(
        facts, kCompanionDiffers.code, *pair.other,
        "dimension " + std::to_string(dim) + " of " +
            ParametersText(facts, *pair.other) + " is " +
            (axes.empty() ? "replicated" : "split over " + GroupText(axes)) +
            ", where its weight has " + GroupText(weight_axes),
        std::string("split it as its weight") +
            (OfQuantised(facts, pair) ? "" : ", or replicate it") +
            "; `spec: {like: ...}` takes the weight's spec");
    finding.labels.push_back({facts.GroupPlace(*pair.weight), "the weight"});
    sink.push_back(std::move(finding));
  }
}

// Reports scales and zero points that are split along the inputs of a weight
// whose inputs are reordered. A device's inputs may be in any group, so that it
// needs the scales of all groups:
//
//   qweight [96, 2048] and scales [24, 2048] over [tp, null], and g_idx [768]
//   of `desc_act: true`  ->  input 0 may have the scale of group 23, which is
//                            on the other device
void CheckReorderedScalesSplit(const Facts& facts, FindingSink& sink) {
  const std::vector<Companion> companions = CompanionsOf(facts);
  const InputOrders orders(facts, companions);
  for (const Companion& pair : companions) {
    const Inputs inputs = orders.Of(*pair.weight);
    if (pair.indexes || inputs.order != InputOrder::kReordered ||
        inputs.dim < 0 || inputs.dim >= SharedDims(facts, pair)) {
      continue;
    }
    const AxisGroup axes =
        facts.KeptAxes(facts.AxesAt(*pair.other, inputs.dim));
    const int64_t groups =
        (*facts.TypeOf(*pair.other).shape)[AsIndex(inputs.dim)];
    if (groups <= 1 || facts.mesh().Parts(axes).value_or(1) <= 1) continue;
    LintFinding finding = GroupFinding(
        facts, kReorderedScalesSplit.code, *pair.other,
        "dimension " + std::to_string(inputs.dim) + " of " +
            ParametersText(facts, *pair.other) + " counts " +
            std::to_string(groups) + " groups of inputs and is split over " +
            GroupText(axes) + ", and the inputs are reordered (" +
            inputs.evidence +
            "): a device's inputs may be in any group, whose scale it lacks",
        "replicate it over these axes, and split only the weight and its "
        "group indices; or quantise the weight without reordering");
    finding.labels.push_back({facts.GroupPlace(*pair.weight), "the weight"});
    sink.push_back(std::move(finding));
  }
}

void CheckGateUpDiffer(const Facts& facts, FindingSink& sink) {
  for (const Siblings& module : SiblingsOf(facts)) {
    const ParameterGroup* gate = module.Find(Role::kGate);
    const ParameterGroup* up = module.Find(Role::kUp);
    if (gate == nullptr || up == nullptr) continue;
    if (facts.TypeOf(*gate).shape != facts.TypeOf(*up).shape) continue;
    const int rank = facts.Rank(*gate);
    bool same = true;
    for (int dim = 0; dim < rank; ++dim) {
      if (!SameSplit(facts.mesh(), facts.AxesAt(*gate, dim),
                     facts.AxesAt(*up, dim))) {
        same = false;
      }
    }
    if (same) continue;
    LintFinding finding =
        GroupFinding(facts, kGateUpDiffer.code, *gate,
                     ParametersText(facts, *gate) + " is " +
                         SpecText(facts.Train(*gate).spec) + " and " +
                         Quoted(GroupName(facts, *up)) + " is " +
                         SpecText(facts.Train(*up).spec) +
                         "; their results are multiplied element by element, "
                         "so that one is resharded",
                     "give both the same spec");
    finding.labels.push_back({facts.GroupPlace(*up), "the up projection"});
    sink.push_back(std::move(finding));
  }
}

// Finds LoRA adapters whose sharding does not fit their base, which is the
// matrix that they adapt. An adapter adds the product B * A to the base: A
// reads the base's input, and B writes the base's output. The dimension that A
// and B share is the adapter's rank. It must not be sharded. The other
// dimension must be unsharded, or sharded like the same dimension of the base.
// Only tensor-parallel axes are compared. Square matrices are skipped, because
// their dimensions cannot be distinguished:
//
//   q_proj [in, out] over [null, tp]: lora_B [r, out] may be unsharded, or
//                                     sharded over [null, tp]
namespace {

// A dimension of an adapter, with its axes and the axes of the same dimension
// of the base.
struct Side {
  int dim = 0;
  AxisGroup axes, base_axes;
};

LintFinding Report(const Facts& facts, const ParameterGroup& group,
                   const ParameterGroup& base, const Side& side) {
  LintFinding finding = GroupFinding(
      facts, kAdapterDiffers.code, group,
      "dimension " + std::to_string(side.dim) + " of " +
          ParametersText(facts, group) + " is split over " +
          GroupText(side.axes) + ", where " + Quoted(GroupName(facts, base)) +
          " has " + GroupText(side.base_axes) +
          ": the two results are added, so that one is resharded in every "
          "layer",
      "split both over the same axes, or leave the adapter unsharded");
  finding.labels.push_back({facts.GroupPlace(base), "the base"});
  return finding;
}

// Returns whether the first of the dimensions `dims` of an adapter's half is
// its rank. The dimension that has the size of the base's input or output is
// not the rank. Otherwise, both halves have the rank; if they share two sizes
// or none, the rank is the shorter dimension.
bool IsRankFirst(const Facts& facts, const ParameterGroup& group,
                 const std::array<int, 2>& dims, int64_t base_size) {
  const Shape& shape = *facts.TypeOf(group).shape;
  const int64_t rows = shape[AsIndex(dims[0])];
  const int64_t columns = shape[AsIndex(dims[1])];
  if (rows == base_size) return false;
  if (columns == base_size) return true;
  const ParameterGroup* const other = OtherHalf(facts, group);
  const auto other_dims = other == nullptr
                              ? std::nullopt
                              : MatrixDimsOf(facts, facts.stacks(), *other);
  if (!other_dims) return rows < columns;
  const auto shares = [&](int64_t size) {
    return std::any_of(other_dims->begin(), other_dims->end(), [&](int dim) {
      return (*facts.TypeOf(*other).shape)[AsIndex(dim)] == size;
    });
  };
  return shares(rows) == shares(columns) ? rows < columns : shares(rows);
}

// Checks a half of an adapter. `base` is null if the tree has only adapters.
void Judge(const Facts& facts, const ParameterGroup& group, bool down,
           const ParameterGroup* base, FindingSink& sink) {
  const auto dims = MatrixDimsOf(facts, facts.stacks(), group);
  const auto base_dims = base == nullptr
                             ? std::nullopt
                             : MatrixDimsOf(facts, facts.stacks(), *base);
  if (!dims || (base != nullptr && !base_dims)) return;
  const Shape& shape = *facts.TypeOf(group).shape;
  const auto [first, last] = *dims;
  const int64_t rows = shape[AsIndex(first)], columns = shape[AsIndex(last)];
  if (rows == columns) return;
  const int base_side = base == nullptr ? -1
                        : down          ? InDim(base->role, 2)
                                        : OutDim(base->role, 2);
  const int base_dim = base_side < 0 ? -1 : (*base_dims)[AsIndex(base_side)];
  const bool rank_first = IsRankFirst(
      facts, group, *dims,
      base_dim < 0 ? 0 : (*facts.TypeOf(*base).shape)[AsIndex(base_dim)]);
  const int rank_dim = rank_first ? first : last;
  const AxisGroup across = facts.TensorAxes(facts.AxesAt(group, rank_dim));
  if (facts.TensorParts(across) > 1) {
    sink.push_back(GroupFinding(
        facts, kAdapterDiffers.code, group,
        "dimension " + std::to_string(rank_dim) + " of " +
            ParametersText(facts, group) + " is the adapter's rank, " +
            std::to_string(rank_first ? rows : columns) + ", split over " +
            GroupText(across) +
            ": the adapter's result is all-reduced over that axis, in addition "
            "to the base's",
        "do not split the rank"));
    return;
  }
  if (base_dim < 0) return;
  Side side;
  side.dim = rank_first ? last : first;
  side.axes = facts.TensorAxes(facts.AxesAt(group, side.dim));
  side.base_axes = facts.TensorAxes(facts.AxesAt(*base, base_dim));
  // An adapter that is sharded like its base is accepted. An unsharded adapter
  // is accepted as well: each device uses only its own slice of the adapter,
  // which wastes only a few bytes.
  if (facts.TensorParts(side.axes) <= 1 ||
      SameSplit(facts.mesh(), side.axes, side.base_axes)) {
    return;
  }
  sink.push_back(Report(facts, group, *base, side));
}

}  // namespace

void CheckAdapterDiffers(const Facts& facts, FindingSink& sink) {
  // Most models have no adapters, and then nothing is compared.
  std::vector<std::pair<const ParameterGroup*, Adapter>> adapters;
  for (const ParameterGroup& group : facts.groups()) {
    auto adapter = AdapterOf(group.name, facts.separator());
    if (adapter) adapters.emplace_back(&group, *std::move(adapter));
  }
  if (adapters.empty()) return;
  const std::string inner = std::string(1, facts.separator()) + "base_layer";
  std::map<std::string, const ParameterGroup*> bases;
  for (const ParameterGroup& group : facts.groups()) {
    if (!IsWeight(group) || !facts.Judged(group)) continue;
    if (!MatrixDimsOf(facts, facts.stacks(), group)) continue;
    if (AdapterOf(group.name, facts.separator())) continue;
    std::string module = group.role.module_path;
    if (module.ends_with(inner)) module.resize(module.size() - inner.size());
    bases.try_emplace(std::move(module), &group);
  }
  for (const auto& [group, adapter] : adapters) {
    if (!facts.Judged(*group)) continue;
    const auto base = bases.find(adapter.base);
    Judge(facts, *group, adapter.down,
          base == bases.end() ? nullptr : base->second, sink);
  }
}

}  // namespace shardc
