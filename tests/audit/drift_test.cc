#include "audit/drift.h"

#include <doctest/doctest.h>

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

TEST_CASE("arguments of other names and shapes are not compared") {
  CHECK(Compare(kRows, {"down", {8, 8}, {}}).compared == 0);
  CHECK(Compare(kRows, {"p", {8, 8}, {}}).compared == 0);
  CHECK(Compare(kRows, {"up", {16, 8}, {}}).compared == 0);
  CHECK(Compare(kRows, {"up", {8}, {}}).compared == 0);
}

}  // namespace
}  // namespace shardc::audit
