#include "program/ties.h"

#include <doctest/doctest.h>

#include <vector>

namespace shardc::program {
namespace {

// Returns the sizes of a dimension's factors.
std::vector<int64_t> Sizes(const FactorTable& table, const Factors& dim) {
  std::vector<int64_t> out;
  for (const FactorId factor : table.Resolve(dim)) {
    out.push_back(table.SizeOf(factor));
  }
  return out;
}

Factors Product(FactorTable& table, const std::vector<int64_t>& sizes) {
  Factors out;
  for (const int64_t size : sizes) {
    const Factors one = table.Fresh(size);
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

using Numbers = std::vector<int64_t>;

TEST_CASE("two products become their common refinement, or stay as they are") {
  const struct {
    Numbers a, b, common;  // common is empty if there is none
  } cases[] = {
      {{6}, {6}, {6}},
      {{6}, {2, 3}, {2, 3}},
      {{4, 6}, {2, 12}, {2, 2, 6}},
      {{4, 6}, {8, 3}, {4, 2, 3}},
      {{2, 3}, {3, 2}, {}},
      {{4, 3}, {6, 2}, {}},
      {{8, 1, 4}, {1, 32}, {8, 4}},
  };
  for (const auto& one : cases) {
    CAPTURE(one.a);
    CAPTURE(one.b);
    FactorTable table;
    const Factors a = Product(table, one.a);
    const Factors b = Product(table, one.b);
    CHECK(table.Unify(a, b) == !one.common.empty());
    if (one.common.empty()) {
      CHECK(Sizes(table, a) == one.a);
      CHECK(Sizes(table, b) == one.b);
    } else {
      CHECK(Sizes(table, a) == one.common);
      CHECK(table.Resolve(a) == table.Resolve(b));
    }
  }
}

TEST_CASE("sums are joined if the boundaries of one include the other's") {
  const struct {
    Numbers a, b;
    bool joined;
  } cases[] = {
      {{4, 4}, {4, 4}, true},        {{4, 2, 2}, {4, 4}, true},
      {{4, 4}, {2, 2, 4}, true},     {{1, 7}, {7, 1}, false},
      {{4, 2, 2}, {2, 2, 4}, false},
  };
  for (const auto& one : cases) {
    CAPTURE(one.a);
    CAPTURE(one.b);
    FactorTable table;
    const auto sum = [&](const Numbers& sizes) {
      std::vector<Factors> parts;
      for (const int64_t size : sizes) parts.push_back(table.Fresh(size));
      return table.SumOf(parts);
    };
    const Factors a = sum(one.a);
    const Factors b = sum(one.b);
    CHECK(table.Unify(a, b) == one.joined);
    CHECK((table.Resolve(a) == table.Resolve(b)) == one.joined);
    if (one.joined) {
      CHECK(table.PartsOf(a[0]).size() == std::max(one.a.size(), one.b.size()));
    }
  }
}

TEST_CASE("a range of a divided dimension is the part, or the sum of parts") {
  FactorTable table;
  const Factors dim = Product(table, {12, 5});
  CHECK_FALSE(table.Range(dim, 0, 20));
  // A boundary inside of the inner factor.
  CHECK_FALSE(table.DivideAt(dim, Numbers{7}));
  REQUIRE(table.DivideAt(dim, Numbers{0, 20, 60}));
  REQUIRE(table.DivideAt(dim, Numbers{40}));
  CHECK(table.PartsOf(table.Resolve(dim)[0]).size() == 3);
  const auto part = table.Range(dim, 20, 40);
  REQUIRE(part);
  CHECK(Sizes(table, *part) == Numbers{4, 5});
  const auto two = table.Range(dim, 0, 40);
  REQUIRE(two);
  CHECK(Sizes(table, *two) == Numbers{8, 5});
  CHECK(table.IsSum(table.Resolve(*two)[0]));
}

TEST_CASE("a long chain of concatenations ends") {
  FactorTable table;
  Factors all = table.Fresh(3);
  for (int i = 0; i < 1000; ++i) all = table.SumOf({all, table.Fresh(2)});
  Factors other = table.Fresh(3);
  for (int i = 0; i < 1000; ++i) other = table.SumOf({other, table.Fresh(2)});
  CHECK(table.SizeOf(all) == 2003);
  table.Unify(all, other);
  CHECK(table.SizeOf(other) == 2003);
}

}  // namespace
}  // namespace shardc::program
