// Computes SHA-3 digests (FIPS 202). The state has 5 x 5 words of 64 bits. The
// input is added (exclusive or) to the first bytes of the state, a block at a
// time. After each block the state is permuted by 24 rounds. The length of a
// block is the length of the state minus twice the length of the digest:
//
//   SHA3-256: 200 - 2 * 32 = 136 bytes a block
//
// The last block ends with a padding: the bits 01, which mark SHA-3, a 1, zeros
// and a 1. The digest is the first bytes of the final state.
#include "source/sha3.h"

#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "source/digest.h"

namespace shardc {
namespace {

constexpr int kRounds = 24;
// Word [x, y] is at x + 5 y; its bytes are in little-endian order.
using State = std::array<uint64_t, 25>;

// The numbers of bits by which the step rho rotates each word: triangular
// numbers along the walk (x, y) -> (y, 2x + 3y) from (1, 0).
constexpr std::array<int, 25> Rotations() {
  std::array<int, 25> out{};
  size_t x = 1, y = 0;
  for (int t = 0; t < 24; ++t) {
    out[x + 5 * y] = (t + 1) * (t + 2) / 2 % 64;
    const size_t next = (2 * x + 3 * y) % 5;
    x = y;
    y = next;
  }
  return out;
}

// The constants of the step iota: bit 2^j - 1 of round r is bit j + 7 r of a
// linear feedback shift register with the polynomial x^8 + x^6 + x^5 + x^4 + 1.
constexpr std::array<uint64_t, kRounds> Constants() {
  std::array<uint64_t, kRounds> out{};
  unsigned shifted = 1;
  for (uint64_t& constant : out) {
    for (int j = 0; j < 7; ++j) {
      if ((shifted & 1) != 0) constant |= uint64_t{1} << ((1 << j) - 1);
      shifted <<= 1;
      if ((shifted & 0x100) != 0) shifted ^= 0x171;
    }
  }
  return out;
}

void Permute(State& a) {
  static constexpr auto kRotations = Rotations();
  static constexpr auto kConstants = Constants();
  const auto at = [](size_t x, size_t y) { return x % 5 + 5 * (y % 5); };
  for (const uint64_t constant : kConstants) {
    std::array<uint64_t, 5> column{};  // step theta of a round of FIPS 202
    for (size_t i = 0; i < a.size(); ++i) column[i % 5] ^= a[i];
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] ^= column[(i + 4) % 5] ^ std::rotl(column[(i + 1) % 5], 1);
    }
    State b{};  // steps rho and pi of a round
    for (size_t y = 0; y < 5; ++y) {
      for (size_t x = 0; x < 5; ++x) {
        b[at(y, 2 * x + 3 * y)] = std::rotl(a[at(x, y)], kRotations[at(x, y)]);
      }
    }
    for (size_t y = 0; y < 5; ++y) {  // step chi of a round
      for (size_t x = 0; x < 5; ++x) {
        a[at(x, y)] = b[at(x, y)] ^ (~b[at(x + 1, y)] & b[at(x + 2, y)]);
      }
    }
    a[0] ^= constant;  // step iota of a round
  }
}

// Adds a byte to byte `i` of the state by exclusive or.
void AddByte(State& state, size_t i, unsigned char byte) {
  state[i / 8] ^= uint64_t{byte} << (8 * (i % 8));
}

}  // namespace

std::string Sha3(std::string_view bytes, size_t length) {
  const size_t block = 200 - 2 * length;
  State state{};
  size_t at = 0;
  for (const char c : bytes) {
    AddByte(state, at, static_cast<unsigned char>(c));
    if (++at < block) continue;
    Permute(state);
    at = 0;
  }
  AddByte(state, at, 0x06);
  AddByte(state, block - 1, 0x80);
  Permute(state);
  std::array<unsigned char, 64> raw{};
  for (size_t i = 0; i < length; ++i) {
    raw[i] = static_cast<unsigned char>(state[i / 8] >> (8 * (i % 8)));
  }
  return HexOf(std::span(raw).first(length));
}

}  // namespace shardc
