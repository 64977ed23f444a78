// The units that stages of a pipeline are made of: the first unit (embeddings),
// each layer, and the last unit (the final norm and the head).
#ifndef SHARDC_COST_STAGE_UNITS_H_
#define SHARDC_COST_STAGE_UNITS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/inputs.h"
#include "plan/compile.h"
#include "schedule/assign.h"
#include "source/finding.h"

namespace shardc::cost {

struct StageUnits {
  int64_t layers = 0;
  // By parameter of the plan: 0 the first unit, 1 + l layer l, layers + 1 the
  // last unit.
  std::vector<int64_t> of;
  // Parameters of the first unit that the last one needs as well, because the
  // head is the embedding.
  std::vector<bool> tied;

  int64_t count() const { return layers + 2; }
};

// Reads the layer of each parameter from the number in its name. Findings:
// parameter-outside-stages, and usage if the names have no layers or two
// chains of them.
std::optional<StageUnits> StageUnitsOf(const Compiled& compiled,
                                       Findings& findings);

// The mesh of one stage: without the axis of the stages, with the hosts of a
// stage's devices.
Mesh StageMesh(const Mesh& mesh, const std::string& axis);

// The inputs of one stage's program: the parameters of the units from `begin`
// on and before `end`, on the stage's mesh. An embedding that is no head is no
// embedding of these inputs, so that no logits are computed from it. With
// `copies` the last unit has the embedding that it shares with the first one.
CostInputs StageInputs(const Compiled& compiled, const CostInputs& all,
                       const StageUnits& units, const std::string& axis,
                       int64_t begin, int64_t end, bool copies = true);

// Units with equal parameters have equal numbers, from 0 on.
std::vector<size_t> KindsOfUnits(const Compiled& compiled,
                                 const StageUnits& units);

}  // namespace shardc::cost

#endif  // SHARDC_COST_STAGE_UNITS_H_
