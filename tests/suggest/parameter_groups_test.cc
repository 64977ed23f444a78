#include "suggest/parameter_groups.h"

#include <doctest/doctest.h>

namespace shardc::suggest {
namespace {

TensorType Type(Shape shape) {
  return {.shape = std::move(shape), .dtype = Dtype::kBF16};
}

Manifest Of(const std::vector<std::pair<std::string, Shape>>& tensors) {
  ManifestBuilder builder;
  for (const auto& [name, shape] : tensors) builder.Add(name, Type(shape));
  builder.manifest().separator = '.';
  return builder.Take();
}

TEST_CASE("counters are folded") {
  const Manifest manifest = Of({{"h_0.fc1.w", {2, 3}},
                                {"h_1.fc1.w", {2, 3}},
                                {"h_2.fc2.w", {2, 3}},
                                {"h_3.fc2.w", {2, 5}},
                                {"a.10.x", {4}}});
  const Tree tree = ParameterGroupsOf(manifest);
  REQUIRE(tree.groups.size() == 4);
  CHECK(tree.groups[0].name == "h_*.fc1.w");
  CHECK(tree.groups[0].count() == 2);
  CHECK(tree.groups[1].name == "h_*.fc2.w");
  CHECK(tree.groups[2].name == "h_*.fc2.w");
  CHECK(tree.groups[2].shape == Shape{2, 5});
  CHECK(tree.groups[3].name == "a.*.x");
  CHECK(tree.groups[3].stack() == "a.");
  CHECK(tree.bytes == 2 * (3 * 6 + 10 + 4));
  CHECK(tree.Members(tree.groups[0])[1] == 1);
}

TEST_CASE("numbers of counters are read from names") {
  const auto counters = CountersOf("h_12.experts.345.w", "h_*.experts.*.w");
  REQUIRE(counters.size() == 2);
  CHECK(counters[0] == "12");
  CHECK(counters[1] == "345");
}

}  // namespace
}  // namespace shardc::suggest
