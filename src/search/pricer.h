// Computes the lower bound of one candidate, and its points: time and memory
// under each setting.
#ifndef SHARDC_SEARCH_PRICER_H_
#define SHARDC_SEARCH_PRICER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cost/memory.h"
#include "search/candidates.h"
#include "search/evaluator.h"
#include "search/request.h"
#include "search/rule_options.h"
#include "search/settings_grid.h"

namespace shardc::search {

// A candidate under a setting that fits.
struct Point {
  uint32_t candidate = 0, setting = 0;
  double seconds = 0;
  int64_t bytes = 0;  // that a step is expected to take of a device
};

// Lower bounds of time and bytes over all settings of a candidate.
struct Bound {
  std::vector<std::string> reasons;  // why it is illegal; empty: it is legal
  double seconds = 0;
  int64_t bytes = 0;
  bool fits = true;  // false: no setting fits

  bool Usable() const { return reasons.empty() && fits; }
};

// The points that were found, and which times and memory they exclude.
class Incumbents {
 public:
  double fastest() const { return fastest_; }
  void Add(const Point& point);
  // Returns whether a point with at least this time and memory can neither be
  // on the front nor tie with the fastest.
  bool Exclude(double seconds, int64_t bytes) const;

 private:
  double fastest_ = std::numeric_limits<double>::infinity();
  std::vector<Point> front_;  // the fastest first, with ever fewer bytes
};

// The settings that are evaluated; an absent index means all.
struct Filter {
  std::optional<size_t> zero = {}, remat = {}, micro = {};
  // Points that take longer than this are left out.
  double most_seconds = std::numeric_limits<double>::infinity();
  const Incumbents* incumbents = nullptr;  // null: nothing is excluded
};

class Pricer {
 public:
  // `may`: steps that may fit (Fit::kMayFit) are treated as fitting.
  Pricer(const Request& request, const SettingsGrid& grid,
         const RuleOptions& options, bool may)
      : request_(request), grid_(grid), options_(options), may_(may) {}

  Bound BoundOf(const Candidate& candidate, int worker) const;
  // Returns the points of a legal candidate in the order of the grid, but for
  // those that the filter excludes; `index` becomes Point::candidate. No point
  // takes less than `least_seconds`.
  std::vector<Point> PointsOf(const Candidate& candidate, uint32_t index,
                              double least_seconds, const Filter& filter,
                              int worker) const;

 private:
  struct Axes {
    std::vector<size_t> zeros, remats, micros;
  };
  // The indices of the settings that a candidate can have.
  Axes AxesOf(const Evaluator& evaluator, const Prepared& on,
              const Filter& filter) const;
  // Lowers the bound to that of the settings with one ZeRO stage.
  void BoundAt(Evaluator& evaluator, Prepared& on, const Axes& axes,
               size_t zero, int worker, Bound& out) const;
  bool Fits(const Room& room) const {
    return room.fit == cost::Fit::kFits ||
           (may_ && room.fit == cost::Fit::kMayFit);
  }

  const Request& request_;
  const SettingsGrid& grid_;
  const RuleOptions& options_;
  const bool may_;
};

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_PRICER_H_
