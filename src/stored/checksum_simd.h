// Computes CRC-32C of long texts by carry-less multiplication of vectors.
#ifndef SHARDC_STORED_CHECKSUM_SIMD_H_
#define SHARDC_STORED_CHECKSUM_SIMD_H_

#include <cstddef>
#include <cstdint>

namespace shardc {

inline constexpr size_t kMaxFoldedBytes = 1024;

// Replaces bytes at the start of a text by a shorter text with the same
// checksum (folding). Writes the shorter text to `folded` and sets `*kept` to
// its length. A CRC computation that starts in state 0 and reads `folded` ends
// in the same state as one that starts in `state` and reads the replaced bytes.
// Returns the number of bytes that were replaced. Returns 0 if shardc does not
// fold on this processor, or if the text is short.
size_t FoldCrc32c(const char* bytes, size_t count, uint32_t state, char* folded,
                  size_t* kept);

}  // namespace shardc

#endif  // SHARDC_STORED_CHECKSUM_SIMD_H_
