// CRC-32C (Castagnoli), the checksum of the pieces in `shards.json`: fast
// enough to be taken of every byte while it is copied, and that of two halves
// gives that of the whole.
#ifndef SHARDC_CHECKPOINT_CHECKSUM_H_
#define SHARDC_CHECKPOINT_CHECKSUM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardc {

// Of `bytes` after a text whose checksum is `before` (0: none).
uint32_t Crc32c(std::string_view bytes, uint32_t before = 0);

// Of two texts, the second of `second_size` bytes, one after the other.
uint32_t CombineCrc32c(uint32_t first, uint32_t second, uint64_t second_size);

// "crc32c:0123abcd"
std::string ChecksumText(uint32_t crc);
std::optional<uint32_t> ParseChecksum(std::string_view text);

// The plain table loop, whatever the machine: the oracle of the fast one.
uint32_t Crc32cByTable(std::string_view bytes, uint32_t before = 0);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_CHECKSUM_H_
