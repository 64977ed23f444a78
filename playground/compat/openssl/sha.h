// The three functions of OpenSSL that src/source/digest.cc calls, for a build
// without OpenSSL. tests/playground/commands_test.py compares plans of both.
#ifndef SHARDC_PLAYGROUND_OPENSSL_SHA_H_
#define SHARDC_PLAYGROUND_OPENSSL_SHA_H_

#include <array>
#include <cstddef>
#include <cstdint>

inline constexpr size_t SHA256_DIGEST_LENGTH = 32;

struct SHA256_CTX {
  std::array<uint32_t, 8> state;
  std::array<unsigned char, 64> block;  // the bytes of an incomplete block
  uint64_t bytes = 0;                   // written in all
};

int SHA256_Init(SHA256_CTX* context);
int SHA256_Update(SHA256_CTX* context, const void* data, size_t bytes);
// `digest` holds SHA256_DIGEST_LENGTH bytes.
int SHA256_Final(unsigned char* digest, SHA256_CTX* context);

#endif  // SHARDC_PLAYGROUND_OPENSSL_SHA_H_
