// The figures are fitted to published runs, 364 of dense models on GPUs and
// TPUs. A stack that is not named is assumed from the parameters' names:
//
//   model/layers/0/mlp/kernel  ->  xla;  model.layers.0.mlp.weight -> compiled
#include "cost/stack.h"

#include <algorithm>
#include <array>

#include "cost/time.h"

namespace shardc::cost {
namespace {

constexpr auto kStacks = std::to_array<Stack>({
    {.name = "compiled",
     .about = "torch.compile with FSDP2, as torchtitan runs it"},
    {.name = "megatron",
     .about = "Megatron-LM, NeMo and Transformer Engine",
     .kernel = Kernel::kCudnn,
     .hidden_cost = 0.25},
    {.name = "xla",
     .about = "JAX, as MaxText runs it",
     .kernel = Kernel::kAny,
     .hidden_cost = 0.2,
     .exposed = 0.4,
     .exposed_overlapped = 0.4},
    {.name = "eager",
     .about = "eager PyTorch with FSDP and autocast, as llm-foundry runs it",
     .kernel = Kernel::kFlash1,
     .memory_ops = 0.65,
     .hidden_cost = 0.9},
    {.name = "eager-bf16",
     .about = "the same with bfloat16 parameters, without autocast",
     .kernel = Kernel::kFlash1,
     .memory_ops = 0.75,
     .hidden_cost = 0.9},
    {.name = "megatron-2021",
     .about = "Megatron-LM before sequence parallelism and flash attention",
     .kernel = Kernel::kUnfused,
     .hidden_cost = 0.25,
     .splits_norms = false,
     .hides_gradients = false},
    {.name = "deepspeed-2021",
     .about = "DeepSpeed's ZeRO 3 with unfused attention",
     .kernel = Kernel::kUnfused,
     .hidden_cost = 0.25,
     .splits_norms = false,
     .one_port = true},
});

}  // namespace

std::span<const Stack> Stacks() { return kStacks; }

const Stack* FindStack(std::string_view name) {
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
