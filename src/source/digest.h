// Digests of bytes, by libcrypto.
#ifndef SHARDC_SOURCE_DIGEST_H_
#define SHARDC_SOURCE_DIGEST_H_

#include <optional>
#include <string>
#include <string_view>

namespace shardc {

// Lower-case hex digits of a digest by its usual name ("sha256", "md5",
// "sha3_256", "blake2b"); nothing for an unknown name.
std::optional<std::string> HexDigest(std::string_view algorithm,
                                     std::string_view bytes);

}  // namespace shardc

#endif  // SHARDC_SOURCE_DIGEST_H_
