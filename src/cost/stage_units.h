// The units of which pipeline stages are made: the first unit (embeddings),
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
  // The unit of each parameter of the plan: 0 for the first unit, 1 + l for
  // layer l, layers + 1 for the last unit.
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

// Returns the mesh of one stage: without the axis of the stages, with the hosts
// of a stage's devices.
Mesh StageMesh(const Mesh& mesh, const std::string& axis);

// Returns the inputs of one stage's program: the parameters of the units from
// `begin` on and before `end`, on the stage's mesh. If the stage's embedding is
// not used as a head, it does not count as an embedding here, because logits
// would be computed from it. With `copies` the last unit has a copy of the
// embedding that it shares with the first unit.
CostInputs StageInputs(const Compiled& compiled, const CostInputs& all,
                       const StageUnits& units, const std::string& axis,
                       int64_t begin, int64_t end, bool copies = true);

// Returns a number for each unit, from 0 on. Units with equal parameters have
// equal numbers.
std::vector<size_t> KindsOfUnits(const Compiled& compiled,
                                 const StageUnits& units);

}  // namespace shardc::cost

#endif  // SHARDC_COST_STAGE_UNITS_H_
