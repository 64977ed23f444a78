// The table of all schedules, and the messages for sizes that a schedule does
// not accept. Such a message names the numbers:
//
//   dualpipev, 4 ranks, 7 micro-batches
//     ->  dualpipev needs at least 8 micro-batches on 4 ranks, not 7
#include "schedule/schedules.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include "schedule/table.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::schedule {

// The parameters of schedules that alternate between a forward and a backward
// task.
struct Turns {
  int64_t warm = 0;    // number of forward tasks before the first backward task
  bool split = false;  // whether each backward task B is split into I and W
  // With `split`: how many turns (one forward and one backward task each) the
  // weight gradients (W) of a micro-batch come after its input gradients (I).
  int64_t delay = 0;
};
void FillTurns(const Extent& extent, int32_t rank, const Turns& turns,
               std::vector<Cell>& row);
// Returns the number of micro-batches in a round. For m micro-batches on p
// ranks it is m / max(1, m / p), such as 4 for m = 8 and p = 4. In a round, a
// rank runs the round's micro-batches through one of its stages before the next
// stage.
int32_t RoundSize(const Extent& extent);

void FillZeroBubbleH2(const Extent& extent, int32_t rank,
                      std::vector<Cell>& row);
void FillBreadthFirst(const Extent& extent, int32_t rank,
                      std::vector<Cell>& row);
void FillZeroBubbleV(const Extent& extent, int32_t rank,
                     std::vector<Cell>& row);
void FillDualPipe(const Extent& extent, int32_t rank, std::vector<Cell>& row);
void FillDualPipeV(const Extent& extent, int32_t rank, std::vector<Cell>& row);

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
    auto& row = out.rows[static_cast<size_t>(rank)];
    schedule.fill(extent, rank, row);
    row.shrink_to_fit();
  }
  PlaceStages(out);
  return out;
}

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
    weights_[chunk].push_back(
        {inputs_++, {TaskKind::kWeight, task.stage, task.micro}});
    Put(task);
  }
  // Appends the W task (weight gradient) for the oldest I task that has none in
  // the row yet. Appends nothing if there is no such I task.
  void W() {
    const bool second = !weights_[1].empty() &&
                        (weights_[0].empty() ||
                         weights_[1].front().order < weights_[0].front().order);
    W(second ? 1 : 0);
  }
  // Does the same as W(), but considers only the I tasks of one chunk.
  void W(size_t chunk) {
    auto& own = weights_[chunk];
    if (own.empty()) return;
    Put(own.front().task);
    own.pop_front();
  }

  enum class Kind : uint8_t { kF, kI, kW };
  struct Call {
    Kind kind;
    size_t chunk;
  };
  // Makes the calls in their order, `count` times. Once a round of calls has
  // appended nothing, no later one does, because all of its micro-batches are
  // from `limit` on and it has no W task left. Later rounds are only counted,
  // so that a row costs as much as it has tasks.
  void Repeat(int32_t count, std::initializer_list<Call> calls) {
    for (int32_t i = 0; i < count; ++i) {
      const size_t before = row_.size();
      for (const Call& call : calls) Make(call);
      if (row_.size() > before) continue;
      for (const auto& [kind, chunk] : calls) {
        if (kind == Kind::kF) forward_[chunk] += count - i - 1;
        if (kind == Kind::kI) backward_[chunk] += count - i - 1;
      }
      return;
    }
  }
  // Appends a forward task of one chunk, overlapped with a backward task of the
  // other chunk.
  void Pair(size_t chunk) {
    const Task forward = NextForward(chunk);
    row_.push_back({forward, NextBackward(1 - chunk, TaskKind::kBackward)});
  }

 private:
  void Make(const Call& call) {
    if (call.kind == Kind::kF) F(call.chunk);
    if (call.kind == Kind::kI) I(call.chunk);
    if (call.kind == Kind::kW) W(call.chunk);
  }
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
  // The W tasks whose I task is already in the row, by chunk, and the position
  // of this I task among those of both chunks.
  struct Waiting {
    int64_t order = 0;
    Task task;
  };
  std::array<std::deque<Waiting>, 2> weights_;
  int64_t inputs_ = 0;
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
  using enum ChunkRow::Kind;
  row.Repeat(2 * (p - rank) - 1, {{kF, 0}});
  row.Repeat(rank, {{kF, 1}, {kF, 0}});
  row.Repeat(p - rank, {{kF, 1}, {kI, 1}, {kW, 1}});
  // Until now chunk 1 has run p forward tasks. The tasks of chunk 0 from `all`
  // on are of no micro-batch.
  row.Repeat(all - p, {{kF, 0}, {kI, 0}, {kW, 0}, {kF, 1}, {kI, 1}, {kW, 1}});
  row.Repeat(rank, {{kI, 0}, {kI, 1}});
  row.Repeat(p - rank, {{kI, 0}, {kW, 0}});
  row.Repeat(all, {{kW, 1}});
  row.Repeat(all, {{kW, 0}});
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

