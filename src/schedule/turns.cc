// Writes the rows of schedules in which every rank first runs some forward
// tasks and then alternates between one forward and one backward task (turns).
// On 4 ranks with 8 micro-batches, rank 2 of 1f1b has one forward task before
// the turns:
//
//   2F0 | 2F1 2B0 | 2F2 2B1 | ... | 2F7 2B6 | 2B7
//
// If a rank has several virtual stages, micro-batches are run in rounds. In a
// round, a rank runs all micro-batches of the round through its first stage,
// then through its second stage, and so on. Backward tasks run from the last
// stage to the first. Breadth-first schedules do not alternate: all
// micro-batches run through a stage before any of them runs through the next
// one.
#include <algorithm>

#include "schedule/fill.h"

namespace shardc::schedule {
namespace {

// Numbers the forward tasks of a rank, and separately its backward tasks, from
// 0 in the order in which the rank runs them. Nth() returns task number k.
class TaskOrder {
 public:
  TaskOrder(const Extent& extent, int32_t rank)
      : extent_(extent), rank_(rank), round_(RoundSize(extent)) {}

  Task Nth(int64_t k, TaskKind kind) const {
    const int64_t v = extent_.virtual_stages;
    int64_t chunk = k / round_ % v;
    if (kind != TaskKind::kForward) chunk = v - 1 - chunk;
    return {kind, static_cast<int32_t>(chunk * extent_.ranks + rank_),
            static_cast<int32_t>(k / round_ / v * round_ + k % round_)};
  }

 private:
  Extent extent_;
  int32_t rank_;
  int64_t round_;
};

}  // namespace

int32_t RoundSize(const Extent& extent) {
  return extent.microbatches / std::max(1, extent.microbatches / extent.ranks);
}

void FillTurns(const Extent& extent, int32_t rank, const Turns& turns,
               std::vector<Cell>& row) {
  const TaskOrder order(extent, rank);
  const int64_t all = int64_t{extent.microbatches} * extent.virtual_stages;
  const int64_t warm = std::min(turns.warm, all);
  const TaskKind back = turns.split ? TaskKind::kInput : TaskKind::kBackward;
  for (int64_t k = 0; k < warm; ++k) {
    row.push_back({order.Nth(k, TaskKind::kForward)});
  }
  for (int64_t k = 0; k < all; ++k) {
    if (warm + k < all) {
      row.push_back({order.Nth(warm + k, TaskKind::kForward)});
    }
    row.push_back({order.Nth(k, back)});
    if (turns.split && k >= turns.delay) {
      row.push_back({order.Nth(k - turns.delay, TaskKind::kWeight)});
    }
  }
  if (!turns.split) return;
  for (int64_t k = std::max<int64_t>(0, all - turns.delay); k < all; ++k) {
    row.push_back({order.Nth(k, TaskKind::kWeight)});
  }
}

void FillZeroBubbleH2(const Extent& extent, int32_t rank,
                      std::vector<Cell>& row) {
  const TaskOrder order(extent, rank);
  const int64_t all = extent.microbatches;
  const int64_t delay = int64_t{2} * rank;
  int64_t forward = std::min<int64_t>(2 * (extent.ranks - 1 - rank) + 1, all);
  for (int64_t k = 0; k < forward; ++k) {
    row.push_back({order.Nth(k, TaskKind::kForward)});
  }
  for (int64_t k = 0; k < all; ++k) {
    row.push_back({order.Nth(k, TaskKind::kInput)});
    if (k >= delay) row.push_back({order.Nth(k - delay, TaskKind::kWeight)});
    if (forward < all) {
      row.push_back({order.Nth(forward++, TaskKind::kForward)});
    }
  }
  for (int64_t k = std::max<int64_t>(0, all - delay); k < all; ++k) {
    row.push_back({order.Nth(k, TaskKind::kWeight)});
  }
}

void FillBreadthFirst(const Extent& extent, int32_t rank,
                      std::vector<Cell>& row) {
  const int32_t v = extent.virtual_stages;
  for (int32_t chunk = 0; chunk < v; ++chunk) {
    for (int32_t micro = 0; micro < extent.microbatches; ++micro) {
      row.push_back({{TaskKind::kForward, chunk * extent.ranks + rank, micro}});
    }
  }
  for (int32_t chunk = v - 1; chunk >= 0; --chunk) {
    for (int32_t micro = extent.microbatches - 1; micro >= 0; --micro) {
      row.push_back(
          {{TaskKind::kBackward, chunk * extent.ranks + rank, micro}});
    }
  }
}

}  // namespace shardc::schedule
