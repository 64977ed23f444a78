#include "verify/judge/placed.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "exec/machine/random.h"
#include "exec/operations/operation.h"
#include "verify/cases/grid.h"

namespace shardc::verify {
namespace {

Case CaseOf(Assignment axes, Layout layout = Layout::kBthd) {
  Case test;
  test.operation = &exec::kFlashAttention;
  test.mesh = MeshOf({{"dp", 2}, {"sp", 2}, {"tp", 2}});
  test.sizes = {4, 16, 16, 8, 4, 16, 0};
  test.layout = layout;
  test.specs = SpecsFor(layout, axes, 0, false);
  return test;
}

dense::Array Numbers(uint64_t seed) {
  dense::Array out = dense::Array::Zeros({4, 16, 8, 16});
  const exec::Random random(seed);
  for (size_t i = 0; i < out.data.size(); ++i) out.data[i] = random.Normal(i);
  return out;
}

TEST_CASE("a wrong element is reported at its place in every layout") {
  const Assignment ways[] = {
      {},
      {{"dp"}, {}, {}, {"tp"}, {"tp"}, {}, {}},
      {{"tp", "dp"}, {"sp"}, {"sp"}, {}, {}, {}, {}},
      {{}, {"sp", "dp"}, {"sp", "dp"}, {"tp"}, {}, {}, {}},
  };
  WrongOutputs wrong;
  for (const Assignment& axes : ways) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const dense::Array reference = Numbers(seed);
      const Limits limits{dense::Array::Zeros(reference.shape), 1e-3};
      OfferPlaced(CaseOf(axes), reference, limits, wrong);
    }
  }
  CHECK(wrong.offered == 80);
  CHECK(wrong.taken == std::vector<std::string>{});
}

TEST_CASE(
    "an axis that does not separate right devices from wrong ones is refused") {
  // The key's batch is sharded over tp instead of dp, so the explanation names
  // tp, which does not separate correct devices from wrong ones.
  Case test = CaseOf({{"dp"}, {}, {}, {}, {}, {}, {}});
  test.specs.key = test.specs.value = {{"tp"}};
  const dense::Array reference = Numbers(1);
  WrongOutputs wrong;
  OfferPlaced(test, reference, {dense::Array::Zeros(reference.shape), 1e-3},
              wrong);
  CHECK(wrong.taken ==
        std::vector<std::string>{"one wrong element, reported with axis `tp`"});
}

TEST_CASE("no element is offered where the tolerance is infinite") {
  WrongOutputs wrong;
  const dense::Array reference = Numbers(1);
  OfferPlaced(CaseOf({}), reference, {dense::Array::Zeros(reference.shape), 0},
              wrong);
  OfferPlaced(CaseOf({}), dense::Array::Zeros({0, 1, 1, 1}), {}, wrong);
  CHECK(wrong.offered == 0);
}

}  // namespace
}  // namespace shardc::verify
