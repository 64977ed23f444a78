#include "exec/machine/machine.h"

#include <doctest/doctest.h>

namespace shardc::exec {
namespace {

struct Adding {
  int by = 1;
};
struct Scaling {
  int by = 10;
};

TEST_CASE("a seam that was not set is the correct one") {
  const Seams seams;
  CHECK(seams.Get<Adding>().by == 1);
  CHECK(seams.Get<Scaling>().by == 10);
}

TEST_CASE("each type has one seam, and the last one set counts") {
  Seams seams;
  seams.Set(Adding{2});
  CHECK(seams.Get<Adding>().by == 2);
  CHECK(seams.Get<Scaling>().by == 10);
  seams.Set(Adding{3});
  CHECK(seams.Get<Adding>().by == 3);
  const Seams copy = seams;
  seams.Set(Adding{4});
  CHECK(copy.Get<Adding>().by == 3);
}

}  // namespace
}  // namespace shardc::exec
