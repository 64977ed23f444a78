#include "floats/targets_simd.h"

#include <doctest/doctest.h>
#include <hwy/targets.h>

namespace shardc {
namespace {

TEST_CASE("the processor's targets are those that Highway finds") {
  const int64_t known = HWY_TARGETS;
  CHECK((DetectedTargets() & known) == (hwy::SupportedTargets() & known));
}

TEST_CASE("a table is read at the best compiled target") {
  const size_t all = TargetIndex(HWY_TARGETS);
  const size_t least = TargetIndex(HWY_STATIC_TARGET);
  const size_t none = TargetIndex(0);
  CHECK(all > 0);
  CHECK(all <= least);
  CHECK(least <= none);
  CHECK(none == HWY_MAX_DYNAMIC_TARGETS + 1);
}

}  // namespace
}  // namespace shardc
