// CRC-32C of long texts by carry-less products of whole vectors.
#ifndef SHARDC_CHECKPOINT_CHECKSUM_SIMD_H_
#define SHARDC_CHECKPOINT_CHECKSUM_SIMD_H_

#include <cstddef>
#include <cstdint>

namespace shardc {

inline constexpr size_t kMaxFoldedBytes = 1024;

// Takes bytes from the front and gives a shorter text, of `*kept` bytes in
// `folded`, whose checksum from state 0 is that of those bytes from `state`.
// The number of bytes taken; 0 where vectors have no such products or the
// text is short.
size_t FoldCrc32c(const char* bytes, size_t count, uint32_t state, char* folded,
                  size_t* kept);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_CHECKSUM_SIMD_H_
