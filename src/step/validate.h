// Whether a program is one: every layout again from the instruction that makes
// it, apart from how it was lowered.
#ifndef SHARDC_STEP_VALIDATE_H_
#define SHARDC_STEP_VALIDATE_H_

#include <string>
#include <vector>

#include "step/program.h"

namespace shardc::step {

struct ProgramFault {
  int32_t op = -1;
  std::string message = {};
};

// Nothing where it holds. A sum that is pending arises once and is reduced
// once; a label that an op needs is whole; nothing that leaves the step is
// pending, and gradients and new parameters lie as their parameters.
std::vector<ProgramFault> Validate(const Graph& graph, const Program& program,
                                   const Sizes& sizes);

}  // namespace shardc::step

#endif  // SHARDC_STEP_VALIDATE_H_
