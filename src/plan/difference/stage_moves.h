// Compares the pipeline stages of two plans.
#ifndef SHARDC_PLAN_DIFFERENCE_STAGE_MOVES_H_
#define SHARDC_PLAN_DIFFERENCE_STAGE_MOVES_H_

#include <string>
#include <vector>

#include "plan/difference/plan_difference.h"
#include "plan/difference/plan_fields.h"
#include "plan/plan_stages.h"

namespace shardc {

// Returns the layers of both plans whose stage differs, or whose stage is on
// other ranks, in ascending order. Consecutive layers with the same move are
// one entry.
std::vector<LayerMove> LayerMoves(const PlanStages& before,
                                  const PlanStages& after);

// Returns for example "layers 8-9 move from stage 1 on rank 1 to stage 0 on
// rank 0".
std::string LayerMoveText(const LayerMove& move);

// Returns whether the moves of layers explain that a parameter is in other
// stages. If the parameter is in one stage, a move from its earlier stage to
// its later stage explains it. If the parameter is a tensor that holds a layer
// stack, any move explains it. Any other parameter is in several stages, and no
// move explains that.
bool IsExplained(const std::vector<LayerMove>& moves, const ParamStages& before,
                 const ParamStages& after);

// Appends the differences in the member `stages` to `to.fields`, and sets the
// places of `to.layers`. Does nothing if one of the plans has no stages. The
// member `copies` is not compared. The layers of stages are compared only if
// one of the files is not a valid plan. The digest of the schedule's table is
// compared only if the other members are equal.
void CompareStageFields(const PlanJson& before, const PlanJson& after,
                        PlanDifference& to);

// Appends the lists of stages and of copies to `to.fields` if they differ.
// These lists follow from the layers and the parameters, so this function is
// called only if nothing else differs.
void CompareStageLists(const PlanJson& before, const PlanJson& after,
                       PlanDifference& to);

}  // namespace shardc

#endif  // SHARDC_PLAN_DIFFERENCE_STAGE_MOVES_H_
