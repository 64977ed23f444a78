// The proof of a step under a pipeline's schedule: the order, the channels and
// the memory of the schedule's table at its real size, and a smaller one by
// which the step runs.
#ifndef SHARDC_VERIFY_STEP_STAGE_PROOF_H_
#define SHARDC_VERIFY_STEP_STAGE_PROOF_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/mesh.h"
#include "schedule/table.h"
#include "step/stages.h"

namespace shardc::verify {

// The stages of a step that is verified.
struct StageSettings {
  std::string axis;
  Mesh mesh;      // of one stage: without the axis
  Mesh all_mesh;  // of all stages: with it
  schedule::Table table;
  std::vector<int64_t> layers;  // of each stage
};

struct StageProof {
  std::string axis, schedule;
  Mesh all_mesh;  // of all stages
  int32_t ranks = 0, virtual_stages = 0, microbatches = 0;
  std::vector<int64_t> layers;  // of each stage
  int64_t tasks = 0;
  // The number of messages for which a channel must have room if receives are
  // placed where their value is used, and activations and gradients have
  // separate channels.
  std::optional<int64_t> capacity;
  std::vector<int64_t> held;  // micro-batches of stages, by rank
  // The size of the step that ran; 0 if none did.
  int32_t proved_ranks = 0, proved_virtual = 0, proved_microbatches = 0;
  int64_t messages = 0;
};

// Proves a table's order and that its sends and receives do not wait for ever.
// Appends what is wrong to `problems`.
StageProof ProveTable(const StageSettings& stages,
                      std::vector<std::string>& problems);

// Returns the smallest table of the same schedule that has at least two ranks
// and two micro-batches; a table that was read from a file stays as it is.
// Returns nothing, and the reason in `why`, if the table is too large to run.
std::optional<schedule::Table> ReducedTable(const schedule::Table& table,
                                            std::string& why);

// Divides layers of a model over the stages of a reduced table. `kinds` has at
// least one layer of each kind, and the model `all` layers. Layers that the
// model has are added until each stage has one; the first and the last stage
// have none if they have none at the real size.
struct ReducedDivision {
  std::vector<int32_t> layers = {};  // of the model, in ascending order
  step::StageDivision division = {};
};
ReducedDivision DivideLayers(const StageSettings& stages, int32_t reduced,
                             std::vector<int32_t> kinds, int32_t all);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_STAGE_PROOF_H_
