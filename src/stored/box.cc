#include "stored/box.h"

namespace shardc {

int64_t Box::Elements() const {
  int64_t out = 1;
  for (const int64_t size : shape) out *= size;
  return out;
}

Box FullBox(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }

}  // namespace shardc
