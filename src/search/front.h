// Selects the winner and the Pareto front from the points of a search. A point
// is the time and the memory of one sharding with one setting of the training
// step. Only points that fit in memory are passed to these functions.
#ifndef SHARDC_SEARCH_FRONT_H_
#define SHARDC_SEARCH_FRONT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/expected.h"
#include "search/evaluator.h"
#include "search/pricer.h"
#include "search/request.h"
#include "search/search.h"
#include "source/process.h"

namespace shardc::search {

// A point is on the front only if its time is at most this multiple of the
// fastest time.
inline constexpr double kFrontWindow = 1.3;
// Two times are a tie if they differ by less than this fraction. The first
// number is for two shardings that use the same axes and ZeRO stage, and the
// second for all other pairs.
inline constexpr double kTieSameKind = 0.02, kTieOther = 0.05;

// Returns whether a time that is `ratio` times another time is faster, a tie or
// slower. `tie` is kTieSameKind or kTieOther.
Verdict VerdictOf(double ratio, double tie);

// Returns whether `a` precedes `b` in the order of points: by time, then by
// memory, then by their order in the search space.
bool Before(const Point& a, const Point& b);

// Returns the Pareto front of time and memory within kFrontWindow; the fastest
// point is the first. Of points with equal time and memory, the first one is
// kept.
std::vector<Point> FrontOf(std::vector<Point> points);

// Returns the indices of the points of a front that are printed. Of the points
// whose bytes are in the same twelfth of the capacity, only the fastest is
// printed.
std::vector<size_t> Thinned(const std::vector<Point>& front, int64_t capacity);
// Returns the index of the knee. The knee is the printed point after which the
// next printed point costs the most time per byte that it saves. Returns the
// front's size if there is no knee.
size_t KneeOf(const std::vector<Point>& front,
              const std::vector<size_t>& thinned);

// Returns the axes larger than 1, and the ZeRO stage if it is not 0: "dp+fsdp,
// ZeRO 1" or "one device". A pipeline of several ranks begins with pp: "pp+dp,
// ZeRO 1".
std::string KindOf(int64_t ranks, const AxisSizes& sizes, int zero);
inline std::string KindOf(const Candidate& candidate, int zero) {
  return KindOf(1, candidate.sizes, zero);
}

// Returns, as a text, the properties on which ties and the choice of the winner
// depend. Points with the same text are a group. Of two points of one group,
// the faster point is always preferred if it does not need more bytes.
std::string GroupOf(const Candidate& candidate, int zero);

// Returns the winner: the fastest point, or a point that ties with it and is
// not slower than `most_seconds`. Points are preferred by these properties, in
// this order: a measured run supports the point, it has fewer axes, its
// sequence is not sharded, it has a lower ZeRO stage. Of the equally preferred
// points, those that tie with the fastest of them are compared by memory. The
// point with the least memory wins. `points` must not be empty.
Point WinnerOf(const std::vector<Point>& points,
               const std::vector<Candidate>& candidates,
               const SettingsGrid& grid, double most_seconds);

// Returns, for each kind of sharding (KindOf) that ties with the fastest point,
// the best point of the kind. The fastest point is first.
std::vector<Point> TiesOf(const std::vector<Point>& points,
                          const std::vector<Candidate>& candidates,
                          const SettingsGrid& grid);

struct Searched {
  std::vector<Bound> bounds;  // indexed by candidate
  // The points of the evaluated candidates. Points that can neither win nor be
  // on the Pareto front (front.h) are left out.
  std::vector<Point> points;
  int64_t evaluated = 0;  // candidates whose points were computed
  // Candidates that were skipped because of their bounds.
  int64_t out_of_reach = 0;
  // The number of illegal candidates, and the number of candidates that exceed
  // the device memory.
  int64_t illegal = 0, too_large = 0;
  // The number of candidates that were not evaluated when the deadline passed,
  // and the least seconds that a step can take with one of them; nullopt if the
  // deadline passed before all bounds were computed.
  int64_t left = 0;
  std::optional<double> left_bound = {};
};

// Computes the bounds of each candidate, and then the points of the candidates
// that may be on the front or tie with the fastest point. The result is the
// same for any number of threads, unless the deadline passes.
Searched BranchAndBound(const Request& request, const Pricer& pricer,
                        const std::vector<Candidate>& candidates,
                        const Deadline& deadline, ThreadPool& threads);

// Returns, for each part of the step's time, how many seconds longer it is in
// `other` than in `best`. The sum is the difference of the two times.
std::vector<cost::TimePart> PartsOfDifference(const Sharding& best,
                                              const Sharding& other);

// Returns a text with the largest difference, and with at most two more that
// are at least a quarter of the largest. An example is "tensor collectives +52
// ms, recomputation -10 ms".
std::string DifferenceText(const std::vector<cost::TimePart>& parts);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_FRONT_H_
