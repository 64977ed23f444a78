#include "source/memory.h"

#include <cstdint>
#include <limits>
#include <string>

#include "doctest/doctest.h"

namespace shardc {
namespace {

// Whether pages are huge depends on the system, so only the blocks that are
// allocated afterwards are tested.
TEST_CASE("huge pages can be requested for any number of bytes") {
  constexpr int64_t kMiB = 1 << 20;
  for (const int64_t bytes :
       {int64_t{-1}, int64_t{0}, 16 * kMiB - 1, 16 * kMiB, 100 * kMiB,
        std::numeric_limits<int64_t>::max()}) {
    CAPTURE(bytes);
    PreferHugePages(bytes);
    const std::string block(4 * kMiB, 'x');
    CHECK(block.find_first_not_of('x') == std::string::npos);
  }
}

}  // namespace
}  // namespace shardc
