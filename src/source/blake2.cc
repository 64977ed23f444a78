// Computes BLAKE2 digests (RFC 7693). A state of 8 words is mixed with blocks
// of 16 words. BLAKE2b has words of 64 bits and 12 rounds, BLAKE2s words of 32
// bits and 10 rounds; the rotations and the initial values differ too. The last
// block is filled with zeros (it is all zeros for an empty input) and mixed
// with a flag.
#include "source/blake2.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>

#include "source/digest.h"
#include "source/little_endian.h"

namespace shardc {
namespace {

// The order in which round `r` mixes in the words of a block. Rounds 10 and 11
// of BLAKE2b use the orders of rounds 0 and 1.
constexpr std::array<std::array<uint8_t, 16>, 10> kOrders = {{
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
}};

struct Wide {
  using Word = uint64_t;
  static constexpr size_t kRounds = 12;
  static constexpr std::array<int, 4> kRotations = {32, 24, 16, 63};
  // The first 64 bits of the fractional parts of the square roots of the first
  // 8 primes.
  static constexpr std::array<Word, 8> kInitial = {
      0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
      0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f,
      0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
};

struct Narrow {
  using Word = uint32_t;
  static constexpr size_t kRounds = 10;
  static constexpr std::array<int, 4> kRotations = {16, 12, 8, 7};
  static constexpr std::array<Word, 8> kInitial = {
      0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
};

// Mixes a block into the state. `count` is the number of bytes of input up to
// the end of the block.
template <class Kind>
void DigestBlock(std::array<typename Kind::Word, 8>& state,
                 std::string_view block, uint64_t count, bool last) {
  using Word = typename Kind::Word;
  std::array<Word, 16> m{}, v{};
  for (size_t i = 0; i < m.size(); ++i) {
    m[i] = static_cast<Word>(
        LittleEndian(block.substr(i * sizeof(Word), sizeof(Word))));
  }
  std::copy(state.begin(), state.end(), v.begin());
  std::copy(Kind::kInitial.begin(), Kind::kInitial.end(), v.begin() + 8);
  v[12] ^= static_cast<Word>(count);
  if constexpr (sizeof(Word) == 4) v[13] ^= static_cast<Word>(count >> 32);
  if (last) v[14] = ~v[14];
  for (size_t round = 0; round < Kind::kRounds; ++round) {
    const auto& order = kOrders[round % kOrders.size()];
    // Mix the four columns of the 4 x 4 state, then its four diagonals.
    for (size_t i = 0; i < 8; ++i) {
      const size_t turn = i / 4;
      Word& a = v[i % 4];
      Word& b = v[4 + (i + turn) % 4];
      Word& c = v[8 + (i + 2 * turn) % 4];
      Word& d = v[12 + (i + 3 * turn) % 4];
      for (size_t half = 0; half < 2; ++half) {
        a += b + m[order[2 * i + half]];
        d = std::rotr(d ^ a, Kind::kRotations[2 * half]);
        c += d;
        b = std::rotr(b ^ c, Kind::kRotations[2 * half + 1]);
      }
    }
  }
  for (size_t i = 0; i < state.size(); ++i) state[i] ^= v[i] ^ v[i + 8];
}

template <class Kind>
std::string Digest(std::string_view bytes) {
  using Word = typename Kind::Word;
  constexpr size_t kBlock = 16 * sizeof(Word);
  std::array<Word, 8> state = Kind::kInitial;
  // Mix in the parameters: no key, sequential mode, and the digest's length.
  state[0] ^= Word{0x01010000} ^ Word { 8 * sizeof(Word) };
  uint64_t count = 0;
  while (bytes.size() > kBlock) {
    count += kBlock;
    DigestBlock<Kind>(state, bytes.substr(0, kBlock), count, false);
    bytes.remove_prefix(kBlock);
  }
  std::string rest(bytes);
  rest.resize(kBlock, '\0');
  DigestBlock<Kind>(state, rest, count + bytes.size(), true);
  std::array<unsigned char, 8 * sizeof(Word)> raw{};
  for (size_t i = 0; i < raw.size(); ++i) {
    raw[i] = static_cast<unsigned char>(state[i / sizeof(Word)] >>
                                        (8 * (i % sizeof(Word))));
  }
  return HexOf(raw);
}

}  // namespace

std::string Blake2b(std::string_view bytes) { return Digest<Wide>(bytes); }
std::string Blake2s(std::string_view bytes) { return Digest<Narrow>(bytes); }

}  // namespace shardc
