// Checks the graph of a description: the layers, caches and parameters of each
// mode, and which descriptions and sizes are refused.
#include <algorithm>
#include <functional>
#include <string>

#include "doctest/doctest.h"
#include "parse/model_section.h"
#include "step/build.h"
#include "step/described.h"
#include "step/program.h"
#include "step/small_models.h"
#include "step/validate.h"

namespace shardc::step {
namespace {

TEST_CASE("what sees behind itself has no caches and does not decode") {
  const Family& encoder = FirstOf("bert");
  const Described model = ModelOf(encoder);
  CHECK_FALSE(HasMode(*model.description, &model.config, Mode::kDecode));
  CHECK_FALSE(HasMode(*model.description, &model.config, Mode::kInsert));
  CHECK(HasMode(*model.description, &model.config, Mode::kPrefill));
  const StepModel step = Built(encoder, Mode::kPrefill);
  CHECK(step.graph.caches.empty());
  Findings findings;
  CHECK_FALSE(BuildForward(*model.description, &model.config, model.manifest,
                           Mode::kDecode, findings));
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all()[0].message ==
        "a model whose queries see what is behind them does not decode");
}

// The graph must have the layers of both stacks, each with its caches.
TEST_CASE("an encoder is run in prefill, before the model decodes") {
  const Family& family = FirstOf("t5");
  const Described model = ModelOf(family);
  CHECK(HasMode(*model.description, &model.config, Mode::kDecode));
  const StepModel step = Built(family, Mode::kPrefill);
  const Graph& graph = step.graph;
  // The cache has the keys and values of the decoder's earlier tokens and those
  // of the encoder's output.
  CHECK(graph.caches.size() == 3 * 4);
  CHECK(graph.encoder_layer == 3);
  int32_t last = -1;
  for (const Op& op : graph.ops) last = std::max(last, op.layer);
  CHECK(last == 4);
  // The first layer of each stack has a table of distances, which the other
  // layers share.
  const auto tables = std::count_if(
      graph.parameters.begin(), graph.parameters.end(),
      [](const Parameter& p) { return p.role.ends_with("near"); });
  CHECK(tables == 2);
  const auto rows =
      std::count_if(graph.ops.begin(), graph.ops.end(),
                    [](const Op& op) { return op.kind == OpKind::kDistance; });
  CHECK(rows == 2);
  // In decoding, the encoder's parameters exist, but no op of the encoder is
  // run.
  const Graph one = Built(family, Mode::kDecode).graph;
  CHECK(one.parameters.size() == graph.parameters.size());
  CHECK(one.caches.size() == graph.caches.size());
  CHECK(std::all_of(one.ops.begin(), one.ops.end(), [](const Op& op) {
    return op.layer < 3 || op.kind == OpKind::kInput;
  }));
  CheckForm(one);
  Findings local;
  CHECK_FALSE(BuildForward(*model.description, &model.config, model.manifest,
                           Mode::kTrain, local, {},
                           {.view = AttentionView::kLocal}));
  REQUIRE(local.all().size() == 1);
  CHECK(local.all()[0].message ==
        "a model with an encoder runs attention as described");
}

// A graph that is built without the first layer must still have that layer's
// table of distances.
TEST_CASE("a layer without the first one takes what that one holds") {
  const Family& family = FirstOf("t5");
  const Described model = ModelOf(family);
  Findings findings;
  const auto step =
      BuildForward(*model.description, &model.config, model.manifest,
                   Mode::kTrain, findings, {2, 4});
  REQUIRE(step);
  int64_t tables = 0;
  for (const Parameter& parameter : step->graph.parameters) {
    if (!parameter.role.ends_with("near")) continue;
    ++tables;
    CHECK((parameter.layer == 0 || parameter.layer == 3));
  }
  CHECK(tables == 2);
}

TEST_CASE("lines that mean nothing are refused where they stand") {
  const Described model =
      FromConfig(std::string(kFamilies[0].config), "hf", "llama");
  const auto refused = [&](const std::string& line) {
    ModelDescription changed = *model.description;
    DescribedLine& first = changed.stacks[0].layer[0];
    const Place place = first.place;
    auto parsed = ParseDescribedLine(line);
    REQUIRE(parsed);
    first = *parsed;
    first.place = place;
    Findings findings;
    CHECK_FALSE(BuildForward(changed, &model.config, model.manifest,
                             Mode::kTrain, findings));
    REQUIRE(findings.all().size() >= 1);
    CHECK(findings.all()[0].place.begin == place.begin);
    return findings.all()[0].message;
  };
  CHECK(refused("y = rmsnrm(x, norm1)") == "there is no op `rmsnrm`");
  CHECK(refused("y = convolve(x, q, d)") ==
        "`convolve q` needs tokens, an odd kernel, and as many frames a token"
        " as it passes over");
  CHECK(refused("y = frames(d, 0)") ==
        "a model has one input of frames, of one or more a token");
  CHECK(refused("y = attention_near(x, x, x, norm1)") ==
        "`attention_near norm1` needs `distance` and a table of rows by heads");
  CHECK(refused("y = rmsnorm(z, norm1)") == "`z` is no value so far");
  CHECK(refused("y = rmsnorm(x, norm9)") == "`norm9` is no role");
  CHECK(refused("y = root(x, q)") == "`q` is no dimension");
  CHECK(refused("y = linear(x)") == "`linear` has too few arguments");
  CHECK(refused("y = rename(x, d, f)") ==
        "`rename` needs a dimension and one of its size");
  CHECK(refused("y = rope(x, x)") == "`rope` has too many arguments");
  CHECK(refused("y, z = rope(x)") == "`rope` gives 1, not 2");
  CHECK(refused("y = linear(x, q.bias)") ==
        "`linear q.bias` has nothing to contract");
  CHECK(refused("y = fn(x, wave)") == "there is no function `wave`");
}

// A description may give sizes that a configuration cannot have.
TEST_CASE("a step whose sizes do not fit each other is refused") {
  const auto refused = [](size_t family,
                          const std::function<void(ModelDescription&)>& change,
                          Mode mode) {
    const Family& of = kFamilies[family];
    const Described model =
        FromConfig(std::string(of.config), of.naming, of.pack);
    ModelDescription changed = *model.description;
    change(changed);
    Findings findings;
    CHECK_FALSE(
        BuildForward(changed, &model.config, model.manifest, mode, findings));
    REQUIRE(findings.all().size() == 1);
    CHECK(findings.all()[0].place.HasPosition());
    return findings.all()[0].message;
  };
  const auto set = [](std::string key, std::string value) {
    return [key, value](ModelDescription& description) {
      description.settings[key].text = value;
    };
  };
  constexpr size_t kLlama = 0, kMixtral = 5;
  CHECK(refused(kMixtral, set("top_k", "6"), Mode::kTrain) ==
        "each token goes to 6 experts, and the model has 4 experts");
  CHECK(refused(kMixtral, set("top_k", "0"), Mode::kPrefill) ==
        "each token goes to 0 experts, and the model has 4 experts");
  CHECK(refused(kLlama, set("rope.turned", "'1000'"), Mode::kTrain) ==
        "the rotary dimension is 1000, and a head has 2 elements");
  CHECK(refused(kLlama, set("rope.turned", "'0.5'"), Mode::kDecode) ==
        "the rotary dimension is 1, which is not even and above 0");
}

TEST_CASE("sizes of a built step are checked against each other") {
  const Described model =
      FromConfig(std::string(kFamilies[0].config), "hf", "llama");
  Findings findings;
  const auto step = BuildForward(*model.description, &model.config,
                                 model.manifest, Mode::kTrain, findings);
  REQUIRE(step);
  const Place place = model.description->stacks[0].repeat.place;
  Sizes sizes = RealSizes(*step, 2, 8);
  CHECK(CheckSizes(step->graph, sizes, place, findings));
  CHECK(CheckBytes(step->graph, sizes, place, findings));
  CHECK(findings.empty());
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (step->graph.labels[i].name == "k") sizes[i] = 3;
  }
  CHECK_FALSE(CheckSizes(step->graph, sizes, place, findings));
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all()[0].message ==
        "3 KV heads cannot serve 4 attention heads: 3 does not divide 4");
  const int64_t large = int64_t{1} << 32;
  CHECK_FALSE(
      CheckBytes(step->graph, RealSizes(*step, large, large), place, findings));
  REQUIRE(findings.all().size() == 2);
  CHECK(findings.all()[1].message.starts_with(
      "the bytes of the step's values do not fit in 64 bits"));
}

}  // namespace
}  // namespace shardc::step
