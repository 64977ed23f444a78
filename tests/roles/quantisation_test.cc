#include "roles/classify.h"

#include <doctest/doctest.h>

#include <cstdint>

namespace shardc {
namespace {

TEST_CASE("a block is the elements that share a scale") {
  struct Row {
    int64_t size, scales, block;
  };
  for (const Row& row : {Row{4096, 32, 128},
                         {4000, 40, 100},
                         {4097, 33, 128},
                         {4096, 100, 1},
                         {4096, 4096, 1},
                         {4096, 1, 4096},
                         {4096, 0, 1},
                         {10, 4, 1},
                         {16, 32, 1},
                         {576, 5, 128},
                         {7168, 56, 128},
                         {300, 3, 128}}) {
    CAPTURE(row.size);
    CAPTURE(row.scales);
    CHECK(BlockOf(row.size, row.scales) == row.block);
  }
}

}  // namespace
}  // namespace shardc
