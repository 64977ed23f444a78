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
#include <map>
#include <tuple>

namespace shardc::schedule {
namespace {

std::string MessageText(const Message& message) {
  return std::string(message.forward ? "the activation" : "the gradient") +
         " of micro-batch " + std::to_string(message.micro) + " from stage " +
         std::to_string(message.stage);
}

// A send or a receive that its rank has posted.
struct Posted {
  Message message;
  int32_t rank = 0;
  bool complete = false;
};

struct Channel {
  std::deque<Posted> sends, receives;
  // The number of sends that are complete although no receive has taken their
  // messages, because the channel had room for these.
  int64_t complete_sends = 0;
};

class Runner {
 public:
  Runner(const Programs& programs, int64_t capacity, ChannelScope scope)
      : programs_(programs),
        capacity_(capacity),
        scope_(scope),
        next_(programs.size()),
        open_(programs.size()) {}

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
  using Key = std::tuple<int32_t, int32_t, bool>;

  // Returns the channel of one of the rank's sends or receives.
  Channel& ChannelOf(int32_t rank, const Operation& operation) {
    const bool sends = operation.kind == OperationKind::kSend;
    return channels_[Key{
        sends ? rank : operation.peer, sends ? operation.peer : rank,
        scope_ == ChannelScope::kPairAndKind && operation.message.forward}];
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
      for (size_t i = first; i < next_[r]; ++i) Post(rank, program[i]);
      if (out_.mismatch) return;
    }
  }

  void Post(int32_t rank, const Operation& operation) {
    if (operation.kind == OperationKind::kTask) return;
    Channel& channel = ChannelOf(rank, operation);
    const bool sends = operation.kind == OperationKind::kSend;
    (sends ? channel.sends : channel.receives)
        .push_back({operation.message, rank, false});
    Match(channel);
  }

  void Complete(int32_t rank) {
    if (--open_[static_cast<size_t>(rank)] == 0) ready_.push_back(rank);
  }

  void Match(Channel& channel) {
    while (!channel.sends.empty() && !channel.receives.empty()) {
      const Posted sent = channel.sends.front();
      const Posted received = channel.receives.front();
      if (!(sent.message == received.message)) {
        out_.mismatch = true;
        out_.rank = received.rank;
        out_.text = "rank " + std::to_string(received.rank) + " receives " +
                    MessageText(sent.message) + " from rank " +
                    std::to_string(sent.rank) + " where it expects " +
                    MessageText(received.message);
        return;
      }
      channel.sends.pop_front();
      channel.receives.pop_front();
      if (sent.complete) {
        --channel.complete_sends;
      } else {
        Complete(sent.rank);
      }
      Complete(received.rank);
    }
    const auto waiting = static_cast<int64_t>(channel.sends.size());
    out_.most_waiting = std::max(out_.most_waiting, waiting);
    while (channel.complete_sends < std::min(waiting, capacity_)) {
      Posted& sent =
          channel.sends[static_cast<size_t>(channel.complete_sends++)];
      sent.complete = true;
      Complete(sent.rank);
    }
  }

  // Returns whether the rank has posted this send or receive, and the operation
  // is not complete.
  bool IsOpen(int32_t rank, const Operation& operation) {
    if (operation.kind == OperationKind::kTask) return false;
    const Channel& channel = ChannelOf(rank, operation);
    const auto& posted = operation.kind == OperationKind::kSend
                             ? channel.sends
                             : channel.receives;
    return std::any_of(posted.begin(), posted.end(), [&](const Posted& one) {
      return !one.complete && one.message == operation.message;
    });
  }

  // Reports the first incomplete operation of the batch that the rank posted
  // last.
  void AddBlocked(int32_t rank) {
    const auto r = static_cast<size_t>(rank);
    const auto& program = programs_[r];
    size_t at = next_[r] - 1;
    while (at > 0 && program[at].batched) --at;
    while (at + 1 < next_[r] && !IsOpen(rank, program[at])) ++at;
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
    for (const auto& [key, channel] : channels_) {
      if (channel.sends.empty()) continue;
      const Posted& sent = channel.sends.front();
      out_.rank = sent.rank;
      out_.text = MessageText(sent.message) + ", which rank " +
                  std::to_string(sent.rank) + " sends to rank " +
                  std::to_string(std::get<1>(key)) + ", is never received";
      return false;
    }
    return true;
  }

  const Programs& programs_;
  int64_t capacity_;
  ChannelScope scope_;
  // Indexed by rank: the index of its next operation.
  std::vector<size_t> next_;
  // Indexed by rank: the number of its incomplete operations.
  std::vector<int64_t> open_;
  // The ranks that can continue.
  std::deque<int32_t> ready_;
  std::map<Key, Channel> channels_;
  ChannelRun out_;
};

}  // namespace

ChannelRun RunChannels(const Programs& programs, int64_t capacity,
                       ChannelScope scope) {
  return Runner(programs, capacity, scope).Run();
}

std::optional<int64_t> LeastCapacity(const Programs& programs,
                                     ChannelScope scope) {
  const ChannelRun unbounded = RunChannels(programs, kUnbounded, scope);
  if (!unbounded.passes) return std::nullopt;
  // Programs that run with one capacity also run with every larger one.
  // Bisection therefore finds the least capacity.
  int64_t low = 0, high = unbounded.most_waiting;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (RunChannels(programs, middle, scope).passes) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace shardc::schedule
