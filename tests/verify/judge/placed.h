// Tests the check that compares outputs with the reference. One element of a
// correct output gets an error above its limit. The report must name the
// element's place, the size of the error and exactly the devices that hold the
// element.
#ifndef SHARDC_TESTS_VERIFY_JUDGE_PLACED_H_
#define SHARDC_TESTS_VERIFY_JUDGE_PLACED_H_

#include "dense/array.h"
#include "verify/cases/case.h"
#include "verify/judge/explain.h"
#include "verify/judge/wrong_outputs.h"

namespace shardc::verify {

// Checks the case's output with one wrong element; `reference` is the correct
// output [B, T, H, Dv]. The bits of the reference's first number select the
// element. The error is recorded as missed if the check accepts the output. It
// is also missed if the report names another element, other devices, another
// error (maximum, mean or L2), or an axis that does not separate these devices
// from all others. Does nothing if the reference is empty or the limit too
// large for such an error.
void OfferPlaced(const Case& test, const dense::Array& reference,
                 const Limits& limits, WrongOutputs& wrong);

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_JUDGE_PLACED_H_
