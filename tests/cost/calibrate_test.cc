#include "cost/calibrate.h"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cost/expected.h"
#include "cost/models.h"
#include "cost/rates.h"

namespace shardc::cost {
namespace {

// Returns a step of Llama 3 8B. Its time is the expected one on a device with
// the efficiencies of `truth`.
MeasuredStep StepOn(const DeviceProfile& truth, const std::string& mesh,
                    int64_t batch, int64_t length) {
  MeasuredStep out;
  out.name = mesh;
  out.inputs = BundledWork("llama-3-8b.hf.manifest.json", "llama-3-8b", mesh,
                           Mode::kTrain, "whole hidden");
  out.settings.batch = batch;
  out.settings.length = length;
  out.settings.stack = FindStack("compiled");
  out.memory = MemoryOf(out.inputs, out.settings);
  out.communication = CommunicationOf(out.inputs, out.settings);
  Settings settings = out.settings;
  settings.profile = &truth;
  out.seconds =
      ExpectedTimeOf(out.inputs, settings, out.memory, out.communication)
          ->seconds;
  return out;
}

TEST_CASE("the figures of a device are found from its steps") {
  const DeviceProfile base = *FindDeviceProfile("h100-sxm");
  std::string why;
  for (const double matmul : {0.3, 0.55}) {
    for (const double attention : {0.15, 0.4}) {
      CAPTURE(matmul);
      CAPTURE(attention);
      DeviceProfile truth = base;
      truth.efficiency.matmul = matmul;
      truth.efficiency.flash_attn2 = attention;
      const std::vector<MeasuredStep> steps = {
          StepOn(truth, "fsdp:8", 16, 2048), StepOn(truth, "fsdp:8", 8, 32768)};
      const auto found = Calibrate(base, steps, why);
      REQUIRE(found.has_value());
      CHECK(found->figures == std::vector{Figure::kMatmul, Figure::kFlash2});
      CHECK(found->efficiency.matmul == doctest::Approx(matmul).epsilon(1e-3));
      CHECK(*found->efficiency.flash_attn2 ==
            doctest::Approx(attention).epsilon(1e-3));
      for (const CalibratedStep& step : found->steps) {
        CHECK(step.after == doctest::Approx(step.seconds).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("figures that the steps do not determine are the base's") {
  const DeviceProfile base = *FindDeviceProfile("h100-sxm");
  DeviceProfile truth = base;
  truth.efficiency.matmul = 0.4;
  truth.efficiency.scale = 0.05;
  std::string why;
  // Two steps of the same length determine neither the efficiency of attention
  // nor the scale.
  const std::vector<MeasuredStep> two = {StepOn(truth, "fsdp:8", 16, 2048),
                                         StepOn(truth, "fsdp:64", 128, 2048)};
  const auto found = Calibrate(base, two, why);
  REQUIRE(found.has_value());
  CHECK(found->figures == std::vector{Figure::kMatmul});
  CHECK(found->efficiency.scale == base.efficiency.scale);
  std::vector<MeasuredStep> three = two;
  three.push_back(StepOn(truth, "fsdp:512", 1024, 2048));
  const auto scaled = Calibrate(base, three, why);
  REQUIRE(scaled.has_value());
  CHECK(scaled->figures == std::vector{Figure::kMatmul, Figure::kScale});
  CHECK(scaled->efficiency.scale == doctest::Approx(0.05).epsilon(1e-2));
}

TEST_CASE("one step changes a base that is more than 10 % off") {
  const DeviceProfile base = *FindDeviceProfile("h100-sxm");
  MeasuredStep step = StepOn(base, "fsdp:8", 16, 2048);
  std::string why;
  const double expected = step.seconds;
  for (const auto& [factor, changes] :
       {std::pair{1.05, false}, {0.93, false}, {1.15, true}, {0.85, true}}) {
    const auto& given_factor = factor;
    CAPTURE(given_factor);
    step.seconds = factor * expected;
    const auto found = Calibrate(base, std::span(&step, 1), why);
    REQUIRE(found.has_value());
    CHECK(found->figures.empty() == !changes);
    CHECK(found->remarks.size() == 1);
  }
  CHECK_FALSE(Calibrate(base, {}, why).has_value());
}

TEST_CASE("a step without a length has no time") {
  const DeviceProfile base = *FindDeviceProfile("h100-sxm");
  MeasuredStep step = StepOn(base, "fsdp:8", 16, 2048);
  step.settings.length.reset();
  std::string why;
  CHECK_FALSE(Calibrate(base, std::span(&step, 1), why).has_value());
  CHECK(why.find("no expected time") != std::string::npos);
}

}  // namespace
}  // namespace shardc::cost
