// The expected time of a training step. Each part of the step is assumed to run
// at the fraction of its peak rate that published runs reach.
//
// The fractions (devices/profiles.h, cost/rates.h) were fitted to 364 published
// runs of dense models, on 4 to 16,384 devices. The median error is 3.7 %, and
// 90 % of the runs are within 12 %. The fractions are not calibrated for
// experts, for serving, or for devices without published runs.
#ifndef SHARDC_COST_EXPECTED_H_
#define SHARDC_COST_EXPECTED_H_

#include <optional>
#include <string_view>
#include <vector>

#include "cost/communication.h"
#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/rates.h"
#include "cost/settings.h"

namespace shardc::cost {

// The floating-point operations of the backward pass of attention, as a
// multiple of the forward pass. The forward pass has two matmuls and the
// backward pass four; FlashAttention also computes the scores again, which is a
// fifth matmul.
inline constexpr double kFlashBackward = 2.5, kUnfusedBackward = 2;

struct TimePart {
  std::string_view name;
  double seconds = 0;
};
double SumOf(const std::vector<TimePart>& parts);

struct ExpectedTime {
  double seconds = 0;
  std::vector<TimePart> parts;  // the sum of their seconds is `seconds`
  // The parts of one layer with experts, for one micro-batch, in the forward
  // and the backward pass. Empty if no layer has experts.
  std::vector<TimePart> expert_layer;
  // Bounds of `seconds`. In `least` every part runs at its peak rate, and every
  // collective that can be hidden is hidden. In `most`, matmuls, attention and
  // element-wise ops run at the rates of the worst published runs, and no
  // collective is hidden without cost.
  double least = 0, most = 0;
  // `model_flops_share` is the model FLOPs utilisation: the floating-point
  // operations without rematerialisation, as a fraction of the bfloat16 peak
  // rate. `tokens_per_second` counts the tokens of one device.
  double model_flops_share = 0, tokens_per_second = 0;
  const Stack* stack = nullptr;
  bool stack_assumed = false;
  // True if the device's rates were fitted to published runs, and the model has
  // no experts. The published runs are of models without experts.
  bool calibrated = false;
  // True if the model has experts, and if published runs have the device. The
  // errors of models with experts are larger (cost/experts.h).
  bool has_experts = false, measured = false;
};

// Returns whether published runs of models with experts support the times of a
// device: the parts that only such models have were compared with runs on GPUs.
bool SupportsExperts(const DeviceProfile& profile);

// Returns the expected time of a step. Returns nullopt if the mode is not
// training, if the profile, the batch or the length is missing, if the hidden
// size is unknown, or if a role or a fact that the user can give is not known.
std::optional<ExpectedTime> ExpectedTimeOf(const CostInputs& work,
                                           const Settings& settings,
                                           const Memory& memory,
                                           const Communication& communication);

// Returns ExpectedTime::seconds; nullopt in the same cases as ExpectedTimeOf.
// Less communication never makes a step longer, so the seconds with an empty
// `communication` are a lower bound.
std::optional<double> ExpectedSecondsOf(const CostInputs& work,
                                        const Settings& settings,
                                        const Memory& memory,
                                        const Communication& communication);

// The expected seconds of a step. `tasks` are the seconds of all micro-batches.
// `after` are the seconds of the work after the micro-batches: the reduction of
// gradients over replicas and the optimizer's update.
struct StepSeconds {
  double tasks = 0, after = 0;
};
// Returns the two parts of the expected seconds. Returns nullopt in the same
// cases as ExpectedTimeOf.
std::optional<StepSeconds> ExpectedStepSecondsOf(
    const CostInputs& work, const Settings& settings, const Memory& memory,
    const Communication& communication);

}  // namespace shardc::cost

#endif  // SHARDC_COST_EXPECTED_H_
