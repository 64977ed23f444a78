// Digests of the SHA-3 family (FIPS 202).
#ifndef SHARDC_SOURCE_SHA3_H_
#define SHARDC_SOURCE_SHA3_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace shardc {

// Returns the SHA-3 digest of `bytes` in lower-case hex digits. The digest has
// `length` bytes: 28, 32, 48 or 64.
std::string Sha3(std::string_view bytes, size_t length);

}  // namespace shardc

#endif  // SHARDC_SOURCE_SHA3_H_
