// Declares the kernels of a step's ops. A table in local_op.cc has the kernel
// of each op. A kernel reads the parts of its operands that one device holds,
// and writes the result to `local.out`, whose elements are zeros before the
// call.
#ifndef SHARDC_EXEC_STEP_KERNELS_H_
#define SHARDC_EXEC_STEP_KERNELS_H_

#include "exec/step/local_op.h"

namespace shardc::exec {

// If a kernel runs several kinds of ops, a comment lists their names in OpKind.
void RunEinsum(const LocalOp& local);
void RunElementwise(const LocalOp& local);  // kAdd, kScale, kFn, kBroadcast
void RunReduction(const LocalOp& local);    // kSum, kMax
void RunReshape(const LocalOp& local);      // kSplit to kIdentity
void RunHeads(const LocalOp& local);        // kRepeat, kGroupSum
void RunIndexed(const LocalOp& local);      // kLookup, kScatter, kPick, kPlace
void RunRope(const LocalOp& local);
void RunMask(const LocalOp& local);
void RunTopGroups(const LocalOp& local);
void RunTopK(const LocalOp& local);
void RunSlots(const LocalOp& local);
void RunDropout(const LocalOp& local);
void RunCacheWrite(const LocalOp& local);
void RunAdam(const LocalOp& local);
void RunRoll(const LocalOp& local);
void RunDistance(const LocalOp& local);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_STEP_KERNELS_H_
