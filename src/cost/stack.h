// Training software, described by its use of a device: the attention kernel
// that it runs, the element-wise ops that it fuses, the collectives that it
// overlaps, and the memory that it holds.
#ifndef SHARDC_COST_STACK_H_
#define SHARDC_COST_STACK_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cost/inputs.h"
#include "cost/settings.h"

namespace shardc::cost {

enum class Kernel : uint8_t { kUnfused, kFlash1, kFlash2, kCudnn, kAny };

// The memory that the software holds in a training step in addition to the
// tensors that the step defines. Sources are in stack.cc.
struct StackMemory {
  // The bytes that are kept for the backward pass if nothing is rematerialised,
  // as a multiple of the bytes of the tensors that derivatives read.
  double kept = 1.045;
  // True if one kernel computes activation(gate) * up. Its backward pass
  // recomputes activation(gate), which is therefore not kept.
  bool fuses_gate = true;
  // True if a product that a rematerialisation policy saves is kept even if no
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
  // `exposed`, or `exposed_overlapped` if they overlap with products
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

}  // namespace shardc::cost

#endif  // SHARDC_COST_STACK_H_
