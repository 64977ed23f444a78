// The rates at which a device runs the parts of a training step.
#ifndef SHARDC_COST_RATES_H_
#define SHARDC_COST_RATES_H_

#include <array>

#include "cost/inputs.h"
#include "cost/settings.h"
#include "cost/stack.h"

namespace shardc::cost {

// `head` (the output head), `layers` (other products) and `attention` are rates
// in FLOP/s. Members that end in `_bytes` are in bytes per second.
struct Rates {
  double head = 0, layers = 0, attention = 0;
  // The fraction of `head` and `layers` that a product reaches, as a function
  // of its smallest dimension. Null if products reach the full rates.
  const Curve* head_curve = nullptr;
  const Curve* layer_curve = nullptr;
  // Measured rates of collectives within a host, in the order of
  // kCurveCollectives. The curve of a collective without measurements is empty.
  // If the pointer is null, the rates of the links are used.
  const std::array<Curve, kCurveCollectives.size()>* near_curves = nullptr;
  double peak = 0;  // the peak rate of bfloat16 products
  double product_bytes = 0, other_bytes = 0, optimizer_bytes = 0;
  double launch = 0;  // seconds to start a kernel
  double hidden_cost = 0, exposed = 0, experts_exposed = 0;
  // The fractions of their peak rates that the links inside a host (`near`) and
  // the links between hosts (`far`) reach.
  double near = 0, far = 0;
  // The latencies of a collective in seconds. A gather of weights takes
  // `host_latency` in addition for each host.
  double latency = 0, host_latency = 0;
  double scale = 0;

  // Models with experts. The products of an expert of width f reach the
  // fraction f / (f + expert_half) of the rate of other products.
  double expert_half = 0;
  // How often rows are read and written to order them by experts and back.
  double permutation_passes = 0;
  // The factor by which uneven routing lengthens the products of experts.
  double skew = 1;
  // The fractions of their peak rates that links reach in an all-to-all of
  // tokens: if each copy of a token is sent, and if a token is sent once to
  // each device and host.
  double copies_near = 1, copies_far = 1, tokens_near = 1, tokens_far = 1;
  // The seconds of an all-to-all in addition to the transfer of its bytes, and
  // the fraction of its time that is not hidden.
  double dispatch_start = 0, dispatch_exposed = 0;
  // The seconds in which the host starts the kernels of a layer with experts,
  // in the forward and the backward pass, and the fraction of it that a layer
  // without experts takes.
  double host = 0, dense_host = 0;
  // The fraction of the rates above that a device reaches in the parts that
  // only models with experts have.
  double experts = 1;
};

// Returns whether the matrix products of the layers run in 8 or in 4 bits.
bool RunsInFp8(const Settings& settings);
// Returns the peak rate of these products. RunsInFp8() must be true.
double NarrowPeak(const Settings& settings);
// Returns whether the settings have products in 4 bits, and the profile has no
// peak rate for them.
bool LacksFp4(const Settings& settings);
Kernel KernelOf(const Settings& settings, const Stack& stack);
// Returns whether attention stores its scores, as unfused kernels do.
bool IsUnfused(const Settings& settings, const Stack& stack);

// Returns the rates that published runs reach. The settings must have a
// profile.
Rates ExpectedRates(const CostInputs& work, const Settings& settings,
                    const Stack& stack);
// Returns the peak rates. With these rates, a collective that computation can
// hide adds time only if it takes longer than the computation.
Rates BestRates(const Settings& settings);
// Returns the rates of the worst published runs, derived from the expected
// rates. With these rates, collectives of weights add their full time.
Rates WorstRates(const Rates& expected);

}  // namespace shardc::cost

#endif  // SHARDC_COST_RATES_H_
