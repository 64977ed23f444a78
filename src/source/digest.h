// Digests of bytes, by libcrypto.
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

// Lower-case hex digits of a digest by its usual name ("sha256", "md5",
// "sha3_256", "blake2b"); nothing for an unknown name.
std::optional<std::string> HexDigest(std::string_view algorithm,
                                     std::string_view bytes);

// Lower-case hex digits of bytes.
std::string HexOf(std::span<const unsigned char> bytes);

// By SHA-256.
std::string Sha256(std::string_view bytes);

// The same of what comes in pieces.
class Sha256Sink final : public Sink {
 public:
  Sha256Sink();
  ~Sha256Sink() override;
  // Lower-case hex digits of all that came; once.
  std::string Hex();

 private:
  struct State;
  void Drain(std::string_view bytes) override;

  std::unique_ptr<State> state_;
  std::array<char, size_t{1} << 14> buffer_;
};

}  // namespace shardc

#endif  // SHARDC_SOURCE_DIGEST_H_
