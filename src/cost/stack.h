// Training software by what it makes of a device: which attention kernel it
// runs, how it fuses element-wise ops, and what it overlaps.
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

struct Stack {
  std::string_view name;
  std::string_view about;
  Kernel kernel = Kernel::kFlash2;
  double memory_ops = 1;  // times the device's efficiency of memory_ops
  // The time that a hidden gather or reduction of weights takes from the
  // computation that hides it, as a share of its own.
  double hidden_cost = 0.15;
  // The share of the time of tensor-parallel collectives that is exposed, and
  // the same with Settings::overlap_tensor.
  double exposed = 1, exposed_overlapped = 0.3;
  bool splits_norms = true;  // over the tensor axes (sequence parallelism)
  // Whether data-parallel gradients are reduced during the backward pass.
  bool hides_gradients = true;
  // Whether a group over several hosts uses one network port of each.
  bool one_port = false;
};

std::span<const Stack> Stacks();
// Returns null for an unknown name.
const Stack* FindStack(std::string_view name);
std::vector<std::string_view> StackNames();

// The stack of the settings, or else `xla` for TPUs and for parameters named as
// JAX names them, and `compiled` for others.
const Stack& StackOf(const CostInputs& work, const Settings& settings);

}  // namespace shardc::cost

#endif  // SHARDC_COST_STACK_H_
