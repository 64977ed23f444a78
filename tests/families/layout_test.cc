#include "families/evaluate.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "families/families.h"
#include "source/file.h"
#include "source/json.h"

namespace shardc::families {
namespace {

constexpr std::string_view kConfig =
    R"({"model_type": "acme", "hidden_size": 64, "heads": 6, "kv": 2,
        "head": 8, "inner": 40})";

// The facts of the tensors of a description whose tree is `tree`, a line for
// each, or the findings.
std::string FactsOf(const std::string& tree, const std::string& more = "") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "shardc_layouts";
  fs::create_directories(folder);
  std::ofstream(folder / "acme.yaml")
      << "version: 1\nlet:\n  group: heads // kv\n  qkv: (heads + 2 * kv) * "
         "head\nfactors:\n  hidden_size: stream\n  heads: kv * group\n  kv: "
         "kv_heads\n  group: group\n  head: head_dim\n  inner: inner\n" +
             more + "tree:\n" + tree;
  Findings findings;
  const auto document = JsonDocument::Parse(
      MakeSource("config.json", std::string(kConfig)), findings);
  REQUIRE(document != nullptr);
  const auto built = BuildTree(*document, "hf", findings, folder.string());
  fs::remove_all(folder);
  std::string out;
  for (const Finding& finding : findings.all()) {
    out += finding.message + "\n";
  }
  if (!built) return out;
  const program::Facts& facts = *built->described;
  for (const program::ParamFacts& param : facts.params) {
    out += param.name + ":";
    for (const program::FactorList& dim : param.dims) {
      out += " [" + facts.Text(dim) + "]";
    }
    out += "\n";
  }
  return out;
}

TEST_CASE("factors: the order of a product is that of the elements") {
  CHECK(FactsOf("  q: linear(hidden_size, heads * head, true)\n") ==
        "q.weight: [kv_heads 2 x group 3 x head_dim 8] [stream 64]\n"
        "q.bias: [kv_heads 2 x group 3 x head_dim 8]\n");
  CHECK(FactsOf("  q: tensor(kv * (group + 2) * head)\n") ==
        "q: [kv_heads 2 x (group 3 x head_dim 8 | head_dim 8 | head_dim 8)]\n");
}

TEST_CASE("factors: the terms of a sum are parts") {
  CHECK(FactsOf("  w: tensor((heads + 2 * kv) * head)\n") ==
        "w: [(kv_heads 2 x group 3 x head_dim 8 | kv_heads 2 x head_dim 8 | "
        "kv_heads 2 x head_dim 8)]\n");
  CHECK(FactsOf("  w: tensor(2 * inner, 1)\n") ==
        "w: [(inner 40 | inner 40)] [1]\n");
  CHECK(FactsOf("  w: tensor(inner * 2)\n") == "w: [inner 40 x 2 parts]\n");
}

TEST_CASE("factors: a size without factors is not known") {
  CHECK(FactsOf("  w: tensor(inner - 8, 4)\n") == "w: [1] [1]\n");
  CHECK(FactsOf("  w: tensor(inner + other)\n", "  other: kv * 3\n") ==
        "the configuration has no `other`\n");
}

TEST_CASE("factors: a product counts only if it has the size of its name") {
  constexpr std::string_view kTree = "  w: tensor(qkv)\n";
  CHECK(FactsOf(std::string(kTree), "  qkv: kv * (group + 2) * head\n") ==
        "w: [kv_heads 2 x (group 3 x head_dim 8 | head_dim 8 | head_dim 8)]\n");
  CHECK(FactsOf(std::string(kTree), "  qkv: kv * group * head\n") ==
        "w: [1]\n");
}

TEST_CASE("factors: a role that is not known is refused") {
  CHECK(FactsOf("  w: tensor(inner)\n", "  more: width\n") ==
        "`width` is not what a factor counts\n");
  CHECK(FactsOf("  w: tensor(inner)\n", "  more: shared(batch)\n") ==
        "`shared(batch)` is not what a factor counts\n");
}

TEST_CASE("factors: a factor that is counted by itself is refused") {
  const auto refused = [](std::string_view more) {
    return FactsOf("  w: tensor(inner)\n", std::string(more));
  };
  for (const std::string_view own :
       {"  own: 2 * own\n", "  own: own ?? 1\n", "  own: own + 0\n",
        "  own: has(own) and 1\n", "  own: -own\n"}) {
    CHECK(refused(own) == "`own` is counted by itself\n");
  }
  CHECK(refused("  a: b * 1\n  b: c * 1\n  c: a * 1\n") ==
        "`a` is counted by itself, through `b`, `c`\n");
  std::string chain, doubled;
  for (int i = 0; i < 200; ++i) {
    const std::string name = "f" + std::to_string(i);
    const std::string next = "f" + std::to_string(i + 1);
    chain += "  " + name + ": 2 * " + next + "\n";
    if (i < 40) doubled += "  " + name + ": " + next + " * " + next + "\n";
  }
  CHECK(refused(chain) ==
        "factors and the values of `let` use one another more than 64 deep\n");
  CHECK(refused(doubled) ==
        "`f0` is a product of products of factors that reads more than 1,000 "
        "names\n");
}

TEST_CASE("tensors are counted before they are made") {
  CHECK(FactsOf("  layers[1000000]:\n    a: linear(inner, head)\n") ==
        "`layers` is there 1,000,000 times: it makes at least 1,000,000 "
        "tensors, and a described tree has at most 200,000\n");
  // Each of three is there whatever the number of the layer, and one is not.
  CHECK(FactsOf("  layers[i < 300]:\n    part[1000]:\n      a: tensor(1)\n"
                "      b if i == 0: tensor(1)\n      c if kv == 2: tensor(1)\n"
                "    d if i: tensor(1)\n    e if kv > 2: tensor(1)\n") ==
        "`layers` is there 300 times: it makes at least 600,000 tensors, and a "
        "described tree has at most 200,000\n");
  CHECK(FactsOf("  layers[i < 2000000]:\n    a if i < 0: tensor(1)\n") ==
        "`layers` is there 2,000,000 times: it makes 2,000,000 modules, and a "
        "described tree has at most 1,000,000\n");
  CHECK(FactsOf("  layers[i < 300000]:\n    a if i >= 0: tensor(1)\n") ==
        "the tree has 200,001 tensors, and a described tree has at most "
        "200,000\n");
}

TEST_CASE("factors: those of layers are apart, and shared ones are not") {
  const std::string tree = "  layers[2]:\n    a: tensor(inner, head)\n";
  CHECK(FactsOf(tree) ==
        "layers.0.a: [inner 40] [head_dim 8]\n"
        "layers.1.a: [inner 40] [head_dim 8]\n");
}

TEST_CASE("layouts: too many parts are not known") {
  CHECK(LayoutOfNumber(0) == std::nullopt);
  CHECK(LayoutOfNumber(1)->empty());
  CHECK_FALSE(LayoutOfNumber(1000));
  Layout many = *LayoutOfNumber(100);
  CHECK_FALSE(ProductOf(many, many));
}

}  // namespace
}  // namespace shardc::families
