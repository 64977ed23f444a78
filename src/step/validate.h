// Checks a lowered program. The sharding of every slot (a value in one
// sharding) is derived from the instruction that computes the slot, without
// using the lowering's own decisions.
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

// Returns the faults of a program. A correct program has no faults:
// - Values are reduced only over axes over which they are partial.
// - Labels that an op needs unsharded are unsharded.
// - No result of the step is partial.
// - A gradient has the sharding of its moments or, without an optimizer, of its
//   parameter.
// - An updated parameter has the sharding of the parameter.
std::vector<ProgramFault> Validate(const Graph& graph, const Program& program,
                                   const Sizes& sizes);

}  // namespace shardc::step

#endif  // SHARDC_STEP_VALIDATE_H_
