// Plain text is printable ASCII that needs no escapes in JSON. Most parameter
// names are plain.
#ifndef SHARDC_SOURCE_PLAIN_TEXT_H_
#define SHARDC_SOURCE_PLAIN_TEXT_H_

#include <cstddef>
#include <string_view>

namespace shardc {

// Returns the end of the plain characters from `at` on: printable ASCII other
// than `"` and `\`.
size_t EndOfPlain(std::string_view text, size_t at = 0);

}  // namespace shardc

#endif  // SHARDC_SOURCE_PLAIN_TEXT_H_
