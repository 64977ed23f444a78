// Checks whether the sizes in a model's configuration fit the shapes of the
// parameters.
#ifndef SHARDC_LINT_ANALYSIS_MODEL_FIT_H_
#define SHARDC_LINT_ANALYSIS_MODEL_FIT_H_

#include <string>
#include <vector>

#include "roles/classify.h"

namespace shardc {

class Facts;
struct ParameterGroup;

// A size in the configuration that contradicts the shapes of parameters, or a
// number or size of heads that the configuration lacks.
struct Misfit {
  // Whether the size belongs to attention heads. If so, lints that need the
  // number of heads are skipped.
  bool heads = false;
  std::string observation;
  // The group whose shape contradicts the size; may be null.
  const ParameterGroup* group = nullptr;
};

// Returns the misfits, or an empty list without a configuration. A size is
// accepted if the tree has no parameter that should have this size.
std::vector<Misfit> MisfitsOf(const Facts& facts);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_MODEL_FIT_H_
