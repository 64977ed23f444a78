// Draws a schedule as a timeline: a line for each rank, and a column for each
// tick.
#ifndef SHARDC_EMIT_SCHEDULES_TIMELINE_TEXT_H_
#define SHARDC_EMIT_SCHEDULES_TIMELINE_TEXT_H_

#include <optional>
#include <string>

#include "emit/pictures/line.h"
#include "schedule/simulate.h"

namespace shardc {

// A tick is as long as the shortest task. Dots mark the bubble. If the ticks do
// not fit the width, the picture continues in further blocks of lines. Returns
// nullopt if the picture would take more than about kMostPicture characters.
std::optional<std::string> TimelineText(const schedule::Table& table,
                                        const schedule::Timeline& timeline,
                                        const PictureStyle& style);

inline constexpr double kMostPicture = 1 << 24;

}  // namespace shardc

#endif  // SHARDC_EMIT_SCHEDULES_TIMELINE_TEXT_H_
