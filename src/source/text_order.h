// Sorts many texts by their bytes, and detects duplicates.
#ifndef SHARDC_SOURCE_TEXT_ORDER_H_
#define SHARDC_SOURCE_TEXT_ORDER_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace shardc {

struct TextOrder {
  std::vector<uint32_t>
      order;  // indices of the texts in sorted order, equal ones in input order
  bool distinct = true;
};

// Time is linear in the bytes needed to distinguish the texts, for every choice
// of texts.
TextOrder OrderOf(std::span<const std::string_view> texts);
// Returns whether no text occurs twice. Faster than OrderOf.
bool AreDistinct(std::span<const std::string_view> texts);

}  // namespace shardc

#endif  // SHARDC_SOURCE_TEXT_ORDER_H_
