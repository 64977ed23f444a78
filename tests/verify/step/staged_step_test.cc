// Tests steps with pipeline schedules on the ranks of a simulated mesh.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "complete.h"
#include "schedule/schedules.h"
#include "source/size.h"
#include "verify/step/staged_cases.h"
#include "verify/step/staged_faults.h"

namespace shardc::verify {
namespace {

std::string TextOf(const StagedCaseKind& kind) {
  std::string out = std::string(kind.schedule) + " p " +
                    std::to_string(kind.extent.ranks) + " v " +
                    std::to_string(kind.extent.virtual_stages) + " m " +
                    std::to_string(kind.extent.microbatches) + " dp " +
                    std::to_string(kind.dp) + " tp " + std::to_string(kind.tp) +
                    (kind.experts ? " experts" : "") +
                    (kind.recompute ? " recompute" : "") + " layers";
  for (const int64_t layers : kind.layers) out += " " + std::to_string(layers);
  return out;
}

void CheckEqual(const StagedCaseKind& kind) {
  CAPTURE(TextOf(kind));
  const auto of = MakeStagedCase(kind);
  REQUIRE(of != nullptr);
  StagedTraffic traffic;
  const StepProof proof = of->Prove({}, &traffic);
  for (const StepProblem& problem : proof.problems) {
    const std::string op =
        problem.op < 0 ? "" : of->graph.ops[AsIndex(problem.op)].name;
    FAIL_CHECK(StepCheckName(problem.check), " ", op, ": ", problem.message);
  }
  CHECK(proof.gradients > 0);
  CHECK(proof.updates == proof.gradients);
  CHECK(traffic.messages > 0);
}

TEST_CASE("a step under each schedule equals the dense step") {
  for (const schedule::Schedule& schedule : schedule::Schedules()) {
    CheckEqual(SmallStagedCase(schedule.name));
  }
}

// Returns sizes that the schedule accepts, with layers that are divided
// unevenly, so that stages may be empty.
StagedCaseKind Drawn(std::string_view name, std::mt19937_64& random) {
  const auto below = [&](uint64_t n) {
    return static_cast<int32_t>(random() % n);
  };
  StagedCaseKind out;
  out.schedule = name;
  const schedule::Schedule* const schedule = schedule::FindSchedule(name);
  do {
    out.extent.ranks = 2 + below(3);
    out.extent.virtual_stages =
        schedule->fixed_virtual ? schedule->virtual_stages : 1 + below(2);
    out.extent.microbatches = 2 + below(8);
  } while (schedule::Refusal(*schedule, out.extent));
  out.layers.clear();
  for (int32_t i = 0; i < out.extent.Stages(); ++i) {
    out.layers.push_back(below(5) == 0 ? 0 : 1 + below(5) / 4);
  }
  if (out.extent.Stages() ==
      std::count(out.layers.begin(), out.layers.end(), 0)) {
    out.layers.back() = 1;
  }
  out.dp = 1 + below(2);
  out.tp = 1 + below(2);
  out.experts = below(2) == 0;
  out.recompute = below(2) == 0;
  out.reduction = static_cast<step::Reduction>(below(3));
  return out;
}

TEST_CASE("steps of random sizes under each schedule equal the dense step") {
  std::mt19937_64 random(35);
  const char* const more = std::getenv("SHARDC_CASES");
  const int64_t each = more != nullptr  ? std::max(3, std::atoi(more))
                       : RunsAllCases() ? 3
                                        : 2;
  for (const schedule::Schedule& schedule : schedule::Schedules()) {
    for (int64_t i = 0; i < each; ++i) {
      CheckEqual(Drawn(schedule.name, random));
    }
  }
}

// If all micro-batches had equally many tokens, the mean of their means would
// be the mean over all tokens, and a fault that confuses them would be missed.
TEST_CASE("masked rows of micro-batches have different numbers of tokens") {
  const auto of = MakeStagedCase(
      {.schedule = "zb-h1", .extent = {2, 1, 4}, .layers = {1, 2}});
  REQUIRE(of != nullptr);
  const auto m = static_cast<double>(of->step.table.microbatches);
  const auto number = [&](step::ValueId value) {
    return of->reference.values[AsIndex(value)].data[0];
  };
  CHECK(m == 4);
  CHECK(number(of->graph.gradient_norm) > 0);
  std::vector<double> tokens;
  for (const step::Data& data : of->graph.data) {
    if (data.kind != step::DataKind::kWeights) continue;
    const auto& weights = of->reference.values[AsIndex(data.value)].data;
    tokens.push_back(std::accumulate(weights.begin(), weights.end(), 0.0));
  }
  REQUIRE(tokens.size() == 4);
  CHECK(*std::max_element(tokens.begin(), tokens.end()) >
        *std::min_element(tokens.begin(), tokens.end()));
}

TEST_CASE("every fault of a pipeline is injected and detected") {
  StepSelfTest result;
  AddStagedSelfTest(2, {}, result);
  CHECK(result.unsound.empty());
  CHECK(result.sound == 10);
  CHECK(result.faults.size() == StagedFaultCount());
  std::set<std::string_view> names;
  for (const StepFaultVerdict& fault : result.faults) {
    CAPTURE(std::string(fault.name));
    CAPTURE(std::string(fault.by));
    CHECK(fault.injected);
    CHECK(fault.caught);
    CHECK(names.insert(fault.name).second);
  }
}

}  // namespace
}  // namespace shardc::verify
