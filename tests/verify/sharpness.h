// Tests that tolerances are tight. In a matrix of cases over operations, modes,
// layouts and dtypes, wrong outputs (wrong_outputs.h) are checked after the
// correct output, and must be detected. The matrix runs once with all features.
// It then runs without features for each kind of narrow rounding, such as a
// matmul in 4 bits or a softmax in bfloat16. Cases that the operation refuses
// are skipped. Traces of paged caches are skipped too, because they are
// compared in bits and have no tolerance.
#ifndef SHARDC_TESTS_VERIFY_SHARPNESS_H_
#define SHARDC_TESTS_VERIFY_SHARPNESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "verify/judge/run_case.h"
#include "verify/judge/wrong_outputs.h"

namespace shardc::verify {

struct Sharpness {
  // Number of cases that passed and were checked with wrong outputs.
  int64_t cases = 0;
  int64_t offered = 0;  // number of wrong outputs over all of these cases
  // `taken` lists `case: output` for each wrong output that passed. `unsound`
  // lists `case: reason` for each case that fails with the correct output.
  std::vector<std::string> taken, unsound;

  bool Holds() const { return offered > 0 && taken.empty() && unsound.empty(); }
};

// Checks wrong outputs in place of one that passed.
void OfferWrong(const PassedOutput& passed, WrongOutputs& wrong);

// Runs the test. The result is the same for any `threads`.
Sharpness OfferWrongOutputs(int threads);

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_SHARPNESS_H_
