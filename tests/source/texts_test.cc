#include "source/text_order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace shardc {
namespace {

struct Named {
  int number = 0;
  std::string_view name;
};

std::vector<std::string_view> ListOf(Texts texts) {
  return {texts.begin(), texts.end()};
}

TEST_CASE("the texts of a vector, a span and an array are listed in order") {
  const std::vector<std::string_view> vector = {"a", "", "c"};
  CHECK(ListOf(vector) == vector);
  CHECK(ListOf(std::span(vector).subspan(1)) ==
        std::vector<std::string_view>{"", "c"});
  const std::array<std::string_view, 2> array = {"x", "y"};
  CHECK(ListOf(array) == std::vector<std::string_view>{"x", "y"});
}

TEST_CASE("the texts of a member are listed in the order of the values") {
  const std::vector<Named> values = {{1, "one"}, {2, "two"}, {3, "three"}};
  const Texts texts = Texts::Of(std::span<const Named>(values), &Named::name);
  CHECK(texts.size() == 3);
  CHECK(texts.front() == "one");
  CHECK(texts[2] == "three");
  CHECK(texts.Address(1) == &values[1].name);
  CHECK(ListOf(texts) == std::vector<std::string_view>{"one", "two", "three"});
}

TEST_CASE("a part of the texts has its begin and its number of texts") {
  const std::vector<Named> values = {{1, "one"}, {2, "two"}, {3, "three"}};
  const Texts texts = Texts::Of(std::span<const Named>(values), &Named::name);
  CHECK(ListOf(texts.Part(1, 2)) ==
        std::vector<std::string_view>{"two", "three"});
  CHECK(texts.Part(3, 0).empty());
}

TEST_CASE("no values have no texts") {
  CHECK(Texts().empty());
  CHECK(Texts::Of(std::span<const Named>(), &Named::name).size() == 0);
  CHECK(ListOf(std::vector<std::string_view>()).empty());
}

}  // namespace
}  // namespace shardc
