// Sizes and data types of quantised weights.
#ifndef SHARDC_ROLES_QUANTISATION_H_
#define SHARDC_ROLES_QUANTISATION_H_

#include <cstdint>

#include "model/dtype.h"

namespace shardc {

// Whether one number of this type may hold several weights, so that the sizes
// of its tensor are not those of the weight.
bool MayPack(Dtype dtype);

// The number of elements along a dimension of `size` that share one scale, if
// there are `scales` of them: the smallest power of two that makes this many
// blocks, otherwise the quotient if it is exact. 1 if each element has its own
// scale, or if the scales do not divide the dimension.
int64_t BlockOf(int64_t size, int64_t scales);

}  // namespace shardc

#endif  // SHARDC_ROLES_QUANTISATION_H_
