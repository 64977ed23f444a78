#include "target/choose.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "parse/rules.h"

namespace shardc {
namespace {

using Tree = std::vector<std::pair<std::string, Shape>>;

Manifest ManifestOf(const Tree& tree, char separator) {
  ManifestBuilder builder;
  for (const auto& [name, shape] : tree) {
    builder.Add(name, {.shape = shape, .dtype = Dtype::kBF16});
  }
  builder.manifest().separator = separator;
  return builder.Take();
}

// Returns the rules of `text` after they are fitted to the tree, one line for
// each.
std::vector<std::string> Fitted(const std::string& name,
                                const std::string& text, const Tree& tree,
                                char separator = '/') {
  Findings findings;
  const SourceRef source = MakeSource(name, text);
  const std::string word = "builtin:x";
  auto rules = ReadRules(
      std::span(&word, 1), [&](std::string_view) { return source; }, findings);
  REQUIRE(rules);
  FitPacksToStacks(*rules, ManifestOf(tree, separator));
  std::vector<std::string> out;
  for (const Rule& rule : rules->rules) {
    std::string line = rule.match;
    if (const auto* list = std::get_if<SpecList>(&rule.spec)) {
      for (const SpecEntry& entry : list->entries) {
        line += " ";
        for (const SpecName& one : entry.names) line += one.text + ",";
        if (entry.names.empty()) line += "-";
      }
    }
    out.push_back(line);
  }
  return out;
}

const char* const kPack = R"(version: 1
separator: "/"
rules:
  - match: 'out/kernel$'
    spec: [HEAD, [FSDP, SP]]
  - match: 'up/kernel$'
    spec: ColumnWise
  - match: 'scale$'
    spec: Replicated
)";

Tree Scanned(int at) {
  Tree out = {{"layers/attn/out/kernel", {64, 96}},
              {"layers/attn/query/kernel", {96, 64}},
              {"layers/mlp/up/kernel", {96, 384}},
              {"layers/norm/scale", {96}}};
  for (auto& [name, shape] : out) shape.insert(shape.begin() + at, 6);
  out.push_back({"final_norm/scale", {96}});
  return out;
}

using Lines = std::vector<std::string>;

TEST_CASE("a pack's specs get null where the tree has its layers") {
  CHECK(Fitted("builtin:x", kPack, Scanned(0)) ==
        Lines{"out/kernel$ - HEAD, FSDP,SP,", "up/kernel$ - FSDP,SP, TP,",
              "scale$"});
  CHECK(Fitted("builtin:x", kPack, Scanned(1)) ==
        Lines{"out/kernel$ HEAD, - FSDP,SP,", "up/kernel$ FSDP,SP, - TP,",
              "scale$"});
}

TEST_CASE("rules of files and of trees without scanned layers stay") {
  const Lines written = {"out/kernel$ HEAD, FSDP,SP,", "up/kernel$", "scale$"};
  CHECK(Fitted("rules.yaml", kPack, Scanned(0)) == written);
  CHECK(Fitted("builtin:x", kPack,
               {{"layers/0/attn/out/kernel", {64, 96}},
                {"layers/1/attn/out/kernel", {64, 96}},
                {"layers/0/norm/scale", {96}},
                {"conv/kernel", {3, 3, 96, 96}}}) == written);
}

TEST_CASE("a spec that has no room for another dimension stays") {
  // The rule has three entries, for stacked experts, and the scanned parameter
  // has three dimensions, so no entry can be added for the layers.
  const char* const full = R"(version: 1
separator: "/"
rules:
  - match: 'out/kernel$'
    spec: [EXPERT, HEAD, FSDP]
)";
  CHECK(Fitted("builtin:x", full, Scanned(0)) ==
        Lines{"out/kernel$ EXPERT, HEAD, FSDP,"});
}

TEST_CASE("parameters with and without layers get rules of their own") {
  Tree tree = Scanned(0);
  tree.push_back({"side/attn/out/kernel", {64, 96}});
  CHECK(Fitted("builtin:x", kPack, tree) ==
        Lines{"^layers/.*(?:out/kernel$) - HEAD, FSDP,SP,",
              "out/kernel$ HEAD, FSDP,SP,", "up/kernel$ - FSDP,SP, TP,",
              "scale$"});
}

TEST_CASE("a stack's path is written with the separator of the rules") {
  Tree tree = Scanned(1);
  for (auto& [name, shape] : tree) {
    for (char& c : name) c = c == '/' ? '.' : c;
  }
  tree.push_back({"side.attn.out.kernel", {64, 96}});
  const auto lines = Fitted("builtin:x", kPack, tree, '.');
  CHECK(lines[0] == "^layers/.*(?:out/kernel$) HEAD, - FSDP,SP,");
}

TEST_CASE("the naming follows the last parts of the names") {
  const auto naming = [](const char* name, char separator) {
    return std::string(
        NamingOf(ManifestOf({{name, {4}}, {"norm", {4}}}, separator)));
  };
  CHECK(naming("layers.attn.out.kernel", '.') == "flax");
  CHECK(naming("layers/attn/out/weight", '/') == "hf");
  CHECK(naming("layers/attn/out/w", '/') == "flax");
  CHECK(naming("layers.attn.out.w", '.') == "hf");
}

}  // namespace
}  // namespace shardc
