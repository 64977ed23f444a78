// Converts signed sizes to indices of standard containers.
#ifndef SHARDC_SOURCE_INDEX_H_
#define SHARDC_SOURCE_INDEX_H_

#include <cstddef>
#include <cstdint>

namespace shardc {

// Returns `i` as an index or a size of a standard container. Dimensions, axes
// and offsets are int64_t throughout the program, so that differences may be
// negative; the caller ensures that `i` is not.
constexpr size_t AsIndex(int64_t i) { return static_cast<size_t>(i); }

}  // namespace shardc

#endif  // SHARDC_SOURCE_INDEX_H_
