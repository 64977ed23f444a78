// The number of edits between two words.
#ifndef SHARDC_SOURCE_EDIT_DISTANCE_H_
#define SHARDC_SOURCE_EDIT_DISTANCE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardc {

// Returns the optimal string alignment distance: the least number of
// insertions, deletions, replacements and swaps of neighbouring bytes that turn
// one word into the other, if no byte is edited twice. The time is proportional
// to the product of the lengths.
size_t EditDistance(std::string_view a, std::string_view b);

// Returns the edit distance of two parts of names. If a part has more than 64
// bytes, returns the length of the longer part instead, because the distance
// takes quadratic time.
int64_t PartEdits(std::string_view a, std::string_view b);

}  // namespace shardc

#endif  // SHARDC_SOURCE_EDIT_DISTANCE_H_
