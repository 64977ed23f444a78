// The table of software stacks. The figures of time are fitted to 364 published
// runs of dense models on GPUs and TPUs. If the user names no stack, the stack
// is xla for devices in a torus. For other devices it is guessed from the names
// of the parameters:
//
//   model/layers/0/mlp/kernel  ->  xla;  model.layers.0.mlp.weight -> compiled
//
// The figures of memory come from published peaks and from compiled programs.
//
// Copies of the logits that the loss holds, where a float32 copy counts as 1:
// 3.5 in the stack `compiled`, which are bfloat16 logits (0.5), a float32 copy
// (1), the log-softmax (1) and its gradient (1). The peaks of torchtitan's runs
// with one and with two rows differ by 3.6 copies. Eager ops hold 4 copies; a
// step that XLA compiles holds 2.
//
// Kept tensors, as a multiple of the tensors that derivatives read: 1.03 to
// 1.06 in Megatron's logs; 1.7 in eager Hugging Face models, which keep norms
// in float32 (DeepSpeed 0.14 without checkpointing); 2 in programs compiled for
// TPU v5e, which in turn hold only 0.3 of the tensors of a rematerialised
// layer.
//
// PyTorch's optimizers set gradients to None after the update. On a single
// device, gradients exist only from the backward pass to the update. On several
// devices they are reduced in buffers that exist during the entire step.
// Megatron has such buffers on a single device too (param_and_grad_buffer.py).
// How XLA shares the memory of gradients on one device was not measured.
//
// Reserved memory is 1.006 to 1.058 times the allocated memory in 16 ranks of
// Megatron.
//
// llm-foundry's norms read and write the products' dtype
// (low_precision_layernorm), and its loss is flash-attn's fused_crossentropy,
// which reads bfloat16 logits and writes their gradient. Each of the two takes
// half a float32 copy. The 137 published runs of llm-foundry used the largest
// micro-batch that fits. With four copies of the logits and 1.7 times the kept
// tensors, these runs would not have fitted.
//
// Pipelines gather the weights of a stage once a step: torchtitan sets
// `reshard_after_forward` to false if the model has stages, and Llama 3's
// weights are not resharded after the forward pass (arXiv 2407.21783, section
// 3.3.2). PyTorch's stages keep them in the backward pass as well, and reduce
// the sum of the gradients after the last micro-batch
// (torch/distributed/pipelining/stage.py, backward_maybe_with_nosync). Megatron
// gathers weights after the optimizer's update and reduces gradients with the
// last micro-batch. MaxText gathers weights in each iteration of a pipeline
// (`pipeline_fsdp_ag_once: False` by default).
#include "cost/stack.h"

#include <algorithm>
#include <array>

#include "cost/time.h"

namespace shardc::cost {
namespace {

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
     .about = "Megatron-LM, NeMo and Transformer Engine",
     .kernel = Kernel::kCudnn,
     .hidden_cost = 0.25,
     .memory = {.keeps_gradients = true}},
    {.name = "xla",
     .about = "JAX, as MaxText runs it",
     .kernel = Kernel::kAny,
     .hidden_cost = 0.2,
     .exposed = 0.4,
     .exposed_overlapped = 0.4,
     .gathers_stages_once = false,
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
