#include "cost/inputs.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "cost/models.h"

namespace shardc::cost {
namespace {

CostInputs WorkOf(std::vector<ParamClass> params, int64_t experts = 0) {
  CostInputs out;
  out.params = std::move(params);
  out.model.emplace();
  out.model->layers = 2;
  if (experts > 0) out.model->experts = experts;
  return out;
}

ParamClass Matrix(const std::string& name, Shape shape, int64_t count = 2) {
  return ClassOf(name, std::move(shape), Dtype::kBF16, {}, count);
}

TEST_CASE("a gate of the shape of the up projection next to it is no router") {
  const struct {
    std::string gate;
    Shape shape;
    Role role;
  } kCases[] = {
      {"layers.*.mlp.gate.weight", {96, 64}, Role::kGate},
      {"layers.*.mlp.gate.weight", {8, 64}, Role::kRouter},
      {"layers.*.moe.gate.weight", {96, 64}, Role::kRouter},
      {"layers.*.mlp.router.weight", {8, 64}, Role::kRouter},
  };
  for (const auto& [name, shape, role] : kCases) {
    const std::string gate = name;
    CAPTURE(gate);
    CostInputs work =
        WorkOf({Matrix(name, shape), Matrix("layers.*.mlp.up.weight", {96, 64}),
                Matrix("layers.*.mlp.down.weight", {64, 96})});
    FindGates(work);
    CHECK(work.params[0].role.module_role == role);
    CHECK(work.params[0].role.role == role);
  }
}

TEST_CASE("numbered blocks are experts if there are as many as experts") {
  const ParamClass router = Matrix("l.*.moe.router.weight", {4, 64});
  const auto work_of = [&](int64_t blocks, int64_t experts, bool attends) {
    CostInputs work = WorkOf(
        {router, Matrix("l.*.moe.ffns.*.up_proj.weight", {96, 64}, blocks),
         Matrix("l.*.moe.ffns.*.down_proj.weight", {64, 96}, blocks)},
        experts);
    if (attends) {
      work.params.push_back(
          Matrix("l.*.moe.ffns.*.q_proj.weight", {64, 64}, blocks));
    }
    FindExperts(work);
    return work;
  };
  for (const int64_t stated : {0, 4}) {
    const CostInputs work = work_of(8, stated, false);
    CHECK_FALSE(work.params[0].role.expert);
    CHECK(work.params[1].role.expert);
    CHECK(work.params[1].role.counted_expert);
    CHECK(work.params[2].role.expert);
    CHECK_FALSE(UnfoundExperts(work));
  }
  // Six blocks are not four experts for each of two routers, and a block with
  // attention is a layer. What the blocks are is then not known.
  for (const bool attends : {false, true}) {
    const CostInputs work = work_of(attends ? 8 : 6, 4, attends);
    CHECK_FALSE(work.params[1].role.expert);
    const auto fact = UnfoundExperts(work);
    REQUIRE(fact);
    CHECK(fact->params ==
          std::vector<std::string>{"l.*.moe.ffns.*.down_proj.weight"});
    CHECK_FALSE(fact->settled_by.empty());
  }
}

TEST_CASE("one feed-forward block in each layer is no missing expert") {
  const CostInputs work =
      WorkOf({Matrix("l.*.mlp.down_proj.weight", {64, 96})}, 4);
  CHECK_FALSE(UnfoundExperts(work));
}

}  // namespace
}  // namespace shardc::cost
