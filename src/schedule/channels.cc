// Simulates the sends and receives of all ranks of a pipeline, to find out
// whether a rank blocks for ever. A batch is a group of sends and receives that
// a rank posts together. Each rank posts its next batch and continues when all
// operations of the batch are complete. A posted receive takes the oldest
// message of its channel. A send is complete when its message is taken, or when
// the channel has room for the message. For a channel of capacity 1 and the
// programs
//
//   rank 0   send a, send b        rank 1   receive b, receive a
//
// the first receive takes a, because messages of one channel arrive in order.
// The run fails, because rank 1 expects b.
#include "schedule/channels.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "schedule/order.h"

namespace shardc::schedule {
namespace {

std::string MessageText(const Message& message) {
  return std::string(message.forward ? "the activation" : "the gradient") +
         " of micro-batch " + std::to_string(message.micro) + " from stage " +
         std::to_string(message.stage);
}

// The k-th send of a channel meets its k-th receive, whatever the order in
// which the ranks continue, because messages arrive in order and each end is
// one rank. The lists are therefore known before a run, and a run only counts.
struct Channel {
  int32_t from = 0, to = 0;
  // The positions of the sends in the program of `from`, and of the receives in
  // that of `to`.
  std::vector<uint32_t> sends, receives;
};

// The channels of the programs.
struct Wiring {
  std::vector<Channel> channels;
  // Indexed as the programs: the channel of a send or a receive.
  std::vector<std::vector<uint32_t>> channel_of;
};

// Gives the channels of one rank by the rank at the other end, in constant time
// for each operation also where a rank has many peers.
class Peers {
 public:
  Peers(size_t ranks, ChannelScope scope)
      : by_kind_(scope == ChannelScope::kPairAndKind),
        known_(2 * ranks, kNone) {}

  uint32_t& At(int32_t peer, const Message& message) {
    return At(peer, by_kind_ && message.forward);
  }
  uint32_t& At(int32_t peer, bool forward) {
    const size_t at = 2 * static_cast<size_t>(peer) + (forward ? 1 : 0);
    if (known_[at] == kNone) used_.push_back(at);
    return known_[at];
  }
  void Clear() {
    for (const size_t at : used_) known_[at] = kNone;
    used_.clear();
  }

  static constexpr uint32_t kNone = UINT32_MAX;

 private:
  bool by_kind_;
  std::vector<uint32_t> known_;
  std::vector<size_t> used_;
};

Wiring Wire(const Programs& programs, ChannelScope scope) {
  Wiring out;
  out.channel_of.resize(programs.size());
  // Indexed by the receiving rank: its channels, and whether they are for
  // activations alone.
  std::vector<std::vector<std::pair<uint32_t, bool>>> incoming(programs.size());
  const bool by_kind = scope == ChannelScope::kPairAndKind;
  Peers peers(programs.size(), scope);
  const auto add = [&](int32_t from, int32_t to, const Message& message) {
    const auto channel = static_cast<uint32_t>(out.channels.size());
    out.channels.push_back({from, to, {}, {}});
    incoming[static_cast<size_t>(to)].emplace_back(channel,
                                                   by_kind && message.forward);
    return channel;
  };
  const auto each = [&](size_t rank, OperationKind kind, const auto& visit) {
    const auto& program = programs[rank];
    for (size_t i = 0; i < program.size(); ++i) {
      if (program[i].kind != kind) continue;
      visit(program[i], static_cast<uint32_t>(i), out.channel_of[rank][i]);
    }
  };
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    out.channel_of[rank].resize(programs[rank].size(), Peers::kNone);
    each(rank, OperationKind::kSend,
         [&](const Operation& operation, uint32_t position, uint32_t& channel) {
           uint32_t& known = peers.At(operation.peer, operation.message);
           if (known == Peers::kNone) {
             known = add(static_cast<int32_t>(rank), operation.peer,
                         operation.message);
           }
           channel = known;
           out.channels[channel].sends.push_back(position);
         });
    peers.Clear();
  }
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    for (const auto& [channel, forward] : incoming[rank]) {
      peers.At(out.channels[channel].from, forward) = channel;
    }
    each(rank, OperationKind::kReceive,
         [&](const Operation& operation, uint32_t position, uint32_t& channel) {
           uint32_t& known = peers.At(operation.peer, operation.message);
           if (known == Peers::kNone) {
             known = add(operation.peer, static_cast<int32_t>(rank),
                         operation.message);
           }
           channel = known;
           out.channels[channel].receives.push_back(position);
         });
    peers.Clear();
  }
  return out;
}

