// Checks that every numeric vector agrees or shows a listed difference.
#include "numeric.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <set>
#include <string>

#include "source/file.h"

namespace shardc::vectors {
namespace {

TEST_CASE("numeric vectors") {
  const char* root = std::getenv("SHARDC_SOURCE_ROOT");
  REQUIRE(root != nullptr);
  Findings findings;
  const SourceRef source = ReadSource(
      std::string(root) + "/testdata/vectors/numeric.json", findings);
  REQUIRE(source);
  const auto document = JsonDocument::Parse(source, findings);
  REQUIRE(document);
  std::set<std::string_view> used;
  size_t count = 0;
  for (JsonValue c : document->root().Find("cases")->items()) {
    CAPTURE(c.Find("id")->string());
    CHECK(CheckNumeric(c) == "");
    used.insert(NumericDifferenceOf(c));
    ++count;
  }
  CHECK(count > 200);
  for (const Difference& difference : NumericDifferences()) {
    CAPTURE(difference.name);
    CHECK(used.count(difference.name) == 1);
  }
  CHECK(used.size() == NumericDifferences().size() + 1);
}

std::string CheckText(const std::string& text) {
  Findings findings;
  const auto document = JsonDocument::Parse(MakeSource("case", text), findings);
  REQUIRE(document);
  return CheckNumeric(document->root());
}

TEST_CASE("an array of no elements is legal, and has no rows") {
  CHECK(CheckText(R"({"input": {"op": "rotate_half", "x": [[], []]},
                      "expect": {"y": [[], []]}})") == "");
}

TEST_CASE("a case that both refuse passes") {
  const std::string input =
      R"({"input": {"op": "precompute_freq_cis", "dim": DIM,
          "max_position_embeddings": 4, "base": 10000, "rope_type": null},
          "error": {"type": "ValueError", "kind": "bad", "contains": ""}})";
  const auto of = [&](const std::string& dim) {
    std::string text = input;
    return CheckText(text.replace(text.find("DIM"), 3, dim));
  };
  CHECK(of("-2") == "");
  CHECK(of("4") == "accepted what the source refuses");
}

}  // namespace
}  // namespace shardc::vectors
