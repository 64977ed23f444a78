// Converts a range of units to a range of layers, and writes the range for
// messages. Units are the parts of a model that stages divide: unit 0 is the
// embedding, unit 1 + l is layer l, and the last unit is the head. For example,
// in a model of 32 layers:
//
//   units 0 to 8 (before 9)  ->  layers 0-7
#include "plan/layer_range.h"

#include <algorithm>

namespace shardc {

LayerRange LayersIn(int64_t begin, int64_t end, int64_t layers) {
  const int64_t first = std::max<int64_t>(begin, 1) - 1;
  return {first, std::max(std::min(end - 1, layers), first)};
}

std::string LayersText(const LayerRange& range) {
  if (range.count() <= 0) return "no layers";
  if (range.count() == 1) return "layer " + std::to_string(range.first);
  return "layers " + std::to_string(range.first) + "-" +
         std::to_string(range.end - 1);
}

}  // namespace shardc
