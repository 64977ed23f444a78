// A request to divide a model into stages: the axis, the schedule's table and
// the number of layers of each stage. The values are from a `stages:` section
// and from flags, which override the section.
#ifndef SHARDC_PLAN_STAGES_H_
#define SHARDC_PLAN_STAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/mesh.h"
#include "model/stages.h"
#include "schedule/table.h"
#include "source/finding.h"

namespace shardc {

// The largest number of ranks that a pipeline may have. A plan with stages sums
// the bytes of each rank, so the memory for reading one grows with the number
// of ranks.
inline constexpr int64_t kMostStageRanks = int64_t{1} << 20;

// How layers are divided if the number of layers of each stage is not stated.
enum class StageBalance : uint8_t {
  kEven,
  // The stages get sizes that are as equal as possible. A stage's size counts
  // the weights that are multiplied with the activations of a token.
  kWeights,
  // The cost model computes the times of tasks. A search then looks for the
  // division of the layers with the shortest step.
  kSearched,
};

struct StageRequest {
  std::string axis;
  schedule::Table table;
  // The number of layers of each stage; if empty, `balance` applies.
  std::vector<int64_t> layers;
  StageBalance balance = StageBalance::kEven;
  // Whether the first and the last stage may each hold a copy of the embedding
  // that the head shares.
  bool copies = true;
  // The `stages:` section, whose patterns assign names to stages. nullopt if no
  // file has such a section.
  std::optional<StageDeclaration> declared;
  Place axis_place, layers_place, tied_place;
  std::string layers_name = "`--assign`";  // The name of `layers` in messages.
};

// Returns the number of ranks of the pipeline, which is the size of the axis.
// Returns nullopt and adds a finding if the mesh lacks the axis (usage), or if
// the axis has more than kMostStageRanks ranks (limit).
std::optional<int32_t> StageRanks(const Mesh& mesh, const std::string& axis,
                                  const Place& place, Findings& findings);

// Returns the request that a `stages:` section declares. `microbatches`
// overrides the section's number, unless it is nullopt. If StageRanks or
// MakeScheduleTable fails, returns nullopt after their finding.
std::optional<StageRequest> DeclaredRequest(const StageDeclaration& declared,
                                            const Mesh& mesh,
                                            std::optional<int32_t> microbatches,
                                            Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_STAGES_H_
