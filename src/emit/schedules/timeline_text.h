// Draws a schedule as a timeline: a line for each rank, and a column for each
// tick.
#ifndef SHARDC_EMIT_SCHEDULES_TIMELINE_TEXT_H_
#define SHARDC_EMIT_SCHEDULES_TIMELINE_TEXT_H_

#include <optional>
#include <string>

#include "emit/pictures/line.h"
#include "schedule/simulate.h"

namespace shardc {

// Returns the drawing. A tick is as long as the shortest task, and a dot is an
// idle tick. If the ticks do not fit the width, the drawing continues in
// further blocks of lines. Returns nullopt if the drawing would have more than
// about kMostPicture characters.
std::optional<std::string> TimelineText(const schedule::Table& table,
                                        const schedule::Timeline& timeline,
                                        const PictureStyle& style);

inline constexpr double kMostPicture = 1 << 24;

}  // namespace shardc

#endif  // SHARDC_EMIT_SCHEDULES_TIMELINE_TEXT_H_
