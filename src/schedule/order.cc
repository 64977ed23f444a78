// Proves the order of a table's tasks. First, all tasks are entered in a list
// by stage and micro-batch. This finds tasks that are missing, repeated, on the
// wrong rank or in the wrong order within a row. Then the rows are simulated
// without times: each rank continues while the tasks that its next cell needs
// are done. If all ranks stop before the ends of their rows, they wait for each
// other. For 2 ranks and the rows
//
//   rank 0   0F0 0B0 0F1 0B1
//   rank 1   1F0 1F1 1B0 1B1
//
// rank 0 waits at `0B0` for `1B0`. Rank 1 cannot reach `1B0`, because it waits
// at `1F1` for `0F1`, which comes after `0B0`.
#include "schedule/order.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "source/size.h"
#include "source/wording.h"

namespace shardc::schedule {
namespace {

constexpr int32_t kNever = -1;

struct Seen {
  // Indexed by TaskKind: the position of the task in the owner's row; kNever if
  // it has not been seen.
  std::array<int32_t, 4> at = {kNever, kNever, kNever, kNever};
};

class OrderCheck {
 public:
  OrderCheck(const Table& table, size_t most)
      : table_(table), most_(most), seen_(table.owners.size()) {}

  std::vector<Fault> Run() {
    for (int32_t rank = 0; rank < table_.ranks(); ++rank) CheckRow(rank);
    CheckComplete();
    if (faults_.empty()) CheckCycles();
    std::stable_sort(
        faults_.begin(), faults_.end(), [](const Fault& a, const Fault& b) {
          return std::tie(a.rank, a.position) < std::tie(b.rank, b.position);
        });
    return std::move(faults_);
  }

 private:
  void Add(int32_t rank, int32_t position, std::string text) {
    if (faults_.size() < most_) {
      faults_.push_back({rank, position, std::move(text)});
    }
  }

  static std::string Name(const Task& task, TaskKind kind) {
    return "`" + TaskText({kind, task.stage, task.micro}) + "`";
  }

  void CheckRow(int32_t rank) {
    const auto& row = table_.rows[static_cast<size_t>(rank)];
    for (size_t i = 0; i < row.size(); ++i) {
      ForEachTask(row[i], [&](const Task& task) {
        CheckTask(rank, static_cast<int32_t>(i), task);
      });
    }
  }

  void CheckTask(int32_t rank, int32_t position, const Task& task) {
    const std::string name = Name(task, task.kind);
    const int32_t owner = table_.RankOf(task.stage, task.micro);
    if (owner != rank) {
      Add(rank, position,
          name + " is on rank " + std::to_string(rank) + ", but stage " +
              std::to_string(task.stage) + " of micro-batch " +
              std::to_string(task.micro) + " is on rank " +
              std::to_string(owner));
      return;
    }
    auto& at = seen_[table_.At(task.stage, task.micro)].at;
    const auto done = [&](TaskKind kind) {
      return at[static_cast<size_t>(kind)] != kNever;
    };
    if (done(task.kind)) {
      Add(rank, position, name + " runs a second time");
      return;
    }
    switch (task.kind) {
      case TaskKind::kForward:
        break;
      case TaskKind::kBackward:
      case TaskKind::kInput: {
        const TaskKind other = task.kind == TaskKind::kInput
                                   ? TaskKind::kBackward
                                   : TaskKind::kInput;
        if (done(other)) {
          Add(rank, position,
              name + " computes the gradient of the input that " +
                  Name(task, other) + " computed before");
        } else if (!done(TaskKind::kForward)) {
          Add(rank, position,
              name + " runs before " + Name(task, TaskKind::kForward));
        } else if (at[static_cast<size_t>(TaskKind::kForward)] == position) {
          Add(rank, position,
              name + " is overlapped with " + Name(task, TaskKind::kForward) +
                  ", whose result it reads");
        }
        break;
      }
      case TaskKind::kWeight:
        if (done(TaskKind::kBackward)) {
          Add(rank, position,
              name + " computes the gradients of the weights that " +
                  Name(task, TaskKind::kBackward) + " computed before");
        } else if (!done(TaskKind::kInput)) {
          Add(rank, position,
              name + " runs before " + Name(task, TaskKind::kInput));
        }
        break;
    }
    at[static_cast<size_t>(task.kind)] = position;
  }

  void CheckComplete() {
    for (int32_t stage = 0; stage < table_.stages; ++stage) {
      for (int32_t micro = 0; micro < table_.microbatches; ++micro) {
        CheckComplete(stage, micro);
      }
    }
  }

  void CheckComplete(int32_t stage, int32_t micro) {
    const int32_t owner = table_.RankOf(stage, micro);
    const auto end =
        static_cast<int32_t>(table_.rows[static_cast<size_t>(owner)].size());
    const auto& at = seen_[table_.At(stage, micro)].at;
    const auto done = [&](TaskKind kind) {
      return at[static_cast<size_t>(kind)] != kNever;
    };
    const Task task{TaskKind::kForward, stage, micro};
    if (!done(TaskKind::kForward)) {
      Add(owner, end, Name(task, TaskKind::kForward) + " is missing");
    }
    if (!done(TaskKind::kBackward) && !done(TaskKind::kInput)) {
      Add(owner, end,
          Name(task, TaskKind::kBackward) + " or " +
              Name(task, TaskKind::kInput) + " is missing");
    }
    if (done(TaskKind::kInput) && !done(TaskKind::kWeight)) {
      Add(owner, end,
          Name(task, TaskKind::kWeight) +
              " is missing, which computes the "
              "gradients of the weights after " +
              Name(task, TaskKind::kInput));
    }
  }

