// Writes the rows of schedules in which each rank has two chunks (stages) of
// the model. A row is written by calls that append the next task of one kind.
// The tasks of each chunk are counted separately: F(0) appends the next forward
// task of chunk 0, and I(1) the next input gradient of chunk 1.
//
// In zbv (zero bubble, with the stages placed as a V), rank r of p ranks has
// the stages r and 2p - 1 - r.
//
// dualpipev has the same chunks. It runs most forward tasks of one chunk
// overlapped with a backward task of the other chunk. dualpipe sends the lower
// half of the micro-batches from the first rank to the last, and the upper half
// from the last rank to the first. Each rank then has the stages r and p - 1 -
// r, and the parameters are held twice. Both schedules follow the eight phases
// of DeepSeek's DualPipe.
#include <algorithm>
#include <array>
#include <deque>

#include "schedule/fill.h"

namespace shardc::schedule {
namespace {

// Appends the next tasks of two chunks to a row.
class ChunkRow {
 public:
  // `stages` has the stage of each chunk, and `first` the number of the first
  // micro-batch that runs through each chunk. F, B, I and W count every task,
  // but they append only tasks of micro-batches below `limit`. A sequence of
  // calls for many micro-batches can therefore also write the row for fewer.
  ChunkRow(std::array<int32_t, 2> stages, std::array<int32_t, 2> first,
           int32_t limit, std::vector<Cell>& row)
      : stages_(stages), first_(first), limit_(limit), row_(row) {}

  void F(size_t chunk) { Put(NextForward(chunk)); }
  void B(size_t chunk) { Put(NextBackward(chunk, TaskKind::kBackward)); }
  void I(size_t chunk) {
    const Task task = NextBackward(chunk, TaskKind::kInput);
    weights_.push_back({TaskKind::kWeight, task.stage, task.micro});
    Put(task);
  }
  // Appends the W task (weight gradient) for the oldest I task that has none in
  // the row yet. Appends nothing if there is no such I task.
  void W() {
    if (weights_.empty()) return;
    Put(weights_.front());
    weights_.pop_front();
  }
  // Does the same as W(), but considers only the I tasks of one chunk.
  void W(size_t chunk) {
    const auto found = std::find_if(
        weights_.begin(), weights_.end(),
        [&](const Task& task) { return task.stage == stages_[chunk]; });
    if (found == weights_.end()) return;
    Put(*found);
    weights_.erase(found);
  }
  // Appends a forward task of one chunk, overlapped with a backward task of the
  // other chunk.
  void Pair(size_t chunk) {
    const Task forward = NextForward(chunk);
    row_.push_back({forward, NextBackward(1 - chunk, TaskKind::kBackward)});
  }

  int32_t forward(size_t chunk) const { return forward_[chunk]; }

 private:
  Task NextForward(size_t chunk) {
    return {TaskKind::kForward, stages_[chunk],
            first_[chunk] + forward_[chunk]++};
  }
  Task NextBackward(size_t chunk, TaskKind kind) {
    return {kind, stages_[chunk], first_[chunk] + backward_[chunk]++};
  }
  void Put(const Task& task) {
    if (task.micro < limit_) row_.push_back({task});
  }

  std::array<int32_t, 2> stages_, first_;
  std::array<int32_t, 2> forward_{}, backward_{};
  int32_t limit_;
  // The W tasks whose I task is already in the row.
  std::deque<Task> weights_;
  std::vector<Cell>& row_;
};

// Writes the row of one rank in the eight phases of DualPipe. `h` is 0 on a
// rank that has the first and the last stage of the model, 1 on its neighbour,
// and so on, up to `half` - 1 on a rank that has the middle stages. `main` is
// the number of iterations of the main phase.
void FillEightPhases(int32_t half, int32_t h, int32_t main, ChunkRow& row) {
  const int32_t above = half - h - 1;
  for (int32_t i = 0; i < 2 * above; ++i) row.F(0);
  for (int32_t i = 0; i < h + 1; ++i) {
    row.F(0);
    row.F(1);
  }
  for (int32_t i = 0; i < above; ++i) {
    row.I(1);
    row.W();
    row.F(1);
  }
  for (int32_t i = 0; i < main; ++i) {
    // On a rank that has the middle stages of the model, the first forward task
    // and the first backward task of this phase are not overlapped.
    if (i == 0 && above == 0) {
      row.F(0);
      row.B(1);
    } else {
      row.Pair(0);
    }
    row.Pair(1);
  }
  for (int32_t i = 0; i < above; ++i) {
    row.B(1);
    row.Pair(1);
  }
  // From the middle of this phase on, a backward task computes only input
  // gradients. Their weight gradients follow later.
  bool split = false;
  const auto back = [&](size_t chunk) {
    if (split) {
      row.I(chunk);
    } else {
      row.B(chunk);
    }
  };
  for (int32_t i = 0; i < h + 1; ++i) {
    const bool middle = i == (h + 1) / 2;
    split = split || (middle && h % 2 == 1);
    back(1);
    split = split || middle;
    back(0);
  }
  for (int32_t i = 0; i < above; ++i) {
    row.W();
    back(0);
  }
  for (int32_t i = 0; i < h + 1; ++i) row.W();
}

}  // namespace

void FillZeroBubbleV(const Extent& extent, int32_t rank,
                     std::vector<Cell>& cells) {
  const int32_t p = extent.ranks;
  const int32_t all = std::max(extent.microbatches, 2 * p - 1);
  ChunkRow row({rank, 2 * p - 1 - rank}, {0, 0}, extent.microbatches, cells);
  for (int32_t i = 0; i < 2 * (p - rank) - 1; ++i) row.F(0);
  for (int32_t i = 0; i < rank; ++i) {
    row.F(1);
    row.F(0);
  }
  for (int32_t i = 0; i < p - rank; ++i) {
    row.F(1);
    row.I(1);
    row.W(1);
  }
  while (row.forward(1) < row.forward(0) || row.forward(0) < all) {
    if (row.forward(0) < all) row.F(0);
    row.I(0);
    row.W(0);
    row.F(1);
    row.I(1);
    row.W(1);
  }
  for (int32_t i = 0; i < rank; ++i) {
    row.I(0);
    row.I(1);
  }
  for (int32_t i = 0; i < p - rank; ++i) {
    row.I(0);
    row.W(0);
  }
  for (int32_t i = 0; i < 2 * all; ++i) row.W(i < all ? 1 : 0);
}

void FillDualPipe(const Extent& extent, int32_t rank,
                  std::vector<Cell>& cells) {
  const int32_t p = extent.ranks, m = extent.microbatches;
  const int32_t h = std::min(rank, p - 1 - rank);
  std::array<int32_t, 2> stages = {rank, p - 1 - rank};
  std::array<int32_t, 2> first = {0, m / 2};
  if (rank >= p / 2) {
    std::swap(stages[0], stages[1]);
    std::swap(first[0], first[1]);
  }
  ChunkRow row(stages, first, m, cells);
  FillEightPhases(p / 2, h, m / 2 - p + h + 1, row);
}

void FillDualPipeV(const Extent& extent, int32_t rank,
                   std::vector<Cell>& cells) {
  const int32_t p = extent.ranks, m = extent.microbatches;
  ChunkRow row({rank, 2 * p - 1 - rank}, {0, 0}, m, cells);
  FillEightPhases(p, rank, m - 2 * p + rank + 1, row);
}

}  // namespace shardc::schedule
