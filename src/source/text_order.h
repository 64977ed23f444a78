// Many texts in the order of their bytes, and whether any stands twice.
#ifndef SHARDC_SOURCE_TEXT_ORDER_H_
#define SHARDC_SOURCE_TEXT_ORDER_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace shardc {

struct TextOrder {
  std::vector<uint32_t> order;  // numbers of the texts; those alike in turn
  bool distinct = true;
};

// Costs what the bytes cost that the texts need to be told apart, whoever
// chooses them.
TextOrder OrderOf(std::span<const std::string_view> texts);
// Whether none stands twice, where the order is not wanted.
bool AreDistinct(std::span<const std::string_view> texts);

}  // namespace shardc

#endif  // SHARDC_SOURCE_TEXT_ORDER_H_
