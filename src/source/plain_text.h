// Text of which nothing need be escaped or refused: most names.
#ifndef SHARDC_SOURCE_PLAIN_TEXT_H_
#define SHARDC_SOURCE_PLAIN_TEXT_H_

#include <cstddef>
#include <string_view>

namespace shardc {

// Where the printable ASCII characters from `at` on end that are neither `"`
// nor `\`.
size_t EndOfPlain(std::string_view text, size_t at = 0);

}  // namespace shardc

#endif  // SHARDC_SOURCE_PLAIN_TEXT_H_
