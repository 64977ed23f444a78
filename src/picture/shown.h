// Chooses the elements of a long row that are drawn: its beginning and its last
// element, with a gap between them.
#ifndef SHARDC_PICTURE_SHOWN_H_
#define SHARDC_PICTURE_SHOWN_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shardc::picture {

inline constexpr int64_t kGap = -1;
inline constexpr int64_t kMostPieces = 16;

// Returns the indices to draw of `count` elements: all if there are at most
// `most`, otherwise the first `most` - 2 (at most 7), kGap and the last. `most`
// is at least 3.
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
