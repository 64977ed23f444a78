#include "cost/memory.h"

#include <doctest/doctest.h>

#include <string>

#include "comm/memory.h"
#include "cost/models.h"

namespace shardc::cost {
namespace {

int64_t ParameterBytes(const CostInputs& work) {
  return MemoryOf(work, {}).most.Of(Component::kParameters).value_or(-1);
}

// The first figure of ZeRO (arXiv 1910.02054): with 7.5e9 parameters, each of
// 64 devices holds 120, 31.4, 16.6 and 1.9 GB; exactly 120, 31.40625,
// 16.640625, 1.875.
TEST_CASE("ZeRO's table") {
  CostInputs work = TrainingOn(MeshOf({{"dp", 64}}), {"dp"});
  work.params = {ClassOf("w.weight", {75000, 100000}, Dtype::kBF16, {})};
  const auto states = [&](int stage) {
    Settings settings;
    settings.zero = stage;
    const Memory memory = MemoryOf(work, settings);
    return *memory.most.Of(Component::kParameters) +
           *memory.most.Of(Component::kGradients) +
           *memory.most.Of(Component::kOptimizer);
  };
  CHECK(states(0) == 120'000'000'000);
  CHECK(states(1) == 31'406'250'000);
  CHECK(states(2) == 16'640'625'000);
  CHECK(states(3) == 1'875'000'000);
}

TEST_CASE("gradients that are reduced at the end are unsharded until then") {
  CostInputs work = TrainingOn(MeshOf({{"dp", 64}}), {"dp"});
  work.params = {ClassOf("w.weight", {75000, 100000}, Dtype::kBF16, {})};
  Settings settings;
  settings.zero = 2;
  const auto gradients = [&] {
    return *MemoryOf(work, settings).most.Of(Component::kGradients);
  };
  settings.reduction = step::Reduction::kOnce;
  // One micro-batch has no sum.
  CHECK(gradients() == 15'000'000'000 / 64);
  settings.microbatches = 4;
  CHECK(gradients() == 15'000'000'000);
  settings.reduction = step::Reduction::kSharded;
  CHECK(gradients() == 15'000'000'000 / 64);
}

// Megatron Core's documentation of its distributed optimizer: bytes a
// parameter over d replicas.
TEST_CASE("Megatron's distributed optimizer") {
  const int64_t d = 8;
  CostInputs work = TrainingOn(MeshOf({{"dp", d}}), {"dp"});
  work.params = {ClassOf("w.weight", {1000, 1000}, Dtype::kBF16, {})};
  Settings settings;
  const auto bytes = [&] {
    const Memory memory = MemoryOf(work, settings);
    return *memory.most.Of(Component::kParameters) +
           *memory.most.Of(Component::kGradients) +
           *memory.most.Of(Component::kOptimizer);
  };
  // bf16 parameters and fp32 gradients: 18 bytes, and 6 + 12/d if distributed.
  settings.gradients = Dtype::kF32;
  CHECK(bytes() == 18'000'000);
  settings.zero = 1;
  CHECK(bytes() == 6'000'000 + 12'000'000 / d);
  // fp32 parameters: 16 bytes, and 8 + 8/d if distributed.
  work.params[0].type.dtype = Dtype::kF32;
  settings.gradients.reset();
  CHECK(bytes() == 8'000'000 + 8'000'000 / d);
  settings.zero = 0;
  CHECK(bytes() == 16'000'000);
}

// Bytes in bfloat16. The numbers of parameters are those that the models'
// publishers state, or those of MaxText's shapes.
TEST_CASE("parameter bytes of bundled models") {
  struct Known {
    std::string manifest;
    int64_t parameters;
  };
  const Known known[] = {
      {"llama-2-7b.hf.manifest.json.gz", 6738415616},
      {"llama-3-8b.hf.manifest.json", 8030261248},
      {"llama-3-70b.hf.manifest.json.gz", 70553706496},
      {"llama-3.1-405b.hf.manifest.json.gz", 405853388800},
      {"mixtral-8x7b.hf.manifest.json.gz", 46702792704},
      {"gemma-2b.hf.manifest.json.gz", 2506172416},
      {"gemma-2-9b.hf.manifest.json.gz", 9241705984},
  };
  for (const Known& one : known) {
    CAPTURE(one.manifest);
    CHECK(ParameterBytes(BundledWork(one.manifest, "", "dp:1", Mode::kTrain)) ==
          2 * one.parameters);
  }
}

TEST_CASE("cache bytes a token of published models") {
  struct Known {
    std::string manifest, config;
    int64_t bytes;
  };
  const Known known[] = {
      {"llama-3-8b.hf.manifest.json", "llama-3-8b", 131072},
      {"llama-3-70b.hf.manifest.json.gz", "llama-3-70b", 327680},
      {"mixtral-8x7b.hf.manifest.json.gz", "mixtral-8x7b", 131072},
      {"llama-3.1-405b.hf.manifest.json.gz", "llama-3.1-405b", 516096},
      {"gemma-2-9b.hf.manifest.json.gz", "gemma-2-9b", 344064},
      {"gemma-3-27b.hf.manifest.json.gz", "gemma-3-27b", 507904},
      // 61 layers of a latent of 512 and 64 rotated: 70.272 kB.
      {"llama-3-8b.hf.manifest.json", "deepseek-v3", 70272},
  };
  for (const Known& one : known) {
    CAPTURE(one.config);
    const CostInputs work =
        BundledWork(one.manifest, one.config, "dp:1", Mode::kDecode);
    Settings settings;
    settings.batch = 1;
    settings.kv_length = 1;
    CHECK(MemoryOf(work, settings).most.Of(Component::kCache) == one.bytes);
  }
}

// 21 of gemma-2-9b's 42 layers have a window of 4096 tokens, and 52 of
// gemma-3-27b's 62 layers a window of 1024. Tokens outside a layer's window are
// not kept.
TEST_CASE("windowed layers keep their window") {
  const auto cache = [](const std::string& model, int64_t length) {
    const CostInputs work = BundledWork(model + ".hf.manifest.json.gz", model,
                                        "dp:1", Mode::kDecode);
    Settings settings;
    settings.batch = 1;
    settings.kv_length = length;
    return *MemoryOf(work, settings).most.Of(Component::kCache);
  };
  CHECK(cache("gemma-2-9b", 32768) == 8192LL * (21 * 32768 + 21 * 4096));
  CHECK(cache("gemma-3-27b", 131072) == 8192LL * (10 * 131072 + 52 * 1024));
}

TEST_CASE("a cache of int8 has a scale a token and head") {
  const CostInputs work = BundledWork("llama-3-8b.hf.manifest.json",
                                      "llama-3-8b", "dp:2,tp:4", Mode::kDecode);
  Settings settings;
  settings.batch = 8;
  settings.kv_length = 100;
  settings.cache = Dtype::kI8;
  // There are 4 rows and 2 heads on each device.
  CHECK(MemoryOf(work, settings).most.Of(Component::kCache) ==
        2 * 32 * 4 * 100 * 2 * (128 + 4));
}

// For Llama-3-8B with unstacked float32 parameters, optax's adafactor keeps
// 12,609,536 B. It factors a parameter whose second largest dimension is at
// least 128.
TEST_CASE("adafactor's rows and columns") {
  CostInputs work = BundledWork("llama-3-8b.hf.manifest.json", "llama-3-8b",
                                "dp:1", Mode::kTrain);
  Settings settings;
  settings.optimizer = Optimizer::kAdafactor;
  settings.master_given = true;
  CHECK(MemoryOf(work, settings).most.Of(Component::kOptimizer) == 12609536);
}

TEST_CASE("optimizers' bytes a parameter") {
  CostInputs work = TrainingOn(MeshOf({{"dp", 1}}), {"dp"});
  work.params = {ClassOf("mlp.up_proj.weight", {1000, 1000}, Dtype::kF32, {})};
  const auto bytes = [&](Optimizer optimizer) {
    Settings settings;
    settings.optimizer = optimizer;
    return *MemoryOf(work, settings).most.Of(Component::kOptimizer) / 1000000;
  };
  CHECK(bytes(Optimizer::kAdamW) == 8);
  CHECK(bytes(Optimizer::kLion) == 4);
  CHECK(bytes(Optimizer::kMomentum) == 4);
  CHECK(bytes(Optimizer::kMuon) == 4);
  CHECK(bytes(Optimizer::kSgd) == 0);
}

TEST_CASE("the emptiest device has what is placed nowhere else") {
  CostInputs work = TrainingOn(MeshOf({{"dp", 1}, {"ep", 4}}), {"dp"});
  ParamClass one = ClassOf("experts.*.w1.weight", {10, 10}, Dtype::kF32, {}, 3);
  one.placed_along = "ep";
  one.placed = {{0, 2}, {1, 1}};
  work.params = {one};
  const Memory memory = MemoryOf(work, {});
  CHECK(memory.most.Of(Component::kParameters) == 800);
  CHECK(memory.least.Of(Component::kParameters) == 0);
}

TEST_CASE("what is not known is listed") {
  CostInputs work = TrainingOn(MeshOf({{"dp", 1}}), {});
  ParamClass nameless = ClassOf("w.weight", {2, 2}, Dtype::kF32, {});
  nameless.type.shape.reset();
  work.params = {nameless};
  const Memory memory = MemoryOf(work, {});
  CHECK(!memory.most.Of(Component::kParameters));
  CHECK(memory.unknown.size() == 2);
  CHECK(memory.most.total == 0);
  CHECK(!memory.Fits());
}

TEST_CASE("memory with an unknown component fits only if it is known to") {
  Memory memory;
  memory.most.by.fill(10);
  memory.most.total = 70;
  struct Case {
    bool complete;
    std::optional<int64_t> capacity;
    std::optional<Fit> verdict;
  };
  for (const Case& one :
       {Case{true, 70, Fit::kFits}, Case{true, 69, Fit::kExceeds},
        Case{false, 60, std::nullopt}, Case{false, 59, Fit::kExceeds},
        Case{true, std::nullopt, std::nullopt}}) {
    Memory of = memory;
    if (!one.complete) {
      of.most.by[static_cast<size_t>(Component::kCache)].reset();
      of.most.total = 60;
    }
    of.capacity = one.capacity;
    CAPTURE(one.complete);
    CAPTURE(one.capacity.value_or(-1));
    CHECK(of.Complete() == one.complete);
    CHECK(of.Verdict() == one.verdict);
  }
}

TEST_CASE("the memory is that of the profile in use, unless it is stated") {
  constexpr int64_t kStated = int64_t{20} << 30;
  const DeviceProfile* const h100 = FindDeviceProfile("h100-sxm");
  const DeviceProfile* const a100 = FindDeviceProfile("a100-40-sxm");
  const Device named{"h100-sxm", h100->DeviceMemory()};
  Settings settings;
  CHECK(CapacityOf({}, settings) == std::nullopt);
  CHECK(CapacityOf(named, settings) == h100->DeviceMemory());
  CHECK(CapacityOf({"", kStated}, settings) == kStated);
  settings.profile = a100;
  CHECK(CapacityOf({}, settings) == a100->DeviceMemory());
  CHECK(CapacityOf(named, settings) == a100->DeviceMemory());
  CHECK(CapacityOf({"h100-sxm", kStated}, settings) == kStated);
  CHECK(CapacityOf({"", kStated}, settings) == kStated);
  settings.memory = 7;
  CHECK(CapacityOf({"h100-sxm", kStated}, settings) == 7);
}

TEST_CASE("a step with an unknown component fits only if it is known to") {
  Memory memory;
  memory.most.by.fill(10);
  memory.most.by[static_cast<size_t>(Component::kLogits)].reset();
  memory.most.total = 60;
  memory.taken.emplace();
  memory.taken->least = 50;
  memory.taken->expected = 60;
  memory.taken->most = 80;
  memory.capacity = 80;
  CHECK(memory.Verdict() == std::nullopt);
  CHECK(memory.VerdictOfKnown() == Fit::kFits);
  memory.capacity = 79;
  CHECK(memory.Verdict() == Fit::kMayFit);
  CHECK(memory.Fits() == false);
  memory.capacity = 49;
  CHECK(memory.Verdict() == Fit::kExceeds);
}

}  // namespace
}  // namespace shardc::cost
