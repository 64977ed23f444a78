// The rates at which a device runs the parts of a training step.
#ifndef SHARDC_COST_RATES_H_
#define SHARDC_COST_RATES_H_

#include <array>

#include "cost/inputs.h"
#include "cost/settings.h"
#include "cost/stack.h"

namespace shardc::cost {

// FLOP/s, bytes/s, shares and seconds.
struct Rates {
  double head = 0, layers = 0, attention = 0;
  // The shares of `head` and `layers` by a product's smallest dimension; null:
  // they have all their rate.
  const Curve* head_curve = nullptr;
  const Curve* layer_curve = nullptr;
  // By kCurveCollectives: measured rates within a host; null: there are none.
  const std::array<Curve, kCurveCollectives.size()>* near_curves = nullptr;
  double product_bytes = 0, other_bytes = 0, optimizer_bytes = 0;
  double launch = 0;  // seconds to start a kernel
  double hidden_cost = 0, exposed = 0, experts_exposed = 0;
  double near = 0, far = 0;              // of the links
  double latency = 0, host_latency = 0;  // of a collective; by host
  double scale = 0;
};

// Whether the layers' products run in 8 bits.
bool RunsInFp8(const Settings& settings);
// The attention kernel that runs.
Kernel KernelOf(const Settings& settings, const Stack& stack);
// Whether attention stores its scores.
bool IsUnfused(const Settings& settings, const Stack& stack);

// What published runs reach. The settings have a profile.
Rates ExpectedRates(const CostInputs& work, const Settings& settings,
                    const Stack& stack);
// Every share is 1, and everything that can be hidden is.
Rates BestRates(const Settings& settings);
// Shares as low as in the worst published runs, and nothing hidden for free.
Rates WorstRates(const Rates& expected);

}  // namespace shardc::cost

#endif  // SHARDC_COST_RATES_H_
