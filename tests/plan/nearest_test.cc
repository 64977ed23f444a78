#include "plan/nearest.h"

#include <doctest/doctest.h>

namespace shardc {
namespace {

TEST_CASE("the nearest rule shares the most words, the last ones most") {
  std::vector<Rule> rules(4);
  rules[0].match = "block_sparse_moe/experts/(w1|w3)/kernel";
  rules[1].match = "self_attn/q_proj/kernel";
  rules[2].match = "experts/\\d+/gate_proj/bias";
  rules[3].match = ".*";
  struct Case {
    std::string_view name;
    std::optional<size_t> rule;
  };
  const Case cases[] = {
      {"model/layers/0/mlp/experts/w1/kernel", 0},
      {"model/layers/0/attn/q_proj/kernel", 1},
      {"model/layers/0/mlp/experts/3/gate_proj/bias", 2},
      {"visual/patch/position", std::nullopt},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    CHECK(NearestRule(rules, c.name) == c.rule);
  }
}

}  // namespace
}  // namespace shardc
