// The table of all schedules, and the messages for sizes that a schedule does
// not accept. Such a message names the numbers:
//
//   dualpipev, 4 ranks, 7 micro-batches
//     ->  dualpipev needs at least 8 micro-batches on 4 ranks, not 7
#include "schedule/schedules.h"

#include <algorithm>
#include <array>

#include "schedule/fill.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::schedule {
namespace {

std::string RefusesRounds(std::string_view name, const Extent& extent) {
  const int32_t rounds = std::max(1, extent.microbatches / extent.ranks);
  if (extent.microbatches % rounds == 0) return "";
  return std::string(name) + " runs micro-batches in " +
         Counted(rounds, "round") + " (micro-batches / ranks), which do not " +
         "divide " + CountText(extent.microbatches) + " micro-batches";
}

std::string RefusesFew(std::string_view name, const Extent& extent) {
  const int64_t least = int64_t{2} * extent.ranks;
  if (extent.microbatches >= least) return "";
  return std::string(name) + " needs at least " + CountText(least) +
         " micro-batches on " + Counted(extent.ranks, "rank") + ", not " +
         CountText(extent.microbatches);
}

std::string RefusesDualPipe(std::string_view name, const Extent& extent) {
  if (extent.ranks % 2 != 0) {
    return std::string(name) + " needs an even number of ranks, not " +
           CountText(extent.ranks);
  }
  if (extent.microbatches % 2 != 0) {
    return std::string(name) + " needs an even number of micro-batches, not " +
           CountText(extent.microbatches);
  }
  return RefusesFew(name, extent);
}

void FillGpipe(const Extent& extent, int32_t rank, std::vector<Cell>& row) {
  FillTurns(extent, rank, {.warm = extent.microbatches}, row);
}

void FillOneForwardOneBackward(const Extent& extent, int32_t rank,
                               std::vector<Cell>& row) {
  FillTurns(extent, rank, {.warm = extent.ranks - 1 - rank}, row);
}

// Returns the number of forward tasks that a rank runs in a round before it
// reaches its last stage. In each of its earlier stages, it runs all
// micro-batches of the round (RoundSize).
int64_t EarlierChunks(const Extent& extent) {
  return int64_t{extent.virtual_stages - 1} * RoundSize(extent);
}

void FillInterleaved(const Extent& extent, int32_t rank,
                     std::vector<Cell>& row) {
  FillTurns(
      extent, rank,
      {.warm = EarlierChunks(extent) + int64_t{2} * (extent.ranks - 1 - rank)},
      row);
}

void FillInterleavedZeroBubble(const Extent& extent, int32_t rank,
                               std::vector<Cell>& row) {
  FillTurns(extent, rank,
            {.warm = EarlierChunks(extent) + extent.ranks - 1 - rank,
             .split = true,
             .delay = rank},
            row);
}

constexpr std::array kSchedules = {
    Schedule{.name = "gpipe",
             .summary = "all forward tasks, then all backward tasks",
             .fill = FillGpipe},
    Schedule{.name = "1f1b",
             .summary = "one forward task, one backward task",
             .fill = FillOneForwardOneBackward},
    Schedule{.name = "interleaved",
             .summary = "1f1b with several virtual stages on a rank",
             .virtual_stages = 2,
             .fixed_virtual = false,
             .refuses = RefusesRounds,
             .fill = FillInterleaved},
    Schedule{.name = "looped-bfs",
             .summary = "all micro-batches through a stage before the next",
             .virtual_stages = 2,
             .fixed_virtual = false,
             .fill = FillBreadthFirst},
    Schedule{.name = "zb-h1",
             .summary = "1f1b with weight gradients in its bubble",
             .refuses = RefusesRounds,
             .fill = FillInterleavedZeroBubble},
    Schedule{.name = "zb-h2",
             .summary = "zb-h1 with more forward tasks first, and more memory",
             .fill = FillZeroBubbleH2},
    Schedule{.name = "interleaved-zb",
             .summary = "interleaved with weight gradients in its bubble",
             .virtual_stages = 2,
             .fixed_virtual = false,
             .refuses = RefusesRounds,
             .fill = FillInterleavedZeroBubble},
    Schedule{.name = "zbv",
             .summary = "zero bubble, stages placed as a V",
             .virtual_stages = 2,
             .placement = Placement::kV,
             .fill = FillZeroBubbleV},
    Schedule{.name = "dualpipe",
             .summary = "from both ends of the ranks, parameters held twice",
             .placement = Placement::kBoth,
             .refuses = RefusesDualPipe,
             .fill = FillDualPipe},
    Schedule{.name = "dualpipev",
             .summary = "dualpipe with stages placed as a V",
             .virtual_stages = 2,
             .placement = Placement::kV,
             .refuses = RefusesFew,
             .fill = FillDualPipeV},
};

}  // namespace

std::span<const Schedule> Schedules() { return kSchedules; }

const Schedule* FindSchedule(std::string_view name) {
  const auto* found = std::find_if(
      kSchedules.begin(), kSchedules.end(),
      [&](const Schedule& schedule) { return schedule.name == name; });
  return found == kSchedules.end() ? nullptr : found;
}

std::optional<std::string> Refusal(const Schedule& schedule,
                                   const Extent& extent) {
  if (schedule.fixed_virtual &&
      extent.virtual_stages != schedule.virtual_stages) {
    return std::string(schedule.name) + " places exactly " +
           Counted(schedule.virtual_stages, "stage") + " on a rank, not " +
           CountText(extent.virtual_stages);
  }
  if (schedule.refuses == nullptr) return std::nullopt;
  std::string why = schedule.refuses(schedule.name, extent);
  if (why.empty()) return std::nullopt;
  return why;
}

std::optional<int32_t> NearestMicrobatches(const Schedule& schedule,
                                           const Extent& extent) {
  Extent tried = extent;
  const auto accepts = [&](int64_t microbatches) {
    if (microbatches < 1 || microbatches > kMostTasks) return false;
    tried.microbatches = static_cast<int32_t>(microbatches);
    return !Refusal(schedule, tried);
  };
  const int64_t wanted = extent.microbatches;
  for (int64_t away = 0; away <= int64_t{2} * extent.ranks; ++away) {
    if (accepts(wanted - away)) return tried.microbatches;
    if (accepts(wanted + away)) return tried.microbatches;
  }
  return std::nullopt;
}

int64_t TaskCount(const Extent& extent) {
  return (Size(extent.ranks) * extent.virtual_stages * extent.microbatches * 3)
      .value();
}

Table MakeTable(const Schedule& schedule, const Extent& extent) {
  Table out;
  out.name = schedule.name;
  out.stages = extent.Stages();
  out.microbatches = extent.microbatches;
  out.placement = schedule.placement;
  out.rows.resize(static_cast<size_t>(extent.ranks));
  for (int32_t rank = 0; rank < extent.ranks; ++rank) {
    schedule.fill(extent, rank, out.rows[static_cast<size_t>(rank)]);
  }
  PlaceStages(out);
  return out;
}

}  // namespace shardc::schedule
