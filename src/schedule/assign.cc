// Divides a chain of units (layers) into pipeline stages so that the longest
// stage is as short as possible, by a dynamic program over units and stages.
// best[s][b] is the lowest possible time of the longest stage if the first s
// stages hold the first b units. If stage s begins at unit a, this time is the
// larger of two values: best[s-1][a], and the time of the units a to b-1.
// best[s][b] is the minimum over a. Prefix sums give the time and the bytes of
// a stage. For example, two stages divide units of the times 1 2 2 2 4:
//
//   best[1][1] to best[1][4] are 1, 3, 5, 7
//   best[2][5] = max(best[1][3], 2 + 4) = 6 at a = 3: the stages 1 2 2 | 2 4
#include "schedule/assign.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "source/size.h"

namespace shardc::schedule {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

// The score of a division; the lowest score is the best. It is the time of the
// longest stage, and then the bytes of the fullest stage.
using Score = std::pair<double, int64_t>;

}  // namespace

std::optional<StageBounds> AssignUnits(std::span<const Unit> units,
                                       std::span<const int64_t> in_flight,
                                       std::optional<int64_t> capacity) {
  const size_t n = units.size(), stages = in_flight.size();
  if (n == 0 || stages == 0) return std::nullopt;
  std::vector<double> time(n + 1, 0);
  std::vector<int64_t> bytes(n + 1, 0), kept(n + 1, 0);
  for (size_t i = 0; i < n; ++i) {
    time[i + 1] = time[i] + units[i].time;
    bytes[i + 1] = (Size(bytes[i]) + units[i].bytes).value();
    kept[i + 1] = (Size(kept[i]) + units[i].kept).value();
  }
  std::vector<std::vector<Score>> best(
      stages + 1, std::vector<Score>(n + 1, {kImpossible, 0}));
  std::vector<std::vector<size_t>> from(stages + 1,
                                        std::vector<size_t>(n + 1, 0));
  best[0][0] = {0, 0};
  for (size_t s = 1; s <= stages; ++s) {
    // The first unit is in the first stage, and the last unit is in the last
    // stage.
    const size_t least = s == stages ? n : 1;
    const size_t most = s == stages || stages == 1 ? n : n - 1;
    for (size_t b = least; b <= most; ++b) {
      for (size_t a = s == 1 ? 0 : 1; a <= b; ++a) {
        if (s == 1 && a > 0) break;
        if (best[s - 1][a].first == kImpossible) continue;
        const int64_t held = (Size(bytes[b] - bytes[a]) +
                              Size(kept[b] - kept[a]) * in_flight[s - 1])
                                 .value();
        if (capacity && held > *capacity) continue;
        const Score score = {std::max(best[s - 1][a].first, time[b] - time[a]),
                             std::max(best[s - 1][a].second, held)};
        if (score < best[s][b]) {
          best[s][b] = score;
          from[s][b] = a;
        }
      }
    }
  }
  if (best[stages][n].first == kImpossible) return std::nullopt;
  StageBounds out(stages + 1, 0);
  out[stages] = static_cast<int64_t>(n);
  size_t at = n;
  for (size_t s = stages; s > 0; --s) {
    at = from[s][at];
    out[s - 1] = static_cast<int64_t>(at);
  }
  return out;
}

StageBounds EvenStages(int64_t layers, int64_t stages) {
  StageBounds out;
  for (int64_t s = 0; s <= stages; ++s) {
    out.push_back(1 + s * layers / stages);
  }
  out.front() = 0;
  out.back() = layers + 2;
  return out;
}

}  // namespace shardc::schedule
