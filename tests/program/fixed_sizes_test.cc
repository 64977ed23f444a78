// Sizes that code gives as numbers, in programs of a few ops.
#include "program/fixed_sizes.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "program/programs.h"

namespace shardc::program {
namespace {

// Attention's first product, whose operands the code views as heads. `product`
// becomes the query before it is viewed.
Program Viewed(ValueId& product) {
  ProgramText text;
  const ValueId query = text.Input("param", "query", {16, 24});
  const ValueId key = text.Input("param", "key", {16, 24});
  const ValueId up = text.Input("param", "up", {16, 10});
  const ValueId x = text.Input("data", "x", {3, 7, 16});
  product = text.MatMul(x, query);
  const auto heads = [&](ValueId value) {
    return text.Op("reshape", {value}, {3, 7, 4, 6});
  };
  const ValueId left = heads(product);
  const ValueId right = heads(text.MatMul(x, key));
  text.Op("dot", {left, right}, {3, 4, 7, 7},
          R"("lhs_contract":[3],"rhs_contract":[3],"lhs_batch":[0,2],)"
          R"("rhs_batch":[0,2])");
  text.MatMul(x, up);
  return text.Read();
}

TEST_CASE("a size that the code gives as a number is that of all its factors") {
  ValueId product = 0;
  const Program program = Viewed(product);
  const auto fixed = FixedBy(program, {{product, {2}, {0, 41}}}, 2);
  REQUIRE(fixed.size() == 2);
  CHECK(fixed.at("query") == std::vector<std::string>{"", "m.py:41"});
  CHECK(fixed.at("key") == std::vector<std::string>{"", "m.py:41"});
  CHECK(FixedBy(program, {{product, {0, 1}, {0, 41}}}, 2).empty());
  CHECK(FixedBy(program, {}, 2).empty());
}

TEST_CASE("the size of a head is fixed, and the number of heads is not") {
  ProgramText text;
  const ValueId query = text.Input("param", "query", {16, 24});
  const ValueId x = text.Input("data", "x", {3, 7, 16});
  const ValueId heads =
      text.Op("reshape", {text.MatMul(x, query)}, {3, 7, 4, 6});
  const Program program = text.Read();
  CHECK(FixedBy(program, {{heads, {3}, {0, 9}}}, 4).empty());
  // An axis of eight devices would divide each head.
  CHECK(FixedBy(program, {{heads, {3}, {0, 9}}}, 8).at("query")[1] == "m.py:9");
}

}  // namespace
}  // namespace shardc::program
