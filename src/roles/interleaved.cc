// The names and families of matrices whose parts are interleaved. Fused
// matrices of all other names and families store one part after the other.
#include "roles/interleaved.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace shardc {
namespace {

// Tensors of these names are interleaved by head: `query_key_value` in BLOOM,
// GPT-NeoX and Falcon (in ChatGLM it is not), `linear_qkv` in Megatron-Core,
// and the others in Qwen3-Next.
constexpr std::array<std::string_view, 4> kByHead = {
    "query_key_value", "linear_qkv", "in_proj_qkvz", "in_proj_ba"};
constexpr std::array<std::string_view, 2> kContiguousFamilies = {"chatglm",
                                                                 "glm"};
// Families that interleave the parts of tensors whose names do not show it:
// MiniMax, InternLM2 and PLaMo 2 by head, and CodeGen in four blocks, each of
// which has queries, values and keys.
struct InterleavedName {
  std::string_view family;
  std::array<std::string_view, 1> part;
};
constexpr std::array<InterleavedName, 6> kInterleavedNames = {{
    {"codegen", {"qkv_proj"}},
    {"internlm2", {"wqkv"}},
    {"minimax", {"qkv_proj"}},
    {"minimax_m1", {"qkv_proj"}},
    {"minimax_text_01", {"qkv_proj"}},
    {"plamo2", {"in_proj"}},
}};
// The model family in which the columns of gate and up alternate.
constexpr std::string_view kInterleavedGates = "gpt_oss";

}  // namespace

bool InterleavesParts(std::string_view family, Role role, std::string_view name,
                      char separator) {
  if (role == Role::kFusedGateUp) return family == kInterleavedGates;
  return std::any_of(kInterleavedNames.begin(), kInterleavedNames.end(),
                     [&](const InterleavedName& one) {
                       return one.family == family &&
                              HasPart(name, separator, one.part);
                     }) ||
         (HasPart(name, separator, kByHead) &&
          std::find(kContiguousFamilies.begin(), kContiguousFamilies.end(),
                    family) == kContiguousFamilies.end());
}

bool MayInterleaveParts(std::string_view name, char separator) {
  return std::any_of(kInterleavedNames.begin(), kInterleavedNames.end(),
                     [&](const InterleavedName& one) {
                       return HasPart(name, separator, one.part);
                     });
}

}  // namespace shardc
