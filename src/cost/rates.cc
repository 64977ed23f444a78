// Computes the rates at which a device runs the parts of a step, from its
// profile and from the software stack. For example:
//
//   h100-sxm under torch.compile: matmuls at 0.71 of 989 TFLOP/s, attention at
//   0.30 of 989 TFLOP/s, norms at 0.70 of 3.35 TB/s
#include "cost/rates.h"

#include <algorithm>
#include <array>
#include <optional>

#include "cost/time.h"

namespace shardc::cost {
namespace {

// The fractions of the profile's memory_rate at which matmuls and the
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
// The factor by which uneven routing of a trained router lengthens the matmuls
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
// The factor by which a permutation has more passes in the longest time: the
// passes of two halves of the published runs are 5 and 7.3.
constexpr double kMorePasses = 7.3 / 5;
// The fractions of the rate of 8-bit matmuls with one scale for each tensor
// that matmuls with more scales reach, by Scaling. Matmuls in 4 bits have a
// rate of their own.
constexpr double kScalingShare[] = {1, 0.97, 0.85, 1};

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
  out.layers = RunsInFp8(settings) ? NarrowPeak(settings) / per_chip : out.head;
  out.matmul_bytes = out.other_bytes = out.optimizer_bytes =
      profile.memory_rate / per_chip;
  if (settings.offloads_optimizer && profile.host_memory_rate) {
    out.optimizer_bytes = *profile.host_memory_rate;
  }
}

bool RepeatsAll(const Settings& settings) {
  return settings.remat.keep == step::Keep::kNothing;
}

// Returns whether tokens are sent while another micro-batch is computed. If the
// backward pass repeats all of a layer, it does not wait for another
// micro-batch.
bool OverlapsExperts(const Settings& settings) {
  return settings.overlap_experts && !RepeatsAll(settings);
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
  if (OverlapsExperts(settings) && graphs == Graphs::kNone) out *= kTwoBatches;
  if (RepeatsAll(settings)) out *= kRepeats;
  return out;
}

void SetExperts(const Settings& settings, const Stack& stack, Rates& out) {
  const Graphs graphs = settings.graphs.value_or(stack.graphs);
  out.expert_half = kExpertHalf;
  out.permutation_passes = stack.permutation_passes;
  // With a capacity, each expert computes all places of its queue, however
  // many tokens choose it.
  const bool skewed =
      settings.routing == Routing::kNatural && !settings.capacity_factor;
  out.skew = skewed ? kNaturalSkew : 1;
  out.copies_near = kCopiesNear;
  out.copies_far = kCopiesFar;
  const bool rack = settings.profile->fabric_chips > 0;
  out.tokens_near = rack ? kTokensNearInRack : kTokensNear;
  out.tokens_far = kTokensFar;
  out.dispatch_start = kDispatchStart;
  out.dispatch_exposed = 1;
  if (OverlapsExperts(settings)) {
    out.dispatch_exposed =
        graphs == Graphs::kStep ? kOverlappedInGraphs : kOverlapped;
  }
  const Efficiency& of = settings.profile->efficiency;
  out.host = HostSeconds(settings, stack) / of.expert_host;
  out.dense_host = kDenseHost;
  out.experts = of.experts;
  out.dispatch = of.dispatch;
}

}  // namespace

bool RunsInFp8(const Settings& settings) {
  const Dtype matmuls = settings.matmuls.value_or(settings.activations);
  if (settings.scaling == Scaling::kNv) {
    return settings.profile->fp4_rate.has_value();
  }
  return DtypeBits(matmuls) == 8 && settings.profile->fp8_rate;
}

double NarrowPeak(const Settings& settings) {
  return settings.scaling == Scaling::kNv ? *settings.profile->fp4_rate
                                          : *settings.profile->fp8_rate;
}

bool LacksFp4(const Settings& settings) {
  return settings.scaling == Scaling::kNv && settings.profile != nullptr &&
         !settings.profile->fp4_rate;
}

