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
// of its bubble, and the number of chunks that a rank keeps. A chunk is a stage
// of a rank.
struct ScheduleBound {
  std::string_view name;
  int32_t least_chunks = 1, most_chunks = 1;  // of a rank
  bool measured = false;                      // whether published runs have it
  // The least bubble, as a fraction of the bubble of 1f1b with as many waiting
  // ranks.
  double bubble = 1;
  // Returns the number of ranks for which the last rank to begin waits.
  int64_t (*waits_for)(int64_t ranks) = nullptr;
  // Returns the largest number of chunks whose activations a rank keeps at the
  // same time.
  int64_t (*kept)(int64_t ranks, int64_t chunks, int64_t micro) = nullptr;
  int64_t copies = 1;  // of the parameters, over all ranks
  // The fraction of a micro-batch's tasks of which each needs the result of the
  // one before: all, or all but the gradients of weights.
  double chain = 1;
};

// Returns the schedules that are searched. The schedules of published runs come
// first.
std::span<const ScheduleBound> ScheduleBounds();

struct PipelineDraft {
  double bound = 0;  // the seconds that a step takes at least
  // Like `bound`, but with what attention sends if the sequence is divided, and
  // with the bubble that results if every chunk takes as long as the chunk with
  // the most layers.
  double expected = 0;
  double bytes = 0;       // that the fullest rank is expected to take at least
  uint32_t option = 0;    // of RuleOptions
  uint32_t mesh = 0;      // of PipelineDrafts
  uint32_t schedule = 0;  // of ScheduleBounds
  int32_t chunks = 1;     // stages on a rank
  size_t setting = 0;     // of the grid
};

struct PipelineDrafts {
  struct StagedMesh {
    Mesh mesh;  // with the axis of stages, which is the first
    AxisSizes sizes;
  };
  std::vector<StagedMesh> meshes;
  std::vector<PipelineDraft> all;  // in ascending order of `expected`
  bool finished = true;            // false: the deadline passed before

  int64_t RanksOf(const PipelineDraft& one) const {
    return meshes[one.mesh].mesh.axes.front().size;
  }
};

// Drafts the pipelines of a base that may fit, for every number of ranks above
// one that divides the devices and is at most the number of layers. If weights
// are gathered once a step, pipelines that differ only in how the data is
// divided between replicas and fully sharded data, and in the ZeRO stage, take
// nearly equal times; of these only the one with the fewest bytes, and of equal
// ones the lowest stage. `axis` is the name of the axis of stages. The
// request's model must be given. Schedules that no published run has are
// drafted only if Request::unmeasured is set.
PipelineDrafts DraftPipelines(const Request& request, const SettingsGrid& grid,
                              RuleOptions& options, Base base,
                              const std::string& axis,
                              const Deadline& deadline);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_PIPELINE_DRAFTS_H_
