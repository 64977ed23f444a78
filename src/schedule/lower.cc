// Computes the sends and receives that the tasks of a table need. A send
// follows the task that computes the message. For example, with 2 ranks and 1
// micro-batch, rank 0 sends the activations of its forward task 0F0 to rank 1:
//
//   rank 0   0F0 0SEND_F0 0RECV_B0 0B0
//   rank 1   1RECV_F0 1F0 1B0 1SEND_B0
#include <algorithm>
#include <set>

#include "schedule/channels.h"
#include "schedule/order.h"

namespace shardc::schedule {
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

Programs LowerAtUse(const Table& table, bool batched) {
  Programs out(table.rows.size());
  for (size_t rank = 0; rank < table.rows.size(); ++rank) {
    auto& program = out[rank];
    const auto append = [&](OperationKind kind, const Sent& sent) {
      const bool joins = batched && !program.empty() &&
                         program.back().kind != OperationKind::kTask;
      program.push_back({kind, sent.message, sent.to, 0, joins});
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
class SendOrderLowering {
 public:
  explicit SendOrderLowering(const Table& table)
      : table_(table),
        out_(table.rows.size()),
        next_(table.rows.size()),
        forward_(table.owners.size()),
        back_(table.owners.size()) {}

  Programs Run() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (size_t rank = 0; rank < table_.rows.size(); ++rank) {
        const auto& row = table_.rows[rank];
        if (next_[rank] == row.size() || !IsReady(row[next_[rank]])) continue;
        Place(static_cast<int32_t>(rank), row[next_[rank]]);
        ++next_[rank];
        progress = true;
      }
    }
    return std::move(out_);
  }

 private:
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
