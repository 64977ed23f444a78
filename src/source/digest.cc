// Maps the digest names of Python's hashlib to OpenSSL's and computes the
// digest:
//
//   sha3_256 -> SHA3-256     `abc` by sha256 -> ba7816bf8f01cfea...
#include "source/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <array>
#include <memory>

namespace shardc {
namespace {

// Python's hashlib writes an underscore where OpenSSL writes a dash or a size.
std::string OpensslName(std::string_view algorithm) {
  if (algorithm == "blake2b") return "BLAKE2b512";
  if (algorithm == "blake2s") return "BLAKE2s256";
  std::string name(algorithm);
  for (char& c : name) {
    if (c == '_') c = '-';
  }
  return name;
}

}  // namespace

std::optional<std::string> HexDigest(std::string_view algorithm,
                                     std::string_view bytes) {
  // A configuration file could load libraries into the program.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  std::unique_ptr<EVP_MD, decltype(&EVP_MD_free)> digest(
      EVP_MD_fetch(nullptr, OpensslName(algorithm).c_str(), nullptr),
      &EVP_MD_free);
  if (digest == nullptr) return std::nullopt;
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
  unsigned int length = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), raw.data(), &length, digest.get(),
                 nullptr) != 1) {
    return std::nullopt;
  }
  return HexOf({raw.data(), length});
}

}  // namespace shardc
