// Whether a configuration is that of the tree at hand.
#ifndef SHARDC_LINT_ANALYSIS_MODEL_FIT_H_
#define SHARDC_LINT_ANALYSIS_MODEL_FIT_H_

#include <string>
#include <vector>

#include "lint/analysis/roles.h"

namespace shardc {

class Facts;
struct ParameterGroup;

// A size that the configuration says and the tree denies.
struct Misfit {
  bool heads = false;  // attention's: lints that count heads cannot run
  std::string observation;
  const ParameterGroup* group = nullptr;  // that denies it; may be null
};

// None where there is no configuration. What the tree does not tell is not
// doubted.
std::vector<Misfit> MisfitsOf(const Facts& facts);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_MODEL_FIT_H_
