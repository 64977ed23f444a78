// The number of edits between two words.
#ifndef SHARDC_SOURCE_EDIT_DISTANCE_H_
#define SHARDC_SOURCE_EDIT_DISTANCE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardc {

// Returns the optimal string alignment distance: insertions, deletions,
// replacements and swaps of neighbours that turn one word into the other. Takes
// time quadratic in the lengths.
size_t EditDistance(std::string_view a, std::string_view b);

// The same for parts of names: of parts with more than 64 bytes, the length of
// the longer one.
int64_t PartEdits(std::string_view a, std::string_view b);

}  // namespace shardc

#endif  // SHARDC_SOURCE_EDIT_DISTANCE_H_
