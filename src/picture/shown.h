// Chooses which elements of a long row are drawn: its beginning, a gap, and its
// last element.
#ifndef SHARDC_PICTURE_SHOWN_H_
#define SHARDC_PICTURE_SHOWN_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shardc::picture {

// The index that represents the gap.
inline constexpr int64_t kGap = -1;
inline constexpr int64_t kMostPieces = 16;

// Returns the indices to draw of a row of `count` elements. If there are at
// most `most` elements, returns all. Otherwise returns the first 7 indices (or
// `most` - 2 of them, if that is less), then kGap, and then the last index.
// `most` is at least 3.
inline std::vector<int64_t> Shown(int64_t count, int64_t most) {
  std::vector<int64_t> out;
  const bool all = count <= most;
  const int64_t first = all ? count : std::min<int64_t>(7, most - 2);
  for (int64_t i = 0; i < first; ++i) out.push_back(i);
  if (!all) {
    out.push_back(kGap);
    out.push_back(count - 1);
  }
  return out;
}

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_SHOWN_H_
