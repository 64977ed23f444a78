// The sends and receives of a pipeline schedule, and the proof that no rank
// blocks for ever or receives the wrong message.
//
// Sends block while the channel holds `capacity` messages; with capacity 0 a
// send waits for its receive. Programs without branches over such channels are
// confluent: in whatever order the ranks continue, the same messages match and
// the same ranks block. One run therefore shows whether ranks block, and no
// search of interleavings is needed.
#ifndef SHARDC_SCHEDULE_CHANNELS_H_
#define SHARDC_SCHEDULE_CHANNELS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedule/table.h"

namespace shardc::schedule {

// The order of the receives in a rank's program.
enum class Receives : uint8_t {
  // In the order of the sends, as in PyTorch's pipelines: the programs are
  // built cell by cell, ranks in turn. A cell that sends a message also appends
  // the receive to the other rank's program.
  kInSendOrder,
  kAtUse,         // before the task that reads the message
  kAtUseBatched,  // as kAtUse; neighbouring sends and receives are batched
};

enum class ChannelScope : uint8_t {
  kPair,         // one channel from a rank to another
  kPairAndKind,  // one for activations and one for gradients
};

// An activation that stage `stage` sends forward, or a gradient that it sends
// back.
struct Message {
  bool forward = true;
  int32_t stage = 0;
  int32_t micro = 0;

  bool operator==(const Message&) const = default;
};

enum class OperationKind : uint8_t { kTask, kSend, kReceive };

struct Operation {
  OperationKind kind = OperationKind::kTask;
  Message message = {};  // of a send or a receive
  int32_t peer = 0;      // the other rank
  int32_t position = 0;  // of a task: index of its cell in the row
  // Whether the operation is posted together with the operation before it.
  bool batched = false;
};

// The operations of each rank, in order.
using Programs = std::vector<std::vector<Operation>>;

// Returns the programs of a table, whose order CheckOrder must have proven.
// There are no messages between stages of one rank.
Programs Lower(const Table& table, Receives receives);

inline constexpr int64_t kUnbounded = INT64_MAX;

struct ChannelRun {
  bool passes = false;
  bool mismatch = false;  // a receive got another message
  int32_t rank = 0;       // rank of the operation that failed; else 0
  std::string text;       // the failure; empty if the run passes
  // The largest number of messages that waited in one channel.
  int64_t most_waiting = 0;
};
ChannelRun RunChannels(const Programs& programs, int64_t capacity,
                       ChannelScope scope);

// Returns the least capacity with which the run passes, or nullopt if it fails
// even with an unbounded capacity: a rank blocks for ever, a receive gets
// another message, or a message is never received.
std::optional<int64_t> LeastCapacity(const Programs& programs,
                                     ChannelScope scope);

// Returns a send or a receive as PyTorch prints it, such as "3SEND_F1" or
// "4RECV_F1", and a task as CellText prints it.
std::string OperationText(const Table& table, int32_t rank,
                          const Operation& operation);

}  // namespace shardc::schedule

#endif  // SHARDC_SCHEDULE_CHANNELS_H_
