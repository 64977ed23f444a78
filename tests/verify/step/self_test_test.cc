// Tests the injection of faults into correct steps.
#include "verify/step/self_test.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "step/derivatives.h"

namespace shardc::verify {
namespace {

TEST_CASE("every fault of a step is injected and caught") {
  const StepSelfTest result = RunStepSelfTest(StepFaults(), 2);
  CHECK(result.sound == kSoundSteps);
  CHECK(result.faults.size() >= 87);
  for (const StepFaultVerdict& fault : result.faults) {
    CAPTURE(std::string(fault.name));
    CAPTURE(std::string(fault.by));
    CHECK(fault.injected);
    CHECK(fault.caught);
  }
  CHECK(result.Holds());
}

TEST_CASE("a table that does nothing does not pass") {
  const auto tried = [](FaultAction inject) {
    return RunStepSelfTest({{.name = "idle",
                             .family = "none",
                             .breaks = "nothing",
                             .on = SoundStep::kMicro,
                             .seam = FaultSeam::kOp,
                             .by = StepCheck::kStatic,
                             .inject = std::move(inject)}},
                           1);
  };
  for (const FaultAction& inject : std::vector<FaultAction>{
           [](const SoundCase&, Wrong&) { return true; },
           Skip({.op = "nowhere"}),
           AtOp({"micro mean", step::OpKind::kScale}, [](WrongOp&) {})}) {
    const StepSelfTest result = tried(inject);
    CHECK(result.Injected() == 0);
    CHECK(result.Caught() == 0);
    CHECK_FALSE(result.Holds());
  }
  // The fault is detected, but not by the expected check.
  const StepSelfTest other =
      tried(ReduceMore({"d:head first", step::OpKind::kEinsum, 1}, {"dp"}));
  CHECK(other.Injected() == 1);
  CHECK(other.Caught() == 0);
  CHECK(other.faults[0].by == "results");
}

TEST_CASE("faults have names of their own, and each seam has some") {
  std::set<std::string_view> names;
  std::set<FaultSeam> seams;
  std::set<SoundStep> steps;
  for (const StepFault& fault : StepFaults()) {
    CHECK(names.insert(fault.name).second);
    seams.insert(fault.seam);
    steps.insert(fault.on);
  }
  CHECK(seams.size() == 5);
  CHECK(steps.size() == size_t{kSoundSteps});
}

TEST_CASE("gradients of the sound steps are derivatives") {
  for (int i = 0; i < kSoundSteps; ++i) {
    const auto which = static_cast<SoundStep>(i);
    // The data are created again without the ties between experts, where a loss
    // has no derivative. They include the factors of dropout.
    if (which == SoundStep::kDecode || which == SoundStep::kNarrow) continue;
    CAPTURE(std::string(SoundStepName(which)));
    const auto of = MakeSoundCase(which);
    REQUIRE(of != nullptr);
    const StepData data = MakeStepData(of->graph, of->sizes, Dtype::kF64, 0);
    CHECK(dense::ComplexStepError(of->graph, of->sizes, data.values, 1) <
          1e-11);
  }
}

}  // namespace
}  // namespace shardc::verify
