// Tests the comparison of attention's projections with the axis rules for
// heads.
#include "lint/analysis/heads.h"

#include <string>
#include <tuple>
#include <vector>

#include "doctest/doctest.h"
#include "lint/target.h"

namespace shardc {
namespace {

// Compares the spec of one parameter with this name and shape, in a model whose
// query heads and KV heads are sharded over `tp`.
std::vector<ComparedProjection> Compared(const std::string& name,
                                         const std::string& shape,
                                         const std::string& spec,
                                         const std::string& others = "",
                                         AxisGroup axes = {"tp"}) {
  const TestTarget target = Build(
      {.mesh = "fsdp:2,tp:4",
       .rules = "version: 1\nseparator: \"/\"\nrules:\n  - match: '" + name +
                "'\n    spec: " + spec + "\n  - match: '.*'\n    spec: []\n",
       .manifest = R"({"schema": "shardc.manifest/v1", "params": {")" + name +
                   R"(": {"shape": )" + shape + R"(, "dtype": "F32"})" +
                   others + "}}"});
  REQUIRE(target.errors.empty());
  const Facts facts(target.inputs);
  const std::vector<HeadAxes> heads = {{Mode::kTrain, axes, axes},
                                       {Mode::kDecode, axes, axes}};
  auto out = CompareProjections(
      facts, {.heads = 16, .kv_heads = 8, .head_dim = 64}, 64, heads);
  for (ComparedProjection& one : out) one.group = nullptr;  // of `facts`
  return out;
}

ComparedProjection Single(const std::string& name, const std::string& shape,
                          const std::string& spec,
                          const std::string& others = "",
                          const AxisGroup& axes = {"tp"}) {
  const auto all = Compared(name, shape, spec, others, axes);
  REQUIRE(all.size() == 1);
  return all.front();
}

// The other parameters of a stack of 12 layers below `layers`.
constexpr const char* kStack =
    R"(, "layers/mlp/up_proj/kernel": {"shape": [12, 1024, 4096], "dtype": "F32"},
       "layers/mlp/down_proj/kernel": {"shape": [12, 4096, 1024], "dtype": "F32"},
       "layers/norm/scale": {"shape": [12, 1024], "dtype": "F32"})";

TEST_CASE("a projection with heads over the axis of attention agrees") {
  for (const auto& [name, shape, spec] :
       {std::tuple{"attn/q_proj/kernel", "[1024, 1024]", "[fsdp, tp]"},
        std::tuple{"attn/q_proj/weight", "[1024, 2048]", "[tp, fsdp]"},
        std::tuple{"attn/k_proj/kernel", "[1024, 512]", "[null, tp]"},
        std::tuple{"attn/v_proj/kernel", "[1024, 8, 64]", "[fsdp, tp]"},
        std::tuple{"attn/o_proj/kernel", "[16, 64, 1024]", "[tp, null, fsdp]"},
        std::tuple{"attn/o_proj/kernel", "[1024, 2048]", "[tp, fsdp]"}}) {
    const auto& given_name = name;
    CAPTURE(given_name);
    const auto& given_shape = shape;
    CAPTURE(given_shape);
    const auto one = Single(name, shape, spec);
    CHECK(one.status == ProjectionStatus::kAgrees);
    CHECK(one.reason.empty());
    CHECK(one.modes == std::vector<Mode>{Mode::kTrain, Mode::kDecode});
  }
}

TEST_CASE("a projection that splits its width instead of heads differs") {
  const auto one = Single("attn/q_proj/kernel", "[1024, 1024]", "[tp, fsdp]");
  CHECK(one.status == ProjectionStatus::kDiffers);
  CHECK(one.reason ==
        "heads are unsharded in it, and the axis rules split them over "
        "\"tp\"; it splits the width (dimension 0) over \"tp\", so that its "
        "result is partial");
  CHECK(one.help ==
        "split dimension 1 over \"tp\", or change the heads' axis in `axes`");
  const auto output =
      Single("attn/o_proj/kernel", "[1024, 1024]", "[fsdp, tp]");
  CHECK(output.status == ProjectionStatus::kDiffers);
  CHECK(output.reason.find("partial") == std::string::npos);
}

