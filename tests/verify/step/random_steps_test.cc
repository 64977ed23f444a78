// Tests steps of small models with random meshes, policies and dtypes.
#include <doctest/doctest.h>

#include <iterator>
#include <string>
#include <vector>

#include "complete.h"
#include "verify/step/random_models.h"
#include "verify/step/step_report.h"

namespace shardc::verify {
namespace {

TEST_CASE("random steps are the dense model's") {
  const int64_t cases =
      CasesOf("SHARDC_RANDOM_STEPS", RunsAllCases() ? 60 : 36);
  exec::RandomSequence random{exec::Random(11)}, policies{exec::Random(12)},
      zeros{exec::Random(13)};
  std::vector<Model> models;
  for (const Family& family : kFamilies) models.push_back(ModelOf(family));
  constexpr Mode kModes[] = {Mode::kTrain, Mode::kTrain, Mode::kPrefill,
                             Mode::kDecode};
  int64_t passed = 0;
  for (int64_t i = 0; i < cases; ++i) {
    const size_t which = random.Below(std::size(kFamilies));
    const Mesh mesh = RandomMesh(random);
    const auto compiled = CompiledOn(mesh, kFamilies[which], models[which]);
    Findings findings;
    StepRequest request;
    request.compiled = compiled.get();
    request.config = &models[which].config;
    request.mode = ModeOr(kModes[random.Below(4)], *compiled, models[which]);
    request.batch = 64;
    request.length = 64;
    request.dtype = random.Chance(0.3) ? Dtype::kF32 : Dtype::kF64;
    if (random.Chance(0.2)) request.dtype = Dtype::kBF16;
    if (random.Chance(0.7)) {
      request.policy =
          random.Chance(0.5) ? step::Policy::kCost : step::Policy::kPublished;
    }
    request.keep_gathered = random.Chance(0.3);
    if (policies.Chance(0.7)) request.remat = RandomRemat(policies);
    if (policies.Chance(0.2)) {
      request.microbatches = policies.Chance(0.5) ? 2 : 4;
      request.reduction = policies.Chance(0.5)   ? step::Reduction::kEach
                          : policies.Chance(0.5) ? step::Reduction::kSharded
                                                 : step::Reduction::kOnce;
    }
    // From a separate random sequence, so that the other choices stay the same.
    if (zeros.Chance(0.3)) request.zero = 1 + static_cast<int>(zeros.Below(3));
    request.seed = random.Below(1000);
    const auto report = VerifyStep(request, findings);
    CAPTURE(kFamilies[which].pack);
    CAPTURE(MeshText(mesh));
    CAPTURE(ModeName(request.mode));
    CAPTURE(request.remat.text);
    CAPTURE(request.microbatches);
    CAPTURE(request.seed);
    REQUIRE(report.has_value());
    CAPTURE(report->reason);
    std::string problems;
    for (const std::string& problem : report->problems) {
      problems += problem + "\n";
    }
    CHECK(problems == "");
    CHECK(report->status == StepStatus::kPass);
    passed += report->status == StepStatus::kPass ? 1 : 0;
  }
  CHECK(passed == cases);
}

}  // namespace
}  // namespace shardc::verify
