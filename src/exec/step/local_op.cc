// Runs one op on the parts of its operands that one device holds. This file has
// the table that maps each op to its kernel, and rounds the results of kernels
// to their dtype. To add an op, add a row to this table and write its kernel in
// another file. For example:
//
//   einsum of BF16 parts: products and sums in float32, rounded once at the end
#include "exec/step/local_op.h"

#include <array>

#include "exec/kernels/arithmetic.h"
#include "exec/step/kernels.h"

namespace shardc::exec {
namespace {

using step::OpKind;

struct KernelRow {
  OpKind kind;
  void (*run)(const LocalOp&);
};

// The rows are in the order of OpKind. The values of inputs are arguments of a
// run, so kInput has no kernel.
constexpr std::array<KernelRow, step::kOpKinds> kKernels = {{
    {OpKind::kInput, nullptr},
    {OpKind::kEinsum, RunEinsum},
    {OpKind::kAdd, RunElementwise},
    {OpKind::kScale, RunElementwise},
    {OpKind::kFn, RunElementwise},
    {OpKind::kSum, RunReduction},
    {OpKind::kMax, RunReduction},
    {OpKind::kBroadcast, RunElementwise},
    {OpKind::kLookup, RunIndexed},
    {OpKind::kScatter, RunIndexed},
    {OpKind::kPick, RunIndexed},
    {OpKind::kPlace, RunIndexed},
    {OpKind::kSplit, RunReshape},
    {OpKind::kMerge, RunReshape},
    {OpKind::kPart, RunReshape},
    {OpKind::kUnpart, RunReshape},
    {OpKind::kIndex, RunReshape},
    {OpKind::kUnindex, RunReshape},
    {OpKind::kRename, RunReshape},
    {OpKind::kIdentity, RunReshape},
    {OpKind::kRope, RunRope},
    {OpKind::kMask, RunMask},
    {OpKind::kRepeat, RunHeads},
    {OpKind::kGroupSum, RunHeads},
    {OpKind::kTopGroups, RunTopGroups},
    {OpKind::kTopK, RunTopK},
    {OpKind::kSlots, RunSlots},
    {OpKind::kDropout, RunDropout},
    {OpKind::kCacheWrite, RunCacheWrite},
    {OpKind::kAdamW, RunAdam},
    {OpKind::kRoll, RunRoll},
    {OpKind::kDistance, RunDistance},
}};

constexpr bool IsInOrder() {
  for (size_t i = 0; i < kKernels.size(); ++i) {
    if (static_cast<size_t>(kKernels[i].kind) != i) return false;
  }
  return true;
}
static_assert(IsInOrder(), "a kernel for each OpKind, in its order");

}  // namespace

void RunLocalOp(const LocalOp& local) {
  const auto run = kKernels[static_cast<size_t>(local.op->kind)].run;
  if (run != nullptr) run(local);
  RoundTo(*local.out);
}

}  // namespace shardc::exec
