// Tests the times in reports: they have three digits and no exponent.
#include "emit/costs/cost_report.h"

#include <doctest/doctest.h>

namespace shardc {
namespace {

TEST_CASE("times have three digits, or all digits of their seconds") {
  struct Case {
    double seconds;
    const char* text;
  };
  const Case cases[] = {{1.0312, "1.03 s"},  {0.47, "470 ms"},
                        {0.9996, "1000 ms"}, {1.17e-5, "11.7 us"},
                        {999.4, "999 s"},    {999.6, "1000 s"},
                        {1234.4, "1234 s"},  {86400, "86400 s"}};
  for (const Case& one : cases) {
    CAPTURE(one.seconds);
    CHECK(SecondsText(one.seconds) == one.text);
  }
}

}  // namespace
}  // namespace shardc
