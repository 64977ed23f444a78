#include "plan/plan_axes.h"

#include <doctest/doctest.h>

#include <string>

#include "plan/axis_facts.h"
#include "source/json_writer.h"
#include "source/sink.h"
#include "source/source.h"

namespace shardc {
namespace {

std::string Written(const PlanAxes& axes) {
  return TextOf([&](Sink& sink) {
    JsonWriter json(sink);
    WritePlanAxes(json, axes);
  });
}

std::optional<PlanAxes> Read(const std::string& text, Findings& findings) {
  const auto document =
      JsonDocument::Parse(MakeSource("p.json", text), findings);
  REQUIRE(document != nullptr);
  Mesh mesh;
  mesh.axes = {{"data", 2}, {"tensor", 4}};
  return ReadPlanAxes(document->root(), mesh, findings);
}

TEST_CASE("plan_axes: what is written is read") {
  PlanAxes axes;
  // Every rule: no axes, a list, or null.
  for (size_t i = 0; i < kAxisRuleCount; i += 2) {
    axes.rules.Set(static_cast<AxisRule>(i),
                   {.is_null = i % 4 == 0, .axes = {}});
  }
  axes.rules.Set(AxisRule::kBatch,
                 {.is_null = false, .axes = {"data", "elsewhere"}});
  for (const AxisUse use :
       {AxisUse::kNotKnown, AxisUse::kKept, AxisUse::kGathered,
        AxisUse::kExperts, AxisUse::kLayers, AxisUse::kUnused}) {
    for (const AxisTokens tokens : {AxisTokens::kNotKnown, AxisTokens::kBatch,
                                    AxisTokens::kSequence, AxisTokens::kSame}) {
      for (const AxisEvidence evidence :
           {AxisEvidence::kStated, AxisEvidence::kSpecs,
            AxisEvidence::kConvention, AxisEvidence::kName,
            AxisEvidence::kNone}) {
        AxisFacts& facts = axes.facts.emplace_back();
        facts.axis = axes.facts.size() % 2 == 0 ? "data" : "tensor";
        facts.use = use;
        facts.tokens = tokens;
        facts.use_evidence = facts.tokens_evidence = evidence;
        facts.in_specs = axes.facts.size() % 3 == 0;
      }
    }
  }
  Findings findings;
  const std::string text = Written(axes);
  CHECK(Read(text, findings) == axes);
  CHECK(Written(*Read(text, findings)) == text);
  CHECK(Written({}) == R"({"rules": {}})");
}

TEST_CASE("plan_axes: facts of an axis that the mesh lacks are refused") {
  Findings findings;
  CHECK_FALSE(Read(R"({"facts": [{"axis": "ep", "in_specs": true,
      "tokens": {"evidence": "none", "have": "not_known"},
      "weights": {"evidence": "none", "use": "not_known"}}], "rules": {}})",
                   findings));
  REQUIRE(findings.errors() == 1);
  CHECK(findings.all()[0].code->name == "unknown-name");
}

TEST_CASE("plan_axes: figures take the axes as the facts complete them") {
  Mesh mesh;
  mesh.axes = {{"data", 2}, {"tensor", 4}};
  PlanAxes axes;
  AxisFacts& tensor = axes.facts.emplace_back();
  tensor.axis = "tensor";
  tensor.use = AxisUse::kKept;
  tensor.use_evidence = AxisEvidence::kSpecs;
  tensor.tokens = AxisTokens::kSame;
  tensor.tokens_evidence = AxisEvidence::kName;
  tensor.in_specs = true;
  const FigureAxes figures = FigureAxesOf(axes, {}, mesh);
  REQUIRE(figures.completed);
  CHECK(figures.completed->axes().Value(AxisRule::kHead).axes ==
        AxisGroup{"tp", "tensor"});
  CHECK(figures.notes.size() == 1);
  CHECK_FALSE(FigureAxesOf({}, {}, mesh).completed);
}

}  // namespace
}  // namespace shardc
