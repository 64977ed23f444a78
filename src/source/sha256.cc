// Computes SHA-256 digests with the functions SHA256_* of OpenSSL's libcrypto.
// They are used although OpenSSL 3 marks them as deprecated. The recommended
// functions (EVP) take about a millisecond to set up OpenSSL's providers, and
// they link all other algorithms into a static program.
#define OPENSSL_SUPPRESS_DEPRECATED

#include "source/digest.h"

#include <openssl/sha.h>

#include <span>

namespace shardc {

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
