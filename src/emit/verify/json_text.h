// JSON members for texts that may be absent.
#ifndef SHARDC_EMIT_VERIFY_JSON_TEXT_H_
#define SHARDC_EMIT_VERIFY_JSON_TEXT_H_

#include <string_view>

#include "source/json_writer.h"

namespace shardc {

// Writes a member with the text, or null if the text is empty.
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