class Runner {
 public:
  Runner(const Programs& programs, const Wiring& wiring, int64_t capacity)
      : programs_(programs),
        wiring_(wiring),
        capacity_(capacity),
        next_(programs.size()),
        open_(programs.size()),
        counts_(wiring.channels.size()) {}

  ChannelRun Run() {
    for (size_t rank = 0; rank < programs_.size(); ++rank) {
      ready_.push_back(static_cast<int32_t>(rank));
    }
    while (!ready_.empty() && !out_.mismatch) {
      const int32_t rank = ready_.front();
      ready_.pop_front();
      Advance(rank);
    }
    if (out_.mismatch) return out_;
    for (size_t rank = 0; rank < programs_.size(); ++rank) {
      if (open_[rank] > 0 || next_[rank] < programs_[rank].size()) {
        AddBlocked(static_cast<int32_t>(rank));
        return out_;
      }
    }
    out_.passes = LeftOver();
    return out_;
  }

 private:
  // The operations of one channel that ranks have posted, the pairs that have
  // met, and the sends that are complete: those that have met, and those whose
  // messages the channel had room for.
  struct Counts {
    int64_t sends = 0, receives = 0, met = 0, complete = 0;
  };

  // Return the message of the send, or of the receive, number k of a channel.
  const Message& SentAs(const Channel& channel, size_t k) const {
    return programs_[static_cast<size_t>(channel.from)][channel.sends[k]]
        .message;
  }
  const Message& ReceivedAs(const Channel& channel, size_t k) const {
    return programs_[static_cast<size_t>(channel.to)][channel.receives[k]]
        .message;
  }

  // Posts one batch of the rank after the other, until the rank must wait for
  // an operation of a batch.
  void Advance(int32_t rank) {
    const auto r = static_cast<size_t>(rank);
    const auto& program = programs_[r];
    while (open_[r] == 0 && next_[r] < program.size()) {
      const size_t first = next_[r];
      do {
        ++next_[r];
      } while (next_[r] < program.size() && program[next_[r]].batched);
      // All operations of the batch are counted as incomplete before Post()
      // completes one of them, because the rank continues when the count is 0.
      for (size_t i = first; i < next_[r]; ++i) {
        if (program[i].kind != OperationKind::kTask) ++open_[r];
      }
      for (size_t i = first; i < next_[r]; ++i) Post(r, i);
      if (out_.mismatch) return;
    }
  }

  void Post(size_t rank, size_t position) {
    const OperationKind kind = programs_[rank][position].kind;
    if (kind == OperationKind::kTask) return;
    const uint32_t channel = wiring_.channel_of[rank][position];
    Counts& counts = counts_[channel];
    ++(kind == OperationKind::kSend ? counts.sends : counts.receives);
    Match(wiring_.channels[channel], counts);
  }

  void Complete(int32_t rank) {
    if (--open_[static_cast<size_t>(rank)] == 0) ready_.push_back(rank);
  }