TEST_CASE("the dimension of a layer stack is not taken for a projection's") {
  const std::string name = "layers/attn/query/kernel";
  for (const char* spec : {"[fsdp, tp, null]", "[null, tp, null]", "[tp]"}) {
    CAPTURE(spec);
    const auto one = Single(name, "[12, 1024, 1024]", spec, kStack);
    CHECK(one.status == ProjectionStatus::kDiffers);
    CHECK(one.help.find("dimension 2") != std::string::npos);
  }
  CHECK(Single(name, "[12, 1024, 1024]", "[null, fsdp, tp]", kStack).status ==
        ProjectionStatus::kAgrees);
}

TEST_CASE("the stack's dimension may be the second") {
  const std::string others =
      R"(, "layers/mlp/wi/kernel": {"shape": [1024, 16, 4096], "dtype": "F32"},
         "layers/mlp/wo/kernel": {"shape": [4096, 16, 1024], "dtype": "F32"},
         "layers/norm/scale": {"shape": [1024, 16], "dtype": "F32"})";
  const std::string name = "layers/attention/query/kernel";
  CHECK(Single(name, "[1024, 16, 16, 64]", "[fsdp, null, tp]", others).status ==
        ProjectionStatus::kAgrees);
  const auto layers = Single(name, "[1024, 16, 16, 64]", "[fsdp, tp]", others);
  CHECK(layers.status == ProjectionStatus::kDiffers);
  CHECK(layers.help.find("dimension 2") != std::string::npos);
}

TEST_CASE("an axis inside a head differs") {
  const auto elements =
      Single("attn/q_proj/kernel", "[1024, 16, 64]", "[null, null, tp]");
  CHECK(elements.status == ProjectionStatus::kDiffers);
  CHECK(elements.reason.find("elements of a head") != std::string::npos);
}

TEST_CASE("heads that the axes of attention do not divide are not compared") {
  const TestTarget target = Build(
      {.mesh = "tp:16",
       .rules = "version: 1\nseparator: \"/\"\nrules:\n  - match: '.*'\n"
                "    spec: [null, tp]\n",
       .manifest =
           R"({"schema": "shardc.manifest/v1", "params": {"attn/k_proj/kernel":
              {"shape": [1024, 512], "dtype": "F32"}}})"});
  const Facts facts(target.inputs);
  const std::vector<HeadAxes> heads = {{Mode::kTrain, {"tp"}, {"tp"}}};
  const auto out = CompareProjections(
      facts, {.heads = 16, .kv_heads = 8, .head_dim = 64}, 64, heads);
  REQUIRE(out.size() == 1);
  CHECK(out[0].status == ProjectionStatus::kUnknown);
  CHECK(out[0].reason ==
        "the axis rules split 8 KV heads over \"tp\" into 16 parts, which do "
        "not divide them");
  // With these axes, attention leaves the heads unsharded.
  const std::vector<HeadAxes> whole = {{Mode::kTrain, {}, {}}};
  const auto part = CompareProjections(
      facts, {.heads = 16, .kv_heads = 8, .head_dim = 64}, 64, whole);
  REQUIRE(part.size() == 1);
  CHECK(part[0].status == ProjectionStatus::kDiffers);
  CHECK(part[0].reason.find("part of a head") != std::string::npos);
}

TEST_CASE("what cannot be compared is named with the reason") {
  const auto fused =
      Single("attn/qkv_proj/kernel", "[1024, 2048]", "[null, tp]");
  CHECK(fused.status == ProjectionStatus::kUnknown);
  CHECK(fused.reason == "it holds query, key and value in one tensor");
  const auto sizes = Single("attn/q_proj/kernel", "[768, 640]", "[null, tp]");
  CHECK(sizes.status == ProjectionStatus::kUnknown);
  CHECK(sizes.reason ==
        "its shape [768, 640] does not show where 16 heads of 64 are");
  const auto latent =
      Single("attn/kv_b_proj/kernel", "[512, 4096]", "[null, tp]");
  CHECK(latent.status == ProjectionStatus::kUnknown);
  const auto beside = Compared(
      "verses/lookback/query", "[1024, 1024]", "[null, tp]",
      R"(, "verses/lookback/out": {"shape": [1024, 1024], "dtype": "F32"})");
  REQUIRE(beside.size() == 2);
  CHECK(beside[1].status == ProjectionStatus::kUnknown);
  CHECK(beside[1].reason == "its name gives it no known role in attention");
  CHECK(Compared("mlp/up_proj/kernel", "[1024, 4096]", "[tp]").empty());
  const auto illegal =
      Single("attn/q_proj/kernel", "[1022, 1024]", "[tp, null]");
  CHECK(illegal.status == ProjectionStatus::kUnknown);
}

}  // namespace
}  // namespace shardc
