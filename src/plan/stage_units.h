// Divides a model into units. A pipeline stage has consecutive units: the first
// unit (the embeddings), each layer, and the last unit (the final norm and the
// head).
#ifndef SHARDC_PLAN_STAGE_UNITS_H_
#define SHARDC_PLAN_STAGE_UNITS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/mesh.h"
#include "model/project.h"
#include "plan/compile.h"
#include "plan/plan_stages.h"
#include "schedule/table.h"
#include "source/finding.h"

namespace shardc {

// A request to divide a model into stages: the axis, the schedule's table and
// the number of layers of each stage. The values are from a `stages:` section
// and from flags, which override the section.

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

// The layers that the tensors of one layer stack hold.
struct LayerStackRange {
  int dim = 0;
  int64_t first = 0;  // The index in the model of the stack's first layer.
  int64_t layers = 0;
  // Over how many dimensions, from `dim` on, the layers extend: 1, or 3 for
  // [virtual stages, ranks, layers of a stage].
  int dims = 1;
};

struct StageUnits {
  static constexpr int64_t kStacked = -1;

  int64_t layers = 0;
  // Indexed by parameter: its unit, which is 0 for the first unit, 1 + l for
  // layer l, and layers + 1 for the last unit. kStacked marks a tensor that
  // holds several layers.
  std::vector<int64_t> of;
  // Indexed by parameter: whether the last unit needs this parameter of the
  // first unit, because the head and the embedding are the same tensor.
  std::vector<bool> tied;
  std::vector<LayerStackRange> stacks;
  // Indexed by parameter: its index in `stacks`, if `of` is kStacked. Empty
  // without stacks.
  std::vector<uint32_t> stack_of;

  int64_t count() const { return layers + 2; }
  // Returns the stack of a parameter, or null if the parameter is in no stack.
  const LayerStackRange* StackOf(size_t param) const {
    return of[param] == kStacked ? &stacks[stack_of[param]] : nullptr;
  }
};

// Finds the unit of each parameter by the patterns of the request's
// declaration. Without a pattern, the layer's number in the name is used. On
// failure, returns nullopt and adds a finding with one of these codes:
// - parameter-outside-stages or layer-without-stage
// - limit, if the model has too many layers
// - usage, if the names have no layers, or if layers are counted under two
//   prefixes such as `encoder.block` and `decoder.block`
// - a code of a malformed pattern
std::optional<StageUnits> StageUnitsOf(const Compiled& compiled,
                                       const StageRequest& request,
                                       Findings& findings);

// Returns the mesh of one stage: the axis of the stages has size 1, and the
// devices, processes and slices are one stage's share. Returns `mesh` if it
// lacks the axis.
Mesh StageMesh(const Mesh& mesh, const std::string& axis);

struct ScheduleRequest {
  std::string name;  // The name of a schedule, or the path of a file.
  bool is_file = false;
  std::optional<int32_t> ranks, virtual_stages, microbatches;
  Place place;          // The place of the schedule's name.
  Place virtual_place;  // The place of the number of virtual stages.
  // True if a file declares the schedule. Messages then name the keys of the
  // file instead of flags.
  bool declared = false;
};

// Makes the schedule's table of tasks, or reads it from a file. If `ranks` is
// nullopt, a schedule that is not read from a file gets one rank. If
// `microbatches` is nullopt, the schedule gets two micro-batches for each rank,
// or the nearest number that the schedule allows. On failure, returns nullopt
// and adds a finding. Its code is usage, unknown-name, limit or
// schedule-refuses, or a code of reading the file.
std::optional<schedule::Table> MakeScheduleTable(const ScheduleRequest& request,
                                                 Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_STAGE_UNITS_H_
