// Computes the digests that Python's hashlib offers on every platform, except
// for the SHAKE functions:
//
//   `abc` by sha256 -> ba7816bf8f01cfea...
//
// MD5, SHA-1 and SHA-2 are computed by the functions that OpenSSL has for each
// algorithm and marks as deprecated. OpenSSL's newer functions find an
// algorithm by its name, and would therefore link all algorithms into the
// program: their tables would be two thirds of the data that the loader
// relocates at each start, which would take half as long again. OpenSSL has no
// separate functions for SHA-3 and BLAKE2, so this file computes them.
#define OPENSSL_SUPPRESS_DEPRECATED

#include "source/digest.h"

#include <openssl/md5.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "source/input_file.h"

namespace shardc {
namespace {

// Computes BLAKE2 digests (RFC 7693). A state of 8 words is mixed with blocks
// of 16 words. BLAKE2b has words of 64 bits and 12 rounds, BLAKE2s words of 32
// bits and 10 rounds; the rotations and the initial values differ too. The last
// block is filled with zeros (it is all zeros for an empty input) and mixed
// with a flag.

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

// Return the digest of `bytes` in lower-case hex digits. A BLAKE2b digest has
// 64 bytes (128 digits), a BLAKE2s digest 32 bytes.
std::string Blake2b(std::string_view bytes) { return Digest<Wide>(bytes); }
std::string Blake2s(std::string_view bytes) { return Digest<Narrow>(bytes); }

// Computes SHA-3 digests (FIPS 202). The state has 5 x 5 words of 64 bits. The
// input is added (exclusive or) to the first bytes of the state, a block at a
// time. After each block the state is permuted by 24 rounds. The length of a
// block is the length of the state minus twice the length of the digest:
//
//   SHA3-256: 200 - 2 * 32 = 136 bytes a block
//
// The last block ends with a padding: the bits 01, which mark SHA-3, a 1, zeros
// and a 1. The digest is the first bytes of the final state.

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

// Returns the SHA-3 digest of `bytes` in lower-case hex digits. The digest has
// `length` bytes: 28, 32, 48 or 64.
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

// Computes a digest with three functions of OpenSSL: start, update and finish.
template <size_t kLength, class Context>
std::string DigestBy(int (*start)(Context*),
                     int (*update)(Context*, const void*, size_t),
                     int (*finish)(unsigned char*, Context*),
                     std::string_view bytes) {
  Context context;
  std::array<unsigned char, kLength> raw{};
  start(&context);
  update(&context, bytes.data(), bytes.size());
  finish(raw.data(), &context);
  return HexOf(raw);
}

struct Algorithm {
  std::string_view name;
  std::string (*digest)(std::string_view bytes);
};

constexpr auto kAlgorithms = std::to_array<Algorithm>({
    {"md5",
     [](std::string_view bytes) {
       return DigestBy<MD5_DIGEST_LENGTH>(MD5_Init, MD5_Update, MD5_Final,
                                          bytes);
     }},
    {"sha1",
     [](std::string_view bytes) {
       return DigestBy<SHA_DIGEST_LENGTH>(SHA1_Init, SHA1_Update, SHA1_Final,
                                          bytes);
     }},
    {"sha224",
     [](std::string_view bytes) {
       return DigestBy<SHA224_DIGEST_LENGTH>(SHA224_Init, SHA224_Update,
                                             SHA224_Final, bytes);
     }},
    {"sha256", Sha256},
    {"sha384",
     [](std::string_view bytes) {
       return DigestBy<SHA384_DIGEST_LENGTH>(SHA384_Init, SHA384_Update,
                                             SHA384_Final, bytes);
     }},
    {"sha512",
     [](std::string_view bytes) {
       return DigestBy<SHA512_DIGEST_LENGTH>(SHA512_Init, SHA512_Update,
                                             SHA512_Final, bytes);
     }},
    {"sha3_224", [](std::string_view bytes) { return Sha3(bytes, 28); }},
    {"sha3_256", [](std::string_view bytes) { return Sha3(bytes, 32); }},
    {"sha3_384", [](std::string_view bytes) { return Sha3(bytes, 48); }},
    {"sha3_512", [](std::string_view bytes) { return Sha3(bytes, 64); }},
    {"blake2b", Blake2b},
    {"blake2s", Blake2s},
});

// Returns the name in lower case, without dashes and underscores.
std::string Normal(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '-' || c == '_') continue;
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

}  // namespace

std::optional<std::string> HexDigest(std::string_view algorithm,
                                     std::string_view bytes) {
  for (const Algorithm& known : kAlgorithms) {
    if (Normal(known.name) == Normal(algorithm)) return known.digest(bytes);
  }
  return std::nullopt;
}

// Computes SHA-256 digests with the functions SHA256_* of OpenSSL's libcrypto.
// They are used although OpenSSL 3 marks them as deprecated. The recommended
// functions (EVP) take about a millisecond to set up OpenSSL's providers, and
// they link all other algorithms into a static program.

std::string HexOf(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const unsigned char byte : bytes) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

struct Sha256Sink::State {
  SHA256_CTX context;
};

Sha256Sink::Sha256Sink() : Sink(buffer_), state_(std::make_unique<State>()) {
  SHA256_Init(&state_->context);
}

Sha256Sink::~Sha256Sink() = default;

void Sha256Sink::Drain(std::string_view bytes) {
  SHA256_Update(&state_->context, bytes.data(), bytes.size());
}

std::string Sha256Sink::Hex() {
  Flush();
  std::array<unsigned char, SHA256_DIGEST_LENGTH> raw{};
  SHA256_Final(raw.data(), &state_->context);
  return HexOf(raw);
}

std::string Sha256(std::string_view bytes) {
  Sha256Sink digest;
  digest.Append(bytes);
  return digest.Hex();
}

}  // namespace shardc
