// The queue of a scheduler: cases with one answer, and properties.
#include "cost/queue.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

namespace shardc::cost {
namespace {

QueueInputs Inputs(int64_t slots, PrefillOrder order) {
  QueueInputs out;
  out.slots = slots;
  out.input = 1000;
  out.output = 500;
  out.order = order;
  out.decode = [](double requests) { return 8e-3 + 2e-4 * requests; };
  out.prefill = [](double tokens) { return 4e-3 + 33e-6 * tokens; };
  out.host = 30e-3;
  out.call = 15e-3;
  return out;
}

constexpr PrefillOrder kOrders[] = {PrefillOrder::kMixed, PrefillOrder::kWhole,
                                    PrefillOrder::kFirst};

TEST_CASE("one slot waits for nothing") {
  for (const PrefillOrder order : kOrders) {
    for (const double tokens : {10.0, 1000.0, 5000.0}) {
      QueueInputs in = Inputs(1, order);
      in.input = tokens;
      in.shown_after = 3;
      const QueueTimes out = SimulateQueue(in);
      const double expected =
          in.call + std::max(in.prefill(tokens), in.host) + 3 * in.decode(1);
      CHECK(out.first == doctest::Approx(expected).epsilon(1e-3));
      CHECK(out.token == doctest::Approx(in.decode(1)).epsilon(1e-6));
    }
  }
}

TEST_CASE("equal requests of a prefill that stops decoding stay in step") {
  QueueInputs in = Inputs(32, PrefillOrder::kFirst);
  in.settings.least_length = 1;
  in.settings.max_batched_tokens = 8000;  // 8 prompts, so 4 groups
  const double step = in.prefill(8000);
  const QueueTimes out = SimulateQueue(in);
  CHECK(out.first == doctest::Approx(in.call + 2.5 * step).epsilon(0.03));
  CHECK(out.token ==
        doctest::Approx(in.decode(32) + 1.5 * step / 499).epsilon(0.02));
}

TEST_CASE("the parts sum to the mean, and percentiles are in order") {
  for (const PrefillOrder order : kOrders) {
    for (const int64_t slots : {1, 4, 64}) {
      const QueueTimes out = SimulateQueue(Inputs(slots, order));
      CHECK(SumOf(out.parts) == doctest::Approx(out.first));
      CHECK(out.median <= out.percentile_99);
      for (const TimePart& part : out.parts) {
        if (part.name != "start_burst") CHECK(part.seconds >= -1e-12);
      }
    }
  }
}

TEST_CASE("the time does not fall with slots, prompts or intervals") {
  constexpr double kNoise = 0.98;
  for (const PrefillOrder order : kOrders) {
    double last = 0;
    for (const int64_t slots : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
      const double first = SimulateQueue(Inputs(slots, order)).first;
      CHECK(first >= kNoise * last);
      last = first;
    }
    last = 0;
    for (const double tokens : {100.0, 300.0, 1000.0, 3000.0, 10000.0}) {
      QueueInputs in = Inputs(16, order);
      in.input = tokens;
      const double first = SimulateQueue(in).first;
      CHECK(first >= kNoise * last);
      last = first;
    }
    last = 0;
    for (const int64_t interval : {1, 10, 30}) {
      QueueInputs in = Inputs(16, order);
      in.settings.recv_interval = interval;
      const double first = SimulateQueue(in).first;
      CHECK(first >= kNoise * last);
      last = first;
    }
  }
}

TEST_CASE("settings that make prompts wait") {
  QueueInputs in = Inputs(16, PrefillOrder::kWhole);
  const double plain = SimulateQueue(in).first;
  in.settings.batch_wait_steps = 20;
  in.settings.batch_wait_share = 0.9;
  const QueueTimes waiting = SimulateQueue(in);
  CHECK(waiting.first > plain + 5 * in.decode(16));
  in = Inputs(16, PrefillOrder::kWhole);
  in.settings.max_requests = 15;
  // One request always waits until another ends.
  CHECK(SimulateQueue(in).first > plain + 500 * in.decode(1) / 32);
}

TEST_CASE("a share of kept prompts divides the work") {
  QueueInputs in = Inputs(64, PrefillOrder::kMixed);
  const QueueTimes all = SimulateQueue(in);
  in.settings.prefix_hit = 0.9;
  const QueueTimes kept = SimulateQueue(in);
  CHECK(kept.token < all.token);
  CHECK(kept.first < all.first);
}

TEST_CASE("extreme settings end") {
  for (const PrefillOrder order : kOrders) {
    QueueInputs in = Inputs(kMostSimulatedSlots, order);
    in.ranks = 512;
    CHECK(std::isfinite(SimulateQueue(in).first));
    in = Inputs(8, order);
    in.settings.max_batched_tokens = 1;
    in.input = 1e6;
    CHECK(std::isfinite(SimulateQueue(in).first));
    in = Inputs(3, order);
    in.output = 1;
    in.settings.prompts_per_slot.reset();
    CHECK(std::isfinite(SimulateQueue(in).first));
    CHECK(SimulateQueue(in).token == 0);
  }
}

}  // namespace
}  // namespace shardc::cost
