// Selects from the points that fit: the Pareto front of time and memory, and
// the winner among those that tie with the fastest.
#ifndef SHARDC_SEARCH_FRONT_H_
#define SHARDC_SEARCH_FRONT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "search/candidates.h"
#include "search/pricer.h"
#include "search/search.h"
#include "search/settings_grid.h"

namespace shardc::search {

// The front has points up to this multiple of the fastest time.
inline constexpr double kFrontWindow = 1.3;
// Two times are a tie if they differ by less than this: between shardings that
// use the same axes and ZeRO stage, and between others.
inline constexpr double kTieSameKind = 0.02, kTieOther = 0.05;

// Compares a time with another one, of which it is `ratio`; `tie` is one of the
// two numbers above.
Verdict VerdictOf(double ratio, double tie);

// Orders points by time, then memory, then in the order of the space.
bool Before(const Point& a, const Point& b);

// Returns the Pareto front of time and memory, the fastest point first. Of
// equal points the first is kept.
std::vector<Point> FrontOf(std::vector<Point> points);

// Returns the indices of the points of a front that are printed: the fastest
// one in each twelfth of the memory between the ends.
std::vector<size_t> Thinned(const std::vector<Point>& front, int64_t capacity);
// Returns the index of the knee: the printed point after which the next one
// costs the most time per byte saved. Returns the front's size if there is
// none.
size_t KneeOf(const std::vector<Point>& front,
              const std::vector<size_t>& thinned);

// Returns the axes in use and the ZeRO stage: "dp+fsdp, ZeRO 1", or with
// several ranks of a pipeline "pp+dp, ZeRO 1".
std::string KindOf(int64_t ranks, const AxisSizes& sizes, int zero);
inline std::string KindOf(const Candidate& candidate, int zero) {
  return KindOf(1, candidate.sizes, zero);
}

// What ties and the winner depend on: of two points of one group, the one that
// is faster and has no more bytes is always taken.
std::string GroupOf(const Candidate& candidate, int zero);

// Returns the point to take: of those that tie with the fastest and are not
// slower than `most_seconds`, one that a measured run supports, of the fewest
// axes, without a divided sequence, of the lowest ZeRO stage; and of these, the
// one of the least memory among those that tie with the fastest of them.
// `points` is not empty.
Point WinnerOf(const std::vector<Point>& points,
               const std::vector<Candidate>& candidates,
               const SettingsGrid& grid, double most_seconds);

// The best point of each kind that ties with the fastest, the fastest first.
std::vector<Point> TiesOf(const std::vector<Point>& points,
                          const std::vector<Candidate>& candidates,
                          const SettingsGrid& grid);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_FRONT_H_
