// Runs a search. Returns the winner, the Pareto front of time and memory, and
// why each alternative loses.
#ifndef SHARDC_SEARCH_SEARCH_H_
#define SHARDC_SEARCH_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/expected.h"
#include "cost/report.h"
#include "model/mesh.h"
#include "search/pipelines.h"
#include "search/pricer.h"
#include "search/request.h"
#include "search/rule_options.h"
#include "source/process.h"

namespace shardc::search {

// A sharding, with the numbers that `cost` prints for it.
struct Sharding {
  Base base = Base::kGiven;
  Mesh mesh;
  std::string rules;  // name of the rules, followed by their changes
  RuleChanges changes;
  RulesFile file;
  // Why no measured run resembles the sharding; empty if one does.
  std::string unmeasured;
  int64_t stages = 1;  // number of pipeline stages on all ranks
  // The schedule of a pipeline, such as "1f1b" or "interleaved with 2 stages a
  // rank"; empty if the sharding is not a pipeline.
  std::string schedule;
  // The report of the command `cost`, with the settings. The report of a
  // pipeline has no communication.
  cost::Report report;

  bool IsPipeline() const { return !schedule.empty(); }
  double Seconds() const { return report.expected->seconds; }
  int64_t Bytes() const { return report.memory.Expected().value_or(0); }
};

// The result of changing one choice of the winner and optimising all other
// choices again. kExceeds means that nothing fits in memory.
enum class Verdict : uint8_t { kSlower, kTie, kFaster, kExceeds, kIllegal };
struct WhyNot {
  // The changes of a choice that have this result, such as "tp 4 -> 8".
  std::vector<std::string> changes;
  Verdict verdict = Verdict::kSlower;
  std::optional<Sharding> best;  // nullopt if no sharding is legal or fits
  // For each part of the step's time, how many seconds longer it is in `best`
  // than in the winner. The sum is the difference of the two times.
  std::vector<cost::TimePart> parts;
  std::string because;
};

struct Tie {
  std::string kind;  // the result of KindOf(), such as "dp+fsdp, ZeRO 1"
  Sharding best;
};

struct Counts {
  int64_t shardings = 0;  // number of pairs of a mesh and rules
  // The number of settings in the grid: the combinations of a rematerialisation
  // policy, a number of micro-batches and a ZeRO stage. Some shardings allow
  // only a part of them.
  int64_t settings = 0;
  int64_t rules = 0;
  int64_t evaluated = 0, out_of_reach = 0, illegal = 0, too_large = 0;
  int64_t left = 0;  // number of shardings not evaluated before the deadline
  // The least seconds of a step with one of these; nullopt if not known.
  std::optional<double> left_bound = {};
};

struct Found {
  std::optional<Sharding> winner;
  // If the winner is a pipeline, the sharding without stages that would win
  // without it; nullopt if none fits. All members but `winner` compare with
  // this sharding.
  std::optional<Sharding> without_stages;
  bool may_fit = false;  // whether the winner's memory verdict is Fit::kMayFit
  std::optional<Sharding> fastest;  // nullopt if the winner is the fastest
  // The fastest sharding on another mesh than the winner's.
  std::optional<Sharding> runner_up;
  // The Pareto front of time and memory, sorted by time. A sharding is better
  // than another if it needs less of one and no more of the other. A sharding
  // with stages (a pipeline) is on the front if no other sharding is better. A
  // sharding without stages is compared only with shardings without stages, so
  // it may be on the front although a pipeline is better.
  std::vector<Sharding> front;
  std::vector<size_t> shown;  // indices into `front` of the printed points
  // The index in `front` of the knee (KneeOf in front.h); the size of the front
  // if there is no knee.
  size_t knee = 0;
  std::vector<Tie> ties;
  std::vector<WhyNot> why_not;
  Counts counts;
  // The parts of the result that are incomplete because the deadline had
  // passed, such as "3 of 20 alternatives".
  std::vector<std::string> unfinished;
  Pipelines pipelines;
  // How measured runs support the choices of the search.
  std::vector<Known> known;
  // Set if no sharding fits. `least` is the sharding that needs the least
  // memory. `reasons` lists why a mesh is refused, or why its memory is
  // unknown.
  std::optional<Sharding> least;
  std::vector<std::string> reasons;
  // The facts about the model that every time needs and that are not known. If
  // there are any, nothing is compared, and there is no winner.
  std::vector<NotKnown> not_known;

  // Returns the sharding with which the others are compared. There must be a
  // winner.
  const Sharding& Compared() const {
    return without_stages ? *without_stages : *winner;
  }
};

Found Search(const Request& request);

// Returns a candidate with a setting as a Sharding, which includes the report
// that the command `cost` prints.
Sharding Described(const Candidate& candidate, uint32_t setting,
                   const RuleOptions& options, int worker);

// Returns a legal candidate in the same way, with the setting of `grid` that
// needs the least memory.
Sharding LeastOf(const SettingsGrid& grid, const RuleOptions& options,
                 const Candidate& candidate);

// The alternatives to the winner `point`. In each, WhyNotOf() changes one
// choice of the winner and optimises all other choices again. The choices are
// the size of an axis, the rematerialisation policy, the number of
// micro-batches, the ZeRO stage, the rules, and the order of the axes.
// Alternatives that no measured run supports are included. `bounds` has the
// bounds of the candidates. Alternatives that were not evaluated before the
// deadline are left out.
struct Alternatives {
  std::vector<WhyNot> all;
  // The number of alternatives, and how many were not evaluated in time.
  size_t tried = 0, unfinished = 0;
};
Alternatives WhyNotOf(const Request& request, const SettingsGrid& grid,
                      RuleOptions& options, const Pricer& pricer,
                      const std::vector<Candidate>& candidates,
                      const std::vector<Bound>& bounds, const Point& point,
                      const Deadline& deadline, ThreadPool& threads);

// Adds the pipelines of `found.pipelines` to the result of a search whose
// winner has no stages. A pipeline is added to the Pareto front if its time is
// within kFrontWindow and no sharding and no other pipeline is better in both
// time and memory. For each kind of sharding (KindOf), the fastest pipeline
// that ties with the fastest sharding is added to the ties. For each number of
// ranks, the fastest pipeline is added to the alternatives. If the fastest
// pipeline that may win is clearly faster than the winner, or if nothing else
// fits, it becomes the winner, and the former winner becomes
// Found::without_stages.
void PlacePipelines(Found& found, const Request& request);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_SEARCH_H_