  void Match(const Channel& channel, Counts& counts) {
    while (counts.met < std::min(counts.sends, counts.receives)) {
      const auto at = static_cast<size_t>(counts.met);
      const Message& sent = SentAs(channel, at);
      const Message& received = ReceivedAs(channel, at);
      if (!(sent == received)) {
        out_.mismatch = true;
        out_.rank = channel.to;
        out_.text = "rank " + std::to_string(channel.to) + " receives " +
                    MessageText(sent) + " from rank " +
                    std::to_string(channel.from) + " where it expects " +
                    MessageText(received);
        return;
      }
      if (counts.complete == counts.met++) {
        ++counts.complete;
        Complete(channel.from);
      }
      Complete(channel.to);
    }
    const int64_t waiting = counts.sends - counts.met;
    out_.most_waiting = std::max(out_.most_waiting, waiting);
    while (counts.complete - counts.met < std::min(waiting, capacity_)) {
      ++counts.complete;
      Complete(channel.from);
    }
  }

  // Returns whether the rank has posted this send or receive, and the operation
  // is not complete.
  bool IsOpen(size_t rank, size_t position) const {
    const Operation& operation = programs_[rank][position];
    if (operation.kind == OperationKind::kTask) return false;
    const uint32_t at = wiring_.channel_of[rank][position];
    const Channel& channel = wiring_.channels[at];
    const Counts& counts = counts_[at];
    const bool sends = operation.kind == OperationKind::kSend;
    const auto& all = sends ? channel.sends : channel.receives;
    const auto begin = all.begin();
    return std::find(begin + (sends ? counts.complete : counts.met),
                     begin + (sends ? counts.sends : counts.receives),
                     static_cast<uint32_t>(position)) !=
           begin + (sends ? counts.sends : counts.receives);
  }

  // Reports the first incomplete operation of the batch that the rank posted
  // last.
  void AddBlocked(int32_t rank) {
    const auto r = static_cast<size_t>(rank);
    const auto& program = programs_[r];
    size_t at = next_[r] - 1;
    while (at > 0 && program[at].batched) --at;
    while (at + 1 < next_[r] && !IsOpen(r, at)) ++at;
    const Operation& operation = program[at];
    out_.rank = rank;
    out_.text =
        "rank " + std::to_string(rank) + " waits for ever to " +
        (operation.kind == OperationKind::kSend ? "send " : "receive ") +
        MessageText(operation.message) +
        (operation.kind == OperationKind::kSend ? " to rank " : " from rank ") +
        std::to_string(operation.peer);
  }

  // Returns true if every message was received. Otherwise reports one message
  // that was not received, and returns false.
  bool LeftOver() {
    const Channel* first = nullptr;
    Message message;
    for (size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i].sends == counts_[i].met) continue;
      const Channel& channel = wiring_.channels[i];
      const Message& left =
          SentAs(channel, static_cast<size_t>(counts_[i].met));
      const auto order = [](const Channel& one, const Message& sent) {
        return std::tuple(one.from, one.to, sent.forward);
      };
      if (!first || order(channel, left) < order(*first, message)) {
        first = &channel;
        message = left;
      }
    }
    if (!first) return true;
    out_.rank = first->from;
    out_.text = MessageText(message) + ", which rank " +
                std::to_string(first->from) + " sends to rank " +
                std::to_string(first->to) + ", is never received";
    return false;
  }

  const Programs& programs_;
  const Wiring& wiring_;
  int64_t capacity_;
  // Indexed by rank: the index of its next operation.
  std::vector<size_t> next_;
  // Indexed by rank: the number of its incomplete operations.
  std::vector<int64_t> open_;
  // The ranks that can continue.
  std::deque<int32_t> ready_;
  std::vector<Counts> counts_;  // indexed as the channels
  ChannelRun out_;
};

}  // namespace

ChannelRun RunChannels(const Programs& programs, int64_t capacity,
                       ChannelScope scope) {
  return Runner(programs, Wire(programs, scope), capacity).Run();
}

