// Lower bounds of the times of pipelines, which decide the order in which
// pipelines are evaluated.
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

// Facts about a schedule that are known before it is simulated: a lower bound
// of its bubble, and the number of chunks that a rank keeps. A chunk is one of
// the stages of a rank.
struct ScheduleBound {
  std::string_view name;
  int32_t least_chunks = 1, most_chunks = 1;  // per rank
  bool measured = false;                      // whether published runs have it
  // The least bubble, as a fraction of the bubble of 1f1b in which the same
  // number of ranks wait.
  double bubble = 1;
  // Returns for how many other ranks the rank that starts last has to wait.
  int64_t (*waits_for)(int64_t ranks) = nullptr;
  // Returns the largest number of chunks whose activations a rank keeps at the
  // same time.
  int64_t (*kept)(int64_t ranks, int64_t chunks, int64_t micro) = nullptr;
  int64_t copies = 1;  // of the parameters, over all ranks
  // The fraction of a micro-batch's tasks that form a chain, in which each task
  // needs the result of the one before: 1, or less if gradients of weights are
  // not in the chain.
  double chain = 1;
};

// Returns the schedules that are searched. The schedules of published runs come
// first.
std::span<const ScheduleBound> ScheduleBounds();

struct PipelineDraft {
  double bound = 0;  // a lower bound of the seconds of a step
  // The bound, plus what attention sends if the sequence is sharded, and with
  // the bubble that results if every chunk takes as long as the chunk with the
  // most layers.
  double expected = 0;
  double bytes = 0;       // a lower bound of the fullest rank's bytes
  uint32_t option = 0;    // index into RuleOptions
  uint32_t mesh = 0;      // index into PipelineDrafts::meshes
  uint32_t schedule = 0;  // index into ScheduleBounds()
  int32_t chunks = 1;     // stages of a rank
  size_t setting = 0;     // index into the grid
};

struct PipelineDrafts {
  struct StagedMesh {
    Mesh mesh;  // its first axis is the axis of stages
    AxisSizes sizes;
  };
  std::vector<StagedMesh> meshes;
  std::vector<PipelineDraft> all;  // in ascending order of `expected`
  bool finished = true;            // false if the deadline passed before

  int64_t RanksOf(const PipelineDraft& one) const {
    return meshes[one.mesh].mesh.axes.front().size;
  }
};

// Drafts the pipelines of a base that may fit, for every number of ranks above
// one that divides the devices and is at most the number of layers. If weights
// are gathered once a step, pipelines take nearly equal times if they differ
// only in the ZeRO stage and in how the data axes are divided into replicas and
// fully sharded data. Of such pipelines, only the one with the fewest bytes is
// drafted, or of several the one with the lowest stage. `axis` is the name of
// the axis of stages. The request's model must be given. Schedules that no
// published run has are drafted only if Request::unmeasured is set.
PipelineDrafts DraftPipelines(const Request& request, const SettingsGrid& grid,
                              RuleOptions& options, Base base,
                              const std::string& axis,
                              const Deadline& deadline);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_PIPELINE_DRAFTS_H_
