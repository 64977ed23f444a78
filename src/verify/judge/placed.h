// One element of a right output, moved beyond what is allowed: the judge must
// tell its place, its size and just the devices that hold it.
#ifndef SHARDC_VERIFY_JUDGE_PLACED_H_
#define SHARDC_VERIFY_JUDGE_PLACED_H_

#include "dense/array.h"
#include "verify/cases/case.h"
#include "verify/judge/tolerance.h"
#include "verify/judge/wrong_outputs.h"

namespace shardc::verify {

// Of the case's output, [B, T, H, Dv]; the element is drawn from its numbers.
// Refused, but told of other elements, other devices or an axis that does not
// tell these from the rest, it counts as taken for right.
void OfferPlaced(const Case& test, const dense::Array& reference,
                 const Limits& limits, WrongOutputs& wrong);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_PLACED_H_
