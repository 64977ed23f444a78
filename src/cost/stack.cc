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
// llm-foundry (`kFoundryMemory`): its norms read and write the products' dtype
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
     .about = "Megatron-LM, NeMo and Transformer Engine until NeMo 25.11 "
              "(November 2025): an all-to-all of copies, no CUDA graphs",
     .kernel = Kernel::kCudnn,
     .hidden_cost = 0.25,
     .fuses_sinks = false,
     .memory = {.keeps_gradients = true}},
    {.name = "megatron-2026-02",
     .about = "the same from NeMo 26.02 (February 2026): HybridEP",
     .kernel = Kernel::kCudnn,
     .hidden_cost = 0.25,
     .dispatcher = Dispatcher::kHybridEp,
     .fuses_sinks = false,
     .memory = {.keeps_gradients = true}},
    {.name = "megatron-2026-06",
     .about = "the same from NeMo 26.06 (June 2026): HybridEP, fused "
              "permutations and sinks; its recipes for Blackwell add "
              "`--graphs step`",
     .kernel = Kernel::kCudnn,
     .hidden_cost = 0.25,
     .dispatcher = Dispatcher::kHybridEp,
     .permutation_passes = 3,
     .memory = {.keeps_gradients = true}},
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
