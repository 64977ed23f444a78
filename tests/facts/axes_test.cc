#include "facts/axes.h"

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace shardc {
namespace {

// The parameters of a block, [out, in], with the spec of each.
class Groups {
 public:
  Groups& Add(Role role, Shape shape, Spec spec) {
    shapes_.push_back(std::move(shape));
    specs_.push_back(std::move(spec));
    ShardedGroup group;
    group.role = role;
    group.block =
        role == Role::kUp || role == Role::kDown ? "mlp" : "attention";
    group.norm = role == Role::kNorm;
    group.projects = !group.norm && role != Role::kHead;
    if (!group.norm) {
      group.out = 0;
      group.in = 1;
    }
    group.spec = &specs_.back();
    group.shape = &shapes_.back();
    group.rule = static_cast<int32_t>(groups_.size());
    groups_.push_back(std::move(group));
    return *this;
  }

  // Query and output projections, and up and down projections.
  Groups& Model(const Spec& q, const Spec& o, const Spec& up,
                const Spec& down) {
    return Add(Role::kQuery, {64, 64}, q)
        .Add(Role::kOutput, {64, 64}, o)
        .Add(Role::kUp, {96, 64}, up)
        .Add(Role::kDown, {64, 96}, down)
        .Add(Role::kNorm, {64}, {});
  }

  std::vector<AxisFacts> On(std::vector<std::string> axes,
                            const AxisRules& rules = {},
                            bool generates_only = false) const {
    Mesh mesh;
    for (std::string& axis : axes) mesh.axes.push_back({std::move(axis), 4});
    mesh.devices = 4;
    return FindAxisFacts({.mesh = &mesh,
                          .rules = &rules,
                          .stage_axis = {},
                          .generates_only = generates_only,
                          .groups = groups_});
  }

 private:
  std::deque<Shape> shapes_;
  std::deque<Spec> specs_;
  std::vector<ShardedGroup> groups_;
};

Spec Of(std::string_view out, std::string_view in) {
  Spec spec(2);
  if (!out.empty()) spec[0] = {std::string(out)};
  if (!in.empty()) spec[1] = {std::string(in)};
  return spec;
}

using Use = AxisUse;

TEST_CASE("the specs of projections show what an axis is for") {
  struct Row {
    const char* what;
    Spec q, o, up, down;
    AxisUse x, y;
  };
  const Row rows[] = {
      {"inner on both sides", Of("x", ""), Of("", "x"), Of("x", ""),
       Of("", "x"), Use::kKept, Use::kUnused},
      {"stream on both sides", Of("", "y"), Of("y", ""), Of("", "y"),
       Of("y", ""), Use::kUnused, Use::kGathered},
      {"both axes", Of("x", "y"), Of("y", "x"), Of("x", "y"), Of("y", "x"),
       Use::kKept, Use::kGathered},
      {"one projection is wrong, a second axis shows it", Of("x", "y"),
       Of("x", "y"), Of("x", "y"), Of("y", "x"), Use::kKept, Use::kGathered},
      {"one of four is wrong", Of("x", ""), Of("x", ""), Of("x", ""),
       Of("", "x"), Use::kNotKnown, Use::kUnused},
      {"the first dimension of all", Of("x", ""), Of("x", ""), Of("x", ""),
       Of("x", ""), Use::kNotKnown, Use::kUnused},
      {"one projection alone", Of("x", ""), Of("", ""), Of("", ""), Of("", ""),
       Use::kNotKnown, Use::kUnused},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const auto facts =
        Groups().Model(row.q, row.o, row.up, row.down).On({"x", "y"});
    CHECK(facts[0].use == row.x);
    CHECK(facts[1].use == row.y);
    // The specs of parameters do not show which tokens a device has.
    CHECK(facts[0].tokens == AxisTokens::kNotKnown);
  }
}

TEST_CASE("norms that are sharded too show FSDP by stored dimensions") {
  Groups groups;
  groups.Model(Of("x", ""), Of("x", ""), Of("x", ""), Of("x", ""));
  groups.Add(Role::kNorm, {64}, Spec{{"x"}});
  CHECK(groups.On({"x"})[0].use == Use::kNotKnown);
  Groups all;
  all.Add(Role::kQuery, {64, 64}, Of("x", ""))
      .Add(Role::kOutput, {64, 64}, Of("x", ""))
      .Add(Role::kNorm, {64}, Spec{{"x"}});
  CHECK(all.On({"x"})[0].use == Use::kGathered);
}

TEST_CASE("an axis on the largest dimension of all matrices may be FSDP") {
  const auto use = [](const Spec& up) {
    return Groups()
        .Add(Role::kUp, {96, 64}, up)
        .Add(Role::kDown, {64, 96}, Of(up[1].empty() ? "" : "y", "x"))
        .On({"x", "y"})[0]
        .use;
  };
  CHECK(use(Of("x", "")) == Use::kNotKnown);
  CHECK(use(Of("x", "y")) == Use::kKept);
}

TEST_CASE("an axis next to one of FSDP by stored dimensions is not known") {
  Groups groups;
  groups.Model(Of("x", "y"), Of("x", "y"), Of("x", "y"), Of("x", "y"));
  Groups all;
  all.Add(Role::kUp, {96, 64}, Of("x", "y"))
      .Add(Role::kDown, {64, 96}, Of("x", "y"))
      .Add(Role::kNorm, {64}, Spec{{"y"}});
  for (const auto& facts : {groups.On({"x", "y"}), all.On({"x", "y"})}) {
    CHECK(facts[0].use == Use::kNotKnown);
  }
}

TEST_CASE("a head on the stream contradicts tensor parallelism") {
  Groups groups;
  groups.Model(Of("x", ""), Of("", "x"), Of("x", ""), Of("", "x"));
  groups.Add(Role::kHead, {512, 64}, Of("", "x"));
  CHECK(groups.On({"x"})[0].use == Use::kNotKnown);
}

TEST_CASE("weights that only generate may stay sharded over the stream") {
  Groups groups;
  groups.Model(Of("", "x"), Of("x", ""), Of("", "x"), Of("x", ""));
  CHECK(groups.On({"x"})[0].use == Use::kGathered);
  CHECK(groups.On({"x"}, {}, true)[0].use == Use::kNotKnown);
}

TEST_CASE("a name decides where the specs do not, and is denied by specs") {
  Groups open;
  open.Model(Of("model", ""), Of("model", ""), Of("", ""), Of("", ""));
  AxisFacts one = open.On({"model"})[0];
  CHECK(one.use == Use::kKept);
  CHECK(one.use_evidence == AxisEvidence::kName);
  CHECK(one.tokens == AxisTokens::kSame);

  Groups kept;
  kept.Model(Of("fsdp", ""), Of("", "fsdp"), Of("fsdp", ""), Of("", "fsdp"));
  one = kept.On({"fsdp"})[0];
  CHECK(one.use == Use::kNotKnown);
  REQUIRE(one.denial.has_value());
  CHECK(one.denial->specs == Use::kKept);
  CHECK(one.denial->name == Use::kGathered);
  CHECK(one.tokens == AxisTokens::kNotKnown);
  CHECK(one.out_rule == 0);
  CHECK(one.in_rule == 1);
}

TEST_CASE("a statement decides before the specs") {
  Groups kept;
  kept.Model(Of("x", ""), Of("", "x"), Of("x", ""), Of("", "x"));
  AxisRules rules;
  rules.Set(AxisRule::kFullyShardedDataParallel, {false, {"x"}});
  AxisFacts one = kept.On({"x"}, rules)[0];
  CHECK(one.use == Use::kGathered);
  CHECK(one.use_evidence == AxisEvidence::kStated);
  CHECK(one.tokens == AxisTokens::kBatch);
  AxisRules batch;
  batch.Set(AxisRule::kBatch, {false, {"y"}});
  CHECK(kept.On({"x"}, batch)[0].tokens == AxisTokens::kSame);
  CHECK(kept.On({"x"}, batch)[0].use == Use::kKept);
}

TEST_CASE("axes that are known by name complete the axis rules") {
  Groups groups;
  groups.Model(Of("model", "data"), Of("data", "model"), Of("model", "data"),
               Of("data", "model"));
  const auto facts = groups.On({"replica", "data", "model", "z"});
  const AxisRules rules = CompletedAxes({}, facts);
  CHECK(rules.Value(AxisRule::kBatch).axes ==
        AxisGroup{"fsdp", "data", "dp", "replica"});
  CHECK(rules.Value(AxisRule::kHead).axes == AxisGroup{"tp", "model"});
  AxisRules stated;
  stated.Set(AxisRule::kTensorParallel, {false, {"z"}});
  CHECK(CompletedAxes(stated, facts).Value(AxisRule::kHead).axes ==
        AxisGroup{"z"});
}

TEST_CASE("figures take the purpose of an axis only where tokens are known") {
  Groups groups;
  groups.Model(Of("x", "y"), Of("y", "x"), Of("x", "y"), Of("y", "x"));
  CHECK(CompletedAxes({}, groups.On({"y", "x"})) == AxisRules());
  // With the batch stated, specs show the rest.
  AxisRules stated;
  stated.Set(AxisRule::kBatch, {false, {"y"}});
  const auto facts = groups.On({"y", "x"}, stated);
  CHECK(CompletedAxes(stated, facts).Value(AxisRule::kHead).axes ==
        AxisGroup{"tp", "x"});
  const auto notes = NotesOfCompleted(stated, facts);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0] ==
        "`x` is taken as an axis of tensor parallelism by the specs of "
        "projections: write `axes: {tensor_parallel: [x]}` in the rules to "
        "state it");
  // An axis in no spec shards no heads, whatever its name is.
  const auto unused = groups.On({"y", "x", "model"}, stated);
  CHECK(CompletedAxes(stated, unused).Value(AxisRule::kHead).axes ==
        AxisGroup{"tp", "x"});
  CHECK(!unused[2].in_specs);
}

TEST_CASE("the tokens of an axis of experts do not follow from its name") {
  Groups groups;
  groups.Model({}, {}, {}, {});
  const auto facts = groups.On({"expert"});
  CHECK(facts[0].use == Use::kExperts);
  CHECK(facts[0].tokens == AxisTokens::kNotKnown);
  CHECK(CompletedAxes({}, facts) == AxisRules());
}

TEST_CASE("the published names are found in any case, once each") {
  for (const AxisName& name : PublishedAxisNames()) {
    CHECK(FindAxisName(name.name) == &name);
  }
  REQUIRE(FindAxisName("FSDP") != nullptr);
  CHECK(FindAxisName("FSDP")->rule == AxisRule::kFullyShardedDataParallel);
  CHECK(FindAxisName("x") == nullptr);
  CHECK(!FindAxisName("pp")->rule);
}

}  // namespace
}  // namespace shardc
