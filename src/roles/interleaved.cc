// The names and families of matrices whose parts are interleaved. Fused
// matrices of all other names and families store one part after the other.
#include "roles/interleaved.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace shardc {
namespace {

// Tensors of these names are interleaved by head: `linear_qkv` in
// Megatron-Core, and the others in Qwen3-Next. The names count only for models
// without a description.
constexpr std::array<std::string_view, 3> kByHead = {
    "linear_qkv", "in_proj_qkvz", "in_proj_ba"};
// It is interleaved by head in BLOOM, GPT-NeoX and Falcon, and not in ChatGLM.
// Without a family it may be either.
constexpr std::array<std::string_view, 1> kByFamily = {"query_key_value"};
constexpr std::string_view kContiguousFamily = "chatglm";
// Families without a description that interleave by head the parts of tensors
// whose names do not show it.
struct InterleavedName {
  std::string_view family;
  std::array<std::string_view, 1> part;
};
constexpr std::array<InterleavedName, 4> kInterleavedNames = {{
    {"internlm2", {"wqkv"}},
    {"minimax_m1", {"qkv_proj"}},
    {"minimax_text_01", {"qkv_proj"}},
    {"plamo2", {"in_proj"}},
}};

}  // namespace

bool InterleavesParts(std::string_view family, Role role, std::string_view name,
                      char separator) {
  if (role == Role::kFusedGateUp) return false;
  return std::any_of(kInterleavedNames.begin(), kInterleavedNames.end(),
                     [&](const InterleavedName& one) {
                       return one.family == family &&
                              HasPart(name, separator, one.part);
                     }) ||
         HasPart(name, separator, kByHead) ||
         (!family.empty() && family != kContiguousFamily &&
          HasPart(name, separator, kByFamily));
}

bool MayInterleaveParts(std::string_view name, char separator) {
  return HasPart(name, separator, kByFamily) ||
         std::any_of(kInterleavedNames.begin(), kInterleavedNames.end(),
                     [&](const InterleavedName& one) {
                       return HasPart(name, separator, one.part);
                     });
}

}  // namespace shardc
