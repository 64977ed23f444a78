#include "suggest/parameter_groups.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "suggest/tree.h"

namespace shardc::suggest {
namespace {

using RuleGroups = std::vector<std::vector<uint32_t>>;

// Such as "3", "3 at a boundary", "3 counter 0" or "2 names".
std::string TextOf(const Suffix& suffix) {
  std::string out = std::to_string(suffix.parts);
  if (suffix.at_boundary) out += " at a boundary";
  if (suffix.at_start) out += " at the start";
  if (suffix.counter >= 0) out += " counter " + std::to_string(suffix.counter);
  if (suffix.by_names) out += " names";
  return out;
}

// Returns the first suffix of each group of a tree. Without `rule_groups` every
// parameter group has a rule group of its own.
std::vector<std::string> FirstSuffixes(const std::vector<NamedShape>& tensors,
                                       RuleGroups rule_groups = {}) {
  const Manifest manifest = ManifestOf(tensors);
  const Tree tree = ParameterGroupsOf(manifest);
  for (uint32_t k = 0; rule_groups.size() < tree.groups.size(); ++k) {
    rule_groups.push_back({k});
  }
  const NameIndex names(tree, rule_groups);
  std::vector<std::string> out;
  for (uint32_t k = 0; k < tree.groups.size(); ++k) {
    out.push_back(TextOf(FirstSuffix(names, k)));
  }
  return out;
}

using Texts = std::vector<std::string>;

TEST_CASE("a first suffix has two parts, or all of a shorter name") {
  CHECK(FirstSuffixes({{"layers.mlp.gate.weight", {4}}}) == Texts{"2"});
  CHECK(FirstSuffixes({{"table.bias", {4}}}) == Texts{"2"});
  CHECK(FirstSuffixes({{"scale", {4}}}) == Texts{"1"});
}

TEST_CASE("a first suffix grows past the ends of other rule groups' names") {
  CHECK(FirstSuffixes({{"encoder.block.gate.weight", {4}},
                       {"decoder.block.gate.weight", {4}},
                       {"decoder.other.gate.weight", {4}},
                       {"decoder.other.gate.bias", {4}}}) ==
        Texts{"4", "4", "3", "2"});
  // Names of its own rule group are no reason to grow.
  CHECK(FirstSuffixes({{"encoder.block.gate.weight", {4}},
                       {"decoder.block.gate.weight", {4}}},
                      {{0, 1}, {}}) == Texts{"2", "2"});
  // The text of the suffix counts, not its parts.
  CHECK(FirstSuffixes({{"block.up.kernel", {4}}, {"block.gate_up.kernel", {4}}})
            .front() == "3");
}

TEST_CASE("a first suffix begins with no number and no short word") {
  CHECK(FirstSuffixes({{"block.layer.attention.q.weight", {4}}}) == Texts{"3"});
  CHECK(FirstSuffixes({{"block.layer.attention.wq.weight", {4}}}) ==
        Texts{"3"});
  CHECK(FirstSuffixes({{"block.layer.attention.key.weight", {4}}}) ==
        Texts{"2"});
  CHECK(FirstSuffixes({{"block.layer.7.weight", {4}}}) == Texts{"3"});
  CHECK(FirstSuffixes({{"a.b.c", {4}}}) == Texts{"3"});
  // Numbers are passed together, once it has more than two parts.
  CHECK(FirstSuffixes({{"left.part.7.up.weight", {4}},
                       {"left.part.other.up.weight", {4}}})
            .front() == "4");
  CHECK(FirstSuffixes({{"left.part.7.8.up.weight", {4}}}) == Texts{"5"});
}

TEST_CASE("a complete name that ends another name is matched at a boundary") {
  CHECK(FirstSuffixes({{"gate.weight", {4}}, {"block.gate.weight", {8}}}) ==
        Texts{"2 at a boundary", "3"});
  CHECK(FirstSuffixes({{"gate.weight", {4}}, {"block.gate.bias", {8}}}) ==
        Texts{"2", "2"});
}

TEST_CASE("groups of one name are separated by a counter that is not shared") {
  // Layers 0 and 2 have another shape than layer 1.
  CHECK(FirstSuffixes({{"layers.0.gate.weight", {4}},
                       {"layers.1.gate.weight", {8}},
                       {"layers.2.gate.weight", {4}}}) ==
        Texts{"4 counter 0", "4 counter 0"});
  // The layers are shared, and the experts are not.
  CHECK(FirstSuffixes({{"layers.0.expert.0.weight", {4}},
                       {"layers.0.expert.1.weight", {8}},
                       {"layers.1.expert.0.weight", {4}},
                       {"layers.1.expert.1.weight", {8}}}) ==
        Texts{"3 counter 1", "3 counter 1"});
  // A counter inside a part counts from that part on. Such numbers are a
  // counter once there are four of them.
  CHECK(FirstSuffixes({{"stack.layer_0.gate.weight", {4}},
                       {"stack.layer_1.gate.weight", {8}},
                       {"stack.layer_2.gate.weight", {8}},
                       {"stack.layer_3.gate.weight", {4}}}) ==
        Texts{"3 counter 0", "3 counter 0"});
  // A counter that begins the name has no part before it.
  CHECK(FirstSuffixes({{"0.gate.weight", {4}}, {"1.gate.weight", {8}}}) ==
        Texts{"3 counter 0", "3 counter 0"});
  // Every counter is shared.
  CHECK(FirstSuffixes({{"layers.0.expert.0.weight", {4}},
                       {"layers.0.expert.1.weight", {8}},
                       {"layers.1.expert.0.weight", {8}},
                       {"layers.1.expert.1.weight", {4}}}) ==
        Texts{"3 names", "3 names"});
}

// Returns suffixes of `parts` parts that are aligned in one rule group.
std::vector<std::string> Aligned(const std::vector<NamedShape>& tensors,
                                 std::vector<Suffix> suffixes) {
  const Manifest manifest = ManifestOf(tensors);
  const Tree tree = ParameterGroupsOf(manifest);
  REQUIRE(tree.groups.size() == suffixes.size());
  std::vector<uint32_t> all;
  for (uint32_t k = 0; k < tree.groups.size(); ++k) all.push_back(k);
  const NameIndex names(tree, {all});
  AlignSuffixes(names, all, suffixes);
  std::vector<std::string> out;
  for (const Suffix& suffix : suffixes) out.push_back(TextOf(suffix));
  return out;
}

TEST_CASE("suffixes that differ in one part are aligned to the longer one") {
  const auto two = [](const std::string& a, const std::string& b) {
    return std::vector<NamedShape>{{a, {4}}, {b, {8}}};
  };
  const auto gates = two("m.block.gate.weight", "m.block.up.weight");
  CHECK(Aligned(gates, {{.parts = 2}, {.parts = 3}}) == Texts{"3", "3"});
  CHECK(Aligned(gates, {{.parts = 3}, {.parts = 2}}) == Texts{"3", "3"});
  CHECK(Aligned(gates, {{.parts = 2}, {.parts = 2}}) == Texts{"2", "2"});
  // They differ in two parts, or in none of the last three.
  CHECK(Aligned(two("m.block.gate.weight", "m.other.up.weight"),
                {{.parts = 2}, {.parts = 3}}) == Texts{"2", "3"});
  CHECK(Aligned(two("m.block.gate.weight", "n.block.gate.weight"),
                {{.parts = 2}, {.parts = 3}}) == Texts{"2", "3"});
  // The part in which they differ may be the first of them.
  CHECK(Aligned(two("m.block.gate.weight", "m.other.gate.weight"),
                {{.parts = 2}, {.parts = 3}}) == Texts{"3", "3"});
  // A name may have fewer parts than the longer suffix, or exactly as many.
  CHECK(Aligned(two("gate.weight", "m.up.weight"),
                {{.parts = 2}, {.parts = 3}}) == Texts{"2", "3"});
  CHECK(Aligned(two("m.gate.weight", "m.up.weight"),
                {{.parts = 2}, {.parts = 3}}) == Texts{"3", "3"});
  // A suffix with the numbers of a counter stays as it is.
  CHECK(Aligned(gates, {{.parts = 2, .counter = 0}, {.parts = 3}}) ==
        Texts{"2 counter 0", "3"});
  CHECK(Aligned(gates, {{.parts = 2}, {.parts = 3, .counter = 0}}) ==
        Texts{"2", "3 counter 0"});
}

TEST_CASE("a suffix narrows part by part, then to its names") {
  const auto steps = [](const std::string& name) {
    const Manifest manifest = ManifestOf({{name, {4}}});
    const Tree tree = ParameterGroupsOf(manifest);
    const NameIndex names(tree, {{0}});
    Suffix suffix{.parts = 2};
    Texts out;
    while (Narrow(names, 0, suffix) && out.size() < 9) {
      out.push_back(TextOf(suffix));
    }
    return out;
  };
  CHECK(steps("m.block.gate.weight") ==
        Texts{"3", "4", "4 at a boundary", "4 at a boundary at the start",
              "4 at a boundary at the start names"});
  // It never begins with a number, but for one that begins the name.
  CHECK(steps("m.block.7.up.weight").front() == "4");
  CHECK(steps("block.3.7.up.weight").front() == "5");
  CHECK(steps("7.up.weight").front() == "3");
}

}  // namespace
}  // namespace shardc::suggest
