#include "cost/unknown_roles.h"

#include <doctest/doctest.h>

#include <string>

#include "cost/models.h"

namespace shardc::cost {
namespace {

Role RoleOf(const std::string& name) {
  ParamClass param = ClassOf(name, {96, 64}, Dtype::kBF16, {});
  UseUnusualWord(param, '.');
  return param.role.module_role;
}

TEST_CASE("words of single families have a role") {
  CHECK(RoleOf("llm.layers.mlp.linear") == Role::kDown);
  CHECK(RoleOf("transformer.layer_0.mlp.linear.w") == Role::kDown);
  CHECK(RoleOf("l.mixer.linear.w") == Role::kOther);
  CHECK(RoleOf("l.self_attn.W_pack.weight") == Role::kFusedQkv);
  CHECK(RoleOf("linear") == Role::kOther);
  CHECK(RoleOf("w") == Role::kOther);
}

}  // namespace
}  // namespace shardc::cost
