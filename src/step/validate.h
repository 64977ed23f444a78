// Checks a program: derives every sharding from the instruction that computes
// the slot. The check does not use the lowering's own decisions.
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

// Returns the faults of a program. A correct program has none: values are
// reduced only over axes over which they are partial; labels that an op needs
// unsharded are unsharded; no result of the step is partial; a gradient has the
// sharding of its moments or, without an optimizer, of its parameter; an
// updated parameter has the sharding of the parameter.
std::vector<ProgramFault> Validate(const Graph& graph, const Program& program,
                                   const Sizes& sizes);

}  // namespace shardc::step

#endif  // SHARDC_STEP_VALIDATE_H_
