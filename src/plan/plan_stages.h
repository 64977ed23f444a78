// The stages of a pipeline as a plan states them: which ranks hold a parameter,
// or which layers of a stack. Plans with stages are `shardc.plan/v2`.
//
//   "stages": {"axis": "pp", "virtual": 1, "placement": "loop",
//              "schedule": "1f1b", "table": "sha256:..", "microbatches": 8,
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
#include "plan/layer_range.h"
#include "schedule/table.h"

namespace shardc {

class JsonWriter;

// What a stage has of a parameter: all of it, or layers of a stack.
struct StageShare {
  int32_t stage = 0;
  int64_t begin = 0, end = 0;  // along the dimension of the stack; 0, 0: all
  bool operator==(const StageShare&) const = default;
};

// The stages that have a parameter, in ascending order.
struct ParamStages {
  // Of a tensor that holds layers: the dimension that counts them, or the first
  // of three (virtual stages, ranks, layers of a stage) that do.
  std::optional<int64_t> dim;
  int64_t dims = 1;
  int64_t layers = 0;  // in all stages
  std::vector<StageShare> of;
  bool operator==(const ParamStages&) const = default;
};

struct PlanStage {
  std::vector<int32_t> ranks;  // that hold its parameters, ascending
  LayerRange layers;           // of the model
  // Whether it has what is before the layers (embeddings), and after them.
  bool first = false, last = false;
};

// A parameter that stages on different ranks have whole: the embedding that the
// head shares. Its gradients are added up over the ranks.
struct StageCopy {
  std::string param;
  std::vector<int32_t> stages, ranks;  // ascending
};

struct PlanStages {
  std::string axis;  // of the mesh: its size is the number of ranks
  int64_t ranks = 0;
  int64_t virtual_stages = 1;  // on each rank
  std::string placement;       // "loop", "v", "both", "listed"
  std::string schedule;        // name, or path of the file
  std::string table;           // digest of the schedule's CSV
  int64_t microbatches = 0;
  std::vector<PlanStage> of;  // by stage
  std::vector<StageCopy> copies;

  // Whether a device at this coordinate of the axis holds any of the parameter.
  bool Holds(const ParamStages& param, int64_t rank) const;
};

// The ranks that hold any of the parameter, ascending.
std::vector<int32_t> RanksOf(const PlanStages& stages,
                             const ParamStages& param);

// The number of layers that a rank holds of a stack, or 1 of another parameter;
// 0 if it holds nothing.
int64_t LayersOnRank(const PlanStages& stages, const ParamStages& param,
                     int64_t rank);

// Sums the bytes that devices of each rank hold.
class BytesByRank {
 public:
  explicit BytesByRank(const PlanStages& stages)
      : stages_(&stages), held_(static_cast<size_t>(stages.ranks)) {}

  // Adds `count` equal parameters of which a device that has all of one holds
  // `bytes`. A parameter that is placed at a coordinate of another axis has
  // `axis` and `coordinate`.
  void Add(const ParamStages& param, std::optional<int64_t> bytes,
           int64_t count, const std::string* axis = nullptr,
           int64_t coordinate = 0);
  // The bytes of the fullest device of each rank; nullopt if a parameter's
  // bytes are unknown or the sum overflows.
  std::vector<std::optional<int64_t>> Fullest() const;

 private:
  const PlanStages* stages_;
  std::vector<HeldBytes> held_;
  bool known_ = true;
};

// The bytes of the fullest rank; nullopt if a number is unknown.
std::optional<int64_t> MostOf(const std::vector<std::optional<int64_t>>& bytes);

// {"most": 8, "least": 4, "of": [8, 4]}, the bytes by rank; null in place of an
// unknown number.
void WriteBytesByRank(JsonWriter& json,
                      const std::vector<std::optional<int64_t>>& bytes);

// The value of a plan's member `stages`. The schedule's name is no part of the
// plan's meaning, its table is: canonical JSON leaves the name out.
enum class ScheduleName : uint8_t { kWritten, kLeftOut };
void WritePlanStages(JsonWriter& json, const PlanStages& stages,
                     ScheduleName name);
// The member `slices` or `stages` of a parameter.
void WriteSlices(JsonWriter& json, const PlanStages& stages,
                 const ParamStages& param);
void WriteStageNumbers(JsonWriter& json, const ParamStages& param);

// "rank 0", "ranks 0 and 3".
std::string RanksText(const std::vector<int32_t>& ranks);

// "sha256:" and the digest of the schedule's table as CSV.
std::string TableDigest(const schedule::Table& table);

}  // namespace shardc

#endif  // SHARDC_PLAN_PLAN_STAGES_H_
