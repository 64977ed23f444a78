// Finds the fastest pipeline that fits in memory, so that it can be compared
// with the shardings without stages that a search finds.
#ifndef SHARDC_SEARCH_PIPELINES_H_
#define SHARDC_SEARCH_PIPELINES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/settings.h"
#include "model/mesh.h"
#include "model/stages.h"
#include "search/deadline.h"
#include "search/evidence.h"
#include "search/request.h"
#include "search/rule_options.h"
#include "search/settings_grid.h"

namespace shardc::search {

// How a search divides the layers into stages. Published runs divide them
// evenly, or count the embedding, the head and the layers that predict further
// tokens as a layer each if the number of stages divides the layers only then.
// No published run divides them so that the stages take equal times.
enum class Division : uint8_t { kEven, kEnds, kTimes };
inline constexpr std::string_view kDivisionNames[] = {
    "evenly", "evenly, with each end as a layer", "by the times of the stages"};

// A pipeline: a mesh with an axis of stages, a schedule, and the numbers that
// `cost --stages` prints for it.
struct Pipeline {
  Mesh mesh;
  AxisSizes sizes;  // sizes of the axes other than the axis of stages
  std::string axis;
  std::string schedule;
  int32_t virtual_stages = 1;   // number of stages on each rank
  std::vector<int64_t> layers;  // number of layers of each stage
  Division division = Division::kEven;
  cost::Settings settings;
  Base base = Base::kGiven;
  RuleChanges changes;
  std::string rules;
  RulesFile file;
  double bound = 0;            // a lower bound of the seconds of a step
  double seconds = 0;          // expected seconds of a step
  double least = 0, most = 0;  // the range of these seconds
  // The fraction of the peak rate that the model's floating-point operations
  // reach.
  double model_flops_share = 0;
  double bubble = 0;  // idle fraction of a step's time
  // The seconds after the last task, in which gradients are reduced and the
  // parameters are updated.
  double after = 0;
  bool gathers_once = false;  // see cost::Settings::gathers_once
  int64_t bytes = 0;          // bytes of tensors on the fullest rank
  // The bytes of device memory that a step needs on the fullest rank: the
  // expected bytes, and an upper estimate.
  int64_t taken = 0, most_taken = 0;

  int64_t Ranks() const { return mesh.SizeOf(axis); }
};

// Returns whether published runs have used the schedule.
bool IsMeasuredSchedule(std::string_view schedule);

// Returns why no measured run resembles the pipeline; empty if one does.
std::string WhyUnmeasured(const Pipeline& one);

// Returns the `stages:` section of a rules file for a pipeline. If `layers` is
// empty, the layers are divided evenly.
StageDeclaration DeclarationOf(const Pipeline& one);

struct Pipelines {
  // The fastest pipeline that fits and that may win: without
  // Request::unmeasured, one that resembles a measured run.
  std::optional<Pipeline> fastest;
  // The same pipeline with its layers divided by the times of the stages, if
  // that is faster and fits but may not win.
  std::optional<Pipeline> by_times;
  // The evaluated pipelines that fit, the fastest first.
  std::vector<Pipeline> fitting;
  int64_t bounded = 0;    // number of drafted pipelines that may fit in memory
  int64_t evaluated = 0;  // how many of these were evaluated
  std::string why_not;    // why no pipeline was tried; empty if some were
  bool finished = true;   // false if the deadline stopped the search
};

// Evaluates pipelines in ascending order of PipelineDraft::expected. The mesh
// of a rank is any mesh of its devices that a published run supports; meshes
// that do not shard the sequence come first. The schedules are 1f1b and
// interleaved, or all schedules if Request::unmeasured is set. The ZeRO stages
// are 0, 1 and 3, unless a flag has fixed the stage. Skips a pipeline whose
// bound is not below the fastest time. Stops at the deadline, or after a fixed
// number of pipelines. For comparison, some pipelines with other numbers of
// ranks and other rematerialisation policies are evaluated too, if their bounds
// are close to the fastest time. The layers are divided evenly, as published
// runs do, and a rank computes nothing while it sends. For the fastest
// pipeline, a division by the times of the stages is tried as well. It may win
// only if Request::unmeasured is set.
Pipelines FindPipelines(const Request& request, const SettingsGrid& grid,
                        RuleOptions& options, const Deadline& deadline);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_PIPELINES_H_