std::optional<int64_t> LeastCapacity(const Programs& programs,
                                     ChannelScope scope) {
  const Wiring wiring = Wire(programs, scope);
  const auto run = [&](int64_t capacity) {
    return Runner(programs, wiring, capacity).Run();
  };
  if (run(0).passes) return 0;
  const ChannelRun unbounded = run(kUnbounded);
  if (!unbounded.passes) return std::nullopt;
  // Programs that run with one capacity also run with every larger one. Most
  // run with one or two, and a run that blocks ends early: the capacity is
  // doubled until one suffices, and bisected below that.
  int64_t low = 1, high = 1;
  while (high < unbounded.most_waiting && !run(high).passes) {
    low = high + 1;
    high = std::min(2 * high, unbounded.most_waiting);
  }
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (run(middle).passes) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Computes the sends and receives that the tasks of a table need. A send
// follows the task that computes the message. For example, with 2 ranks and 1
// micro-batch, rank 0 sends the activations of its forward task 0F0 to rank 1:
//
//   rank 0   0F0 0SEND_F0 0RECV_B0 0B0
//   rank 1   1RECV_F0 1F0 1B0 1SEND_B0

namespace {

// A message, and the rank at the other end. SentBy() returns the message that a
// task sends to another rank, and `to` is the receiver. ReadBy() returns the
// message that a task reads from another rank, and `to` is the sender. Both
// return nullopt if there is no such message.
struct Sent {
  Message message;
  int32_t to = 0;
};

std::optional<Sent> SentBy(const Table& table, const Task& task) {
  const bool forward = task.kind == TaskKind::kForward;
  const int32_t stage = task.stage + (forward ? 1 : -1);
  if (stage < 0 || stage >= table.stages) return std::nullopt;
  if (!forward && !task.SendsBack()) return std::nullopt;
  const int32_t to = table.RankOf(stage, task.micro);
  if (to == table.RankOf(task.stage, task.micro)) return std::nullopt;
  return Sent{{forward, task.stage, task.micro}, to};
}

// Returns the message from another rank that a task reads, with the sender;
// nullopt if the task reads no such message.
std::optional<Sent> ReadBy(const Table& table, const Task& task) {
  const auto needed = NeededFromNeighbour(task, table.stages);
  if (!needed) return std::nullopt;
  const int32_t from = table.RankOf(needed->stage, needed->micro);
  if (from == table.RankOf(task.stage, task.micro)) return std::nullopt;
  return Sent{
      {needed->kind == TaskKind::kForward, needed->stage, needed->micro}, from};
}

// Returns the number of operations of a rank: its tasks, and what these send
// and read.
size_t OperationsOf(const Table& table, const std::vector<Cell>& row) {
  size_t out = row.size();
  for (const Cell& cell : row) {
    ForEachTask(cell, [&](const Task& task) {
      if (SentBy(table, task)) ++out;
      if (ReadBy(table, task)) ++out;
    });
  }
  return out;
}

Programs LowerAtUse(const Table& table, bool batched) {
  Programs out(table.rows.size());
  for (size_t rank = 0; rank < table.rows.size(); ++rank) {
    auto& program = out[rank];
    program.reserve(OperationsOf(table, table.rows[rank]));
    const auto append = [&](OperationKind kind, const Sent& sent) {
      const bool joins = batched && !program.empty() &&
                         program.back().kind != OperationKind::kTask;
      program.push_back({kind, joins, sent.message, sent.to, 0});
    };
    for (size_t i = 0; i < table.rows[rank].size(); ++i) {
      const Cell& cell = table.rows[rank][i];
      ForEachTask(cell, [&](const Task& task) {
        const auto read = ReadBy(table, task);
        if (read) append(OperationKind::kReceive, *read);
      });
      program.push_back(
          {.kind = OperationKind::kTask, .position = static_cast<int32_t>(i)});
      ForEachTask(cell, [&](const Task& task) {
        const auto sent = SentBy(table, task);
        if (sent) append(OperationKind::kSend, *sent);
      });
    }
  }
  return out;
}

// Builds the programs in the order of PyTorch's pipelines. The ranks are
// visited in turn, and the next cell (a task or two overlapped tasks) of each
// rank is added if the cell is ready. A cell is ready if all its operands are
// available. An operand is available if the same rank has computed it, or if
// the receive of the operand is already in the rank's program.
//
// A rank whose cell is not ready is visited again only when one of the cell's
// operands has become available, because every other visit would add nothing.
// The work is therefore proportional to the tasks, and not to the ranks times
// the turns.
class SendOrderLowering {
 public:
  explicit SendOrderLowering(const Table& table)
      : table_(table),
        out_(table.rows.size()),
        next_(table.rows.size()),
        queued_(table.rows.size()),
        forward_(table.owners.size()),
        back_(table.owners.size()) {
    for (size_t rank = 0; rank < out_.size(); ++rank) {
      out_[rank].reserve(OperationsOf(table, table.rows[rank]));
    }
  }

  Programs Run() {
    for (int32_t rank = 0; rank < table_.ranks(); ++rank) Visit(rank, later_);
    while (!later_.empty()) {
      std::swap(now_, later_);
      while (!now_.empty()) {
        const int32_t rank = now_.top();
        now_.pop();
        const auto r = static_cast<size_t>(rank);
        queued_[r] = false;
        const auto& row = table_.rows[r];
        if (next_[r] == row.size() || !IsReady(row[next_[r]])) continue;
        Place(rank, row[next_[r]]);
        ++next_[r];
        Visit(rank, later_);
      }
    }
    return std::move(out_);
  }

 private:
  // Ranks to visit, the lowest first.
  using Queue =
      std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>>;

  void Visit(int32_t rank, Queue& queue) {
    const auto r = static_cast<size_t>(rank);
    if (queued_[r]) return;
    queued_[r] = true;
    queue.push(rank);
  }

  bool IsReady(const Cell& cell) const {
    bool ready = true;
    ForEachTask(cell, [&](const Task& task) {
      const auto needed = NeededFromNeighbour(task, table_.stages);
      if (!needed) return;
      const size_t at = table_.At(needed->stage, needed->micro);
      ready = ready &&
              (needed->kind == TaskKind::kForward ? forward_[at] : back_[at]);
    });
    return ready;
  }

  void Place(int32_t rank, const Cell& cell) {
    auto& program = out_[static_cast<size_t>(rank)];
    program.push_back(
        {.kind = OperationKind::kTask,
         .position = static_cast<int32_t>(next_[static_cast<size_t>(rank)])});
    ForEachTask(cell, [&](const Task& task) {
      const size_t at = table_.At(task.stage, task.micro);
      if (task.kind == TaskKind::kForward) {
        forward_[at] = true;
      } else if (task.SendsBack()) {
        back_[at] = true;
      }
      const auto sent = SentBy(table_, task);
      if (!sent) return;
      // A later rank has its turn still in this round.
      Visit(sent->to, sent->to > rank ? now_ : later_);
      program.push_back({.kind = OperationKind::kSend,
                         .message = sent->message,
                         .peer = sent->to});
      out_[static_cast<size_t>(sent->to)].push_back(
          {.kind = OperationKind::kReceive,
           .message = sent->message,
           .peer = rank});
    });
  }

  const Table& table_;
  Programs out_;
  std::vector<size_t> next_;
  // The ranks of this round and of the next one, and whether a rank is among
  // them. No rank after the one whose turn it is can be in `later_`.
  Queue now_, later_;
  std::vector<bool> queued_;
  std::vector<bool> forward_, back_;
};

}  // namespace

Programs Lower(const Table& table, Receives receives) {
  if (receives == Receives::kInSendOrder) return SendOrderLowering(table).Run();
  return LowerAtUse(table, receives == Receives::kAtUseBatched);
}

std::string OperationText(const Table& table, int32_t rank,
                          const Operation& operation) {
  if (operation.kind == OperationKind::kTask) {
    return CellText(table.rows[static_cast<size_t>(rank)]
                              [static_cast<size_t>(operation.position)]);
  }
  const Message& message = operation.message;
  const bool sends = operation.kind == OperationKind::kSend;
  const int32_t stage =
      sends ? message.stage : message.stage + (message.forward ? 1 : -1);
  return std::to_string(stage) + (sends ? "SEND_" : "RECV_") +
         (message.forward ? "F" : "B") + std::to_string(message.micro);
}

}  // namespace shardc::schedule
