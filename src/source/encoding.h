// Recognises texts that are not UTF-8 but another encoding of Unicode, as some
// editors and shells write them.
#ifndef SHARDC_SOURCE_ENCODING_H_
#define SHARDC_SOURCE_ENCODING_H_

#include <string_view>

namespace shardc {

// Returns whether a text begins as UTF-16 or UTF-32 does: with a byte order
// mark, or with ASCII characters between zero bytes.
bool LooksLikeUtf16(std::string_view text);
inline constexpr std::string_view kUtf16Message =
    "this is UTF-16 or UTF-32 text, not UTF-8";
inline constexpr std::string_view kUtf8Help = "save the file as UTF-8";

}  // namespace shardc

#endif  // SHARDC_SOURCE_ENCODING_H_
