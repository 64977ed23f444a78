// The proof of a step with a pipeline schedule. The order, the channels and the
// memory of the schedule's table are proven at its real size, and the step runs
// with a smaller table.
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

// The pipeline stages of a step that is verified.
struct StageSettings {
  std::string axis;
  Mesh mesh;      // the mesh of one stage, without `axis`
  Mesh all_mesh;  // the mesh of all stages, with `axis`
  schedule::Table table;
  std::vector<int64_t> layers;  // the number of layers of each stage
};

struct StageProof {
  std::string axis, schedule;
  Mesh all_mesh;  // the mesh of all stages
  int32_t ranks = 0, stages = 0, microbatches = 0;
  std::optional<int32_t> virtual_stages;  // stages of a rank; nullopt: unequal
  std::vector<int64_t> layers;            // the number of layers of each stage
  int64_t tasks = 0;
  // The number of messages that a channel must have room for, or nullopt if the
  // order is wrong or no room is large enough. Each receive comes right before
  // the task that reads its value. Activations and gradients have separate
  // channels.
  std::optional<int64_t> capacity;
  // Indexed by rank: the largest number of micro-batches whose activations the
  // rank holds at the same time. A micro-batch counts once for each of the
  // rank's stages.
  std::vector<int64_t> held;
  // The size of the table with which the step has run; 0 if no step has run.
  int32_t proved_ranks = 0, proved_stages = 0, proved_microbatches = 0;
  std::optional<int32_t> proved_virtual;
  int64_t messages = 0;
};

// Returns the number of stages of each rank. Returns nullopt if ranks have
// different numbers of stages, as in a schedule from a file. A stage that two
// ranks share counts half for each.
std::optional<int32_t> StagesOfEachRank(const schedule::Table& table);

// Proves that a table's order is correct and, if so, that none of its sends and
// receives waits for ever. Appends errors to `problems`.
StageProof ProveTable(const StageSettings& stages,
                      std::vector<std::string>& problems);

// Returns a small table of the same schedule. It has two ranks or, if that is
// impossible, four, and at least as many micro-batches as ranks. A table from a
// file is returned unchanged. Returns nullopt, and sets `why`, if the schedule
// has no small table, or if a table from a file has fewer than two ranks or
// micro-batches, or too many tasks to run.
std::optional<schedule::Table> ReducedTable(const schedule::Table& table,
                                            std::string& why);

// Divides layers of a model over the stages of a reduced table. `kinds` lists
// at least one layer of each kind, and `all` is the model's number of layers.
// If there are fewer layers than stages, more layers of the model are added,
// unless all are already used. The first or last stage has no layer if it has
// no layer at the real size.
struct ReducedDivision {
  // The indices of the model's layers that run, in ascending order.
  std::vector<int32_t> layers = {};
  step::StageDivision division = {};
};
ReducedDivision DivideLayers(const StageSettings& stages, int32_t reduced,
                             std::vector<int32_t> kinds, int32_t all);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_STAGE_PROOF_H_
