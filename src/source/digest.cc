// Computes the digests that Python's hashlib offers on every platform, except
// for the SHAKE functions:
//
//   `abc` by sha256 -> ba7816bf8f01cfea...
//
// MD5, SHA-1 and SHA-2 are computed by the functions that OpenSSL has for each
// algorithm and marks as deprecated. OpenSSL's newer functions find an
// algorithm by its name, and would therefore link all algorithms into the
// program: their tables would be two thirds of the data that the loader
// relocates at each start. OpenSSL has no separate functions for SHA-3 and
// BLAKE2, which are in sha3.cc and blake2.cc.
#define OPENSSL_SUPPRESS_DEPRECATED

#include "source/digest.h"

#include <openssl/md5.h>
#include <openssl/sha.h>

#include <array>

#include "source/blake2.h"
#include "source/sha3.h"

namespace shardc {
namespace {

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

}  // namespace shardc
