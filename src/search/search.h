// Runs a search and returns the winner, the front of time and memory, and why
// each alternative loses.
#ifndef SHARDC_SEARCH_SEARCH_H_
#define SHARDC_SEARCH_SEARCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/expected.h"
#include "cost/report.h"
#include "model/mesh.h"
#include "search/evidence.h"
#include "search/pipelines.h"
#include "search/request.h"
#include "search/rule_changes.h"
#include "search/rule_options.h"

namespace shardc::search {

// A sharding, with the numbers that `cost` prints for it.
struct Sharding {
  Base base = Base::kGiven;
  Mesh mesh;
  std::string rules;  // name of the rules, with their changes
  RuleChanges changes;
  RulesFile file;
  std::string unmeasured;  // why no measured run is like it; may be empty
  int64_t stages = 1;      // pipeline stages of all ranks
  // The schedule of a pipeline, such as "1f1b" or "interleaved with 2 stages a
  // rank"; empty if the sharding is not a pipeline.
  std::string schedule;
  // The report of `cost`, with the settings. For a pipeline it has no
  // communication, and its time has no range.
  cost::Report report;

  bool IsPipeline() const { return !schedule.empty(); }
  double Seconds() const { return report.expected->seconds; }
  int64_t Bytes() const { return report.memory.Expected().value_or(0); }
};

// The outcome if one choice of the winner is changed and the other choices are
// optimised again.
enum class Verdict : uint8_t { kSlower, kTie, kFaster, kExceeds, kIllegal };
struct WhyNot {
  std::vector<std::string> changes;  // changes with this outcome: "tp 4 -> 8"
  Verdict verdict = Verdict::kSlower;
  std::optional<Sharding> best;  // nullopt if nothing fits or is legal
  // For each part of the step, the seconds that `best` takes more than the
  // winner. Their sum is the difference of the two times.
  std::vector<cost::TimePart> parts;
  std::string because;
};

struct Tie {
  std::string kind;  // "dp+fsdp, ZeRO 1"
  Sharding best;
};

struct Counts {
  int64_t shardings = 0;  // number of meshes times rules
  int64_t settings = 0;   // settings for each sharding, at most
  int64_t rules = 0;
  int64_t evaluated = 0, out_of_reach = 0, illegal = 0, too_large = 0;
  int64_t left = 0;  // shardings not evaluated before the deadline
};

struct Found {
  std::optional<Sharding> winner;
  bool may_fit = false;               // the winner's verdict is Fit::kMayFit
  std::optional<Sharding> fastest;    // nullopt if it is the winner
  std::optional<Sharding> runner_up;  // the fastest on another mesh
  // The Pareto front of time and memory, the fastest first. It includes
  // pipelines that nothing else beats, and shardings that only a pipeline
  // beats.
  std::vector<Sharding> front;
  std::vector<size_t> shown;  // indices into `front` of the printed points
  size_t knee = 0;            // index into `front`; its size if there is none
  std::vector<Tie> ties;
  std::vector<WhyNot> why_not;
  Counts counts;
  // The parts of the result that are incomplete because Request::seconds had
  // passed, such as "3 of 20 alternatives".
  std::vector<std::string> unfinished;
  Pipelines pipelines;       // pipelines, which cannot be the winner
  std::vector<Known> known;  // evidence for the choices of the search
  // Set if nothing fits: the sharding that needs the least memory, and the
  // reasons why a mesh is refused or why its memory is not known.
  std::optional<Sharding> least;
  std::vector<std::string> reasons;
};

Found Search(const Request& request);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_SEARCH_H_
