// Computes when each task of a table begins and ends. A cell begins when its
// rank is free and all messages that its tasks read have arrived. For example,
// in 1f1b on 2 ranks with 2 micro-batches, where F takes 1 tick and B takes 2:
//
//   rank 0   0F0 0F1  .   .  0B0----  .  0B1----    9 ticks
//   rank 1    .  1F0 1B0---- 1F1 1B1----  .   .
#include "schedule/simulate.h"

#include <algorithm>

#include "schedule/order.h"
#include "source/size.h"

namespace shardc::schedule {
namespace {

constexpr double kUnknown = -1;

class Simulation {
 public:
  Simulation(const Table& table, const Times& times)
      : table_(table),
        times_(times),
        forward_(table.owners.size(), kUnknown),
        back_(table.owners.size(), kUnknown) {}

  Timeline Run() {
    const size_t ranks = table_.rows.size();
    Timeline out;
    out.ranks.resize(ranks);
    out.cells.resize(ranks);
    std::vector<size_t> waiting(ranks);
    for (size_t r = 0; r < ranks; ++r) {
      waiting[r] = r;
      out.cells[r].reserve(table_.rows[r].size());
    }
    while (!waiting.empty()) {
      const size_t rank = waiting.back();
      waiting.pop_back();
      RunRank(rank, out, waiting);
    }
    for (const RankTime& rank : out.ranks) {
      out.step = std::max(out.step, rank.last);
    }
    return out;
  }

 private:
  // Returns the time at which the result of `needed` arrives at the rank of
  // `task`; kUnknown if it has not been sent yet.
  double Arrival(const Task& task, const Task& needed) const {
    const size_t at = table_.At(needed.stage, needed.micro);
    const bool forward = needed.kind == TaskKind::kForward;
    const double end = forward ? forward_[at] : back_[at];
    if (end == kUnknown || times_.exposed) return end;
    return end + Hop(needed.stage, task.stage, task.micro);
  }

  // Returns the time for which a message between two neighbouring stages
  // travels.
  double Hop(int32_t from, int32_t to, int32_t micro) const {
    const auto& hops = from < to ? times_.hop_forward : times_.hop_back;
    if (hops.empty() ||
        table_.RankOf(from, micro) == table_.RankOf(to, micro)) {
      return 0;
    }
    return hops[static_cast<size_t>(std::min(from, to))];
  }

  double TimeOf(const Task& task) const {
    const StageTimes& times = times_.stages[static_cast<size_t>(task.stage)];
    double out = 0;
    switch (task.kind) {
      case TaskKind::kForward:
        out = times.forward;
        break;
      case TaskKind::kBackward:
        out = times.input + times.weight;
        break;
      case TaskKind::kInput:
        out = times.input;
        break;
      case TaskKind::kWeight:
        out = times.weight;
        break;
    }
    return out;
  }

  // Returns the time for which the rank of `task` sends the result and computes
  // nothing. The time is 0 if the rank computes while it sends, or if the task
  // sends nothing.
  double SendTimeOf(const Task& task) const {
    if (!times_.exposed) return 0;
    const bool forward = task.kind == TaskKind::kForward;
    const int32_t to = task.stage + (forward ? 1 : -1);
    if (to < 0 || to >= table_.stages || (!forward && !task.SendsBack())) {
      return 0;
    }
    return Hop(task.stage, to, task.micro);
  }

  void RunRank(size_t rank, Timeline& out, std::vector<size_t>& waiting) {
    const auto& row = table_.rows[rank];
    auto& done = out.cells[rank];
    RankTime& time = out.ranks[rank];
    while (done.size() < row.size()) {
      const Cell& cell = row[done.size()];
      double begin = time.last;
      double length = 0, sending = 0;
      bool ready = true;
      ForEachTask(cell, [&](const Task& task) {
        length += TimeOf(task);
        sending += SendTimeOf(task);
        const auto needed = NeededFromNeighbour(task, table_.stages);
        if (!needed) return;
        const double arrival = Arrival(task, *needed);
        ready = ready && arrival != kUnknown;
        begin = std::max(begin, arrival);
      });
      if (!ready) return;
      // The two tasks of a pair overlap, so their time is multiplied by a
      // factor. Exposed sends do not overlap with tasks, so they are added in
      // full.
      if (cell.overlapped) length *= times_.overlap;
      length += sending;
      if (done.empty()) time.first = begin;
      time.last = begin + length;
      time.busy += length;
      done.push_back({begin, time.last});
      ForEachTask(cell,
                  [&](const Task& task) { Finish(task, time.last, waiting); });
    }
  }

  void Finish(const Task& task, double end, std::vector<size_t>& waiting) {
    const size_t at = table_.At(task.stage, task.micro);
    int32_t reader = task.stage;
    if (task.kind == TaskKind::kForward) {
      forward_[at] = end;
      ++reader;
    } else if (task.SendsBack()) {
      back_[at] = end;
      --reader;
    } else {
      return;
    }
    if (reader < 0 || reader >= table_.stages) return;
    waiting.push_back(static_cast<size_t>(table_.RankOf(reader, task.micro)));
  }

  const Table& table_;
  const Times& times_;
  // The end times of the F tasks and of the B or I tasks, indexed by stage and
  // micro-batch (Table::At).
  std::vector<double> forward_, back_;
};

double Bubble(const std::vector<RankTime>& ranks, double length) {
  double busy = 0;
  for (const RankTime& rank : ranks) busy += rank.busy;
  const double all = length * static_cast<double>(ranks.size());
  return all > 0 ? std::max(0.0, 1 - busy / all) : 0;
}

}  // namespace

double Timeline::LongestRank() const {
  double out = 0;
  for (const RankTime& rank : ranks) {
    out = std::max(out, rank.last - rank.first);
  }
  return out;
}

double Timeline::StepBubble() const { return Bubble(ranks, step); }

double Timeline::RankBubble() const { return Bubble(ranks, LongestRank()); }

Timeline Simulate(const Table& table, const Times& times) {
  return Simulation(table, times).Run();
}

std::vector<int64_t> HeldByRank(const Table& table,
                                std::span<const int64_t> weights) {
  std::vector<int64_t> out;
  for (const auto& row : table.rows) {
    int64_t held = 0, most = 0;
    for (const Cell& cell : row) {
      ForEachTask(cell, [&](const Task& task) {
        const int64_t weight =
            weights.empty() ? 1 : weights[static_cast<size_t>(task.stage)];
        if (task.kind == TaskKind::kForward) {
          held = (Size(held) + weight).value();
        } else if (task.kind != TaskKind::kInput) {
          held -= weight;
        }
        most = std::max(most, held);
      });
    }
    out.push_back(most);
  }
  return out;
}

}  // namespace shardc::schedule
