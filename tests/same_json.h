// Compares two parsed JSON values, with their places in the text.
#ifndef SHARDC_TESTS_SAME_JSON_H_
#define SHARDC_TESTS_SAME_JSON_H_

#include <bit>

#include "source/json.h"

namespace shardc {

inline bool SameJson(const JsonValue& a, const JsonValue& b) {
  const Place here = a.place();
  const Place there = b.place();
  if (a.kind() != b.kind() || a.size() != b.size() ||
      here.begin != there.begin || here.end != there.end ||
      a.string() != b.string() || a.boolean() != b.boolean() ||
      a.integer() != b.integer() || a.unsigned_() != b.unsigned_() ||
      std::bit_cast<uint64_t>(a.real()) != std::bit_cast<uint64_t>(b.real())) {
    return false;
  }
  auto other = b.items().begin();
  for (const JsonValue item : a.items()) {
    if (!SameJson(item, *other)) return false;
    ++other;
  }
  return !(other != b.items().end());
}

}  // namespace shardc

#endif  // SHARDC_TESTS_SAME_JSON_H_
