// Computes the lower bound of one candidate, and its points: time and memory
// under each setting.
#ifndef SHARDC_SEARCH_PRICER_H_
#define SHARDC_SEARCH_PRICER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
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

// The points that were found, and which times and memory they exclude. Ties
// make no difference between points of a group (GroupOf).
class Incumbents {
 public:
  double fastest() const { return fastest_; }
  void Add(const Point& point, const std::string& group);
  // Returns whether a point with at least this time and memory can neither be
  // on the front nor tie with the fastest nor win.
  bool Exclude(double seconds, int64_t bytes, const std::string& group) const;

 private:
  double fastest_ = std::numeric_limits<double>::infinity();
  std::vector<Point> front_;  // the fastest first, with ever fewer bytes
  std::map<std::string, std::vector<Point>> groups_;  // the front of each
};

// The settings that are evaluated; an absent index means all.
struct Filter {
  std::optional<size_t> zero = {}, remat = {}, micro = {};
  // Points that take longer than this are left out.
  double most_seconds = std::numeric_limits<double>::infinity();
  const Incumbents* incumbents = nullptr;  // null: nothing is excluded
};

// Several threads may use one pricer if each gives its own number, `worker`.
// What was computed of a candidate is kept.
class Pricer {
 public:
  // `may`: steps that may fit (Fit::kMayFit) are treated as fitting.
  Pricer(const Request& request, const SettingsGrid& grid,
         const RuleOptions& options, bool may);
  ~Pricer();
  Pricer(const Pricer&) = delete;
  Pricer& operator=(const Pricer&) = delete;

  const SettingsGrid& grid() const { return grid_; }

  Bound BoundOf(const Candidate& candidate, int worker) const;
  // Returns the points of a legal candidate in the order of the grid, but for
  // those that the filter excludes; `index` becomes Point::candidate. No point
  // takes less than `least_seconds`.
  std::vector<Point> PointsOf(const Candidate& candidate, uint32_t index,
                              double least_seconds, const Filter& filter,
                              int worker) const;
  // Returns the first of these points by Before; nullopt if there is none.
  std::optional<Point> BestOf(const Candidate& candidate, uint32_t index,
                              const Filter& filter, int worker) const;

 private:
  // What was computed of one candidate, and the lock for it.
  struct Entry;
  struct Axes {
    std::vector<size_t> zeros, remats, micros;
  };
  // Compiles the candidate if it is new. Candidates whose rules give the same
  // shardings share an entry.
  Entry& EntryOf(const Candidate& candidate) const;
  // The indices of the settings that a candidate can have.
  Axes AxesOf(const Entry& entry, const Filter& filter) const;
  const Room& RoomAt(Entry& entry, size_t setting) const;
  double LeastAt(Entry& entry, size_t setting, int worker) const;
  double SecondsAt(Entry& entry, size_t setting, int worker) const;
  // Lowers the bound to that of a ZeRO stage and a policy.
  void BoundAt(Entry& entry, const Axes& axes, size_t zero, size_t remat,
               int worker, Bound& out) const;
  bool Fits(const Room& room) const {
    return room.fit == cost::Fit::kFits ||
           (may_ && room.fit == cost::Fit::kMayFit);
  }

  const Request& request_;
  const SettingsGrid& grid_;
  const RuleOptions& options_;
  const bool may_;
  // Whether a step without communication takes no less time in more
  // micro-batches.
  const bool ascends_;
  mutable std::mutex mutex_;  // of the following three
  mutable std::vector<std::unique_ptr<Entry>> entries_;
  mutable std::map<std::string, Entry*> by_candidate_, by_signature_;
};

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_PRICER_H_
