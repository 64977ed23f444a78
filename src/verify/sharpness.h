// Tests that tolerances are tight: in every case of a matrix over all
// operations, modes, layouts, dtypes, features and roundings, wrong outputs
// (wrong_outputs.h) are checked after the correct one, and must be detected.
#ifndef SHARDC_VERIFY_SHARPNESS_H_
#define SHARDC_VERIFY_SHARPNESS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace shardc::verify {

struct Sharpness {
  int64_t cases = 0;  // that ran and passed
  int64_t offered = 0;
  // The names of cases with a wrong output that passed, and of cases that fail
  // with the correct output.
  std::vector<std::string> taken, unsound;

  bool Holds() const { return offered > 0 && taken.empty() && unsound.empty(); }
};

// Runs the test. The result is the same for any `threads`.
Sharpness OfferWrongOutputs(int threads);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_SHARPNESS_H_
