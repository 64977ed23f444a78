// Defines rectangular parts of tensors.
#ifndef SHARDC_STORED_BOX_H_
#define SHARDC_STORED_BOX_H_

#include <compare>
#include <cstdint>

#include "model/manifest.h"

namespace shardc {

// A rectangular part of a tensor. `offset` and `shape` have an entry for each
// dimension. A box without dimensions (rank 0) is one element.
struct Box {
  Shape offset;
  Shape shape;
  bool operator==(const Box&) const = default;
  auto operator<=>(const Box&) const = default;

  int64_t Elements() const;
};

Box FullBox(const Shape& shape);

}  // namespace shardc

#endif  // SHARDC_STORED_BOX_H_
