#include "roles/quantisation.h"

#include <algorithm>
#include <array>

namespace shardc {

bool MayPack(Dtype dtype) {
  constexpr std::array<Dtype, 7> kPacking = {
      Dtype::kU8,  Dtype::kI16, Dtype::kU16, Dtype::kI32,
      Dtype::kU32, Dtype::kI64, Dtype::kU64};
  return std::find(kPacking.begin(), kPacking.end(), dtype) != kPacking.end();
}

bool IsQuantised(Dtype dtype) {
  return MayPack(dtype) || (dtype != Dtype::kBool && DtypeBits(dtype) <= 8);
}

int64_t BlockOf(int64_t size, int64_t scales) {
  if (scales <= 0 || scales >= size) return 1;
  for (int64_t block = 2; block <= size; block *= 2) {
    if ((size + block - 1) / block == scales) return block;
    if (block > size / 2) break;
  }
  // No power of two fits. The block may be another size, such as 100 elements,
  // or all elements may share one scale.
  return size % scales == 0 ? size / scales : 1;
}

}  // namespace shardc
