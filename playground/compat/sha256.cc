// SHA-256 as FIPS 180-4 defines it (sections 4.1.2, 5.1.1 and 6.2.2). A message
// is padded with a one bit, zeros and its length in bits to blocks of 64 bytes;
// each block changes eight 32-bit words, which are the digest:
//
//   `abc` -> ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad
#include <openssl/sha.h>

#include <algorithm>
#include <bit>

namespace {

constexpr size_t kBlock = 64;
constexpr size_t kLength = 8;  // bytes of the length that ends a message

// The first 32 bits of the fractions of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kRoots = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// The same of the square roots of the first 8 primes.
constexpr std::array<uint32_t, 8> kStart = {0x6a09e667, 0xbb67ae85, 0x3c6ef372,
                                            0xa54ff53a, 0x510e527f, 0x9b05688c,
                                            0x1f83d9ab, 0x5be0cd19};

uint32_t BigEndian(const unsigned char* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 |
         uint32_t{at[3]};
}

void AddBlock(const unsigned char* block, std::array<uint32_t, 8>& state) {
  std::array<uint32_t, 64> w{};
  for (size_t i = 0; i < 16; ++i) w[i] = BigEndian(block + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t s0 =
        std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 =
        std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRoots[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::array<uint32_t, 8> added = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state[i] += added[i];
}

}  // namespace

int SHA256_Init(SHA256_CTX* context) {
  context->state = kStart;
  context->bytes = 0;
  return 1;
}

int SHA256_Update(SHA256_CTX* context, const void* data, size_t bytes) {
  const auto* from = static_cast<const unsigned char*>(data);
  while (bytes > 0) {
    const size_t used = context->bytes % kBlock;
    const size_t count = std::min(kBlock - used, bytes);
    std::copy_n(from, count, context->block.begin() + used);
    context->bytes += count;
    from += count;
    bytes -= count;
    if (used + count == kBlock) {
      AddBlock(context->block.data(), context->state);
    }
  }
  return 1;
}

int SHA256_Final(unsigned char* digest, SHA256_CTX* context) {
  const uint64_t bits = context->bytes * 8;
  const unsigned char one = 0x80;
  const unsigned char zero = 0;
  SHA256_Update(context, &one, 1);
  while (context->bytes % kBlock != kBlock - kLength) {
    SHA256_Update(context, &zero, 1);
  }
  for (size_t i = 0; i < kLength; ++i) {
    const auto byte = static_cast<unsigned char>(bits >> (56 - 8 * i));
    SHA256_Update(context, &byte, 1);
  }
  for (size_t i = 0; i < SHA256_DIGEST_LENGTH; ++i) {
    digest[i] =
        static_cast<unsigned char>(context->state[i / 4] >> (24 - 8 * (i % 4)));
  }
  return 1;
}
