// Finds how many weights are packed into one stored number of a quantised
// matrix. An integer may hold several weights along the input dimension
// (compressed-tensors, GPTQ) or along the output dimension (AWQ). The number of
// weights follows from a matrix whose unpacked sizes are known, because it
// reads the hidden state. It is the same for all matrices of that dtype. For
// example:
//
//   up_proj.weight_packed I32 [2048, 896], hidden size 7168
//     ->  8 weights, because 8 * 896 = 7168
//   gate_proj.qweight I32 [4096, 1792], hidden size 4096, 14336 outputs by the
//   configuration
//     ->  8 weights, because 8 * 1792 = 14336
#include "cost/packing.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "roles/quantisation.h"

namespace shardc::cost {
namespace {

bool IsPackable(const ParamClass& param) {
  return param.IsWeight() && !param.role.packed_blocks && param.type.dtype &&
         MayPack(*param.type.dtype);
}

// Returns the possible numbers of outputs of a projection of a role, computed
// from the configuration.
std::vector<int64_t> OutputsOf(const CostInputs& work, Role role) {
  std::vector<int64_t> out;
  if (!work.model) return out;
  const ModelConfig& model = *work.model;
  if (role == Role::kQuery && model.heads && model.head_dim) {
    out.push_back(Times(*model.heads, *model.head_dim));
  }
  const bool reads = role == Role::kKey || role == Role::kValue;
  if (reads && model.kv_heads && model.head_dim) {
    out.push_back(Times(*model.kv_heads, *model.head_dim));
  }
  const bool fused = role == Role::kFusedGateUp;
  if (fused || role == Role::kGate || role == Role::kUp) {
    for (const auto& width : {model.intermediate, model.moe_intermediate}) {
      if (width) out.push_back(Times(*width, int64_t{fused ? 2 : 1}));
    }
  }
  return out;
}

// Returns how many weights of 8, 4 or 2 bits each stored number of the matrix
// holds, or 1 if the matrix is not packed. Returns nullopt if the sizes of the
// matrix do not determine this.
std::optional<int64_t> PackingOf(const ParamClass& param, int64_t hidden,
                                 const std::vector<int64_t>& outputs) {
  const int64_t stored = DtypeBits(*param.type.dtype);
  const int64_t in = param.SizeAt(param.in_dim);
  const int64_t out = param.SizeAt(param.out_dim);
  const auto gives = [&](int64_t size) {
    return std::find(outputs.begin(), outputs.end(), size) != outputs.end();
  };
  // `in_dim` was chosen as the dimension of the hidden size. But a packed input
  // dimension is smaller than the hidden size, so `in_dim` may be the output
  // dimension. So both orders are tried.
  const std::pair<int64_t, int64_t> orders[] = {{in, out}, {out, in}};
  std::optional<int64_t> certain, likely;
  bool one_certain = true, one_likely = in != hidden && out != hidden;
  const auto set = [](int64_t held, std::optional<int64_t>& to, bool& one) {
    one = one && (!to || *to == held);
    to = held;
  };
  for (const int64_t bits : {stored, int64_t{8}, int64_t{4}, int64_t{2}}) {
    const int64_t held = stored / bits;
    for (const auto& [read, given] : orders) {
      const bool reads = Times(read, held) == hidden;
      if ((reads && gives(given)) ||
          (read == hidden && gives(Times(given, held)))) {
        set(held, certain, one_certain);
      }
      if (reads) set(held, likely, one_likely);
    }
  }
  if (certain) return one_certain ? certain : std::nullopt;
  return one_likely ? likely : std::nullopt;
}

}  // namespace

int64_t ParamClass::Inputs() const {
  // A byte of a block holds two weights of 4 bits, and so two inputs.
  return role.packed_blocks ? Times(SizeAt(in_dim), type.shape->back(), 2)
                            : Times(SizeAt(in_dim), packing);
}

void FindPacking(CostInputs& work, std::optional<int64_t> hidden) {
  if (!hidden) return;
  std::map<Dtype, int64_t> known;
  for (const ParamClass& param : work.params) {
    const Role role = param.role.module_role;
    if (!IsPackable(param) || !TakesWidth(role)) continue;
    const auto packing = PackingOf(param, *hidden, OutputsOf(work, role));
    if (packing) known.try_emplace(*param.type.dtype, *packing);
  }
  for (ParamClass& param : work.params) {
    if (!IsPackable(param)) continue;
    const auto found = known.find(*param.type.dtype);
    if (found != known.end()) param.packing = found->second;
  }
}

}  // namespace shardc::cost
