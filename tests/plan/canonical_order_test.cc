// Compares the order of names in canonical JSON with a simple comparison of
// UTF-16 code units.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "plan/fingerprint.h"

namespace shardc {
namespace {

std::vector<std::string> Sorted(const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  std::vector<std::string> out;
  for (const uint32_t at : CanonicalOrder(views)) out.push_back(names[at]);
  return out;
}

// A code point with its UTF-8 bytes and UTF-16 units.
struct Point {
  std::string bytes;
  std::u16string units;
};

const std::vector<Point>& Points() {
  static const std::vector<Point> points = {
      {"/", u"/"},
      {"a", u"a"},
      {"~", u"~"},
      {"\xc3\xa9", u"\u00e9"},
      {"\xdf\xbf", u"\u07ff"},
      {"\xe0\xa0\x80", u"\u0800"},
      {"\xe3\x81\x82", u"\u3042"},
      {"\xed\x9f\xbf", u"\ud7ff"},
      {"\xee\x80\x80", u"\ue000"},
      {"\xef\xbc\x8e", u"\uff0e"},
      {"\xef\xbf\xbf", u"\uffff"},
      // These have two code units from D800 on, so they come before U+E000,
      // although their bytes come after.
      {"\xf0\x90\x80\x80", std::u16string{0xd800, 0xdc00}},
      {"\xf0\x90\x8f\xbf", std::u16string{0xd800, 0xdfff}},
      {"\xf0\x90\x90\x80", std::u16string{0xd801, 0xdc00}},
      {"\xf0\x9f\x98\x80", std::u16string{0xd83d, 0xde00}},
      {"\xf4\x8f\xbf\xbf", std::u16string{0xdbff, 0xdfff}},
  };
  return points;
}

TEST_CASE("names of single code points are sorted by their UTF-16 units") {
  std::vector<std::string> names, expected;
  std::vector<Point> points = Points();
  for (auto at = points.rbegin(); at != points.rend(); ++at) {
    names.push_back(at->bytes);
  }
  std::sort(points.begin(), points.end(),
            [](const Point& a, const Point& b) { return a.units < b.units; });
  for (const Point& point : points) expected.push_back(point.bytes);
  CHECK(Sorted(names) == expected);
  // The expected order differs from the order of bytes.
  CHECK_FALSE(std::is_sorted(expected.begin(), expected.end()));
}

TEST_CASE("random names are sorted by their UTF-16 units") {
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return random() % n; };
  for (int round = 0; round < 200; ++round) {
    std::vector<std::pair<std::u16string, std::string>> all;
    // Half of the rounds stay below U+0800, where bytes are compared.
    const size_t most = round % 2 == 0 ? Points().size() : 5;
    for (size_t i = 0; i < 1 + below(8); ++i) {
      std::pair<std::u16string, std::string> name;
      for (size_t j = 0; j < below(4); ++j) {
        const Point& point = Points()[below(most)];
        name.first += point.units;
        name.second += point.bytes;
      }
      all.push_back(std::move(name));
    }
    std::vector<std::string> names, expected;
    for (const auto& [units, bytes] : all) names.push_back(bytes);
    std::sort(all.begin(), all.end());
    for (const auto& [units, bytes] : all) expected.push_back(bytes);
    REQUIRE(Sorted(names) == expected);
  }
}

TEST_CASE("bytes that are not UTF-8 are sorted as U+FFFD") {
  CHECK(Sorted({"\xef\xbf\xbe", "\xff", "\xf0\x9f\x98\x80"}) ==
        std::vector<std::string>{"\xf0\x9f\x98\x80", "\xff", "\xef\xbf\xbe"});
  CHECK(Sorted({}).empty());
}

}  // namespace
}  // namespace shardc
