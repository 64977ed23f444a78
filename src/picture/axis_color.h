// Chooses the colour of each mesh axis. All pictures of a mesh use these
// colours.
#ifndef SHARDC_PICTURE_AXIS_COLOR_H_
#define SHARDC_PICTURE_AXIS_COLOR_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/mesh.h"

namespace shardc::picture {

// The number of colours.
inline constexpr uint8_t kAxisColors = 8;

// Returns the colour of each axis of the mesh. dp, fsdp, tp, ep and sp always
// have the colours 0 to 4. The other axes get the remaining colours in the
// order of the mesh. If there are too few colours, all further axes have the
// last one.
inline std::vector<uint8_t> AxisColorsOf(const Mesh& mesh) {
  constexpr std::array<std::string_view, 5> kKnown = {"dp", "fsdp", "tp", "ep",
                                                      "sp"};
  std::vector<uint8_t> out(mesh.axes.size(), kAxisColors);
  std::array<bool, kAxisColors> taken = {};
  for (size_t i = 0; i < out.size(); ++i) {
    for (uint8_t k = 0; k < kKnown.size(); ++k) {
      if (mesh.axes[i].name != kKnown[k]) continue;
      out[i] = k;
      taken[k] = true;
    }
  }
  for (uint8_t& color : out) {
    if (color < kAxisColors) continue;
    // Colours from 5 on belong to no known axis, and are used first. Then the
    // colours of known axes that this mesh lacks are used.
    uint8_t free = kKnown.size();
    while (free < kAxisColors && taken[free]) ++free;
    if (free == kAxisColors) {
      free = 0;
      while (free + 1 < kAxisColors && taken[free]) ++free;
    }
    taken[free] = true;
    color = free;
  }
  return out;
}

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_AXIS_COLOR_H_
