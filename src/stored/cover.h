// Checks that the pieces of an array are disjoint and together cover the array.
#ifndef SHARDC_STORED_COVER_H_
#define SHARDC_STORED_COVER_H_

#include <optional>
#include <string>
#include <vector>

#include "model/manifest.h"
#include "stored/box.h"

namespace shardc::stored {

// Returns nullopt if every element of the array is in exactly one box.
// Otherwise returns the reason as part of a sentence, in which the boxes are
// called pieces ("the pieces hold 90 of 100 elements"). Also returns a reason
// if there are too many boxes or dimensions to compare. Boxes must have the
// array's rank and at least one element. For n boxes the time is proportional
// to n log n times 2 to the power of d, where d is the number of dimensions
// that some box does not cover in full.
std::optional<std::string> WhyNotCovered(const Shape& shape,
                                         const std::vector<Box>& boxes);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_COVER_H_
