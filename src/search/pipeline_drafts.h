// Drafts pipelines: computes a lower bound of the time of each. The bounds
// decide in which order pipelines are evaluated.
#ifndef SHARDC_SEARCH_PIPELINE_DRAFTS_H_
#define SHARDC_SEARCH_PIPELINE_DRAFTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/mesh.h"
#include "search/deadline.h"
#include "search/evidence.h"
#include "search/request.h"
#include "search/rule_options.h"
#include "search/settings_grid.h"

namespace shardc::search {

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

#endif  // SHARDC_SEARCH_PIPELINE_DRAFTS_H_
