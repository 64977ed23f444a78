// An integer of a quantised matrix may hold several weights, along the inputs
// (compressed-tensors, AWQ) or the outputs. A matrix that reads the hidden
// state shows how many, and all matrices of its type have as many:
//
//   up_proj.weight_packed I32 [2048, 896], hidden size 7168  ->  8 weights
#include "cost/packing.h"

#include <map>
#include <optional>

#include "roles/quantisation.h"

namespace shardc::cost {
namespace {

bool IsPackable(const ParamClass& param) {
  return param.IsWeight() && !param.role.packed_blocks && param.type.dtype &&
         MayPack(*param.type.dtype);
}

// Returns how many weights of 8, 4 or 2 bits a number of the matrix holds;
// nullopt if its sizes do not show it.
std::optional<int64_t> PackingOf(const ParamClass& param, int64_t hidden) {
  const int64_t sizes[] = {param.SizeAt(param.in_dim),
                           param.SizeAt(param.out_dim)};
  for (const int64_t size : sizes) {
    if (size == hidden) return 1;
  }
  const int64_t stored = DtypeBits(*param.type.dtype);
  for (const int64_t size : sizes) {
    for (const int64_t bits : {8, 4, 2}) {
      const int64_t held = stored / bits;
      if (held > 1 && Times(size, held) == hidden) return held;
    }
  }
  return std::nullopt;
}

}  // namespace

int64_t ParamClass::Inputs() const {
  // A byte of a block has two inputs.
  return role.packed_blocks ? Times(SizeAt(in_dim), type.shape->back(), 2)
                            : Times(SizeAt(in_dim), packing);
}

void FindPacking(CostInputs& work, std::optional<int64_t> hidden) {
  if (!hidden) return;
  std::map<Dtype, int64_t> known;
  for (const ParamClass& param : work.params) {
    if (!IsPackable(param) || !TakesWidth(param.role.module_role)) continue;
    const auto packing = PackingOf(param, *hidden);
    if (packing) known.try_emplace(*param.type.dtype, *packing);
  }
  for (ParamClass& param : work.params) {
    if (!IsPackable(param)) continue;
    const auto found = known.find(*param.type.dtype);
    if (found != known.end()) param.packing = found->second;
  }
}

}  // namespace shardc::cost
