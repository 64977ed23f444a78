#include "source/wording.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace shardc {
namespace {

TEST_CASE("join: values, numbers and what a function makes of them") {
  const std::vector<std::string> names = {"a", "b", "c"};
  CHECK(Join(names, ", ") == "a, b, c");
  CHECK(Join(std::vector<int>{1, 2}, "+") == "1+2");
  CHECK(Join(names, "|", &std::string::size) == "1|1|1");
  CHECK(Join(names, "; ", [](const std::string& name) {
          return "`" + name + "`";
        }) == "`a`; `b`; `c`");
  CHECK(Join(std::vector<std::string>(), ", ").empty());
  CHECK(Join(First(names, 2), ", ") == "a, b");
  CHECK(Join(First(names, 4), ", ") == "a, b, c");
}

TEST_CASE("join: an item follows a separator unless the list is empty") {
  std::string list;
  AppendItem(list, ", ", "a");
  AppendItem(list, ", ", "b");
  CHECK(list == "a, b");
}

TEST_CASE("join: a list in a sentence") {
  const auto text = [](const std::vector<std::string>& names) {
    return ListInWords(names);
  };
  CHECK(text({}).empty());
  CHECK(text({"a"}) == "a");
  CHECK(text({"a", "b"}) == "a and b");
  CHECK(text({"a", "b", "c"}) == "a, b and c");
  const std::vector<int> numbers = {1, 2};
  CHECK(ListInWords(
            numbers, [](int number) { return std::to_string(number); },
            " or ") == "1 or 2");
}

}  // namespace
}  // namespace shardc
