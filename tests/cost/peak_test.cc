#include "cost/memory.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cost/models.h"
#include "cost/rates.h"
#include "step/recompute.h"

namespace shardc::cost {
namespace {

constexpr double kGiB = 1 << 30;

Settings SettingsOf(const std::string& stack, int64_t batch, int64_t length,
                    const std::string& policy) {
  Settings out;
  out.stack = FindStack(stack);
  out.batch = batch;
  out.length = length;
  std::string why;
  out.remat = *step::ParseRemat(policy, why);
  return out;
}

CostInputs Llama(const std::string& mesh) {
  return BundledWork("llama-3-8b.hf.manifest.json", "llama-3-8b", mesh,
                     Mode::kTrain, "whole hidden");
}

// One row of 32,768 tokens, bfloat16 parameters and a float32 master copy. Each
// layer keeps its input, and the loss 3.5 copies of 128,256 logits.
TEST_CASE("the peak of Llama 3 8B is in the loss") {
  const Settings settings =
      SettingsOf("compiled", 8, 32768, "nothing_saveable");
  const Memory memory = MemoryOf(Llama("fsdp:8"), settings);
  REQUIRE(memory.taken.has_value());
  CHECK(memory.taken->moment == Moment::kLoss);
  CHECK(memory.most.Of(Component::kActivations) == 32LL * 32768 * 4096 * 2);
  CHECK(memory.most.Of(Component::kLogits) == 14LL * 32768 * 128256);
  // A layer of 218,112,000 weights and the embedding are gathered, with two
  // bytes per number.
  CHECK(memory.most.Of(Component::kGathered) ==
        2 * (218103808LL + 128256 * 4096));
  CHECK(static_cast<double>(memory.taken->expected) / kGiB ==
        doctest::Approx(1.03 * static_cast<double>(*memory.most.total) / kGiB));
}

TEST_CASE("a fused loss leaves the peak to a layer's backward pass") {
  Settings settings = SettingsOf("compiled", 8, 8192, "nothing_saveable");
  settings.loss = LossKind::kFused;
  const CostInputs work = Llama("fsdp:8");
  const Memory memory = MemoryOf(work, settings);
  REQUIRE(memory.taken.has_value());
  CHECK(memory.taken->moment == Moment::kBackward);
  CHECK(memory.most.Of(Component::kLogits) == 0);
  // Besides the recomputed tensors, the peak has the gradients of gate, up and
  // matmul, of 14,336 numbers each, and of two hidden states of 4,096.
  const int64_t gradients = 8192LL * 2 * (3 * 14336 + 2 * 4096);
  CHECK(memory.most.Of(Component::kActivations) ==
        memory.activations->Total() + gradients);
}

// Parameters in bfloat16 have gradients of 2 bytes a number.
TEST_CASE(
    "a single device has the gradients of a step from the backward pass") {
  const CostInputs work = Llama("dp:1");
  const int64_t head = 2LL * 128256 * 4096, all = 2LL * 8030261248;
  const auto take = [&](int64_t length, LossKind loss) {
    Settings settings = SettingsOf("hf", 1, length, "nothing_saveable");
    settings.loss = loss;
    const Memory out = MemoryOf(work, settings);
    REQUIRE(out.taken.has_value());
    CHECK(Real(out.taken->expected) ==
          doctest::Approx(1.03 * Real(*out.most.total)));
    CHECK(out.taken->least <= out.taken->expected);
    CHECK(out.taken->most >= out.taken->expected);
    return out;
  };
  // 131,072 tokens have four copies of 67 GB of logits.
  const Memory loss = take(131072, LossKind::kEager);
  CHECK(loss.taken->moment == Moment::kLoss);
  CHECK(loss.most.Of(Component::kGradients) == 0);
  // The inputs of all layers take more than all gradients.
  const Memory first = take(131072, LossKind::kFused);
  CHECK(first.taken->moment == Moment::kBackward);
  CHECK(first.most.Of(Component::kGradients) == head);
  // In a short row, the gradients take more than all that is kept.
  const Memory last = take(128, LossKind::kFused);
  CHECK(last.taken->moment == Moment::kBackward);
  CHECK(last.most.Of(Component::kGradients) == all);
  CHECK(last.most.Of(Component::kActivations) ==
        last.activations->working + 128LL * 2 * (3 * 14336 + 2 * 4096));
  // Gradients exist during the entire step if they are added up over
  // micro-batches, and where the software has buffers for them.
  Settings settings = SettingsOf("hf", 2, 131072, "nothing_saveable");
  settings.microbatches = 2;
  CHECK(MemoryOf(work, settings).most.Of(Component::kGradients) == all);
  settings = SettingsOf("megatron", 1, 131072, "nothing_saveable");
  CHECK(MemoryOf(work, settings).most.Of(Component::kGradients) == all);
}

TEST_CASE("hidden states over the tensor axis are gathered in a layer") {
  Settings settings = SettingsOf("compiled", 8, 8192, "nothing_saveable");
  settings.loss = LossKind::kFused;
  CostInputs work = Llama("fsdp:2,tp:4");
  const auto held = [&] {
    return *MemoryOf(work, settings).most.Of(Component::kActivations);
  };
  const int64_t whole = held();
  work.hidden = {"tp"};
  // If the hidden state is sharded, a device holds a quarter of it, but two
  // inputs of a layer are gathered, which adds three quarters of each.
  const int64_t quarter = held();
  CHECK(quarter < whole);
  const Memory memory = MemoryOf(work, settings);
  const int64_t tokens = 4LL * 8192;
  const int64_t wide = 3LL * 14336 / 4, input = 4096 / 4;
  CHECK(quarter == memory.activations->Total() +
                       2 * tokens * (wide + 2 * input + 2 * input * 3));
}

TEST_CASE("the copies of the logits by kind of loss") {
  const CostInputs work = Llama("fsdp:8");
  struct Case {
    std::string stack;
    LossKind loss;
    double copies;
  };
  const std::vector<Case> cases = {
      {"compiled", LossKind::kStack, 3.5},
      {"compiled", LossKind::kEager, 4},
      {"compiled", LossKind::kCompiled, 1.5},
      {"eager", LossKind::kStack, 1},
      {"eager-bf16", LossKind::kStack, 1},
      {"eager", LossKind::kEager, 4},
      {"hf", LossKind::kStack, 4},
      {"xla", LossKind::kStack, 2},
      {"megatron", LossKind::kStack, 1.5},
      {"xla", LossKind::kCompiled, 1.5},
  };
  for (const Case& one : cases) {
    CAPTURE(one.stack);
    CAPTURE(one.copies);
    Settings settings = SettingsOf(one.stack, 8, 32768, "nothing_saveable");
    settings.loss = one.loss;
    const double logits = 32768.0 * 128256 * 4;
    const Memory memory = MemoryOf(work, settings);
    CHECK(static_cast<double>(*memory.most.Of(Component::kLogits)) ==
          doctest::Approx(one.copies * logits));
    // With half a copy the peak is in the backward pass of a layer.
    if (one.copies == 1) continue;
    settings.loss_chunk = 16384;
    CHECK(static_cast<double>(
              *MemoryOf(work, settings).most.Of(Component::kLogits)) ==
          doctest::Approx(one.copies * logits / 2));
  }
}

// Norms in float32 make Hugging Face models keep 1.7 times what derivatives
// read; those of llm-foundry have the dtype of the matmuls.
TEST_CASE("eager models keep more only where their norms are in float32") {
  const CostInputs work = Llama("fsdp:8");
  const std::vector<std::pair<std::string, double>> cases = {
      {"eager", 1.045}, {"eager-bf16", 1.045}, {"hf", 1.7}};
  for (const auto& [stack, factor] : cases) {
    const auto& given_stack = stack;
    CAPTURE(given_stack);
    const Memory memory =
        MemoryOf(work, SettingsOf(stack, 8, 32768, "everything_saveable"));
    REQUIRE(memory.taken->moment == Moment::kLoss);
    const auto kept = static_cast<double>(memory.activations->kept);
    CHECK(static_cast<double>(*memory.most.Of(Component::kActivations)) ==
          doctest::Approx(factor * kept));
  }
}

// Parameters in float32, of which XLA keeps a bfloat16 copy.
TEST_CASE("XLA casts all parameters at once") {
  CostInputs work = Llama("fsdp:8");
  for (ParamClass& param : work.params) param.type.dtype = Dtype::kF32;
  const auto gathered = [&](const std::string& stack) {
    const Settings settings = SettingsOf(stack, 8, 8192, "nothing_saveable");
    return *MemoryOf(work, settings).most.Of(Component::kGathered);
  };
  // 65 norms are replicated.
  const int64_t norms = 65 * 4096;
  CHECK(gathered("xla") == 2 * ((8030261248LL - norms) / 8 + norms));
  CHECK(gathered("compiled") == 2 * (218103808LL + 128256 * 4096));
}

TEST_CASE("least, expected and most are in order") {
  for (const char* const mesh : {"fsdp:8", "dp:2,fsdp:4", "fsdp:2,tp:4"}) {
    for (const Stack& stack : Stacks()) {
      for (const std::string_view policy : step::RematNames()) {
        if (policy.find("names") != std::string_view::npos) continue;
        if (policy.find("both") != std::string_view::npos) continue;
        CAPTURE(mesh);
        CAPTURE(stack.name);
        CAPTURE(policy);
        const Settings settings =
            SettingsOf(std::string(stack.name), 8, 4096, std::string(policy));
        const Memory memory = MemoryOf(Llama(mesh), settings);
        REQUIRE(memory.taken.has_value());
        CHECK(memory.taken->least <= memory.taken->expected);
        CHECK(memory.taken->expected < memory.taken->most);
        CHECK(*memory.most.total <= memory.taken->expected);
      }
    }
  }
}

TEST_CASE("a step fits, may fit or exceeds the memory") {
  Settings settings = SettingsOf("compiled", 8, 8192, "nothing_saveable");
  const CostInputs work = Llama("fsdp:8");
  const TakenBytes taken = *MemoryOf(work, settings).taken;
  const auto verdict = [&](int64_t memory) {
    settings.memory = memory;
    return *MemoryOf(work, settings).Verdict();
  };
  CHECK(verdict(taken.most) == Fit::kFits);
  CHECK(verdict(taken.most - 1) == Fit::kMayFit);
  CHECK(verdict(taken.expected - 1) == Fit::kMayFit);
  CHECK(verdict(taken.least) == Fit::kMayFit);
  CHECK(verdict(taken.least - 1) == Fit::kExceeds);
}

TEST_CASE("the context of a GPU grows with the axes in use") {
  const auto most = [](const std::string& mesh) {
    Settings settings = SettingsOf("compiled", 8, 8192, "nothing_saveable");
    return MemoryOf(Llama(mesh), settings).taken->most;
  };
  CHECK(most("fsdp:8,sp:1") == most("fsdp:8"));
  // The estimate counts 700 MB more for a third axis in use. The axis is added
  // to a mesh that already has dp, since dp itself also adds to the states of a
  // device.
  CostInputs work = Llama("dp:2,fsdp:4");
  Settings settings = SettingsOf("compiled", 8, 8192, "nothing_saveable");
  const int64_t two = MemoryOf(work, settings).taken->most;
  work.mesh.axes.push_back({"other", 2, AxisType::kAuto});
  CHECK(MemoryOf(work, settings).taken->most == two + 700'000'000);
}

}  // namespace
}  // namespace shardc::cost
