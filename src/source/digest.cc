// OpenSSL's digests by the names that Python's hashlib gives them, and one
// that is fed as a sink, so that a file is hashed while it is written:
//
//   sha3_256 -> SHA3-256     `abc` by sha256 -> ba7816bf8f01cfea...
#include "source/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

namespace shardc {
namespace {

// Python's hashlib spells some names with an underscore where OpenSSL has a
// dash or a size.
std::string OpensslName(std::string_view algorithm) {
  if (algorithm == "blake2b") return "BLAKE2b512";
  if (algorithm == "blake2s") return "BLAKE2s256";
  std::string name(algorithm);
  for (char& c : name) {
    if (c == '_') c = '-';
  }
  return name;
}

std::string HexOf(const unsigned char* bytes, unsigned int length) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(size_t{length} * 2);
  for (unsigned int i = 0; i < length; ++i) {
    hex += kDigits[bytes[i] >> 4];
    hex += kDigits[bytes[i] & 15];
  }
  return hex;
}

void* Reallocate(void* old, size_t bytes, const char* /*file*/, int /*line*/) {
  void* memory = std::realloc(old, bytes);
  const std::new_handler handler = std::get_new_handler();
  if (memory == nullptr && bytes > 0 && handler != nullptr) handler();
  return memory;
}

void* Allocate(size_t bytes, const char* /*file*/, int /*line*/) {
  return Reallocate(nullptr, bytes, nullptr, 0);
}

void Free(void* memory, const char* /*file*/, int /*line*/) {
  std::free(memory);
}

}  // namespace

void TellMemoryHandler() {
  CRYPTO_set_mem_functions(Allocate, Reallocate, Free);
}

std::optional<std::string> HexDigest(std::string_view algorithm,
                                     std::string_view bytes) {
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
  return HexOf(raw.data(), length);
}

std::string Sha256(std::string_view bytes) {
  auto hex = HexDigest("sha256", bytes);
  if (!hex) throw std::bad_alloc();
  return std::move(*hex);
}

struct Sha256Sink::State {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{
      EVP_MD_CTX_new(), &EVP_MD_CTX_free};
  bool good = true;
};

Sha256Sink::Sha256Sink() : Sink(buffer_), state_(std::make_unique<State>()) {
  state_->good =
      state_->context != nullptr &&
      EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) == 1;
}

Sha256Sink::~Sha256Sink() = default;

void Sha256Sink::Drain(std::string_view bytes) {
  state_->good =
      state_->good &&
      EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1;
}

std::string Sha256Sink::Hex() {
  Flush();
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
  unsigned int length = 0;
  if (!state_->good ||
      EVP_DigestFinal_ex(state_->context.get(), raw.data(), &length) != 1) {
    throw std::bad_alloc();
  }
  return HexOf(raw.data(), length);
}

}  // namespace shardc
