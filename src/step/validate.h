// Checks a lowered program. The sharding of every slot (a value in one
// sharding) is derived from the instruction that computes the slot, without
// using the lowering's own decisions.
#ifndef SHARDC_STEP_VALIDATE_H_
#define SHARDC_STEP_VALIDATE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/step_graph.h"
#include "source/finding.h"
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

// Reports errors at `place` and returns false if sizes contradict each other.
// Examples are KV heads that do not divide the heads, a token that is sent to
// more experts than exist, an odd rotary dimension, groups that do not divide
// the experts, and more chosen groups than exist.
bool CheckSizes(const Graph& graph, const Sizes& sizes, const Place& place,
                Findings& findings);

// Reports an error at `place` and returns false if the bytes of all values
// together, with a margin for copies, do not fit in 64 bits. If `layer_times`
// is not empty, the bytes of layer i are multiplied by layer_times[i].
bool CheckBytes(const Graph& graph, const Sizes& sizes, const Place& place,
                Findings& findings, std::span<const int64_t> layer_times = {});

}  // namespace shardc::step

#endif  // SHARDC_STEP_VALIDATE_H_
