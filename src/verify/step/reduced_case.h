// Room: verify/step. Proves a step's program: small sizes that keep what
// matters, data that shows faults, the run, and the checks.
#ifndef SHARDC_VERIFY_STEP_REDUCED_CASE_H_
#define SHARDC_VERIFY_STEP_REDUCED_CASE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/mesh.h"
#include "step/program.h"

namespace shardc::verify {

// The mesh with its long axes cut to few devices, as many as a run has; axes of
// several devices keep several.
Mesh ReducedMesh(const Mesh& mesh, int64_t most_devices);

// The smallest sizes at which a program that was lowered at `real` sizes cuts
// every dimension as it does there. `program` has the witness mesh's axes.
// Nothing, and the reason, where there are none.
std::optional<step::Sizes> ReducedSizes(const step::Graph& graph,
                                        const step::Sizes& real,
                                        const step::Program& program,
                                        std::string& why);

// One layer of each kind, and at least two: what differs between layers is
// told by their ops.
std::vector<int32_t> ReducedLayers(const step::Graph& graph);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_REDUCED_CASE_H_
