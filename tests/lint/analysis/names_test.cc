#include "lint/analysis/roles.h"

#include <utility>

#include "doctest/doctest.h"
#include "lint/analysis/dots.h"
#include "lint/analysis/groups.h"

namespace shardc {
namespace {

TEST_CASE("dots of paths are escaped, others are not") {
  const std::pair<const char*, const char*> cases[] = {
      {"mlp.up.weight", R"(mlp\.up\.weight)"},
      {R"(mlp\.up.weight$)", R"(mlp\.up\.weight$)"},
      {R"(layers.\d+.up)", R"(layers\.\d+\.up)"},
      {"(q|k).weight", R"((q|k)\.weight)"},
      {"a.(b|c)", R"(a\.(b|c))"},
  };
  for (const auto& one : cases) {
    const char* pattern = one.first;
    const char* want = one.second;
    CAPTURE(pattern);
    CHECK(EscapeDots(pattern) == std::string(want));
  }
  for (const char* pattern :
       {".*", "a.*b", "a.+", "[a.b]", R"(a\.b)", ".a", "a.", "a.?b", ""}) {
    CAPTURE(pattern);
    CHECK_FALSE(EscapeDots(pattern));
  }
}

struct RoleCase {
  const char* name;
  char separator;
  Role role;
  int out;  // of rank 2
};

TEST_CASE("roles are read from names") {
  const RoleCase cases[] = {
      {"model/layers/*/self_attn/q_proj/kernel", '/', Role::kQuery, 1},
      {"model.layers.*.self_attn.q_proj.weight", '.', Role::kQuery, 0},
      {"h/*/attention/dense/kernel", '/', Role::kOutput, 1},
      {"h/*/mlp/dense_h_to_4h/kernel", '/', Role::kUp, 1},
      {"encoder/block/*/layer/*/SelfAttention/o/kernel", '/', Role::kOutput, 1},
      {"h.*.attn.c_attn.weight", '.', Role::kFusedQkv, 1},
      {"h.*.attn.c_proj.weight", '.', Role::kOutput, 1},
      {"h.*.mlp.c_proj.weight", '.', Role::kDown, 1},
      {"layers/*/mlp/experts/*/w1/kernel", '/', Role::kGate, 1},
      {"layers/*/mlp/gate/kernel", '/', Role::kRouter, 1},
      {"layers/*/self_attn/q_norm/kernel", '/', Role::kNorm, 1},
      {"embed_tokens/embedding", '/', Role::kEmbedding, -1},
      {"lm_head.weight", '.', Role::kHead, 0},
      {"score/kernel", '/', Role::kOther, 1},
  };
  for (const RoleCase& one : cases) {
    CAPTURE(one.name);
    const GroupRole role = RoleOf(one.name, one.separator);
    CHECK(role.role == one.role);
    CHECK(OutDim(role, 2) == one.out);
  }
  const GroupRole up = RoleOf("mlp/up_proj/kernel", '/');
  CHECK(up.siblings == "mlp/?/kernel");
  CHECK(up.module == "mlp/up_proj");
  CHECK(RoleOf("mlp/up_proj/bias", '/').module == up.module);
  CHECK(RoleOf("mlp/experts/up_proj/kernel", '/').expert);
}

TEST_CASE("quantisation blocks are read from the shapes") {
  CHECK(BlockOf(576, 5) == 128);  // 4.5 blocks
  CHECK(BlockOf(7168, 56) == 128);
  CHECK(BlockOf(4096, 32) == 128);
  CHECK(BlockOf(4096, 4096) == 1);
  CHECK(BlockOf(4096, 1) == 4096);
  CHECK(BlockOf(300, 3) == 128);
  CHECK(BlockOf(10, 0) == 1);
}

}  // namespace
}  // namespace shardc
