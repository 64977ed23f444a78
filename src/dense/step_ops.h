// The functions of the dense reference that run an op; the table in step.cc
// lists them. Each function sets the elements of `out`, which already has the
// shape of the result and holds zeros. If a function runs several kinds of ops,
// a comment after it lists them.
#ifndef SHARDC_DENSE_STEP_OPS_H_
#define SHARDC_DENSE_STEP_OPS_H_

#include "dense/step_context.h"

namespace shardc::dense {

template <typename T>
void RunEinsum(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunAdd(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunScale(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunFn(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunReduction(StepContext<T>& c, const step::Op& op,
                  StepTensor<T>& out);  // runs kSum and kMax
template <typename T>
void RunCopy(StepContext<T>& c, const step::Op& op,
             StepTensor<T>& out);  // runs kIdentity and kBroadcast
template <typename T>
void RunDropout(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunAdamW(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunReshape(StepContext<T>& c, const step::Op& op,
                StepTensor<T>& out);  // runs kSplit and kMerge
template <typename T>
void RunSlice(StepContext<T>& c, const step::Op& op,
              StepTensor<T>& out);  // runs kPart, kIndex, kUnpart and kUnindex
template <typename T>
void RunRename(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunHeads(StepContext<T>& c, const step::Op& op,
              StepTensor<T>& out);  // kRepeat, kGroupSum
template <typename T>
void RunRoll(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunRows(StepContext<T>& c, const step::Op& op,
             StepTensor<T>& out);  // runs kLookup and kScatter
template <typename T>
void RunPick(StepContext<T>& c, const step::Op& op,
             StepTensor<T>& out);  // runs kPick and kPlace
template <typename T>
void RunCacheWrite(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunDistance(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunRope(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunMask(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunChoice(StepContext<T>& c, const step::Op& op,
               StepTensor<T>& out);  // runs kTopK and kTopGroups
template <typename T>
void RunSlots(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);

}  // namespace shardc::dense

// Instantiates the function of an op for each number type of a run.
#define SHARDC_DENSE_OP(NAME)                                                  \
  template void NAME<float>(StepContext<float>&, const step::Op&,              \
                            StepTensor<float>&);                               \
  template void NAME<double>(StepContext<double>&, const step::Op&,            \
                             StepTensor<double>&);                             \
  template void NAME<std::complex<double>>(StepContext<std::complex<double>>&, \
                                           const step::Op&,                    \
                                           StepTensor<std::complex<double>>&);

#endif  // SHARDC_DENSE_STEP_OPS_H_
