#include <doctest/doctest.h>

#include "compat_case.h"
#include "reference/setting.h"

namespace shardc {
namespace {

constexpr uint64_t kCases = 2000;

Reached RunCases(Compat compat) {
  Reached reached;
  const uint64_t first = reference::FirstSeed();
  for (uint64_t seed = first; seed < first + kCases; ++seed) {
    INFO("SHARDC_SEED=", seed);
    CompareCompat(Draws(seed), compat, reached);
  }
  // Of 80,000 specs.
  CHECK(reached.specs > 40000);
  CHECK(reached.sharded > 10000);
  CHECK(reached.unmatched > 1000);
  CHECK(reached.refused > 500);
  CHECK(reached.undecayed > 1000);
  return reached;
}

TEST_CASE("under compat eformer a plan equals eformer's specs") {
  CHECK(RunCases(Compat::kEformer).corrected > 10000);
}

TEST_CASE("under compat fjformer a plan equals fjformer's specs") {
  CHECK(RunCases(Compat::kFjformer).corrected > 1000);  // of one element
}

}  // namespace
}  // namespace shardc
