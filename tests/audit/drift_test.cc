#include "audit/drift.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "importers/rules/exact.h"

namespace shardc::audit {
namespace {

// Compares a program with one argument `s.mu['layers']['up']`, of local shape 4
// x 8 on 4 devices.
Drifts Compare(const std::string& sharding, const Planned& planned) {
  Findings findings;
  const auto program = hlo::ReadProgram(
      MakeSource("p.txt",
                 "HloModule m, num_partitions=4\n\nENTRY %e {\n"
                 "  ROOT %p = f32[4,8]{1,0} parameter(0), sharding=" +
                     sharding +
                     ", metadata={op_name=\"s.mu[\\'layers\\'][\\'up\\']\"}\n"
                     "}\n"),
      findings);
  REQUIRE(program);
  Mesh mesh;
  mesh.axes = {{"one", 1}, {"dp", 2}, {"tp", 2}};
  mesh.devices = 4;
  return DriftsOf(*program, mesh, std::span(&planned, 1));
}

constexpr const char* kRows = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}";

TEST_CASE("the sharding that was planned is no drift") {
  for (const char* name : {"layers.up", "layers/up", "up", "mu/layers/up"}) {
    CAPTURE(name);
    // Axes of size 1 and unsharded dimensions at the end make no difference.
    const Drifts drifts =
        Compare(kRows, {name, {8, 8}, {{"one", "dp"}, {}, {}}});
    CHECK(drifts.compared == 1);
    CHECK(drifts.all.empty());
  }
  CHECK(Compare("{replicated}", {"up", {4, 8}, {}}).all.empty());
}

TEST_CASE("another axis, dimension or order is a drift") {
  for (const Spec& planned :
       {Spec{{"tp"}}, Spec{}, Spec{{}, {"dp"}}, Spec{{"dp"}, {"tp"}}}) {
    const Drifts drifts = Compare(kRows, {"up", {8, 8}, planned});
    REQUIRE(drifts.all.size() == 1);
    CHECK(drifts.all[0].argument == "mu/layers/up");
    CHECK(drifts.all[0].actual == Spec{{"dp"}});
  }
}

TEST_CASE("a sharding that no spec expresses is shown as it is written") {
  for (const char* sharding : {"{manual}",
                               "{devices=[2,1,2]0,3,1,2 "
                               "last_tile_dim_replicate}"}) {
    CAPTURE(sharding);
    const Drifts drifts = Compare(sharding, {"up", {8, 8}, {{"dp"}}});
    REQUIRE(drifts.all.size() == 1);
    CHECK_FALSE(drifts.all[0].actual);
    CHECK(drifts.all[0].sharding == sharding);
  }
}

// Returns the parameters with which the arguments of these paths are compared,
// in a program whose arguments are all of shape 8 x 8 and replicated.
std::vector<std::string> ComparedWith(const std::vector<std::string>& plan,
                                      const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  for (const std::string& path : paths) {
    std::vector<Planned> planned;
    for (const std::string& name : plan) {
      planned.push_back({name, {8, 8}, {{"dp"}}});
    }
    std::string text = "HloModule m, num_partitions=4\n\nENTRY %e {\n";
    for (size_t i = 0; i < paths.size(); ++i) {
      text += "  %p" + std::to_string(i) + " = f32[8,8]{1,0} parameter(" +
              std::to_string(i) + "), sharding={replicated}, metadata={" +
              "op_name=\"" + paths[i] + "\"}\n";
    }
    Findings findings;
    const auto program =
        hlo::ReadProgram(MakeSource("p.txt", text + "}\n"), findings);
    REQUIRE(program);
    Mesh mesh;
    mesh.axes = {{"dp", 2}, {"tp", 2}};
    mesh.devices = 4;
    const Drifts drifts = DriftsOf(*program, mesh, planned);
    CHECK(drifts.compared + std::ssize(drifts.skipped) == std::ssize(paths));
    const auto at = std::find_if(
        drifts.all.begin(), drifts.all.end(), [&](const Drift& one) {
          return one.argument == imports::NameOfPath(path);
        });
    out.push_back(at == drifts.all.end() ? "" : at->parameter);
  }
  return out;
}

TEST_CASE("a prefix of the plan's names may be missing in arguments") {
  using Names = std::vector<std::string>;
  for (const char* prefix : {"params/", "state/params/", "model.", ""}) {
    CAPTURE(prefix);
    const std::string up = prefix + std::string("mlp/up"),
                      down = prefix + std::string("mlp/down");
    CHECK(
        ComparedWith({up, down, prefix + std::string("head")},
                     {"s.params['mlp']['up']", "s.opt_state[0].mu['mlp']['up']",
                      "s.opt_state[1].inner['mlp']['down']", "w['mlp']['up']",
                      "s.step", "opt['mlp']['up']['m']"}) ==
        Names{up, up, down, up, "", up});
  }
  // Two collections, and a list whose elements are numbered.
  CHECK(ComparedWith({"params/a/w", "params/b/w", "stats/a/w"},
                     {"s.mu['a']['w']", "s.stats['a']['w']"}) ==
        Names{"params/a/w", "stats/a/w"});
  CHECK(ComparedWith({"layers/0/w", "layers/1/w"}, {"s['blocks'][0]['w']"}) ==
        Names{""});
  // Several containers are left out together.
  CHECK(ComparedWith({"state/params/a/w", "state/params/b/w"},
                     {"s['state']['params']['a']['w']",
                      "s['state']['opt'][0].mu['b']['w']"}) ==
        Names{"state/params/a/w", "state/params/b/w"});
  // The encoder is no part of the plan: only `params` is left out.
  CHECK(ComparedWith({"params/decoder/w", "params/decoder/v"},
                     {"p['params']['decoder']['w']", "m.mu['decoder']['w']",
                      "m.mu['encoder']['w']"}) ==
        Names{"params/decoder/w", "params/decoder/w", ""});
}

TEST_CASE("a comparison of nothing fails, and of one parameter is limited") {
  CHECK(Compare(kRows, {"down", {8, 8}, {}}).Fail());
  CHECK_FALSE(Compare(kRows, {"up", {8, 8}, {{"dp"}}}).Fail());
}

TEST_CASE("arguments of other names and shapes are not compared") {
  CHECK(Compare(kRows, {"down", {8, 8}, {}}).compared == 0);
  CHECK(Compare(kRows, {"p", {8, 8}, {}}).compared == 0);
  CHECK(Compare(kRows, {"up", {16, 8}, {}}).compared == 0);
  CHECK(Compare(kRows, {"up", {8}, {}}).compared == 0);
}

}  // namespace
}  // namespace shardc::audit
