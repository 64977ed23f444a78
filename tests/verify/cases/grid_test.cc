#include "verify/cases/grid.h"
#include "verify/cases/random_cases.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "complete.h"
#include "verify/judge/run_case.h"

namespace shardc::verify {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// SHARDC_VERIFY_SEED and SHARDC_VERIFY_CASES select other cases, or more.
TEST_CASE(
    "random legal cases pass for every operation, mesh, layout and mask") {
  const uint64_t seed = FromEnvironment("SHARDC_VERIFY_SEED", 1);
  const uint64_t count =
      FromEnvironment("SHARDC_VERIFY_CASES", RunsAllCases() ? 2400 : 1000);
  MESSAGE("seed " << seed << ", " << count << " cases");
  std::map<std::string, int> passed;
  int failed = 0, unsupported = 0;
  double worst = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const Case test = RandomCase(seed, i);
    const CaseResult result = RunCase(test);
    if (result.status == Status::kPass) {
      ++passed[std::string(test.operation->name)];
      if (result.tolerance > 0) {
        worst = std::max(worst, result.error.max_abs / result.tolerance);
      }
      continue;
    }
    if (result.status == Status::kUnsupported) ++unsupported;
    ++failed;
    if (failed > 12) continue;
    MESSAGE("case " << i << ": " << CaseText(test));
    FAIL_CHECK(StatusName(result.status)
               << " " << (result.failed ? CheckName(*result.failed) : "")
               << ": " << result.reason);
  }
  CHECK(failed == 0);
  MESSAGE("worst error over tolerance " << worst);
  for (const auto& [name, times] : passed) {
    MESSAGE(name << ": " << times << " passed");
  }
  MESSAGE(unsupported << " unsupported");
}

}  // namespace
}  // namespace shardc::verify
