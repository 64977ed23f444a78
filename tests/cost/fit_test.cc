#include "cost/fit.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "cost/models.h"
#include "parse/rules.h"

namespace shardc::cost {
namespace {

TEST_CASE("every way to share devices is tried once") {
  const std::vector<std::string> axes = {"dp", "fsdp", "tp"};
  const auto meshes = MeshesOf(64, axes, 1000);
  REQUIRE(meshes);
  CHECK(meshes->size() == 28);
  std::set<std::string> seen;
  for (const Mesh& mesh : *meshes) {
    CHECK(mesh.devices == 64);
    int64_t product = 1;
    for (const MeshAxis& axis : mesh.axes) product *= axis.size;
    CHECK(product == 64);
    CHECK(seen.insert(MeshText(mesh)).second);
  }
  CHECK(MeshesOf(12, {"dp", "tp"}, 1000)->size() == 6);
  CHECK(MeshesOf(1, axes, 1000)->size() == 1);
  CHECK(MeshesOf(64, {}, 1000)->empty());
  CHECK(!MeshesOf(64, axes, 27));
}

FitMesh Candidate(bool legal, int64_t bytes, int64_t sent, double seconds) {
  FitMesh out;
  out.legal = legal;
  out.memory.capacity = 100;
  out.memory.most.total = bytes;
  out.communication = sent;
  if (seconds > 0) {
    out.time.emplace();
    out.time->communication = seconds;
  }
  return out;
}

TEST_CASE("the better mesh stands first") {
  std::vector<FitMesh> meshes = {
      Candidate(false, 0, 0, 0),  Candidate(true, 120, 1, 0),
      Candidate(true, 90, 20, 0), Candidate(true, 80, 20, 0),
      Candidate(true, 99, 10, 0),
  };
  SortByCost(meshes);
  std::vector<int64_t> order;
  for (const FitMesh& one : meshes) order.push_back(*one.memory.most.total);
  CHECK(order == std::vector<int64_t>{99, 80, 90, 120, 0});
  CHECK(meshes.front().Fits());
  CHECK(*NearestToFit(meshes)->memory.most.total == 80);
  // Meshes are ranked by time before bytes.
  std::vector<FitMesh> timed = {Candidate(true, 10, 1, 2.0),
                                Candidate(true, 10, 9, 1.0)};
  SortByCost(timed);
  CHECK(timed.front().communication == 9);
  const std::vector<FitMesh> none = {Candidate(false, 0, 0, 0)};
  CHECK(NearestToFit(none) == nullptr);
}

}  // namespace
}  // namespace shardc::cost