  // Simulates the rows until no rank can continue, and reports a cycle if a
  // rank has not reached the end of its row.
  void CheckCycles() {
    const auto ranks = static_cast<size_t>(table_.ranks());
    std::vector<size_t> next(ranks, 0);
    std::vector<int32_t> waiting(ranks);
    for (size_t r = 0; r < ranks; ++r) waiting[r] = static_cast<int32_t>(r);
    forward_.assign(table_.owners.size(), false);
    back_.assign(table_.owners.size(), false);
    while (!waiting.empty()) {
      const auto rank = static_cast<size_t>(waiting.back());
      waiting.pop_back();
      const auto& row = table_.rows[rank];
      for (; next[rank] < row.size() && IsReady(row[next[rank]]);
           ++next[rank]) {
        ForEachTask(row[next[rank]], [&](const Task& task) {
          if (const auto reader = Finish(task)) waiting.push_back(*reader);
        });
      }
    }
    for (size_t rank = 0; rank < ranks; ++rank) {
      if (next[rank] < table_.rows[rank].size()) {
        AddCycle(static_cast<int32_t>(rank), next);
        return;
      }
    }
  }

  bool IsDone(const Task& task) const {
    const size_t at = table_.At(task.stage, task.micro);
    return task.kind == TaskKind::kForward ? forward_[at] : back_[at];
  }

  bool IsReady(const Cell& cell) const {
    bool ready = true;
    ForEachTask(cell, [&](const Task& task) {
      const auto needed = NeededFromNeighbour(task, table_.stages);
      ready = ready && (!needed || IsDone(*needed));
    });
    return ready;
  }

  // Marks a task as done. Returns the rank that may wait for this task; nullopt
  // if there is no such rank.
  std::optional<int32_t> Finish(const Task& task) {
    const size_t at = table_.At(task.stage, task.micro);
    if (task.kind == TaskKind::kForward) {
      forward_[at] = true;
      if (task.stage + 1 == table_.stages) return std::nullopt;
      return table_.RankOf(task.stage + 1, task.micro);
    }
    if (!task.SendsBack()) return std::nullopt;
    back_[at] = true;
    if (task.stage == 0) return std::nullopt;
    return table_.RankOf(task.stage - 1, task.micro);
  }

  // Follows the ranks that wait for each other until a rank repeats. Reports
  // the cycle that was found.
  void AddCycle(int32_t rank, const std::vector<size_t>& next) {
    std::vector<int32_t> met;
    std::vector<std::string> words;
    std::vector<bool> is_met(table_.rows.size());
    while (!is_met[static_cast<size_t>(rank)]) {
      is_met[static_cast<size_t>(rank)] = true;
      met.push_back(rank);
      const Cell& cell =
          table_
              .rows[static_cast<size_t>(rank)][next[static_cast<size_t>(rank)]];
      Task needed;
      ForEachTask(cell, [&](const Task& task) {
        const auto one = NeededFromNeighbour(task, table_.stages);
        if (one && !IsDone(*one)) needed = *one;
      });
      words.push_back("rank " + std::to_string(rank) + " waits in `" +
                      CellText(cell) + "` for `" + TaskText(needed) + "`");
      rank = table_.RankOf(needed.stage, needed.micro);
    }
    const auto first = std::find(met.begin(), met.end(), rank) - met.begin();
    std::string text = "ranks wait for each other in a cycle: ";
    constexpr size_t kShown = 16;
    const auto begin = static_cast<size_t>(first);
    const size_t end = std::min(words.size(), begin + kShown);
    for (size_t i = begin; i < end; ++i) {
      if (i > begin) text += ", ";
      text += words[i];
    }
    if (end < words.size()) {
      text += ", and " + CountText(static_cast<int64_t>(words.size() - end)) +
              " more";
    }
    Add(rank, static_cast<int32_t>(next[static_cast<size_t>(rank)]),
        std::move(text));
  }

  const Table& table_;
  size_t most_;
  std::vector<Seen> seen_;
  std::vector<bool> forward_, back_;
  std::vector<Fault> faults_;
};

}  // namespace

std::optional<Task> NeededFromNeighbour(const Task& task, int32_t stages) {
  if (task.kind == TaskKind::kForward && task.stage > 0) {
    return Task{TaskKind::kForward, task.stage - 1, task.micro};
  }
  if (task.SendsBack() && task.stage + 1 < stages) {
    return Task{TaskKind::kBackward, task.stage + 1, task.micro};
  }
  return std::nullopt;
}

std::vector<Fault> CheckOrder(const Table& table, size_t most) {
  return OrderCheck(table, most).Run();
}

// Computes when each task of a table begins and ends. A cell begins when its
// rank is free and all messages that its tasks read have arrived. For example,
// in 1f1b on 2 ranks with 2 micro-batches, where F takes 1 tick and B takes 2:
//
//   rank 0   0F0 0F1  .   .  0B0----  .  0B1----    9 ticks
//   rank 1    .  1F0 1B0---- 1F1 1B1----  .   .

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

std::vector<int64_t> HeldByStage(const Table& table) {
  std::vector<int64_t> most(AsIndex(table.stages), 0);
  // One list for all ranks: each clears the entries of its own stages.
  std::vector<int64_t> held(most.size(), 0);
  for (const auto& row : table.rows) {
    for (const Cell& cell : row) {
      ForEachTask(cell,
                  [&](const Task& task) { held[AsIndex(task.stage)] = 0; });
    }
    for (const Cell& cell : row) {
      ForEachTask(cell, [&](const Task& task) {
        const size_t stage = AsIndex(task.stage);
        if (task.kind == TaskKind::kForward) {
          most[stage] = std::max(most[stage], ++held[stage]);
        } else if (task.kind != TaskKind::kInput) {
          --held[stage];
        }
      });
    }
  }
  return most;
}

}  // namespace shardc::schedule
