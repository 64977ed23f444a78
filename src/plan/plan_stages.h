// The stages of a pipeline in a plan. A plan states which ranks run each stage.
// It also states, for each parameter, which stages have it, or which layers of
// a layer stack each stage has. Plans with stages have the schema
// `shardc.plan/v2`. For example, `stages` describes the pipeline, and two
// parameters have members about stages:
//
//   "stages": {"axis": "pp", "virtual": 1, "placement": "loop",
//              "schedule": "1f1b", "table": "sha256:..", "microbatches": 8,
//              "hidden": ["tp"],
//              "of": [{"ranks": [0], "layers": [0, 8], "parts": ["first"]},
//              ..]}
//   "model.layers.5.mlp.up_proj.weight": {.., "stages": [0]}
//   "layers/mlp/up/kernel": {.., "slices": {"dim": 0, "of": [[0, 4], [4, 8]]}}
#ifndef SHARDC_PLAN_PLAN_STAGES_H_
#define SHARDC_PLAN_PLAN_STAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/memory.h"
#include "model/mesh.h"
#include "schedule/table.h"

namespace shardc {

// The limit on the number of layers of a model with stages. A larger number in
// a name is probably not a layer's number.
inline constexpr int64_t kMostStageLayers = 100'000;

// The layers from `first` up to, but not including, `end`.
struct LayerRange {
  int64_t first = 0, end = 0;
  int64_t count() const { return end - first; }
  bool operator==(const LayerRange&) const = default;
};

// Converts the range [begin, end) of units to a range of layers. The units of a
// model are the embeddings, each of its `layers` layers, and the head
// (plan/stage_units.h). The embeddings and the head are not part of the result.
LayerRange LayersIn(int64_t begin, int64_t end, int64_t layers);

// Returns for example "layer 5", "layers 0-7" or "no layers".
std::string LayersText(const LayerRange& range);

class JsonWriter;

// The part of a parameter that a stage has: the complete parameter, or some
// layers of a tensor that holds a layer stack.
struct StageShare {
  int32_t stage = 0;
  // The layers from `begin` up to, but not including, `end`, along the
  // dimension that counts layers. 0, 0 means the complete parameter.
  int64_t begin = 0, end = 0;
  bool operator==(const StageShare&) const = default;
};

// The stages that have a parameter, in ascending order.
struct ParamStages {
  // For a tensor that holds a layer stack: the dimension whose indices are the
  // layers. If `dims` is 3, it is the first of the three dimensions [virtual
  // stages, ranks, layers of a stage].
  std::optional<int64_t> dim;
  int64_t dims = 1;
  // The number of layers in the tensor; 0 if it holds no layer stack.
  int64_t layers = 0;
  std::vector<StageShare> of;
  bool operator==(const ParamStages&) const = default;
};

struct PlanStage {
  // The ranks that hold the stage's parameters, ascending.
  std::vector<int32_t> ranks;
  LayerRange layers;
  // Whether the stage has the parameters before the layers (embeddings), and
  // whether it has the parameters after the layers.
  bool first = false, last = false;
};

// A parameter that both the first and the last stage have completely: the
// embedding that the head shares. Its gradients are summed over the ranks of
// both stages.
struct StageCopy {
  std::string param;
  // The stages and the ranks that have the parameter, ascending.
  std::vector<int32_t> stages, ranks;
};

struct PlanStages {
  std::string axis;  // the mesh axis whose size is the number of ranks
  int64_t ranks = 0;
  int64_t virtual_stages = 1;  // The number of stages on each rank.
  // How stages are placed on ranks. On 2 ranks, the stages 0 to 3 are on the
  // ranks 0 1 0 1 ("loop") or 0 1 1 0 ("v"). With "both" (DualPipe), each stage
  // is on two ranks. With "listed", the schedule's file states the ranks.
  std::string placement;
  // The name of the schedule, or the path of its file.
  std::string schedule;
  // "sha256:" and the hex digest of the schedule's table of tasks, as CSV text.
  std::string table;
  int64_t microbatches = 0;
  // The axes that shard the width of the hidden state, which a stage sends to
  // the next one; nullopt if an earlier version of shardc wrote the plan
  // without them.
  std::optional<AxisGroup> hidden;
  std::vector<PlanStage> of;  // The stages, indexed by the stage's number.
  std::vector<StageCopy> copies;

  // Returns whether the devices of a rank hold the parameter or a part of it.
  // `rank` is the coordinate of these devices on the axis of the stages.
  bool Holds(const ParamStages& param, int64_t rank) const;
};

// Returns the number of devices over which a parameter may be distributed: the
// devices of one rank, or all devices if the plan has no stages.
int64_t DevicesOfRank(const Mesh& mesh,
                      const std::optional<PlanStages>& stages);

// Returns the ranks that hold the parameter or a part of it, ascending.
std::vector<int32_t> RanksOf(const PlanStages& stages,
                             const ParamStages& param);

// Returns how many layers a rank holds of a tensor that holds a layer stack.
// For any other parameter, returns 1 if the rank holds the parameter and 0
// otherwise.
int64_t LayersOnRank(const PlanStages& stages, const ParamStages& param,
                     int64_t rank);

// Adds up the bytes of parameters that the devices of each rank hold.
class BytesByRank {
 public:
  explicit BytesByRank(const PlanStages& stages)
      : stages_(&stages), held_(static_cast<size_t>(stages.ranks)) {}

  // Adds `count` equal parameters. `bytes` is the size of one of them on a
  // device that has the complete parameter. If the parameters are held only at
  // one coordinate of a mesh axis, `axis` and `coordinate` state which one.
  // Otherwise `axis` is null.
  void Add(const ParamStages& param, std::optional<int64_t> bytes,
           int64_t count, const std::string* axis = nullptr,
           int64_t coordinate = 0);
  // Returns the bytes of the fullest device of each rank, indexed by rank. All
  // elements are nullopt if the bytes of a parameter are unknown. An element is
  // nullopt if its sum overflows.
  std::vector<std::optional<int64_t>> Fullest() const;

 private:
  const PlanStages* stages_;
  std::vector<HeldBytes> held_;
  bool known_ = true;
};

// Returns the largest of the numbers, or nullopt if any of them is nullopt.
std::optional<int64_t> MostOf(const std::vector<std::optional<int64_t>>& bytes);

// Writes the bytes of the ranks as {"least": 4, "most": 8, "of": [8, 4]}. An
// unknown number is null.
void WriteBytesByRank(JsonWriter& json,
                      const std::vector<std::optional<int64_t>>& bytes);

// Writes the value of a plan's member `stages`. Canonical JSON, from which the
// fingerprint is computed, leaves out the name of the schedule. So the name
// does not change the fingerprint if the table of tasks is the same.
enum class ScheduleName : uint8_t { kWritten, kLeftOut };
void WritePlanStages(JsonWriter& json, const PlanStages& stages,
                     ScheduleName name);
// Write the member `slices` (of a tensor that holds a layer stack) or the
// member `stages` (of any other parameter).
void WriteSlices(JsonWriter& json, const PlanStages& stages,
                 const ParamStages& param);
void WriteStageNumbers(JsonWriter& json, const ParamStages& param);

// Returns for example "rank 0" or "ranks 0 and 3".
std::string RanksText(const std::vector<int32_t>& ranks);

// Returns "sha256:" and the digest of the schedule's table, written as CSV.
std::string TableDigest(const schedule::Table& table);

}  // namespace shardc

#endif  // SHARDC_PLAN_PLAN_STAGES_H_
