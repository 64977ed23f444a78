// Finds whether a dtype may pack several quantised weights in one stored
// number, and how many elements of a weight share one scale, by shapes.
#ifndef SHARDC_ROLES_QUANTISATION_H_
#define SHARDC_ROLES_QUANTISATION_H_

#include <cstdint>

#include "model/dtype.h"

namespace shardc {

// Returns whether one number of this type may hold several weights. The stored
// tensor then has fewer elements than the weight.
bool MayPack(Dtype dtype);

// Returns whether weights of this type have scales: packed weights, and those
// of at most 8 bits.
bool IsQuantised(Dtype dtype);

// Returns how many elements of a dimension share a scale, if `size` elements
// have `scales` scales: 128 for 4096 elements and 32 scales. The result is the
// smallest power of two that divides the elements into as many blocks as there
// are scales. If no power of two does, the result is size / scales, provided
// that the division is exact. Otherwise it is 1. It is also 1 if there is no
// scale, or if each element has its own.
int64_t BlockOf(int64_t size, int64_t scales);

}  // namespace shardc

#endif  // SHARDC_ROLES_QUANTISATION_H_
