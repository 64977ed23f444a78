// CRC-32C (Castagnoli), the checksum of the pieces in `shards.json`. It is fast
// enough to be computed for every byte that is copied. The checksum of a text
// that is joined from two parts can be computed from both parts' checksums and
// the length of the second part.
#ifndef SHARDC_STORED_CHECKSUM_H_
#define SHARDC_STORED_CHECKSUM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardc {

inline constexpr size_t kCrc32cBytes = 4;

// Returns the checksum of a text that ends in `bytes`. `before` is the checksum
// of the part before `bytes`; it is 0 if there is no such part.
uint32_t Crc32c(std::string_view bytes, uint32_t before = 0);

// Returns the checksum of a text that is joined from two parts. `second_size`
// is the number of bytes of the second part.
uint32_t CombineCrc32c(uint32_t first, uint32_t second, uint64_t second_size);

// ChecksumText returns for example "crc32c:0123abcd". ParseChecksum returns the
// checksum that such a text states. The digits may be in upper or lower case.
// Returns nullopt for any other text.
std::string ChecksumText(uint32_t crc);
std::optional<uint32_t> ParseChecksum(std::string_view text);

// Returns the same checksum as Crc32c, computed by a table on every machine.
// Tests compare Crc32c with it.
uint32_t Crc32cByTable(std::string_view bytes, uint32_t before = 0);

}  // namespace shardc

#endif  // SHARDC_STORED_CHECKSUM_H_
