// The codes of diagnostics about pipelines, from SHD241 to SHD249: stages or
// schedules that cannot be used. The other codes of this family (SHD2xx) belong
// to lints. These diagnostics are not reported by lints, but while a model is
// divided into stages or a schedule is read.
#ifndef SHARDC_SOURCE_STAGE_CODE_H_
#define SHARDC_SOURCE_STAGE_CODE_H_

#include <span>

#include "source/code.h"

namespace shardc {

namespace code {
inline constexpr Code kStageAxisInSpec{
    241, "stage-axis-in-spec", Level::kError,
    "a spec splits over the axis of the pipeline's stages"};
inline constexpr Code kLayerWithoutStage{
    242, "layer-without-stage", Level::kError,
    "the stages of a pipeline do not have exactly the model's layers"};
inline constexpr Code kParameterOutsideStages{
    243, "parameter-outside-stages", Level::kError,
    "a parameter is of no layer, and of neither end of the model"};
inline constexpr Code kStackedVirtual{
    244, "stacked-virtual", Level::kError,
    "no spec states which layers of a stack a rank of the pipeline has"};
inline constexpr Code kTiedOverStages{
    245, "tied-over-stages", Level::kError,
    "the head is the embedding, which another rank of the pipeline has"};
inline constexpr Code kMicrobatchesIndivisible{
    247, "microbatches-indivisible", Level::kError,
    "the rows of a replica are not divided by the micro-batches"};
inline constexpr Code kScheduleRefuses{
    248, "schedule-refuses", Level::kError,
    "a pipeline schedule does not accept these sizes"};
inline constexpr Code kScheduleUnsafe{
    249, "schedule-unsafe", Level::kError,
    "a pipeline schedule computes the wrong thing, or never ends"};
}  // namespace code

// Returns the codes SHD241 to SHD249, in ascending order.
std::span<const Code* const> StageCodes();

}  // namespace shardc

#endif  // SHARDC_SOURCE_STAGE_CODE_H_
