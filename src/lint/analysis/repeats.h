// Finds patterns that are written more than once in one file.
#ifndef SHARDC_LINT_ANALYSIS_REPEATS_H_
#define SHARDC_LINT_ANALYSIS_REPEATS_H_

#include <cstdint>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

struct Repeat {
  int32_t first = 0;
  int32_t later = 0;
  bool same_spec = true;  // in every mode, and the same placement
};

// Returns whether two rules have the same spec in every mode and the same
// placement. With `like`, they have if both name the same parameter.
bool SameSpec(const Facts& facts, int32_t a, int32_t b);

// Returns each later rule once, in the order of rules, with the first rule that
// has the same file, pattern and separator.
std::vector<Repeat> RepeatsOf(const Facts& facts);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_REPEATS_H_
