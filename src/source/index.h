// Converts signed sizes to indices of standard containers.
#ifndef SHARDC_SOURCE_INDEX_H_
#define SHARDC_SOURCE_INDEX_H_

#include <cstddef>
#include <cstdint>

namespace shardc {

// Returns `i`, which must not be negative, as an index or a size of a standard
// container. Sizes of dimensions and numbers of axes are int64_t, so that
// differences may be negative.
constexpr size_t AsIndex(int64_t i) { return static_cast<size_t>(i); }

}  // namespace shardc

#endif  // SHARDC_SOURCE_INDEX_H_
