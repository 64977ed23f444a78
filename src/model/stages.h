// The `stages:` section of rules and project files: how the layers of a model
// are divided into the stages of a pipeline.
//
//   stages: {axis: pp, virtual: 2, schedule: interleaved, microbatches: 32}
#ifndef SHARDC_MODEL_STAGES_H_
#define SHARDC_MODEL_STAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/rules.h"
#include "source/source.h"

namespace shardc {

// How the number of layers of each stage is chosen.
enum class StageAssignment : uint8_t {
  kCost,    // The time of the longest stage is minimised.
  kEven,    // The numbers of layers of two stages differ by at most one.
  kListed,  // The file lists the number of layers of each stage.
};

// A pattern for parameters that hold scanned layers: all layers of the model,
// or all layers of one of its layer stacks.
struct StackedLayers {
  NamePattern match;
  // The dimension that counts the layers, or the first of three that count
  // them: [virtual stages, ranks, layers of a stage].
  int dim = 0;
};

// The keys of a `stages:` section. A key that the file leaves out is empty. The
// members `*_place` are the places of the keys' values.
struct StageDeclaration {
  // The mesh axis of the pipeline, whose size is the number of ranks.
  std::string axis;
  // A pattern for the names of layers' parameters, whose first group is the
  // number of the layer.
  std::optional<NamePattern> layers;
  // Patterns for the parameters that belong before the first layer, such as the
  // embedding, or after the last layer.
  std::optional<std::vector<NamePattern>> first, last;
  std::optional<int32_t> virtual_stages;  // The number of stages on each rank.
  std::optional<StageAssignment> assign;
  // With kListed, the number of layers of each stage.
  std::vector<int64_t> listed;
  // Whether the rank of the output head may hold a copy of the embedding table
  // that the head shares with the first stage.
  std::optional<bool> copies;
  // The name of a schedule, or the path of a schedule file relative to the
  // working directory.
  std::string schedule;
  bool schedule_is_file = false;
  std::optional<int32_t> microbatches;
  // The layer stacks, in the order in which the model runs them.
  std::optional<std::vector<StackedLayers>> stacked;

  Place place;  // place of the section
  Place axis_place, virtual_place, assign_place, tied_place, schedule_place;
};

// Copies each key that `nearer` lacks from `farther`. `layers` and `stacked`
// are copied only if `nearer` has neither. A project file is nearer than its
// rules files, and a rules file nearer than the files that it extends.
void CompleteStages(StageDeclaration& nearer, const StageDeclaration& farther);

}  // namespace shardc

#endif  // SHARDC_MODEL_STAGES_H_
