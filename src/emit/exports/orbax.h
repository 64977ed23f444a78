// The arrays of a train state, with the sharding of the parameter to which each
// array belongs.
#ifndef SHARDC_EMIT_EXPORTS_ORBAX_H_
#define SHARDC_EMIT_EXPORTS_ORBAX_H_

#include <string>
#include <vector>

#include "model/manifest.h"
#include "model/mesh.h"
#include "plan/read.h"
#include "source/finding.h"

namespace shardc::exports {

struct StateArray {
  std::string name;  // the array's path in the state
  Spec spec;         // empty if the array is replicated
};

// Returns the spec of each array of a train state, in the order of the state.
// The state has the parameters' tree and copies of it, such as Adam's moments.
// Only arrays in these trees are checked. If an array of several elements has a
// parameter's name and another shape than in the plan, an error is added. If an
// array has the name of no parameter of the plan, a warning is added, and the
// array is replicated. Returns an empty list after errors.
std::vector<StateArray> ArraysOfState(const ReadPlan& plan, Mode mode,
                                      const Manifest& state,
                                      Findings& findings);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_ORBAX_H_
