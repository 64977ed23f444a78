#include "plan/placement.h"

#include <doctest/doctest.h>

#include <string>

#include "draws.h"
#include "match/match.h"

namespace shardc {
namespace {

TEST_CASE("digits between: which patterns have this form") {
  CHECK(DigitsBetween::Of(R"(experts\.(\d+)\.)"));
  CHECK(DigitsBetween::Of(R"(experts/(\d+)/)"));
  CHECK(DigitsBetween::Of(R"(w(\d+))"));
  CHECK_FALSE(DigitsBetween::Of(R"(experts.(\d+)\.)"));
  CHECK_FALSE(DigitsBetween::Of(R"(experts(\d+)0)"));
  CHECK_FALSE(DigitsBetween::Of(R"(^experts\.(\d+)\.)"));
  CHECK_FALSE(DigitsBetween::Of(R"((a|b)\.(\d+)\.)"));
  CHECK_FALSE(DigitsBetween::Of(R"(experts\.([0-9]+)\.)"));
}

TEST_CASE("digits between: random names give what RE2 captures") {
  const std::string patterns[] = {R"(a\.(\d+)\.)", R"(a(\d+)b)", R"((\d+))",
                                  R"(aa(\d+)\.a)", R"(a1(\d+))"};
  Draws draws(11);
  int found = 0;
  for (const std::string& pattern : patterns) {
    Findings findings;
    const auto regex = Regex::Compile({pattern, {}, '/'}, findings);
    const auto fast = DigitsBetween::Of(pattern);
    REQUIRE(regex);
    REQUIRE(fast);
    for (int i = 0; i < 20000; ++i) {
      std::string name;
      for (size_t left = draws() % 12; left > 0; --left) {
        name += "aab.12"[draws() % 6];
      }
      const auto wanted = regex->Group1(name);
      found += wanted ? 1 : 0;
      REQUIRE_MESSAGE(fast->In(name) == wanted, pattern, " in ", name);
    }
  }
  CHECK(found > 1000);
}

}  // namespace
}  // namespace shardc
