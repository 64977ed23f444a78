#include "emit/exports/exporter.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>

namespace shardc::exports {
namespace {

ReadPlan Plan() {
  ReadPlan plan;
  plan.mesh.axes = {{"dp", 2}, {"tp", 4}};
  plan.mesh.devices = 8;
  const std::pair<const char*, std::pair<Shape, Spec>> params[] = {
      {"up/kernel", {{8, 16}, {{"dp"}, {"tp"}}}},
      {"up/bias", {{16}, {{"tp"}}}},
      {"square/kernel", {{8, 8}, {{"dp"}, {"tp"}}}},
      {"scale", {{1}, {{}}}}};
  for (const auto& [name, type] : params) {
    ReadParam& param = plan.params.emplace_back();
    param.name = name;
    param.type = {type.first, Dtype::kF32};
    param.spec = type.second;
    param.modes = {{Mode::kDecode, {}}};
  }
  return plan;
}

struct Case {
  const char* name;
  Shape shape;
  Spec spec;
};

// Returns the specs by name; empty after errors, which are added to `findings`.
std::map<std::string, Spec> Specs(const std::vector<Case>& cases,
                                  Findings& findings,
                                  Mode mode = Mode::kTrain) {
  ManifestBuilder builder;
  for (const Case& one : cases) builder.Add(one.name, {one.shape, Dtype::kF32});
  Manifest state = builder.Take();
  state.separator = '/';
  std::map<std::string, Spec> out;
  for (StateArray& array : ArraysOfState(Plan(), mode, state, findings)) {
    out[array.name] = std::move(array.spec);
  }
  return out;
}

TEST_CASE("arrays of a train state belong to the parameters of their paths") {
  const std::vector<Case> cases = {
      {"params/up/kernel", {8, 16}, {{"dp"}, {"tp"}}},
      {"params/up/bias", {16}, {{"tp"}}},
      {"params/square/kernel", {8, 8}, {{"dp"}, {"tp"}}},
      {"params/scale", {1}, {{}}},
      {"opt_state/0/mu/up/kernel", {8, 16}, {{"dp"}, {"tp"}}},
      {"opt_state/0/mu/up/bias", {16}, {{"tp"}}},
      {"opt_state/0/count", {}, {}},
      // Factored moments have one dimension of the parameter, or a single value
      // as a placeholder for the moment that is not stored.
      {"opt_state/1/v_row/up/kernel", {8}, {{"dp"}}},
      {"opt_state/1/v_col/up/kernel", {16}, {{"tp"}}},
      {"opt_state/1/v/up/kernel", {1}, {}},
      {"opt_state/1/keep/up/kernel", {8, 1}, {{"dp"}, {}}},
      // The array may belong to either dimension of a square parameter, so it
      // is replicated.
      {"opt_state/1/v_row/square/kernel", {8}, {}},
      // An array with a leading dimension of steps, and one whose name has a
      // part after the parameter's name.
      {"opt_state/2/history/up/bias", {5, 16}, {{}, {"tp"}}},
      {"opt_state/3/up/kernel/value", {8, 16}, {{"dp"}, {"tp"}}},
      {"rng", {2}, {}},
      {"batch_stats/mean", {16}, {}},
      {"step", {}, {}}};
  Findings findings;
  const auto specs = Specs(cases, findings);
  CHECK(findings.all().empty());
  REQUIRE(specs.size() == cases.size());
  for (const Case& one : cases) {
    CAPTURE(one.name);
    CHECK(specs.at(one.name) == one.spec);
  }
  for (const auto& [name, spec] : Specs(cases, findings, Mode::kDecode)) {
    for (const AxisGroup& group : spec) CHECK(group.empty());
  }
}

TEST_CASE("an array among the parameters that the plan lacks is reported") {
  Findings findings;
  const auto specs = Specs({{"params/up/kernel", {8, 16}, {}},
                            {"params/new/kernel", {4, 4}, {}},
                            {"params/new/bias", {4}, {}}},
                           findings);
  CHECK(specs.at("params/new/kernel").empty());
  REQUIRE(findings.all().size() == 1);
  CHECK_FALSE(findings.HasErrors());
  CHECK(findings.all()[0].message ==
        "the plan lacks `params/new/kernel` and 1 more among the parameters: "
        "the file replicates them");
}

TEST_CASE("another shape than the plan's is an error") {
  Findings findings;
  const auto specs =
      Specs({{"params/up/kernel", {8, 16}, {}}, {"params/up/bias", {12}, {}}},
            findings);
  CHECK(specs.empty());
  REQUIRE(findings.HasErrors());
  CHECK(findings.all()[0].message ==
        "`up/bias` is [16] in the plan, and `params/up/bias` is [12] in the "
        "train state");
}

}  // namespace
}  // namespace shardc::exports
