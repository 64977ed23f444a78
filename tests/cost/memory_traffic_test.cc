#include "cost/time.h"

#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cost/models.h"

namespace shardc::cost {
namespace {

// 256 experts, 8 for each token, one down projection for a layer.
CostInputs Serving(const std::vector<std::pair<std::string, int64_t>>& axes,
                   const AxisGroup& batch, Spec spec) {
  CostInputs work = TrainingOn(MeshOf(axes), batch);
  work.mode = Mode::kDecode;
  work.params = {ClassOf("layers.*.mlp.experts.down_proj.kernel", {256, 64, 32},
                         Dtype::kBF16, std::move(spec))};
  ModelConfig model;
  model.hidden = 32;
  model.experts = 256;
  model.experts_per_token = 8;
  work.model = model;
  return work;
}

TEST_CASE("a serving step reads the experts that its tokens choose") {
  struct Case {
    const char* title;
    int64_t batch;
    AxisGroup tokens;  // the axes that shard the batch
    int64_t sent;      // the tokens that are sent to a device's experts
  };
  const Case cases[] = {
      {"one token", 1, {}, 1},
      {"every device has all tokens", 16, {}, 16},
      {"tokens of all devices of the experts' axis", 64, {"ep"}, 64},
      {"tokens of other replicas choose other copies", 64, {"dp"}, 32},
  };
  for (const Case& one : cases) {
    CAPTURE(one.title);
    CostInputs work =
        Serving({{"dp", 2}, {"ep", 4}}, one.tokens, {{"ep"}, {}, {}});
    Settings settings;
    settings.batch = one.batch;
    settings.kv_length = 1;
    const double share =
        1 - std::pow(1 - 8.0 / 256, static_cast<double>(one.sent));
    const auto chosen = ChosenExperts(work, settings);
    REQUIRE(chosen.has_value());
    CHECK(*chosen == doctest::Approx(share));
    const double held = 256 * 64 * 32 * 2 / 4.0;
    CHECK(MemoryTrafficOf(work, settings, MemoryOf(work, settings)) ==
          doctest::Approx(held * share));
    work.mode = Mode::kTrain;
    CHECK_FALSE(ChosenExperts(work, settings).has_value());
  }
}

TEST_CASE("a model without experts reads all of its weights") {
  CostInputs work = Serving({{"tp", 2}}, {}, {{}, {}, {}});
  work.params = {ClassOf("layers.*.mlp.down_proj.kernel", {64, 32},
                         Dtype::kBF16, {{"tp"}, {}})};
  Settings settings;
  settings.batch = 1;
  settings.kv_length = 1;
  CHECK_FALSE(ChosenExperts(work, settings).has_value());
  CHECK(MemoryTrafficOf(work, settings, MemoryOf(work, settings)) ==
        64 * 32 * 2 / 2);
}

}  // namespace
}  // namespace shardc::cost
