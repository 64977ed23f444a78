#include "step/layer_fold.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace shardc::step {
namespace {

// Each letter is the kind of one layer.
LayerFold Fold(const std::string& letters) {
  return FoldLayers(std::vector<int32_t>(letters.begin(), letters.end()));
}

std::string Repeated(const std::string& block, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += block;
  return out;
}

TEST_CASE("of identical layers four are built") {
  const LayerFold fold = Fold(Repeated("a", 32));
  CHECK(fold.layers == std::vector<int32_t>{0, 1, 2, 31});
  CHECK(fold.times[0] == 1);
  CHECK(fold.times[1] == 29);
  CHECK(fold.times[2] == 1);
  CHECK(fold.times[3] == 0);
  CHECK(fold.times[31] == 1);
  REQUIRE(fold.runs.size() == 1);
  CHECK(fold.runs[0].second == 1);
  CHECK(fold.runs[0].third == 2);
  CHECK(fold.runs[0].period == 1);
}

TEST_CASE("a block of several layers repeats") {
  // Ten blocks of five layers with a window and one without, and two more
  // layers with a window.
  const LayerFold fold = Fold(Repeated("wwwwwg", 10) + "ww");
  CHECK(fold.layers.size() == 26);
  REQUIRE(fold.runs.size() == 1);
  CHECK(fold.runs[0].period == 6);
  CHECK(fold.times[6] == 7);
  CHECK(fold.times[60] == 1);
  CHECK(fold.layers.back() == 61);
}

TEST_CASE("a few layers before a run are built") {
  const LayerFold fold = Fold("aaa" + Repeated("b", 58));
  CHECK(fold.layers == std::vector<int32_t>{0, 1, 2, 3, 4, 5, 60});
  CHECK(fold.times[4] == 55);
}

TEST_CASE("layers stand for as many as the model has") {
  for (const std::string block : {"a", "ab", "aab", "abcd"}) {
    for (int times = 0; times < 12; ++times) {
      for (const std::string end : {"", "a", "xyz"}) {
        const std::string letters = "xx" + Repeated(block, times) + end;
        CAPTURE(letters);
        const LayerFold fold = Fold(letters);
        CHECK(std::accumulate(fold.times.begin(), fold.times.end(),
                              int64_t{0}) == int64_t(letters.size()));
        for (const int32_t layer : fold.layers) {
          CHECK(fold.times[size_t(layer)] > 0);
        }
      }
    }
  }
  CHECK(Fold("").layers.empty());
  CHECK(Fold("aaaa").runs.empty());
}

}  // namespace
}  // namespace shardc::step
