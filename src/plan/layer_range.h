// A range of a model's layers, and its text for messages.
#ifndef SHARDC_PLAN_LAYER_RANGE_H_
#define SHARDC_PLAN_LAYER_RANGE_H_

#include <cstdint>
#include <string>

namespace shardc {

// The limit on the number of layers of a model with stages. A larger number in
// a name is probably not a layer's number.
inline constexpr int64_t kMostStageLayers = 100'000;

// The layers from `first` up to, but not including, `end`.
struct LayerRange {
  int64_t first = 0, end = 0;
  int64_t count() const { return end - first; }
  bool operator==(const LayerRange&) const = default;
};

// Converts the range [begin, end) of units to a range of layers. The units of a
// model are the embeddings, each of its `layers` layers, and the head
// (plan/stage_units.h). The embeddings and the head are not part of the result.
LayerRange LayersIn(int64_t begin, int64_t end, int64_t layers);

// Returns for example "layer 5", "layers 0-7" or "no layers".
std::string LayersText(const LayerRange& range);

}  // namespace shardc

#endif  // SHARDC_PLAN_LAYER_RANGE_H_
