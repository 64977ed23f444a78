// A test of the judge: one element of a correct output gets an error above its
// limit, and the judge must report its place, its size and exactly the devices
// that hold it.
#ifndef SHARDC_VERIFY_JUDGE_PLACED_H_
#define SHARDC_VERIFY_JUDGE_PLACED_H_

#include "dense/array.h"
#include "verify/cases/case.h"
#include "verify/judge/tolerance.h"
#include "verify/judge/wrong_outputs.h"

namespace shardc::verify {

// Judges one such output of the case, [B, T, H, Dv]; the seed selects the
// element. A failure that names another element, other devices or an axis that
// does not separate these devices from the rest counts as a missed error.
void OfferPlaced(const Case& test, const dense::Array& reference,
                 const Limits& limits, WrongOutputs& wrong);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_PLACED_H_
