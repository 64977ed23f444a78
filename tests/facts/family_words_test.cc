#include "facts/family_words.h"

#include <doctest/doctest.h>

#include <string_view>

namespace shardc::facts {
namespace {

Role RoleOf(std::string_view name, int rank = 2) {
  ParameterRole role = Classify(name, '.', Confidence::kLikely, rank);
  UseFamilyWord(name, '.', rank, role);
  return role.module_role;
}

TEST_CASE("words of single families have a role") {
  CHECK(RoleOf("llm.layers.mlp.linear") == Role::kDown);
  CHECK(RoleOf("transformer.layer_0.mlp.linear.w") == Role::kDown);
  CHECK(RoleOf("l.mixer.linear.w") == Role::kOther);
  CHECK(RoleOf("l.self_attn.W_pack.weight") == Role::kFusedQkv);
  CHECK(RoleOf("l.self_attn.W_pack.weight", -1) == Role::kOther);
  CHECK(RoleOf("linear") == Role::kOther);
  CHECK(RoleOf("w") == Role::kOther);
  CHECK(RoleOf("output.weight") == Role::kHead);
  CHECK(RoleOf("l.*.mlp.output.weight") == Role::kDown);
}

}  // namespace
}  // namespace shardc::facts
