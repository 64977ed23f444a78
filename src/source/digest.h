// Digests of bytes, by libcrypto.
#ifndef SHARDC_SOURCE_DIGEST_H_
#define SHARDC_SOURCE_DIGEST_H_

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "source/sink.h"

namespace shardc {

// Lower-case hex digits of a digest by its usual name ("sha256", "md5",
// "sha3_256", "blake2b"); nothing for an unknown name.
std::optional<std::string> HexDigest(std::string_view algorithm,
                                     std::string_view bytes);

// The SHA-256 of what is written to it.
class Sha256Sink final : public Sink {
 public:
  Sha256Sink();
  ~Sha256Sink() override;
  // Lower-case hex digits of all that came; once. Empty where libcrypto has
  // failed.
  std::string Hex();

 private:
  struct State;
  void Drain(std::string_view bytes) override;

  std::unique_ptr<State> state_;
  std::array<char, size_t{1} << 14> buffer_;
};

}  // namespace shardc

#endif  // SHARDC_SOURCE_DIGEST_H_
