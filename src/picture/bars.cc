#include "picture/bars.h"

#include <algorithm>
#include <cmath>

#include "source/checked.h"

namespace shardc::picture {

int64_t CellsOf(int64_t bytes, int64_t scale, int64_t width) {
  const double share = static_cast<double>(bytes) / static_cast<double>(scale);
  const auto cells = std::llround(share * static_cast<double>(width));
  return std::clamp<int64_t>(cells, 0, width);
}

std::vector<int64_t> CellsOf(std::span<const int64_t> parts, int64_t scale,
                             int64_t width) {
  std::vector<int64_t> out;
  // Indices of the parts that have bytes, the largest part first.
  std::vector<size_t> some;
  int64_t sum = 0, end = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    sum = CheckedAdd(sum, parts[i]).value_or(INT64_MAX);
    const int64_t next = CellsOf(sum, scale, width);
    out.push_back(next - end);
    end = next;
    if (parts[i] > 0) some.push_back(i);
  }
  std::stable_sort(some.begin(), some.end(),
                   [&](size_t a, size_t b) { return parts[a] > parts[b]; });
  if (end <= static_cast<int64_t>(some.size())) {
    // Each part that has bytes gets one cell, the largest first, while there
    // are cells left.
    std::fill(out.begin(), out.end(), 0);
    for (size_t i = 0; i < static_cast<size_t>(end); ++i) out[some[i]] = 1;
    return out;
  }
  for (size_t i : some) {
    if (out[i] > 0) continue;
    --*std::max_element(out.begin(), out.end());
    ++out[i];
  }
  return out;
}

int64_t ScaleOf(int64_t budget, int64_t peak) {
  const int64_t most = std::max<int64_t>({budget, peak, 1});
  return CheckedAdd(most, most / 25).value_or(INT64_MAX);
}

}  // namespace shardc::picture
