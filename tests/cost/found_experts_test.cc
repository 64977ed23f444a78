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

TEST_CASE("blocks of which nothing shows that they are experts are named") {
  const auto work_of = [&](bool expert) {
    CostInputs work =
        WorkOf({Matrix("l.*.moe.router.weight", {4, 64}),
                Matrix("l.*.moe.ffns.*.down_proj.weight", {64, 96}, 6)},
               4);
    work.params[1].role.expert = expert;
    return work;
  };
  CHECK_FALSE(UnfoundExperts(work_of(true)));
  const auto fact = UnfoundExperts(work_of(false));
  REQUIRE(fact);
  CHECK(fact->params ==
        std::vector<std::string>{"l.*.moe.ffns.*.down_proj.weight"});
  CHECK_FALSE(fact->settled_by.empty());
}

TEST_CASE("one feed-forward block in each layer is no missing expert") {
  const CostInputs work =
      WorkOf({Matrix("l.*.mlp.down_proj.weight", {64, 96})}, 4);
  CHECK_FALSE(UnfoundExperts(work));
}

}  // namespace
}  // namespace shardc::cost
