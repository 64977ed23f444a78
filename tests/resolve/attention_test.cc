#include "resolve/resolve.h"

#include <doctest/doctest.h>

namespace shardc {
namespace {

// Returns the spec of every tensor of attention, by its name.
std::map<std::string, std::string> Specs(const RuleSet& rules, Mode mode,
                                         const AttentionOptions& options) {
  Mesh mesh;
  for (const char* name : {"dp", "fsdp", "ep", "tp", "sp"}) {
    mesh.axes.push_back({name, 2});
  }
  Findings findings;
  auto resolver = Resolver::Make(rules, mesh, findings);
  REQUIRE(resolver);
  std::map<std::string, std::string> out;
  for (const auto& tensor : AttentionSpecs(*resolver, mode, options)) {
    CHECK(tensor.tokens.size() == tensor.resolved.spec.size());
    out[std::string(tensor.name)] = SpecText(tensor.resolved.spec);
  }
  return out;
}

RuleSet Distinct() {
  RuleSet rules;
  auto set = [&](AxisRule rule, AxisGroup axes) {
    rules.axes.Set(rule, {.is_null = false, .axes = std::move(axes)});
  };
  set(AxisRule::kBatch, {"dp"});
  set(AxisRule::kKvHead, {"ep"});
  set(AxisRule::kKeySequence, {"fsdp"});
  set(AxisRule::kBiasHeadSequence, {"tp"});
  set(AxisRule::kDecodeQuerySequence, {});
  return rules;
}

TEST_CASE("batch, length, heads, dim") {
  auto specs = Specs(Distinct(), Mode::kTrain, {});
  CHECK(specs.size() == 9);
  CHECK(specs["query"] == R"(["dp", "sp", "tp", null])");
  CHECK(specs["output"] == specs["query"]);
  CHECK(specs["key"] == R"(["dp", "fsdp", "ep", null])");
  CHECK(specs["value"] == specs["key"]);
  CHECK(specs["bias"] == R"(["dp", "tp", "sp", null])");
  CHECK(specs["mask"] == R"(["dp", null, "sp", null])");
  CHECK(specs["q_segment_ids"] == R"(["dp", "sp"])");
  CHECK(specs["kv_segment_ids"] == R"(["dp", "fsdp"])");
  CHECK(specs["query3d"] == R"(["dp", "tp", null])");
}

TEST_CASE("activations follow from the axis rules, or are stated") {
  RuleSet rules = Distinct();
  rules.axes.Set(AxisRule::kExpert, {.is_null = false, .axes = {"dp", "ep"}});
  const auto list = [](std::vector<const char*> names) {
    SpecList out;
    for (const char* name : names) out.entries.push_back({{{name, {}}}, false});
    return out;
  };
  rules.activations.push_back(
      {.name = "mlp", .spec = list({"dp", "tp"}), .modes = {}, .place = {}});
  rules.activations.push_back({.name = "own",
                               .spec = SpecBundle{"RowWise", {}},
                               .modes = {{Mode::kDecode, list({"BATCH"})}},
                               .place = {}});
  Mesh mesh;
  for (const char* name : {"dp", "fsdp", "ep", "tp", "sp"}) {
    mesh.axes.push_back({name, 2});
  }
  Findings findings;
  const auto resolver = Resolver::Make(rules, mesh, findings);
  REQUIRE(resolver);
  const auto text = [&](Mode mode) {
    std::map<std::string, std::string> out;
    const auto found = ActivationSpecs(*resolver, mode, findings);
    REQUIRE(found);
    for (const ActivationSpec& one : *found) {
      out[one.name] = SpecText(one.resolved.spec) + (one.stated ? " own" : "");
    }
    return out;
  };
  CHECK(text(Mode::kTrain) ==
        std::map<std::string, std::string>{
            {"hidden", R"(["dp", "sp", "tp"])"},
            {"mlp", R"(["dp", "tp"] own)"},
            {"logits", R"(["dp", "sp", "tp"])"},
            {"experts", R"([null, ["dp", "ep"], null, null])"},
            {"own", R"(["tp", ["fsdp", "sp"]] own)"}});
  CHECK(text(Mode::kDecode)["hidden"] == R"(["dp", null, "tp"])");
  CHECK(text(Mode::kDecode)["own"] == R"(["dp"] own)");
  CHECK_FALSE(findings.HasErrors());

  rules.activations.push_back(
      {.name = "odd", .spec = list({"nothing"}), .modes = {}, .place = {}});
  const auto wrong = Resolver::Make(rules, mesh, findings);
  REQUIRE(wrong);
  CHECK_FALSE(ActivationSpecs(*wrong, Mode::kTrain, findings));
  CHECK(findings.errors() == 1);
}

TEST_CASE("heads before length, multi-head, decode") {
  AttentionOptions options;
  options.layout = Layout::kBhtd;
  options.mni = true;
  auto specs = Specs(Distinct(), Mode::kDecode, options);
  CHECK(specs["query"] == R"(["dp", "tp", null, null])");
  CHECK(specs["key"] == R"(["dp", "tp", "fsdp", null])");
  CHECK(specs["bias"] == R"(["dp", "tp", null, null])");
}

TEST_CASE("sinks by rank") {
  AttentionOptions options;
  CHECK_FALSE(Specs({}, Mode::kTrain, options).contains("softmax_aux"));
  for (int rank : {0, 1, 3}) {
    options.softmax_aux_rank = rank;
    CHECK(Specs(Distinct(), Mode::kTrain, options)["softmax_aux"] ==
          R"(["tp"])");
  }
  options.softmax_aux_rank = 2;
  CHECK(Specs(Distinct(), Mode::kTrain, options)["softmax_aux"] ==
        R"([null, "ep"])");
}

TEST_CASE("packed tokens") {
  AttentionOptions options;
  options.layout = Layout::kThd;
  auto specs = Specs(Distinct(), Mode::kTrain, options);
  CHECK(specs["query"] == R"(["dp", "tp", null])");
  CHECK(specs["key"] == R"(["dp", "ep", null])");
  CHECK(specs["q_segment_ids"] == R"(["dp"])");
  CHECK(specs["cu_seqlens"] == "[null]");
}

TEST_CASE("layout names") {
  for (auto layout : {Layout::kBthd, Layout::kBhtd, Layout::kThd}) {
    CHECK(ParseLayout(LayoutName(layout)) == layout);
  }
  CHECK_FALSE(ParseLayout("BTHD"));
}

}  // namespace
}  // namespace shardc
