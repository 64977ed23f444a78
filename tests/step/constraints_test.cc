#include "step/constraints.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "step/graph_maker.h"

namespace shardc::step {
namespace {

Mesh FourAxes() {
  Mesh mesh;
  for (const char* name : {"dp", "fsdp", "tp", "ep"}) {
    mesh.axes.push_back({name, 2, AxisType::kAuto});
  }
  mesh.devices = 16;
  return mesh;
}

TEST_CASE("activations that the rules state are overrides of their roles") {
  const auto stated = [](const char* name, std::vector<AxisGroup> spec) {
    SpecList list;
    for (const AxisGroup& group : spec) {
      SpecEntry entry;
      for (const std::string& axis : group) entry.names.push_back({axis, {}});
      list.entries.push_back(std::move(entry));
    }
    return ActivationRule{
        .name = name, .spec = std::move(list), .modes = {}, .place = {}};
  };
  RuleSet rules;
  rules.activations = {stated("hidden", {{"dp"}, {"tp"}}),
                       stated("experts", {{}, {"tp"}, {"dp"}}),
                       stated("own", {{}, {"fsdp"}})};
  Findings findings;
  const auto resolver = Resolver::Make(rules, FourAxes(), findings);
  REQUIRE(resolver.has_value());
  const ShardingConstraints constraints =
      ShardingConstraintsOf(*resolver, Mode::kDecode);
  std::string text;
  for (const ShardingConstraintOverride& one : constraints.overrides) {
    text += one.role + " " + one.token + " " + GroupText(one.axes) + "\n";
  }
  CHECK(text == R"(resid BATCH "dp"
resid QUERY_LENGTH "tp"
resid EMBED null
normed BATCH "dp"
normed QUERY_LENGTH "tp"
normed EMBED null
moe_exp BATCH null
moe_exp EXPERT "tp"
moe_exp_out BATCH null
moe_exp_out EXPERT "tp"
moe_mlp BATCH null
moe_mlp EXPERT "tp"
)");
  CHECK(constraints.notes ==
        std::vector<std::string>{
            "the step does not shard dimension 2 of the activation `experts` "
            "as the rules state it",
            "the step does not shard dimension 1 of the activation `own` as "
            "the rules state it"});
}

TEST_CASE("roles are sharded by the logical axes of a mode") {
  GraphMaker make;
  const LabelId b = make.Label("b", 8, "BATCH");
  const LabelId t = make.Label("t", 4, "QUERY_LENGTH");
  const LabelId d = make.Label("d", 16, "EMBED");
  const LabelId k = make.Label("k", 3, "KV_HEAD");
  const LabelId e = make.Label("e", 4, "EXPERT");
  const LabelId n = make.Label("n", 8, "HEAD");
  Findings findings;
  RuleSet rules;
  const Mesh mesh = FourAxes();
  const auto resolver = Resolver::Make(rules, mesh, findings);
  REQUIRE(resolver.has_value());
  ShardingConstraints constraints =
      ShardingConstraintsOf(*resolver, Mode::kTrain);
  CHECK(constraints.data == AxisGroup{"fsdp", "dp"});
  const Axes axes = AxesOf(mesh);
  const auto text = [&](const char* role, const std::vector<LabelId>& labels,
                        std::vector<std::string>* said = nullptr) {
    std::vector<std::string> notes;
    const auto sharding = ConstrainedSharding(constraints, axes, make.graph,
                                              make.sizes, role, labels, notes);
    if (said != nullptr) *said = notes;
    if (!sharding.has_value()) return std::string("none");
    return ShardingText(make.graph, axes, make.Value(labels), *sharding);
  };
  CHECK(text("resid", {b, t, d}) == "b:fsdp+dp d:tp");
  CHECK(text("mlp", {b, t, d}) == "b:fsdp+dp");
  // Keys that have as many heads as the queries are cached by these heads.
  CHECK(text("kcache", {b, t, n}) == "b:fsdp+dp n:tp");
  // An axis that does not divide the dimension is left out, and a note reports
  // it.
  std::vector<std::string> notes;
  CHECK(text("k", {b, t, k}, &notes) == "b:fsdp+dp");
  CHECK(notes ==
        std::vector<std::string>{"k k: tp does not divide 3 and is left out"});
  // An axis that does not divide a batch of one row is left out too.
  const int64_t rows = std::exchange(make.sizes[AsIndex(b)], 1);
  CHECK(text("resid", {b, t, d}, &notes) == "d:tp");
  CHECK(notes == std::vector<std::string>{
                     "resid b: fsdp does not divide 1 and is left out"});
  make.sizes[AsIndex(b)] = rows;
  // Without the experts' axis in the batch, tokens are not sent to their
  // experts.
  CHECK(text("moe_tok", {b, e, d}) == "none");
  CHECK(text("moe_exp", {b, e, d}) == "b:fsdp+dp e:ep");
  CHECK(KeepsPartial(constraints, axes, "moe_exp_out", true));
  CHECK(KeepsPartial(constraints, axes, "moe_exp", false));
  CHECK_FALSE(KeepsPartial(constraints, axes, "moe_exp", true));
  CHECK_FALSE(KeepsPartial(constraints, axes, "resid", true));
  constraints.by_axis[0] = {"fsdp", "dp", "ep"};
  CHECK_FALSE(KeepsPartial(constraints, axes, "moe_exp_out", true));
  CHECK(text("moe_tok", {b, e, d}) == "b:fsdp+dp+ep");
  CHECK(text("moe_exp", {b, e, d}) == "b:fsdp+dp e:ep");
  constraints.overrides.push_back({"resid", "EMBED", {"fsdp", "tp"}});
  CHECK(text("resid", {b, t, d}, &notes) == "b:fsdp+dp+ep d:tp");
  CHECK(notes ==
        std::vector<std::string>{
            "resid d: fsdp shards an earlier dimension too and is left "
            "out here"});
  CHECK(text("nothing", {b}) == "none");
  CHECK(IsForwardOnly("krep"));
  CHECK_FALSE(IsForwardOnly("k"));
}

}  // namespace
}  // namespace shardc::step
