// Computes the rates at which a device runs the parts of a step, from its
// profile and from the software stack. For example:
//
//   h100-sxm under torch.compile: products at 0.71 of 989 TFLOP/s, attention at
//   0.30 of 989 TFLOP/s, norms at 0.70 of 3.35 TB/s
#include "cost/rates.h"

#include <algorithm>
#include <optional>

namespace shardc::cost {
namespace {

// The fractions of the profile's memory_rate at which matrix products and the
// optimizer's update read and write memory.
constexpr double kProductMemory = 0.7;
constexpr double kOptimizerMemory = 0.8;
constexpr double kLaunch = 10e-6;  // seconds to start a kernel
// The seconds that each host adds to the gather of a layer's weights.
constexpr double kHostLatency = 2e-6;
constexpr double kNarrowHead = 64;
constexpr double kExpertsExposed = 0.6;
// Models with experts. All figures are round numbers; cost/experts.h has the
// errors of published runs.
constexpr double kExpertHalf = 230;
// The factor by which uneven routing of a trained router lengthens the products
// and the permutation of rows.
constexpr double kNaturalSkew = 1.13;
constexpr double kCopiesNear = 0.7, kCopiesFar = 0.8;
// Dispatchers that send a token once reach more of the links of a rack with one
// switch than of those of a host.
constexpr double kTokensNear = 0.6, kTokensNearInRack = 0.7, kTokensFar = 0.9;
constexpr double kDispatchStart = 1.1e-4;
// The fraction of all-to-alls that is not hidden if they overlap with another
// micro-batch, with and without graphs of the whole step.
constexpr double kOverlapped = 0.4, kOverlappedInGraphs = 0.2;
// The seconds in which the host starts the kernels of a layer with experts, in
// the forward and the backward pass, and the factor of the launch times, by
// Graphs.
constexpr double kHost[] = {9.5e-3, 6e-3, 0};
constexpr double kGraphLaunch[] = {1, 0.8, 0.3};
constexpr double kDenseHost = 0.4;
// The factors by which the host takes longer: to wait for the numbers of rows
// of an all-to-all that sends copies, to start the kernels of two micro-batches
// in turn, to drop tokens (which needs no numbers of rows), and to start the
// kernels of the forward pass again.
constexpr double kWaits = 1.15, kTwoBatches = 1.25, kDrops = 0.75,
                 kRepeats = 1.33;
// In the longest time, the host and the skew of natural routing take kMore
// times as long, and an all-to-all has the largest dispatch_start. In the
// shortest time, each row is read and written once when the rows are sorted by
// expert, and once when they are put back into their original order.
constexpr double kMore = 1.5, kMostDispatchStart = 3e-4, kFewestPasses = 2;
// The fractions of the rate of 8-bit products with one scale for each tensor
// that products with more scales reach, by Scaling.
constexpr double kScalingShare[] = {1, 0.97, 0.85};

// The worst published runs reach this fraction of the expected rates.
constexpr double kWorstShare = 0.85;

double AttentionShare(const Efficiency& of, Kernel kernel) {
  std::optional<double> share;
  switch (kernel) {
    case Kernel::kFlash1:
      share = of.flash_attn1;
      break;
    case Kernel::kCudnn:
      share = of.cudnn ? of.cudnn : of.flash_attn2;
      break;
    case Kernel::kFlash2:
      share = of.flash_attn2;
      break;
    case Kernel::kAny:
    case Kernel::kUnfused:
      break;
  }
  return share.value_or(of.attention);
}

void SetPeaks(const Settings& settings, Rates& out) {
  const DeviceProfile& profile = *settings.profile;
  const double per_chip = Real(profile.devices_per_chip);
  out.head = out.peak = profile.bf16_rate / per_chip;
  out.layers = RunsInFp8(settings) ? *profile.fp8_rate / per_chip : out.head;
  out.product_bytes = out.other_bytes = out.optimizer_bytes =
      profile.memory_rate / per_chip;
}

bool RepeatsAll(const Settings& settings) {
  return settings.remat.keep == step::Keep::kNothing;
}

// Returns the seconds of Rates::host.
double HostSeconds(const Settings& settings, const Stack& stack) {
  const Graphs graphs = settings.graphs.value_or(stack.graphs);
  double out = kHost[static_cast<size_t>(graphs)];
  const Dispatcher sends = settings.dispatcher.value_or(stack.dispatcher);
  if (settings.capacity_factor) {
    out *= kDrops;
  } else if (sends == Dispatcher::kAllToAll) {
    out *= kWaits;
  }
  if (settings.overlap_experts && graphs == Graphs::kNone) out *= kTwoBatches;
  if (RepeatsAll(settings)) out *= kRepeats;
  return out;
}

void SetExperts(const Settings& settings, const Stack& stack, Rates& out) {
  const Graphs graphs = settings.graphs.value_or(stack.graphs);
  out.expert_half = kExpertHalf;
  out.permutation_passes = stack.permutation_passes;
  out.skew = settings.routing == Routing::kNatural ? kNaturalSkew : 1;
  out.copies_near = kCopiesNear;
  out.copies_far = kCopiesFar;
  const bool rack = settings.profile->fabric_chips > 0;
  out.tokens_near = rack ? kTokensNearInRack : kTokensNear;
  out.tokens_far = kTokensFar;
  out.dispatch_start = kDispatchStart;
  out.dispatch_exposed = 1;
  if (settings.overlap_experts && !RepeatsAll(settings)) {
    out.dispatch_exposed =
        graphs == Graphs::kStep ? kOverlappedInGraphs : kOverlapped;
  }
  out.host = HostSeconds(settings, stack);
  out.dense_host = kDenseHost;
}

}  // namespace

bool RunsInFp8(const Settings& settings) {
  const Dtype products = settings.products.value_or(settings.activations);
  return DtypeBits(products) == 8 && settings.profile->fp8_rate;
}

// Returns the attention kernel of the software stack. If the settings name an
// attention operation, FlashAttention-1 is replaced by FlashAttention-2.
Kernel KernelOf(const Settings& settings, const Stack& stack) {
  return settings.operation != nullptr && stack.kernel == Kernel::kFlash1
             ? Kernel::kFlash2
             : stack.kernel;
}

bool IsUnfused(const Settings& settings, const Stack& stack) {
  return stack.kernel == Kernel::kUnfused ||
         (settings.operation != nullptr && settings.operation->global_view);
}

Rates ExpectedRates(const CostInputs& work, const Settings& settings,
                    const Stack& stack) {
  const DeviceProfile& profile = *settings.profile;
  const Efficiency& of = profile.efficiency;
  Rates out;
  const Graphs graphs = settings.graphs.value_or(Graphs::kNone);
  out.launch = kLaunch * kGraphLaunch[static_cast<size_t>(graphs)];
  out.experts_exposed = kExpertsExposed;
  out.host_latency = kHostLatency;
  SetPeaks(settings, out);
  const double narrow =
      work.model && work.model->head_dim.value_or(128) <= kNarrowHead
          ? of.narrow_head
          : 1;
  out.attention =
      out.head * (IsUnfused(settings, stack)
                      ? of.matmul
                      : AttentionShare(of, KernelOf(settings, stack)) * narrow);
  const bool fp8 = RunsInFp8(settings);
  const Curve& curve = fp8 ? of.matmul_fp8_curve : of.matmul_curve;
  if (curve.empty()) {
    out.layers *= fp8 ? of.matmul_fp8 : of.matmul;
  } else {
    out.layer_curve = &curve;
  }
  if (fp8) out.layers *= kScalingShare[static_cast<size_t>(settings.scaling)];
  if (of.matmul_curve.empty()) {
    out.head *= of.matmul;
  } else {
    out.head_curve = &of.matmul_curve;
  }
  out.near_curves = &of.rate_curves;
  out.product_bytes *= kProductMemory;
  out.other_bytes *= of.memory_ops * stack.memory_ops;
  out.optimizer_bytes *= kOptimizerMemory;
  out.hidden_cost = stack.hidden_cost;
  out.exposed =
      settings.overlap_tensor ? stack.exposed_overlapped : stack.exposed;
  out.near = of.near;
  out.far = of.far;
  out.latency = of.latency_s;
  out.scale = of.scale;
  SetExperts(settings, stack, out);
  return out;
}

Rates BestRates(const Settings& settings) {
  Rates out;
  SetPeaks(settings, out);
  out.attention = out.head;
  out.near = out.far = 1;
  out.permutation_passes = kFewestPasses;
  return out;
}

Rates WorstRates(const Rates& expected) {
  Rates out = expected;
  out.layers *= kWorstShare;
  out.head *= kWorstShare;
  out.attention *= kWorstShare;
  out.other_bytes *= 0.8;
  out.hidden_cost = out.exposed = out.experts_exposed = 1;
  out.scale = std::max(out.scale, 0.02);
  out.skew = std::max(kMore * (out.skew - 1) + 1, kNaturalSkew);
  out.dispatch_start = kMostDispatchStart;
  out.dispatch_exposed = 1;
  out.host *= kMore;
  return out;
}

}  // namespace shardc::cost
