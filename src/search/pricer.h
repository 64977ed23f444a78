// Computes, for a candidate of a search, lower bounds of time and memory, and
// its points: the exact time and memory with each setting.
#ifndef SHARDC_SEARCH_PRICER_H_
#define SHARDC_SEARCH_PRICER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cost/memory.h"
#include "model/mesh.h"
#include "search/evaluator.h"
#include "search/request.h"
#include "search/rule_options.h"

namespace shardc::search {

struct Candidate {
  uint32_t option = 0;  // index of the candidate's rules in RuleOptions
  Mesh mesh;            // has no axes of size 1, unless the user gave the mesh
  AxisSizes sizes;
  // Whether the axes have the order dp, fsdp, ep, sp, tp.
  bool usual_order = true;
  // Why no measured run resembles the candidate; empty if one does.
  std::string unmeasured;
};

// Returns the mesh without axes of size 1. If all axes have size 1, one axis is
// kept.
Mesh WithoutTrivial(const Mesh& mesh);

// Returns the meshes on which the rules of `base` (given by the user, or
// suggested) are tried. If the request has a mesh, this mesh is the only one.
// Otherwise every mesh with the requested number of devices is returned, with
// its axes in the usual order. If there are more than 100,000 meshes, the
// result is empty.
std::vector<Mesh> MeshesOf(const Request& request, const RuleOptions& options,
                           Base base);
// Returns the mesh with its axes in different orders; its own order is the
// first. Two orders are equivalent if the device groups along each axis and
// each pair of axes have the same place in the network. Only the first of
// equivalent orders is returned.
std::vector<Mesh> OrdersOf(const Mesh& mesh, const DeviceProfile& profile);

// Returns the changes of rules that are tried on a mesh with these axis sizes.
// If `unmeasured` is true, changes that no measured run supports are tried too,
// but only one of them at a time.
std::vector<RuleChanges> ChangesFor(const AxisSizes& sizes, bool unmeasured);

// Returns a candidate. Returns nullopt if `base` has no rules for the mesh, or
// if a change does not apply to these rules.
std::optional<Candidate> MakeCandidate(const Request& request,
                                       RuleOptions& options, Base base,
                                       const Mesh& mesh,
                                       const RuleChanges& changes);

// Returns all candidates of the search space, in a fixed order. Candidates that
// no measured run supports are returned only if Request::unmeasured is set or
// the user gave the mesh.
std::vector<Candidate> AllCandidates(const Request& request,
                                     RuleOptions& options);

// A candidate with one setting that fits in memory: its time and its memory.
struct Point {
  // Indices into the candidates and into the SettingsGrid.
  uint32_t candidate = 0, setting = 0;
  double seconds = 0;
  int64_t bytes = 0;  // expected bytes of device memory that a step needs
};

// Lower bounds of a candidate. `seconds` is a bound over the settings that fit
// in memory, and `bytes` is a bound over all settings.
struct Bound {
  std::vector<std::string> reasons;  // why the candidate is illegal; or empty
  double seconds = 0;
  int64_t bytes = 0;
  bool fits = true;  // false if no setting fits

  bool Usable() const { return reasons.empty() && fits; }
};

// The points that a search has found so far. Decides whether a time and a
// memory size are excluded by these points. A point that may tie with the
// fastest is excluded only by a point of its own group (GroupOf).
class Incumbents {
 public:
  double fastest() const { return fastest_; }
  void Add(const Point& point, const std::string& group);
  // Returns whether a point with at least this time and this memory can be
  // excluded: it can neither win, nor tie with the fastest point, nor be on the
  // front.
  bool Exclude(double seconds, int64_t bytes, const std::string& group) const;

 private:
  double fastest_ = std::numeric_limits<double>::infinity();
  // The Pareto front, sorted by ascending time and descending bytes.
  std::vector<Point> front_;
  // The Pareto front of each group.
  std::map<std::string, std::vector<Point>> groups_;
};

// Selects the settings that are evaluated. An index that is nullopt selects
// all.
struct Filter {
  std::optional<size_t> zero = {}, remat = {}, micro = {};
  // Points whose time is more than this many seconds are not returned.
  double most_seconds = std::numeric_limits<double>::infinity();
  // Points that these known points exclude are not returned. May be null.
  const Incumbents* incumbents = nullptr;
};

// Computes bounds and points of candidates, and keeps intermediate results.
// Several threads may use one pricer if each thread passes a different number
// as `worker`.
class Pricer {
 public:
  // The default number of meshes whose compiled plans stay in memory. If
  // Request::unmeasured is set, a search for Llama 3 405B on 16,384 devices
  // compiles plans for 18,000 meshes, of about 40 kB each.
  static constexpr size_t kMostHeld = 2048;

  // If `may` is true, steps that may fit (Fit::kMayFit) are treated as fitting.
  // At most about `most_held` compiled plans stay in memory. Other plans are
  // compiled again when they are needed.
  Pricer(const Request& request, const SettingsGrid& grid,
         const RuleOptions& options, bool may, size_t most_held = kMostHeld);
  ~Pricer();
  Pricer(const Pricer&) = delete;
  Pricer& operator=(const Pricer&) = delete;

