#include "search/pricer.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "meshes.h"

namespace shardc::search {
namespace {

// Letters of the changes: keys replicated, hidden states, batch over experts,
// whole experts, attention held, ends held.
std::vector<std::string> ChangesOf(const AxisSizes& sizes, bool unmeasured) {
  std::vector<std::string> out;
  for (const RuleChanges& one : ChangesFor(sizes, unmeasured)) {
    std::string text;
    if (one.replicates_keys) text += "k";
    if (one.turns_hidden) text += "h";
    if (one.batch_over_experts) text += "b";
    if (one.whole_experts) text += "w";
    if (one.holds_attention) text += "a";
    if (one.holds_ends) text += "e";
    out.push_back(text);
  }
  return out;
}

using Texts = std::vector<std::string>;

TEST_CASE("changes of rules are those of the axes that a mesh has") {
  CHECK(ChangesOf({}, false) == Texts{""});
  CHECK(ChangesOf({}, true) == Texts{""});
  CHECK(ChangesOf({.data = 8, .sharded = 8, .sequence = 8}, false) ==
        Texts{""});
  CHECK(ChangesOf({.tensor = 2}, false) == Texts{"", "h"});
  CHECK(ChangesOf({.experts = 2}, false) == Texts{"", "b"});
  CHECK(ChangesOf({.experts = 2, .tensor = 2}, false) ==
        Texts{"", "h", "b", "hb", "bw", "hbw"});
}

TEST_CASE("unmeasured changes are made one at a time") {
  CHECK(ChangesOf({.data = 8}, true) == Texts{""});
  CHECK(ChangesOf({.sharded = 2}, true) == Texts{"", "a", "e"});
  CHECK(ChangesOf({.sequence = 2}, true) == Texts{"", "a", "e"});
  CHECK(ChangesOf({.tensor = 2}, true) == Texts{"", "h", "k", "kh"});
  CHECK(ChangesOf({.sharded = 2, .tensor = 2}, true) ==
        Texts{"", "h", "k", "kh", "a", "ha", "e", "he"});
  CHECK(ChangesOf({.experts = 2}, true) == Texts{"", "b"});
}

TEST_CASE("a mesh keeps one axis of size 1 only if it has no other") {
  const auto names = [](const Mesh& mesh) {
    std::string out;
    for (const MeshAxis& axis : WithoutTrivial(mesh).axes) {
      out += axis.name + std::to_string(axis.size) + " ";
    }
    return out;
  };
  CHECK(names(MeshOf({{"dp", 1}, {"fsdp", 4}, {"tp", 1}})) == "fsdp4 ");
  CHECK(names(MeshOf({{"dp", 2}, {"tp", 2}})) == "dp2 tp2 ");
  CHECK(names(MeshOf({{"dp", 1}, {"fsdp", 1}, {"tp", 1}})) == "fsdp1 ");
  CHECK(names(MeshOf({{"dp", 1}})) == "dp1 ");
}

}  // namespace
}  // namespace shardc::search
