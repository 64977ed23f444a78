// Plans a random mesh, rules and manifest under `compat`, and compares the
// result with what eformer or fjformer does. Every difference is a failed
// check.
#ifndef SHARDC_TESTS_PLAN_COMPAT_CASE_H_
#define SHARDC_TESTS_PLAN_COMPAT_CASE_H_

#include <cstdint>

#include "draws.h"
#include "model/rules.h"

namespace shardc {

// Counts of what the cases covered, so that a test can check that everything
// was.
struct Reached {
  int64_t specs = 0;      // compared
  int64_t sharded = 0;    // of those
  int64_t unmatched = 0;  // by no rule
  int64_t refused = 0;    // by JAX
  int64_t corrected = 0;
  int64_t undecayed = 0;
};

void CompareCompat(const Draws& draws, Compat compat, Reached& reached);

}  // namespace shardc

#endif  // SHARDC_TESTS_PLAN_COMPAT_CASE_H_
