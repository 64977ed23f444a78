#include "verify/cases/matrix.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace shardc::verify {
namespace {

Sizes Usual() {
  Sizes out;
  out.batch = 2;
  out.heads = 8;
  out.key_heads = 4;
  out.head_dim = 16;
  out.query_length = 8;
  out.key_length = 16;
  return out;
}

TEST_CASE("a size below one is refused") {
  Findings none;
  CHECK(CheckSizes(Usual(), none));
  CHECK(none.empty());
  for (int64_t Sizes::*const size :
       {&Sizes::batch, &Sizes::heads, &Sizes::key_heads, &Sizes::head_dim,
        &Sizes::query_length, &Sizes::key_length}) {
    for (const int64_t wrong :
         {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
      Sizes sizes = Usual();
      sizes.*size = wrong;
      Findings findings;
      CHECK_FALSE(CheckSizes(sizes, findings));
      REQUIRE(findings.all().size() == 1);
      CHECK(findings.all()[0].message.ends_with(
          std::to_string(wrong) + ", which leaves attention nothing"));
    }
  }
}

TEST_CASE(
    "heads that groups do not divide and queries longer than keys are "
    "refused") {
  Sizes sizes = Usual();
  sizes.key_heads = 3;
  Findings findings;
  CHECK_FALSE(CheckSizes(sizes, findings));
  sizes = Usual();
  sizes.query_length = 17;
  CHECK_FALSE(CheckSizes(sizes, findings));
}

}  // namespace
}  // namespace shardc::verify
