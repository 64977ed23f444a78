// Selects from the points that fit the Pareto front of time and memory, and the
// winner among the points that tie with the fastest.
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

// The front has points whose time is at most this multiple of the fastest time.
inline constexpr double kFrontWindow = 1.3;
// Two times are a tie if they differ by less than this fraction: the first
// number applies to shardings that use the same axes and ZeRO stage, the second
// to others.
inline constexpr double kTieSameKind = 0.02, kTieOther = 0.05;

// Returns the verdict for a time that is `ratio` times another one. `tie` is
// one of the two numbers above.
Verdict VerdictOf(double ratio, double tie);

// Orders points by time, then by memory, then by their order in the search
// space.
bool Before(const Point& a, const Point& b);

// Returns the Pareto front of time and memory within kFrontWindow, the fastest
// point first. Of equal points the first one is kept.
std::vector<Point> FrontOf(std::vector<Point> points);

// Returns the indices of the points of a front that are printed: of the points
// whose bytes are in the same twelfth of the capacity, the fastest one.
std::vector<size_t> Thinned(const std::vector<Point>& front, int64_t capacity);
// Returns the index of the knee. This is the printed point after which the next
// printed point costs the most time for each byte that it saves. Returns the
// front's size if there is no knee.
size_t KneeOf(const std::vector<Point>& front,
              const std::vector<size_t>& thinned);

// Returns the axes in use and the ZeRO stage if it is not 0: "dp+fsdp, ZeRO 1",
// "one device", or with several ranks of a pipeline "pp+dp, ZeRO 1".
std::string KindOf(int64_t ranks, const AxisSizes& sizes, int zero);
inline std::string KindOf(const Candidate& candidate, int zero) {
  return KindOf(1, candidate.sizes, zero);
}

// Returns as a text the properties on which ties and the choice of the winner
// depend. Points with the same text are a group. Of two points of one group,
// the faster one is always preferred if it has no more bytes.
std::string GroupOf(const Candidate& candidate, int zero);

// Returns the winner. It is the fastest point, or a point that ties with the
// fastest and is not slower than `most_seconds`. Of these points, points that a
// measured run supports are preferred, then points with the fewest axes, then
// points without a divided sequence, then points with the lowest ZeRO stage. Of
// the equally preferred points that tie with the fastest of them, the point
// with the least memory wins. `points` must not be empty.
Point WinnerOf(const std::vector<Point>& points,
               const std::vector<Candidate>& candidates,
               const SettingsGrid& grid, double most_seconds);

// Returns the best point of each kind that ties with the fastest point, the
// fastest first.
std::vector<Point> TiesOf(const std::vector<Point>& points,
                          const std::vector<Candidate>& candidates,
                          const SettingsGrid& grid);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_FRONT_H_
