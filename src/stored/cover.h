// Checks that pieces of an array are disjoint and together the full array.
#ifndef SHARDC_STORED_COVER_H_
#define SHARDC_STORED_COVER_H_

#include <optional>
#include <string>
#include <vector>

#include "model/manifest.h"
#include "stored/box.h"

namespace shardc::stored {

// Returns nullopt if every element of the array is in exactly one box, else the
// reason as part of a sentence ("the pieces hold 90 of 100 elements"). Boxes
// must have the array's rank and at least one element. Takes time in
// proportion to n log n for n boxes, times 2 to the number of divided
// dimensions.
std::optional<std::string> WhyNotCovered(const Shape& shape,
                                         const std::vector<Box>& boxes);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_COVER_H_
