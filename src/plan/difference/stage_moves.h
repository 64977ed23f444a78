// What differs between the stages of two plans.
#ifndef SHARDC_PLAN_DIFFERENCE_STAGE_MOVES_H_
#define SHARDC_PLAN_DIFFERENCE_STAGE_MOVES_H_

#include <string>
#include <vector>

#include "plan/difference/plan_difference.h"
#include "plan/difference/plan_fields.h"
#include "plan/plan_stages.h"

namespace shardc {

// Returns the layers that another stage has, or whose stage other ranks hold,
// in ascending order; layers with the same move are one.
std::vector<LayerMove> LayerMoves(const PlanStages& before,
                                  const PlanStages& after);

// "layers 8-9 move from stage 1 on rank 1 to stage 0 on rank 0"
std::string LayerMoveText(const LayerMove& move);

// Whether the moves of layers explain that a parameter is in other stages: some
// layer makes the same move.
bool IsExplained(const std::vector<LayerMove>& moves, const ParamStages& before,
                 const ParamStages& after);

// Appends what differs of the member `stages`, but for the layers of stages, to
// `to.fields`. What follows from another member is compared only if that one is
// equal. A plan without stages has null.
void CompareStageFields(const PlanJson& before, const PlanJson& after,
                        PlanDifference& to);

}  // namespace shardc

#endif  // SHARDC_PLAN_DIFFERENCE_STAGE_MOVES_H_
