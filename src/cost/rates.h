// The rates at which a device runs the parts of a training step.
#ifndef SHARDC_COST_RATES_H_
#define SHARDC_COST_RATES_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cost/inputs.h"
#include "cost/settings.h"

namespace shardc::cost {

// Training software, described by its use of a device: the attention kernel
// that it runs, the element-wise ops that it fuses, the collectives that it
// overlaps, and the memory that it holds.

enum class Kernel : uint8_t { kUnfused, kFlash1, kFlash2, kCudnn, kAny };

// The memory that the software holds in a training step in addition to the
// tensors that the step defines. Sources are in rates.cc.
struct StackMemory {
  // The bytes that are kept for the backward pass if nothing is rematerialised,
  // as a multiple of the bytes of the tensors that derivatives read.
  double kept = 1.045;
  // True if one kernel computes activation(gate) * up. Its backward pass
  // recomputes activation(gate), which is therefore not kept.
  bool fuses_gate = true;
  // True if a matmul that a rematerialisation policy saves is kept even if no
  // derivative reads it, as PyTorch's selective checkpointing does.
  bool keeps_unread = true;
  // The fraction of a layer's tensors, and of the gradients inside the layer,
  // that a device holds at the same time in the layer's backward pass.
  double layer = 1;
  // The number of copies of the logits at the peak of the loss: the expected
  // number, and the lower and upper estimates that are used if the kind of loss
  // is not given.
  double loss = 3.5, least_loss = 0, most_loss = 4;
  // True if gathered weights and an unsharded embedding are freed before the
  // loss.
  bool frees_gathered = false;
  // True if all parameters are cast to the dtype of the activations at once.
  bool casts_all = false;
  // True if the gradients on a single device are in buffers that exist during
  // the entire step. Otherwise they exist from the backward pass to the update.
  bool keeps_gradients = false;
  // The bytes that the allocator reserves, as a multiple of the bytes that are
  // allocated.
  double allocator = 1.03, most_allocator = 1.10;
  // True if the context and the communicators of a GPU take memory too.
  bool context = true;
};

struct Stack {
  std::string_view name;
  std::string_view about;
  Kernel kernel = Kernel::kFlash2;
  double memory_ops = 1;  // multiplies the device's memory_ops efficiency
  // A gather or reduction of weights that computation hides slows this
  // computation down by this fraction of the collective's time.
  double hidden_cost = 0.15;
  // The fraction of the time of tensor-parallel collectives that is exposed:
  // `exposed`, or `exposed_overlapped` if they overlap with matmuls
  // (Settings::overlap_tensor).
  double exposed = 1, exposed_overlapped = 0.3;
  bool splits_norms = true;  // true if norms are sharded over tensor axes
  // True if data-parallel gradients are reduced during the backward pass.
  bool hides_gradients = true;
  // True if the ranks of a pipeline gather the weights of their stages once a
  // step and hold them, and not for each micro-batch.
  bool gathers_stages_once = true;
  // True if a collective over several hosts uses only one network port of each
  // host.
  bool one_port = false;
  // Models with experts: the dispatcher and the graphs if the settings do not
  // name them, and how often rows are read and written to order them by experts
  // and back.
  Dispatcher dispatcher = Dispatcher::kAllToAll;
  Graphs graphs = Graphs::kNone;
  double permutation_passes = 5;
  // True if the attention kernel computes sinks. Otherwise attention with sinks
  // stores its scores.
  bool fuses_sinks = true;
  StackMemory memory = {};
};

std::span<const Stack> Stacks();
// Returns the stack with this name, or null for an unknown name. `torchtitan`
// is another name of `compiled`, and `xla-tpu` of `xla`.
const Stack* FindStack(std::string_view name);
std::vector<std::string_view> StackNames();

// Returns the stack that the settings name. If they name no stack, returns
// `xla` for devices in a torus, such as TPUs, and for parameter names with a
// `/`, as JAX has them. In all other cases, returns `compiled`.
const Stack& StackOf(const CostInputs& work, const Settings& settings);

// `head` (the output head), `layers` (other matmuls) and `attention` are rates
// in FLOP/s. Members that end in `_bytes` are in bytes per second.
struct Rates {
  double head = 0, layers = 0, attention = 0;
  // The fraction of `head` and `layers` that a matmul reaches, as a function
  // of its smallest dimension. Null if matmuls reach the full rates.
  const Curve* head_curve = nullptr;
  const Curve* layer_curve = nullptr;
  // Measured rates of collectives within a host, in the order of
  // kCurveCollectives. The curve of a collective without measurements is empty.
  // If the pointer is null, the rates of the links are used.
  const std::array<Curve, kCurveCollectives.size()>* near_curves = nullptr;
  double peak = 0;  // the peak rate of bfloat16 matmuls
  double matmul_bytes = 0, other_bytes = 0, optimizer_bytes = 0;
  double launch = 0;  // seconds to start a kernel
  double hidden_cost = 0, exposed = 0, experts_exposed = 0;
  // The fractions of their peak rates that the links inside a host (`near`) and
  // the links between hosts (`far`) reach.
  double near = 0, far = 0;
  // The latencies of a collective in seconds. A gather of weights takes
  // `host_latency` in addition for each host.
  double latency = 0, host_latency = 0;
  double scale = 0;

  // Models with experts. The matmuls of an expert of width f reach the
  // fraction f / (f + expert_half) of the rate of other matmuls.
  double expert_half = 0;
  // How often rows are read and written to order them by experts and back.
  double permutation_passes = 0;
  // The factor by which uneven routing lengthens the matmuls of experts.
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
  // The fractions of the rates above that a device reaches in what experts and
  // their router compute, and in all-to-alls.
  double experts = 1, dispatch = 1;
};

// Returns whether the matmuls of the layers run in 8 or in 4 bits.
bool RunsInFp8(const Settings& settings);
// Returns the peak rate of these matmuls. RunsInFp8() must be true.
double NarrowPeak(const Settings& settings);
// Returns whether the settings have matmuls in 4 bits, and the profile has no
// peak rate for them.
bool LacksFp4(const Settings& settings);
// Returns whether the optimizer's states are in the memory of the host, and the
// profile has no rate of that memory.
bool LacksHostMemory(const Settings& settings);
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
