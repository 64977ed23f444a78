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

// Returns whether moved layers explain why the stages of a parameter changed.
// They explain it in two cases. The parameter was and is in a single stage, and
// a layer moved between the same two stages. Or the parameter is a tensor that
// holds a layer stack, and any layer moved.
bool IsExplained(const std::vector<LayerMove>& moves, const ParamStages& before,
                 const ParamStages& after);

// Appends the differences in the member `stages` to `to.fields`, and sets the
// places of `to.layers`. Does nothing if one of the plans has no stages. The
// member `copies` is not compared. The layers of stages are compared only if
// one of the files is not a valid plan. The member `table`, a digest of the
// pipeline schedule's tasks, is compared only if the other members are equal.
void CompareStageFields(const PlanJson& before, const PlanJson& after,
                        PlanDifference& to);

// Compares the member `of` (the list of stages) and the member `copies` (the
// embeddings that two stages hold). Appends them to `to.fields` if they differ.
// In a correct plan they follow from the layers and the parameters. Compare()
// therefore calls this function only if all of these are equal, which means
// that one of the plans was edited.
void CompareStageLists(const PlanJson& before, const PlanJson& after,
                       PlanDifference& to);

}  // namespace shardc

#endif  // SHARDC_PLAN_DIFFERENCE_STAGE_MOVES_H_
