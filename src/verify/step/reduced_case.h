// Directory: verify/step. Proves a step's program: reduced sizes that keep its
// structure, data that reveals mistakes, the run, and the checks.
// Its files include headers of these directories: source, model, comm,
// schedule, step, plan, dense, exec/machine, exec/operations, exec/step,
// verify/cases, verify/judge.
#ifndef SHARDC_VERIFY_STEP_REDUCED_CASE_H_
#define SHARDC_VERIFY_STEP_REDUCED_CASE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/mesh.h"
#include "step/program.h"
#include "verify/cases/reduced_mesh.h"

namespace shardc::verify {

// Returns small sizes at which `program` shards every dimension in the same way
// as at its real sizes. `program` was lowered at the sizes `real` and has the
// axes of the reduced mesh. Returns nullopt, and sets `why`, if there are no
// such sizes.
std::optional<step::Sizes> ReducedSizes(const step::Graph& graph,
                                        const step::Sizes& real,
                                        const step::Program& program,
                                        std::string& why);

// Returns one layer of each kind, separately for the decoder and the encoder.
// If a decoder or encoder has two layers, at least two of its layers are
// returned. Layers are of the same kind if their forward ops are equal.
std::vector<int32_t> ReducedLayers(const step::Graph& graph);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_REDUCED_CASE_H_
