// Which kernel an op runs by, and the rounding of what it gives.
//
//   einsum of BF16 parts  ->  products and sums in float32, rounded once
#include "exec/step/local_op.h"

#include "exec/kernels/arithmetic.h"
#include "exec/step/einsum.h"
#include "exec/step/op_loops.h"

namespace shardc::exec {
namespace {

void RunKernel(const LocalOp& local) {
  using step::OpKind;
  switch (local.op->kind) {
    case OpKind::kInput:
      return;
    case OpKind::kEinsum:
      return RunEinsum(local);
    case OpKind::kAdd:
    case OpKind::kScale:
    case OpKind::kFn:
    case OpKind::kBroadcast:
      return RunElementwise(local);
    case OpKind::kSum:
    case OpKind::kMax:
      return RunReduction(local);
    case OpKind::kLookup:
    case OpKind::kScatter:
    case OpKind::kPick:
    case OpKind::kPlace:
      return RunIndexed(local);
    case OpKind::kSplit:
    case OpKind::kMerge:
    case OpKind::kPart:
    case OpKind::kUnpart:
    case OpKind::kIndex:
    case OpKind::kUnindex:
    case OpKind::kRename:
    case OpKind::kIdentity:
      return RunReshape(local);
    case OpKind::kRope:
      return RunRope(local);
    case OpKind::kMask:
      return RunMask(local);
    case OpKind::kRepeat:
    case OpKind::kGroupSum:
      return RunHeads(local);
    case OpKind::kTopGroups:
    case OpKind::kTopK:
    case OpKind::kSlots:
      return RunRouting(local);
    case OpKind::kDropout:
      return RunDropout(local);
    case OpKind::kCacheWrite:
      return RunCacheWrite(local);
    case OpKind::kAdamW:
      return RunAdam(local);
    case OpKind::kRoll:
      return RunRoll(local);
    case OpKind::kDistance:
      return RunDistance(local);
  }
}

}  // namespace

void RunLocalOp(const LocalOp& local) {
  RunKernel(local);
  RoundTo(*local.out);
}

}  // namespace shardc::exec