bool LacksHostMemory(const Settings& settings) {
  return settings.offloads_optimizer && settings.profile != nullptr &&
         !settings.profile->host_memory_rate;
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
  const bool fp4 = fp8 && settings.scaling == Scaling::kNv;
  const Curve none;
  const Curve& curve = fp4 ? none : fp8 ? of.matmul_fp8_curve : of.matmul_curve;
  if (curve.empty()) {
    out.layers *= fp4 ? of.matmul_fp4 : fp8 ? of.matmul_fp8 : of.matmul;
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
  out.matmul_bytes *= kProductMemory;
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
  out.permutation_passes *= kMorePasses;
  out.dispatch_start = kMostDispatchStart;
  out.dispatch_exposed = 1;
  out.host *= kMore;
  return out;
}

// The table of software stacks, such as Megatron or XLA. A stack has figures
// that determine the time and the memory of a step. The figures of time are
// fitted to 364 published runs of dense models on GPUs and TPUs. The figures of
// memory come from published peaks and from compiled programs.
//
// If the user names no stack, the stack is xla for devices in a torus. For
// other devices it follows from the names of the parameters. For example:
//
//   model/layers/0/mlp/kernel  ->  xla;  model.layers.0.mlp.weight -> compiled
//
// Logits (`loss`): the loss holds several copies of the logits, counted in
// copies of float32. The stack `compiled` holds 3.5 copies: bfloat16 logits
// (0.5), a float32 copy (1), the log-softmax (1) and its gradient (1). This
// agrees with torchtitan: its peak memory with a batch of two sequences is 3.6
// copies above that with one. Eager ops hold 4 copies, and a step that XLA
// compiles holds 2.
//
// Kept tensors (`kept`): a step keeps more bytes for the backward pass than the
// tensors that derivatives read. The factor is 1.03 to 1.06 in Megatron's logs.
// It is 1.7 in eager Hugging Face models, which keep norms in float32
// (DeepSpeed 0.14 without checkpointing). It is 2 in programs compiled for TPU
// v5e. If such a program rematerialises a layer, however, it holds only 0.3 of
// the layer's tensors at once (`layer`).
//
// Gradients (`keeps_gradients`): PyTorch's optimizers set gradients to None
// after the update. On a single device, gradients therefore exist only from the
// backward pass to the update. On several devices they are reduced in buffers
// that exist during the entire step. Megatron has such buffers on a single
// device too (param_and_grad_buffer.py). How XLA shares the memory of gradients
// on one device was not measured.
//
// Reserved memory (`allocator`): in 16 ranks of Megatron, the allocator
// reserves 1.006 to 1.058 times the allocated memory.
//
// Megatron (`kMegatronMemory`): its loss holds the bfloat16 logits or their
// gradient (0.5 copies) and one float32 copy, in which it computes the softmax
// and the gradient in place (megatron/core/tensor_parallel/cross_entropy.py).
// The peaks that its release tests record agree with it: a model of 15 billion
// parameters and a vocabulary of 256,000 takes 13.9 GiB besides its states,
// 11.2 GiB of which are the activations of its layers, and 1.4 copies of its
// logits are 2.7 GiB. Its upper estimate has a second float32 copy.
//
// llm-foundry (`kFoundryMemory`): its norms read and write the matmuls' dtype
// (low_precision_layernorm). Its loss is flash-attn's fused_crossentropy, which
// reads bfloat16 logits and writes their gradient: 0.5 copies each. The 137
// published runs of llm-foundry used the largest micro-batch that fits. With
// the figures of eager ops (4 copies of the logits, a factor of 1.7 for kept
// tensors), these runs would not have fitted.
//
// Pipelines (`gathers_stages_once`): a rank gathers the weights of a stage once
// a step. torchtitan sets `reshard_after_forward` to false if the model has
// stages. Llama 3's weights are not resharded after the forward pass (arXiv
// 2407.21783, section 3.3.2). PyTorch's stages keep the weights in the backward
// pass as well, and reduce the sum of the gradients after the last micro-batch
// (torch/distributed/pipelining/stage.py, backward_maybe_with_nosync). Megatron
// gathers weights after the optimizer's update and reduces gradients with the
// last micro-batch. MaxText is an exception: it gathers weights in each
// iteration of a pipeline (`pipeline_fsdp_ag_once: False` by default).

namespace {

constexpr StackMemory kMegatronMemory = {
    .loss = 1.5, .most_loss = 2.5, .keeps_gradients = true};
constexpr StackMemory kHuggingFaceMemory = {.kept = 1.7, .loss = 4};
constexpr StackMemory kFoundryMemory = {
    .fuses_gate = false, .loss = 1, .least_loss = 0.5, .most_loss = 1.5};
constexpr StackMemory kUnfusedMemory = {
    .fuses_gate = false, .loss = 4, .keeps_gradients = true};

struct StackAlias {
  std::string_view name, stands_for;
};
constexpr StackAlias kAliases[] = {{"torchtitan", "compiled"},
                                   {"xla-tpu", "xla"}};

constexpr auto kStacks = std::to_array<Stack>({
    {.name = "compiled",
     .about = "torch.compile with FSDP2, as torchtitan runs it"},
    {.name = "megatron",
     .about = "Megatron-LM, NeMo and Transformer Engine until NeMo 25.11 "
              "(November 2025): an all-to-all of copies, no CUDA graphs",
     .kernel = Kernel::kCudnn,
     .hidden_cost = 0.25,
     .fuses_sinks = false,
     .memory = kMegatronMemory},
    {.name = "megatron-2026-02",
     .about = "the same from NeMo 26.02 (February 2026): HybridEP",
     .kernel = Kernel::kCudnn,
     .hidden_cost = 0.25,
     .dispatcher = Dispatcher::kHybridEp,
     .fuses_sinks = false,
     .memory = kMegatronMemory},
    {.name = "megatron-2026-06",
     .about = "the same from NeMo 26.06 (June 2026): HybridEP, fused "
              "permutations and sinks; its recipes for Blackwell add "
              "`--graphs step`",
     .kernel = Kernel::kCudnn,
     .hidden_cost = 0.25,
     .dispatcher = Dispatcher::kHybridEp,
     .permutation_passes = 3,
     .memory = kMegatronMemory},
    {.name = "xla",
     .about = "JAX, as MaxText runs it",
     .kernel = Kernel::kAny,
     .hidden_cost = 0.2,
     .exposed = 0.4,
     .exposed_overlapped = 0.4,
     .gathers_stages_once = false,
     .graphs = Graphs::kStep,
     .memory = {.kept = 2,
                .keeps_unread = false,
                .layer = 0.3,
                .loss = 2,
                .least_loss = 1.5,
                .most_loss = 2.5,
                .frees_gathered = true,
                .casts_all = true,
                .keeps_gradients = true,
                .allocator = 1,
                .context = false}},
    {.name = "eager",
     .about = "eager PyTorch with FSDP and autocast, as llm-foundry runs it",
     .kernel = Kernel::kFlash1,
     .memory_ops = 0.65,
     .hidden_cost = 0.9,
     .memory = kFoundryMemory},
    {.name = "eager-bf16",
     .about = "the same with bfloat16 parameters, without autocast",
     .kernel = Kernel::kFlash1,
     .memory_ops = 0.75,
     .hidden_cost = 0.9,
     .memory = kFoundryMemory},
    {.name = "hf",
     .about = "eager Hugging Face Transformers, with times as llm-foundry's",
     .kernel = Kernel::kFlash1,
     .memory_ops = 0.65,
     .hidden_cost = 0.9,
     .memory = kHuggingFaceMemory},
    {.name = "megatron-2021",
     .about = "Megatron-LM before sequence parallelism and flash attention",
     .kernel = Kernel::kUnfused,
     .hidden_cost = 0.25,
     .splits_norms = false,
     .hides_gradients = false,
     .memory = kUnfusedMemory},
    {.name = "deepspeed-2021",
     .about = "DeepSpeed's ZeRO 3 with unfused attention",
     .kernel = Kernel::kUnfused,
     .hidden_cost = 0.25,
     .splits_norms = false,
     .one_port = true,
     .memory = kUnfusedMemory},
});

}  // namespace

std::span<const Stack> Stacks() { return kStacks; }

const Stack* FindStack(std::string_view name) {
  for (const StackAlias& alias : kAliases) {
    if (alias.name == name) name = alias.stands_for;
  }
  const auto* const found =
      std::find_if(kStacks.begin(), kStacks.end(),
                   [&](const Stack& one) { return one.name == name; });
  return found == kStacks.end() ? nullptr : found;
}

std::vector<std::string_view> StackNames() {
  std::vector<std::string_view> out;
  out.reserve(kStacks.size());
  for (const Stack& one : kStacks) out.push_back(one.name);
  return out;
}

const Stack& StackOf(const CostInputs& work, const Settings& settings) {
  if (settings.stack != nullptr) return *settings.stack;
  const DeviceProfile* profile = settings.profile;
  const bool torus = profile != nullptr && IsTorus(profile->fabric);
  const bool jax = std::any_of(
      work.params.begin(), work.params.end(), [](const ParamClass& param) {
        return param.name.find('/') != std::string::npos;
      });
  return *FindStack(torus || jax ? "xla" : "compiled");
}

}  // namespace shardc::cost
