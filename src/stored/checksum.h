// CRC-32C (Castagnoli), the checksum that `shards.json` contains for each
// stored part of a tensor. It is fast enough to be computed for every byte that
// is copied. The checksum of two joined texts can be computed from the
// checksums of both texts and the length of the second text.
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
// of the text before `bytes`, or 0 if `bytes` is the complete text.
uint32_t Crc32c(std::string_view bytes, uint32_t before = 0);

// Returns the checksum of two joined texts. `first` and `second` are the
// checksums of the texts, and `second_size` is the length of the second text in
// bytes.
uint32_t CombineCrc32c(uint32_t first, uint32_t second, uint64_t second_size);

// ChecksumText returns a text such as "crc32c:0123abcd". ParseChecksum returns
// the checksum in such a text, whose digits may be in upper or lower case. It
// returns nullopt for any other text.
std::string ChecksumText(uint32_t crc);
std::optional<uint32_t> ParseChecksum(std::string_view text);

// Returns the same checksum as Crc32c, but always computes it by table
// look-ups. Tests compare Crc32c with this function.
uint32_t Crc32cByTable(std::string_view bytes, uint32_t before = 0);

}  // namespace shardc

#endif  // SHARDC_STORED_CHECKSUM_H_
