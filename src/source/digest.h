// Computes digests of bytes, such as SHA-256.
#ifndef SHARDC_SOURCE_DIGEST_H_
#define SHARDC_SOURCE_DIGEST_H_

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "source/sink.h"

namespace shardc {

// Returns the digest of `bytes` in lower-case hex digits. `algorithm` is one of
// md5, sha1, sha224, sha256, sha384, sha512, sha3_224, sha3_256, sha3_384,
// sha3_512, blake2b and blake2s. Case, dashes and underscores are ignored, so
// that `SHA-256` is sha256. Returns nullopt for any other name.
std::optional<std::string> HexDigest(std::string_view algorithm,
                                     std::string_view bytes);

// Returns the lower-case hex digits of bytes.
std::string HexOf(std::span<const unsigned char> bytes);

// Returns the SHA-256 digest of `bytes` in lower-case hex digits.
std::string Sha256(std::string_view bytes);

// Computes the SHA-256 digest of everything written to the sink.
class Sha256Sink final : public Sink {
 public:
  Sha256Sink();
  ~Sha256Sink() override;
  // Returns the digest of all bytes written, in lower-case hex digits. Call it
  // once, after the last write.
  std::string Hex();

 private:
  struct State;
  void Drain(std::string_view bytes) override;

  std::unique_ptr<State> state_;
  std::array<char, size_t{1} << 14> buffer_;
};

}  // namespace shardc

#endif  // SHARDC_SOURCE_DIGEST_H_
