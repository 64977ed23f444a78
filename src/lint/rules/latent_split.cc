// Reports a latent that is sharded. Latent attention (MLA) projects activations
// to a latent, normalises the latent, and projects it to heads. The latent must
// not be sharded over tensor-parallel axes, because the norm and every head
// read the complete latent:
//
//   kv_a_proj_with_mqa [576, 7168] over [tp, fsdp]  ->  reported
//   kv_b_proj [32768, 512] over [tp, fsdp]          ->  not reported: its
//                                                       heads are split
#include <cstdint>

#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/scanned.h"
#include "lint/rules/all.h"

namespace shardc {

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

}  // namespace shardc
