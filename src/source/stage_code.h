// The codes SHD248 and SHD249: schedules of pipelines that cannot be used. They
// stand between lints, but are reported while a schedule is made or read.
#ifndef SHARDC_SOURCE_STAGE_CODE_H_
#define SHARDC_SOURCE_STAGE_CODE_H_

#include <span>

#include "source/code.h"

namespace shardc {

namespace code {
inline constexpr Code kScheduleRefuses{
    248, "schedule-refuses", Level::kError,
    "a pipeline schedule does not accept these sizes"};
inline constexpr Code kScheduleUnsafe{
    249, "schedule-unsafe", Level::kError,
    "a pipeline schedule computes the wrong thing, or never ends"};
}  // namespace code

// Returns these codes, ascending.
std::span<const Code* const> StageCodes();

}  // namespace shardc

#endif  // SHARDC_SOURCE_STAGE_CODE_H_
