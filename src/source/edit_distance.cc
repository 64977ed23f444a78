// Computes the edit distance of two words. A table holds the distance between
// each prefix of one word and each prefix of the other. It is filled row by
// row. A swap of neighbouring letters is one edit and is computed from the row
// before the last, so the last three rows are stored. For example:
//
//   atn -> attn: 1     kernle -> kernel: 1     mlp -> moe: 2
#include "source/edit_distance.h"

#include <algorithm>
#include <vector>

namespace shardc {

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1);
  std::vector<size_t> now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, change});
      const bool swapped =
          i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(now);
  }
  return last[b.size()];
}

int64_t PartEdits(std::string_view a, std::string_view b) {
  constexpr size_t kLongest = 64;
  const size_t longest = std::max(a.size(), b.size());
  return static_cast<int64_t>(longest > kLongest ? longest
                                                 : EditDistance(a, b));
}

}  // namespace shardc
