#include "suggest/patterns.h"

#include <doctest/doctest.h>

#include <random>
#include <set>

#include "match/match.h"
#include "suggest/tree.h"

namespace shardc::suggest {
namespace {

TEST_CASE("a pattern matches its numbers and no others") {
  std::mt19937 draw(7);
  for (int round = 0; round < 200; ++round) {
    const int most = round % 2 == 0 ? 40 : 2000;
    std::set<std::string> numbers;
    const int count = 1 + static_cast<int>(draw() % 60);
    for (int i = 0; i < count; ++i) {
      numbers.insert(std::to_string(draw() % static_cast<unsigned>(most)));
    }
    const std::string text =
        "^" + NumbersPattern({numbers.begin(), numbers.end()}) + "$";
    CAPTURE(text);
    Findings findings;
    const auto regex = Regex::Compile({text, {}, '/'}, findings);
    REQUIRE(regex);
    for (int i = 0; i < most + 10; ++i) {
      const std::string number = std::to_string(i);
      CHECK(regex->Found(number) == numbers.contains(number));
    }
  }
}

TEST_CASE("few numbers are listed, many become classes") {
  CHECK(NumbersPattern({"2", "0", "1"}) == "(0|1|2)");
  CHECK(NumbersPattern({"7"}) == "7");
  CHECK(NumbersPattern({"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}) ==
        "\\d");
}

std::vector<std::string> TextsOf(const Patterns& patterns) {
  std::vector<std::string> out;
  for (const auto& rule_group : patterns.rule_groups) {
    for (const PatternOf& one : rule_group) out.push_back(one.text);
  }
  return out;
}

TEST_CASE("the shortest suffixes are joined") {
  const Manifest manifest =
      ManifestOf(Layers({{"m.layers.*.mlp.gate_proj.weight", {8, 4}},
                         {"m.layers.*.mlp.up_proj.weight", {8, 4}},
                         {"m.layers.*.mlp.down_proj.weight", {4, 8}},
                         {"m.layers.*.input_norm.weight", {4}},
                         {"m.norm.weight", {4}}},
                        2));
  const Tree tree = ParameterGroupsOf(manifest);
  const auto patterns = PatternsOf(tree, {{0, 1}, {2}, {3, 4}});
  CHECK(patterns.proven);
  CHECK(TextsOf(patterns) ==
        std::vector<std::string>{R"((gate|up)_proj\.weight$)",
                                 R"(down_proj\.weight$)", R"(norm\.weight$)"});
}

TEST_CASE("one name with two shapes is separated by its numbers") {
  const Manifest manifest = ManifestOf({{"layers.0.w.kernel", {8, 4}},
                                        {"layers.1.w.kernel", {8, 6}},
                                        {"layers.2.w.kernel", {8, 4}},
                                        {"x.w.kernel", {2, 2}}});
  const Tree tree = ParameterGroupsOf(manifest);
  const auto patterns = PatternsOf(tree, {{0}, {1}, {2}});
  CHECK(patterns.proven);
  const auto texts = TextsOf(patterns);
  REQUIRE(texts.size() == 3);
  CHECK(texts[0] == R"(layers\.(0|2)\.w\.kernel$)");
  CHECK(texts[1] == R"(layers\.1\.w\.kernel$)");
  CHECK(texts[2] == R"(x\.w\.kernel$)");
}

TEST_CASE("a name that is the end of another is matched from a boundary") {
  const Manifest manifest =
      ManifestOf({{"w.kernel", {8, 4}}, {"a.w.kernel", {8, 6}}});
  const Tree tree = ParameterGroupsOf(manifest);
  const auto patterns = PatternsOf(tree, {{0}, {1}});
  CHECK(patterns.proven);
  CHECK(TextsOf(patterns) ==
        std::vector<std::string>{R"(^w\.kernel$)", R"(a\.w\.kernel$)"});
}

TEST_CASE("patterns are disproved by a name, with the reason") {
  const Manifest manifest =
      ManifestOf({{"a.w.kernel", {8, 4}}, {"b.kernel", {8, 6}}});
  const Tree tree = ParameterGroupsOf(manifest);
  struct Case {
    const char* title;
    std::vector<std::vector<PatternOf>> rule_groups;
    std::set<uint32_t> wrong;
    const char* unproven;
  };
  const std::string rest = "; it must be matched by one, of its own rule";
  const PatternOf b = {R"(b\.kernel$)", {1}};
  const Case cases[] = {
      {"each name by one", {{{R"(w\.kernel$)", {0}}}, {b}}, {}, nullptr},
      {"two of one rule",
       {{{R"(w\.kernel$)", {0}}, {R"(a\.w\.kernel$)", {0}}}, {b}},
       {0},
       "`a.w.kernel` is matched by 2 patterns"},
      {"two of one rule, one of them without a group",
       {{{R"(w\.kernel$)", {0}}, {R"(a\.w\.kernel$)", {}}}, {b}},
       {0},
       "`a.w.kernel` is matched by 2 patterns"},
      {"another rule's too",
       {{{R"(w\.kernel$)", {0}}}, {{"kernel$", {1}}}},
       {1},
       "`a.w.kernel` is matched by 2 patterns"},
      {"another rule's only",
       {{{R"(c\.kernel$)", {0}}}, {{"kernel$", {1}}}},
       {1},
       "`a.w.kernel` is matched by a pattern of another rule only"},
      {"none",
       {{{R"(c\.kernel$)", {0}}}, {b}},
       {0},
       "`a.w.kernel` is matched by no pattern"}};
  for (const Case& one : cases) {
    CAPTURE(one.title);
    Patterns patterns;
    patterns.rule_groups = one.rule_groups;
    CHECK(Disprove(tree, patterns) == one.wrong);
    CHECK(patterns.unproven ==
          (one.unproven == nullptr ? "" : one.unproven + rest));
  }
}

TEST_CASE("every random tree is proven, whatever its groups") {
  std::mt19937 draw(11);
  const std::vector<std::string> words = {"a",    "b",      "attn", "proj",
                                          "up_w", "gate_w", "n",    "seq"};
  for (int round = 0; round < 200; ++round) {
    std::set<std::string> names;
    const int count = 2 + static_cast<int>(draw() % 30);
    for (int i = 0; i < count; ++i) {
      std::string name = "root";
      const int depth = 1 + static_cast<int>(draw() % 4);
      for (int d = 0; d < depth; ++d) {
        name += "." + (draw() % 4 == 0 ? std::to_string(draw() % 12)
                                       : words[draw() % words.size()]);
      }
      names.insert(name);
    }
    std::vector<NamedShape> tensors;
    for (const std::string& name : names) {
      tensors.push_back({name, {static_cast<int64_t>(draw() % 3) + 1}});
    }
    const Manifest manifest = ManifestOf(tensors);
    const Tree tree = ParameterGroupsOf(manifest);
    std::vector<std::vector<uint32_t>> rule_groups(3);
    for (uint32_t k = 0; k < tree.groups.size(); ++k) {
      rule_groups[draw() % 3].push_back(k);
    }
    const auto patterns = PatternsOf(tree, rule_groups);
    CAPTURE(patterns.unproven);
    CHECK(patterns.proven);
  }
}

}  // namespace
}  // namespace shardc::suggest
