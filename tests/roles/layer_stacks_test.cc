#include "roles/layer_stacks.h"

#include <cstdlib>
#include <fstream>
#include <list>
#include <sstream>
#include <string>
#include <vector>

#include "doctest/doctest.h"

namespace shardc {
namespace {

struct Parameter {
  std::string name;
  Shape shape;
  std::vector<int> layers;  // dimensions
};

struct RecordedTree {
  std::string name;
  std::vector<Parameter> parameters;
};

std::vector<RecordedTree> RecordedTrees() {
  const char* root = std::getenv("SHARDC_SOURCE_ROOT");
  std::ifstream file(std::string(root == nullptr ? "." : root) +
                     "/testdata/stacks/trees.txt");
  std::vector<RecordedTree> out;
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    if (line.starts_with("tree ")) {
      out.push_back({line.substr(5, line.find(':') - 5), {}});
      continue;
    }
    Parameter parameter;
    std::istringstream words(line);
    std::string word;
    words >> parameter.name;
    while (words >> word && word != "|")
      parameter.shape.push_back(std::stoll(word));
    while (words >> word) parameter.layers.push_back(std::stoi(word));
    out.back().parameters.push_back(std::move(parameter));
  }
  return out;
}

LayerStacks Find(const std::vector<Parameter>& parameters,
                 std::optional<int64_t> layers = std::nullopt,
                 const ScanAxis& axis = {}) {
  std::list<ParameterRole> roles;
  std::vector<StackCandidate> candidates;
  for (const Parameter& one : parameters) {
    roles.push_back(Classify(one.name, '/', Confidence::kLikely,
                             static_cast<int>(one.shape.size())));
    candidates.push_back({one.name, &one.shape, &roles.back()});
  }
  return FindLayerStacks(candidates, '/', layers, axis);
}

std::vector<int> DimsOf(const LayerStacks& stacks, size_t parameter) {
  std::vector<int> out;
  for (const ScannedDim& one : stacks.dims[parameter]) out.push_back(one.dim);
  return out;
}

TEST_CASE("recorded trees have the dimensions that count their layers") {
  const auto trees = RecordedTrees();
  CHECK(trees.size() >= 30);
  for (const RecordedTree& tree : trees) {
    CAPTURE(tree.name);
    const LayerStacks stacks = Find(tree.parameters);
    for (const LayerStack& stack : stacks.stacks) {
      CHECK(stack.confidence != StackConfidence::kUndecided);
    }
    for (size_t i = 0; i < tree.parameters.size(); ++i) {
      CAPTURE(tree.parameters[i].name);
      CHECK(DimsOf(stacks, i) == tree.parameters[i].layers);
    }
  }
}

TEST_CASE("names do not matter for the dimension of layers") {
  for (RecordedTree& tree : std::vector(RecordedTrees())) {
    // In two trees, only the names of projections show that a dimension counts
    // heads, so these trees are skipped.
    if (tree.name.starts_with("flax-plain")) continue;
    CAPTURE(tree.name);
    for (Parameter& one : tree.parameters) {
      const size_t at = one.name.find("layers");
      if (at != std::string::npos) one.name.replace(at, 6, "verses");
    }
    const LayerStacks stacks = Find(tree.parameters);
    for (size_t i = 0; i < tree.parameters.size(); ++i) {
      CAPTURE(tree.parameters[i].name);
      CHECK(DimsOf(stacks, i) == tree.parameters[i].layers);
    }
  }
}

TEST_CASE("the last dimension counts layers if attention and more share it") {
  const std::vector<Parameter> tree = {
      {"verses/look/query", {1024, 16, 64, 12}, {3}},
      {"verses/look/key", {1024, 8, 64, 12}, {3}},
      {"verses/look/out", {16, 64, 1024, 12}, {3}},
      {"verses/mull/up", {1024, 2816, 12}, {2}},
      {"verses/mull/down", {2816, 1024, 12}, {2}},
      {"verses/calm/g", {1024, 12}, {1}},
      {"words/embedding", {32000, 1024}, {}}};
  const LayerStacks stacks = Find(tree);
  for (size_t i = 0; i < tree.size(); ++i) {
    CHECK(DimsOf(stacks, i) == tree[i].layers);
  }
  // The columns of heads do not count layers, although all projections share
  // them.
  CHECK(Find({{"layers/attn/query", {64, 2, 64}, {}},
              {"layers/attn/key", {64, 2, 64}, {}},
              {"layers/attn/out", {2, 64, 64}, {}}})
            .stacks.empty());
}

TEST_CASE("stacks below numbers, next to others and inside stacks are found") {
  const auto layer = [](const std::string& path, const Shape& layers) {
    const int dims = static_cast<int>(layers.size());
    std::vector<int> counted;
    for (int i = 0; i < dims; ++i) counted.push_back(i);
    std::vector<Parameter> out = {{path + "look/query", {1024, 16, 64}, {}},
                                  {path + "look/key", {1024, 8, 64}, {}},
                                  {path + "look/out", {16, 64, 1024}, {}},
                                  {path + "mull/up", {1024, 2816}, {}},
                                  {path + "mull/down", {2816, 1024}, {}},
                                  {path + "calm/g", {1024}, {}}};
    for (Parameter& one : out) {
      one.shape.insert(one.shape.begin(), layers.begin(), layers.end());
      one.layers = counted;
    }
    return out;
  };
  for (auto tree : {layer("opt_state/*/mu/verses/", {12}), layer("", {12}),
                    layer("cycle/inner/", {6, 4})}) {
    tree.push_back({"embedding", {32000, 1024}, {}});
    CAPTURE(tree[0].name);
    const LayerStacks stacks = Find(tree);
    for (size_t i = 0; i < tree.size(); ++i) {
      CHECK(DimsOf(stacks, i) == tree[i].layers);
    }
  }
}

TEST_CASE("adapters of attention and feed-forward make a stack") {
  const std::vector<Parameter> tree = {
      {"verses/look/query/lora_a", {12, 1024, 8}, {0}},
      {"verses/look/query/lora_b", {12, 8, 16, 64}, {0}},
      {"verses/mull/up/lora_a", {12, 1024, 8}, {0}},
      {"verses/mull/up/lora_b", {12, 8, 2816}, {0}}};
  const LayerStacks stacks = Find(tree);
  for (size_t i = 0; i < tree.size(); ++i) {
    CHECK(DimsOf(stacks, i) == tree[i].layers);
  }
  // Adapters of one layer, whose first dimension is the rank, are not a stack.
  CHECK(Find({{"look/query/lora_a", {8, 1024}, {}},
              {"look/query/lora_b", {8, 16, 64}, {}},
              {"mull/up/lora_a", {8, 1024}, {}},
              {"mull/up/lora_b", {8, 2816}, {}}})
            .stacks.empty());
}

TEST_CASE("what may be layers or experts is undecided, and an axis decides") {
  const std::vector<Parameter> tree = {{"trunk/up", {12, 1024, 4096}, {}},
                                       {"trunk/down", {12, 4096, 1024}, {}},
                                       {"embed", {32000, 1024}, {}}};
  const LayerStacks stacks = Find(tree);
  REQUIRE(stacks.stacks.size() == 1);
  CHECK(stacks.stacks[0].confidence == StackConfidence::kUndecided);
  CHECK(StackText(stacks.stacks[0]) ==
        "dimension 0 of 2 parameters below `trunk/` counts 12 layers");
  const LayerStacks given = Find(tree, std::nullopt, {.none = false, .dim = 0});
  REQUIRE(given.stacks.size() == 1);
  CHECK(given.stacks[0].confidence == StackConfidence::kSure);
  CHECK(Find(tree, std::nullopt, {.none = true, .dim = {}}).stacks.empty());
  const std::vector<Parameter> last = {{"trunk/up", {1024, 4096, 12}, {}},
                                       {"trunk/down", {4096, 1024, 12}, {}}};
  CHECK(Find(last, std::nullopt, {.none = false, .dim = -1}).stacks.size() ==
        1);
  const LayerStacks configured = Find(tree, 12);
  REQUIRE(configured.stacks.size() == 1);
  CHECK(configured.stacks[0].confidence == StackConfidence::kSure);
}

TEST_CASE("a width that most matrices have in one dimension is no stack") {
  const std::vector<Parameter> tree = {
      {"verses/lookback/query", {12, 512, 4, 128}, {0}},
      {"verses/lookback/key", {12, 512, 4, 128}, {0}},
      {"verses/lookback/value", {12, 512, 4, 128}, {0}},
      {"verses/lookback/mix", {12, 4, 128, 512}, {0}},
      {"verses/mull/widen", {12, 512, 1344}, {0}},
      {"verses/mull/turn", {12, 512, 1344}, {0}},
      {"verses/mull/narrow", {12, 1344, 512}, {0}},
      {"unlex", {512, 32000}, {}},
      {"lex", {32000, 512}, {}}};
  const LayerStacks stacks = Find(tree);
  REQUIRE(stacks.stacks.size() == 1);
  CHECK(stacks.stacks[0].confidence == StackConfidence::kLikely);
  for (size_t i = 0; i < tree.size(); ++i) {
    CAPTURE(tree[i].name);
    CHECK(DimsOf(stacks, i) == tree[i].layers);
  }
}

TEST_CASE("two matrices may be layers, one may not") {
  const auto stacks = [](int64_t size) {
    return Find({{"trunk/up", {size, 1024, 4096}, {}},
                 {"trunk/down", {size, 4096, 1024}, {}}})
        .stacks;
  };
  REQUIRE(stacks(2).size() == 1);
  CHECK(stacks(2)[0].layers == 2);
  CHECK(stacks(1).empty());
}

TEST_CASE("experts and single layers are no stacks") {
  CHECK(Find({{"moe/experts/wi", {8, 1024, 4096}, {}},
              {"moe/experts/wo", {8, 4096, 1024}, {}}})
            .stacks.empty());
  CHECK(Find({{"layers/q_proj/kernel", {1024, 16, 64}, {}},
              {"layers/k_proj/kernel", {1024, 16, 64}, {}},
              {"layers/norm/scale", {1024}, {}}})
            .stacks.empty());
  // Numbered layers are not a stack, although square weights and experts have
  // the width as a common size.
  CHECK(Find({{"layers/*/self_attn/q_proj/kernel", {512, 512}, {}},
              {"layers/*/self_attn/o_proj/kernel", {512, 512}, {}},
              {"layers/*/mlp/experts/up_proj/kernel", {8, 512, 2048}, {}}})
            .stacks.empty());
}

}  // namespace
}  // namespace shardc
