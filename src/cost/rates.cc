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
  out.head = profile.bf16_rate / per_chip;
  out.layers = RunsInFp8(settings) ? *profile.fp8_rate / per_chip : out.head;
  out.product_bytes = out.other_bytes = out.optimizer_bytes =
      profile.memory_rate / per_chip;
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
  out.launch = kLaunch;
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
  return out;
}

Rates BestRates(const Settings& settings) {
  Rates out;
  SetPeaks(settings, out);
  out.attention = out.head;
  out.near = out.far = 1;
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
  return out;
}

}  // namespace shardc::cost
