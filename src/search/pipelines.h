// Finds the fastest pipeline that fits in memory, so that it can be compared
// with the shardings without stages that a search finds.
#ifndef SHARDC_SEARCH_PIPELINES_H_
#define SHARDC_SEARCH_PIPELINES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/settings.h"
#include "model/mesh.h"
#include "model/project.h"
#include "search/evaluator.h"
#include "search/request.h"
#include "search/rule_options.h"

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
  // Why no pipeline was tried, or why the model cannot be divided into the
  // stages of any of them; empty otherwise.
  std::string why_not;
  bool finished = true;  // false if the deadline stopped the search
  // The least seconds of a step with a pipeline that was not evaluated before
  // the deadline; nullopt if the deadline passed before all bounds were known.
  std::optional<double> left_bound = {};
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

// What is known about a schedule before it is simulated: a lower bound of its
// bubble (idle time), and the activations that a rank keeps. A chunk is one of
// the stages of a rank.
struct ScheduleBound {
  std::string_view name;
  // The smallest and the largest number of chunks on each rank.
  int32_t least_chunks = 1, most_chunks = 1;
  bool measured = false;  // whether published runs used the schedule
  // A factor of the least idle time; 1 for the schedule 1f1b. As a fraction of
  // the time of a rank's tasks, the least idle time is
  // bubble * waits_for(ranks) / (chunks * micro-batches).
  double bubble = 1;
  // Returns how many ranks start, one after another, before the last rank can
  // start. It is ranks / 2 - 1 if micro-batches enter the pipeline at both
  // ends, as in DualPipe, and ranks - 1 otherwise.
  int64_t (*waits_for)(int64_t ranks) = nullptr;
  // Returns how many activations a rank keeps at the same time, at most. Each
  // is of one micro-batch in one chunk; `micro` is the number of micro-batches.
  int64_t (*kept)(int64_t ranks, int64_t chunks, int64_t micro) = nullptr;
  int64_t copies = 1;  // how many ranks hold each parameter
  // The fraction of a micro-batch's tasks that form a chain, in which each task
  // needs the result of the task before. It is less than 1 if gradients of
  // weights are not part of the chain.
  double chain = 1;
};

// Returns the schedules that are searched; those that published runs used come
// first.
std::span<const ScheduleBound> ScheduleBounds();

struct PipelineDraft {
  double bound = 0;  // a lower bound of the seconds of a step
  // The expected seconds of a step. Unlike the bound, they include what
  // attention sends if the sequence is sharded. The bubble is also larger:
  // every chunk is assumed to take as long as the chunk with the most layers.
  double expected = 0;
  double bytes = 0;       // a lower bound of the fullest rank's bytes
  uint32_t option = 0;    // index into RuleOptions
  uint32_t mesh = 0;      // index into PipelineDrafts::meshes
  uint32_t schedule = 0;  // index into ScheduleBounds()
  int32_t chunks = 1;     // number of stages per rank
  size_t setting = 0;     // index into the SettingsGrid
};

struct PipelineDrafts {
  struct StagedMesh {
    Mesh mesh;  // its first axis is the axis of stages
    AxisSizes sizes;
  };
  std::vector<StagedMesh> meshes;
  std::vector<PipelineDraft> all;  // in ascending order of `expected`
  bool finished = true;  // false if the deadline passed before the end

  int64_t RanksOf(const PipelineDraft& one) const {
    return meshes[one.mesh].mesh.axes.front().size;
  }
};

// Returns the pipelines with the rules of `base` that may fit in memory, each
// with a lower bound of its time. A pipeline and its bound are called a draft.
// Each divisor of the number of devices from 2 up to the number of layers is
// tried as the number of ranks. `axis` is the name of the axis of stages. The
// request must have a model. Schedules that no published run used are drafted
// only if Request::unmeasured is set.
//
// If weights are gathered once a step, the ZeRO stage and the division of the
// data-parallel devices into dp and fsdp hardly change the time. Of pipelines
// that differ only in these two choices, only the one that needs the least
// memory is returned. If several need the same memory, it is the one with the
// shortest expected time, then the one with the lowest ZeRO stage.
PipelineDrafts DraftPipelines(const Request& request, const SettingsGrid& grid,
                              RuleOptions& options, Base base,
                              const std::string& axis,
                              const Deadline& deadline);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_PIPELINES_H_
