// Compares pictures of schedules with pictures that were drawn by hand for 1f1b
// on two ranks.
#include "emit/schedules/schedule_report.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "schedule/order.h"
#include "schedule/schedules.h"

namespace shardc {
namespace {

using schedule::StageTimes;

std::optional<std::string> Picture(std::string_view name,
                                   const schedule::Extent& extent,
                                   const StageTimes& times, int64_t width) {
  const schedule::Table table =
      schedule::MakeTable(*schedule::FindSchedule(name), extent);
  schedule::Times all;
  all.stages.assign(static_cast<size_t>(table.stages), times);
  PictureStyle style;
  style.width = width;
  return TimelineText(table, schedule::Simulate(table, all), style);
}

TEST_CASE("a tick is a column, and longer tasks have dashes") {
  CHECK(Picture("1f1b", {2, 1, 2}, {}, 80) ==
        "rank 0 |0F0 0F1 .   .   0B0---- .   0B1----\n"
        "rank 1 |.   1F0 1B0---- 1F1 1B1---- .   .\n");
}

TEST_CASE("what a line has no room for follows in blocks of ticks") {
  const std::string blocks =
      "ticks 0 to 3\n"
      "rank 0 |0F0 0F1 .   .\n"
      "rank 1 |.   1F0 1B0----\n"
      "\n"
      "ticks 4 to 7\n"
      "rank 0 |0B0---- .   0B1-\n"
      "rank 1 |1F1 1B1---- .\n"
      "\n"
      "ticks 8 to 8\n"
      "rank 0 |---\n"
      "rank 1 |.\n";
  CHECK(Picture("1f1b", {2, 1, 2}, {}, 24) == blocks);
  CHECK(Picture("1f1b", {2, 1, 2}, {}, 27) == blocks);
  // A line has at least one tick.
  const auto narrow = Picture("1f1b", {2, 1, 2}, {}, 1);
  REQUIRE(narrow);
  CHECK(narrow->starts_with("ticks 0 to 0\nrank 0 |0F0\nrank 1 |.\n\n"));
  // All nine ticks fit exactly.
  CHECK(Picture("1f1b", {2, 1, 2}, {}, 44)->starts_with("rank 0 |"));
  CHECK(Picture("1f1b", {2, 1, 2}, {}, 43)->starts_with("ticks 0 to 7\n"));
}

TEST_CASE("tasks that take no time are not drawn") {
  CHECK(Picture("gpipe", {1, 1, 1}, {0, 1, 1}, 80) == "rank 0 |0B0\n");
  CHECK(Picture("gpipe", {1, 1, 1}, {0, 0, 0}, 80) == "");
}

TEST_CASE("ranks are numbered in one column, and a huge picture is refused") {
  const auto picture = Picture("gpipe", {11, 1, 1}, {}, 400);
  REQUIRE(picture);
  CHECK(picture->starts_with("rank  0 |0F0  .    "));
  CHECK(picture->find("\nrank 10 |.    ") != std::string::npos);
  CHECK_FALSE(Picture("gpipe", {1, 1, 1}, {1e-9, 1, 1}, 80));
}

}  // namespace
}  // namespace shardc
