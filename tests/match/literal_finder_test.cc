#include "match/re2_finder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "draws.h"

namespace shardc {
namespace {

std::vector<uint32_t> Found(const std::vector<std::string>& literals,
                            std::string_view text) {
  std::vector<uint32_t> out;
  LiteralFinder(literals).Find(text, out);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

TEST_CASE("literals that overlap or contain each other are all found") {
  const std::vector<std::string> literals = {"attn", "tn/k", "n", "kernel",
                                             "nk"};
  CHECK(Found(literals, "attn/kernel") == std::vector<uint32_t>{0, 1, 2, 3});
  CHECK(Found(literals, "ATTn") == std::vector<uint32_t>{2});
  CHECK(Found(literals, "at/tk").empty());
  CHECK(Found(literals, "").empty());
  CHECK(Found({}, "attn").empty());
}

TEST_CASE("random literals are found as by a search for each") {
  Draws draws(20250311);
  const auto text = [&](size_t most) {
    std::string out;
    const size_t size = 1 + draws() % most;
    while (out.size() < size) out += "ab/"[draws() % 3];
    return out;
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> literals;
    for (size_t n = draws() % 9; n > 0; --n) {
      std::string literal = text(5);
      if (std::find(literals.begin(), literals.end(), literal) ==
          literals.end()) {
        literals.push_back(std::move(literal));
      }
    }
    const std::string name = text(20);
    std::vector<uint32_t> expected;
    for (size_t i = 0; i < literals.size(); ++i) {
      if (name.find(literals[i]) != std::string::npos) {
        expected.push_back(static_cast<uint32_t>(i));
      }
    }
    CHECK(Found(literals, name) == expected);
  }
}

}  // namespace
}  // namespace shardc
