// Digests of the BLAKE2 family (RFC 7693), without a key.
#ifndef SHARDC_SOURCE_BLAKE2_H_
#define SHARDC_SOURCE_BLAKE2_H_

#include <string>
#include <string_view>

namespace shardc {

// Return the digest of `bytes` in lower-case hex digits. A BLAKE2b digest has
// 64 bytes (128 digits), a BLAKE2s digest 32 bytes.
std::string Blake2b(std::string_view bytes);
std::string Blake2s(std::string_view bytes);

}  // namespace shardc

#endif  // SHARDC_SOURCE_BLAKE2_H_
