// The kernels of all ops but products.
#ifndef SHARDC_EXEC_STEP_OP_LOOPS_H_
#define SHARDC_EXEC_STEP_OP_LOOPS_H_

#include "exec/step/local_op.h"

namespace shardc::exec {

// Sums, functions and moves of elements within a device.
void RunElementwise(const LocalOp& local);
void RunReduction(const LocalOp& local);  // kSum, kMax
void RunReshape(const LocalOp& local);    // kSplit ... kIdentity
void RunHeads(const LocalOp& local);      // kRepeat, kGroupSum
void RunIndexed(const LocalOp& local);    // kLookup, kScatter, kPick, kPlace
void RunRope(const LocalOp& local);
void RunMask(const LocalOp& local);
void RunRouting(const LocalOp& local);  // kTopGroups, kTopK, kSlots
void RunDropout(const LocalOp& local);
void RunCacheWrite(const LocalOp& local);
void RunAdam(const LocalOp& local);
void RunRoll(const LocalOp& local);
void RunDistance(const LocalOp& local);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_STEP_OP_LOOPS_H_
