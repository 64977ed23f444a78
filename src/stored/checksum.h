// CRC-32C (Castagnoli), the checksum of the pieces in `shards.json`. It is fast
// enough to be computed for every byte that is copied, and the checksums of two
// texts give that of their concatenation.
#ifndef SHARDC_STORED_CHECKSUM_H_
#define SHARDC_STORED_CHECKSUM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardc {

inline constexpr size_t kCrc32cBytes = 4;

// The checksum of `bytes` after a text with the checksum `before` (0: no text).
uint32_t Crc32c(std::string_view bytes, uint32_t before = 0);

// The checksum of two texts in sequence; the second has `second_size` bytes.
uint32_t CombineCrc32c(uint32_t first, uint32_t second, uint64_t second_size);

// "crc32c:0123abcd"
std::string ChecksumText(uint32_t crc);
std::optional<uint32_t> ParseChecksum(std::string_view text);

// The table loop, the same on every machine; tests compare the fast one with
// it.
uint32_t Crc32cByTable(std::string_view bytes, uint32_t before = 0);

}  // namespace shardc

#endif  // SHARDC_STORED_CHECKSUM_H_