  const SettingsGrid& grid() const { return grid_; }

  Bound BoundOf(const Candidate& candidate, int worker) const;
  // Returns the points of a legal candidate, in the order of the grid. Settings
  // that do not fit, and points that the filter excludes, are left out. `index`
  // becomes Point::candidate. `least_seconds` is a lower bound of the time of
  // all points.
  std::vector<Point> PointsOf(const Candidate& candidate, uint32_t index,
                              double least_seconds, const Filter& filter,
                              int worker) const;
  // Returns the best point of the candidate, in the order of Before(), among
  // the settings that the filter selects. Returns nullopt if no such setting
  // fits in memory and in Filter::most_seconds, or if the rules do not compile
  // for the candidate. Filter::incumbents is ignored.
  std::optional<Point> BestOf(const Candidate& candidate, uint32_t index,
                              const Filter& filter, int worker) const;

 private:
  // The intermediate results of all candidates that have equal shardings, and
  // the lock that guards them.
  struct Entry;
  struct Axes {
    std::vector<size_t> zeros, remats, micros;
  };
  // Returns the entry of a candidate. A new candidate is compiled first.
  // Candidates whose rules result in the same shardings share an entry.
  Entry& EntryOf(const Candidate& candidate) const;
  // Adds an entry to the queue of entries whose compiled plans stay in memory.
  // If the queue is too long, releases the plans of the oldest entries. The
  // caller holds `mutex_`, and also the entry's own lock if other threads know
  // the entry.
  void HoldLocked(Entry& entry) const;
  // Compiles the plan of an entry again if it was released. The caller holds
  // the lock of the entry.
  void Restore(Entry& entry) const;
  // Returns the indices of the ZeRO stages, rematerialisation policies and
  // numbers of micro-batches that the filter selects and the candidate can use.
  // Numbers of micro-batches that no measured run supports are left out, unless
  // the request allows them.
  Axes AxesOf(const Entry& entry, const Filter& filter) const;
  const cost::Memory& MemoryAt(Entry& entry, size_t setting) const;
  const Room& RoomAt(Entry& entry, size_t setting) const;
  // Returns the communication of the reference of a setting: the setting with
  // the same ZeRO stage and number of micro-batches, and with the
  // rematerialisation policy that keeps the most activations.
  const cost::Communication& ReferenceAt(Entry& entry, size_t setting,
                                         int worker) const;
  // Returns a lower bound of the time of a setting, computed from the
  // communication (ReferenceAt) of the setting `reference`.
  double BoundBy(Entry& entry, size_t setting, size_t reference,
                 Evaluator::Shared shared, int worker) const;
  // The reference settings that one call of PointsOf() or BestOf() has used for
  // bounds. Each call has its own set, so the settings that it evaluates do not
  // depend on what other threads have evaluated.
  using Refined = std::set<size_t>;
  // Return lower bounds of the time of a setting, computed from the
  // communication (ReferenceAt) of a reference setting. LeastAt uses the
  // reference that has the fewest micro-batches and the ZeRO stage that
  // SettingsGrid::ReferenceOf() returns for the setting's stage. KnownAt uses a
  // reference in `refined` that has the setting's ZeRO stage and at most as
  // many micro-batches as the setting. It returns 0 if there is no such
  // reference.
  double LeastAt(Entry& entry, size_t setting, int worker) const;
  double KnownAt(Entry& entry, size_t setting, const Refined& refined,
                 int worker) const;
  // Returns whether a setting is excluded by the bound of KnownAt(), or by the
  // bound from the reference with the same ZeRO stage and number of
  // micro-batches. This reference is added to `refined`.
  bool IsExcludedWhenRefined(
      Entry& entry, size_t setting, Refined& refined, int worker,
      const std::function<bool(size_t setting, double seconds)>& excluded)
      const;
  double SecondsAt(Entry& entry, size_t setting, int worker) const;
  // A lower bound of the seconds of a setting, and the index of the setting.
  using Bounded = std::pair<double, size_t>;
  // Returns the settings that fit and whose bounds are not excluded, with their
  // bounds, in ascending order of the bounds. `least_seconds` is a lower bound
  // of the time of all settings.
  std::vector<Bounded> SettingsBelow(
      Entry& entry, const Axes& axes, double least_seconds, int worker,
      const std::function<bool(size_t setting, double seconds)>& excluded)
      const;
  // Computes the bounds of time and memory over all numbers of micro-batches,
  // with one ZeRO stage and one rematerialisation policy. Each bound in `out`
  // that is higher is replaced by the computed bound.
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
  const size_t most_held_;
  // True if, without communication, a step with more micro-batches is at least
  // as slow.
  const bool ascends_;
  mutable std::mutex mutex_;  // guards the four members that follow
  mutable std::vector<std::unique_ptr<Entry>> entries_;
  mutable std::deque<Entry*> held_;
  mutable std::map<std::string, Entry*> by_candidate_, by_signature_;
};

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_PRICER_H_
