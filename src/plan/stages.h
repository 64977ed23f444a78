// What divides a model into stages: the axis, the schedule's table and the
// number of layers, from a `stages:` section and the flags that win over it.
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
// the bytes of each rank, so the memory to read one grows with their number.
inline constexpr int64_t kMostStageRanks = int64_t{1} << 20;

// How layers are divided if their numbers are not given.
enum class StageBalance : uint8_t {
  kEven,
  kWeights,   // by the sizes of the weights that a token is multiplied with
  kSearched,  // by the times of tasks, which only the cost model knows
};

struct StageRequest {
  std::string axis;
  schedule::Table table;
  std::vector<int64_t> layers;  // of each stage; empty: by `balance`
  StageBalance balance = StageBalance::kEven;
  bool copies = true;  // of the embedding that the head shares
  // The `stages:` section, whose patterns state which stage a parameter belongs
  // to by its name; nullopt if no file has such a section.
  std::optional<StageDeclaration> declared;
  Place axis_place, layers_place, tied_place;
  std::string layers_name = "`--assign`";  // what gives `layers`
};

// Returns the number of ranks of the pipeline. Returns nullopt and adds a
// finding if the mesh lacks the axis (usage), or if the axis has more ranks
// than the table of a schedule can have (limit).
std::optional<int32_t> StageRanks(const Mesh& mesh, const std::string& axis,
                                  const Place& place, Findings& findings);

// The stages that a file declares. `microbatches` win over the section's.
// Findings: those of StageRanks and of the schedule.
std::optional<StageRequest> DeclaredRequest(const StageDeclaration& declared,
                                            const Mesh& mesh,
                                            std::optional<int32_t> microbatches,
                                            Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_STAGES_H_
