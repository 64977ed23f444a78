// Compares biases, scales, zero points and group indices with their weight. The
// spec of a bias is compared with the output dimension of the weight, and that
// of group indices (GPTQ's `g_idx`) with the input dimension. The spec of a
// scale or zero point with as many dimensions as the weight is compared with
// every dimension of the weight.
//
//   kernel [in, out] over [tp, fsdp], bias [out] over [tp]
//     ->  reported, because the kernel's dimension `out` is over fsdp
#include "comm/reshard.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "roles/quantisation.h"
#include "source/index.h"

namespace shardc {
namespace {

bool IsPacked(const Facts& facts, const Companion& pair) {
  const auto dtype = facts.TypeOf(*pair.weight).dtype;
  return dtype && MayPack(*dtype);
}

// Returns whether a companion of a packed weight (GPTQ, AWQ) is replicated
// along its dimension `dim`, where the weight is split over `weight_axes`.
// Kernels take the weight's shard with the same shard of its scales. Along the
// inputs nothing is compared, because the scales of a weight with reordered
// inputs are replicated, and a device uses its own part of group indices.
bool LacksShard(const Facts& facts, const Companion& pair, int dim,
                const AxisGroup& axes, const AxisGroup& weight_axes) {
  const int64_t parts = facts.TensorParts(weight_axes);
  const int64_t size = (*facts.TypeOf(*pair.other).shape)[AsIndex(dim)];
  const int out = OutDim(pair.weight->role, facts.Rank(*pair.weight));
  return IsPacked(facts, pair) && pair.other->role.leaf != Leaf::kBias &&
         !pair.indexes && dim == out && parts > 1 &&
         facts.TensorParts(axes) <= 1 && size > 1 && size % parts == 0;
}

// Returns whether a bias, scale, zero point or group indices are sharded over
// other axes than the weight. Those that are replicated are accepted, unless
// the weight is packed, because they cost few bytes and each device uses its
// own part.
bool Disagree(const Facts& facts, const Companion& pair, int* dim,
              AxisGroup* weight_axes, AxisGroup* axes) {
  const int rank = facts.Rank(*pair.weight);
  const int own = facts.Rank(*pair.other);
  if (pair.indexes || pair.other->role.leaf == Leaf::kBias) {
    const int out = pair.indexes ? InDim(pair.weight->role, rank)
                                 : OutDim(pair.weight->role, rank);
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
  if (own != rank) return false;
  for (*dim = 0; *dim < rank; ++*dim) {
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
  for (const Companion& pair : CompanionsOf(facts)) {
    int dim = 0;
    AxisGroup weight_axes;
    AxisGroup axes;
    if (!Disagree(facts, pair, &dim, &weight_axes, &axes)) continue;
    LintFinding finding =
        GroupFinding(facts, kCompanionDiffers.code, *pair.other,
                     "dimension " + std::to_string(dim) + " of " +
                         ParametersText(facts, *pair.other) +
                         " is split over " + GroupText(axes) +
                         ", where its weight has " + GroupText(weight_axes),
                     std::string("split it as its weight") +
                         (IsPacked(facts, pair) ? "" : ", or replicate it") +
                         "; `spec: {like: ...}` takes the weight's spec");
    finding.labels.push_back({facts.GroupPlace(*pair.weight), "the weight"});
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
