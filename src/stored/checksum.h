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

// Arithmetic on polynomials modulo the polynomial of CRC-32C. The bits of a
// number are the coefficients in reversed order: bit 31 is the coefficient of
// x^0.

inline constexpr uint32_t kCrc32cPolynomial = 0x82F63B78u;  // bit-reversed

constexpr uint32_t CrcMultiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = uint32_t{1} << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b & 1) != 0 ? b >> 1 ^ kCrc32cPolynomial : b >> 1;
  }
  return product;
}

// Returns x^(8 * bytes) modulo the polynomial.
constexpr uint32_t CrcPowerOfBytes(uint64_t bytes) {
  uint32_t square = uint32_t{1} << 23;  // x^8
  uint32_t power = uint32_t{1} << 31;
  for (; bytes != 0; bytes >>= 1) {
    if ((bytes & 1) != 0) power = CrcMultiply(square, power);
    square = CrcMultiply(square, square);
  }
  return power;
}

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

#endif  // SHARDC_STORED_CHECKSUM_H_
