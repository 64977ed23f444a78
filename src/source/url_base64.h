// Base64 with the characters `-` and `_`, padded: RFC 4648, section 5. Orbax
// encodes the names of arrays like this.
#ifndef SHARDC_SOURCE_URL_BASE64_H_
#define SHARDC_SOURCE_URL_BASE64_H_

#include <optional>
#include <string>
#include <string_view>

namespace shardc {

std::string EncodeUrlBase64(std::string_view bytes);
// Returns the decoded bytes; nullopt for a text that is not padded base64.
std::optional<std::string> DecodeUrlBase64(std::string_view text);

}  // namespace shardc

#endif  // SHARDC_SOURCE_URL_BASE64_H_
