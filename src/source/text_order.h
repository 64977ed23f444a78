// Sorts many texts by their bytes, and detects duplicates.
#ifndef SHARDC_SOURCE_TEXT_ORDER_H_
#define SHARDC_SOURCE_TEXT_ORDER_H_

#include <cstdint>
#include <vector>

#include "source/texts.h"

namespace shardc {

struct TextOrder {
  // The indices of the texts in sorted order, equal texts in input order.
  std::vector<uint32_t> order;
  bool distinct = true;
};

// Returns the sorted order. The time is about linear in the number of bytes
// that distinguish the texts, even for texts chosen to make sorting slow.
TextOrder OrderOf(Texts texts);
// Returns whether no text occurs twice. Usually faster than OrderOf.
bool AreDistinct(Texts texts);

}  // namespace shardc

#endif  // SHARDC_SOURCE_TEXT_ORDER_H_
