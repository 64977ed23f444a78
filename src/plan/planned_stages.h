// A model divided into the stages of a pipeline: what each rank holds. Every
// command has its division from here.
//
//   Llama 3 8B on pp:4  ->  layers 0-7 with the embedding, 8-16, 17-25, and
//                           26-31 with the final norm and the head
#ifndef SHARDC_PLAN_PLANNED_STAGES_H_
#define SHARDC_PLAN_PLANNED_STAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/project.h"
#include "plan/compile.h"
#include "plan/plan_stages.h"
#include "plan/stage_units.h"
#include "plan/stages.h"
#include "schedule/assign.h"
#include "schedule/table.h"
#include "source/finding.h"

namespace shardc {

struct PlannedStages {
  std::string axis;
  StageUnits units;
  schedule::Table table;
  schedule::StageBounds bounds;  // the first unit of each stage, and the end
  // Whether the cost model may take other bounds; those above are even then.
  StageBalance balance = StageBalance::kEven;
  bool listed = false;  // the layers of each stage were given
  bool sized = false;   // the number of micro-batches was given
  Place place;          // of the declaration, or of the flag
  // What each unit takes of the multiplications of a token, and its bytes.
  std::vector<schedule::Unit> weights;
  bool copies = true;

  int32_t stages() const { return table.stages; }
  LayerRange LayersOf(int32_t stage) const;
  // The stages that have a parameter, in ascending order. Both ends have a tied
  // embedding.
  std::vector<StageShare> SharesOf(size_t param) const;
  // The ranks that hold the parameters of a stage.
  std::vector<int32_t> RanksOf(int32_t stage) const;
};

// Divides the model. `config`, if known, gives the part of the experts that a
// token uses. Findings: stage-axis-in-spec, layer-without-stage,
// parameter-outside-stages, stacked-virtual, tied-over-stages,
// schedule-refuses, and those of StageUnitsOf.
std::optional<PlannedStages> DivideIntoStages(const Compiled& compiled,
                                              const ModelConfig* config,
                                              const StageRequest& request,
                                              Findings& findings);

// The bytes of parameters that the fullest device of each rank holds in a mode
// of a plan with stages, by rank; nullopt if a shape is unknown. A parameter
// that two stages of a rank share counts once.
std::vector<std::optional<int64_t>> ParameterBytesByRank(const Plan& plan,
                                                         size_t mode);

}  // namespace shardc

#endif  // SHARDC_PLAN_PLANNED_STAGES_H_
