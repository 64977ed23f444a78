// Returns the last part of a name or a path, such as the part after the last
// dot.
#ifndef SHARDC_SOURCE_AFTER_LAST_H_
#define SHARDC_SOURCE_AFTER_LAST_H_

#include <string_view>

namespace shardc {

// Returns the part of `text` after the last `c`, or all of `text` if it has no
// `c`.
inline std::string_view AfterLast(std::string_view text, char c) {
  const size_t at = text.rfind(c);
  return at == std::string_view::npos ? text : text.substr(at + 1);
}

}  // namespace shardc

#endif  // SHARDC_SOURCE_AFTER_LAST_H_
