// A text in JSON that may be absent.
#ifndef SHARDC_EMIT_VERIFY_JSON_TEXT_H_
#define SHARDC_EMIT_VERIFY_JSON_TEXT_H_

#include <string_view>

#include "source/json_writer.h"

namespace shardc {

// A member: the text, or null where it is empty.
inline void WriteTextOrNull(JsonWriter& json, std::string_view key,
                            std::string_view text) {
  json.Key(key);
  if (text.empty()) {
    json.Null();
  } else {
    json.String(text);
  }
}

}  // namespace shardc

#endif  // SHARDC_EMIT_VERIFY_JSON_TEXT_H_
