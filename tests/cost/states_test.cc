#include "cost/memory.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cost/models.h"

namespace shardc::cost {
namespace {

// Such as "128 128 1536": bytes of the parameter, its gradient and its
// optimizer states; - for one that is unknown.
std::string TextOf(const StateBytes& states) {
  std::string out;
  for (const auto& bytes :
       {states.parameter, states.gradient, states.optimizer}) {
    if (!out.empty()) out += " ";
    out += bytes ? std::to_string(*bytes) : "-";
  }
  return out;
}

// Returns the states of a parameter on dp:4,tp:2, whose batch dp shards.
std::string StatesUnder(const Settings& settings, const ParamClass& param,
                        Mode mode = Mode::kTrain) {
  CostInputs work = TrainingOn(MeshOf({{"dp", 4}, {"tp", 2}}), {"dp"});
  work.mode = mode;
  return TextOf(StatesOf(work, param, settings));
}

ParamClass Projection(Dtype dtype = Dtype::kF32, Spec spec = {}) {
  return ClassOf("layers.0.mlp.up_proj.weight", {256, 512}, dtype,
                 std::move(spec));
}

TEST_CASE("each optimizer has its numbers per element") {
  const auto with = [](Optimizer optimizer) {
    Settings settings;
    settings.optimizer = optimizer;
    return StatesUnder(settings, Projection());
  };
  // 131072 elements of 4 bytes.
  CHECK(with(Optimizer::kAdamW) == "524288 524288 1048576");
  CHECK(with(Optimizer::kLion) == "524288 524288 524288");
  CHECK(with(Optimizer::kMomentum) == "524288 524288 524288");
  CHECK(with(Optimizer::kMuon) == "524288 524288 524288");
  CHECK(with(Optimizer::kSgd) == "524288 524288 0");
  // A row of 512 and a column of 256 numbers.
  CHECK(with(Optimizer::kAdafactor) == "524288 524288 3072");
}

TEST_CASE("muon keeps one number for projections and two for others") {
  Settings settings;
  settings.optimizer = Optimizer::kMuon;
  CHECK(StatesUnder(settings, ClassOf("lm_head.weight", {10, 20}, Dtype::kF32,
                                      {})) == "800 800 1600");
  CHECK(StatesUnder(settings, ClassOf("model.embed_tokens.weight", {10, 20},
                                      Dtype::kF32, {})) == "800 800 1600");
  CHECK(StatesUnder(settings, ClassOf("layers.0.input_layernorm.weight", {20},
                                      Dtype::kF32, {})) == "80 80 160");
  CHECK(StatesUnder(settings, ClassOf("layers.0.self_attn.q_proj.weight",
                                      {10, 20}, Dtype::kF32, {})) ==
        "800 800 800");
}

TEST_CASE("adafactor factors the two largest dimensions from 128 on") {
  Settings settings;
  settings.optimizer = Optimizer::kAdafactor;
  const auto optimizer = [&](Shape shape, Spec spec = {}) {
    const std::string all = StatesUnder(
        settings,
        ClassOf("w.weight", std::move(shape), Dtype::kF32, std::move(spec)));
    return std::stoll(all.substr(all.rfind(' ') + 1)) / 4;
  };
  CHECK(optimizer({128, 200}) == 328);
  CHECK(optimizer({200, 128}) == 328);
  CHECK(optimizer({127, 200}) == 127 * 200);
  CHECK(optimizer({1000}) == 1000);
  CHECK(optimizer({}) == 1);
  // The smallest dimension stays in both.
  CHECK(optimizer({3, 200, 300}) == 3 * 200 + 3 * 300);
  CHECK(optimizer({200, 3, 300}) == 3 * 200 + 3 * 300);
  CHECK(optimizer({200, 300, 3}) == 3 * 200 + 3 * 300);
  // The shape decides which are factored, the shard what they hold.
  CHECK(optimizer({256, 512}, {{"tp"}, {}}) == 128 + 512);
  CHECK(optimizer({256, 512}, {{}, {"tp"}}) == 256 + 256);
  CHECK(optimizer({128, 512}, {{"dp"}, {}}) == 32 + 512);
}

TEST_CASE("a narrow parameter has a float32 copy by default") {
  const auto optimizer = [](Dtype dtype, const Settings& settings) {
    return StatesUnder(settings, Projection(dtype));
  };
  Settings settings;
  settings.optimizer = Optimizer::kSgd;
  CHECK(optimizer(Dtype::kBF16, settings) == "262144 262144 524288");
  CHECK(optimizer(Dtype::kF32, settings) == "524288 524288 0");
  CHECK(optimizer(Dtype::kF64, settings) == "1048576 1048576 0");
  settings.master_given = true;
  CHECK(optimizer(Dtype::kBF16, settings) == "262144 262144 0");
  settings.master = Dtype::kBF16;
  CHECK(optimizer(Dtype::kF32, settings) == "524288 524288 262144");
}

TEST_CASE("moments and gradients have dtypes of their own") {
  Settings settings;
  settings.first_moment = Dtype::kBF16;
  CHECK(StatesUnder(settings, Projection()) == "524288 524288 786432");
  settings.first_moment.reset();
  settings.second_moment = Dtype::kI8;
  CHECK(StatesUnder(settings, Projection()) == "524288 524288 655360");
  settings.first_moment = Dtype::kF64;
  CHECK(StatesUnder(settings, Projection()) == "524288 524288 1179648");
  settings.gradients = Dtype::kBF16;
  CHECK(StatesUnder(settings, Projection()) == "524288 262144 1179648");
}

TEST_CASE("each ZeRO stage divides one more of the states") {
  const auto at = [](int stage, Spec spec) {
    Settings settings;
    settings.zero = stage;
    return StatesUnder(settings, Projection(Dtype::kF32, std::move(spec)));
  };
  CHECK(at(0, {}) == "524288 524288 1048576");
  CHECK(at(1, {}) == "524288 524288 262144");
  CHECK(at(2, {}) == "524288 131072 262144");
  CHECK(at(3, {}) == "131072 131072 262144");
  // tp shards no tokens: its replicas keep their states.
  CHECK(at(3, {{"tp"}, {}}) == "65536 65536 131072");
  // dp shards the parameter already.
  CHECK(at(3, {{"dp"}, {}}) == "131072 131072 262144");
  CHECK(at(0, {{"dp"}, {}}) == "131072 131072 262144");
  // A share is rounded up: 5 elements over 4 devices.
  Settings settings;
  settings.zero = 3;
  CHECK(StatesUnder(settings, ClassOf("norm.weight", {5}, Dtype::kF32, {})) ==
        "8 8 16");
  // An axis that places a parameter on one coordinate divides nothing more.
  ParamClass placed = Projection();
  placed.placed_along = "dp";
  CHECK(StatesUnder(settings, placed) == "524288 524288 1048576");
}

TEST_CASE("states that are offloaded take no memory of a device") {
  Settings settings;
  settings.offloads_optimizer = true;
  CHECK(StatesUnder(settings, Projection()) == "524288 524288 0");
  const CostInputs work = TrainingOn(MeshOf({{"dp", 4}, {"tp", 2}}), {"dp"});
  CHECK(StatesOf(work, Projection(), settings).offloaded == 1048576);
}

TEST_CASE("gradients that are reduced once are those of gathered weights") {
  Settings settings;
  settings.reduction = step::Reduction::kOnce;
  const auto gradient = [&](Spec spec) {
    return StatesUnder(settings, Projection(Dtype::kF32, std::move(spec)));
  };
  CHECK(gradient({{"dp"}, {}}) == "131072 131072 262144");
  settings.microbatches = 2;
  CHECK(gradient({{"dp"}, {}}) == "131072 524288 262144");
  CHECK(gradient({{"tp"}, {}}) == "262144 262144 524288");
  CHECK(gradient({{"dp", "tp"}, {}}) == "65536 262144 131072");
  settings.reduction = step::Reduction::kSharded;
  CHECK(gradient({{"dp"}, {}}) == "131072 131072 262144");
}

TEST_CASE("integers and modes without training have no states") {
  Settings settings;
  settings.zero = 3;
  CHECK(StatesUnder(settings, Projection(Dtype::kI8)) == "32768 0 0");
  CHECK(StatesUnder(settings, Projection(), Mode::kDecode) == "524288 0 0");
  ParamClass unknown = Projection();
  unknown.type.dtype.reset();
  CHECK(StatesUnder(settings, unknown) == "- - -");
  CHECK_FALSE(IsTrained(unknown));
  unknown = Projection();
  unknown.type.shape.reset();
  CHECK(StatesUnder(settings, unknown) == "- - -");
  CHECK(IsTrained(unknown));
  CHECK_FALSE(IsTrained(Projection(Dtype::kI8)));
}

TEST_CASE("sizes beyond 64 bits are unknown") {
  const int64_t large = int64_t{1} << 31;
  CHECK(StatesUnder({}, ClassOf("w.weight", {large, large}, Dtype::kF32, {})) ==
        "- - -");
  CHECK(StatesUnder({}, ClassOf("w.weight", {large, large, 4}, Dtype::kF32,
                                {})) == "- - -");
  // The parameter fits, and two moments of it do not.
  CHECK(StatesUnder(
            {}, ClassOf("w.weight", {large, large / 2}, Dtype::kBF16, {})) ==
        "4611686018427387904 4611686018427387904 -");
}

}  // namespace
}  // namespace shardc::cost
