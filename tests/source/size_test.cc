#include "source/size.h"

#include <doctest/doctest.h>

namespace shardc {
namespace {

TEST_CASE("a size that does not fit stays too large") {
  const Size large = int64_t{1} << 40;
  CHECK((large * 4).value() == int64_t{1} << 42);
  const Size product = large * large;
  CHECK_FALSE(product.Fits());
  CHECK_FALSE(product.Checked());
  CHECK(product.value() == Size::kTooLarge);
  CHECK_FALSE((product * 0).Fits());
  CHECK_FALSE((product + 1).Fits());
  CHECK_FALSE((product / 2).Fits());
  CHECK_FALSE((Size(7) / product).Fits());
  CHECK_FALSE((Size(INT64_MAX - 1) + 1).Fits());
  CHECK((Size(INT64_MAX - 2) + 1).Fits());
  CHECK((Size(6) * 0).value() == 0);
  CHECK((Size(7) / 2).value() == 3);
}

TEST_CASE("a share is rounded up") {
  CHECK(ShareOf(8, 4) == 2);
  CHECK(ShareOf(9, 4) == 3);
  CHECK(ShareOf(INT64_MAX, 2) == (int64_t{1} << 62));
}

}  // namespace
}  // namespace shardc
