// Arithmetic on polynomials modulo the polynomial of CRC-32C. The bits of a
// number are the coefficients in reversed order: bit 31 is the coefficient of
// x^0.
#ifndef SHARDC_STORED_CHECKSUM_POLYNOMIAL_H_
#define SHARDC_STORED_CHECKSUM_POLYNOMIAL_H_

#include <cstdint>

namespace shardc {

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

}  // namespace shardc

#endif  // SHARDC_STORED_CHECKSUM_POLYNOMIAL_H_
