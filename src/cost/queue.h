// Simulates the scheduler of one engine instance in a closed loop: each of its
// slots sends a request, waits for its last token, and sends the next one.
#ifndef SHARDC_COST_QUEUE_H_
#define SHARDC_COST_QUEUE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "cost/expected.h"
#include "devices/scheduler.h"

namespace shardc::cost {

// Times are in seconds.
struct QueueInputs {
  int64_t slots = 1;
  // The attention ranks, which have different requests and step together.
  int64_t ranks = 1;
  // The mean tokens of a prompt, and those that are generated for it.
  double input = 1, output = 1;
  PrefillOrder order = PrefillOrder::kMixed;
  SchedulerSettings settings;
  // The time of a decode step with so many requests on an attention rank, and
  // of a prefill step with so many tokens of prompts, alone on an idle device.
  std::function<double(double)> decode, prefill;
  // Prefill adds this fraction of its time to a step that also decodes. A step
  // that prefills takes at least `host`.
  double prefill_share = 1, host = 0;
  // Before a request reaches the scheduler, and the decode steps after which
  // the client sees a token.
  double call = 0, shown_after = 0;
};

struct QueueTimes {
  double token = 0;  // the mean time of a token after the first
  // The time to the first token: its mean, the mean without the requests that
  // are sent at the start, and two percentiles.
  double first = 0, steady = 0, median = 0, percentile_99 = 0;
  std::vector<TimePart> parts;  // of the mean; they sum to `first`
};

// The most slots that are simulated.
inline constexpr int64_t kMostSimulatedSlots = 16'384;

// The number of slots must be from 1 to kMostSimulatedSlots.
QueueTimes SimulateQueue(const QueueInputs& inputs);

}  // namespace shardc::cost

#endif  // SHARDC_COST_QUEUE_H_
