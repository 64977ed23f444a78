#include "source/json.h"

#include <doctest/doctest.h>

namespace shardc {
namespace {

std::unique_ptr<const JsonDocument> Parse(std::string text) {
  Findings findings;
  return JsonDocument::Parse(MakeSource("t", std::move(text)), findings);
}

TEST_CASE("equal values have equal texts") {
  const auto a = Parse(R"({"b":1,  "a":[ 2,null ]})");
  const auto b = Parse(R"({"a": [2, null], "b": 1})");
  CHECK(NormalText(a->root()) == NormalText(b->root()));
  CHECK(NormalText(a->root()) == R"({"a": [2, null], "b": 1})");
  CHECK(NormalText(Parse("[]")->root()) == "[]");
  CHECK(NormalText(Parse("{ }")->root()) == "{}");
}

TEST_CASE("members are found by name, and absent ones have a text") {
  const auto a = Parse(R"({"x": "y", "z": 1.50})");
  const JsonMembers members = MembersOf(a->root());
  CHECK(members.size() == 2);
  CHECK(MemberText(members, "x", "absent") == "\"y\"");
  CHECK(MemberText(members, "z", "absent") == "1.50");
  CHECK(MemberText(members, "w", "absent") == "absent");
  CHECK(MembersOf(Parse("[1]")->root()).empty());
  CHECK(MembersOf(std::nullopt).empty());
}

TEST_CASE("names of either stand in the order of the first") {
  const auto a = Parse(R"({"b": 1, "a": 1})");
  const auto b = Parse(R"({"c": 1, "a": 1})");
  CHECK(NamesOfEither(a->root(), b->root()) ==
        std::vector<std::string_view>{"b", "a", "c"});
}

}  // namespace
}  // namespace shardc