namespace {

// Divides a chain of units (layers) into pipeline stages so that the longest
// stage is as short as possible, by a dynamic program over units and stages.
// best[s][b] is the lowest possible time of the longest stage if the first s
// stages hold the first b units. If stage s begins at unit a, this time is the
// larger of two values: best[s-1][a], and the time of the units a to b-1.
// best[s][b] is the minimum over a. Prefix sums give the time and the bytes of
// a stage. For example, two stages divide units of the times 1 2 2 2 4:
//
//   best[1][1] to best[1][4] are 1, 3, 5, 7
//   best[2][5] = max(best[1][3], 2 + 4) = 6 at a = 3: the stages 1 2 2 | 2 4

constexpr double kImpossible = std::numeric_limits<double>::infinity();

// The score of a division; the lowest score is the best. It is the time of the
// longest stage, and then the bytes of the fullest stage.
using Score = std::pair<double, int64_t>;

}  // namespace

std::optional<StageBounds> AssignUnits(std::span<const Unit> units,
                                       std::span<const int64_t> in_flight,
                                       std::optional<int64_t> capacity) {
  const size_t n = units.size(), stages = in_flight.size();
  if (n == 0 || stages == 0) return std::nullopt;
  std::vector<double> time(n + 1, 0);
  std::vector<int64_t> bytes(n + 1, 0), kept(n + 1, 0);
  for (size_t i = 0; i < n; ++i) {
    time[i + 1] = time[i] + units[i].time;
    bytes[i + 1] = (Size(bytes[i]) + units[i].bytes).value();
    kept[i + 1] = (Size(kept[i]) + units[i].kept).value();
  }
  std::vector<std::vector<Score>> best(
      stages + 1, std::vector<Score>(n + 1, {kImpossible, 0}));
  std::vector<std::vector<size_t>> from(stages + 1,
                                        std::vector<size_t>(n + 1, 0));
  best[0][0] = {0, 0};
  for (size_t s = 1; s <= stages; ++s) {
    // The first unit is in the first stage, and the last unit is in the last
    // stage.
    const size_t least = s == stages ? n : 1;
    const size_t most = s == stages || stages == 1 ? n : n - 1;
    for (size_t b = least; b <= most; ++b) {
      for (size_t a = s == 1 ? 0 : 1; a <= b; ++a) {
        if (s == 1 && a > 0) break;
        if (best[s - 1][a].first == kImpossible) continue;
        const int64_t held = (Size(bytes[b] - bytes[a]) +
                              Size(kept[b] - kept[a]) * in_flight[s - 1])
                                 .value();
        if (capacity && held > *capacity) continue;
        const Score score = {std::max(best[s - 1][a].first, time[b] - time[a]),
                             std::max(best[s - 1][a].second, held)};
        if (score < best[s][b]) {
          best[s][b] = score;
          from[s][b] = a;
        }
      }
    }
  }
  if (best[stages][n].first == kImpossible) return std::nullopt;
  StageBounds out(stages + 1, 0);
  out[stages] = static_cast<int64_t>(n);
  size_t at = n;
  for (size_t s = stages; s > 0; --s) {
    at = from[s][at];
    out[s - 1] = static_cast<int64_t>(at);
  }
  return out;
}

StageBounds EvenStages(int64_t layers, int64_t stages) {
  StageBounds out;
  for (int64_t s = 0; s <= stages; ++s) {
    out.push_back(1 + s * layers / stages);
  }
  out.front() = 0;
  out.back() = layers + 2;
  return out;
}

}  // namespace shardc::schedule
