#include "exec/machine/machine.h"

#include <doctest/doctest.h>

namespace shardc::exec {
namespace {

SentBytes Of(std::vector<int64_t> gathered, std::vector<int64_t> reduced) {
  SentBytes out;
  out.Add(Collective::kAllGather, gathered);
  out.Add(Collective::kAllReduce, reduced);
  return out;
}

TEST_CASE("devices that send nothing may be missing from a list") {
  const SentBytes whole = Of({4, 0, 0}, {0, 8}), cut = Of({4}, {0, 8, 0, 0});
  CHECK(whole == cut);
  CHECK(cut == whole);
  CHECK(SentBytes{} == Of({0, 0}, {}));
  for (const SentBytes& other :
       {Of({4, 0, 1}, {0, 8}), Of({4}, {0, 8, 0, 1}), Of({5}, {0, 8}),
        Of({}, {0, 8}), SentBytes{}}) {
    CHECK_FALSE(whole == other);
    CHECK_FALSE(other == whole);
  }
  CHECK(whole.Most(Collective::kAllReduce) == 8);
  CHECK(whole.Total() == 12);
}

}  // namespace
}  // namespace shardc::exec
