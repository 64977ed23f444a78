// Tests the queries on a plan that several export formats share.
#include "emit/exports/exporter.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "model/manifest.h"

namespace shardc::exports {
namespace {

ReadParam Param(std::string name, std::optional<Shape> shape = Shape{8},
                Spec spec = {{"tp"}}) {
  ReadParam out;
  out.name = std::move(name);
  out.type = {std::move(shape), Dtype::kF32};
  out.spec = std::move(spec);
  return out;
}

ReadPlan PlanOf(std::vector<ReadParam> params) {
  ReadPlan out;
  out.mesh.axes = {{"dp", 2}, {"tp", 4}};
  out.mesh.devices = 8;
  out.modes = {Mode::kTrain};
  out.params = std::move(params);
  return out;
}

TEST_CASE("the separator is the one that most names contain") {
  const auto separator = [](const std::vector<std::string>& names) {
    std::vector<ReadParam> params;
    for (const std::string& name : names) params.push_back(Param(name));
    return SeparatorOf(PlanOf(std::move(params)));
  };
  CHECK(separator({}) == '/');
  CHECK(separator({"a"}) == '/');
  CHECK(separator({"a.b"}) == '.');
  CHECK(separator({"a/b"}) == '/');
  CHECK(separator({"a/b", "a.b"}) == '/');
  CHECK(separator({"a/b", "a.b", "c.d"}) == '.');
  CHECK(separator({"a/b", "a/c", "a.b", "c.d", "c.e"}) == '.');
  CHECK(separator({"a/b", "a/c", "a.b", "c.d"}) == '/');
  // A name counts once, however many separators it contains.
  CHECK(separator({"a/b/c/d", "a.b", "c.d"}) == '.');
  CHECK(separator({"a.b.c.d", "a/b", "c/d"}) == '/');
}

TEST_CASE("shards are rounded up, and unknown without a shape") {
  const Mesh mesh = PlanOf({}).mesh;
  CHECK(Padded({{"tp"}}, 3) == Spec{{"tp"}, {}, {}});
  CHECK(Padded({}, 0) == Spec{});
  CHECK(ShardShape(mesh, {{"tp"}, {"dp"}}, Shape{9, 4, 3}) == Shape{3, 2, 3});
  CHECK(ShardShape(mesh, {{"dp", "tp"}}, Shape{8}) == Shape{1});
  CHECK_FALSE(ShardShape(mesh, {{"tp"}}, std::nullopt));
  CHECK(ShardBytes(mesh, {{"tp"}}, {Shape{9}, Dtype::kBF16}) == 6);
  CHECK_FALSE(ShardBytes(mesh, {{"tp"}}, {Shape{9}, std::nullopt}));
}

// Returns code, message, parameters and help of the only finding.
std::string Only(const Findings& findings) {
  REQUIRE(findings.all().size() == 1);
  const Finding& one = findings.all()[0];
  std::string out = one.code->Id() + " " + one.message + " [";
  for (const std::string& name : one.params) out += name + ",";
  return out + "] " + one.help;
}

TEST_CASE("what a format cannot express is one finding with all names") {
  ReadPlan plan = PlanOf({Param("a"), Param("b"), Param("c"), Param("d")});
  Findings none;
  CHECK(NoPlacements(plan, "x", none));
  CHECK(ShapesKnown(plan, "x", none));
  CHECK(NoBlocks(plan, "x", none));
  CHECK(CanListDevices(plan.mesh, "x", none));
  CHECK(HasAxis(plan.mesh, "--axis", "tp", none));
  CHECK(none.empty());

  plan.params[1].placement = ReadPlacement{"tp", 1};
  Findings placed;
  CHECK_FALSE(NoPlacements(plan, "x", placed));
  CHECK(Only(placed) ==
        "SHD062 `x` cannot express a tensor that is placed at one coordinate "
        "of an axis: `b` [b,] stack the experts or the layers of stages "
        "into one tensor, or remove `place` from the rule or `stages:`");
  plan.params[2].type.shape = std::nullopt;
  plan.params[3].type.shape = std::nullopt;
  Findings shapes;
  CHECK_FALSE(ShapesKnown(plan, "x", shapes));
  CHECK(Only(shapes) ==
        "SHD062 `x` needs shapes, and one is unknown: `c` and 1 more [c,d,] "
        "compile the plan from a manifest with shapes");
  for (ReadParam& param : plan.params) param.type.dtype = block::kQ4K;
  Findings blocks;
  CHECK_FALSE(NoBlocks(plan, "x", blocks));
  CHECK(Only(blocks) ==
        "SHD062 `x` has no dtype for elements that are stored in blocks: `a` "
        "and 3 more [a,b,c,d,] compile the plan from the manifest of the "
        "unquantised model");
  Findings axis;
  CHECK_FALSE(HasAxis(plan.mesh, "--axis", "tq", axis));
  CHECK(Only(axis) == "SHD028 the mesh has no axis `tq` [] ");
  CHECK(axis.all()[0].place.source->name() == "--axis");
}

TEST_CASE("devices of several slices are listed up to a limit") {
  Mesh mesh;
  mesh.devices = kMostListed;
  mesh.slices = 2;
  Findings findings;
  CHECK(CanListDevices(mesh, "x", findings));
  mesh.devices = kMostListed + 1;
  CHECK_FALSE(CanListDevices(mesh, "x", findings));
  CHECK(Only(findings).find("`x` would list 65,537 devices") !=
        std::string::npos);
  mesh.slices = 1;
  CHECK(CanListDevices(mesh, "x", findings));
}

TEST_CASE("parameters that agree in all that a line shows share it") {
  ReadPlan plan =
      PlanOf({Param("h/0/up"), Param("h/1/up"), Param("h/2/up", Shape{8}, {{}}),
              Param("h/3/up"), Param("h/4/up", Shape{16}), Param("h/5/up"),
              Param("h/6/up"), Param("h/7/up")});
  plan.params[5].modes = {{Mode::kDecode, {{"dp"}}}};
  plan.params[6].placement = ReadPlacement{"tp", 1};
  plan.params[7].placement = ReadPlacement{"tp", 2};
  std::vector<std::string> found;
  for (const Fold& fold : Folded(plan, '/')) {
    found.push_back(fold.name + " " + fold.first->name + " " +
                    std::to_string(fold.count));
  }
  // The line of a group with one parameter has its full name.
  CHECK(found == std::vector<std::string>{"h/*/up h/0/up 3", "h/2/up h/2/up 1",
                                          "h/4/up h/4/up 1", "h/5/up h/5/up 1",
                                          "h/*/up h/6/up 2"});
  CHECK(ShortSpec({{"fsdp", "sp"}, {"tp"}, {}}) == "fsdp+sp, tp, -");
  CHECK(ShortSpec({{}, {}}) == "replicated");
  CHECK(ShortSpec({}) == "replicated");
}

}  // namespace
}  // namespace shardc::exports
