#include "verify/judge/narrow_bound.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "verify/cases/grid.h"
#include "verify/judge/run_case.h"

namespace shardc::verify {
namespace {

struct Row {
  int bits;
  Dtype softmax;
  double nearest;  // the worst error comes at least so near to the bound
};

TEST_CASE("narrow arithmetic stays inside its bound and gets near it") {
  const Row rows[] = {
      {8, Dtype::kF32, 0.03}, {4, Dtype::kF32, 0.03},  {0, Dtype::kBF16, 0.03},
      {0, Dtype::kF16, 0.03}, {8, Dtype::kBF16, 0.03},
  };
  for (const Row& row : rows) {
    double nearest = 0;
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      Case test;
      test.operation = exec::FindOperation("vanilla");
      test.mesh = MeshOf({{"tp", 2}});
      test.sizes = {2, 8, 16, 4, 2, 16, 0};
      test.seed = seed;
      test.settings.dot_bits = row.bits;
      test.settings.softmax_dtype = row.softmax;
      const CaseResult result = RunCase(test);
      CAPTURE(row.bits);
      CHECK(result.status == Status::kPass);
      CHECK(result.error.max_abs <= result.cap);
      nearest = std::max(nearest, result.error.max_abs / result.cap);
    }
    MESSAGE(row.bits << " bits, softmax " << DtypeName(row.softmax)
                     << ": error over bound " << nearest);
    CHECK(nearest > row.nearest);
  }
}

TEST_CASE("plain arithmetic has no narrow bound") {
  CHECK_FALSE(IsNarrow({}));
  CHECK(NarrowBounds({}, {}, {}).data.empty());
}

}  // namespace
}  // namespace shardc::verify
