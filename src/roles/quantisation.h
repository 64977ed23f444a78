// Sizes and dtypes of quantised weights.
#ifndef SHARDC_ROLES_QUANTISATION_H_
#define SHARDC_ROLES_QUANTISATION_H_

#include <cstdint>

#include "model/dtype.h"

namespace shardc {

// Returns whether one number of this type may hold several weights, so that the
// stored tensor has fewer elements than the weight.
bool MayPack(Dtype dtype);

// Returns how many elements of a dimension share a scale, if `size` elements
// have `scales` scales: 128 for 4096 elements and 32 scales. The result is the
// smallest power of two that gives as many blocks as scales. If there is none,
// it is size / scales if the division is exact. Returns 1 if neither exists, if
// there is no scale, or if each element has a scale.
int64_t BlockOf(int64_t size, int64_t scales);

}  // namespace shardc

#endif  // SHARDC_ROLES_QUANTISATION_H_
