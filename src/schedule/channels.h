// The sends and receives of a pipeline schedule, and a proof that no rank
// blocks for ever or receives a wrong message.
//
// A send blocks while its channel holds `capacity` messages; with capacity 0,
// it blocks until its receive is posted. Programs without branches over such
// channels are confluent: whatever the order in which the ranks continue, the
// same messages match and the same ranks block. One run therefore shows whether
// a rank blocks, and other interleavings need not be tried.
#ifndef SHARDC_SCHEDULE_CHANNELS_H_
#define SHARDC_SCHEDULE_CHANNELS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedule/table.h"

namespace shardc::schedule {

// Where the receives are placed in the programs of the ranks.
enum class Receives : uint8_t {
  // In the order of the sends, as in PyTorch's pipelines. The programs are
  // built by visiting the ranks in turn and appending the next task of each
  // rank. If the task sends a message, the receive of the message is appended
  // to the receiving rank's program at the same time.
  kInSendOrder,
  kAtUse,  // Directly before the task that reads the message.
  // Placed as with kAtUse. Neighbouring sends and receives form one batch.
  kAtUseBatched,
};

enum class ChannelScope : uint8_t {
  kPair,         // one channel from each rank to each other rank
  kPairAndKind,  // separate channels for activations and for gradients
};

// An activation that stage `stage` sends to the next stage, or a gradient that
// it sends to the stage before.
struct Message {
  bool forward = true;
  int32_t stage = 0;
  int32_t micro = 0;

  bool operator==(const Message&) const = default;
};

enum class OperationKind : uint8_t { kTask, kSend, kReceive };

// A program has millions of operations, so that their members are in the order
// that takes the fewest bytes.
struct Operation {
  OperationKind kind = OperationKind::kTask;
  // Whether the operation is in the same batch as the operation before it.
  bool batched = false;
  Message message = {};  // the message of a send or a receive
  int32_t peer = 0;      // the other rank of a send or a receive
  // For a task: the index of its cell in the rank's row of the table.
  int32_t position = 0;
};

// Indexed by rank: the rank's operations, in their order.
using Programs = std::vector<std::vector<Operation>>;

// Returns the tasks, sends and receives of all ranks for a table of tasks. The
// table must have passed CheckOrder(). Stages of one rank send each other no
// messages.
Programs Lower(const Table& table, Receives receives);

inline constexpr int64_t kUnbounded = INT64_MAX;

struct ChannelRun {
  bool passes = false;
  // Whether a receive took a message that it did not expect.
  bool mismatch = false;
  // The rank of the operation that failed; 0 if the run passes.
  int32_t rank = 0;
  std::string text;  // describes the failure; empty if the run passes
  // The largest number of messages that waited in one channel.
  int64_t most_waiting = 0;
};
ChannelRun RunChannels(const Programs& programs, int64_t capacity,
                       ChannelScope scope);

// Returns the least capacity with which the run passes. Returns nullopt if it
// fails even with an unbounded capacity: a rank blocks for ever, a receive
// takes a message that it did not expect, or a message is never received.
std::optional<int64_t> LeastCapacity(const Programs& programs,
                                     ChannelScope scope);

// Returns the text of an operation. A send or a receive is written as PyTorch
// does, such as "3SEND_F1" or "4RECV_F1", and a task as CellText() does.
std::string OperationText(const Table& table, int32_t rank,
                          const Operation& operation);

}  // namespace shardc::schedule

#endif  // SHARDC_SCHEDULE_CHANNELS_H_
