// Divides a model into the stages of a pipeline, and computes the bytes of
// parameters that each rank holds. For example, the last stage of this division
// has fewer layers, because the head counts like several layers:
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
#include "schedule/schedules.h"
#include "schedule/table.h"
#include "source/finding.h"

namespace shardc {

struct PlannedStages {
  std::string axis;
  StageUnits units;
  schedule::Table table;
  // The first unit of each stage, followed by the number of units. (The units
  // are the embedding, each layer, and the head.)
  schedule::StageBounds bounds;
  // How the layers are divided. With kSearched, `bounds` is an even division
  // until the cost model searches for a better one.
  StageBalance balance = StageBalance::kEven;
  bool listed = false;  // True if the user stated the layers of each stage.
  // True if the number of micro-batches is stated: by the declaration, by a
  // schedule's file, or by a plan that was read.
  bool sized = false;
  // The place that messages name: the `stages:` section, the flag with the axis
  // of the stages, or the mesh of a plan that was read.
  Place place;
  // Indexed by unit: the number of multiplications for a token, and the bytes
  // of the parameters.
  std::vector<schedule::Unit> weights;
  bool copies = true;

  int32_t stages() const { return table.stages; }
  LayerRange LayersOf(int32_t stage) const;
  // Returns the stages that have a parameter, in ascending order. With
  // `copies`, the first and the last stage both have a tied embedding.
  std::vector<StageShare> SharesOf(size_t param) const;
  // Returns the ranks that hold the parameters of a stage, ascending.
  std::vector<int32_t> RanksOf(int32_t stage) const;
};

// Divides the model. `config` states the fraction of the experts that a token
// uses, and may be null. On failure, returns nullopt and adds a finding. Its
// code is stage-axis-in-spec, layer-without-stage, parameter-outside-stages,
// stacked-virtual, tied-over-stages, schedule-refuses or limit, or a code of
// StageUnitsOf.
std::optional<PlannedStages> DivideIntoStages(const Compiled& compiled,
                                              const ModelConfig* config,
                                              const StageRequest& request,
                                              Findings& findings);

// Returns, indexed by rank, the bytes of parameters on the rank's fullest
// device in `mode`, or in train if the plan does not have `mode`. The plan must
// have stages. All elements are nullopt if the bytes of a parameter are
// unknown. An element is nullopt if its sum overflows. A parameter that two
// stages of the same rank share is counted once.
std::vector<std::optional<int64_t>> ParameterBytesByRank(const Plan& plan,
                                                         Mode mode);

// Sets the stages of the compiled model and of its plan, and the plan's totals
// of bytes by rank and per device. If the model cannot be divided, it gets no
// stages, and the errors of DeclaredRequest or DivideIntoStages are stored in
// `compiled.stage_findings`.
//
// `config` states which fraction of the experts a token uses. The work of a
// layer with experts is estimated from this fraction. If `config` is null, all
// experts are counted. The files that were read are noted in `reads`, but no
// errors are added to it.
void DivideByStages(const StageDeclaration& declared, const ModelConfig* config,
                    Compiled& compiled, Findings& reads);

}  // namespace shardc

#endif  // SHARDC_PLAN_PLANNED_STAGES_H_
