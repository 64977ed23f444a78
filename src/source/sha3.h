// Digests of the SHA-3 family (FIPS 202).
#ifndef SHARDC_SOURCE_SHA3_H_
#define SHARDC_SOURCE_SHA3_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace shardc {

// Returns the SHA-3 digest of `bytes` with `length` bytes, one of 28, 32, 48
// and 64, in lower-case hex digits.
std::string Sha3(std::string_view bytes, size_t length);

}  // namespace shardc

#endif  // SHARDC_SOURCE_SHA3_H_
